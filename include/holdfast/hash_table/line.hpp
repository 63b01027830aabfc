// SPDX-License-Identifier: Apache-2.0
// line.hpp - one 64-byte tag line: which of its 26 places carry a tag, its overflow counters and its version.
//
// A line is matched with vectors where the target has them, or by a scalar path with the same result. The vector load,
// and that of all counters at once, are the deliberate exceptions to "shared bytes are touched through atomics": the
// processor reads each 16-bit lane whole, and each byte, and none is ever written but whole (x86-64 and Arm promise
// that of aligned lanes). Thread sanitizer builds therefore take the scalar path.
//
// Programs for the baseline of x86-64 use the instructions of AVX2 where the processor has them. These are written out,
// so that they stay inline: a function compiled for another target would be a call, which costs more than they save.
// They work on 128 bits: a compiler may inline this into a function of a program that is compiled for a wider target,
// where it knows nothing of upper halves, mask registers or registers above 15 that we would change, and g++ lets
// nobody name them. Registers that are operands of 128 bits are safe everywhere, and leave no upper halves to wait for.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "holdfast/detail/words.hpp"
#include "holdfast/layout/hash_table_layout.hpp"

#if defined(__SANITIZE_THREAD__)
#define HOLDFAST_HASH_TABLE_SCALAR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HOLDFAST_HASH_TABLE_SCALAR 1
#endif
#endif

#if defined(__SSE2__) && !defined(HOLDFAST_HASH_TABLE_SCALAR)
#include <immintrin.h>
#define HOLDFAST_HASH_TABLE_VECTOR 1
#elif defined(__ARM_NEON) && defined(__aarch64__) && !defined(HOLDFAST_HASH_TABLE_SCALAR)
#include <arm_neon.h>
#define HOLDFAST_HASH_TABLE_VECTOR 1
#endif

namespace holdfast::detail {

/// How tag lines are matched. `scalar` works everywhere; `best` is vectors where this build has them.
enum class tag_match { scalar, best };

/// What the processor offers beyond what this build was compiled for.
enum class vector_unit : std::uint8_t { compiled, avx2 };

#if defined(HOLDFAST_HASH_TABLE_VECTOR) && defined(__x86_64__) && !defined(__AVX__)
#define HOLDFAST_HASH_TABLE_WIDER 1
#endif

/// Returns: the best unit of this processor. Cost: a few loads; ask once for each handle.
[[nodiscard]] inline vector_unit widest_vector_unit() noexcept {
#if defined(HOLDFAST_HASH_TABLE_WIDER)
    if (__builtin_cpu_supports("avx2")) return vector_unit::avx2;
#endif
    return vector_unit::compiled;
}

inline constexpr std::uint32_t all_places = (1U << layout::tags_per_line) - 1;

// What is looked for are the low 16 bits of `tag`: those of a hash need not be taken out of it first.

/// One bit for each place whose tag equals `tag`, by whole-word atomic loads.
/// The loads are acquire (R1, pairs with W1, the tag store of an insert): whoever sees a tag sees its node.
[[nodiscard]] inline std::uint32_t match_tags_scalar(const std::byte* line, std::uint32_t tag) noexcept {
    constexpr std::uint64_t low_bits = 0x7fff'7fff'7fff'7fffU;
    const std::uint64_t pattern = std::uint64_t{tag & 0xffffU} * 0x0001'0001'0001'0001U;
    std::uint64_t places = 0;  // bit i: 16-bit lane i of bytes 8 to 63; lanes 0 and 1 are counters
    for (unsigned word = 1; word < 8; ++word) {
        const std::uint64_t x = load_acquire<std::uint64_t>(line + 8 * word) ^ pattern;
        // Bit 15 of each lane of `zero` is set exactly where the lane of x is zero; then four such bits are gathered.
        const std::uint64_t zero = ~(((x & low_bits) + low_bits) | x | low_bits);
        const std::uint64_t four = ((zero >> 15) * 0x0001'0002'0004'0008U) >> 48;
        places |= (four & 0xf) << (4 * (word - 1));
    }
    return static_cast<std::uint32_t>(places >> 2) & all_places;
}

#if defined(HOLDFAST_HASH_TABLE_VECTOR)
/// The same with vectors, of all 32 lanes of the line.
[[nodiscard]] inline std::uint32_t match_lanes_vector(const std::byte* line, std::uint32_t tag) noexcept {
#if defined(__ARM_NEON)
    const std::uint16_t* const from = reinterpret_cast<const std::uint16_t*>(line);
    const uint16x8_t pattern = vdupq_n_u16(static_cast<std::uint16_t>(tag));
    const auto equal = [&](std::size_t lane) {
        return vreinterpretq_u8_u16(vceqq_u16(vld1q_u16(from + lane), pattern));
    };
    // A byte of each lane, a bit of each byte, and neighbours added up until four bytes hold a bit for each lane.
    const uint8x16_t bits = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t low = vandq_u8(vuzp1q_u8(equal(0), equal(8)), bits);
    const uint8x16_t high = vandq_u8(vuzp1q_u8(equal(16), equal(24)), bits);
    const uint8x16_t pairs = vpaddq_u8(low, high);
    const uint8x16_t fours = vpaddq_u8(pairs, pairs);
    const std::uint32_t lanes = vgetq_lane_u32(vreinterpretq_u32_u8(vpaddq_u8(fours, fours)), 0);
#elif defined(__AVX2__)
    const __m256i pattern = _mm256_set1_epi16(static_cast<short>(tag));
    const __m256i* from = reinterpret_cast<const __m256i*>(line);
    const __m256i a = _mm256_cmpeq_epi16(_mm256_load_si256(from), pattern);
    const __m256i b = _mm256_cmpeq_epi16(_mm256_load_si256(from + 1), pattern);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8);
    const std::uint32_t lanes = static_cast<std::uint32_t>(_mm256_movemask_epi8(packed));
#else
    const __m128i pattern = _mm_set1_epi16(static_cast<short>(tag));
    const __m128i* from = reinterpret_cast<const __m128i*>(line);
    const __m128i a = _mm_cmpeq_epi16(_mm_load_si128(from), pattern);
    const __m128i b = _mm_cmpeq_epi16(_mm_load_si128(from + 1), pattern);
    const __m128i c = _mm_cmpeq_epi16(_mm_load_si128(from + 2), pattern);
    const __m128i d = _mm_cmpeq_epi16(_mm_load_si128(from + 3), pattern);
    const std::uint32_t low = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(a, b)));
    const std::uint32_t high = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(c, d)));
    const std::uint32_t lanes = low | high << 16;
