// SPDX-License-Identifier: Apache-2.0
// small_map.hpp - hash maps of few units: values soon lie where others lay, and a map is full after a few operations.
#pragma once

#include <cstdint>

#include "holdfast/layout/hash_map_layout.hpp"

namespace holdfast::test {

[[nodiscard]] inline layout::hash_map_geometry small_map(std::uint64_t units, bool evicting = false) {
    return layout::plan_hash_map(
        {.capacity = 70, .bytes = units * 64, .entry_bytes = 0, .unit_bytes = 64, .evicting = evicting, .seed = 42});
}

}  // namespace holdfast::test
