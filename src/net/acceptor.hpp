// SPDX-License-Identifier: Apache-2.0
// acceptor.hpp - accepting by system calls, and what becomes of a connection until the server has decided.
//
// (A1) What was accepted is taken, refused or closed by the time on_accept has returned, also when it throws.
// (A2) One descriptor is kept in reserve. Out of descriptors, a connection would wait in the kernel's queue, and its
//      listener be readable, without end. So the reserve is given up, the connection taken, refused and closed, and
//      the reserve taken back.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "engine.hpp"
#include "file_descriptor.hpp"
#include "socket_address.hpp"

namespace holdfast::net {

inline constexpr int accepts_max = 64;  // by calls, for each listener and turn
inline constexpr std::chrono::milliseconds accept_pause{100};
inline constexpr int unread_max = 64;  // pieces of 4 KiB, in a turn, of those to be refused, beside the first of each

enum class queue_left : std::uint8_t { empty, perhaps_more, out_of_room };

/// What becomes of who waits while there is no descriptor.
enum class without_descriptor : std::uint8_t { is_refused, stays_in_queue };

/// What one connection's accept came to.
enum class accept_failure : std::uint8_t { nobody_waits, of_that_connection, out_of_descriptors, out_of_room };

/// What an errno of accept(2) means for who accepts.
[[nodiscard]] constexpr accept_failure accept_failure_of(int code) noexcept {
    switch (code) {
        case EAGAIN: return accept_failure::nobody_waits;
        // The connection died in the queue, or the network did: accept(2) says to go on.
        case EINTR:
        case ECONNABORTED:
        case ENETDOWN:
        case EPROTO:
        case ENOPROTOOPT:
        case EHOSTDOWN:
        case ENONET:
        case EHOSTUNREACH:
        case EOPNOTSUPP:
        case ENETUNREACH: return accept_failure::of_that_connection;
        case EMFILE:
        case ENFILE: return accept_failure::out_of_descriptors;
        default: return accept_failure::out_of_room;
    }
}

class acceptor {
 public:
    /// `socket_flags` is what accepted sockets get beside SOCK_CLOEXEC.
    acceptor(engine_sink& sink, int socket_flags) noexcept : sink_(sink), socket_flags_(socket_flags) {
        (void)open_reserve();
    }

    /// From here on as much may be read of those to be refused as in any turn.
    void begin_turn() noexcept { unread_left_ = unread_max; }

    /// Takes the reserve back if it was lost. Returns: whether it is there; errno says why not.
    bool open_reserve() noexcept {
        if (!reserve_) reserve_ = file_descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        return static_cast<bool>(reserve_);
    }

    /// Accepts from a listener that does not block, `most` connections at most.
    queue_left accept(int listener, int most, without_descriptor next = without_descriptor::is_refused) {
        used_reserve_ = false;
        for (int i = 0; i < most; ++i) {
            const int fd = accept_one(listener);
            if (fd >= 0) {
                hand_over(listener, fd, false);
                continue;
            }
            switch (accept_failure_of(errno)) {
                case accept_failure::nobody_waits: return queue_left::empty;
                case accept_failure::of_that_connection: break;
                case accept_failure::out_of_descriptors:
                    if (next == without_descriptor::stays_in_queue) return queue_left::out_of_room;
                    return accept_by_reserve(listener);
                case accept_failure::out_of_room: return queue_left::out_of_room;
            }
        }
        return queue_left::perhaps_more;
    }

    /// The last accept() found the process out of descriptors.
    [[nodiscard]] bool used_reserve() const noexcept { return used_reserve_; }

    /// (A1) Reports the accepted socket `fd`.
    void hand_over(int listener, int fd, bool only_refuse) {
        arriving_ = file_descriptor(fd);
        struct closing {
            file_descriptor& owned;
            ~closing() { owned.reset(); }
        } const after{arriving_};
        sink_.on_accept({.listener = listener, .socket = fd, .only_refuse = only_refuse});
    }

    [[nodiscard]] peer who(const accepted& arrival) const {
        return arriving_ && arrival.socket == arriving_.get() ? peer_of(arriving_.get()) : peer{};
    }
    /// Returns: an errno when the server may not take it; 0, and then release() gives the descriptor.
    [[nodiscard]] int check(const accepted& arrival) const noexcept {
        if (!arriving_ || arrival.socket != arriving_.get()) return EBADF;
        return arrival.only_refuse ? EMFILE : 0;
    }
    [[nodiscard]] int release() noexcept { return arriving_.release(); }

    void refuse(const accepted& arrival, std::string_view reply) noexcept {
        if (!arriving_ || arrival.socket != arriving_.get()) return;
        // What stays unread makes the close a reset.
        char unread[4096];
        while (::recv(arriving_.get(), unread, sizeof unread, MSG_DONTWAIT) == ssize_t{sizeof unread} &&
               unread_left_ > 0)
            --unread_left_;
        (void)::send(arriving_.get(), reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)::shutdown(arriving_.get(), SHUT_WR);
        arriving_.reset();
    }

 private:
    [[nodiscard]] int accept_one(int listener) const noexcept {
        return ::accept4(listener, nullptr, nullptr, socket_flags_ | SOCK_CLOEXEC);
    }

    // (A2) It helps nobody when another thread takes the reserve.
    queue_left accept_by_reserve(int listener) {
        used_reserve_ = true;
        if (!reserve_) return queue_left::out_of_room;
        reserve_.reset();
        const int fd = accept_one(listener);
        const int code = errno;
        if (fd >= 0) hand_over(listener, fd, true);
        if (!open_reserve()) return queue_left::out_of_room;
        if (fd >= 0) return queue_left::perhaps_more;
        return accept_failure_of(code) == accept_failure::nobody_waits ? queue_left::empty : queue_left::out_of_room;
    }

    engine_sink& sink_;
    int socket_flags_;
    file_descriptor reserve_;
    file_descriptor arriving_;  // the server has not decided yet
    bool used_reserve_ = false;
    int unread_left_ = unread_max;
};

}  // namespace holdfast::net
