// SPDX-License-Identifier: Apache-2.0
// result.hpp - the answer of a mutating operation, the same for typed and dynamic tables.
#pragma once

#include <cstdint>
#include <optional>

#include "holdfast/hash_table/mutate.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

/// Names one place of a table, stable for the life of its entry. After that another entry may get the same place; so it
/// may in another generation of a table that grew or shrank, which hash_table_place (place.hpp) tells.
enum class hash_table_slot : std::uint64_t {};

/// What a mutating operation did, and to which slot.
struct hash_table_result {
    outcome status = outcome::not_found;
    entry_change what = entry_change::none;  ///< ok: inserted, updated or erased
    std::optional<hash_table_slot> slot{};   ///< of the key's entry, if it has one
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

namespace detail {

template <class Done>
[[nodiscard]] hash_table_result result_of(const Done& done) noexcept {
    if (done.slot == no_slot || done.what == entry_change::erased) return {done.status, done.what, std::nullopt};
    return {done.status, done.what, static_cast<hash_table_slot>(done.slot)};
}

}  // namespace detail
}  // namespace holdfast
