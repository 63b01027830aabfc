// SPDX-License-Identifier: Apache-2.0
// hash_table_layout.hpp - the bytes of a hash table behind the segment header, and the numbers ("geometry") that
// describe them.
//
// Body, layout v2 (little-endian; offsets from the start of the body, which is 4096-aligned)
//   offset          bytes                      field    written by
//   journal_offset  64 + image                 journal  the writer; readers need it only where a version is odd
//                                                       (many writers: as many journals, one behind the other)
//   stripes_offset  stripes * 64               stripes  many writers only: who changes which buckets
//   digests_offset  ceil(buckets / 16) * 8     digests  the writer: one checksum per region of 16 buckets
//   lines_offset    buckets * 64               lines    the writer: one tag line per bucket
//   nodes_offset    buckets * 26 * node_bytes  nodes    the writer: slot = bucket * 26 + place
//
// Tag line                                    Journal
//    0   4  version, odd = update running       0   8  sequence: odd = armed
//    4   8  sixteen 4-bit overflow counters     8   8  slot of the wide update
//   12  52  twenty-six u16 tags, 0 = free      16   8  size: number of entries
//                                              24   8  intent: the running operation (hash_table/intent.hpp)
// Node                                         32   8  base: digest of its region without what it replaces
//    0             key                         40   8  next: digest of its region after it
//    value_offset  value                       48  16  zero
//    all else up to node_bytes: zero           64  ..  image: the node as it will be, rounded up to 64
//
// Many writers (hash_table/many_mutate.hpp)
//   Journal, 48  8  held: the stripes its writer owns or is about to try, + 1; 0 = none. Low half the home's
//   Journal, 56  8  pid of its writer, for people
//   Stripe,   0  4  owner: writer slot + 1; 0 = nobody
//   Stripe,   4  4  count: how often it was given back
//   Stripe,   8  8  growth: what its owner does for the next generation (hash_table/stripe_growth.hpp); 0 = nothing
//   Stripe,  16 48  zero
// size is then what this writer inserted less what it erased, modulo 2^64, and the sum over all is the size.
//
// (I1) The geometry words in the segment header never change. They are input: copied once, checked against the size of
//      the body, and only the checked copy is used.
// (I2) A zero-filled body is an empty table.
// (I3) The digest of a region is the sum, modulo 2^64, of digest_term() over all words of the nodes whose slots have a
//      key's tag (hash_table/digest.hpp), except while an operation on the region is open: see base and next.
// (I4) buckets is prime and greater than 2 * pairs_max, so a probe sequence never meets the same bucket twice.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace holdfast::layout {

inline constexpr std::uint32_t hash_table_version = 2;

inline constexpr std::size_t tags_per_line = 26;
inline constexpr std::size_t line_bytes = 64;
inline constexpr std::size_t line_version_offset = 0;
inline constexpr std::size_t line_counters_offset = 4;
inline constexpr std::size_t line_tags_offset = 12;
static_assert(line_tags_offset + 2 * tags_per_line == line_bytes);

inline constexpr std::uint16_t tag_free = 0;
inline constexpr std::uint16_t tag_reserved_min = 0xff00;  ///< from here on: no key's tag
inline constexpr std::uint8_t counter_max = 15;            ///< sticky: a counter that got here is not lowered any more

inline constexpr std::size_t journal_sequence_offset = 0;
inline constexpr std::size_t journal_slot_offset = 8;
inline constexpr std::size_t journal_size_offset = 16;
inline constexpr std::size_t journal_intent_offset = 24;
inline constexpr std::size_t journal_base_offset = 32;
inline constexpr std::size_t journal_next_offset = 40;
inline constexpr std::size_t journal_held_offset = 48;
inline constexpr std::size_t journal_pid_offset = 56;
inline constexpr std::size_t journal_image_offset = 64;

inline constexpr std::size_t stripe_bytes = 64;
inline constexpr std::size_t stripe_owner_offset = 0;
inline constexpr std::size_t stripe_count_offset = 4;
inline constexpr std::size_t stripe_growth_offset = 8;
inline constexpr std::uint64_t stripes_max = 1024;  ///< two of sixteen writers meet in one operation of a hundred
inline constexpr std::uint64_t writer_slots_max = 1024;

/// Fewer would cost memory (8 bytes a region), more would cost whoever looks for damage: it is told to the region.
inline constexpr std::uint64_t buckets_per_region = 16;

inline constexpr std::uint64_t key_bytes_max = 4096;
inline constexpr std::uint64_t value_bytes_max = 65536;    ///< larger ones belong into a block store
inline constexpr std::uint64_t buckets_max = 4294967291U;  ///< greatest prime below 2^32, as steps have 32 bits
inline constexpr std::uint64_t probe_pairs_max = 64;
inline constexpr std::uint64_t hash_table_capacity_max = buckets_max / 103 * 100 * tags_per_line;

[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) noexcept {
    return (value + multiple - 1) / multiple * multiple;
}

