// SPDX-License-Identifier: Apache-2.0
// block_saver.cpp - block stores in saved files. The parameters of saved_header:
//   block_store  0 units, 1 unit_bytes, 2 the last serial given out, 3 writer slots (0: of one writer)
// Of many writers the contents begin with the last serial of each slot (u64; 0: none), and parameter 2 is 0.
// A value is its handle, its bytes and the number of its runs (u64 each), a word for each run (first unit | units <<
// 32), and its bytes. It is restored under its handle, in its own units, so whoever keeps handles elsewhere finds it.
//
// (I1) What comes while a store is saved is left out, so no serial of the file lies behind the last one of its writer
//      that the file names, and no two values claim one unit. Where they do all the same, the later one stands.
#include <algorithm>
#include <vector>

#include "holdfast/block_store.hpp"
#include "inspect/block_journals.hpp"
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

using store_slots = detail::block_slots<const std::byte>;

/// A writer as its journal has it.
struct writer_state {
    std::uint64_t serial = 0;    // the last that it gave out; 0: none
    std::uint64_t replaced = 0;  // the value that goes for one that has come; 0: none
    std::uint64_t coming = 0;    // the handle of one that it may yet commit; 0: none
};

/// The handle of a value that the writer is to commit, and has not: its number is given out already. Of many writers
/// that is what is claimed. Requires: the state is sound.
[[nodiscard]] std::uint64_t coming_of(const store_slots& slots, std::uint64_t writer,
                                      const detail::block_state& state) {
    const std::uint64_t add = state.record.word[detail::block_record::add];
    const std::uint64_t claim = slots.slots() == 0 ? 0 : slots.claimed(writer);
    // While the selector stays no other value comes than the one that the record brings.
    if (claim == 0 || claim == add) return state.add_live ? 0 : add;
    return slots.view().word(slots.view().index_of(claim)) == claim ? 0 : claim;
}

/// Throws: corrupt; contended where the writer left no quiet moment: without the last serial, handles that were freed
/// would be given out again by a copy.
[[nodiscard]] writer_state state_of(const segment& s, const store_slots& slots, std::uint64_t writer) {
    const bool many = slots.slots() != 0;
    for (unsigned attempts = 1000; attempts > 0; --attempts) {
        const detail::block_state state = many ? slots.state(writer) : slots.view().state();
        if (!state.undisturbed) continue;
        if (!state.sound) require_no_fault(s, errc::corrupt);
        const std::uint64_t number =
            many ? slots.last_number(writer, state.record) : state.record.word[detail::block_record::serial];
        // Behind the number: a claim that was made since then has a later one.
        const std::uint64_t coming = coming_of(slots, writer, state);
        if (many && slots.selector(writer) != state.selector) continue;
        return {number == 0 ? 0 : slots.serial(writer, number),
                state.replacing() ? state.record.word[detail::block_record::take] : 0, coming};
    }
    require_no_fault(s, errc::contended);
    return {};
}

/// Tells which values a copy is to have: those that were there when the save began, but for those that were being
/// replaced then. Whoever replaces them takes them out, the next writer for one that was killed. What came later is
/// left out: the serial that the file names as the last of its writer would let the copy give its handle out again. So
/// is what was claimed when the save began, though its number was given out by then: a copy that has the value and not
/// what its writer did with the handle would keep its units for ever.
class chosen_values {
 public:
    chosen_values(const segment& s, const store_slots& slots) : segment_(s), slots_(slots) {
        for (std::uint64_t writer = 0; writer < journals_of(slots.view().geometry()); ++writer) {
            const writer_state state = state_of(s, slots, writer);
            serials_.push_back(state.serial);
            if (state.replaced != 0) left_out_.push_back(state.replaced);
            if (state.coming != 0) left_out_.push_back(state.coming);
        }
        given_out_.resize(serials_.size());
    }

    /// The last serial of each writer.
    [[nodiscard]] const std::vector<std::uint64_t>& serials() const noexcept { return serials_; }

    [[nodiscard]] bool include(std::uint64_t handle) {
        if (std::ranges::find(left_out_, handle) != left_out_.end()) return false;
        const auto writer = static_cast<std::size_t>(slots_.slot_of(handle));
        if (writer >= serials_.size()) require_no_fault(segment_, errc::corrupt);
        // Serials go round, so what matters is how far one is ahead.
        const std::uint64_t ahead = distance(writer, slots_.view().serial_of(handle));
        if (ahead > given_out_[writer])
            given_out_[writer] = distance(writer, state_of(segment_, slots_, writer).serial);
        return ahead == 0 || ahead > given_out_[writer];
    }

