// SPDX-License-Identifier: Apache-2.0
// udp_source.hpp - what carries trains from a socket to a udp_receiver: by calls, or by a ring.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "holdfast/net/udp_receiver.hpp"
#include "udp_control.hpp"

namespace holdfast::net {

/// A train as it came. Valid until the source's next receive().
struct udp_message {
    const char* base = nullptr;
    std::size_t wire_bytes = 0;
    udp_control beside;
    const udp_address* from = nullptr;
};

class udp_source {
 public:
    struct taken {
        std::size_t count = 0;
        int error = 0;  ///< 0 also where nothing came in time
    };

    udp_source() = default;
    udp_source(const udp_source&) = delete;
    udp_source& operator=(const udp_source&) = delete;
    virtual ~udp_source() = default;

    /// Waits for a first message, if at all; takes trains_max at most.
    [[nodiscard]] virtual taken receive(std::chrono::milliseconds wait) noexcept = 0;
    /// Number i of what the last receive() took.
    [[nodiscard]] virtual udp_message at(std::size_t i) noexcept = 0;
    /// System calls so far.
    [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }

 protected:
    std::uint64_t calls_ = 0;
};

/// The socket stays the caller's, blocks, and outlives the source.
[[nodiscard]] std::unique_ptr<udp_source> make_call_source(int socket, const udp_receiver_options& options);
/// Throws: error(unsupported).
[[nodiscard]] std::unique_ptr<udp_source> make_uring_source(int socket, const udp_receiver_options& options);

/// From buffer to buffer: whole lines and an odd number of them, so that the first lines of all buffers do not meet in
/// one set of the first cache.
[[nodiscard]] constexpr std::size_t udp_stride(std::size_t bytes) noexcept {
    constexpr std::size_t line = 64;
    return ((bytes + line - 1) / line | 1U) * line;
}

}  // namespace holdfast::net
