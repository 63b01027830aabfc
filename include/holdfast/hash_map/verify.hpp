// SPDX-License-Identifier: Apache-2.0
// verify.hpp - a full check of a hash map: its table, its store, its record, and the seam between them.
//
// The seam: under each handle that the table holds an entry stands whose key has the digest under which the table holds
// it; and to each entry of the store the table leads, those that the record of an open operation names left out. So
// there are as many entries as keys, and none is lost or held twice.
//
// Any bytes may be checked, in time by the size of the map and with the memory that the table's check takes: entries
// that together have more bytes than the store are reported without being read. Beside a working writer nothing is
// reported that its work could explain: an entry is looked at again until the table said the same before and after, a
// value without a key until no operation began meanwhile; what finds no such moment counts as busy. What is found:
// every changed bit of keys, values, handles and the record in force. The clock, the sweep's place and the counters of
// what went are for service, and have no check.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "holdfast/block_store/reading_budget.hpp"
#include "holdfast/block_store/verify.hpp"
#include "holdfast/hash_map/many_view.hpp"
#include "holdfast/hash_map/read.hpp"
#include "holdfast/hash_table/verify.hpp"

namespace holdfast {

enum class hash_map_damage : std::uint8_t {
    table,          ///< of the table: see `table`
    store,          ///< of the store: see `store`
    record,         ///< the record of the last operation, of many writers of any one, is not what its writer stored
    lost_entry,     ///< the table holds a handle under which nothing stands
    foreign_entry,  ///< under a handle lies another key than the one that the table holds it for, or no entry
    unreached,      ///< an entry of the store to which no key leads
};

[[nodiscard]] constexpr std::string_view describe(hash_map_damage what) noexcept {
    switch (what) {
        case hash_map_damage::table: return "the table is damaged";
        case hash_map_damage::store: return "the store is damaged";
        case hash_map_damage::record: return "the record of the last operation is damaged";
        case hash_map_damage::lost_entry: return "the table leads to an entry that is not there";
        case hash_map_damage::foreign_entry: return "the table leads to an entry of another key";
        case hash_map_damage::unreached: return "no key leads to the entry";
    }
    return "unknown damage";
}

struct hash_map_finding {
    hash_map_damage what{};
    std::uint64_t slot = 0;    ///< of the table; for lost_entry and foreign_entry. For record: the writer slot
    std::uint64_t handle = 0;  ///< of the entry concerned; 0 = none
    hash_table_finding table;  ///< for `table`
    block_finding store;       ///< for `store`
};

struct hash_map_verification {
    std::uint64_t entries = 0;  ///< keys, those included whose time is over
    std::uint64_t findings = 0;
    bool operation_open = false;  ///< no damage: the writer was killed in an operation, which its successor finishes
    std::uint64_t busy = 0;       ///< parts that a working writer changed whenever they were looked at
    bool stopped = false;         ///< the callback wanted no more
    hash_table_verification table;
    block_store_verification store;

    [[nodiscard]] bool intact() const noexcept { return findings == 0; }
};

namespace detail {

template <class OnFinding>
class hash_map_verifier {
 public:
    hash_map_verifier(const map_view<const std::byte>& view, OnFinding& on_finding) noexcept
        : view_(view),
          reader_(view, {}),
          on_finding_(on_finding),
          of_slots_(view.store),
          of_entries_(view.store),
          begun_(progress()) {}

    hash_map_verification run() {
        check_record();
        report_.table = detail::verify(view_.table, [&](const hash_table_finding& f) {
            return report({.what = hash_map_damage::table, .slot = f.slot, .handle = 0, .table = f, .store = {}});
        });
        if (!report_.stopped)
            report_.store = verify_blocks(view_.store, [&](const block_finding& f) {
                return report({.what = hash_map_damage::store, .slot = 0, .handle = f.handle, .table = {}, .store = f});
            });
        report_.busy += report_.table.busy + (report_.store.busy ? 1 : 0);
        for (std::uint64_t bucket = 0; bucket < view_.table.buckets && !report_.stopped; ++bucket)
            for (std::uint32_t places = reader_.table().occupied(bucket); places != 0; places &= places - 1)
                check_slot(bucket * layout::tags_per_line + static_cast<unsigned>(std::countr_zero(places)));
        const block_reader_core& blocks = reader_.blocks();
        for (std::uint64_t h = blocks.next_value(0); h != 0 && !report_.stopped;
             h = blocks.next_value(view_.store.index_of(h) + 1))
            check_reached(h);
        if (!report_.stopped) check_suspects();
        return report_;
    }

 private:
    static constexpr unsigned looks_max = 256;

    bool report(const hash_map_finding& finding) {
        if (report_.stopped) return false;
        ++report_.findings;
        report_.stopped = !on_finding_(finding);
        return !report_.stopped;
    }
    void report(hash_map_damage what, std::uint64_t slot, std::uint64_t handle) {
        report({.what = what, .slot = slot, .handle = handle, .table = {}, .store = {}});
    }

    /// What changes when an operation begins.
    [[nodiscard]] std::uint64_t progress() const noexcept {
        return view_.geometry().writer_slots() != 0 ? map_slots(view_).progress() : view_.selector();
    }

    /// Entries have more bytes than the store: damage, unless a writer had entries looked at again.
    void report_unread(hash_map_damage what, std::uint64_t slot, std::uint64_t handle) {
        if (progress() != begun_)
            ++report_.busy;
        else
            report(what, slot, handle);
    }

