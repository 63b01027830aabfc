// SPDX-License-Identifier: Apache-2.0
// block_saver.cpp - block stores in saved files. The parameters of saved_header:
//   block_store  0 units, 1 unit_bytes, 2 the last serial given out
// A value is its handle, its bytes and the number of its runs (u64 each), a word for each run (first unit | units <<
// 32), and its bytes. It is restored under its handle, in its own units, so whoever keeps handles elsewhere finds it.
//
// (I1) What comes while a store is saved is left out, so no serial of the file lies behind the last one given out that
//      its header names, and no two values claim one unit. Where they do all the same, the later one stands.
#include <algorithm>
#include <vector>

#include "holdfast/block_store.hpp"
#include "inspect/kind_savers.hpp"
#include "inspect/saver_parts.hpp"

namespace holdfast::inspect {

namespace {

struct saved_value {
    std::uint64_t handle = 0;
    std::uint64_t bytes = 0;
    std::uint64_t runs = 0;
};

/// A value as it lies in the store.
struct value_copy {
    saved_value head;
    std::vector<std::uint64_t> runs;
    std::vector<std::byte> payload;
};

/// Copies a value. Returns: ok; stale, when it went meanwhile; corrupt.
[[nodiscard]] outcome copy_value(const detail::block_view<const std::byte>& view, std::uint64_t handle,
                                 value_copy& into) {
    into.runs.clear();
    into.payload.clear();
    const std::uint64_t head = view.index_of(handle);
    const auto bytes = detail::shared_load<std::uint64_t>(view.unit(head));
    const auto first = detail::shared_load<std::uint64_t>(view.unit(head) + layout::block_head_run_offset);
    const bool whole = view.for_each_run(head, bytes, first, [&](const detail::block_run<const std::byte>& run) {
        into.runs.push_back(run.first | run.units << 32);
        const std::size_t at = into.payload.size();
        into.payload.resize(at + run.payload.size());
        detail::copy_from_shared(into.payload.data() + at, run.payload.data(), run.payload.size());
        return view.still(handle);  // bounds what is copied of a value that has gone
    });
    if (!view.still(handle)) return outcome::stale;
    into.head = {handle, bytes, into.runs.size()};
    return whole ? outcome::ok : outcome::corrupt;
}

/// The last operation of a store as its record has it. Throws: corrupt; contended where its writer left no quiet
/// moment: without the last serial, handles that were freed would be given out again by a copy.
[[nodiscard]] detail::block_state state_of(const segment& s, const detail::block_view<const std::byte>& view) {
    for (unsigned attempts = 1000; attempts > 0; --attempts) {
        const detail::block_state state = view.state();
        if (!state.undisturbed) continue;
        if (!state.sound) require_no_fault(s, errc::corrupt);
        return state;
    }
    require_no_fault(s, errc::contended);
    return {};
}

/// Tells values that came after the save began. They are left out: the serial that the file names as the last would
/// let the copy give their handles out again.
class newcomers {
 public:
    newcomers(const segment& s, const detail::block_view<const std::byte>& view, std::uint64_t last) noexcept
        : segment_(s), view_(view), last_(last) {}
    [[nodiscard]] bool include(std::uint64_t handle) {
        // Serials go round, so what matters is how far one is ahead.
        const std::uint64_t ahead = distance_to(view_.serial_of(handle));
        if (ahead > given_out_ && ahead != 0)
            given_out_ = distance_to(state_of(segment_, view_).record.word[detail::block_record::serial]);
        return ahead != 0 && ahead <= given_out_;
    }

 private:
    [[nodiscard]] std::uint64_t distance_to(std::uint64_t serial) const noexcept {
        return serial >= last_ ? serial - last_ : serial + view_.serial_max() - last_;
    }
    const segment& segment_;
    const detail::block_view<const std::byte>& view_;
    std::uint64_t last_;
    std::uint64_t given_out_ = 0;  // since the save began
};

/// Puts values back where they were, in bytes that nobody else has yet.
class block_restorer {
 public:
    block_restorer(saved_reader& file, const detail::block_view<std::byte>& view)
        : file_(file), from_(file), view_(view) {}

    void run(const save_progress& progress) {
        for (std::uint64_t values = 1; from_.more(); ++values) {
            restore_value();
            if (progress && values % items_between_reports == 0) progress(values);
        }
        finish();
    }

 private:
    struct run_place {
        std::uint64_t first, units;
    };

    void restore_value() {
        const std::uint64_t at = from_.offset();
        const auto head = from_.read<saved_value>();
        if (!view_.is_handle(head.handle) || head.bytes > view_.geometry().value_bytes_max() || head.runs == 0 ||
            head.runs > view_.units())
            refuse_contents(file_, at, "a value has no place in its store");
        std::vector<run_place> runs;
        std::uint64_t units = 0;
        for (std::uint64_t i = 0; i < head.runs; ++i) {
            const auto word = from_.read<std::uint64_t>();
            const run_place place{word & 0xffffffff, word >> 32};
            if (place.units == 0 || place.first >= view_.units() || place.units > view_.units() - place.first)
                refuse_contents(file_, at, "a value has no place in its store");
            units += place.units;
            runs.push_back(place);
        }
        if (runs.front().first != view_.index_of(head.handle) || units > view_.units())
            refuse_contents(file_, at, "a value has no place in its store");
        clear_units(at, head.handle, runs);
        write_runs(head, runs);
        seal(at, head);
    }

