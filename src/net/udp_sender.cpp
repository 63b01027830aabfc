// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/udp_sender.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "udp_control.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t batch = 64;

[[nodiscard]] bool knows_segments(int socket) noexcept {
    int value = 0;
    socklen_t size = sizeof value;
    // A kernel that does not know the option would send a train as one large datagram.
    return ::getsockopt(socket, IPPROTO_UDP, udp_segment_option, &value, &size) == 0;
}

[[nodiscard]] msghdr header_to(const udp_address& to, iovec& part) noexcept {
    msghdr header{};
    header.msg_name = const_cast<sockaddr*>(to.data());  // the kernel only reads it
    header.msg_namelen = to.size();
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    return header;
}

[[nodiscard]] iovec part_of(std::string_view bytes) noexcept {
    return {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};  // the kernel only reads them
}

/// Returns: 0, or errno.
[[nodiscard]] int send_joined(int socket, std::string_view bytes, std::size_t segment_bytes,
                              const udp_address& to) noexcept {
    iovec part = part_of(bytes);
    msghdr header = header_to(to, part);
    const auto size = static_cast<std::uint16_t>(segment_bytes);
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof size)> control{};
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = IPPROTO_UDP;
    first->cmsg_type = udp_segment_option;
    first->cmsg_len = CMSG_LEN(sizeof size);
    std::memcpy(CMSG_DATA(first), &size, sizeof size);
    while (::sendmsg(socket, &header, MSG_NOSIGNAL) < 0)
        if (errno != EINTR) return errno;
    return 0;
}

}  // namespace

udp_sender::udp_sender(int socket) noexcept
    : socket_(socket), joined_bytes_max_(knows_segments(socket) ? datagram_bytes_max : 0) {}

udp_sent udp_sender::send_train(std::string_view bytes, std::size_t segment_bytes, const udp_address& to) noexcept {
    if (segment_bytes == 0) return {0, EINVAL};
    udp_sent sent;
    std::size_t at = 0;
    while (joins(segment_bytes) && bytes.size() - at > segment_bytes) {
        const std::size_t segments = std::min(train_segments_max, datagram_bytes_max / segment_bytes);
        const std::size_t now = std::min(bytes.size() - at, segments * segment_bytes);
        const int failure = send_joined(socket_, bytes.substr(at, now), segment_bytes, to);
        if (failure == 0) {
            at += now;
            sent.datagrams += (now + segment_bytes - 1) / segment_bytes;
            continue;
        }
        if (failure != EINVAL && failure != EMSGSIZE && failure != EIO) return {sent.datagrams, failure};
        // EIO: the device cannot. The others: one segment is more than a packet of the way holds. Or something is wrong
        // with the address, and each by itself fails as well: then nothing was learnt.
        const udp_sent rest = send_one_by_one(bytes.substr(at), segment_bytes, to);
        if (rest.datagrams != 0) joined_bytes_max_ = failure == EIO ? 0 : segment_bytes - 1;
        return {sent.datagrams + rest.datagrams, rest.error};
    }
    if (at == bytes.size() && at != 0) return sent;
    const udp_sent rest = send_one_by_one(bytes.substr(at), segment_bytes, to);
    return {sent.datagrams + rest.datagrams, rest.error};
}

udp_sent udp_sender::send_one_by_one(std::string_view bytes, std::size_t segment_bytes,
                                     const udp_address& to) noexcept {
    std::array<std::string_view, batch> datagrams;
    udp_sent sent;
    do {
        std::size_t count = 0;
        do {
            datagrams[count++] = bytes.substr(0, segment_bytes);
            bytes.remove_prefix(std::min(segment_bytes, bytes.size()));
        } while (count < batch && !bytes.empty());
        const udp_sent now = send_each({datagrams.data(), count}, to);
        sent.datagrams += now.datagrams;
        if (now.error != 0) return {sent.datagrams, now.error};
    } while (!bytes.empty());
    return sent;
}

udp_sent udp_sender::send_each(std::span<const std::string_view> datagrams, const udp_address& to) noexcept {
    std::array<iovec, batch> parts;
    std::array<mmsghdr, batch> messages;
    std::size_t sent = 0;
    while (sent < datagrams.size()) {
        const std::size_t count = std::min(batch, datagrams.size() - sent);
        for (std::size_t i = 0; i < count; ++i) {
            parts[i] = part_of(datagrams[sent + i]);
            messages[i] = {.msg_hdr = header_to(to, parts[i]), .msg_len = 0};
        }
        const int taken = ::sendmmsg(socket_, messages.data(), static_cast<unsigned>(count), MSG_NOSIGNAL);
        if (taken < 0 && errno != EINTR) return {sent, errno};
        // Fewer than given: the next one failed. It is first in the next call, which says why.
        if (taken > 0) sent += static_cast<std::size_t>(taken);
    }
    return {sent, 0};
}

}  // namespace holdfast::net
