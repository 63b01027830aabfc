// SPDX-License-Identifier: Apache-2.0
// many_write.hpp - one of many writers of a hash map: write.hpp under the stripe of the key, with a record for each
// writer slot. docs/design/0025 argues it.
//
// A writer has one slot, and by its lock the slot of that number in table, store and map. An entry is put into a claim
// of the store, of which nobody else knows. Everything from the look at what the table has under the key to the word
// that leads to the new entry is done while the home stripe of the key's digest is held (hash_table/many_mutate.hpp).
//
// Invariants, beside those of write.hpp and of the two parts
// (M1) Only the holder of slot s's lock stores to journal s.
// (M2) An entry to which the table does not lead is named by an open record: of the slot that brings it, then of the
// one
//      that takes it. A record takes only what the table holds under its digest, while the home stripe is held.
// (M3) A handle comes into the table once, by the slot that brings it; it is in it or was before anybody else names it.
// (M4) A handle goes from the store only behind its end in the table. So under the home stripe what the table holds
//      stands.
//
// Stores of each operation, in order
//   set     O1 claim and bytes | H1, H2 stripe | O2 record | O3 selector | O4 the store commits the entry | O5 the
//   table
//           inserts or updates = commit | G1, G2 stripe given back | O7 the store frees the old entry | O8 complete
//   erase   H1, H2 | O2 record | O3 selector | O5 the table erases = commit | G1, G2 | O7 the store frees | O8 complete
//   fetch_add: a set; the old entry is copied into the claim between H2 and O2
// What is refused under the stripe is refused before O2: it leaves no record.
//
// Killed after  state                                          repaired by
//   O1          a claim: counted free                          as the store says
//   H2          the stripe is held                             who meets it, as the table says
//   O3          a record, of which nothing is done             who attaches, meets anything of the dead one's in table
//                                                              or store, or finds no room: closed
//   O4          an entry to which no key leads; counted used   the same: freed
//   in O5       the same, or committed                         the same, behind the table's own recovery
//   O5, G2      done; the old entry stands without a key       the same: freed
//   O7          done                                           the same: closed
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "holdfast/block_store/many_write.hpp"
#include "holdfast/hash_map/entry.hpp"
#include "holdfast/hash_map/many_recover.hpp"

namespace holdfast::detail {

/// One writer over bytes. Locks: as those of block_many_core and hash_table_many_mutator. attempts_max: how often a
/// count is tried; each one more follows another writer's change of the entry.
template <class Locks, unsigned attempts_max = 1U << 12>
class map_many_core {
    using mutator = hash_table_many_mutator<map_node, Locks>;
    using store_core = block_many_core<Locks>;

 public:
    using view = map_view<std::byte>;

    map_many_core() = default;
    /// Recovers its own slot and those of other dead writers. Requires: `v` on a validated geometry with writer slots;
    /// the caller holds the lock of `slot`. Throws: std::bad_alloc (one bit a unit).
    map_many_core(const view& v, std::uint32_t slot, const Locks& locks)
        : slots_(v), store_(v.store, slot, locks), reader_(v.as_const(), {}), locks_(locks), slot_(slot) {
        recovery_.store = store_.recovery();
        recovery_.table = recover_as(v.table, slot, locks);
        table_ = mutator(v.table, slot, locks);
        recover_map_slots(slots_, slot_set().set(slot_), reader_, store_, recovery_);
        operation_ = slots_.selector(slot_) / 2;
        (void)recover_others(recovery_);
    }

    [[nodiscard]] const map_reader_core& reader() const noexcept { return reader_; }
    [[nodiscard]] const hash_map_recovery& recovery() const noexcept { return recovery_; }
    [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
    [[nodiscard]] mutator& table() noexcept { return table_; }
    void set_patience(std::uint64_t ns) noexcept {
        for (Locks* locks : {&locks_, &table_.locks(), &store_.locks()}) locks->set_patience(ns);
    }
    /// Whom the last `contended` waited for.
    [[nodiscard]] std::optional<std::uint32_t> blocked_by() const noexcept { return table_.blocked_by(); }
    /// How often this one finished what it found undone by a dead writer, after attaching.
    [[nodiscard]] std::uint64_t takeovers() const noexcept { return met() + takeovers_; }
    /// The first damage that an operation met in any of the parts.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        return first_damage({reader_.fault(), table_.finder().fault(), store_.reader().fault().get()});
    }

