// SPDX-License-Identifier: Apache-2.0
// epoll_engine.cpp - connections edge-triggered, listeners and watched descriptors level-triggered.
//
// A receive that fills less than the buffer has drained the socket, so one recv per request is the rule and a second
// one that only finds EAGAIN is not made. EPOLLOUT is asked for after EAGAIN alone and dropped once all output has
// left. A connection that still has input after its receives of a turn goes to the back of a queue, so that one busy
// peer cannot starve others: four where few have something, one where many have, so that a turn stays short.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acceptor.hpp"
#include "engine.hpp"
#include "file_descriptor.hpp"
#include "holdfast/error.hpp"
#include "place_table.hpp"
#include "send_now.hpp"
#include "spare_buffers.hpp"
#include "wake_event.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t receive_bytes = 128U << 10U;  // a large message in one piece; untouched pages cost nothing
constexpr int rounds_max = 4;
constexpr std::size_t few_max = 8;  // connections that may each take so many
constexpr int events_max = 256;

// epoll's 64 bits: index below, generation above; what is no connection stands apart by its top bits.
constexpr std::uint64_t kind_mask = 3ULL << 62U;
constexpr std::uint64_t listener_kind = 1ULL << 62U;
constexpr std::uint64_t watch_kind = 2ULL << 62U;
constexpr std::uint64_t wake_kind = 3ULL << 62U;
constexpr std::uint32_t generation_mask = (1U << 30U) - 1;

constexpr std::uint32_t base_events = EPOLLIN | EPOLLRDHUP | EPOLLET;

class epoll_engine final : public engine {
 public:
    explicit epoll_engine(engine_sink& sink)
        : sink_(sink), acceptor_(sink, SOCK_NONBLOCK), scratch_(std::make_unique_for_overwrite<scratch>()) {
        if (!*wake_ || !acceptor_.open_reserve())
            throw error(errc::io, "server", std::string("no descriptor to spare: ") + std::strerror(errno));
        epoll_ = file_descriptor(::epoll_create1(EPOLL_CLOEXEC));
        if (!epoll_) throw error(errc::io, "epoll", std::string("epoll_create1: ") + std::strerror(errno));
        register_level(wake_->fd(), wake_kind);
    }

    ~epoll_engine() override {
        for (std::size_t i = 0; i < places_.size(); ++i)
            if (places_[i].fd >= 0) ::close(places_[i].fd);
    }

    [[nodiscard]] std::string_view name() const noexcept override { return "epoll"; }

    void listen(int listener) override {
        if (!accept_again_) register_level(listener, listener_kind);
        listeners_.push_back(listener);
    }
    void unlisten(int listener) noexcept override {
        std::erase(listeners_, listener);
        std::erase(draining_, listener);
        std::erase(left_, listener);
        forget(listener);
    }
    void drain(int listener) override {
        unlisten(listener);
        draining_.push_back(listener);
    }
    void leave(int listener) override {
        unlisten(listener);
        left_.push_back(listener);
    }
    void watch(int fd) override {
        register_level(fd, watch_kind);
        if (std::ranges::find(watched_, fd) == watched_.end()) watched_.push_back(fd);
    }
    void unwatch(int fd) noexcept override {
        std::erase(watched_, fd);
        forget(fd);
    }
    [[nodiscard]] const std::shared_ptr<const wake_event>& waker() const noexcept override { return wake_; }

    [[nodiscard]] peer peer_of(const accepted& arrival) const override { return acceptor_.who(arrival); }

    [[nodiscard]] int take(const accepted& arrival, connection_token connection) override {
        if (const int code = acceptor_.check(arrival); code != 0) return code;
        places_.grow(connection.index + std::size_t{1});
        if (control(EPOLL_CTL_ADD, arrival.socket, base_events, connection) != 0) return errno;
        place& p = places_[connection.index];
        p = place{};
        p.generation = connection.generation & generation_mask;
        p.fd = acceptor_.release();
        return 0;
    }

    void refuse(const accepted& arrival, std::string_view reply) noexcept override { acceptor_.refuse(arrival, reply); }

