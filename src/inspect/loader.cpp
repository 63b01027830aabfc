// SPDX-License-Identifier: Apache-2.0
#include "inspect/loader.hpp"

#include <vector>

#include "holdfast/detail/concat.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/sorted_index.hpp"
#include "inspect/description.hpp"
#include "inspect/lasting_name.hpp"
#include "inspect/load_job.hpp"

namespace holdfast::inspect {

namespace {

[[nodiscard]] std::optional<table_schema> stored_schema(const description& d) {
    if (!d.schema || !d.schema->key) return std::nullopt;
    return table_schema::make(*d.schema, d.contents.range_end);
}

/// What the segment is made for; nothing when there is none. Throws: when it cannot be loaded into.
[[nodiscard]] std::optional<load_target> existing_target(const description& d) {
    if (!d.info) {
        if (d.problem && d.problem->code != errc::not_found)
            throw error(d.problem->code, d.uri, d.problem->text + ", or remove it first (holdfast rm)");
        return std::nullopt;
    }
    if (d.problem) throw error(d.problem->code, d.uri, d.problem->text + ", or remove it first (holdfast rm)");
    switch (d.info->kind) {
        case container_kind::hash_table: return load_target::hash_table;
        case container_kind::snapshot:
            if (d.contents.payload == container_kind::sorted_index) return load_target::snapshot;
            throw error(errc::kind_mismatch, d.uri, "the snapshot holds no sorted index; load into another name");
        case container_kind::sorted_index:
            throw error(errc::already_exists, d.uri,
                        "a sorted_index is made once and never changed; remove it first (holdfast rm), or load "
                        "--into snapshot under another name to replace it under its readers");
        default:
            throw error(errc::kind_mismatch, d.uri,
                        detail::concat("a ", kind_name(d.info->kind), " cannot be loaded; choose another name"));
    }
}

[[nodiscard]] load_target chosen_target(const load_job& job, const std::optional<load_target>& existing) {
    const load_target wanted = job.options.into;
    if (!existing) {
        if (wanted != load_target::automatic) return wanted;
        return job.schema().range_end ? load_target::snapshot : load_target::hash_table;
    }
    if (wanted != load_target::automatic && wanted != *existing)
        throw error(errc::kind_mismatch, job.uri,
                    "the segment exists and is of another kind than --into says; leave --into out, or choose another "
                    "name");
    if (*existing == load_target::hash_table && !job.options.merge)
        throw error(errc::already_exists, job.uri,
                    "the table exists; say --merge to add the file's records to it, or remove it first (holdfast rm)");
    return *existing;
}

/// Refuses a file of another schema than the segment's.
void require_same(const load_job& job, const table_schema& stored) {
    std::string why;
    if (compare(stored.schema, job.schema().schema, why) != schema_relation::same)
        throw error(errc::schema_mismatch, job.uri, why + "; load with the stored schema, or into another name");
    if (stored.range_end != job.schema().range_end)
        throw error(errc::schema_mismatch, job.uri,
                    detail::concat("the stored ranges end in ", stored.range_end.value_or("no field"),
                                   ", the file's in ", job.schema().range_end.value_or("no field"), "; use the same"));
}

}  // namespace

load_report load(std::string_view uri, const std::string& file, const load_options& options) {
    require_lasting(uri);
    const description d = describe(uri);
    const std::optional<load_target> existing = existing_target(d);
    const std::optional<table_schema> stored = existing ? stored_schema(d) : std::nullopt;
    line_input lines(file);
    const file_format format = options.format.value_or(format_of(file));
    load_job job(d.uri, lines, format, options, stored);
    if (stored) require_same(job, *stored);
    job.report.created = !existing;
    const load_target target = chosen_target(job, existing);
    if (options.writer_slots != 0 && (existing || target != load_target::hash_table))
        throw error(errc::invalid_argument, job.uri,
                    "writer slots are chosen when a hash table is made; leave them out here");
    switch (target) {
        case load_target::automatic:
        case load_target::hash_table: load_table(job); break;
        case load_target::sorted_index: load_index(job); break;
        case load_target::snapshot: load_snapshot(job); break;
    }
    return job.report;
}

void append_json(json_out& out, const load_report& report) {
    out.begin_object().member("uri", report.uri).member("kind", kind_name(report.kind));
    out.member("created", report.created).member("records", report.records).member("skipped", report.skipped);
    out.member("version", report.version).member("bytes", report.bytes).end_object();
}

}  // namespace holdfast::inspect
