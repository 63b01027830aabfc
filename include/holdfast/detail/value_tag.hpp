// SPDX-License-Identifier: Apache-2.0
// value_tag.hpp - a number that names a value by its bytes: what an ETag is made of, and what a command to an inbox
// compares. The same value has the same tag however it came to be. It is no defence against forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "holdfast/detail/hash.hpp"

namespace holdfast::detail {

/// Part of the protocol of inboxes: a change of one bit here is a new version of it (inbox/messages.hpp).
[[nodiscard]] inline std::uint64_t value_tag(std::span<const std::byte> value) noexcept {
    constexpr std::uint64_t seed = 0x686f6c6466617374;
    return hash_key(value.data(), value.size(), hash_start(seed, value.size()));
}

}  // namespace holdfast::detail
