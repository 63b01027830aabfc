// SPDX-License-Identifier: Apache-2.0
// segment_header.hpp - the first 4 KiB of every segment: what it is, for whom, and who writes it.
//
// Layout v1 (little-endian)
//   offset  bytes  field              written by
//        0      8  magic              creator, stored last; 0 = not published (System V only: other kinds appear whole)
//        8      4  layout_version     creator, immutable once published, like all up to header_checksum
//       12      4  kind               container_kind
//       16      4  container_version  layout version of the container in the body
//       20      4  policy             writers::one or writers::many
//       24      8  fingerprint        byte order and sizes of the platform
//       32      8  total_bytes        header and body
//       40      8  body_bytes         the body begins at 4096
//       48      8  created_ns         nanoseconds since the Unix epoch
//       56     16  identity           random; a companion file names the segment it belongs to by it
//       72      4  peer_slots         slots of the companion file NAME.peers; 0 = none
//       76      4  schema_bytes
//       80    128  geometry           16 numbers of the container's own
//      208     48  reserved           zero
//      256   2560  schema             text, zero-padded
//     2816      8  header_checksum    FNV-1a over bytes 8..2815
//     2824    248  reserved           zero
//     3072      8  epoch              lease holder: +1 each time the lease is taken
//     3080      8  owner_pid          lease holder; these four are for people and logs, never used to decide
//     3088      8  owner_start        start time of the process, clock ticks since boot
//     3096     40  owner_boot_id      text, zero-padded
//     3136      8  owner_since_ns     when the lease was taken
//     3144      8  moved              lease holder: 1 = the name may lead to another segment (segment/successor.hpp)
//     3152    944  reserved           zero
// (I1) The bytes up to header_checksum never change after publication; a checksum that disagrees is corruption.
// (I2) total_bytes == 4096 + body_bytes, and the memory is exactly that long (System V: at least, since the kernel
//      rounds up).
// Threads: validate() works on a private copy. Mutable words are 8-byte atomics, stored by the lease holder alone.
// Crash:   a holder killed between the stores of its identity leaves a mixed identity, which only people read.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "holdfast/error.hpp"

namespace holdfast {

/// What lies in a segment's body. The numbers are part of the layout.
enum class container_kind : std::uint32_t {
    raw = 1,
    array = 2,
    queue = 3,
    broadcast = 4,
    snapshot = 5,
    hash_table = 6,
    block_store = 7,
    hash_map = 8,
    sorted_index = 9,
    latency_histogram = 10,
    counter_set = 11,
};

/// Who may write: one lease holder at a time, or any permitted process at once.
enum class writers : std::uint32_t { one = 1, many = 2 };

/// The name of a kind as the command line and HTTP show it; empty for a number that is none.
[[nodiscard]] constexpr std::string_view kind_name(container_kind kind) noexcept {
    switch (kind) {
        case container_kind::raw: return "raw";
        case container_kind::array: return "array";
        case container_kind::queue: return "queue";
        case container_kind::broadcast: return "broadcast";
        case container_kind::snapshot: return "snapshot";
        case container_kind::hash_table: return "hash_table";
        case container_kind::block_store: return "block_store";
        case container_kind::hash_map: return "hash_map";
        case container_kind::sorted_index: return "sorted_index";
        case container_kind::latency_histogram: return "latency_histogram";
        case container_kind::counter_set: return "counter_set";
    }
    return {};
}

inline constexpr std::size_t header_bytes = 4096;
inline constexpr std::size_t schema_bytes_max = 2560;
inline constexpr std::size_t geometry_words = 16;
inline constexpr std::uint32_t peer_slots_max = 4096;

using geometry_array = std::array<std::uint64_t, geometry_words>;
using identity_array = std::array<std::uint8_t, 16>;

}  // namespace holdfast

namespace holdfast::layout {

inline constexpr std::uint64_t segment_magic = 0x31545346444c4f48;  // "HOLDFST1" in memory order
inline constexpr std::uint32_t segment_layout_version = 1;
/// Byte order and word sizes: a platform on which any of these differs reads another number, or no such segment at all.
inline constexpr std::uint64_t platform_fingerprint =
    0x0102030400000000 | (sizeof(void*) << 16) | (sizeof(long) << 8) | alignof(std::uint64_t);

struct segment_header {
    std::uint64_t magic;
    std::uint32_t layout_version;
    std::uint32_t kind;
    std::uint32_t container_version;
    std::uint32_t policy;
    std::uint64_t fingerprint;
    std::uint64_t total_bytes;
    std::uint64_t body_bytes;
    std::uint64_t created_ns;
    identity_array identity;
    std::uint32_t peer_slots;
    std::uint32_t schema_bytes;
    geometry_array geometry;
    std::array<std::uint8_t, 48> reserved_geometry;
    std::array<char, schema_bytes_max> schema;
    std::uint64_t header_checksum;
    std::array<std::uint8_t, 248> reserved_checksum;
    std::uint64_t epoch;
    std::uint64_t owner_pid;
    std::uint64_t owner_start;
    std::array<char, 40> owner_boot_id;
    std::uint64_t owner_since_ns;
    std::uint64_t moved;
    std::array<std::uint8_t, 944> reserved_owner;
};

static_assert(sizeof(segment_header) == header_bytes);
static_assert(std::is_trivially_copyable_v<segment_header> && std::is_standard_layout_v<segment_header>);
static_assert(offsetof(segment_header, layout_version) == 8 && offsetof(segment_header, kind) == 12);
static_assert(offsetof(segment_header, container_version) == 16 && offsetof(segment_header, policy) == 20);
static_assert(offsetof(segment_header, fingerprint) == 24 && offsetof(segment_header, total_bytes) == 32);
static_assert(offsetof(segment_header, body_bytes) == 40 && offsetof(segment_header, created_ns) == 48);
static_assert(offsetof(segment_header, identity) == 56 && offsetof(segment_header, peer_slots) == 72);
static_assert(offsetof(segment_header, schema_bytes) == 76 && offsetof(segment_header, geometry) == 80);
static_assert(offsetof(segment_header, schema) == 256 && offsetof(segment_header, header_checksum) == 2816);
static_assert(offsetof(segment_header, epoch) == 3072 && offsetof(segment_header, owner_pid) == 3080);
static_assert(offsetof(segment_header, owner_start) == 3088 && offsetof(segment_header, owner_boot_id) == 3096);
static_assert(offsetof(segment_header, owner_since_ns) == 3136 && offsetof(segment_header, moved) == 3144);
static_assert(std::endian::native == std::endian::little, "the layout is little-endian");
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free, "8-byte atomics must be lock-free across processes");

