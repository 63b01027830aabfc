// SPDX-License-Identifier: Apache-2.0
// many_write.hpp - one of many writers of a block store: units are claimed by compare-and-swap of their words, a value
// comes by one store and goes by one compare-and-swap. docs/design/0024 argues it.
//
// A claim C(H) is handle H with bit 62 instead of bit 63, in the word of the first unit; the others carry H at once.
//
// Invariants, beside those of write.hpp
// (M1) Only the holder of slot s's lock stores to journal s, stamps or takes away a claim of s, or commits one.
// (M2) A number of a slot is used for one claim: never again before they have gone round. It is recorded, in `claim` or
//      in the record in force, before a unit carries it. One that the record not in force names counts as used: the
//      next claim under it could be the very word that says that this operation was done.
// (M3) While the first unit carries C(H), `claim` of its slot is H, or the record in force takes the value that lay
//      there, by H's serial.
// (M4) A value is taken only after the operation that brought it is complete.
// (M5) C(H) in the first unit comes before H in any other, and never comes back after it was dropped. So a free unit
//      stays free until its own word changes.
//
// Stores of each operation, in order
//   prepare   K1 claim | K2 swap: first unit C(H) | K3 swaps: H in the others | P1 payload and run headers
//   commit    C1 bytes and checksum | C2 record | C3 selector | C5 H in the first unit = commit | C6 complete
//   free      F1 record | F2 selector | F3 swap: first unit from its handle to C(G) = commit | C6 complete | F4 dropped
//   replace   C1 to C5 | F3 on the old value = commit, or if it is gone C(H) again | C6 complete | F4 dropped
//   discard   first unit: C(H) dropped
//
// Synchronisation: W1, W2, W3 of write.hpp. The swaps acquire and release: who takes a unit sees all that was stored by
// those who had it, and P0 holds for them as well. A successor of the dead is ordered behind them by the slot's lock.
//
// Killed after  state                                          repaired by
//   K1          names a claim that is not there                nobody must
//   K2 to C1    a claim: counted free, taken by nobody         who attaches, or finds no room: dropped
//   C2, F1      as before, and a record not in force           as before; its number is not used
//   C3          the same, and an operation that did nothing    the same
//   C5          done; in a replacement both values are there   who attaches, wants to free it, or finds no room: marked
//                                                              complete; the old one taken, or the new one withdrawn
//   F2          the value is there                             who attaches or finds no room
//   F3          gone and counted; a claim of one unit          the same: marked complete, dropped
//   C6          done; after F3 a claim of one unit             the same: dropped
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "holdfast/block_store/many_recover.hpp"
#include "holdfast/block_store/prepare.hpp"

namespace holdfast::detail {

/// Locks is how this writer learns of the others:
///   static constexpr unsigned looks      at a journal, before anything else is asked
///   bool take(std::uint32_t slot)        the slot's lock, if no living process has it
///   void give_back(std::uint32_t slot)   the same
///   bool wait(std::uint32_t turn)        a little longer each turn, from 0 on; false: that was long enough
///   std::uint64_t pid()                  its own, for people
template <class Locks>
class block_many_core : private block_preparation<writers::many> {
    using base = block_preparation<writers::many>;
    using base::bytes_;
    using base::cursor_;
    using base::free_;
    using base::reader_;
    using base::runs_;
    using base::view_;
    using typename base::piece;
    using typename base::run;

 public:
    using view = base::view;
    using base::fill;
    using base::reader;
    using base::write;

    block_many_core() = default;
    /// Recovers its own slot and those of other dead writers. Requires: `v` on a validated geometry; the caller holds
    /// the lock of `slot`. Throws: std::bad_alloc (one bit a unit).
    block_many_core(const view& v, std::uint32_t slot, Locks locks)
        : base(v), slots_(v), locks_(std::move(locks)), slot_(slot) {
        counts_ = recover_slot(slots_, slot_, recovery_);
        number_ = slots_.number_of(counts_.serial);
        (void)recover_others(slots_, slot_, locks_, recovery_);
        // Apart from each other: neighbours in place are then of one writer, and few swaps meet.
        cursor_ = view_.units() / slots_.slots() * slot_;
    }