 private:
    /// How many numbers lie between the last one of the writer, as the save began, and that one.
    [[nodiscard]] std::uint64_t distance(std::size_t writer, std::uint64_t serial) const noexcept {
        const std::uint64_t last = slots_.number_of(serials_[writer]), number = slots_.number_of(serial);
        return number >= last ? number - last : number + slots_.number_max() - last;
    }
    const segment& segment_;
    const store_slots& slots_;
    std::vector<std::uint64_t> serials_;
    std::vector<std::uint64_t> given_out_;  // numbers of each since the save began
    std::vector<std::uint64_t> left_out_;   // handles of what was going, or to come, as the save began
};

/// Puts values back where they were, in bytes that nobody else has yet.
class block_restorer {
 public:
    block_restorer(saved_reader& file, const detail::block_view<std::byte>& view)
        : file_(file), from_(file), view_(view), slots_(view) {}

    void run(const save_progress& progress) {
        read_serials();
        for (std::uint64_t values = 1; from_.more(); ++values) {
            restore_value();
            if (progress && values % items_between_reports == 0) progress(values);
        }
        write_journals(view_, serials_);
    }

 private:
    struct run_place {
        std::uint64_t first, units;
    };

    void read_serials() {
        serials_.resize(static_cast<std::size_t>(journals_of(view_.geometry())));
        if (slots_.slots() == 0)
            serials_[0] = file_.header().parameters[2];
        else
            from_.read(std::as_writable_bytes(std::span(serials_)));
        for (std::size_t writer = 0; writer < serials_.size(); ++writer) {
            const std::uint64_t serial = serials_[writer];
            const bool fits = serial <= view_.serial_max() && slots_.slot_of_serial(serial) == writer &&
                              slots_.number_of(serial) != 0;
            if (serial != 0 && !fits) refuse_contents(file_, "the last serial of a writer is out of range");
        }
    }

    /// Whether one of the writers can have given the handle out.
    [[nodiscard]] bool is_ours(std::uint64_t handle) const {
        if (!view_.is_handle(handle)) return false;
        const auto writer = static_cast<std::size_t>(slots_.slot_of(handle));
        return writer < serials_.size() && serials_[writer] != 0;
    }

    void restore_value() {
        const std::uint64_t at = from_.offset();
        const auto head = from_.read<saved_value>();
        if (!is_ours(head.handle) || head.bytes > view_.geometry().value_bytes_max() || head.runs == 0 ||
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
                if (view_.in_use(i)) take_out(word);
                detail::store_release<std::uint64_t>(view_.word_at(i), handle);
            }
    }

    /// With all its units: one that kept the word would be the value's again where a later one has the same handle.
    void take_out(std::uint64_t handle) {
        (void)view_.for_each_run(view_.index_of(handle), [&](const detail::block_run<std::byte>& run) {
            for (std::uint64_t unit = run.first; unit < run.first + run.units; ++unit)
                if (view_.word(unit) == handle) detail::store_release<std::uint64_t>(view_.word_at(unit), 0);
        });
        detail::retire(view_, handle);
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

    saved_reader& file_;
    section_stream from_;
    detail::block_view<std::byte> view_;
    detail::block_slots<std::byte> slots_;
    std::vector<std::uint64_t> serials_;  // the last of each writer
};

}  // namespace

saved_writer save_blocks(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                         const save_progress& progress) {
    const layout::block_store_geometry g = detail::block_store_geometry_of(*s);
    const detail::block_view<const std::byte> view(s->bytes(), g);
    const detail::block_reader_core reader(view);
    const store_slots slots(view);
    chosen_values chosen(*s, slots);
    saved_header header = header_of(*s);
    header.parameters = {g.units, g.unit_bytes, g.writer_slots == 0 ? chosen.serials()[0] : 0, g.writer_slots};
    saved_writer file(out, header, s->info().schema);
    if (g.writer_slots != 0) file.add(std::as_bytes(std::span(chosen.serials())), 0);
    value_copy value;
    detail::block_reading_budget budget(view, detail::scan_turns_max);
    for (std::uint64_t cursor = 0;;) {
        const std::uint64_t handle = reader.next_value(cursor);
        if (handle == 0) return file;
        cursor = view.index_of(handle) + 1;
        if (!chosen.include(handle)) continue;
        if (!budget.spend(handle)) require_no_fault(*s, errc::corrupt);
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
    const std::uint64_t writer_slots = file.header().parameters[3];
    segment_spec spec;
    spec.kind = container_kind::block_store;
    spec.container_version = writer_slots == 0 ? layout::block_store_version : layout::block_store_many_version;
    spec.policy = writer_slots == 0 ? writers::one : writers::many;
    spec.schema = file.schema();
    const std::uint64_t units = file.header().parameters[0];
    const std::uint64_t unit_bytes = file.header().parameters[1];
    if (units == 0 || units > layout::block_units_max || unit_bytes == 0 || unit_bytes > layout::block_unit_bytes_max ||
        writer_slots > layout::block_writer_slots_max)
        refuse_contents(file, "its numbers are no store's");
    const layout::block_store_geometry wanted{units, unit_bytes, writer_slots};
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
