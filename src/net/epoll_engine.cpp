// SPDX-License-Identifier: Apache-2.0
// epoll_engine.cpp - connections edge-triggered, listeners and watched descriptors level-triggered.
//
// A receive that fills less than the buffer has drained the socket, so one recv per request is the rule and a second
// one that only finds EAGAIN is not made. EPOLLOUT is asked for after EAGAIN alone and dropped once it came. A
// connection that still has input after rounds_max receives goes to the back of a queue, so that one busy peer cannot
// starve others.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "engine.hpp"
#include "file_descriptor.hpp"
#include "holdfast/error.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t receive_bytes = 64U << 10U;
constexpr int rounds_max = 4;
constexpr int accepts_max = 64;  // per listener and wake-up; a level-triggered listener comes back for the rest
constexpr int events_max = 256;

// epoll's 64 bits: index below, generation above; listeners and watches stand apart by their top bits.
constexpr std::uint64_t kind_mask = 3ULL << 62U;
constexpr std::uint64_t listener_kind = 1ULL << 62U;
constexpr std::uint64_t watch_kind = 2ULL << 62U;
constexpr std::uint32_t generation_mask = (1U << 30U) - 1;

constexpr std::uint32_t base_events = EPOLLIN | EPOLLRDHUP | EPOLLET;

class epoll_engine final : public engine {
 public:
    explicit epoll_engine(engine_sink& sink)
        : sink_(sink), epoll_(::epoll_create1(EPOLL_CLOEXEC)), scratch_(std::make_unique<scratch>()) {
        if (!epoll_) throw error(errc::io, "epoll", std::string("epoll_create1: ") + std::strerror(errno));
    }

    ~epoll_engine() override {
        for (const place& p : places_)
            if (p.fd >= 0) ::close(p.fd);
    }

    [[nodiscard]] std::string_view name() const noexcept override { return "epoll"; }

    void listen(int listener) override { register_level(listener, listener_kind); }
    void unlisten(int listener) noexcept override { forget(listener); }
    void watch(int fd) override { register_level(fd, watch_kind); }
    void unwatch(int fd) noexcept override { forget(fd); }

    [[nodiscard]] int add(int fd, connection_token connection) override {
        if (connection.index >= places_.size()) places_.resize(connection.index + std::size_t{1});
        if (control(EPOLL_CTL_ADD, fd, base_events, connection) != 0) return errno;
        places_[connection.index] = {.fd = fd, .generation = connection.generation & generation_mask};
        return 0;
    }

    void remove(connection_token connection, bool reset) noexcept override {
        place* const p = find(connection);
        if (p == nullptr) return;
        if (reset) {
            const linger abort{.l_onoff = 1, .l_linger = 0};
            (void)::setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
        }
        ::close(p->fd);
        p->fd = -1;
    }

    void shutdown_send(connection_token connection) noexcept override {
        if (const place* const p = find(connection)) (void)::shutdown(p->fd, SHUT_WR);
    }

    void pause(connection_token connection) noexcept override {
        if (place* const p = find(connection)) p->paused = true;
    }

    void resume(connection_token connection) override {
        place* const p = find(connection);
        if (p == nullptr || !p->paused) return;
        p->paused = false;
        queue(*p, connection);  // edges that came meanwhile were not acted upon
    }

    [[nodiscard]] sent send(connection_token connection, std::string_view bytes) noexcept override {
        place* const p = find(connection);
        if (p == nullptr) return {0, EBADF};
        sent result;
        while (result.taken < bytes.size()) {
            const ssize_t n = ::send(p->fd, bytes.data() + result.taken, bytes.size() - result.taken, MSG_NOSIGNAL);
            if (n >= 0) {
                result.taken += static_cast<std::size_t>(n);
            } else if (errno == EAGAIN) {
                if (!p->wants_output) result.error = ask_for_output(*p, connection, true);
                break;
            } else if (errno != EINTR) {
                result.error = errno;
                break;
            }
        }
        return result;
    }

    void wait(int timeout_ms) override {
        std::array<epoll_event, events_max> events;
        const int count = ::epoll_wait(epoll_.get(), events.data(), events_max, queued_.empty() ? timeout_ms : 0);
        sink_.on_wake();
        // Taken out first: handling them may queue them, or others, again for the next round.
        turn_.swap(queued_);
        for (int i = 0; i < count; ++i) dispatch(events[static_cast<std::size_t>(i)]);
        for (const connection_token connection : turn_) {
            place* const p = find(connection);
            if (p == nullptr) continue;
            p->queued = false;
            receive(connection);
        }
        turn_.clear();
    }

 private:
    using scratch = std::array<char, receive_bytes>;

