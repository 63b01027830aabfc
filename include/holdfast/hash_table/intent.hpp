// SPDX-License-Identifier: Apache-2.0
// intent.hpp - the word that names the operation the writer is in, and counts operations.
//
//   bits   0-1  operation: 0 = none is open
//            2  lowest bit of the size before it
//         3-39  slot
//        40-63  how many operations began, modulo 2^24
//
// When the operation ends, only the first two bits go. After a kill the word tells the next writer what to settle. To
// a reader that checks the table it is a version of everything: as long as it is the same word and no operation is
// open, nothing was changed. (It is the same once more after 2^24 operations if the last one was on the same slot.)
#pragma once

#include <cstdint>

namespace holdfast::detail {

struct hash_table_intent {
    enum operation : unsigned { none = 0, insert = 1, erase = 2, update = 3 };

    std::uint64_t word = 0;

    /// The word when its operation has ended.
    [[nodiscard]] constexpr hash_table_intent closed() const noexcept { return {word & ~std::uint64_t{3}}; }
    /// That of the operation with this number, and one of those with `op` open.
    [[nodiscard]] static constexpr hash_table_intent closed_of(std::uint64_t number, std::uint64_t slot,
                                                               std::uint64_t size_before) noexcept {
        return {(number << 40) + (2 * slot + (size_before & 1)) * 4};
    }
    /// The word when the next operation begins.
    [[nodiscard]] constexpr hash_table_intent next(operation op, std::uint64_t slot,
                                                   std::uint64_t size_before) const noexcept {
        return closed_of(begun() + 1, slot, size_before).opened(op);
    }
    [[nodiscard]] constexpr hash_table_intent opened(operation op) const noexcept { return {word + op}; }
    /// Of a closed word for slot 0: that for another slot, and that of the operation behind it, which is a sum away.
    [[nodiscard]] constexpr hash_table_intent on(std::uint64_t slot) const noexcept { return {word + 8 * slot}; }
    [[nodiscard]] constexpr hash_table_intent following(bool other_parity) const noexcept {
        return {(word + (std::uint64_t{1} << 40)) ^ (other_parity ? 4U : 0U)};
    }

    /// How many operations began, modulo 2^24.
    [[nodiscard]] constexpr std::uint64_t begun() const noexcept { return word >> 40; }
    [[nodiscard]] constexpr operation what() const noexcept { return static_cast<operation>(word & 3); }
    [[nodiscard]] constexpr bool is_open() const noexcept { return what() != none; }
    /// A number below 2^37; input, to be checked.
    [[nodiscard]] constexpr std::uint64_t slot() const noexcept { return (word & ((std::uint64_t{1} << 40) - 1)) >> 3; }
    /// Whether a stored size counts the operation already: then its lowest bit is another than before.
    [[nodiscard]] constexpr bool is_counted(std::uint64_t size) const noexcept {
        return what() != update && (size & 1) != ((word >> 2) & 1);
    }

    /// The size without regard to the slot, given the stored one.
    [[nodiscard]] constexpr std::uint64_t size_elsewhere(std::uint64_t size) const noexcept {
        if (what() == insert) return is_counted(size) ? size - 1 : size;
        return what() == erase && is_counted(size) ? size : size - 1;
    }
    /// The right size, given the stored one and whether the slot has an entry.
    [[nodiscard]] constexpr std::uint64_t mend(std::uint64_t size, bool slot_has_entry) const noexcept {
        if (what() == update) return size;
        const std::uint64_t right = size_elsewhere(size) + (slot_has_entry ? 1 : 0);
        return right == ~std::uint64_t{0} ? 0 : right;
    }

    friend constexpr bool operator==(hash_table_intent, hash_table_intent) = default;
};

}  // namespace holdfast::detail
