// SPDX-License-Identifier: Apache-2.0
// result.hpp - what the operations of a block store answer beyond outcome.hpp, and what is known of a store as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "holdfast/outcome.hpp"

namespace holdfast {

/// What became of a value.
struct block_result {
    outcome status = outcome::stale;
    std::uint64_t handle = 0;  ///< of the value just committed; 0 names none
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

/// A copy of one value.
struct block_value {
    std::uint64_t handle = 0;
    std::vector<std::byte> bytes;
};

/// How full a store is: exact after any kill, also before its next writer comes.
struct block_store_usage {
    outcome status = outcome::ok;  ///< ok, contended or corrupt; the numbers count only with ok
    std::uint64_t units = 0;
    std::uint64_t units_used = 0;
    std::uint64_t values = 0;
    std::uint64_t unit_bytes = 0;
    [[nodiscard]] std::uint64_t units_free() const noexcept { return units - units_used; }
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

}  // namespace holdfast