/// FNV-1a, 64 bit. Source: Fowler, Noll, Vo, draft-eastlake-fnv.
[[nodiscard]] inline std::uint64_t fnv1a(std::span<const std::byte> bytes) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const std::byte b : bytes) hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001b3;
    return hash;
}

/// The checksum of everything that is immutable behind the magic (I1).
[[nodiscard]] inline std::uint64_t checksum_of(const segment_header& header) noexcept {
    const auto* bytes = reinterpret_cast<const std::byte*>(&header);
    constexpr std::size_t begin = offsetof(segment_header, layout_version);
    return fnv1a({bytes + begin, offsetof(segment_header, header_checksum) - begin});
}

/// What is wrong with a header: the fact, then the cure.
struct header_fault {
    errc code;
    std::string text;
};

/// Whether the memory a header lies in must be exactly as long as it says. System V rounds sizes up to pages.
enum class length_rule : std::uint8_t { exact, at_least };

namespace detail {

[[nodiscard]] inline std::optional<header_fault> fault_of_sizes(const segment_header& h, std::uint64_t memory_bytes,
                                                                length_rule rule) {
    const auto number = [](std::uint64_t n) { return std::to_string(n); };
    if (h.total_bytes < header_bytes || h.body_bytes != h.total_bytes - header_bytes || h.peer_slots > peer_slots_max ||
        h.schema_bytes > schema_bytes_max)
        return header_fault{errc::geometry_mismatch, "the header's sizes contradict each other; make the segment anew"};
    if (memory_bytes < h.total_bytes)
        return header_fault{errc::truncated, "the memory has " + number(memory_bytes) +
                                                 " bytes where the header says " + number(h.total_bytes) +
                                                 "; restore the segment or make it anew"};
    if (memory_bytes > h.total_bytes && rule == length_rule::exact)
        return header_fault{errc::geometry_mismatch, "the memory has " + number(memory_bytes) +
                                                         " bytes where the header says " + number(h.total_bytes) +
                                                         "; somebody appended to it: make it anew"};
    return std::nullopt;
}

}  // namespace detail

/// Checks a private copy of a header against the size of the memory it lies in. Trusts no field before it is checked.
[[nodiscard]] inline std::optional<header_fault> validate(const segment_header& h, std::uint64_t memory_bytes,
                                                          length_rule rule = length_rule::exact) {
    const auto number = [](std::uint64_t n) { return std::to_string(n); };
    if (h.magic == 0)
        return header_fault{errc::not_ready,
                            "not published yet, or its creator was killed; try again, or create it anew"};
    if (h.magic != segment_magic)
        return header_fault{errc::bad_magic, "these bytes are not a Holdfast segment; check the name"};
    if (h.layout_version != segment_layout_version)
        return header_fault{errc::version_mismatch, "the segment has layout version " + number(h.layout_version) +
                                                        " and this library reads " + number(segment_layout_version) +
                                                        "; use the library version that wrote it, or load it anew"};
    if (h.fingerprint != platform_fingerprint)
        return header_fault{errc::version_mismatch,
                            "made on a platform with other byte order or word sizes; make it anew on this one"};
    if (h.header_checksum != checksum_of(h))
        return header_fault{errc::corrupt,
                            "the header's checksum disagrees with its bytes; restore the segment or make it anew"};
    if (kind_name(static_cast<container_kind>(h.kind)).empty())
        return header_fault{errc::kind_mismatch,
                            "container kind " + number(h.kind) + " is unknown to this library; use a newer one"};
    if (h.policy != static_cast<std::uint32_t>(writers::one) && h.policy != static_cast<std::uint32_t>(writers::many))
        return header_fault{errc::geometry_mismatch,
                            "writers' policy " + number(h.policy) + " is unknown; make it anew"};
    return detail::fault_of_sizes(h, memory_bytes, rule);
}

}  // namespace holdfast::layout
