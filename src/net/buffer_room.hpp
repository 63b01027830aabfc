// SPDX-License-Identifier: Apache-2.0
// buffer_room.hpp - how much larger a buffer may be than what is in it: what is counted of one is its bytes (I3 of
// server.hpp), so it has not many times their room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace holdfast::net {

inline constexpr std::size_t idle_bytes_max = 4U << 10U;  // a buffer that much has left is not kept for little
inline constexpr std::size_t room_factor = 4;             // a buffer may be so many times as large as what is in it

[[nodiscard]] inline bool has_room_to_spare(const std::string& buffer, std::size_t bytes) noexcept {
    return buffer.capacity() > room_factor * std::max(bytes, idle_bytes_max);
}

}  // namespace holdfast::net
