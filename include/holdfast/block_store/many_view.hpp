// SPDX-License-Identifier: Apache-2.0
// many_view.hpp - bounded access to what a block store of many writers has beside words and units: claims, and a
// journal for each writer slot. And what a store of either policy holds in all, as its journals count it.
//
// The synchronisation is that of view.hpp; write.hpp and many_write.hpp say what each pair orders.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "holdfast/block_store/view.hpp"
#include "holdfast/detail/checksum.hpp"

namespace holdfast::detail {

/// What a store holds: units and values in use, and what they were read from.
struct block_totals {
    std::uint64_t units = 0;
    std::uint64_t values = 0;
    std::uint64_t state =
        1;              // of all selectors and of the operations that they name: it changes when a value comes or goes
    bool sound = true;  // each record is what its writer stored
    bool rebuilt = false;     // of one writer: counts were taken from the units. Of many: they must be
    bool replacing = false;   // a replacement was committed, and its old value is still there
    bool undecided = false;   // a replacement was begun; its value may come and go without a trace in `state`
    bool undisturbed = true;  // no writer stored a selector while all of it was looked at
    bool torn = false;        // nor even while its own slot was: its numbers mean nothing

    void add(const block_state& s) noexcept {
        units += s.units();
        values += s.values();
        state = checksum_step(state, s.selector * 4 + (s.add_live ? 2U : 0U) + (s.take_gone ? 1U : 0U));
        sound = sound && (s.sound || !s.undisturbed);
        rebuilt = rebuilt || (s.sound && s.record.word[block_record::flags] != 0);
        replacing = replacing || (s.sound && s.replacing());
        undecided = undecided || (s.sound && s.may_be_withdrawn());
        undisturbed = undisturbed && s.undisturbed;
        torn = torn || !s.undisturbed;
    }
    /// Whether no value came or went between two looks.
    [[nodiscard]] bool same_as(const block_totals& other) const noexcept {
        return undisturbed && other.undisturbed && state == other.state;
    }
};

/// The writer slots of a store. Requires: the view's geometry has some.
template <class Byte>
class block_slots {
 public:
    block_slots() = default;
    explicit block_slots(const block_view<Byte>& v) noexcept
        : view_(v),
          journals_(v.word_at(0) + (v.geometry().journals_offset() - layout::block_words_offset)),
          bits_(v.geometry().slot_bits()) {}

    [[nodiscard]] const block_view<Byte>& view() const noexcept { return view_; }
    [[nodiscard]] std::uint64_t slots() const noexcept { return view_.geometry().writer_slots; }

    // ---- whose
    [[nodiscard]] std::uint64_t slot_of_serial(std::uint64_t serial) const noexcept {
        return serial & ((std::uint64_t{1} << bits_) - 1);
    }
    /// Of a handle or a claim. It may be above all slots where somebody made the word up.
    [[nodiscard]] std::uint64_t slot_of(std::uint64_t word) const noexcept {
        return slot_of_serial(view_.serial_of(word));
    }
    [[nodiscard]] std::uint64_t number_of(std::uint64_t serial) const noexcept { return serial >> bits_; }
    [[nodiscard]] std::uint64_t number_max() const noexcept { return view_.serial_max() >> bits_; }
    /// Requires: number != 0.
    [[nodiscard]] std::uint64_t serial(std::uint64_t slot, std::uint64_t number) const noexcept {
        return number << bits_ | slot;
    }
    /// Of two numbers of a slot the one given out later, given that they are not half a round apart; 0 is none.
    [[nodiscard]] std::uint64_t later(std::uint64_t a, std::uint64_t b) const noexcept {
        if (a == 0 || b == 0) return a | b;
        const std::uint64_t ahead = a >= b ? a - b : a + number_max() - b;
        return ahead < number_max() / 2 ? a : b;
    }

