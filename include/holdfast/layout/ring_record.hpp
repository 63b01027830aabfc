// SPDX-License-Identifier: Apache-2.0
// ring_record.hpp - how messages of any size lie in a ring of bytes: one word, then the payload.
//
// Layout v1 of a record (little-endian, 8-byte aligned)
//   bits 63      skip       1: no message, the rest of the ring up to its end is unused
//   bits 62..48  reserved   zero
//   bits 47..32  type       the user's own number
//   bits 31..0   length+1   payload bytes + 1, so that no record's word is 0
//   then length bytes of payload, then 0 to 7 bytes of padding
// (I1) A word of 0 means: not ready. It is the only commit point of what follows it.
// (I2) No record crosses the end of the ring; a skip record reaches exactly to it.
// (I3) A position counts bytes since the ring was made and never wraps (2^64); its place is position mod capacity, and
//      capacity is a power of two.
// decode() bounds everything by the room that the caller knows to be there: a word is input, like all shared bytes.
// Threads: functions of their arguments alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::layout {

inline constexpr std::uint64_t ring_word_bytes = 8;
inline constexpr std::uint64_t ring_skip_bit = std::uint64_t{1} << 63U;
inline constexpr std::uint64_t ring_capacity_min = 64;
inline constexpr std::uint64_t ring_capacity_max = std::uint64_t{1} << 32U;
/// The longest payload that a word can name.
inline constexpr std::uint64_t ring_length_max = 0xFFFF'FFFEU;

[[nodiscard]] constexpr std::uint64_t ring_round_up(std::uint64_t bytes) noexcept {
    return (bytes + (ring_word_bytes - 1)) & ~(ring_word_bytes - 1);
}
/// What a message of `length` bytes takes in the ring. Requires: length <= ring_length_max.
[[nodiscard]] constexpr std::uint64_t ring_record_bytes(std::uint64_t length) noexcept {
    return ring_word_bytes + ring_round_up(length);
}
/// The longest message that fits whatever the positions are: a record of half the ring may have to be preceded by a
/// skip almost as long, and the word behind it must be free.
[[nodiscard]] constexpr std::uint64_t ring_message_max(std::uint64_t capacity) noexcept {
    return capacity / 2 - ring_word_bytes;
}
/// Bytes from a position to the end of the ring (I2, I3): 8 at least for a position that is a multiple of 8.
[[nodiscard]] constexpr std::uint64_t ring_room(std::uint64_t position, std::uint64_t capacity) noexcept {
    return capacity - (position & (capacity - 1));
}
[[nodiscard]] constexpr bool ring_capacity_valid(std::uint64_t capacity) noexcept {
    return capacity >= ring_capacity_min && capacity <= ring_capacity_max && (capacity & (capacity - 1)) == 0;
}

/// The word of a message. Requires: length <= ring_length_max.
[[nodiscard]] constexpr std::uint64_t ring_message_word(std::uint64_t length, std::uint16_t type) noexcept {
    return (std::uint64_t{type} << 32U) | (length + 1);
}
/// The word of a skip over `bytes` bytes, its own word included. Requires: a multiple of 8 from 8 to the capacity.
[[nodiscard]] constexpr std::uint64_t ring_skip_word(std::uint64_t bytes) noexcept {
    return ring_skip_bit | (bytes - ring_word_bytes + 1);
}

enum class ring_word_kind : std::uint8_t {
    not_ready,  ///< 0: nothing here yet
    message,
    skip,     ///< go on at the start of the ring
    corrupt,  ///< no writer makes this word here
};

/// A word, taken apart and bounded.
struct ring_word {
    ring_word_kind kind = ring_word_kind::not_ready;
    std::uint16_t type = 0;
    std::uint64_t length = 0;  ///< payload bytes; a skip has none to show
    std::uint64_t bytes = 0;   ///< to the next record's word; 0 unless message or skip
};

/// Takes a word apart. `room`: bytes from the word to the end of the ring, a multiple of 8, 8 at least (ring_room).
/// Returns: for a message or a skip, bytes <= room; anything else that is not 0 is corrupt.
[[nodiscard]] constexpr ring_word ring_decode(std::uint64_t word, std::uint64_t room) noexcept {
    if (word == 0) return {};
    const std::uint64_t length_and_one = word & 0xFFFF'FFFFU;
    const auto type = static_cast<std::uint16_t>(word >> 32U);
    const bool reserved = ((word >> 48U) & 0x7FFFU) != 0;
    if (length_and_one == 0 || reserved) return {ring_word_kind::corrupt, 0, 0, 0};
    const std::uint64_t length = length_and_one - 1;
    const std::uint64_t bytes = ring_record_bytes(length);  // no overflow: length < 2^32
    if ((word & ring_skip_bit) != 0) {
        if (type != 0 || length % ring_word_bytes != 0 || bytes != room) return {ring_word_kind::corrupt, 0, 0, 0};
        return {ring_word_kind::skip, 0, 0, bytes};
    }
    if (bytes > room) return {ring_word_kind::corrupt, 0, 0, 0};
    return {ring_word_kind::message, type, length, bytes};
}

static_assert(ring_decode(0, 8).kind == ring_word_kind::not_ready);
static_assert(ring_decode(ring_message_word(0, 0), 8).bytes == 8);
static_assert(ring_decode(ring_message_word(1, 7), 16).bytes == 16 &&
              ring_decode(ring_message_word(1, 7), 16).type == 7);
static_assert(ring_decode(ring_message_word(1, 7), 8).kind == ring_word_kind::corrupt);
static_assert(ring_decode(ring_skip_word(8), 8).kind == ring_word_kind::skip);
static_assert(ring_decode(ring_skip_word(16), 24).kind == ring_word_kind::corrupt);
static_assert(ring_decode(ring_message_word(ring_message_max(ring_capacity_max), 0xFFFF), ring_capacity_max).length ==
              ring_message_max(ring_capacity_max));
static_assert(ring_decode(~std::uint64_t{0}, ring_capacity_max).kind == ring_word_kind::corrupt);
static_assert(2 * ring_record_bytes(ring_message_max(ring_capacity_min)) <= ring_capacity_min);

}  // namespace holdfast::layout
