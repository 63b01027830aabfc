// SPDX-License-Identifier: Apache-2.0
// block_store_layout.hpp - the bytes of a block store behind the segment header, and the numbers ("geometry") that
// describe them.
//
// Body, layout v1 (little-endian; offsets from the start of the body, which is 4096-aligned)
//   offset        bytes               field     written by
//   0             8                   selector  the writer: 2n = operation n began, 2n + 1 = and is complete; 0 = none
//   64            2 * 64              records   the writer: operation n is described by record n % 2
//   4096          units * 8           words     the writer: one per unit, see "Word"
//   units_offset  units * unit_bytes  units     the writer: values
//   all else up to units_offset: zero
//
// Body, layout v2, of many writers (block_store/many_write.hpp): selector and records stay zero, and there is
//   journals_offset  slots * 256      journals  the holder of that writer slot
//     of each   0  8  selector        as above, for the operations of this slot
//               8  8  claim           the handle that what is claimed is to have, or was to have; 0 = none yet
//              16  8  pid             of its writer, for people
//              64  2 * 64  records    as above; the counts are this slot's part of the sum, modulo 2^64, and the serial
//                                     is also that by which it takes `take`
//   The serial of a value is number * 2^slot_bits + slot: whose it is.
//
// Record of operation n                          Word of a unit, and handle of a value
//    0  8  add         handle it brings, or 0       bits 0..i-1  first unit of the value; i = index_bits
//    8  8  take        handle it takes, or 0        bits i..61   serial of the value, never 0
//   16  8  units       in use before it             bit  62      zero. Instead of bit 63: many writers, a claim of
//   24  8  values      there before it              bit  63      1     the unit's first unit, see I2
//   32  4  add_units   units of `add`               0: never used. bit 63 clear: the handle of a value that was
//   36  4  take_units  units of `take`              freed and had its first unit here
//   40  8  serial      the last one given to a value
//   48  8  flags       bit 0: the counts were rebuilt over a damaged record
//   56  8  sum         of the words above and n
//
// First run of a value, in its first unit         Further runs
//    0  8  bytes                                     0  4  units of this run
//    8  4  units of this run                         4  4  first unit of the next run, 0xffffffff = last
//   12  4  first unit of the next run                8     payload
//   16  8  checksum
//   24     payload
//
// (I1) The geometry words in the segment header never change. They are input: copied once, checked against the size of
//      the body, and only the checked copy is used.
// (I2) A unit is in use if and only if bit 63 of its word is set and the unit that the word names carries the same
//      word. (The first unit of a value names itself.) Of many writers: it is claimed if its word has bit 62 and not
//      bit 63, or has bit 63 and the unit that it names carries the same word with bit 62 instead. Claimed is not in
//      use.
// (I3) The runs of a value cover exactly the units that carry its handle; the last run ends in the unit that holds its
//      last byte. A value of no bytes has one unit.
// (I4) A zero-filled body is an empty store.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace holdfast::layout {

inline constexpr std::uint32_t block_store_version = 1;
inline constexpr std::uint32_t block_store_many_version = 2;  ///< of stores with writer slots

inline constexpr std::size_t block_selector_offset = 0;
inline constexpr std::size_t block_records_offset = 64;
inline constexpr std::size_t block_record_bytes = 64;
inline constexpr std::size_t block_record_words = block_record_bytes / 8;
inline constexpr std::uint64_t block_words_offset = 4096;

inline constexpr std::size_t block_journal_bytes = 256;
inline constexpr std::size_t block_journal_claim_offset = 8;
inline constexpr std::size_t block_journal_pid_offset = 16;
inline constexpr std::size_t block_journal_records_offset = 64;

inline constexpr std::size_t block_head_bytes = 24;  ///< before the payload of a value's first run
inline constexpr std::size_t block_run_bytes = 8;    ///< before the payload of its further runs
inline constexpr std::size_t block_head_run_offset = 8;
inline constexpr std::size_t block_head_checksum_offset = 16;
inline constexpr std::uint64_t block_no_run = 0xffffffff;

inline constexpr std::uint64_t block_live_bit = std::uint64_t{1} << 63;
inline constexpr std::uint64_t block_claim_bit = std::uint64_t{1} << 62;