    struct place {
        int fd = -1;
        std::uint32_t generation = 0;
        bool paused = false;
        bool queued = false;
        bool wants_output = false;
        bool ended = false;        // end of input has been reported
        bool peer_closed = false;  // the kernel said that input ends; a short read is not the last one then
    };

    place* find(connection_token connection) noexcept {
        if (connection.index >= places_.size()) return nullptr;
        place& p = places_[connection.index];
        return p.fd >= 0 && p.generation == (connection.generation & generation_mask) ? &p : nullptr;
    }

    int control(int operation, int fd, std::uint32_t events, connection_token connection) const noexcept {
        epoll_event event{};
        event.events = events;
        event.data.u64 = static_cast<std::uint64_t>(connection.generation & generation_mask) << 32U | connection.index;
        return ::epoll_ctl(epoll_.get(), operation, fd, &event);
    }

    int ask_for_output(place& p, connection_token connection, bool wanted) const noexcept {
        const std::uint32_t events = base_events | (wanted ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
        if (control(EPOLL_CTL_MOD, p.fd, events, connection) != 0) return errno;
        p.wants_output = wanted;
        return 0;
    }

    void register_level(int fd, std::uint64_t kind) {
        epoll_event event{};
        event.events = EPOLLIN | EPOLLRDHUP;
        event.data.u64 = kind | static_cast<std::uint32_t>(fd);
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno != EEXIST)
            throw error(errc::io, "descriptor " + std::to_string(fd),
                        std::string("epoll_ctl: ") + std::strerror(errno));
    }

    void forget(int fd) noexcept { (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

    void queue(place& p, connection_token connection) {
        if (!std::exchange(p.queued, true)) queued_.push_back(connection);
    }

    void dispatch(const epoll_event& event) {
        const std::uint64_t kind = event.data.u64 & kind_mask;
        const auto low = static_cast<std::uint32_t>(event.data.u64);
        if (kind == listener_kind) return accept(static_cast<int>(low));
        if (kind == watch_kind) return sink_.on_watched(static_cast<int>(low));
        const connection_token connection{low, static_cast<std::uint32_t>(event.data.u64 >> 32U)};
        place* p = find(connection);
        if (p == nullptr) return;  // closed by an earlier event of this batch
        if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) p->peer_closed = true;
        // Nobody reads from a paused or ended connection, so nobody would meet the error.
        if ((event.events & (EPOLLHUP | EPOLLERR)) != 0 && (p->paused || p->ended)) return broken(connection, *p);
        if ((event.events & EPOLLOUT) != 0 && p->wants_output) {
            (void)ask_for_output(*p, connection, false);
            sink_.on_sendable(connection);
            p = find(connection);
        }
        if (p != nullptr && (event.events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) receive(connection);
    }

    void broken(connection_token connection, const place& p) {
        int code = 0;
        socklen_t size = sizeof code;
        if (::getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0 || code == 0) code = ECONNRESET;
        sink_.on_end(connection, code);
    }

    void receive(connection_token connection) {
        for (int round = 0; round < rounds_max; ++round) {
            place* const p = find(connection);
            if (p == nullptr || p->paused || p->ended) return;
            const ssize_t n = ::recv(p->fd, scratch_->data(), scratch_->size(), 0);
            if (n > 0) {
                const bool drained = static_cast<std::size_t>(n) < scratch_->size() && !p->peer_closed;
                sink_.on_bytes(connection, {scratch_->data(), static_cast<std::size_t>(n)});
                if (drained) return;
            } else if (n == 0) {
                p->ended = true;
                return sink_.on_end(connection, 0);
            } else if (errno == EAGAIN) {
                return;
            } else if (errno != EINTR) {
                return sink_.on_end(connection, errno);
            }
        }
        if (place* const p = find(connection); p != nullptr && !p->paused) queue(*p, connection);
    }

    void accept(int listener) {
        for (int i = 0; i < accepts_max; ++i) {
            const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd >= 0) {
                sink_.on_accept(fd);
                continue;
            }
            switch (errno) {
                case EAGAIN: return;
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
                case ENETUNREACH: break;
                default: return sink_.on_accept_failed(listener, errno);
            }
        }
    }

    engine_sink& sink_;
    file_descriptor epoll_;
    std::unique_ptr<scratch> scratch_;
    std::vector<place> places_;             // by connection index
    std::vector<connection_token> queued_;  // to be read from in the next round
    std::vector<connection_token> turn_;
};

}  // namespace

std::unique_ptr<engine> make_epoll_engine(engine_sink& sink) { return std::make_unique<epoll_engine>(sink); }

}  // namespace holdfast::net