    void remove(connection_token connection, bool reset) noexcept override {
        place* const p = find(connection);
        if (p == nullptr) return;
        if (reset) {
            const linger abort{.l_onoff = 1, .l_linger = 0};
            (void)::setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
        }
        ::close(p->fd);
        *p = place{};
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

    [[nodiscard]] sent send(connection_token connection, std::string& bytes) override {
        place* const p = find(connection);
        if (p == nullptr || p->broken) {
            const std::size_t lost = bytes.size() + (p != nullptr && p->output ? p->output->unsent() : 0);
            bytes.clear();
            return {lost, 0, EBADF};
        }
        if (p->output) {
            p->output->bytes.append(bytes);
            bytes.clear();
            const std::size_t unsent = p->output->unsent();
            return {unsent, unsent, 0};
        }
        const sent_now now = send_now(p->fd, bytes);
        sent result{bytes.size() - now.taken, bytes.size() - now.taken, now.code};
        if (result.error == 0 && result.unsent != 0) result.error = ask_for_output(*p, connection, true);
        if (result.error != 0) {
            p->broken = true;
        } else if (result.unsent != 0) {
            p->output = std::make_unique<waiting_output>();
            p->output->bytes = spare_.take(result.unsent, 2 * result.unsent);  // (I6)
            p->output->bytes.assign(bytes, now.taken);
        }
        bytes.clear();
        return result;
    }

    void finish() noexcept override {}

    void wait(int timeout_ms) override {
        std::array<epoll_event, events_max> events;
        const int count = ::epoll_wait(epoll_.get(), events.data(), events_max, bounded(timeout_ms));
        sink_.on_wake();
        acceptor_.begin_turn();
        if (accept_again_ && clock::now() >= *accept_again_) resume_accepting();
        if (!left_.empty() || !draining_.empty()) drain_some();
        // Taken out first: handling them may queue them, or others, again for the next round.
        turn_.swap(queued_);
        rounds_ = static_cast<std::size_t>(std::max(count, 0)) + turn_.size() > few_max ? 1 : rounds_max;
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
    using clock = std::chrono::steady_clock;

    struct waiting_output {
        std::string bytes;
        std::size_t begin = 0;  // of what has not left
        [[nodiscard]] std::size_t unsent() const noexcept { return bytes.size() - begin; }
    };

    struct place {
        int fd = -1;
        std::uint32_t generation = 0;
        bool paused = false;
        bool queued = false;
        bool ended = false;                      // end of input has been reported
        bool broken = false;                     // nothing more is to be reported (I1)
        bool peer_closed = false;                // the kernel said that input ends: a short read is not the last one
        std::unique_ptr<waiting_output> output;  // what the socket did not take; EPOLLOUT is asked for
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

    int ask_for_output(const place& p, connection_token connection, bool wanted) const noexcept {
        const std::uint32_t events = base_events | (wanted ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
        return control(EPOLL_CTL_MOD, p.fd, events, connection) == 0 ? 0 : errno;
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

    [[nodiscard]] int bounded(int timeout_ms) const {
        if (!queued_.empty() || !draining_.empty() || !left_.empty()) return 0;
        if (!accept_again_) return timeout_ms;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*accept_again_ - clock::now());
        const int left_ms = std::max(0, static_cast<int>(left.count()));
        return timeout_ms < 0 ? left_ms : std::min(timeout_ms, left_ms);
    }

    void dispatch(const epoll_event& event) {
        const std::uint64_t kind = event.data.u64 & kind_mask;
        const auto low = static_cast<std::uint32_t>(event.data.u64);
        if (kind == wake_kind) return wake_->clear();
        if (kind == watch_kind) {
            if (std::ranges::find(watched_, static_cast<int>(low)) != watched_.end())
                sink_.on_watched(static_cast<int>(low));
            return;
        }
        if (kind == listener_kind) {
            if (std::ranges::find(listeners_, static_cast<int>(low)) != listeners_.end() &&
                acceptor_.accept(static_cast<int>(low), accepts_max) == queue_left::out_of_room)
                pause_accepting();
            return;
        }
        const connection_token connection{low, static_cast<std::uint32_t>(event.data.u64 >> 32U)};
        place* p = find(connection);
        if (p == nullptr || p->broken) return;  // closed by an earlier event of this batch
        if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) p->peer_closed = true;
        // Nobody reads from a paused or ended connection, so nobody would meet the error. Without one both sides have
        // shut in order.
        if ((event.events & (EPOLLHUP | EPOLLERR)) != 0 && (p->paused || p->ended))
            if (const int code = pending_error(*p); code != 0) return end(connection, *p, code);
        if ((event.events & EPOLLOUT) != 0 && p->output) continue_output(connection, *p);
        if ((event.events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) receive(connection);
    }

    static int pending_error(const place& p) noexcept {
        int code = 0;
        socklen_t size = sizeof code;
        return ::getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 ? code : errno;
    }

    void end(connection_token connection, place& p, int code) {
        p.ended = true;
        p.broken = code != 0;
        sink_.on_end(connection, code);
    }

    // Most are removed within the report. Of who stays, a break that came beside the end is not told again:
    // edge-triggered.
    void end_input(connection_token connection, place& p) {
        end(connection, p, 0);
        place* const left = find(connection);
        if (left == nullptr || left->broken) return;
        if (const int code = pending_error(*left); code != 0) end(connection, *left, code);
    }

    void continue_output(connection_token connection, place& p) {
        waiting_output& rest = *p.output;
        const sent_now now = send_now(p.fd, std::string_view(rest.bytes).substr(rest.begin));
        if (now.code != 0) return end(connection, p, now.code);
        if (now.taken == 0) return;
        rest.begin += now.taken;
        const std::size_t unsent = rest.unsent();
        if (unsent == 0) {
            spare_.give_back(rest.bytes);
            p.output.reset();
            (void)ask_for_output(p, connection, false);  // asked in vain it only wakes us once more
        } else if (rest.begin > rest.bytes.size() / 2) {
            // What has gone is dropped once it is the larger part: each byte is moved at most once on average.
            rest.bytes = std::string(rest.bytes, rest.begin);  // and of its memory too
            rest.begin = 0;
        }
        sink_.on_sent(connection, unsent);
    }

    void receive(connection_token connection) {
        for (int round = 0; round < rounds_; ++round) {
            place* const p = find(connection);
            if (p == nullptr || p->paused || p->ended || p->broken) return;
            const ssize_t n = ::recv(p->fd, scratch_->data(), scratch_->size(), 0);
            if (n > 0) {
                const bool drained = static_cast<std::size_t>(n) < scratch_->size() && !p->peer_closed;
                sink_.on_bytes(connection, {scratch_->data(), static_cast<std::size_t>(n)});
                if (drained) return;
            } else if (n == 0) {
                return end_input(connection, *p);
            } else if (errno == EAGAIN) {
                return;
            } else if (errno != EINTR) {
                return end(connection, *p, errno);
            }
        }
        if (place* const p = find(connection); p != nullptr && !p->paused) queue(*p, connection);
    }

    // --- accepting

    void pause_accepting() {
        if (accept_again_) return;
        accept_again_ = clock::now() + accept_pause;
        for (const int listener : listeners_) forget(listener);
        sink_.on_accept_paused();
    }

    void resume_accepting() {
        accept_again_.reset();
        (void)acceptor_.open_reserve();
        for (const int listener : listeners_) register_level(listener, listener_kind);
    }

    void drain_some() {
        for (const int listener : std::exchange(left_, {})) sink_.on_drained(listener);
        for (std::size_t i = 0; i < draining_.size();) {
            const int listener = draining_[i];
            const queue_left left = acceptor_.accept(listener, accepts_max);
            if (i >= draining_.size() || draining_[i] != listener) continue;  // given up in a call back
            if (left == queue_left::perhaps_more) {
                ++i;
                continue;
            }
            draining_.erase(draining_.begin() + static_cast<std::ptrdiff_t>(i));
            sink_.on_drained(listener);
        }
    }

    engine_sink& sink_;
    const std::shared_ptr<const wake_event> wake_ = std::make_shared<wake_event>();
    acceptor acceptor_;
    file_descriptor epoll_;
    std::unique_ptr<scratch> scratch_;
    spare_buffers spare_;  // of waiting output
    std::vector<int> listeners_;
    std::vector<int> draining_;
    std::vector<int> left_;  // their on_drained is due
    std::vector<int> watched_;
    std::optional<clock::time_point> accept_again_;  // accepting is paused until then
    place_table<place> places_;                      // by connection index
    std::vector<connection_token> queued_;           // to be read from in the next round
    std::vector<connection_token> turn_;
    int rounds_ = rounds_max;  // receives that each connection has in this turn
};

}  // namespace

std::unique_ptr<engine> make_epoll_engine(engine_sink& sink) { return std::make_unique<epoll_engine>(sink); }

}  // namespace holdfast::net