inline constexpr std::uint64_t block_unit_bytes_min = 64;
inline constexpr std::uint64_t block_unit_bytes_max = 65536;
inline constexpr std::uint64_t block_units_max = 0xffffffff;  ///< so that block_no_run names none of them
inline constexpr std::uint64_t block_writer_slots_max = 1024;
inline constexpr unsigned block_number_bits_min = 24;  ///< what is left of a handle for the claims of one writer slot

/// The word of a run: how many units, and where the next one starts.
[[nodiscard]] constexpr std::uint64_t block_run_word(std::uint64_t units, std::uint64_t next) noexcept {
    return units | next << 32;
}
[[nodiscard]] constexpr std::uint64_t block_run_units(std::uint64_t run) noexcept { return run & 0xffffffff; }
[[nodiscard]] constexpr std::uint64_t block_run_next(std::uint64_t run) noexcept { return run >> 32; }

/// The numbers of one store. Made by plan_block_store() or, checked, by read_block_store_geometry().
struct block_store_geometry {
    std::uint64_t units = 0;
    std::uint64_t unit_bytes = 0;    ///< a power of two
    std::uint64_t writer_slots = 0;  ///< of many writers; 0 = the store has one

    [[nodiscard]] constexpr unsigned unit_shift() const noexcept {
        return static_cast<unsigned>(std::countr_zero(unit_bytes));
    }
    /// Bits of a handle that name a unit; those above, up to 61, are the serial.
    [[nodiscard]] constexpr unsigned index_bits() const noexcept {
        return std::max(1U, static_cast<unsigned>(std::bit_width(units - 1)));
    }
    /// Bits of a serial that name a writer slot; those above are that slot's number.
    [[nodiscard]] constexpr unsigned slot_bits() const noexcept {
        return writer_slots == 0 ? 0U : static_cast<unsigned>(std::bit_width(writer_slots - 1));
    }
    [[nodiscard]] constexpr std::uint64_t journals_offset() const noexcept {
        return (block_words_offset + units * 8 + 4095) / 4096 * 4096;
    }
    [[nodiscard]] constexpr std::uint64_t units_offset() const noexcept {
        return journals_offset() + (writer_slots * block_journal_bytes + 4095) / 4096 * 4096;
    }
    [[nodiscard]] constexpr std::uint64_t body_bytes() const noexcept { return units_offset() + units * unit_bytes; }
    /// Of a value that fills the whole store.
    [[nodiscard]] constexpr std::uint64_t value_bytes_max() const noexcept {
        return units * unit_bytes - block_head_bytes;
    }
    /// What a value takes in one run. Requires: bytes <= value_bytes_max().
    [[nodiscard]] constexpr std::uint64_t units_for(std::uint64_t bytes) const noexcept {
        return (bytes + block_head_bytes + unit_bytes - 1) >> unit_shift();
    }
    /// What it takes at most, when every run is one unit: so many free units always suffice.
    [[nodiscard]] constexpr std::uint64_t units_for_at_worst(std::uint64_t bytes) const noexcept {
        const std::uint64_t first = unit_bytes - block_head_bytes, further = unit_bytes - block_run_bytes;
        return bytes <= first ? 1 : 1 + (bytes - first + further - 1) / further;
    }
    friend constexpr bool operator==(const block_store_geometry&, const block_store_geometry&) = default;
};

/// What a store is to hold, as its creator asks for it.
struct block_store_request {
    std::uint64_t bytes = 0;         ///< room for values with their headers; rounded up to whole units
    std::uint64_t value_bytes = 0;   ///< size of a typical value; chooses the unit
    std::uint64_t unit_bytes = 0;    ///< 0: chosen by value_bytes
    std::uint64_t writer_slots = 0;  ///< how many may write at once; 0 = one, without locks
};

/// The unit that wastes least for values of that size: half a unit at the end of each, and a word for each unit.
[[nodiscard]] constexpr std::uint64_t best_unit_bytes(std::uint64_t value_bytes) noexcept {
    const std::uint64_t whole = std::min(value_bytes, std::uint64_t{1} << 40) + block_head_bytes;
    const auto waste = [&](std::uint64_t unit) { return unit / 2 + 8 * whole / unit; };
    std::uint64_t unit = block_unit_bytes_min;
    while (unit < block_unit_bytes_max && waste(2 * unit) < waste(unit)) unit *= 2;
    return unit;
}

