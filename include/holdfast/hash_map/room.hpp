// SPDX-License-Identifier: Apache-2.0
// room.hpp - the parts that the writer of a hash map works on, and how entries leave it: erased, expired, evicted.
//
// Expiry. A mutation looks at two entries from where the sweep stands, within 64 units, once any entry ever expired; so
// a turn through the store costs half as many mutations as there are entries, and nothing waits for being asked for.
// Eviction. The hand goes through the store by address and takes out what has expired, else what was not used since it
// last came by; at most 32 used ones are passed over for each entry that goes, then use no longer protects. The store
// allocates by next fit, so what goes is what has lain longest, neighbour by neighbour: that makes the run which the
// new entry needs. A table that is full is cured in the same way.
// Where the hand is, a successor goes on. Use is a bit a unit in private memory, set by the writer's own lookups and by
// those of registered readers (uses.hpp); lost with the process, the order is that of storing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "holdfast/block_store/reading_budget.hpp"
#include "holdfast/block_store/write.hpp"
#include "holdfast/hash_map/recover.hpp"
#include "holdfast/hash_map/sink.hpp"
#include "holdfast/hash_map/uses.hpp"
#include "holdfast/hash_table/mutate.hpp"

namespace holdfast::detail {

/// What making room for one entry may read. Of sound ones it looks at 33 at most for each that goes, so that none is
/// looked at more often than that; damaged ones may overlap, and each be as long as the store.
class map_room_search {
 public:
    /// Before what lies under a handle is read. Returns: whether it may be; if not, that is damage.
    [[nodiscard]] bool may_read(const map_reader_core& reader, std::uint64_t handle) noexcept {
        if (!budget_) budget_.emplace(reader.blocks().bytes(), turns_max);
        over_ = over_ || !budget_->spend(handle);
        if (over_) reader.latch(errc::corrupt);
        return !over_;
    }
    [[nodiscard]] bool is_over() const noexcept { return over_; }
    /// The first time only: what readers note is heard once, or whoever notes without end is spared without end.
    [[nodiscard]] bool may_listen() noexcept { return !std::exchange(heard_, true); }

 private:
    static constexpr std::uint64_t turns_max = 40;
    std::optional<block_reading_budget> budget_;
    bool over_ = false;
    bool heard_ = false;
};

/// Table, store and record in the hands of one writer. Order of stores and crash table: write.hpp.
class map_keeper {
 public:
    using view = map_view<std::byte>;

    map_keeper() = default;
    /// Requires: `v` on a validated geometry; no other writer. `sink`, if any, outlives this. Throws: std::bad_alloc.
    map_keeper(const view& v, const hash_map_clock& clock, map_sink* sink)
        : view_(v), store_(v.store), reader_(v.as_const(), map_time(clock)), sink_(sink) {
        recovery_.store = store_.recovery();
        recovery_.table = detail::recover(v.table);
        table_ = hash_table_mutator<map_node>(v.table);
        reader_.time().take_over(v);
        counts_ = recover_map(v, reader_, store_, sink, recovery_);
        // Relaxed, all: nobody else stores to them.
        expiring_ = load_relaxed<std::uint64_t>(v.control(layout::map_expiring_offset)) != 0;
        sweep_ = load_relaxed<std::uint64_t>(v.control(layout::map_sweep_offset));
        hand_ = load_relaxed<std::uint64_t>(v.control(layout::map_hand_offset));
        if (sweep_ >= v.store.units()) sweep_ = 0;
        if (hand_ >= v.store.units()) hand_ = 0;
        if (evicting()) used_.resize(static_cast<std::size_t>((v.store.units() + 63) / 64));
    }