    [[nodiscard]] const block_store_recovery& recovery() const noexcept { return recovery_; }
    [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
    [[nodiscard]] Locks& locks() noexcept { return locks_; }
    [[nodiscard]] const block_slots<std::byte>& slots() const noexcept { return slots_; }
    /// Whom the last `contended` waited for.
    [[nodiscard]] std::optional<std::uint32_t> blocked_by() const noexcept { return blocked_by_; }
    /// How often this one finished what it found undone by a dead writer, after attaching.
    [[nodiscard]] std::uint64_t takeovers() const noexcept { return takeovers_; }

    /// Claims units for a value of `bytes`; drops an earlier claim.
    outcome prepare(std::uint64_t bytes) noexcept {
        discard();
        if (bytes > view_.geometry().value_bytes_max()) return outcome::too_large;
        outcome status = claim(bytes);
        // What others freed the map does not know: it left too few units, or too short runs of them.
        if (status == outcome::full && may_find(view_.geometry().units_for(bytes))) {
            free_.forget_all();
            status = claim(bytes);
        }
        if (status == outcome::ok) base::begin_value(bytes);  // P0, P1
        return status;
    }

    /// The handle that commit() will give the claim; 0 without one.
    [[nodiscard]] std::uint64_t pending() const noexcept { return runs_.empty() ? 0 : handle_; }

    /// Makes the claimed bytes a value. With `replaced`, that value goes as this one comes; if another writer takes it
    /// meanwhile, the claim is dropped, and the answer is `stale`.
    block_result commit(std::uint64_t replaced = 0) noexcept {
        if (runs_.empty()) return {outcome::not_claimed, 0};
        std::uint64_t taken = 0;
        if (replaced != 0) {
            const outcome status = may_take(replaced, taken);
            if (status != outcome::ok) return {status, 0};
            take_number();
        }
        const std::uint64_t added = base::claimed_units();
        base::seal(handle_);                                        // C1
        begin(handle_, replaced, added, taken);                     // C2, C3
        store_release<std::uint64_t>(head_word(handle_), handle_);  // C5, W1
        if (replaced != 0 && !try_take(replaced)) {
            // W2: nobody else could free it, since its operation is not complete (M4).
            store_release<std::uint64_t>(head_word(handle_), slots_.claim_of(handle_));
            begin_anew(slots_, slot_, counts_);
            discard();
            return {outcome::stale, 0};
        }
        counts_.units += added - taken;
        if (replaced == 0) ++counts_.values;
        runs_.clear();
        complete_operation(slots_, slot_, counts_.operation);  // C6
        if (replaced != 0) give_back(replaced, taken);         // F4
        return {outcome::ok, handle_};
    }

    /// Gives the claimed units back.
    void discard() noexcept {
        if (runs_.empty()) return;
        drop_claim(slots_, handle_);
        for (const piece& p : runs_) free_.give(p.first, p.units);
        runs_.clear();
    }

    /// Frees the value. A handle that names none, or that another writer frees meanwhile, is `stale`.
    outcome free(std::uint64_t handle) noexcept {
        std::uint64_t taken = 0;
        const outcome status = may_take(handle, taken);
        if (status != outcome::ok) return status;
        take_number();
        begin(0, handle, 0, taken);  // F1, F2
        if (!try_take(handle)) {     // F3
            begin_anew(slots_, slot_, counts_);
            return outcome::stale;
        }
        counts_.units -= taken;
        --counts_.values;
        complete_operation(slots_, slot_, counts_.operation);  // C6
        give_back(handle, taken);                              // F4
        return outcome::ok;
    }

 private:
    // Numbers are recorded in `claim`, which means little when nothing is claimed, and in the record. So far at most is
    // a claim ahead of the record, less than half a round (block_slots::later). The record of a slot that frees and
    // claims nothing may be ahead by more: who takes the slot then goes on behind the old claim. The numbers in between
    // come again, but no handle had one of them: they stamped what was freed, and those claims are dropped.
    static constexpr std::uint64_t numbers_a_record = std::uint64_t{1} << 20;

    [[nodiscard]] std::byte* head_word(std::uint64_t handle) const noexcept {
        return view_.word_at(view_.index_of(handle));
    }

    /// The next number of this slot, for a claim (M2).
    void take_number() noexcept {
        number_ = number_ < slots_.number_max() ? number_ + 1 : 1;
        counts_.serial = slots_.serial(slot_, number_);
        if (number_ % numbers_a_record == 0) begin_anew(slots_, slot_, counts_);
    }

    // ---- claims
    /// Claims units under a number of their own (M2), or none.
    outcome claim(std::uint64_t bytes) noexcept {
        take_number();
        const outcome status = claim_units(bytes);
        if (status != outcome::ok) discard();
        return status;
    }
    /// Claims one run for all of it, or the longest at hand, and so on for what is left.
    outcome claim_units(std::uint64_t bytes) noexcept try {
        std::uint64_t looks = base::looks_per_value_max;
        for (std::uint64_t left = bytes;;) {
            const std::uint64_t header = base::header_of(runs_.size()), wanted = base::units_of(left + header);
            const piece found = base::next_run(wanted, looks);
            if (found.units == 0) return outcome::full;
            const std::uint32_t got = take_run(found);
            if (got == 0) continue;  // others were there first; the map knows it now
            const std::uint64_t room = view_.bytes_of(got) - header;
            if (left <= room) return outcome::ok;
            left -= room;
        }
    } catch (const std::bad_alloc&) {
        return outcome::no_memory;
    }

    /// Claims a run, or as many units of it as nobody else claims meanwhile. Returns: how many. Throws: std::bad_alloc.
    std::uint32_t take_run(const piece& found) {
        if (found.units > 1 && !all_free(found)) return 0;
        runs_.push_back(found);  // first: what is claimed must be known here
        std::uint32_t got = 0;
        if (runs_.size() == 1) {
            handle_ = view_.handle(found.first, counts_.serial);
            store_release<std::uint64_t>(slots_.claim_at(slot_), handle_);  // K1
            if (!claim_unit(found.first, slots_.claim_of(handle_))) {       // K2
                runs_.pop_back();
                return 0;
            }
            got = 1;
        }
        while (got < found.units && claim_unit(found.first + got, handle_)) ++got;  // K3
        if (got == 0) {
            runs_.pop_back();
            return 0;
        }
        runs_.back().units = got;
        const std::uint64_t end = std::uint64_t{found.first} + got, next = end < view_.units() ? end : 0;
        free_.forget_passed(cursor_, next);
        cursor_ = next;
        return got;
    }

    /// Whether the map was right about a run; corrects it where not.
    [[nodiscard]] bool all_free(const piece& p) noexcept {
        bool all = true;
        for (std::uint64_t i = p.first; i < std::uint64_t{p.first} + p.units; ++i) {
            if (!slots_.is_taken(i, view_.word(i))) continue;
            free_.take(i, 1);
            all = false;
        }
        return all;
    }

    [[nodiscard]] bool claim_unit(std::uint64_t unit, std::uint64_t mark) noexcept {
        free_.take(unit, 1);  // whoever has it in the end
        const std::uint64_t word = view_.word(unit);
        return !slots_.is_taken(unit, word) && swap_word(view_.word_at(unit), word, mark);
    }

    /// Whether a look at all words may find what the map did not: after dead claims were dropped, as far as the counts
    /// know.
    [[nodiscard, gnu::noinline]] bool may_find(std::uint64_t wanted) noexcept {
        block_store_recovery done;
        takeovers_ += recover_others(slots_, slot_, locks_, done);
        const block_totals all = slots_.sum();
        return !all.sound || all.rebuilt || all.units > view_.units() || wanted <= view_.units() - all.units;
    }

    // ---- values
    /// Writes the record that is not in force and puts it in force.
    void begin(std::uint64_t add, std::uint64_t take, std::uint64_t add_units, std::uint64_t take_units) noexcept {
        ++counts_.operation;
        begin_operation(slots_, slot_, counts_.operation,
                        {{add, take, counts_.units, counts_.values, add_units | take_units << 32, counts_.serial,
                          counts_.flags, 0}});
    }

    /// F3. Returns: whether it was still there.
    [[nodiscard]] bool try_take(std::uint64_t handle) noexcept {
        const std::uint64_t taker = view_.handle(view_.index_of(handle), counts_.serial);
        return swap_word(head_word(handle), handle, slots_.claim_of(taker));
    }

    /// F4, and tells the map. Others may be storing in these units already: what is read of the runs is a guess, and no
    /// more is looked at than the `units` that the value had.
    void give_back(std::uint64_t handle, std::uint64_t units) noexcept {
        const std::uint64_t head = view_.index_of(handle);
        view_.for_each_run(head, [&](const run& r) {
            const std::uint64_t end = r.first + std::min(r.units, units);
            units -= end - r.first;
            for (std::uint64_t i = r.first; i < end; ++i)
                if (i != head && view_.word(i) == handle) free_.give(i, 1);
            return units != 0;
        });
        drop_claim(slots_, view_.handle(head, counts_.serial));
        free_.give(head, 1);
    }

    /// How many units a value has, and that it may be taken (M4). Returns: ok; stale; contended; corrupt, if its runs
    /// lead into units that are not its own: such a value is left alone, so that damage does not spread.
    [[nodiscard]] outcome may_take(std::uint64_t handle, std::uint64_t& units) noexcept {
        if (!reader_.contains(handle)) return outcome::stale;
        const bool whole = base::owns_its_runs(handle, view_.units(), units);
        if (!view_.still(handle)) return outcome::stale;
        if (whole) return settled(handle);
        reader_.latch(errc::corrupt);
        return outcome::corrupt;
    }

    /// Waits until the operation that brought a value is complete, or completes it for the dead. Requires: the value
    /// was there, so that its slot's selector has come as far as that operation.
    [[nodiscard]] outcome settled(std::uint64_t handle) noexcept {
        const std::uint64_t slot = slots_.slot_of(handle);
        if (slot == slot_ || slot >= slots_.slots() || !brings(slot, handle)) [[likely]]
            return outcome::ok;
        return wait_for(static_cast<std::uint32_t>(slot), handle);
    }
    /// Whether the slot's operation under way is the one that brings the value.
    [[nodiscard]] bool brings(std::uint64_t slot, std::uint64_t handle) const noexcept {
        const std::uint64_t selector = slots_.selector(slot);
        if (selector % 2 != 0 || selector == 0) return false;
        const block_record record = slots_.record_of(slot, selector / 2);
        // A record that does not add up, or that another one has followed, is not that of the operation asked for.
        return slots_.is_sound(record, slot, selector / 2) && record.word[block_record::add] == handle &&
               slots_.selector(slot) == selector;
    }
    [[nodiscard, gnu::noinline]] outcome wait_for(std::uint32_t slot, std::uint64_t handle) noexcept {
        for (std::uint32_t turn = 0;; ++turn) {
            for (unsigned look = 0; look < Locks::looks; ++look) {
                if (!brings(slot, handle)) return outcome::ok;
                pause();
            }
            if (locks_.take(slot)) {
                block_store_recovery done;
                name_holder(slots_, slot, locks_.pid());
                (void)recover_slot(slots_, slot, done);
                locks_.give_back(slot);
                ++takeovers_;
                return outcome::ok;
            }
            if (locks_.wait(turn)) continue;
            blocked_by_ = slot;
            return outcome::contended;
        }
    }

    block_slots<std::byte> slots_;
    Locks locks_{};
    block_store_recovery recovery_;
    block_counts counts_;
    std::uint64_t number_ = 0;  // the last one given out
    std::uint64_t handle_ = 0;  // of the claim in preparation
    std::uint32_t slot_ = 0;
    std::optional<std::uint32_t> blocked_by_;
    std::uint64_t takeovers_ = 0;
};

}  // namespace holdfast::detail
