// SPDX-License-Identifier: Apache-2.0
// hash_map_layout.hpp - the bytes of a hash map behind the segment header: a hash table, a control page, a block store.
//
// Body, layout v2 (little-endian; offsets from the start of the body, which is 4096-aligned)
//   offset          bytes     field
//   0               ...       table    hash_table_layout.hpp: 16-byte digest of a key -> handle of its entry
//   control_offset  4096      control  below; the next multiple of 4096 behind the table
//   store_offset    ...       store    block_store_layout.hpp: entries; right behind the control page
//
// Control page, written by the writer            Record of operation n
//     0   8  selector: 2n = operation n began,      0  8  kind: entry_change
//            2n + 1 = and is complete; 0 = none     8 16  digest of its key
//    64  64  record of even operations             24  8  add   handle of the entry it brings, or 0
//   128  64  record of odd operations              32  8  take  handle of the entry it takes, or 0
//   192   8  clock: base, seconds                  40  8  change: how many changes there are when it is done
//   200   8  clock: last, seconds                  48  8  zero
//   208   4  clock: zone, the writer's time        56  8  sum   of the words above and n
//            namespace; 0 = unknown
//   212   4  clock: changes of base, odd = in one
//   216   8  1 once an entry was stored that expires
//   224   8  unit at which the sweep goes on
//   232   8  entries evicted                     Entry, the value of the store under a handle
//   240   8  entries taken out as expired           0  8  expires: second of the map's clock; 0 = never
//   248   8  unit at which the hand goes on         8  4  bytes of the key
//   all else zero                                  12  4  flags of the caller's
//                                                  16     key, zero bytes up to a multiple of 8, value
//
// Body, layout v3, of many writers (hash_map/many_write.hpp): table and store have writer slots, the control page is
// zero, and there is behind it, store_offset being the next multiple of 4096
//   journals_offset  slots * 256      journals  the holder of that writer slot
//     of each   0  8  selector        as above, for the operations of this slot
//              64  2 * 64  records    as above; their change is 0
//
// (I1) The geometry words in the segment header never change. They are input: the first five and the slots are checked,
// everything is
//      planned from them anew, and only the plan is used.
// (I2) A zero-filled body is an empty map.
// (I3) The table's hash of a key is made from its digest as hash_map/digest.hpp says, not as for other tables.
// The table comes first, so that its lines lie on huge pages as a table's of its own do.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "holdfast/layout/block_store_layout.hpp"
#include "holdfast/layout/hash_table_layout.hpp"

namespace holdfast::layout {

inline constexpr std::uint32_t hash_map_version = 2;
inline constexpr std::uint32_t hash_map_many_version = 3;  ///< of maps with writer slots

inline constexpr std::size_t map_control_bytes = 4096;
inline constexpr std::size_t map_selector_offset = 0;
inline constexpr std::size_t map_records_offset = 64;
inline constexpr std::size_t map_record_bytes = 64;
inline constexpr std::size_t map_record_words = map_record_bytes / 8;
inline constexpr std::size_t map_clock_base_offset = 192;
inline constexpr std::size_t map_clock_last_offset = 200;
inline constexpr std::size_t map_clock_zone_offset = 208;
inline constexpr std::size_t map_expiring_offset = 216;
inline constexpr std::size_t map_sweep_offset = 224;
inline constexpr std::size_t map_evicted_offset = 232;
inline constexpr std::size_t map_expired_offset = 240;
inline constexpr std::size_t map_hand_offset = 248;

inline constexpr std::size_t map_journal_bytes = 256;  ///< of each of many writers
inline constexpr std::size_t map_journal_records_offset = 64;

inline constexpr std::size_t map_digest_bytes = 16;
inline constexpr std::size_t map_entry_head_bytes = 16;  ///< before the key
inline constexpr std::size_t map_entry_key_offset = 8;   ///< of the word with key size and flags
inline constexpr std::uint64_t map_key_bytes_max = 0xffffffff;
inline constexpr std::uint64_t map_evicting_flag = 1;
/// Entries beyond the capacity that a store planned for it has room for: an update needs the old and the new at once.
inline constexpr std::uint64_t map_spare_entries = 4;

/// Bytes of an entry in the store. Requires: key_bytes <= map_key_bytes_max, value_bytes < 2^62.
[[nodiscard]] constexpr std::uint64_t map_value_offset(std::uint64_t key_bytes) noexcept {
    return map_entry_head_bytes + round_up(key_bytes, 8);
}

/// The numbers of one map. Made by plan_hash_map() or, checked, by read_hash_map_geometry().
struct hash_map_geometry {
    hash_table_geometry table;
    block_store_geometry store;
    bool evicting = false;  ///< made to drop what was not used for long, where room is wanted

