// SPDX-License-Identifier: Apache-2.0
// write.hpp - the one writer of a hash map: an entry is put into the store, the table is led to it by one word, and the
// old entry goes.
//
// Invariants
// (I1) The table's word, its tag for an insert or erase, is the only commit point. While the table holds a handle, the
//      entry under it stands; so a reader that finds a handle and then a store that denies it asks the table again.
// (I2) An entry to which the table does not lead is named by the record in force, whose operation is open. There is one
//      at most at any time: that which comes before the commit, that which goes behind it.
// (I3) An entry never changes (block_store/write.hpp, I2): its handle is its version.
// (I4) What the record says of the change's number is true of a completed operation; of an open one, if it was
//      committed.
//
// Stores of each operation, in order; the table's and the store's own stand in hash_table/mutate.hpp (insert, update of
// one word, erase) and block_store/write.hpp (prepare, commit, free)
//   set     O1 entry's bytes in a claim | O2 record | O3 selector | O4 store commits the entry | O5 table inserts or
//           updates = commit | O6 the change is told | O7 store frees the old entry | O8 selector: complete
//   erase   O2 record | O3 selector | O5 table erases = commit | O6 told | O7 store frees the entry | O8 complete
//   expiry, eviction: erases of their own, before the set that wants the room; where that is its key's
//           own old entry, a kill in between leaves neither value
//   fetch_add, touch: a set of a changed copy
//
// Synchronisation (store here -> load in view.hpp, clock.hpp)
//   W1 selector (O3, O8)      -> R1 look       a record is read whole, or the selector is seen to have moved on
//   the table's W1, the       -> theirs        whoever finds a handle finds its entry; whoever finds an entry gone
//   finds store's W1, W2                             the table without it
//
// Killed after   state                                          repaired by
//   O1, O2       bytes in free units; a record not in force     nobody must
//   O3           the record names a handle that does not stand  the next attach: nothing to free
//   O4           an entry to which no key leads, counted as     the next attach frees it
//                used
//   in O5        the same, or committed; the table mends itself the next attach
//   O5, O6       done for readers; the old entry stands without the next attach tells what is untold, frees the old
//                a key                                          entry
//   O7           done                                           the next attach closes the record
//   O8           done                                           -
// used + free = capacity holds at every row, by the store's own counts. The repairs are operations of table and store,
// and may be killed themselves (recover.hpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "holdfast/hash_map/entry.hpp"
#include "holdfast/hash_map/room.hpp"

namespace holdfast::detail {

/// The writer over bytes.
class map_writer_core : public map_keeper {
 public:
    using map_keeper::map_keeper;

    /// Gives the key this value if the condition holds.
    hash_map_result set(std::span<const std::byte> key, std::span<const std::byte> value,
                        const hash_map_entry_options& how = {}, const map_condition& when = {}) noexcept {
        if (!fits_an_entry(view_.geometry(), key, value)) return {outcome::too_large};
        const std::uint64_t value_at = layout::map_value_offset(key.size());
        sweep();
        const map_digest digest = view_.digest(key);
        place at = look_up(digest, key);
        if (const hash_map_result no = refusal(at, when); no.status != outcome::ok) return no;
        // Who asked for a certain state does not see it evicted for its own sake.
        const bool may_go = when.when == map_condition::always;
        if (const outcome room = claim(digest, at, value_at + value.size(), may_go); room != outcome::ok)
            return {room, room == outcome::full ? at.handle : 0};
        write_entry_head(store_, key, expiry_after(how.ttl), how.flags);
        (void)store_.write(value_at, value);
        return commit(digest, at);
    }

    /// Removes the key's entry.
    hash_map_result erase(std::span<const std::byte> key, const map_condition& when = {}) noexcept {
        sweep();
        const map_digest digest = view_.digest(key);
        const place at = look_up(digest, key);
        if (at.status != outcome::ok) return {at.status};
        if (at.handle == 0) return {outcome::not_found};
        if (when.when == map_condition::same && when.handle != at.handle) return {outcome::stale, at.handle};
        (void)take_out(digest, at.entry, entry_change::erased);
        return {outcome::ok, 0, entry_change::erased};
    }

    /// Adds to the T at byte `offset` of the key's value; what else it holds stays, its expiry included.
    template <class T>
    hash_map_added<T> fetch_add(std::span<const std::byte> key, std::uint64_t offset, T addend) noexcept {
        hash_map_added<T> done;
        const auto is_within = [offset](const map_entry_head& head, std::uint64_t bytes) {
            return has_at<T>(head, bytes, offset);
        };
        const hash_map_result kept =
            copy(key, is_within, [&](std::uint64_t old, const map_entry_head& head, std::uint64_t bytes) {
                return add_in_claim(reader_, old, head, bytes, store_, offset, addend, done.before);
            });
        done.status = kept.status;
        done.handle = kept.handle;
        return done;
    }

