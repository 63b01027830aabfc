// SPDX-License-Identifier: Apache-2.0
// write.hpp - the one writer of a block store: a value is prepared in free units, committed by one store, and freed by
// one store.
//
// Invariants
// (I1) A unit is in use if and only if its word is a handle and the unit it names carries the same word. So every unit
//      of a value comes with the one store that commits it and goes with the one store that frees it.
// (I2) While a handle stands, nothing of its value changes: neither its units, nor their words, nor its bytes.
// (I3) A serial is recorded before a unit carries it, so a killed writer's successor never gives it out again: units
//      stamped for a value that was never committed name nobody.
// (I4) The record in force describes the last operation; with the two words that it names, or once the operation is
//      marked complete without them, it says how many units and values there are, at any instant.
// (I5) Which units are free, and which are claimed for the value in preparation, the writer knows privately
//      (free_map.hpp). A claim leaves no trace outside units that are free.
//
// Stores of each operation, in order
//   prepare   P1 bytes, payload and run headers in free units
//   commit    C1 bytes and checksum in the head | C2 the record not in force | C3 selector | C4 handle into the words
//             of all units but the first | C5 handle into the word of the first = commit | C6 selector: complete
//   free      F1 the record not in force | F2 selector | F3 word of the first unit without bit 63 = commit
//             | C6 selector: complete
//   replace   prepare, then C1 | C2, which also names the old value | C3 | C4 | C5 = commit | F3 on the old value
//             | C6 selector: complete
//   discard   nothing
//
// Synchronisation (store here -> load in view.hpp)
//   W1 word (C5)            -> R1 word       whoever finds a handle finds its value whole
//   W2 word (F3), fence P0  -> R2 still      bytes of the next value are never taken for those of the last
//   W3 selector (C3, F2,C6) -> R3 look       a record is read whole, or the selector is seen to have moved on
//
// Killed after  state                                         repaired by
//   P1, C1      bytes in free units, which nobody can reach   nobody must: they are free
//   C2, F1      a record that is not in force                 nobody: the next operation writes it again
//   C3          the record in force brings a value that is    nobody: the counts are those before it; its serial is
//               not there                                     used up
//   C4          free units carry the handle of no value       nobody: they are free by (I1)
//   C5          done; in a replacement the old value is       nobody; in a replacement the next attach stores F3. Until
//               still there beside the new one                then both are counted, and both can be read
//   F2          the record in force takes a value that is     nobody: the counts are those before it
//               still there
//   F3          done                                          -
//   C6          done, and said so: only now would a change of the words named in the record show as damage
// An operation that is done and not marked complete, the next attach marks. The repairs are single stores and may
// themselves be killed (recover.hpp). No unit is ever lost, so used + free = capacity holds
// by the way units are counted, and the used ones are those of values that somebody can read and free.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

#include "holdfast/block_store/prepare.hpp"
#include "holdfast/block_store/recover.hpp"

namespace holdfast::detail {

/// The writer over bytes.
class block_writer_core : private block_preparation<writers::one> {
 public:
    using view = block_view<std::byte>;
    using block_preparation::fill;
    using block_preparation::reader;
    using block_preparation::write;

    block_writer_core() = default;
    /// Takes over the body: zeroed, or left by a writer that died at any instruction.
    /// Requires: `v` on a validated geometry; no other writer. Throws: std::bad_alloc (one bit a unit).
    explicit block_writer_core(const view& v) : block_preparation(v), counts_(detail::recover(v, recovery_)) {}

    [[nodiscard]] const block_store_recovery& recovery() const noexcept { return recovery_; }
    [[nodiscard]] std::uint64_t units_used() const noexcept { return counts_.units; }
    [[nodiscard]] std::uint64_t values() const noexcept { return counts_.values; }

    /// Claims units for a value of `bytes`; drops an earlier claim.
    outcome prepare(std::uint64_t bytes) noexcept {
        discard();
        if (bytes > view_.geometry().value_bytes_max()) return outcome::too_large;
        if (view_.geometry().units_for(bytes) > view_.units() - counts_.units) return outcome::full;
        outcome status = claim_units(bytes);
        if (status == outcome::ok && claimed_units() > view_.units() - counts_.units) {
            reader_.latch(errc::corrupt);  // the words call more units free than the count does
            status = outcome::corrupt;
        }
        if (status != outcome::ok) {
            discard();
            return status;
        }
        begin_value(bytes);  // P0, P1
        return outcome::ok;
    }

    /// The handle that commit() will give the claim, whatever is freed before that; 0 without a claim. Until then it
    /// names nothing, so it may be written down where a successor looks for what was left half done.
    [[nodiscard]] std::uint64_t pending() const noexcept {
        return runs_.empty() ? 0 : view_.handle(runs_.front().first, next_serial());
    }