    // ---- claims
    /// What the first unit of a value to be carries. Requires: `handle` is one.
    [[nodiscard]] static constexpr std::uint64_t claim_of(std::uint64_t handle) noexcept {
        return handle ^ (layout::block_live_bit | layout::block_claim_bit);
    }
    /// What it carries when the claim was dropped, or the value freed: no writer stores it twice in a round.
    [[nodiscard]] static constexpr std::uint64_t dropped(std::uint64_t word) noexcept {
        return word & ~(layout::block_live_bit | layout::block_claim_bit);
    }
    [[nodiscard]] bool is_claim(std::uint64_t word) const noexcept { return view_.is_handle(claim_of(word)); }
    /// Whether a value or a claim has the unit, whose word is `word`.
    [[nodiscard]] bool is_taken(std::uint64_t unit, std::uint64_t word) const noexcept {
        const std::uint64_t first = view_.index_of(word);
        if (!view_.is_handle(word)) return is_claim(word) && first == unit;
        if (first == unit) return true;
        const std::uint64_t owner = view_.word(first);
        return owner == word || owner == claim_of(word);
    }

    // ---- journals. Requires: slot < slots()
    [[nodiscard]] Byte* selector_at(std::uint64_t slot) const noexcept {
        return journals_ + slot * layout::block_journal_bytes;
    }
    [[nodiscard]] Byte* claim_at(std::uint64_t slot) const noexcept {
        return selector_at(slot) + layout::block_journal_claim_offset;
    }
    [[nodiscard]] Byte* pid_at(std::uint64_t slot) const noexcept {
        return selector_at(slot) + layout::block_journal_pid_offset;
    }
    /// The pid that the holder of the slot wrote down. For people.
    [[nodiscard]] std::uint64_t pid(std::uint64_t slot) const noexcept {
        return load_relaxed<std::uint64_t>(pid_at(slot));  // relaxed: a report
    }
    [[nodiscard]] Byte* record_at(std::uint64_t slot, std::uint64_t operation) const noexcept {
        return selector_at(slot) + layout::block_journal_records_offset + (operation % 2) * layout::block_record_bytes;
    }
    /// R3: acquire, pairs with W3.
    [[nodiscard]] std::uint64_t selector(std::uint64_t slot) const noexcept {
        return load_acquire<std::uint64_t>(selector_at(slot));
    }
    [[nodiscard]] block_record record_of(std::uint64_t slot, std::uint64_t operation) const noexcept {
        block_record record;
        const Byte* at = record_at(slot, operation);
        // R3 again: a word of a record that is written next is seen only together with a later selector.
        for (std::size_t i = 0; i < layout::block_record_words; ++i)
            record.word[i] = load_acquire<std::uint64_t>(at + 8 * i);
        return record;
    }
    /// The handle that the slot's journal names as its claim; 0 where it names none that could be.
    [[nodiscard]] std::uint64_t claimed(std::uint64_t slot) const noexcept {
        // Acquire: who sees a claim dropped sees that it was named before.
        const auto handle = load_acquire<std::uint64_t>(claim_at(slot));
        return view_.is_handle(handle) && slot_of(handle) == slot ? handle : 0;
    }
    /// The last number that the slot has used, given a record of it: 0 = none. A claim is named in `claim` before
    /// anything carries it, every other number stands in the record.
    [[nodiscard]] std::uint64_t last_number(std::uint64_t slot, const block_record& record) const noexcept {
        const std::uint64_t claim = claimed(slot);
        return later(claim == 0 ? 0 : number_of(view_.serial_of(claim)), number_of(record.word[block_record::serial]));
    }
    /// Whether the first unit carries that claim. Requires: `handle` is one.
    [[nodiscard]] bool is_open(std::uint64_t handle) const noexcept {
        return view_.word(view_.index_of(handle)) == claim_of(handle);
    }
    /// Whether this is what a writer of that slot stored for that operation.
    [[nodiscard]] bool is_sound(const block_record& record, std::uint64_t slot,
                                std::uint64_t operation) const noexcept {
        const std::uint64_t serial = record.word[block_record::serial], add = record.word[block_record::add];
        return view_.is_sound(record, operation) && (add == 0 || slot_of(add) == slot) &&
               slot_of_serial(serial) == slot && serial <= view_.serial_max() &&
               (record.word[block_record::take] == 0 || number_of(serial) != 0);
    }
    /// The handle by whose claim an operation takes a value. Requires: the record is sound and takes one.
    [[nodiscard]] std::uint64_t taker(const block_record& record) const noexcept {
        return view_.handle(view_.index_of(record.word[block_record::take]), record.word[block_record::serial]);
    }
    /// Whether the operation has taken its value, as long as the traces are there. Requires: is_sound.
    [[nodiscard]] bool has_gone(const block_record& record) const noexcept {
        return record.word[block_record::take] != 0 && is_open(taker(record));
    }
    /// The record of the operation behind this one, which is not in force; a blank one if none was written to its end.
    [[nodiscard]] block_record next_record(std::uint64_t slot, std::uint64_t operation) const noexcept {
        const block_record next = record_of(slot, operation + 1);
        return is_sound(next, slot, operation + 1) ? next : block_record{};
    }