#endif
    // R1, pairs with W1: whoever sees a tag sees its node. On x86-64 no instruction; it keeps the compiler from loading
    // the node before the line.
    std::atomic_thread_fence(std::memory_order_acquire);
    return lanes;
}
#endif

#if defined(HOLDFAST_HASH_TABLE_WIDER)
/// The same in 12 instructions instead of 20. Memory is a clobber for the reason of the fence above.
[[nodiscard]] inline std::uint32_t match_lanes_vex(const std::byte* line, std::uint32_t tag) noexcept {
    std::uint32_t low, high;
    __m128i pattern, a, b;
    asm volatile(
        "vmovd %[tag], %[pattern]\n\t"
        "vpbroadcastw %[pattern], %[pattern]\n\t"
        "vpcmpeqw (%[line]), %[pattern], %[a]\n\t"
        "vpcmpeqw 16(%[line]), %[pattern], %[b]\n\t"
        "vpacksswb %[b], %[a], %[a]\n\t"
        "vpmovmskb %[a], %[low]\n\t"
        "vpcmpeqw 32(%[line]), %[pattern], %[a]\n\t"
        "vpcmpeqw 48(%[line]), %[pattern], %[b]\n\t"
        "vpacksswb %[b], %[a], %[a]\n\t"
        "vpmovmskb %[a], %[high]"
        : [low] "=&r"(low), [high] "=&r"(high), [pattern] "=&x"(pattern), [a] "=&x"(a), [b] "=&x"(b)
        : [tag] "r"(tag), [line] "r"(line)
        : "memory");
    return low | high << 16;
}
#endif

/// One bit for each place of the line whose tag equals `tag`. Requires: line is 64-aligned; the processor has `unit`.
/// Always in place: for who calls nobody.
template <tag_match Match>
[[nodiscard, gnu::always_inline]] inline std::uint32_t match_tags_here(
    const std::byte* line, std::uint32_t tag, [[maybe_unused]] vector_unit unit = vector_unit::compiled) noexcept {
#if defined(HOLDFAST_HASH_TABLE_VECTOR)
    if constexpr (Match == tag_match::best) {
#if defined(HOLDFAST_HASH_TABLE_WIDER)
        std::uint32_t lanes;
        if (unit != vector_unit::compiled) [[likely]]
            lanes = match_lanes_vex(line, tag);
        else
            lanes = match_lanes_vector(line, tag);
#else
        const std::uint32_t lanes = match_lanes_vector(line, tag);
#endif
        // Behind both forms, so that the shift, which leaves out what is no tag, also tells whether anything is left.
        return lanes >> (layout::line_tags_offset / 2);
    }
#endif
    return match_tags_scalar(line, tag);
}

/// The same as the compiler thinks fit. (In a find, always in place, g++ 12 at -O3 makes a vector of its two addresses
/// and takes it apart again: seven instructions.)
template <tag_match Match>
[[nodiscard]] inline std::uint32_t match_tags(const std::byte* line, std::uint32_t tag,
                                              vector_unit unit = vector_unit::compiled) noexcept {
    return match_tags_here<Match>(line, tag, unit);
}

