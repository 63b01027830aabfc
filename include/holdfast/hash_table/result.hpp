// SPDX-License-Identifier: Apache-2.0
// result.hpp - the answer of a mutating operation, the same for typed and dynamic tables.
#pragma once

#include <cstdint>
#include <optional>

#include "holdfast/hash_table/mutate.hpp"

namespace holdfast {

/// Names one place of a table, stable for the life of its entry. After that another entry may get the same place.
enum class hash_table_slot : std::uint64_t {};

/// What a mutating operation did, and to which slot.
struct hash_table_result {
    hash_table_status status = hash_table_status::not_found;
    std::optional<hash_table_slot> slot;  ///< of the key's entry, if it has one

    /// Whether the key has the given value now: inserted or updated.
    [[nodiscard]] explicit operator bool() const noexcept {
        return status == hash_table_status::inserted || status == hash_table_status::updated;
    }
    friend bool operator==(const hash_table_result& r, hash_table_status s) noexcept { return r.status == s; }
};

namespace detail {

template <class Done>
[[nodiscard]] hash_table_result result_of(const Done& done) noexcept {
    if (done.slot == no_slot || done.status == hash_table_status::erased) return {done.status, std::nullopt};
    return {done.status, static_cast<hash_table_slot>(done.slot)};
}

}  // namespace detail
}  // namespace holdfast