/// Whether n is prime. Cost: at most sqrt(n)/3 divisions; for the largest table 0.1 ms.
[[nodiscard]] constexpr bool is_prime(std::uint64_t n) noexcept {
    if (n < 4) return n >= 2;
    if (n % 2 == 0 || n % 3 == 0) return false;
    for (std::uint64_t d = 5; d * d <= n; d += 6)
        if (n % d == 0 || n % (d + 2) == 0) return false;
    return true;
}

/// The numbers of one table. Made by plan_hash_table() or, checked, by read_hash_table_geometry().
struct hash_table_geometry {
    std::uint64_t capacity = 0;   ///< entries that were asked for; 97 % of the slots or less
    std::uint64_t buckets = 0;    ///< prime
    std::uint64_t pairs_max = 0;  ///< pairs of buckets probed after the home bucket
    std::uint64_t key_bytes = 0;
    std::uint64_t value_bytes = 0;
    std::uint64_t node_bytes = 0;    ///< stride of the nodes, a multiple of 8
    std::uint64_t value_offset = 0;  ///< in the node; the key starts at 0
    std::uint64_t lines_offset = 0;
    std::uint64_t nodes_offset = 0;
    std::uint64_t journal_offset = 0;
    std::uint64_t seed = 0;  ///< of the hash
    std::uint64_t digests_offset = 0;
    std::uint64_t writer_slots = 0;  ///< of many writers; 0 = the table has one
    std::uint64_t stripes = 0;       ///< a power of two, or 0 where the table has one writer
    std::uint64_t stripes_offset = 0;

    [[nodiscard]] constexpr std::uint64_t journals() const noexcept { return writer_slots == 0 ? 1 : writer_slots; }
    [[nodiscard]] constexpr std::uint64_t regions() const noexcept {
        return (buckets + buckets_per_region - 1) / buckets_per_region;
    }
    [[nodiscard]] constexpr std::uint64_t slots() const noexcept { return buckets * tags_per_line; }
    [[nodiscard]] constexpr std::uint64_t journal_bytes() const noexcept {
        return journal_image_offset + round_up(node_bytes, 64);
    }
    [[nodiscard]] constexpr std::uint64_t body_bytes() const noexcept { return nodes_offset + slots() * node_bytes; }
    friend constexpr bool operator==(const hash_table_geometry&, const hash_table_geometry&) = default;
};

/// What a table holds, as its creator asks for it.
struct hash_table_request {
    std::uint64_t capacity = 0;
    std::uint64_t key_bytes = 0;
    std::uint64_t value_bytes = 0;
    std::uint64_t value_alignment = 1;  ///< of the value's C++ type; more than 8 counts as 8
    std::uint64_t seed = 0;
    std::uint64_t writer_slots = 0;  ///< how many may write at once; 0 = one, without locks
};

/// Why the request cannot be met, or nullptr.
[[nodiscard]] constexpr const char* check(const hash_table_request& request) noexcept {
    if (request.capacity == 0) return "the capacity is 0; ask for at least one entry";
    if (request.capacity > hash_table_capacity_max)
        return "the capacity is above 108,000,000,000 entries; split the table";
    if (request.key_bytes == 0 || request.key_bytes > key_bytes_max) return "the key must have 1 to 4096 bytes";
    if (request.value_bytes == 0 || request.value_bytes > value_bytes_max)
        return "the value must have 1 to 65536 bytes; keep larger ones in a block store";
    if (request.writer_slots > writer_slots_max) return "at most 1024 writers are possible; ask for fewer";
    if (!std::has_single_bit(request.value_alignment)) return "the value's alignment is no power of two";
    return nullptr;
}

/// Where everything lies in a table that meets the request.
///
/// buckets = the smallest prime >= max(3, capacity * 1.03 / 26): capacity entries fill 97 % of the slots at most, and
/// the first failed insert comes above 99 %. Requires: check(request) == nullptr.
[[nodiscard]] constexpr hash_table_geometry plan_hash_table(const hash_table_request& request) noexcept {
    hash_table_geometry g;
    g.capacity = request.capacity;
    g.key_bytes = request.key_bytes;
    g.value_bytes = request.value_bytes;
    g.seed = request.seed;
    g.writer_slots = request.writer_slots;
    const std::uint64_t wanted = (request.capacity * 103 + 100 * tags_per_line - 1) / (100 * tags_per_line);
    g.buckets = wanted < 3 ? 3 : wanted;
    while (!is_prime(g.buckets)) ++g.buckets;
    g.pairs_max = (g.buckets - 1) / 2 < probe_pairs_max ? (g.buckets - 1) / 2 : probe_pairs_max;

    // A value of up to 8 bytes must not cross a word: then it is updated by one store.
    std::uint64_t alignment = request.value_alignment < 8 ? request.value_alignment : 8;
    if (request.value_bytes <= 8 && std::bit_ceil(request.value_bytes) > alignment)
        alignment = std::bit_ceil(request.value_bytes);
    g.value_offset = round_up(request.key_bytes, alignment);
    g.node_bytes = round_up(g.value_offset + request.value_bytes, 8);

    g.journal_offset = 0;
    g.digests_offset = g.journal_bytes() * g.journals();
    if (g.writer_slots != 0) {
        g.stripes = g.regions() < stripes_max ? std::bit_ceil(g.regions()) : stripes_max;
        g.stripes_offset = g.digests_offset;
        g.digests_offset += g.stripes * stripe_bytes;
    }
    g.lines_offset = g.digests_offset + round_up(g.regions() * 8, 64);
    // A large table starts its lines on a 2 MiB page of the mapping (the segment header takes the 4096 bytes before the
    // body): huge pages then hold lines alone. A small one would waste more than it wins.
    constexpr std::uint64_t huge = 2U << 20, large = 64U << 20, header = 4096;
    if (g.slots() * g.node_bytes + g.buckets * line_bytes >= large)
        g.lines_offset = round_up(g.lines_offset + header, huge) - header;
    g.nodes_offset = g.lines_offset + g.buckets * line_bytes;
    return g;
}