/// Whether each writer slot has numbers enough for its claims.
[[nodiscard]] constexpr bool has_numbers(const block_store_geometry& g) noexcept {
    return g.index_bits() + g.slot_bits() + block_number_bits_min <= 62;
}

/// Whether the numbers of a writer slot go round later than its search goes round in the store. Units that a freed
/// value leaves carry its handle until they are claimed anew; one that carried it for a round could be taken for a part
/// of the value that gets the same handle then. Next fit comes by each free unit once in a trip, which takes two
/// numbers a unit where all that is claimed is freed by the same slot; twice that is asked for. Stores of one writer:
/// 0017.
[[nodiscard]] constexpr bool outlasts_a_trip(const block_store_geometry& g) noexcept {
    return g.writer_slots == 0 || g.index_bits() + g.slot_bits() + (g.index_bits() + 2) <= 62;
}

/// Requires: check(request) == nullptr.
[[nodiscard]] constexpr block_store_geometry plan_block_store(const block_store_request& request) noexcept {
    const std::uint64_t unit = request.unit_bytes != 0 ? request.unit_bytes : best_unit_bytes(request.value_bytes);
    return {(request.bytes + unit - 1) / unit, unit, request.writer_slots};
}

/// Why the request cannot be met, or nullptr.
[[nodiscard]] constexpr const char* check(const block_store_request& request) noexcept {
    const std::uint64_t unit = request.unit_bytes != 0 ? request.unit_bytes : best_unit_bytes(request.value_bytes);
    if (!std::has_single_bit(unit) || unit < block_unit_bytes_min || unit > block_unit_bytes_max)
        return "a unit must have 64 to 65536 bytes, a power of two";
    if (request.bytes == 0) return "the store has no bytes; ask for the room that all values take together";
    if (request.bytes > block_units_max * unit) return "more than 2^32 - 1 units; take larger units or several stores";
    if (request.writer_slots > block_writer_slots_max) return "at most 1024 writers are possible; ask for fewer";
    // Stores that were made with fewer numbers stay readable: this is asked of new ones only.
    if (const block_store_geometry g = plan_block_store(request); !has_numbers(g) || !outlasts_a_trip(g))
        return "a handle has too few bits for so many units and writers; take larger units, or fewer writer slots";
    return nullptr;
}

/// The geometry as the segment header keeps it. The offsets follow from the first two words and are there to be
/// checked, and read by people.
[[nodiscard]] constexpr std::array<std::uint64_t, 16> geometry_words_of(const block_store_geometry& g) noexcept {
    const std::uint64_t journals = g.writer_slots == 0 ? 0 : g.journals_offset();
    return {g.units,
            g.unit_bytes,
            block_words_offset,
            g.units_offset(),
            g.writer_slots,
            journals,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0};
}

/// Reads and checks untrusted geometry words against the size of the body. After success every word and unit lies
/// inside the body. Returns: nullptr and the geometry, or what is wrong.
[[nodiscard]] constexpr const char* read_block_store_geometry(const std::array<std::uint64_t, 16>& words,
                                                              std::uint64_t body_bytes,
                                                              block_store_geometry& out) noexcept {
    // Single numbers first: after them no product or sum can overflow 64 bits.
    if (words[0] == 0 || words[0] > block_units_max) return "the number of units is out of range";
    if (!std::has_single_bit(words[1]) || words[1] < block_unit_bytes_min || words[1] > block_unit_bytes_max)
        return "the unit size is out of range";
    if (words[4] > block_writer_slots_max) return "the number of writer slots is out of range";
    const block_store_geometry g{words[0], words[1], words[4]};
    if (!has_numbers(g)) return "a handle has too few bits for so many units and writer slots";
    if (words != geometry_words_of(g)) return "the offsets do not follow from units and unit size";
    if (g.body_bytes() != body_bytes) return "the units do not end where the body ends";
    out = g;
    return nullptr;
}

static_assert(block_head_bytes % 8 == 0 && block_run_bytes % 8 == 0, "payloads are 8-aligned");
static_assert(block_head_bytes < block_unit_bytes_min);
static_assert(block_records_offset + 2 * block_record_bytes <= block_words_offset);
static_assert(block_journal_records_offset + 2 * block_record_bytes <= block_journal_bytes);

}  // namespace holdfast::layout
