// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/hand_over.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "file_descriptor.hpp"
#include "holdfast/error.hpp"

namespace holdfast::net {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::string_view magic = "HFLISTEN";
constexpr std::uint32_t version = 1;
constexpr std::size_t listeners_a_part = 128;  // the kernel takes 253 descriptors in a message
constexpr std::size_t head_bytes = 32;
constexpr std::size_t control_bytes = CMSG_SPACE(sizeof(int) * 253);
constexpr const char* handing_over = "handing over listeners";

static_assert(std::endian::native == std::endian::little);

struct part_head {
    std::array<char, 8> magic;
    std::uint32_t version;
    std::uint32_t part;
    std::uint32_t parts;
    std::uint32_t listeners;
    std::uint32_t here;
    std::uint32_t note_bytes;
};
static_assert(sizeof(part_head) == head_bytes && offsetof(part_head, note_bytes) == 28);

[[nodiscard]] std::uint32_t parts_of(std::size_t listeners) noexcept {
    return static_cast<std::uint32_t>(std::max<std::size_t>(1, (listeners + listeners_a_part - 1) / listeners_a_part));
}
[[nodiscard]] std::size_t count_in(std::size_t part, std::size_t listeners) noexcept {
    return std::min(listeners_a_part, listeners - std::min(listeners, part * listeners_a_part));
}

// Of any patience: milliseconds::max() from now would be beyond the clock.
clock::time_point deadline_after(std::chrono::milliseconds patience) {
    constexpr std::chrono::hours century(100 * 365 * 24);
    return clock::now() + std::min<std::chrono::milliseconds>(patience, century);
}

void require_same_user(int socket) {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
        throw error(errc::io, handing_over, std::string("getsockopt: ") + std::strerror(errno));
    if (who.uid != ::geteuid())
        throw error(errc::no_permission, handing_over,
                    "the other process is of user " + std::to_string(who.uid) + "; run both as the same user");
}

/// Waits until the socket is ready. Throws: error(io) at the deadline.
void wait_for(int socket, short events, clock::time_point deadline) {
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
        pollfd one{socket, events, 0};
        const int ready = ::poll(&one, 1, static_cast<int>(std::clamp<long long>(left, 0, 1'000'000)));
        if (ready > 0) return;
        if (ready < 0 && errno != EINTR)
            throw error(errc::io, handing_over, std::string("poll: ") + std::strerror(errno));
        if (ready == 0 && left <= 0)
            throw error(errc::io, handing_over, "the other process said nothing in time; look whether it is stopped");
    }
}

/// The descriptors of one message. Closes those that nobody took.
struct arrived {
    std::vector<file_descriptor> descriptors;
    std::string bytes;
    bool cut = false;  // some of either did not fit
};

void take_descriptors(msghdr& from, std::vector<file_descriptor>& into) {
    for (cmsghdr* each = CMSG_FIRSTHDR(&from); each != nullptr; each = CMSG_NXTHDR(&from, each)) {
        if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(each) + i * sizeof fd, sizeof fd);
            into.emplace_back(fd);
        }
    }
}

arrived receive_message(int socket, clock::time_point deadline) {
    arrived result;
    result.bytes.resize(head_bytes + handed_note_bytes_max);
    result.descriptors.reserve(253);  // so that none is lost to an exception
    alignas(cmsghdr) std::array<char, control_bytes> control;
    for (;;) {
        iovec piece{result.bytes.data(), result.bytes.size()};
        msghdr message{};
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EAGAIN) {
            wait_for(socket, POLLIN, deadline);
            continue;
        }
        // ECONNRESET, once: the sender closed before it had read all of ours. What it sent before is still there.
        if (n < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
        if (n < 0) throw error(errc::io, handing_over, std::string("recvmsg: ") + std::strerror(errno));
        take_descriptors(message, result.descriptors);
        if (n == 0)
            throw error(errc::not_found, handing_over,
                        "the other process went away before it had handed over all; start it again");
        result.bytes.resize(static_cast<std::size_t>(n));
        if ((message.msg_flags & MSG_CTRUNC) != 0)
            throw error(errc::no_space, handing_over, "out of file descriptors; raise the limit (ulimit -n)");
        result.cut = (message.msg_flags & MSG_TRUNC) != 0;
        return result;
    }
}

[[noreturn]] void refuse(const std::string& why) {
    throw error(errc::corrupt, handing_over, why + "; let the same program run at both ends");
}

