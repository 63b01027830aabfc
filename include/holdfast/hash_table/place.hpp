// SPDX-License-Identifier: Apache-2.0
// place.hpp - a slot that knows which generation of its table it is one of.
//
// A table that grows or shrinks goes on in another segment, the next generation, where each entry has another slot. A
// bare slot cannot tell; a place says `stale` there.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include "holdfast/hash_table/result.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// A slot, and the generation of the table that it is one of.
struct hash_table_place {
    std::uint64_t generation = 0;  ///< a random number
    hash_table_slot slot{};
    friend bool operator==(const hash_table_place&, const hash_table_place&) = default;
};

namespace detail {

/// What names a generation: its segment's identity.
[[nodiscard]] inline std::uint64_t generation_of(const segment& s) noexcept {
    std::uint64_t number = 0;
    std::memcpy(&number, s.info().identity.data(), sizeof number);
    return number;
}

/// That slot of the generation that `table` has come to, where slot_of() found it.
template <class Table>
[[nodiscard]] std::optional<hash_table_place> place_in(const Table& table,
                                                       std::optional<hash_table_slot> slot) noexcept {
    if (!slot) return std::nullopt;
    return hash_table_place{generation_of(table.segment()), *slot};
}

/// Reads the entry at a place by read(slot) -> bool, as far as one generation can tell.
template <class Table, class Read>
[[nodiscard]] outcome read_place(const Table& table, const hash_table_place& place, Read&& read) noexcept {
    const auto is_here = [&] { return place.generation == generation_of(table.segment()); };
    (void)table.geometry();  // of many writers, that leads to the newest generation
    if (!is_here()) return outcome::stale;
    const bool found = read(place.slot);
    if (!is_here()) return outcome::stale;  // it went over meanwhile: what it read is of another generation
    if (found) return outcome::ok;
    const std::optional<errc> fault = table.fault();
    if (!fault) return outcome::not_found;
    return *fault == errc::contended ? outcome::contended : outcome::corrupt;
}

/// The same, of a typed table.
template <class Table>
[[nodiscard]] outcome entry_at_place(const Table& table, const hash_table_place& place,
                                     typename Table::value_type& entry) noexcept {
    std::optional<typename Table::value_type> found;
    const outcome seen = read_place(table, place, [&](hash_table_slot slot) noexcept {
        found = table.entry_at(slot);
        return found.has_value();
    });
    if (seen == outcome::ok) entry = *found;
    return seen;
}

}  // namespace detail
}  // namespace holdfast
