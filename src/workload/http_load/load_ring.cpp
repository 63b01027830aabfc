// SPDX-License-Identifier: Apache-2.0
#include "workload/http_load/load_ring.hpp"

#include <linux/io_uring.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <exception>
#include <system_error>

#include "holdfast/net/server.hpp"

namespace holdfast::workload::http {

namespace {

using net::uring_operation;

constexpr std::uint16_t group = 0;
constexpr std::uint32_t buffer_bytes = 4096;
constexpr unsigned submissions = 512, completions = 4096;

bool is_failure(int code) noexcept {
    return code != 0 && code != ETIME && code != EINTR && code != EBUSY && code != EAGAIN;
}

}  // namespace

std::unique_ptr<load_ring> load_ring::make(unsigned connections) noexcept {
    try {
        static const bool there = net::io_uring_lack().empty();
        return there ? std::make_unique<load_ring>(connections) : nullptr;
    } catch (const std::exception&) {  // memory that may not be locked, a limit of rings
        return nullptr;
    }
}

load_ring::load_ring(unsigned connections) : queue_(submissions, completions) {
    // Two for each: few lie between what is received and what is taken, and those stay in the cache.
    const unsigned count = std::bit_ceil(2 * std::clamp(connections, 32U, 2048U));
    buffers_.emplace(queue_.ring(), group, static_cast<std::uint16_t>(count), buffer_bytes);
    if (const int code = queue_.ring().enable(); code != 0)
        throw std::system_error(code, std::generic_category(), "io_uring cannot be enabled");
}

void load_ring::await_connection(std::uint32_t link, std::uint32_t use, int fd) noexcept {
    queue_.entry(IORING_OP_POLL_ADD, fd, {uring_operation::watch, use, link}).poll32_events = POLLOUT;
}

void load_ring::receive(std::uint32_t link, std::uint32_t use, int fd) noexcept {
    io_uring_sqe& entry = queue_.entry(IORING_OP_RECV, fd, {uring_operation::receive, use, link});
    entry.ioprio = IORING_RECV_MULTISHOT;
    entry.flags = IOSQE_BUFFER_SELECT;
    entry.buf_group = group;
}

void load_ring::send(std::uint32_t link, std::uint32_t use, int fd, std::string_view bytes) noexcept {
    io_uring_sqe& entry = queue_.entry(IORING_OP_SEND, fd, {uring_operation::send, use, link});
    entry.addr = reinterpret_cast<std::uint64_t>(bytes.data());
    entry.len = static_cast<std::uint32_t>(bytes.size());
    entry.msg_flags = MSG_NOSIGNAL | MSG_WAITALL;
}

void load_ring::wait(std::chrono::nanoseconds longest) {
    constexpr std::int64_t ms = 1'000'000;
    net::uring_ring& ring = queue_.ring();
    const bool waits = longest.count() > 0 && queue_.size() == 0;
    const bool whole = longest.count() % ms == 0;
    int code = ring.enter(waits && whole ? 1 : 0, waits && whole ? static_cast<int>(longest.count() / ms) : 0);
    if (waits && !whole && !is_failure(code) && queue_.size() == 0) {
        __kernel_timespec time{.tv_sec = longest.count() / (1000 * ms), .tv_nsec = longest.count() % (1000 * ms)};
        io_uring_getevents_arg argument{};
        argument.ts = reinterpret_cast<std::uint64_t>(&time);
        constexpr unsigned flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
        code = ::syscall(__NR_io_uring_enter, ring.fd(), 0, 1, flags, &argument, sizeof argument) < 0 ? errno : 0;
    }
    if (is_failure(code)) throw std::system_error(code, std::generic_category(), "io_uring_enter");
}

bool load_ring::next(ring_event& out) noexcept {
    if (lent_ != none) {
        buffers_->give_back(static_cast<std::uint16_t>(lent_));
        lent_ = none;
    }
    net::uring_completion one;
    if (!queue_.next(one)) return false;
    const net::uring_subject about = net::uring_subject::of(one);
    out = {.link = about.place, .use = about.use, .error = one.result < 0 ? -one.result : 0, .bytes = {}};
    switch (about.what) {
        case uring_operation::watch: out.kind = ring_event_kind::connected; break;
        case uring_operation::receive:
            out.last = net::is_last(one);
            if (one.result > 0 && (one.flags & IORING_CQE_F_BUFFER) != 0) {
                lent_ = one.flags >> IORING_CQE_BUFFER_SHIFT;
                const auto bytes =
                    buffers_->of(static_cast<std::uint16_t>(lent_), static_cast<std::size_t>(one.result));
                out.bytes = {bytes.data(), bytes.size()};
                out.kind = ring_event_kind::received;
            } else if (one.result == -ENOBUFS) {  // all are with us; what waits is received once it is asked for again
                out.kind = ring_event_kind::received;
            } else {
                out.kind = ring_event_kind::ended;
            }
            break;
        default: out.kind = ring_event_kind::sent; break;
    }
    return true;
}

}  // namespace holdfast::workload::http
