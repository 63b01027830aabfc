// SPDX-License-Identifier: Apache-2.0
// log_linear.hpp - the buckets of every latency histogram: 64 of equal width in each octave of 1 ns to 2^40 ns.
//
//   value           buckets                width
//   0 to 63         one a nanosecond       1
//   2^e to 2^(e+1)  64, for e = 6 to 39    2^(e-6), at most 1/64 of the value
//   2^40 and more   one                    open
// (I1) Any value has exactly one bucket, and a bucket's bounds hold every value that is counted there.
// Source: the log-linear scheme of Tene's HdrHistogram, with 2^6 sub-buckets; buckets below 64 are exact.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace holdfast::log_linear {

inline constexpr unsigned sub_bucket_bits = 6;
inline constexpr unsigned exponent_max = 40;
inline constexpr std::size_t sub_buckets = std::size_t{1} << sub_bucket_bits;
inline constexpr std::uint64_t overflow_from = std::uint64_t{1} << exponent_max;
inline constexpr std::size_t overflow_bucket = (exponent_max - sub_bucket_bits + 1) * sub_buckets;
inline constexpr std::size_t buckets = overflow_bucket + 1;

/// The bucket that counts `value`. Requires: value < overflow_from. Cost: under 1 ns.
///
/// A double holds an integer below 2^53 exactly, as exponent and mantissa side by side: cut off behind 6 bits of
/// mantissa, that is the octave and the sub-bucket. Counting leading zeros takes 1 ns longer on processors whose
/// baseline has no instruction that does it well.
[[nodiscard]] constexpr std::size_t bucket_below_overflow(std::uint64_t value) noexcept {
    if (value < sub_buckets) return static_cast<std::size_t>(value);
    const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(value)));
    constexpr std::uint64_t exponent_of_first_octave = 1023 + sub_bucket_bits;
    return static_cast<std::size_t>((bits >> (52 - sub_bucket_bits)) -
                                    ((exponent_of_first_octave - 1) << sub_bucket_bits));
}

/// The bucket that counts `value`, whatever it is.
[[nodiscard]] constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    return value >= overflow_from ? overflow_bucket : bucket_below_overflow(value);
}
static_assert(std::numeric_limits<double>::is_iec559 && std::numeric_limits<double>::digits == 53);

/// The least value that `bucket` counts. Requires: bucket < buckets.
[[nodiscard]] constexpr std::uint64_t lowest_of(std::size_t bucket) noexcept {
    if (bucket < sub_buckets) return bucket;
    const std::size_t octave = bucket >> sub_bucket_bits;  // 1 for values of 64 to 127
    return (sub_buckets + (bucket & (sub_buckets - 1))) << (octave - 1);
}

/// The greatest value that `bucket` counts. Requires: bucket < buckets.
[[nodiscard]] constexpr std::uint64_t highest_of(std::size_t bucket) noexcept {
    return bucket == overflow_bucket ? std::numeric_limits<std::uint64_t>::max() : lowest_of(bucket + 1) - 1;
}

static_assert(bucket_of(63) == 63 && bucket_of(64) == 64 && bucket_of(127) == 127 && bucket_of(128) == 128);
static_assert(bucket_of(overflow_from - 1) == overflow_bucket - 1 && bucket_of(~std::uint64_t{0}) == overflow_bucket);
static_assert(lowest_of(overflow_bucket) == overflow_from);

}  // namespace holdfast::log_linear