    /// Gives the key this value if the condition holds.
    hash_map_result set(std::span<const std::byte> key, std::span<const std::byte> value, std::uint32_t flags = 0,
                        const map_condition& when = {}) noexcept {
        if (!fits_an_entry(slots_.view().geometry(), key, value)) return {outcome::too_large};
        const map_digest digest = slots_.view().digest(key);
        if (const auto no = refused_at_once(digest, key, when)) return *no;
        const std::uint64_t value_at = layout::map_value_offset(key.size());
        if (const outcome room = claim(value_at + value.size()); room != outcome::ok) return no_room(room, digest);
        write_entry_head(store_, key, 0, flags);
        (void)store_.write(value_at, value);
        return after(put(digest, key, when, [](const map_place&) { return outcome::ok; }));
    }

    /// Removes the key's entry if the condition holds.
    hash_map_result erase(std::span<const std::byte> key, const map_condition& when = {}) noexcept {
        const map_digest digest = slots_.view().digest(key);
        map_place at;
        hash_map_result no;
        std::uint64_t word = 0;
        bool began = false;
        const auto done = table_.decide(digest.bytes(), bytes_of_word(word), false, [&](bool) {
            at = place_of(word, key);
            no = refusal(at, when);
            if (no.status != outcome::ok) return table_change::none;
            begin(entry_change::erased, digest, 0, at.entry);  // O2, O3
            began = true;
            return table_change::erase;  // O5
        });
        if (!began) return after(done.status == outcome::stale ? no : hash_map_result{done.status});
        settle(at.entry);  // O7, O8
        return after({outcome::ok, 0, entry_change::erased});
    }

    /// Adds to the T at byte `offset` of the key's value; what else it holds stays.
    template <class T>
    hash_map_added<T> fetch_add(std::span<const std::byte> key, std::uint64_t offset, T addend) noexcept {
        const map_digest digest = slots_.view().digest(key);
        hash_map_added<T> done;
        std::uint64_t gone = 0;  // what the table led to, where nothing stood
        for (unsigned attempt = 0; attempt < attempts_max; ++attempt) {
            std::uint64_t entry = 0, bytes = 0;
            map_entry_head head;
            done.status = reader_.look_under(digest, entry);
            // Nothing comes into the table again (M3): it leads there, and not because it is being updated.
            if (done.status == outcome::ok && entry == gone) done.status = reader_.broken();
            if (done.status == outcome::ok) done.status = reader_.head_of(entry, head, bytes);
            if (done.status == outcome::stale) {  // updated or erased meanwhile
                // Acquire, pairs with the store's W2: the table's next answer is newer than the end of this entry (M4).
                (void)reader_.blocks().contains(gone = entry);
                continue;
            }
            if (done.status == outcome::ok) done.status = claim(bytes);
            if (done.status != outcome::ok) break;
            bool resized = false;
            const hash_map_result kept = put(digest, key, {map_condition::present}, [&](const map_place& at) {
                std::uint64_t now = 0;
                // What lies there, if anything, is another key's; or the entry is damaged.
                if (at.entry == 0 || reader_.head_of(at.entry, head, now) != outcome::ok) return reader_.broken();
                resized = now != bytes;
                if (resized) return outcome::stale;
                if (!copy_into_claim(reader_, at.entry, store_)) return reader_.broken();
                return add_in_claim(reader_, at.entry, head, bytes, store_, offset, addend, done.before);
            });
            done.status = kept.status;
            if (resized) continue;
            done.handle = kept.handle;
            break;
        }
        if (done.status == outcome::stale) done.status = outcome::contended;  // it had another size each time
        (void)after({done.status});
        return done;
    }

 private:
    [[nodiscard]] static std::byte* bytes_of_word(std::uint64_t& word) noexcept {
        return reinterpret_cast<std::byte*>(&word);
    }
    /// What a word of the table means. Requires: the home stripe is held (M4).
    [[nodiscard]] map_place place_of(std::uint64_t word, std::span<const std::byte> key) const noexcept {
        return word == 0 ? map_place{} : place_under(reader_, word, key);
    }

    /// What can be told without a lock, a claim or a store, as of this moment.
    [[nodiscard]] std::optional<hash_map_result> refused_at_once(const map_digest& digest,
                                                                 std::span<const std::byte> key,
                                                                 const map_condition& when) const noexcept {
        if (when.when == map_condition::always) return std::nullopt;
        std::uint64_t handle = 0;
        if (reader_.look_under(digest, handle) == outcome::corrupt) return std::nullopt;
        const map_place at = place_of(handle, key);
        if (at.status != outcome::ok || at.entry != handle) return std::nullopt;  // it may have been updated meanwhile
        const hash_map_result no = refusal(at, when);
        return no.status == outcome::ok ? std::nullopt : std::optional(no);
    }

    /// O1. Claims units for an entry of so many bytes.
    [[nodiscard]] outcome claim(std::uint64_t bytes) noexcept {
        const outcome status = store_.prepare(bytes);
        if (status != outcome::full || recover_others(recovered_) == 0) return status;
        return store_.prepare(bytes);
    }
    [[nodiscard]] hash_map_result no_room(outcome why, const map_digest& digest) noexcept {
        return after({why, why == outcome::full ? reader_.handle_under(digest) : 0});
    }

