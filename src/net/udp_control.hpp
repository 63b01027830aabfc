// SPDX-License-Identifier: Apache-2.0
// udp_control.hpp - what the kernel says beside a received train, read from a message's control bytes.
//
// The seam for other ways to receive: whoever has a msghdr whose control bytes the kernel filled (recvmmsg, or the
// header that a multishot recvmsg puts before each of its buffers) gets the same train from it.
#pragma once

#include <linux/net_tstamp.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "holdfast/net/udp_receiver.hpp"

namespace holdfast::net {

// By Linux's numbers where the C library's headers are older than what they name.
inline constexpr int udp_segment_option = 103;
inline constexpr int udp_gro_option = 104;

/// Room for all three of udp_control and for what the owner of a socket may have switched on beside them.
inline constexpr std::size_t udp_control_bytes = 256;

struct udp_control {
    std::size_t segment_bytes = 0;  ///< 0: not joined
    std::uint64_t received_ns = 0;
    std::optional<std::uint32_t> drops;  ///< the socket's count when this was queued; the kernel leaves out a 0
};

[[nodiscard]] inline udp_control read_udp_control(msghdr& message) noexcept {
    udp_control told;
    const auto read = [](const cmsghdr* header, auto& into) {
        const bool fits = header->cmsg_len >= CMSG_LEN(sizeof into);
        if (fits) std::memcpy(&into, CMSG_DATA(header), sizeof into);
        return fits;
    };
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == udp_gro_option) {
            int size = 0;
            if (read(header, size) && size > 0) told.segment_bytes = static_cast<std::size_t>(size);
        } else if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_RXQ_OVFL) {
            std::uint32_t drops = 0;
            if (read(header, drops)) told.drops = drops;
        } else if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_TIMESTAMPNS) {
            timespec time{};
            if (read(header, time))
                told.received_ns =
                    static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
        }
    }
    return told;
}

/// A train of `wire_bytes`, of which the first `room` at `base` are there at most.
[[nodiscard]] inline datagram_train make_train(const char* base, std::size_t wire_bytes, std::size_t room,
                                               const udp_control& told, const udp_address& from) noexcept {
    datagram_train train;
    train.bytes = {base, wire_bytes < room ? wire_bytes : room};
    train.cut_bytes = wire_bytes - train.bytes.size();
    const bool joined = told.segment_bytes != 0 && told.segment_bytes < wire_bytes;
    train.segment_bytes = joined ? told.segment_bytes : wire_bytes;
    train.count = joined ? (wire_bytes + told.segment_bytes - 1) / told.segment_bytes : 1;
    train.from = &from;
    train.received_ns = told.received_ns;
    return train;
}

/// A count of the kernel's that has 32 bits, followed in 64. Readings may come late: an older one changes nothing.
class drop_count {
 public:
    explicit drop_count(std::uint32_t now) noexcept : last_(now) {}
    /// Returns: by how much the count has grown.
    std::uint32_t advance(std::uint32_t now) noexcept {
        const std::uint32_t grown = now - last_;
        if (grown == 0 || grown >= 1U << 31U) return 0;
        last_ = now;
        total_ += grown;
        return grown;
    }
    [[nodiscard]] std::uint64_t total() const noexcept { return total_; }

 private:
    std::uint32_t last_;
    std::uint64_t total_ = 0;
};

}  // namespace holdfast::net
