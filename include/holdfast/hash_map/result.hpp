// SPDX-License-Identifier: Apache-2.0
// result.hpp - what the operations of a hash map answer, and how an entry is stored.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "holdfast/hash_map/view.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

/// How an entry is stored.
struct hash_map_entry_options {
    /// How long it lives, and up to a second more; 0: until it is erased, replaced or evicted; below 0: it is over at
    /// once.
    std::chrono::seconds ttl{};
    std::uint32_t flags = 0;  ///< kept beside the value, for the caller's use
};

/// What a look for a key gave.
struct hash_map_found {
    outcome status = outcome::not_found;  ///< ok, not_found, too_small (count: bytes needed), contended, corrupt
    std::uint64_t count = 0;              ///< bytes of the value
    std::uint64_t handle = 0;    ///< its version: every store gives a key another one, and no two keys share one
    std::chrono::seconds ttl{};  ///< left to it; 0: it does not expire
    std::uint32_t flags = 0;     ///< as stored
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

/// What an operation did.
struct hash_map_result {
    outcome status = outcome::not_found;
    std::uint64_t handle = 0;                ///< ok: of the value now, 0 after erase; exists, stale: of the one there
    entry_change what = entry_change::none;  ///< ok: inserted, updated or erased
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

/// What fetch_add did.
template <class T>
struct hash_map_added {
    outcome status = outcome::not_found;
    T before{};                ///< the field's value before; counts only with ok
    std::uint64_t handle = 0;  ///< of the value now
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

/// A copy of one entry, consistent in itself.
struct hash_map_entry {
    std::vector<std::byte> key;
    std::vector<std::byte> value;
    std::uint64_t handle = 0;
    std::chrono::seconds ttl{};  ///< left to it; 0: it does not expire
    std::uint32_t flags = 0;
};

/// How full a map is. Units are exact after any kill, also before its next writer comes: used + free = capacity always.
struct hash_map_usage {
    outcome status = outcome::ok;  ///< ok, contended or corrupt; what is said of units counts only with ok
    std::uint64_t entries = 0;     ///< those included whose time is over and that no writer met since; off by
                                   ///< one while an operation is under way, or behind a kill until the next attach
    std::uint64_t capacity = 0;    ///< entries that it was made for
    std::uint64_t units = 0;
    std::uint64_t units_used = 0;
    std::uint64_t unit_bytes = 0;
    std::uint64_t evicted = 0;  ///< since it was made
    std::uint64_t expired = 0;  ///< taken out since it was made
    [[nodiscard]] std::uint64_t units_free() const noexcept { return units - units_used; }
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

}  // namespace holdfast
