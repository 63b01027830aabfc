// SPDX-License-Identifier: Apache-2.0
// byte_exchange.hpp - what is asked and answered: the first 1 to 4096 of 4096 random bytes, by a Range.
//
// A range is how HTTP asks for so many bytes, so any server can answer from one file or one body in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace holdfast::workload::connections {

inline constexpr std::size_t answer_bytes_max = 4096;
inline constexpr const char* bytes_path = "/bytes";

/// Marsaglia's xorshift64.
class quick_random {
 public:
    explicit quick_random(std::uint64_t seed) noexcept
        : state_(seed * 0x9E3779B97F4A7C15U + 0x2545F4914F6CDD1DU) {}  // far apart for seeds that are not
    std::uint32_t below(std::uint32_t bound) noexcept {
        state_ ^= state_ << 13U;
        state_ ^= state_ >> 7U;
        state_ ^= state_ << 17U;
        return static_cast<std::uint32_t>(((state_ >> 32U) * bound) >> 32U);
    }

 private:
    std::uint64_t state_;
};

/// The same bytes in every run.
[[nodiscard]] inline std::string random_bytes() {
    quick_random random(20);
    std::string bytes(answer_bytes_max, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.below(256));
    return bytes;
}

/// Asks for the first `count` of them.
inline void write_request(std::string& out, std::size_t count) {
    out.assign("GET ").append(bytes_path).append(" HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-");
    out.append(std::to_string(count - 1)).append("\r\n\r\n");
}

}  // namespace holdfast::workload::connections
