// SPDX-License-Identifier: Apache-2.0
// latency_histogram_layout.hpp - the bytes of a latency histogram: one shard for each writer, one for everybody else.
//
// Layout v1 (little-endian), body of a segment of kind latency_histogram; geometry[0] = shards (with the shared one),
// geometry[1] = shard bytes, geometry[2] = bits of a sub-bucket (6), geometry[3] = greatest exponent (40)
//   offset      bytes  field     written by
//   18048*i         8  owner     whoever claims or gives back shard i, where the memory kind has no lock file
//   18048*i+8       8  sum       the shard's owner; nanoseconds, wraps at 2^64
//   18048*i+16      8  least     the shard's owner; the complement of the least value, so that zero means "none yet"
//   18048*i+24      8  greatest  the shard's owner
//   18048*i+32     32  reserved  nobody
//   18048*i+64  17928  counts    the shard's owner; bucket b counts what log_linear.hpp says
//   18048*i+17992  56  reserved  nobody
//
// (I1) A record is counted by one store of one word: the count of its bucket. The number of records is the sum of the
//      counts and is kept nowhere else.
// (I2) A shard has at most one writer at a time, and a dead writer's shard is whole: its next owner counts on from
// there. (I3) The last shard belongs to nobody: who finds no other adds there, atomically. Counts have 64 bits. 32
// would halve a shard, and wrap after weeks in a histogram that is never set back.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace holdfast::layout {

inline constexpr std::uint64_t latency_shards_max = 4096;
inline constexpr std::size_t latency_count_words = 2248;

/// The counts of one writer.
struct latency_shard {
    std::atomic<std::uint64_t> owner;
    std::atomic<std::uint64_t> sum;
    std::atomic<std::uint64_t> least_complement;
    std::atomic<std::uint64_t> greatest;
    std::array<std::byte, 32> reserved;
    std::array<std::atomic<std::uint64_t>, latency_count_words> counts;
};
static_assert(sizeof(latency_shard) == 18048 && sizeof(latency_shard) % 128 == 0);
static_assert(offsetof(latency_shard, counts) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace holdfast::layout