    /// Gives the key's entry another expiry.
    hash_map_result touch(std::span<const std::byte> key, std::chrono::seconds ttl) noexcept {
        const auto always = [](const map_entry_head&, std::uint64_t) { return true; };
        return copy(key, always, [&](std::uint64_t, const map_entry_head&, std::uint64_t) {
            const std::uint64_t expires = expiry_after(ttl);
            return store_.write(0, std::as_bytes(std::span(&expires, 1)));
        });
    }

 private:
    using place = map_place;

    /// Looks for the key. An entry whose time is over is taken out.
    [[nodiscard]] place look_up(const map_digest& digest, std::span<const std::byte> key) noexcept {
        std::uint64_t handle = 0;
        if (reader_.look_under(digest, handle) == outcome::corrupt) return {outcome::corrupt};
        if (handle == 0) return {};
        const place at = place_under(reader_, handle, key);
        if (at.entry == 0 || !expiring_ || !is_expired(handle, now())) return at;
        (void)take_out(digest, handle, entry_change::expired);
        return {};
    }

    /// Claims units for an entry of so many bytes, and a slot for it if it is a new one; makes room where it may. What
    /// lies under `at` stays while it can. If both do not fit at once, whatever else went, nothing else goes for it:
    /// where it `may_go` it is evicted first, which `at` then says, else the answer is `full`.
    [[nodiscard]] outcome claim(const map_digest& digest, place& at, std::uint64_t bytes, bool may_go) noexcept {
        // One goes for one that comes, whatever the table says of its size. Where none can, it has a few slots more
        // than its capacity; without one of those it says that it is full.
        map_room_search search;
        if (at.handle == 0 && table_.size() >= view_.geometry().table.capacity) (void)make_room(0, search);
        for (bool fits = at.entry == 0;;) {
            const outcome status = store_.prepare(bytes);
            if (status != outcome::full) return status;
            fits = fits || fit_together(at.entry, bytes);
            if (fits && make_room(at.entry, search)) continue;
            if (search.is_over()) return outcome::corrupt;
            if (!evicting() || at.entry == 0 || !may_go) return outcome::full;
            (void)take_out(digest, at.entry, entry_change::evicted);
            at = {};
            fits = true;
        }
    }

    /// Whether an entry of so many bytes has room beside one that stays, once all others are gone: in the gaps between
    /// its runs, of which the search for free units may cut one in two.
    [[nodiscard]] bool fit_together(std::uint64_t stays, std::uint64_t bytes) const noexcept {
        const auto& store = view_.store;
        std::uint64_t taken = 0, gaps = 2;
        const bool whole =
            reader_.blocks().contains(stays) && store.for_each_run(store.index_of(stays), [&](const auto& run) {
                taken += run.units;
                ++gaps;
                return taken <= store.units();
            });
        if (!whole) return true;  // damaged: nothing can be said
        const std::uint64_t heads = layout::block_head_bytes + (gaps - 1) * layout::block_run_bytes;
        return bytes + heads <= store.bytes_of(store.units() - taken);
    }

    /// Makes the claim the key's entry: O2 to O8.
    hash_map_result commit(const map_digest& digest, const place& at) noexcept {
        const entry_change what = at.handle != 0 ? entry_change::updated : entry_change::inserted;
        const std::uint64_t handle = store_.pending();
        begin(what, digest, handle, at.entry);      // O2, O3
        const block_result kept = store_.commit();  // O4
        if (!kept) {
            store_.discard();
            forget_operation(view_, counts_);
            return {kept.status};
        }
        const auto put = table_.insert_or_assign(digest.bytes(), reinterpret_cast<const std::byte*>(&handle));  // O5
        if (put.status != outcome::ok) {
            (void)store_.free(handle);
            forget_operation(view_, counts_);
            return {put.status == outcome::full ? outcome::full : outcome::corrupt};
        }
        note_stored(handle);
        (void)settle(what, handle, at.entry);  // O6, O7, O8
        return {outcome::ok, handle, what};
    }

    /// Puts a copy of the key's entry, changed by change(old handle, its head, its bytes) in the claim, in its place.
    /// It is asked may(its head, its bytes) before room is made: out_of_range.
    template <class May, class Change>
    hash_map_result copy(std::span<const std::byte> key, May&& may, Change&& change) noexcept {
        sweep();
        const map_digest digest = view_.digest(key);
        place at = look_up(digest, key);
        if (at.status != outcome::ok) return {at.status};
        if (at.handle == 0) return {outcome::not_found};
        if (at.entry == 0) return {reader_.broken()};  // what lies there, if anything, is another key's
        map_entry_head head;
        std::uint64_t bytes = 0;
        if (reader_.head_of(at.handle, head, bytes) != outcome::ok) return {reader_.broken()};
        if (!may(head, bytes)) return {outcome::out_of_range, at.handle};
        if (const outcome room = claim(digest, at, bytes, false); room != outcome::ok) return {room, at.handle};
        // Ours is the only writer: the old entry stands until we free it.
        const bool whole = copy_into_claim(reader_, at.handle, store_);
        const outcome changed = whole ? change(at.handle, head, bytes) : reader_.broken();
        if (changed != outcome::ok) {
            store_.discard();
            return {changed, at.handle};
        }
        return commit(digest, at);
    }
};

}  // namespace holdfast::detail
