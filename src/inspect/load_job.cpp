// SPDX-License-Identifier: Apache-2.0
#include "inspect/load_job.hpp"

#include "holdfast/detail/concat.hpp"
#include "holdfast/sorted_index.hpp"
#include "inspect/problem.hpp"

namespace holdfast::inspect {

load_job::load_job(std::string segment, line_input& lines, file_format format, const load_options& chosen,
                   const std::optional<table_schema>& stored)
    : uri(std::move(segment)), options(chosen), input_(lines), records_(lines, format, chosen.schema, stored) {
    report.uri = uri;
}

bool load_job::next() {
    constexpr std::uint64_t lines_per_report = 4096;
    for (;;) {
        if (options.on_progress && (report.records + report.skipped) % lines_per_report == 0)
            options.on_progress({report.records, input_.bytes_read(), input_.bytes_total()});
        switch (records_.next()) {
            case record_input::outcome::record: ++report.records; return true;
            case record_input::outcome::end: return false;
            case record_input::outcome::bad: break;
        }
        if (!options.skip_bad) throw input_error(records_.fault());
        ++report.skipped;
        if (options.on_bad) options.on_bad(records_.fault());
    }
}

void load_job::refuse(std::uint64_t record, std::string reason) const {
    throw input_error({input_.name(), record < line_of.size() ? line_of[record] : 0, 0, std::move(reason)});
}

std::uint64_t load_job::capacity() const {
    constexpr std::uint64_t least = 16;
    const std::uint64_t enough = report.records + report.records / 4 + least;
    if (options.capacity == 0) return enough;
    if (options.capacity < report.records)
        throw error(errc::invalid_argument, uri,
                    detail::concat("the file has ", report.records, " records, more than --capacity ", options.capacity,
                                   "; raise it"));
    return options.capacity;
}

namespace {

[[nodiscard]] dynamic_sorted_index_builder build_index(load_job& job) {
    const index_shape shape = index_shape::of(job.schema().schema, job.schema().range_end.value_or(""));
    dynamic_sorted_index_builder builder(shape);
    job.read_all([&](auto key, auto value) { builder.add(key, value); });
    try {
        builder.finish();
    } catch (const sorted_index_error& failure) {
        std::string reason = problem_of(failure).text;
        if (failure.other() && *failure.other() < job.line_of.size()) {
            // The builder counts records; people count lines.
            const std::string record = detail::concat("record ", *failure.other());
            if (const std::size_t at = reason.find(record); at != std::string::npos)
                reason.replace(at, record.size(), detail::concat("line ", job.line_of[*failure.other()]));
        }
        job.refuse(failure.record(),
                   reason.starts_with("its ") ? "the record's " + reason.substr(4) : "the record " + reason);
    }
    return builder;
}

void require_published(const load_job& job, const publish_result& result, std::uint64_t bytes, std::uint64_t room) {
    switch (result.status) {
        case outcome::ok: return;
        case outcome::too_large:
            throw error(errc::no_space, job.uri,
                        detail::concat("the new index has ", bytes, " bytes, a version of this snapshot at most ", room,
                                       "; remove it (holdfast rm) and load with a greater --capacity"));
        case outcome::full:
            throw error(errc::no_space, job.uri,
                        "registered readers hold every old version; try again when one has moved on (holdfast who)");
        default: throw error(errc::io, job.uri, "the snapshot took no new version; try again");
    }
}

}  // namespace

void load_index(load_job& job) {
    dynamic_sorted_index_builder builder = build_index(job);
    const segment made = create_sorted_index(job.uri, job.schema().schema, builder, job.options.create);
    job.report.kind = container_kind::sorted_index;
    job.report.bytes = made.info().total_bytes;
}

void load_snapshot(load_job& job) {
    std::optional<dynamic_sorted_index_publisher> publisher;
    // Taken before the file is read: a living writer is told at once, not after a minute.
    if (!job.report.created) publisher = dynamic_sorted_index_publisher::attach(job.uri, job.options.attach);
    dynamic_sorted_index_builder builder = build_index(job);
    if (publisher && job.line_of.empty() && !job.options.allow_empty)
        throw error(errc::invalid_argument, job.uri,
                    "the file has no records and would empty the index that is served; look at the file, or say "
                    "--allow-empty");
    if (!publisher) {
        sorted_index_publisher_options wanted;
        wanted.records_max = job.capacity();
        wanted.slots = job.options.slots;
        wanted.pinned_readers = job.options.pinned_readers;
        wanted.segment = job.options.create;
        publisher = dynamic_sorted_index_publisher::create(job.uri, job.schema().schema,
                                                           job.schema().range_end.value_or(""), wanted);
    }
    const publish_result result = publisher->publish(builder);
    require_published(job, result, builder.image_bytes(), publisher->writer().slot_bytes());
    job.report.kind = container_kind::snapshot;
    job.report.version = result.version;
    job.report.bytes = publisher->writer().segment().info().total_bytes;
}

}  // namespace holdfast::inspect