    /// Takes values out that were there before (I1), and stamps the units.
    void clear_units(std::uint64_t at, std::uint64_t handle, const std::vector<run_place>& runs) {
        for (const run_place& run : runs)
            for (std::uint64_t i = run.first; i < run.first + run.units; ++i) {
                const std::uint64_t word = view_.word(i);
                if (word == handle) refuse_contents(file_, at, "the runs of a value overlap");
                if (view_.in_use(i)) detail::retire(view_, word);
                detail::store_release<std::uint64_t>(view_.word_at(i), handle);
            }
    }

    void write_runs(const saved_value& head, const std::vector<run_place>& runs) {
        detail::shared_store<std::uint64_t>(view_.unit(runs.front().first), head.bytes);
        for (std::size_t i = 0; i < runs.size(); ++i) {
            const std::uint64_t next = i + 1 == runs.size() ? layout::block_no_run : runs[i + 1].first;
            detail::shared_store<std::uint64_t>(
                view_.unit(runs[i].first) + (i == 0 ? layout::block_head_run_offset : std::size_t{0}),
                layout::block_run_word(runs[i].units, next));
        }
    }

    void seal(std::uint64_t at, const saved_value& head) {
        const std::uint64_t first = view_.index_of(head.handle);
        std::uint64_t sum = detail::block_sum_begin(head.handle, head.bytes);
        const bool whole = view_.for_each_run(first, [&](const detail::block_run<std::byte>& run) {
            from_.read(run.payload);
            sum = detail::block_sum_run(sum, run);
        });
        if (!whole) refuse_contents(file_, at, "the runs of a value do not fit its size");
        detail::shared_store<std::uint64_t>(view_.unit(first) + layout::block_head_checksum_offset, sum);
    }

    /// A record of an operation that brought and took nothing, and is complete: the counts.
    void finish() {
        const detail::block_counts counts = detail::count_units(view_);
        // Not the greatest that a value has: serials go round, and those between have been given out and freed.
        const std::uint64_t serial = file_.header().parameters[2];
        if (serial > view_.serial_max() || (serial == 0 && counts.values != 0))
            refuse_contents(file_, "its last serial is out of range");
        if (serial == 0) return;  // an empty store is all zero
        constexpr std::uint64_t operation = 1;
        detail::block_record record{{0, 0, counts.units, counts.values, 0, serial, 0, 0}};
        record.word[detail::block_record::sum] = record.sum_as(operation);
        for (std::size_t i = 0; i < layout::block_record_words; ++i)
            detail::store_release<std::uint64_t>(view_.record_at(operation) + 8 * i, record.word[i]);
        detail::complete(view_, operation);
    }

    saved_reader& file_;
    section_stream from_;
    detail::block_view<std::byte> view_;
};

}  // namespace

saved_writer save_blocks(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                         const save_progress& progress) {
    const layout::block_store_geometry g = detail::block_store_geometry_of(*s);
    if (g.writer_slots != 0)
        throw error(
            errc::unsupported, s->uri(),
            "stores of many writers are not saved: their handles name writers, and a copy with one writer would "
            "give them out again; keep the file of a file: segment, or copy the values");
    const detail::block_view<const std::byte> view(s->bytes(), g);
    const detail::block_reader_core reader(view);
    saved_header header = header_of(*s);
    const detail::block_state state = state_of(*s, view);
    header.parameters = {g.units, g.unit_bytes, state.record.word[detail::block_record::serial]};
    newcomers came(*s, view, header.parameters[2]);
    saved_writer file(out, header, s->info().schema);
    value_copy value;
    // A value that was being replaced when its writer died: the next writer takes it out.
    const std::uint64_t replaced = state.replacing() ? state.record.word[detail::block_record::take] : 0;
    for (std::uint64_t cursor = 0;;) {
        const std::uint64_t handle = reader.next_value(cursor);
        if (handle == 0) return file;
        cursor = view.index_of(handle) + 1;
        if (handle == replaced || came.include(handle)) continue;
        const outcome copied = copy_value(view, handle, value);
        if (copied == outcome::corrupt) require_no_fault(*s, errc::corrupt);
        if (copied != outcome::ok) continue;
        file.add(std::as_bytes(std::span(&value.head, 1)), 0);
        file.add(std::as_bytes(std::span(value.runs)), 0);
        if (!value.payload.empty()) file.add(value.payload, 0);
        file.count(1);
        if (progress && file.items() % items_between_reports == 0) progress(file.items());
    }
}

segment restore_blocks(saved_reader& file, std::string_view uri, const restore_options& options) {
    segment_spec spec;
    spec.kind = container_kind::block_store;
    spec.container_version = layout::block_store_version;
    spec.schema = file.schema();
    const std::uint64_t units = file.header().parameters[0];
    const std::uint64_t unit_bytes = file.header().parameters[1];
    if (units == 0 || units > layout::block_units_max || unit_bytes == 0 || unit_bytes > layout::block_unit_bytes_max)
        refuse_contents(file, "its numbers are no store's");
    const layout::block_store_geometry wanted{units, unit_bytes};
    layout::block_store_geometry geometry;
    spec.geometry = layout::geometry_words_of(wanted);
    spec.body_bytes = wanted.body_bytes();
    if (const char* why = layout::read_block_store_geometry(spec.geometry, spec.body_bytes, geometry))
        refuse_contents(file, why);
    return segment::create(uri, spec, options.create, [&](std::span<std::byte> body) {
        block_restorer(file, detail::block_view<std::byte>(body, geometry)).run(options.progress);
    });
}

}  // namespace holdfast::inspect