[[nodiscard]] constexpr bool is_key_tag(std::uint16_t tag) noexcept {
    return tag != layout::tag_free && tag < layout::tag_reserved_min;
}

/// The line's version. Acquire: R2, pairs with the store of the version before node bytes change (W2); tags and node
/// words are loaded after it.
[[nodiscard]] inline std::uint32_t version_of(const std::byte* line) noexcept {
    return load_acquire<std::uint32_t>(line + layout::line_version_offset);
}

/// The version once more, after the node was copied. Relaxed: the word loads in between were acquire, so this one stays
/// behind them, and one that took its value from a later insert or update sees that one's version.
[[nodiscard]] inline bool version_is_still(const std::byte* line, std::uint32_t version) noexcept {
    return load_relaxed<std::uint32_t>(line + layout::line_version_offset) == version;
}

/// How many entries of overflow class `group` (0 to 15) went past this bucket; 15 = that many or more.
/// Acquire: R4; verify looks at the intent behind it. (To find an entry less would do: whoever must find it has seen
/// its insert, hence the counters raised before it.)
[[nodiscard]] inline std::uint8_t counter_of(const std::byte* line, unsigned group) noexcept {
    const std::uint8_t pair = load_acquire<std::uint8_t>(line + layout::line_counters_offset + group / 2);
    return static_cast<std::uint8_t>((pair >> (group % 2 * 4)) & 15U);
}

/// Whether no entry of the key's overflow class went past this bucket. `hash` carries the class in bits 16 to 19.
[[nodiscard, gnu::always_inline]] inline bool nothing_went_past(const std::byte* line, std::uint64_t hash) noexcept {
#if defined(HOLDFAST_HASH_TABLE_VECTOR)
    // As with tags: all counters in one load, each of which is only ever written whole; half of the instructions.
    std::uint64_t counters;
    std::memcpy(&counters, line + layout::line_counters_offset, 8);
    // R4, as in counter_of.
    std::atomic_thread_fence(std::memory_order_acquire);
    return (counters >> (hash >> 14 & 60) & 15U) == 0;
#else
    return counter_of(line, static_cast<unsigned>(hash >> 16) & 15U) == 0;
#endif
}

/// Stores a counter. Release: W3; a lowered counter must not be seen before the tag cleared ahead of it. (A raised one
/// needs no more than its place before the tag store W1.)
inline void set_counter(std::byte* line, unsigned group, std::uint8_t value) noexcept {
    std::byte* at = line + layout::line_counters_offset + group / 2;
    const unsigned shift = group % 2 * 4;
    // Relaxed: only the writer stores to counters.
    const unsigned old = load_relaxed<std::uint8_t>(at);
    store_release<std::uint8_t>(at, static_cast<std::uint8_t>((old & ~(15U << shift)) | (unsigned{value} << shift)));
}

/// The same where others may be changing counters of the byte, too: one more, or one less, in one atomic step. 15
/// stays. Returns: false if it is to be lowered and is 0 already. Release: W3, as above.
[[nodiscard]] inline bool change_shared_counter(std::byte* line, unsigned group, bool raise) noexcept {
    std::atomic_ref<std::uint8_t> pair(
        *reinterpret_cast<std::uint8_t*>(line + layout::line_counters_offset + group / 2));
    const unsigned shift = group % 2 * 4;
    // Relaxed, here and on failure: the value counts only once the exchange has found it still there.
    std::uint8_t seen = pair.load(std::memory_order_relaxed);
    for (;;) {
        const unsigned counter = (unsigned{seen} >> shift) & 15U;
        if (counter == layout::counter_max) return true;
        if (counter == 0 && !raise) return false;
        const unsigned changed = raise ? seen + (1U << shift) : seen - (1U << shift);
        // W3, pairs with R4 in counter_of: a lowered counter must not be seen before the tag cleared ahead of it.
        if (pair.compare_exchange_weak(seen, static_cast<std::uint8_t>(changed), std::memory_order_release,
                                       std::memory_order_relaxed))
            return true;
    }
}

[[nodiscard]] inline std::uint16_t tag_at(const std::byte* line, unsigned place) noexcept {
    return load_acquire<std::uint16_t>(line + layout::line_tags_offset + std::size_t{2} * place);  // R1, pairs with W1
}

/// Publishes (a key's tag) or removes (0) an entry: W1, pairs with R1. Release: whoever sees the tag sees the node's
/// words, and the raised counters on the way to it.
inline void set_tag(std::byte* line, unsigned place, std::uint16_t tag) noexcept {
    store_release<std::uint16_t>(line + layout::line_tags_offset + std::size_t{2} * place, tag);
}

}  // namespace holdfast::detail
