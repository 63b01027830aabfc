// SPDX-License-Identifier: Apache-2.0
// script.hpp - an input as a script: steps {operation, number, length, bytes}.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace holdfast::fuzz {

struct step {
    std::uint8_t operation;
    std::uint8_t number;
    std::span<const std::byte> bytes;
    /// The first of the bytes, or 0.
    [[nodiscard]] std::size_t byte() const noexcept { return bytes.empty() ? 0 : static_cast<std::size_t>(bytes[0]); }
    /// A place in a file, and what is laid there.
    [[nodiscard]] std::size_t place() const noexcept { return 8 * (number + std::size_t{256} * byte()); }
    [[nodiscard]] std::span<const std::byte> cover() const noexcept {
        return bytes.subspan(std::min<std::size_t>(bytes.size(), 1));
    }
};

/// Runs take(step) for each of the first `steps_max` steps.
template <class Take>
void for_each_step(std::span<const std::byte> script, std::size_t steps_max, Take&& take) {
    for (std::size_t steps = 0; script.size() >= 3 && steps < steps_max; ++steps) {
        const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(script[at]); };
        const step next{byte(0), byte(1), script.subspan(3, std::min<std::size_t>(byte(2), script.size() - 3))};
        script = script.subspan(3 + next.bytes.size());
        take(next);
    }
}

}  // namespace holdfast::fuzz