    /// Makes the claim the key's entry if the condition holds and fill(what is there) answers ok.
    template <class Fill>
    hash_map_result put(const map_digest& digest, std::span<const std::byte> key, const map_condition& when,
                        Fill&& fill) noexcept {
        const std::uint64_t handle = store_.pending();
        const bool adds = when.when == map_condition::always || when.when == map_condition::absent ||
                          (when.when == map_condition::same && when.handle == 0);
        map_place at;
        hash_map_result no;
        std::uint64_t word = 0;
        entry_change what = entry_change::none;
        const auto done = table_.decide(digest.bytes(), bytes_of_word(word), adds, [&](bool found) {
            at = found ? place_of(word, key) : map_place{};
            no = refusal(at, when);
            if (no.status == outcome::ok) no = {fill(at), at.handle};
            if (no.status != outcome::ok) return table_change::none;
            what = at.handle != 0 ? entry_change::updated : entry_change::inserted;
            begin(what, digest, handle, at.entry);  // O2, O3
            (void)store_.commit();                  // O4: never refused, since `handle` is claimed
            word = handle;
            return table_change::store;  // O5
        });
        if (what == entry_change::none) {
            store_.discard();
            if (done.status == outcome::stale) return no;
            if (done.status == outcome::not_found && when.when == map_condition::same) return {outcome::stale, 0};
            return {done.status};
        }
        if (done.status != outcome::ok) {  // the table is damaged there
            settle(handle);
            return {outcome::corrupt};
        }
        settle(at.entry);  // O7, O8
        return {outcome::ok, handle, what};
    }

    void begin(entry_change what, const map_digest& key, std::uint64_t add, std::uint64_t take) noexcept {
        begin_operation(slots_, slot_, ++operation_,
                        {{static_cast<std::uint64_t>(what), key.word[0], key.word[1], add, take, 0, 0, 0}});
    }
    /// O7, O8.
    void settle(std::uint64_t goes) noexcept {
        if (goes != 0) (void)store_.free(goes);
        complete_operation(slots_, slot_, operation_);
    }

    /// How often table or store finished something for a dead writer.
    [[nodiscard]] std::uint64_t met() const noexcept { return table_.takeovers() + store_.takeovers(); }
    /// Behind each operation: whom table or store found dead has perhaps left a record, too.
    hash_map_result after(const hash_map_result& done) noexcept {
        if (met() != met_) [[unlikely]] {
            met_ = met();
            (void)recover_others(recovered_);
        }
        return done;
    }

    /// Finishes what other dead writers left. Returns: for how many. The slots of sound journals are held one at a
    /// time, those of damaged ones together. Requires: no operation of ours is open.
    std::uint64_t recover_others(hash_map_recovery& done) noexcept {
        std::uint64_t found = 0;
        slot_set damaged;
        for (std::uint32_t other = 0; other < slots_.slots(); ++other) {
            if (other == slot_ || !slots_.left_something(other) || !locks_.take(other)) continue;
            name_holder(slots_.view().table, other, locks_.pid());
            ++found;
            (void)recover_writer(slots_.view().table, other);
            // The store's before the map's, whose frees wait for the operation that brought the value.
            const bool store_damaged = !store_.slots().look(other).sound;
            if (!store_damaged) (void)recover_slot(store_.slots(), other, done.store);
            if (store_damaged || takes_a_pass(slots_.look(other))) {
                damaged.set(other);
                continue;
            }
            recover_map_slots(slots_, slot_set().set(other), reader_, store_, done);
            locks_.give_back(other);
        }
        if (damaged.any()) recover_damaged(damaged, done);
        takeovers_ += &done == &recovery_ ? 0 : found;
        return found;
    }
    /// By one pass over store and map each for all of them. Requires: their locks are held, and are given back.
    void recover_damaged(const slot_set& damaged, hash_map_recovery& done) noexcept {
        recover_slots(store_.slots(), damaged, done.store, [](std::uint64_t, const block_counts&) {});
        recover_map_slots(slots_, damaged, reader_, store_, done);
        give_back_all(damaged, locks_);
    }

    map_slots<std::byte> slots_;
    store_core store_;
    mutator table_;
    map_reader_core reader_;
    Locks locks_{};
    hash_map_recovery recovery_, recovered_;  // at attach, and since
    std::uint64_t operation_ = 0;             // of our slot
    std::uint64_t takeovers_ = 0;
    std::uint64_t met_ = 0;
    std::uint32_t slot_ = 0;
};

}  // namespace holdfast::detail