    /// Makes the claimed bytes a value. With `replaced`, that value goes as this one comes.
    block_result commit(std::uint64_t replaced = 0) noexcept {
        if (runs_.empty()) return {outcome::not_claimed, 0};
        std::uint64_t taken = 0;
        if (replaced != 0) {
            const outcome status = measure(replaced, taken);
            if (status != outcome::ok) return {status, 0};
        }
        const std::uint64_t added = claimed_units();
        const std::uint64_t head = runs_.front().first;
        const std::uint64_t handle = pending();
        seal(handle);                                               // C1
        counts_.serial = next_serial();                             // (I3)
        begin(handle, replaced, added, taken);                      // C2, C3
        stamp(handle);                                              // C4
        store_release<std::uint64_t>(view_.word_at(head), handle);  // C5, W1
        counts_.units += added;
        ++counts_.values;
        runs_.clear();
        if (replaced != 0) take_out(replaced, taken);  // F3
        complete(view_, counts_.operation);            // C6, W3
        return {outcome::ok, handle};
    }

    /// Gives the claimed units back.
    void discard() noexcept {
        for (const piece& p : runs_) free_.give(p.first, p.units);
        runs_.clear();
    }

    /// Frees the value. A handle that names none is `stale`.
    outcome free(std::uint64_t handle) noexcept {
        std::uint64_t taken = 0;
        const outcome status = measure(handle, taken);
        if (status != outcome::ok) return status;
        begin(0, handle, 0, taken);          // F1, F2
        take_out(handle, taken);             // F3
        complete(view_, counts_.operation);  // C6, W3
        return outcome::ok;
    }

 private:
    /// Of the next value: never 0.
    [[nodiscard]] std::uint64_t next_serial() const noexcept {
        return counts_.serial < view_.serial_max() ? counts_.serial + 1 : 1;
    }
    void claim(const piece& p) {
        runs_.push_back(p);
        free_.take(p.first, p.units);
        const std::uint64_t end = std::uint64_t{p.first} + p.units;
        cursor_ = end < view_.units() ? end : 0;
    }

    /// Claims one run for all of it, or the longest at hand, and so on for what is left. Apart: inlined, it costs an
    /// allocation of one run 16 instructions more (callgrind, g++ 12).
    [[gnu::noinline]] outcome claim_units(std::uint64_t bytes) noexcept try {
        std::uint64_t looks = looks_per_value_max;
        for (std::uint64_t left = bytes;;) {
            const std::uint64_t header = header_of(runs_.size());
            const piece found = next_run(units_of(left + header), looks);
            if (found.units == 0) return outcome::full;
            claim(found);
            const std::uint64_t room = view_.bytes_of(found.units) - header;
            if (left <= room) return outcome::ok;
            left -= room;
        }
    } catch (const std::bad_alloc&) {
        return outcome::no_memory;
    }

    /// Release: a process that dies right after any of these stores leaves all those before it (C3 before C4).
    void stamp(std::uint64_t handle) noexcept {
        bool head = true;
        for (const piece& p : runs_) {
            for (std::uint64_t i = p.first + (head ? 1U : 0U); i < std::uint64_t{p.first} + p.units; ++i)
                store_release<std::uint64_t>(view_.word_at(i), handle);
            head = false;
        }
    }

    void begin(std::uint64_t add, std::uint64_t take, std::uint64_t add_units, std::uint64_t take_units) noexcept {
        const block_record record{
            {add, take, counts_.units, counts_.values, add_units | take_units << 32, counts_.serial, counts_.flags, 0}};
        ++counts_.operation;
        put_in_force(view_.record_at(counts_.operation), view_.selector_at(), counts_.operation, record);
    }

    /// How many units a value has. Returns: stale, or corrupt if its runs lead into units that are not its own: such a
    /// value is left alone, so that damage does not spread.
    [[nodiscard]] outcome measure(std::uint64_t handle, std::uint64_t& units) const noexcept {
        if (!reader_.contains(handle)) return outcome::stale;
        if (owns_its_runs(handle, counts_.units, units) && counts_.values != 0) return outcome::ok;
        reader_.latch(errc::corrupt);
        return outcome::corrupt;
    }

    void take_out(std::uint64_t handle, std::uint64_t units) noexcept {
        const std::uint64_t head = view_.index_of(handle);
        retire(view_, handle);  // F3, W2
        counts_.units -= units;
        --counts_.values;
        // The words are asked once more: a peer that changed the runs since measure() cannot make us hand out units of
        // other values.
        view_.for_each_run(head, [&](const run& r) {
            for (std::uint64_t i = r.first; i < r.first + r.units; ++i)
                if (i == head || view_.word(i) == handle) free_.give(i, 1);
        });
    }

    block_store_recovery recovery_;
    block_counts counts_;
};

}  // namespace holdfast::detail
