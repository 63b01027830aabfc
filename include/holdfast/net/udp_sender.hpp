// SPDX-License-Identifier: Apache-2.0
// udp_sender.hpp - many datagrams for one walk through the kernel.
//
// Threads: any number of senders on one socket; one sender, one thread at a time.
// Source: udp(7), sendmmsg(2); UDP_SEGMENT: Linux 4.18, net/ipv4/udp.c.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "holdfast/net/udp.hpp"

namespace holdfast::net {

/// How far a call came.
struct udp_sent {
    std::size_t datagrams = 0;  ///< from the first on, that the kernel took; none of the others
    int error = 0;              ///< errno of the one behind them; 0: all were taken
};

class udp_sender {
 public:
    /// The socket stays the caller's and outlives the sender.
    explicit udp_sender(int socket) noexcept;

    /// Sends `bytes` as datagrams of segment_bytes each, the last one perhaps shorter; no bytes are one empty datagram.
    /// Up to 64 travel through the kernel as one (UDP_SEGMENT). Where that cannot be, because the kernel, the network
    /// card or the size of packets on the way does not let it, they are sent by send_each. EINVAL for segment_bytes of
    /// 0. A full socket is waited for, unless the socket does not block: EAGAIN.
    udp_sent send_train(std::string_view bytes, std::size_t segment_bytes, const udp_address& to = {}) noexcept;

    /// Sends each as a datagram of its own; 64 share a system call.
    udp_sent send_each(std::span<const std::string_view> datagrams, const udp_address& to = {}) noexcept;

    /// Whether trains of datagrams that large travel as one.
    [[nodiscard]] bool joins(std::size_t segment_bytes) const noexcept {
        return segment_bytes <= joined_bytes_max_ && 2 * segment_bytes <= datagram_bytes_max;
    }

    static constexpr std::size_t datagram_bytes_max = 65'507;  ///< of IPv4, 20 less than those of IPv6
    static constexpr std::size_t train_segments_max = 64;      ///< the least that any kernel with UDP_SEGMENT takes

 private:
    udp_sent send_one_by_one(std::string_view bytes, std::size_t segment_bytes, const udp_address& to) noexcept;

    int socket_;
    std::size_t joined_bytes_max_;  // the largest segment that may be joined, as far as the kernel has told; 0: none
};

}  // namespace holdfast::net