int option_of(int fd, int option) noexcept {
    int value = -1;
    socklen_t size = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

// (I2)
void require_listener(int fd) {
    const int family = option_of(fd, SO_DOMAIN);
    const bool known = family == AF_INET || family == AF_INET6 || family == AF_UNIX;
    const int type = option_of(fd, SO_TYPE);
    const bool packets = type == SOCK_SEQPACKET && family == AF_UNIX;
    if (!known || (type != SOCK_STREAM && !packets) || option_of(fd, SO_ACCEPTCONN) != 1)
        refuse("what came is not a listening socket");
}

/// Checks a message against what has come before. `first`: the head of the first one.
part_head checked(const arrived& message, std::uint32_t part, const std::optional<part_head>& first) {
    part_head head{};
    if (message.cut || message.bytes.size() < head_bytes) refuse("a message is not of the length it should have");
    std::memcpy(&head, message.bytes.data(), head_bytes);
    if (std::string_view(head.magic.data(), head.magic.size()) != magic) refuse("this is no message about listeners");
    if (head.version != version)
        throw error(errc::version_mismatch, handing_over,
                    "the other process speaks version " + std::to_string(head.version) + " and this one " +
                        std::to_string(version) + "; stop it and start this one anew");
    if (head.listeners > handed_listeners_max || head.parts != parts_of(head.listeners) || head.part != part ||
        head.here != count_in(part, head.listeners) || (first && head.listeners != first->listeners))
        refuse("a message contradicts itself, or the one before it");
    if (head.note_bytes > (part == 0 ? handed_note_bytes_max : 0) ||
        message.bytes.size() != head_bytes + head.note_bytes)
        refuse("a message is not of the length it says");
    if (message.descriptors.size() != head.here)
        refuse(std::to_string(message.descriptors.size()) + " descriptors came where " + std::to_string(head.here) +
               " are announced");
    for (const file_descriptor& each : message.descriptors) require_listener(each.get());
    return head;
}

void send_message(int socket, const part_head& head, std::string_view note, std::span<const int> descriptors,
                  clock::time_point deadline) {
    alignas(cmsghdr) std::array<char, control_bytes> control{};
    std::array<iovec, 2> pieces{iovec{const_cast<part_head*>(&head), sizeof head},
                                iovec{const_cast<char*>(note.data()), note.size()}};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* const rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
    }
    while (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        if (errno == EAGAIN)
            wait_for(socket, POLLOUT, deadline);
        else if (errno != EINTR)
            throw error(errc::io, handing_over, std::string("sendmsg: ") + std::strerror(errno));
    }
}

}  // namespace

listener_parcel::listener_parcel(listener_parcel&& other) noexcept
    : listeners_(std::exchange(other.listeners_, {})), note_(std::move(other.note_)) {}

listener_parcel& listener_parcel::operator=(listener_parcel&& other) noexcept {
    std::swap(listeners_, other.listeners_);
    std::swap(note_, other.note_);
    return *this;
}

listener_parcel::~listener_parcel() {
    for (const int fd : listeners_) ::close(fd);
}

std::vector<int> listener_parcel::take() noexcept { return std::exchange(listeners_, {}); }

void send_listeners(int socket, std::span<const int> listeners, std::string_view note,
                    std::chrono::milliseconds patience) {
    if (listeners.size() > handed_listeners_max || note.size() > handed_note_bytes_max)
        throw error(errc::invalid_argument, handing_over,
                    "at most " + std::to_string(handed_listeners_max) + " listeners and a note of " +
                        std::to_string(handed_note_bytes_max) + " bytes go at once; send them in several calls");
    require_same_user(socket);
    const clock::time_point deadline = deadline_after(patience);
    part_head head{};
    std::memcpy(head.magic.data(), magic.data(), magic.size());
    head.version = version;
    head.parts = parts_of(listeners.size());
    head.listeners = static_cast<std::uint32_t>(listeners.size());
    for (; head.part < head.parts; ++head.part) {
        head.here = static_cast<std::uint32_t>(count_in(head.part, listeners.size()));
        head.note_bytes = head.part == 0 ? static_cast<std::uint32_t>(note.size()) : 0;
        send_message(socket, head, note.substr(0, head.note_bytes),
                     listeners.subspan(head.part * listeners_a_part, head.here), deadline);
    }
}

listener_parcel receive_listeners(int socket, std::chrono::milliseconds patience) {
    require_same_user(socket);
    const clock::time_point deadline = deadline_after(patience);
    listener_parcel result;
    std::optional<part_head> first;
    for (std::uint32_t part = 0; !first || part < first->parts; ++part) {
        arrived message = receive_message(socket, deadline);
        const part_head head = checked(message, part, first);
        if (!first) {
            first = head;
            result.note_ = message.bytes.substr(head_bytes);
            result.listeners_.reserve(head.listeners);
        }
        for (file_descriptor& each : message.descriptors) result.listeners_.push_back(each.release());
    }
    return result;
}

}  // namespace holdfast::net
