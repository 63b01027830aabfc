// SPDX-License-Identifier: Apache-2.0
// verify.hpp - a full check of a block store, for the program's `verify` and for tests.
//
// Any bytes may be checked: nothing crashes, loops or reads outside, no memory is taken, and the work is bounded by the
// size of the store: a walk ends at the first unit that is not the value's own, and all walks of a pass together follow
// runs over four times the units there are. In a store at rest each unit is met once; runs that lead round or overlap
// are cut short there, and a finding says so.
//
// Beside a working writer
//   What is said of a value counts only if its handle still stood after the look: while it stands nothing of it changes
//   (write.hpp, I2), so it is damage and not work in progress. The counts are compared only if no value came or went
//   during the whole pass; else `busy` is set, and nothing is said of them. A killed writer does not move. Where one of
//   many writers is in a replacement that may yet be withdrawn, counts that are wrong are `busy`, too; whoever attaches
//   after its death settles it.
// What is found
//   any changed bit of a value: of its bytes, its checksum, its size, its runs, the words of its units; any changed bit
//   of the record in force; any of the selector but the lowest, "complete", which of an operation that is done the
//   words say as well. A freed or unused unit has no meaning but its word, of which a change that no writer makes is
//   found. Bytes behind the end of a value in its last unit mean nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "holdfast/block_store/read.hpp"

namespace holdfast {

enum class block_damage : std::uint8_t {
    record,          ///< the record of the last operation is not what its writer stored
    counts_rebuilt,  ///< a writer met a damaged record and took the counts from the units: what was lost is unknown
    word,            ///< the unit's word is none that a writer stores, or a claim that no journal names
    runs,            ///< the runs of a value contradict each other or lead outside
    foreign_unit,    ///< a run of a value leads into a unit that does not carry its handle
    checksum,        ///< the bytes of a value, or what describes them, are not what was stored
    overlap,         ///< runs lead over units again and again; the values behind this one were not looked into
    orphan,          ///< units carry the handle of a value that does not reach them
    units_wrong,     ///< the count of units in use is not what the units say
    values_wrong,    ///< the count of values is not what the units say
};

[[nodiscard]] constexpr std::string_view describe(block_damage what) noexcept {
    switch (what) {
        case block_damage::record: return "the record of the last operation is damaged";
        case block_damage::counts_rebuilt:
            return "the counts were rebuilt over a damaged record; values may be missing";
        case block_damage::word: return "the unit's word is none that a writer stores";
        case block_damage::runs: return "the runs of the value contradict each other";
        case block_damage::foreign_unit: return "the value leads into a unit that is not its own";
        case block_damage::checksum: return "the checksum does not match the value";
        case block_damage::overlap:
            return "runs lead over units again and again; values behind this one were not checked";
        case block_damage::orphan: return "units carry the handle of a value that does not reach them";
        case block_damage::units_wrong: return "the count of units in use is wrong";
        case block_damage::values_wrong: return "the count of values is wrong";
    }
    return "unknown damage";
}

struct block_finding {
    block_damage what{};
    std::uint64_t unit = 0;    ///< where it shows; 0 for findings about the record and the counts
    std::uint64_t handle = 0;  ///< of the value concerned; 0 = none
};

struct block_store_verification {
    std::uint64_t values = 0;
    std::uint64_t units_used = 0;
    std::uint64_t bytes = 0;             ///< of all values
    std::uint64_t scattered = 0;         ///< values of more than one run: reading them takes more than one sweep
    std::uint64_t free_runs = 0;         ///< stretches of neighbouring free units
    std::uint64_t longest_free_run = 0;  ///< units
    std::uint64_t findings = 0;
    bool replacement_open = false;  ///< no damage: the writer was killed in a replacement; the next one frees the old
    bool busy = false;              ///< the counts were not compared: a writer was at work
    bool stopped = false;           ///< the callback wanted no more

    [[nodiscard]] bool intact() const noexcept { return findings == 0; }
};

namespace detail {

template <class OnFinding>
class block_store_verifier {
 public:
    using view = block_view<const std::byte>;

    block_store_verifier(const view& v, OnFinding& on_finding) noexcept : view_(v), on_finding_(on_finding) {}

    block_store_verification run() {
        const block_totals before = totals_of(view_);
        check_record(before);
        for (std::uint64_t i = 0; i < view_.units() && !report_.stopped; ++i) check_unit(i);
        end_free_run();
        if (!report_.stopped) check_counts(before, totals_of(view_));
        return report_;
    }

 private:
    void report(block_damage what, std::uint64_t unit, std::uint64_t handle) {
        if (report_.stopped) return;
        ++report_.findings;
        report_.stopped = !on_finding_(block_finding{what, unit, handle});
    }

    void check_record(const block_totals& all) {
        if (!all.undisturbed) return;
        report_.replacement_open = all.sound && all.replacing;
        if (!all.sound) report(block_damage::record, 0, 0);
        if (all.rebuilt) report(block_damage::counts_rebuilt, 0, 0);
    }

