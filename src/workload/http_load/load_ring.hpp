// SPDX-License-Identifier: Apache-2.0
// load_ring.hpp - the load client's connections over io_uring: what they send goes to the kernel together, and what
// came for any of them is taken by the same call.
//
// A link is known by its number and its use: completions of an earlier use of the number are told as such (I1).
// Bytes that are sent have to stay as they are until `sent` is told (I2). Received bytes are the caller's until the
// next call of next() (I3). Threads: one, the one that makes it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "net/uring_buffers.hpp"
#include "net/uring_queue.hpp"

namespace holdfast::workload::http {

enum class ring_event_kind : std::uint8_t { connected, received, ended, sent };

struct ring_event {
    ring_event_kind kind = ring_event_kind::sent;
    bool last = false;  ///< received: no more comes without receive()
    std::uint32_t link = 0, use = 0;
    int error = 0;           ///< ended, sent: errno; 0 of ended: in order
    std::string_view bytes;  ///< received
};

class load_ring {
 public:
    /// Nothing where this machine has no io_uring for it.
    [[nodiscard]] static std::unique_ptr<load_ring> make(unsigned connections) noexcept;

    /// Throws: error(unsupported), std::system_error.
    explicit load_ring(unsigned connections);

    /// Tells `connected` once the descriptor can be written to, or has failed.
    void await_connection(std::uint32_t link, std::uint32_t use, int fd) noexcept;
    /// Tells `received` for all that comes, and `ended`. Requires: a descriptor that blocks, of others the kernel gives
    /// up at once.
    void receive(std::uint32_t link, std::uint32_t use, int fd) noexcept;
    void send(std::uint32_t link, std::uint32_t use, int fd, std::string_view bytes) noexcept;

    /// Hands over what is to be sent, and waits until something has come or the time is over; 0: does not wait.
    /// Throws: std::system_error.
    void wait(std::chrono::nanoseconds longest);
    [[nodiscard]] bool next(ring_event& out) noexcept;

    /// `use` as events tell it.
    [[nodiscard]] static std::uint32_t told(std::uint32_t use) noexcept { return use & net::uring_subject::use_mask; }

 private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};

    std::optional<net::uring_buffers> buffers_;  // outlive the ring
    net::uring_queue queue_;
    std::uint32_t lent_ = none;  // the buffer of the last `received`
};

}  // namespace holdfast::workload::http