    [[nodiscard]] const map_reader_core& reader() const noexcept { return reader_; }
    [[nodiscard]] const hash_map_recovery& recovery() const noexcept { return recovery_; }
    [[nodiscard]] std::uint64_t changes() const noexcept { return counts_.changes; }
    std::uint64_t recount() { return detail::recount(view_.table); }
    /// What registered readers note in these slots counts as asked for. Requires: they outlive this.
    void listen_to(std::span<std::byte> slots) noexcept { readers_ = map_use_rings(slots); }
    /// The entry was asked for: it may stay a while longer.
    void note_use(std::uint64_t handle) noexcept {
        if (used_.empty() || !view_.store.is_handle(handle)) return;
        const std::uint64_t unit = view_.store.index_of(handle);
        used_[static_cast<std::size_t>(unit / 64)] |= std::uint64_t{1} << (unit % 64);
    }
    /// The first damage that an operation met in any of the parts.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        return first_damage({reader_.fault(), table_.finder().fault(), store_.reader().fault().get()});
    }

 protected:
    [[nodiscard]] bool evicting() const noexcept { return view_.geometry().evicting; }
    [[nodiscard]] std::uint64_t now() const noexcept { return reader_.time().tick(view_).seconds; }

    void begin(entry_change what, const map_digest& key, std::uint64_t add, std::uint64_t take) noexcept {
        begin_operation(
            view_, counts_,
            {{static_cast<std::uint64_t>(what), key.word[0], key.word[1], add, take, counts_.changes + 1, 0, 0}});
    }
    /// Behind the commit: counts the change, tells it, frees the old entry, closes the record. Returns: what came of
    /// the old entry.
    outcome settle(entry_change what, std::uint64_t about, std::uint64_t old) noexcept {
        ++counts_.changes;
        if (sink_ != nullptr) (void)sink_->tell({counts_.changes, what, about}, reader_);
        const outcome freed = old != 0 ? store_.free(old) : outcome::stale;
        complete_operation(view_, counts_);
        return freed;
    }

    /// Takes a key out whose digest is known, and the entry under `handle`, 0: none. Returns: whether its units are
    /// free now.
    bool take_out(const map_digest& digest, std::uint64_t handle, entry_change what) noexcept {
        begin(what, digest, 0, handle);                                  // O2, O3
        (void)table_.erase(digest.bytes());                              // O5
        const bool freed = settle(what, handle, handle) == outcome::ok;  // O6, O7, O8
        if (what == entry_change::evicted) count(layout::map_evicted_offset);
        if (what == entry_change::expired) count(layout::map_expired_offset);
        return freed;
    }
    /// The same by what lies under the handle. What no key leads to, or cannot be read, stays: that is damage.
    bool take_out(std::uint64_t handle, entry_change what) noexcept {
        map_digest digest;
        if (reader_.digest_under(handle, digest) != outcome::ok || reader_.handle_under(digest) != handle) return false;
        return take_out(digest, handle, what);
    }

    /// Looks at two entries, and takes out what has expired.
    void sweep() noexcept {
        if (!expiring_) return;
        const std::uint64_t time = now();
        for (unsigned entries = 0, passed = 0; entries < 2 && passed < sweep_units_max; ++passed) {
            const std::uint64_t handle = first_unit_at(step(sweep_));
            if (handle == 0) continue;
            ++entries;
            if (is_expired(handle, time)) take_out(handle, entry_change::expired);
        }
        // Relaxed would do: only a successor reads it.
        store_release<std::uint64_t>(view_.control(layout::map_sweep_offset), sweep_);
    }

    /// Takes one entry out to make room; `keep` stays. Returns: whether room was made.
    bool make_room(std::uint64_t keep, map_room_search& search) noexcept {
        if (!evicting()) return expiring_ && expire_one(keep, search);
        const bool made = evict_one(keep, search);
        // Relaxed would do: only a successor reads it.
        store_release<std::uint64_t>(view_.control(layout::map_hand_offset), hand_);
        return made;
    }

    void note_stored(std::uint64_t handle) noexcept {
        if (used_.empty()) return;
        const std::uint64_t unit = view_.store.index_of(handle);
        used_[static_cast<std::size_t>(unit / 64)] &= ~(std::uint64_t{1} << (unit % 64));
    }
    /// When an entry that is stored now expires; 0 seconds: never. Notes that there are such entries.
    [[nodiscard]] std::uint64_t expiry_after(std::chrono::seconds ttl) noexcept {
        if (ttl.count() == 0) return 0;
        if (!expiring_) store_release<std::uint64_t>(view_.control(layout::map_expiring_offset), 1);
        expiring_ = true;
        const map_moment now = reader_.time().tick(view_);
        if (ttl.count() < 0) return now.seconds != 0 ? now.seconds : 1;
        return now.end_after(static_cast<std::uint64_t>(ttl.count()));
    }
    [[nodiscard]] bool is_expired(std::uint64_t handle, std::uint64_t time) const noexcept {
        map_entry_head head;
        std::uint64_t bytes = 0;
        return reader_.head_of(handle, head, bytes) == outcome::ok && is_over(head.expires, time);
    }