    void check_record() {
        if (view_.geometry().writer_slots() != 0) return check_records_of_many();
        for (unsigned look = 0; look < looks_max; ++look) {
            const map_state s = view_.look();
            if (!s.undisturbed) continue;
            if (!s.sound) report(hash_map_damage::record, 0, 0);
            report_.operation_open = s.sound && s.is_open();
            return;
        }
        ++report_.busy;
    }

    void check_records_of_many() {
        const map_slots slots(view_);
        for (std::uint64_t slot = 0; slot < slots.slots(); ++slot) {
            const map_state s = slots.state(slot);
            if (!s.undisturbed) {
                ++report_.busy;
                continue;
            }
            if (!s.sound) report(hash_map_damage::record, slot, 0);
            report_.operation_open = report_.operation_open || (s.sound && s.is_open());
        }
    }

    // What a slot holds; a handle of 0 = nothing.
    struct held {
        map_digest digest;
        std::uint64_t handle = 0;
        friend bool operator==(const held&, const held&) = default;
    };
    [[nodiscard]] held look_at(std::uint64_t slot) const noexcept {
        held now;
        if (!reader_.table().read_slot(slot, reinterpret_cast<std::byte*>(&now.digest),
                                       reinterpret_cast<std::byte*>(&now.handle)))
            return {};
        return now;
    }

    void check_slot(std::uint64_t slot) {
        held now = look_at(slot);
        for (unsigned look = 0; look < looks_max; ++look) {
            if (now.handle == 0) return;
            map_digest digest;
            if (!of_slots_.spend(now.handle)) return report_unread(hash_map_damage::foreign_entry, slot, now.handle);
            const outcome got = reader_.digest_under(now.handle, digest);
            if (got == outcome::ok && digest == now.digest) {
                ++report_.entries;
                return;
            }
            // Acquire, pairs with the store's W2: the table is asked behind it, and had let go before.
            const bool stands = reader_.blocks().contains(now.handle);
            const held next = look_at(slot);
            if (next == now && (!stands || got != outcome::stale))
                return report(stands ? hash_map_damage::foreign_entry : hash_map_damage::lost_entry, slot, now.handle);
            now = next;
        }
        ++report_.busy;
    }

    /// Whether a key leads to the entry, as far as can be told while nothing moved.
    void check_reached(std::uint64_t handle) {
        if (view_.geometry().writer_slots() != 0) return check_reached_of_many(handle);
        for (unsigned look = 0; look < looks_max; ++look) {
            const map_state s = view_.look();
            map_digest digest;
            if (!of_entries_.spend(handle)) return report_unread(hash_map_damage::unreached, 0, handle);
            const outcome got = reader_.digest_under(handle, digest);
            if (got == outcome::stale) return;  // it went
            if (got == outcome::ok && reader_.handle_under(digest) == handle) return;
            if (!reader_.blocks().contains(handle)) return;
            if (s.undisturbed && view_.selector() == s.selector) {
                if (s.sound && s.is_open() && s.record.names(handle)) return;  // (I2) of write.hpp
                return report(hash_map_damage::unreached, 0, handle);
            }
            pause();
        }
        ++report_.busy;
    }

    // To which no key leads at first sight. All slots are looked at for many of them together, or a store full of such
    // would take its entries times its slots.
    void check_reached_of_many(std::uint64_t handle) {
        if (!of_entries_.spend(handle)) return report_unread(hash_map_damage::unreached, 0, handle);
        if (map_slots<const std::byte>::is_led_to(reader_, handle)) return;
        suspects_[suspected_++] = handle;
        if (suspected_ == suspects_.size()) check_suspects();
    }
    void check_suspects() {
        std::span<std::uint64_t> left = std::span(suspects_).first(suspected_);
        suspected_ = 0;
        const map_slots slots(view_);
        for (unsigned look = 0; look < looks_max && !left.empty(); ++look) {
            const map_stray stray = slots.keep_strays(reader_, left);
            if (stray == map_stray::yes)
                for (const std::uint64_t handle : left) report(hash_map_damage::unreached, 0, handle);
            if (stray != map_stray::busy) return;  // hidden: the record that hides them is reported
            pause();
            const auto read = std::partition(left.begin(), left.end(), [&](auto h) { return of_entries_.spend(h); });
            for (auto each = read; each != left.end(); ++each) report_unread(hash_map_damage::unreached, 0, *each);
            left = left.first(static_cast<std::size_t>(read - left.begin()));
        }
        report_.busy += left.size();
    }

    map_view<const std::byte> view_;
    map_reader_core reader_;
    OnFinding& on_finding_;
    block_reading_budget of_slots_, of_entries_;
    std::array<std::uint64_t, 512> suspects_{};  // of many writers: entries to which no key seems to lead
    std::size_t suspected_ = 0;
    std::uint64_t begun_;  // progress() before all of it
    hash_map_verification report_;
};

/// Checks everything; on_finding(const hash_map_finding&) returns whether to go on. Throws: std::bad_alloc (the table's
/// check). Cost: that of table and store, and two lookups for each entry.
template <class OnFinding>
hash_map_verification verify_map(const map_view<const std::byte>& view, OnFinding&& on_finding) {
    return hash_map_verifier<std::remove_reference_t<OnFinding>>(view, on_finding).run();
}

}  // namespace detail
}  // namespace holdfast