    /// One look at a slot's last operation; undisturbed says whether it counts.
    [[nodiscard]] block_state look(std::uint64_t slot) const noexcept {
        block_state s;
        s.selector = selector(slot);
        s.record = record_of(slot, s.operation());
        s.sound = s.selector == 0 ? s.record.is_blank() : is_sound(s.record, slot, s.operation());
        if (s.sound) {
            s.add_live = s.record.word[block_record::add] != 0 && (s.is_complete() || view_.has_come(s.record));
            s.take_gone = s.record.word[block_record::take] != 0 && (s.is_complete() || has_gone(s.record));
        }
        // As in block_view::look: the next operation does nothing before the selector names it. Its claim tells: no
        // other carries that number (M2).
        const block_record next = next_record(slot, s.operation());
        if (view_.has_come(next) || has_gone(next)) s.sound = false;
        s.undisturbed = selector(slot) == s.selector;
        return s;
    }
    /// The same, looked at until the slot's writer left it alone for a moment; else undisturbed is false.
    [[nodiscard]] block_state state(std::uint64_t slot) const noexcept {
        block_state s = look(slot);
        for (unsigned attempt = 1; !s.undisturbed && attempt < looks_max; ++attempt) {
            pause();
            s = look(slot);
        }
        return s;
    }
    /// Whether a dead writer of the slot would have left something to do.
    [[nodiscard]] bool left_something(std::uint64_t slot) const noexcept {
        const block_state s = look(slot);
        if (!s.sound || (s.selector != 0 && !s.is_complete()) || has_gone(s.record)) return true;
        const std::uint64_t claim = claimed(slot);
        return claim != 0 && is_open(claim);
    }
    /// The sum of all slots, each at a moment of its own.
    [[nodiscard]] block_totals sum() const noexcept {
        block_totals all;
        for (std::uint64_t slot = 0; slot < slots(); ++slot) all.add(state(slot));
        return all;
    }

 private:
    static constexpr unsigned looks_max = 64;

    block_view<Byte> view_;
    Byte* journals_ = nullptr;
    unsigned bits_ = 0;
};
template <class Byte>
block_slots(const block_view<Byte>&) -> block_slots<Byte>;

/// What a store of either policy holds, by its journals; undisturbed says whether at one instant.
template <class Byte>
[[nodiscard]] block_totals totals_of(const block_view<Byte>& view) noexcept {
    if (view.geometry().writer_slots == 0) {
        block_totals all;
        all.add(view.state());
        return all;
    }
    // Two sums alike: between them lay an instant at which all were so.
    constexpr unsigned sums_max = 64;
    const block_slots slots(view);
    block_totals all = slots.sum();
    for (unsigned attempt = 1; attempt < sums_max; ++attempt) {
        const block_totals again = slots.sum();
        if (again.same_as(all)) return again;
        all = again;
        pause();
    }
    all.undisturbed = false;
    return all;
}

/// Units and values in use as the words have them. Cost: 8 bytes a unit.
template <class Byte>
[[nodiscard]] block_totals count_words(const block_view<Byte>& view) noexcept {
    block_totals counted;
    for (std::uint64_t i = 0; i < view.units(); ++i) {
        if (!view.in_use(i)) continue;
        ++counted.units;
        if (view.index_of(view.word(i)) == i) ++counted.values;
    }
    return counted;
}

}  // namespace holdfast::detail