    /// Whether a writer stores such a word for that unit: none, a handle of its own that stands or was freed, or that
    /// of another value. Of many writers it names one of them, and may be a claim.
    [[nodiscard]] bool is_sane(std::uint64_t word, std::uint64_t unit) const noexcept {
        if (word == 0) return true;
        const bool many = view_.geometry().writer_slots != 0;
        if (many && block_slots(view_).slot_of(word) >= view_.geometry().writer_slots) return false;
        if (view_.is_handle(word)) return true;
        if (view_.index_of(word) != unit) return false;
        return view_.is_handle(word | layout::block_live_bit) || (many && is_sane_claim(word, unit));
    }
    /// Whether it is a claim that the journal of its slot names (many_write.hpp, M3), or that went meanwhile. Requires:
    /// the slot is one.
    [[nodiscard]] bool is_sane_claim(std::uint64_t word, std::uint64_t unit) const noexcept {
        const block_slots slots(view_);
        if (!slots.is_claim(word)) return false;
        const std::uint64_t handle = slots.claim_of(word), slot = slots.slot_of(word);
        if (slots.claimed(slot) == handle) return true;
        const block_state s = slots.state(slot);
        if (!s.undisturbed || !s.sound) return true;  // it is busy, or damaged, which is said elsewhere
        return (s.record.word[block_record::take] != 0 && slots.taker(s.record) == handle) || view_.word(unit) != word;
    }

    void check_unit(std::uint64_t i) {
        const std::uint64_t word = view_.word(i);
        if (!is_sane(word, i)) report(block_damage::word, i, 0);
        const bool handle = view_.is_handle(word);
        if (!handle || view_.word(view_.index_of(word)) != word) {
            ++free_run_;
            return;
        }
        end_free_run();
        ++report_.units_used;
        if (view_.index_of(word) == i && cut_short_ == 0) check_value(word);
    }

    void end_free_run() noexcept {
        if (free_run_ == 0) return;
        ++report_.free_runs;
        report_.longest_free_run = std::max(report_.longest_free_run, free_run_);
        free_run_ = 0;
    }

    void check_value(std::uint64_t handle) {
        const std::uint64_t head = view_.index_of(handle);
        const auto bytes = shared_load<std::uint64_t>(view_.unit(head));
        const auto first = shared_load<std::uint64_t>(view_.unit(head) + layout::block_head_run_offset);
        const auto expected = shared_load<std::uint64_t>(view_.unit(head) + layout::block_head_checksum_offset);
        std::uint64_t sum = block_sum_begin(handle, bytes), reached = 0, runs = 0, foreign = view_.units();
        const bool whole = view_.for_each_run(head, bytes, first, [&](const block_run<const std::byte>& r) {
            for (std::uint64_t i = r.first; i < r.first + r.units; ++i)
                if (view_.word(i) != handle) {
                    foreign = i;
                    return false;  // what lies there is not of this value
                }
            if (r.units > budget_) {
                cut_short_ = handle;
                return false;
            }
            budget_ -= r.units;
            sum = block_sum_run(sum, r);
            reached += r.units;
            ++runs;
            return true;
        });
        if (cut_short_ != 0 || !view_.still(handle)) return;  // it went meanwhile; the counts are not compared either
        ++report_.values;
        reached_ += reached;
        if (foreign != view_.units()) return report(block_damage::foreign_unit, foreign, handle);
        if (!whole) return report(block_damage::runs, head, handle);
        if (sum != expected) return report(block_damage::checksum, head, handle);
        report_.bytes += bytes;
        if (runs > 1) ++report_.scattered;
    }

    void check_counts(const block_totals& before, const block_totals& after) {
        if (!before.same_as(after)) {
            report_.busy = true;
            return;
        }
        if (cut_short_ != 0) return report(block_damage::overlap, view_.index_of(cut_short_), cut_short_);
        const bool many = view_.geometry().writer_slots != 0, reaches = reached_ == report_.units_used;
        const bool counted = before.sound && !(before.rebuilt && many);
        const bool units = !counted || before.units == report_.units_used;
        const bool values = !counted || before.values == report_.values;
        // One value that came and was withdrawn meanwhile may be what is too much. A killed writer moves nothing: where
        // all is right it is not busy.
        if (many && before.undecided && !(reaches && units && values)) {
            report_.busy = true;
            return;
        }
        if (!reaches) report(block_damage::orphan, 0, 0);
        if (!units) report(block_damage::units_wrong, 0, 0);
        if (!values) report(block_damage::values_wrong, 0, 0);
    }

    view view_;
    OnFinding& on_finding_;
    block_store_verification report_;
    std::uint64_t free_run_ = 0;
    std::uint64_t reached_ = 0;                 // units that the runs of values cover
    std::uint64_t cut_short_ = 0;               // the value at which the budget was used up; 0 = none
    std::uint64_t budget_ = 4 * view_.units();  // units that runs may still lead over; a writer moves values meanwhile
};

/// Checks everything; on_finding(block_finding) returns whether to go on. Cost: one pass over the words and values;
/// over hostile bytes that of four at most.
template <class OnFinding>
block_store_verification verify_blocks(const block_view<const std::byte>& view, OnFinding&& on_finding) {
    return block_store_verifier<std::remove_reference_t<OnFinding>>(view, on_finding).run();
}

}  // namespace detail
}  // namespace holdfast
