// SPDX-License-Identifier: Apache-2.0
// latency_histogram_layout.hpp - the bytes of a latency histogram: one shard for each writer, one for everybody else.
//
// Layout v2 (little-endian), body of a segment of kind latency_histogram; geometry[0] = shards (n, with the shared
// one), geometry[1] = bytes of an owned shard, geometry[2] = bits of a sub-bucket (6), geometry[3] = greatest exponent
// (40)
//   offset         bytes  field     written by
//   9216*i             8  owner     whoever claims or gives back shard i < n-1, where the memory kind has no lock file
//   9216*i+8           8  sum       the shard's owner; nanoseconds, wraps at 2^64
//   9216*i+16          8  least     the shard's owner; the complement of the least value, so that zero means "none yet"
//   9216*i+24          8  greatest  the shard's owner
//   9216*i+32         96  reserved  nobody
//   9216*i+128      8964  counts    the shard's owner; 32-bit, bucket b counts what log_linear.hpp says
//   9216*i+9092      124  reserved  nobody
//   9216*(n-1)     18048  shared    the same fields for everybody: owner unused, 32 reserved, counts of 64 bits
//
// (I1) A record is counted by one store, or one atomic addition, of one word: the count of its bucket. The number of
//      records is the sum of the counts and is kept nowhere else.
// (I2) An owned shard has at most one writer at a time, and a dead writer's shard is whole: its next owner counts on
//      from there.
// (I3) The last shard belongs to nobody: who finds no other adds there, atomically.
// (I4) A count of 32 bits never wraps: at 2^32 - 1 it stays, and its owner adds further records of that bucket to the
//      shared shard. So there is no carry between two words that a kill could tear.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace holdfast::layout {

inline constexpr std::uint64_t latency_shards_max = 4096;

/// The counts of one writer.
struct latency_shard {
    std::atomic<std::uint64_t> owner;
    std::atomic<std::uint64_t> sum;
    std::atomic<std::uint64_t> least_complement;
    std::atomic<std::uint64_t> greatest;
    std::array<std::byte, 96> reserved;
    std::array<std::atomic<std::uint32_t>, 2272> counts;
};
static_assert(sizeof(latency_shard) == 9216 && sizeof(latency_shard) % 128 == 0);
static_assert(offsetof(latency_shard, counts) == 128 && std::atomic<std::uint32_t>::is_always_lock_free);

/// The counts of everybody who has no shard, and of full words (I4).
struct shared_latency_shard {
    std::atomic<std::uint64_t> owner;
    std::atomic<std::uint64_t> sum;
    std::atomic<std::uint64_t> least_complement;
    std::atomic<std::uint64_t> greatest;
    std::array<std::byte, 32> reserved;
    std::array<std::atomic<std::uint64_t>, 2248> counts;
};
static_assert(sizeof(shared_latency_shard) == 18048 && sizeof(shared_latency_shard) % 128 == 0);
static_assert(offsetof(shared_latency_shard, counts) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

/// Bytes of `shards` shards, the shared one among them. Requires: 1 <= shards <= latency_shards_max.
[[nodiscard]] constexpr std::size_t latency_shard_bytes(std::uint64_t shards) noexcept {
    return (static_cast<std::size_t>(shards) - 1) * sizeof(latency_shard) + sizeof(shared_latency_shard);
}

}  // namespace holdfast::layout