    view view_;
    block_writer_core store_;
    hash_table_mutator<map_node> table_;
    map_reader_core reader_;
    map_sink* sink_ = nullptr;
    hash_map_recovery recovery_;
    map_counts counts_;
    bool expiring_ = false;  // some entry was stored that expires

 private:
    static constexpr unsigned sweep_units_max = 64;
    static constexpr std::uint64_t spared_max = 32;

    /// The unit at a place that goes round the store, and moves the place on.
    [[nodiscard]] std::uint64_t step(std::uint64_t& place) const noexcept {
        const std::uint64_t unit = place;
        place = unit + 1 < view_.store.units() ? unit + 1 : 0;
        return unit;
    }
    /// The handle of the entry that begins at a unit; 0 = none does.
    [[nodiscard]] std::uint64_t first_unit_at(std::uint64_t unit) const noexcept {
        const std::uint64_t word = view_.store.word(unit);
        return view_.store.is_handle(word) && view_.store.index_of(word) == unit ? word : 0;
    }
    bool evict_one(std::uint64_t keep, map_room_search& search) noexcept {
        const std::uint64_t time = expiring_ ? now() : 0;
        std::uint64_t spared = 0;
        if (search.may_listen())
            readers_.take([&](std::uint64_t handle) {
                if (reader_.blocks().contains(handle)) note_use(handle);
            });
        // Two turns: the first may find all of them used.
        for (std::uint64_t passed = 0; passed < 2 * view_.store.units(); ++passed) {
            const std::uint64_t unit = step(hand_);
            const std::uint64_t handle = first_unit_at(unit);
            if (handle == 0 || handle == keep) continue;
            if (expiring_) {
                if (!search.may_read(reader_, handle)) return false;
                if (is_expired(handle, time)) {
                    if (take_out(handle, entry_change::expired)) return true;
                    continue;
                }
            }
            std::uint64_t& uses = used_[static_cast<std::size_t>(unit / 64)];
            const std::uint64_t bit = std::uint64_t{1} << (unit % 64);
            if ((uses & bit) != 0 && spared < spared_max) {
                uses &= ~bit;
                ++spared;
                continue;
            }
            if (!search.may_read(reader_, handle)) return false;
            if (take_out(handle, entry_change::evicted)) return true;
        }
        return false;
    }
    /// Where nothing may be evicted: one entry whose time is over. A turn through the store, once a second at most.
    bool expire_one(std::uint64_t keep, map_room_search& search) noexcept {
        const std::uint64_t time = now();
        if (fruitless_ && fruitless_at_ == time) return false;
        for (std::uint64_t passed = 0; passed < view_.store.units(); ++passed) {
            const std::uint64_t handle = first_unit_at(step(sweep_));
            if (handle == 0 || handle == keep) continue;
            if (!search.may_read(reader_, handle)) return false;
            if (!is_expired(handle, time)) continue;
            if (take_out(handle, entry_change::expired)) return true;
        }
        fruitless_ = true;
        fruitless_at_ = time;
        return false;
    }
    void count(std::size_t offset) noexcept {
        std::byte* const at = view_.control(offset);
        // Relaxed load: nobody else stores to it.
        store_release<std::uint64_t>(at, load_relaxed<std::uint64_t>(at) + 1);
    }

    map_use_rings readers_;
    std::vector<std::uint64_t> used_;
    std::uint64_t sweep_ = 0;
    std::uint64_t hand_ = 0;
    bool fruitless_ = false;
    std::uint64_t fruitless_at_ = 0;
};

}  // namespace holdfast::detail