/// The geometry as the segment header keeps it.
[[nodiscard]] constexpr std::array<std::uint64_t, 16> geometry_words_of(const hash_table_geometry& g) noexcept {
    return {g.capacity,     g.buckets,        g.pairs_max,      g.key_bytes,
            g.value_bytes,  g.node_bytes,     g.value_offset,   g.lines_offset,
            g.nodes_offset, g.journal_offset, g.seed,           g.digests_offset,
            g.writer_slots, g.stripes,        g.stripes_offset, 0};
}

/// Reads and checks untrusted geometry words against the size of the body. After success every slot, line and the
/// journal lie inside the body, aligned and apart from each other, for whatever else the body holds. Returns: nullptr
/// and the geometry, or what is wrong.
[[nodiscard]] constexpr const char* read_hash_table_geometry(const std::array<std::uint64_t, 16>& words,
                                                             std::uint64_t body_bytes,
                                                             hash_table_geometry& out) noexcept {
    hash_table_geometry g;
    g.capacity = words[0];
    g.buckets = words[1];
    g.pairs_max = words[2];
    g.key_bytes = words[3];
    g.value_bytes = words[4];
    g.node_bytes = words[5];
    g.value_offset = words[6];
    g.lines_offset = words[7];
    g.nodes_offset = words[8];
    g.journal_offset = words[9];
    g.seed = words[10];
    g.digests_offset = words[11];
    g.writer_slots = words[12];
    g.stripes = words[13];
    g.stripes_offset = words[14];
    if (words[15] != 0) return "a geometry word that this layout version leaves zero is not zero";

    // Bounds of the single numbers first: after them no product or sum below can overflow 64 bits.
    if (g.buckets < 3 || g.buckets > buckets_max) return "the number of buckets is out of range";
    if (g.key_bytes == 0 || g.key_bytes > key_bytes_max) return "the key size is out of range";
    if (g.value_bytes == 0 || g.value_bytes > value_bytes_max) return "the value size is out of range";
    bool aligned = false;
    for (const std::uint64_t alignment : {1U, 2U, 4U, 8U})
        aligned = aligned || g.value_offset == round_up(g.key_bytes, alignment);
    if (!aligned) return "the value does not lie right behind the key";
    if (g.node_bytes % 8 != 0 || g.node_bytes < g.value_offset + g.value_bytes ||
        g.node_bytes > key_bytes_max + value_bytes_max + 64)
        return "the node size does not fit key and value";
    if (g.pairs_max == 0 || g.pairs_max > probe_pairs_max || g.pairs_max > (g.buckets - 1) / 2)
        return "the probe length is out of range";
    if (g.capacity == 0 || g.capacity > g.slots()) return "the capacity is out of range";
    if (g.writer_slots > writer_slots_max) return "the number of writer slots is out of range";
    if (g.writer_slots == 0 ? g.stripes != 0 || g.stripes_offset != 0
                            : !std::has_single_bit(g.stripes) || g.stripes > stripes_max)
        return "the number of stripes is out of range";
    if (g.stripes_offset > body_bytes || g.journal_offset > body_bytes || g.digests_offset > body_bytes ||
        g.lines_offset > body_bytes || g.nodes_offset > body_bytes)
        return "an offset lies behind the end of the body";
    if (g.stripes_offset % 64 != 0 || g.journal_offset % 64 != 0 || g.digests_offset % 64 != 0 ||
        g.lines_offset % 64 != 0 || g.nodes_offset % 64 != 0)
        return "an offset is not aligned";
    const std::uint64_t journals_end = g.journal_offset + g.journal_bytes() * g.journals();
    if (journals_end > (g.writer_slots == 0 ? g.digests_offset : g.stripes_offset) ||
        g.stripes_offset + g.stripes * stripe_bytes > g.digests_offset ||
        g.digests_offset + g.regions() * 8 > g.lines_offset || g.lines_offset + g.buckets * line_bytes > g.nodes_offset)
        return "journals, stripes, digests, lines and nodes overlap";
    if (g.body_bytes() > body_bytes) return "the nodes reach behind the end of the body";
    if (!is_prime(g.buckets)) return "the number of buckets is not prime";
    out = g;
    return nullptr;
}

}  // namespace holdfast::layout