    [[nodiscard]] constexpr std::uint64_t control_offset() const noexcept { return round_up(table.body_bytes(), 4096); }
    [[nodiscard]] constexpr std::uint64_t writer_slots() const noexcept { return table.writer_slots; }
    /// Requires: writer_slots() != 0.
    [[nodiscard]] constexpr std::uint64_t journals_offset() const noexcept {
        return control_offset() + map_control_bytes;
    }
    [[nodiscard]] constexpr std::uint64_t store_offset() const noexcept {
        return control_offset() + map_control_bytes + round_up(writer_slots() * map_journal_bytes, 4096);
    }
    [[nodiscard]] constexpr std::uint64_t body_bytes() const noexcept { return store_offset() + store.body_bytes(); }
    friend constexpr bool operator==(const hash_map_geometry&, const hash_map_geometry&) = default;
};

/// What a map is to hold, as its creator asks for it.
struct hash_map_request {
    std::uint64_t capacity = 0;     ///< entries
    std::uint64_t bytes = 0;        ///< room for all entries; 0: capacity entries of entry_bytes, and a few to update
    std::uint64_t entry_bytes = 0;  ///< key and value of a typical entry together; chooses the unit
    std::uint64_t unit_bytes = 0;   ///< 0: chosen by entry_bytes
    bool evicting = false;
    std::uint64_t seed = 0;
    std::uint64_t writer_slots = 0;  ///< how many may write at once; 0 = one, without locks
};

[[nodiscard]] constexpr hash_table_request table_request_of(std::uint64_t capacity, std::uint64_t seed,
                                                            std::uint64_t writer_slots) noexcept {
    return {.capacity = capacity,
            .key_bytes = map_digest_bytes,
            .value_bytes = 8,
            .value_alignment = 8,
            .seed = seed,
            .writer_slots = writer_slots};
}

[[nodiscard]] constexpr block_store_request store_request_of(const hash_map_request& r) noexcept {
    const std::uint64_t entry = map_entry_head_bytes + 8 + std::min(r.entry_bytes, std::uint64_t{1} << 40);
    const std::uint64_t unit = r.unit_bytes != 0 ? r.unit_bytes : best_unit_bytes(entry);
    if (r.bytes != 0 || unit < block_unit_bytes_min || unit > block_unit_bytes_max)
        return {r.bytes, entry, unit, r.writer_slots};
    const std::uint64_t each = (entry + block_head_bytes + unit - 1) / unit * unit;
    // A product beyond 64 bits is a size that check() refuses anyway.
    const std::uint64_t most = block_units_max * unit + 1;
    if (r.capacity > most / each) return {most, entry, unit, r.writer_slots};
    // Each of many writers may be in an update.
    return {(r.capacity + map_spare_entries + r.writer_slots) * each, entry, unit, r.writer_slots};
}

/// Why the request cannot be met, or nullptr.
[[nodiscard]] constexpr const char* check(const hash_map_request& request) noexcept {
    if (const char* why = check(table_request_of(request.capacity, request.seed, request.writer_slots))) return why;
    if (request.writer_slots != 0 && request.evicting)
        return "a map of many writers cannot evict; make it for one writer, or without eviction";
    return check(store_request_of(request));
}

/// Requires: check(request) == nullptr.
[[nodiscard]] constexpr hash_map_geometry plan_hash_map(const hash_map_request& request) noexcept {
    return {plan_hash_table(table_request_of(request.capacity, request.seed, request.writer_slots)),
            plan_block_store(store_request_of(request)), request.evicting};
}

/// The geometry as the segment header keeps it. The offsets and the number of buckets follow from the first five words
/// and the writer slots, and are there to be checked, and read by people.
[[nodiscard]] constexpr std::array<std::uint64_t, 16> geometry_words_of(const hash_map_geometry& g) noexcept {
    return {g.table.capacity,
            g.table.seed,
            g.store.units,
            g.store.unit_bytes,
            g.evicting ? map_evicting_flag : 0,
            g.control_offset(),
            g.store_offset(),
            g.table.buckets,
            g.writer_slots(),
            g.writer_slots() == 0 ? 0 : g.journals_offset(),
            0,
            0,
            0,
            0,
            0,
            0};
}

/// Reads and checks untrusted geometry words against the size of the body. After success every part lies inside the
/// body. Returns: nullptr and the geometry, or what is wrong.
[[nodiscard]] constexpr const char* read_hash_map_geometry(const std::array<std::uint64_t, 16>& words,
                                                           std::uint64_t body_bytes, hash_map_geometry& out) noexcept {
    // Single numbers first: after them no product or sum can overflow 64 bits.
    const hash_table_request table = table_request_of(words[0], words[1], words[8]);
    if (words[8] > writer_slots_max) return "the number of writer slots is out of range";
    if (check(table) != nullptr) return "the capacity is out of range";
    // A table has 2.5 bytes beside each slot and 24 in it: a capacity that cannot fit costs no search for a prime.
    if (words[0] > body_bytes / 24) return "the capacity is beyond what the body can hold";
    if (words[2] == 0 || words[2] > block_units_max) return "the number of units is out of range";
    if (!std::has_single_bit(words[3]) || words[3] < block_unit_bytes_min || words[3] > block_unit_bytes_max)
        return "the unit size is out of range";
    if (words[4] > map_evicting_flag) return "a flag is set that this layout version does not have";
    if (words[4] != 0 && words[8] != 0) return "a map of many writers cannot evict";
    const hash_map_geometry g{plan_hash_table(table), {words[2], words[3], words[8]}, words[4] == map_evicting_flag};
    if (!has_numbers(g.store)) return "a handle has too few bits for so many units and writer slots";
    if (words != geometry_words_of(g)) return "the offsets do not follow from capacity, units and unit size";
    if (g.body_bytes() != body_bytes) return "the units do not end where the body ends";
    out = g;
    return nullptr;
}

static_assert(map_records_offset + 2 * map_record_bytes <= map_clock_base_offset);
static_assert(map_hand_offset + 8 <= map_control_bytes);
static_assert(map_journal_records_offset + 2 * map_record_bytes <= map_journal_bytes);
static_assert(writer_slots_max == block_writer_slots_max);
// The head of an entry lies in the first run of its value, so one look at the first unit tells key size and expiry.
static_assert(block_head_bytes + map_entry_head_bytes <= block_unit_bytes_min);

}  // namespace holdfast::layout
