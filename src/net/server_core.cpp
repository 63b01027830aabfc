// SPDX-License-Identifier: Apache-2.0
// server_core.cpp - the loop: waiting, accepting, timers, control. What travels on a connection: server_exchange.cpp.
#include "server_core.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "holdfast/error.hpp"

namespace holdfast::net {

namespace {

constexpr std::uint64_t accept_pause_ms = 100;
constexpr std::size_t first_places = 64;

file_descriptor open_reserve() noexcept { return file_descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

void signal_eventfd(int fd) noexcept {
    const std::uint64_t one = 1;
    const int saved = errno;  // a signal handler must leave errno as it was
    // A full counter means that the loop is being woken already.
    [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
    errno = saved;
}

}  // namespace

std::uint64_t monotonic_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

server_core::server_core(std::vector<int> listeners, server_options options, handler answer)
    : options_(std::move(options)), answer_(std::move(answer)), wheel_(monotonic_ns() / 1'000'000U) {
    listeners_.reserve(listeners.size());
    for (const int fd : listeners) listeners_.emplace_back(fd);
    check_options();
    spare_inbound_.reserve(64);
    wake_ = file_descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    reserve_ = open_reserve();
    if (!wake_ || !reserve_)
        throw error(errc::io, "server", std::string("no descriptor to spare: ") + std::strerror(errno));
    engine_ = make_epoll_engine(*this);
    engine_->watch(wake_.get());
    for (const auto& listener : listeners_) {
        // A descriptor handed over by a supervisor may block; the loop must not.
        const int flags = ::fcntl(listener.get(), F_GETFL);
        if (flags < 0 || ::fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) != 0)
            throw error(errc::invalid_argument, "listener " + std::to_string(listener.get()),
                        std::string("not a descriptor to listen on; use listen_tcp: ") + std::strerror(errno));
        engine_->listen(listener.get());
    }
    now_ms_ = monotonic_ns() / 1'000'000U;
}

server_core::~server_core() = default;

void server_core::check_options() const {
    const limits& l = options_.limits;
    const bool whole = l.connections_max != 0 && l.output_bytes_max != 0 && l.held_bytes_max != 0 &&
                       l.message.target_bytes_max != 0 && l.message.header_bytes_max != 0 && l.header_timeout_ms != 0 &&
                       l.body_timeout_ms != 0 && l.idle_timeout_ms != 0 && l.write_timeout_ms != 0 &&
                       l.linger_timeout_ms != 0;
    if (!whole)
        throw error(errc::invalid_argument, "server limits",
                    "a limit or time-out is 0; give each a value or keep its default");
    if (!answer_) throw error(errc::invalid_argument, "server", "no handler; pass a function that answers requests");
    if (options_.tick_interval.count() < 0 || (options_.tick_interval.count() > 0 && !options_.on_tick))
        throw error(errc::invalid_argument, "tick_interval", "needs an on_tick and a length that is not negative");
}

// The flags carry the request, the eventfd only the wake-up: pairs with the exchange in obey_control. Relaxed would
// suffice for the flags, the write to the eventfd being a system call that orders them; sequentially consistent costs
// nothing here and needs no argument.
void server_core::request_stop() noexcept {
    stop_requested_ = true;
    signal_eventfd(wake_.get());
}

void server_core::request_drain() noexcept {
    drain_requested_ = true;
    signal_eventfd(wake_.get());
}

void server_core::watch(int fd, std::function<void()> readable) {
    engine_->watch(fd);
    watches_[fd] = std::move(readable);
}

void server_core::unwatch(int fd) {
    if (watches_.erase(fd) != 0) engine_->unwatch(fd);
}

void server_core::on_watched(int fd) {
    if (fd == wake_.get()) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = ::read(fd, &count, sizeof count);
        return;  // the loop looks at the flags each time round
    }
    const auto found = watches_.find(fd);
    if (found == watches_.end()) return;
    const auto call = found->second;  // a copy: the callback may unwatch itself
    call();
}

void server_core::run() {
    if (std::exchange(running_, true))
        throw error(errc::invalid_argument, "server", "run() works once; make another server");
    on_wake();
    if (options_.tick_interval.count() > 0)
        next_tick_ms_ = now_ms_ + static_cast<std::uint64_t>(options_.tick_interval.count());
    while (!stop_requested_) {
        if (drain_requested_ && !draining_) begin_drain();
        if (draining_ && (counters_.open == 0 || now_ms_ >= drain_deadline_ms_)) break;
        engine_->wait(next_timeout_ms());
        run_timers();
    }
    for (index_type i = 0; i < connections_.size(); ++i)
        if (connections_[i].phase != phase::free) close(i, true);
    listeners_.clear();
}

void server_core::begin_drain() {
    draining_ = true;
    drain_deadline_ms_ = now_ms_ + options_.limits.drain_timeout_ms;
    for (auto& listener : listeners_) {
        engine_->unlisten(listener.get());
        // Connections already in the queue were promised service by the kernel's handshake; closing the listener would
        // reset them.
        for (int fd = 0; (fd = ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;)
            on_accept(fd);
    }
    listeners_.clear();
    accept_again_ms_ = 0;
    for (index_type i = 0; i < connections_.size(); ++i)
        if (connections_[i].phase != phase::free) rearm(i);
}

int server_core::next_timeout_ms() const {
    int timeout = wheel_.next_ms(now_ms_);
    const auto at_most = [&](std::uint64_t when_ms) {
        if (when_ms == 0) return;
        const int left =
            when_ms <= now_ms_ ? 0 : static_cast<int>(std::min<std::uint64_t>(when_ms - now_ms_, 1U << 30U));
        timeout = timeout < 0 ? left : std::min(timeout, left);
    };
    at_most(next_tick_ms_);
    at_most(accept_again_ms_);
    at_most(drain_deadline_ms_);
    return timeout;
}

void server_core::on_wake() {
    const std::uint64_t now = monotonic_ns();
    now_ms_ = now / 1'000'000U;
    arrival_ns_ = now;
    date_checked_ = false;
}

void server_core::run_timers() {
    wheel_.advance(now_ms_, [this](std::uint32_t index) { expire(index); });
    if (accept_again_ms_ != 0 && now_ms_ >= accept_again_ms_) resume_accepting();
    if (next_tick_ms_ != 0 && now_ms_ >= next_tick_ms_) {
        next_tick_ms_ = now_ms_ + static_cast<std::uint64_t>(options_.tick_interval.count());
        options_.on_tick();
    }
}

std::uint64_t server_core::timeout_of(timer_class timer) const noexcept {
    const limits& l = options_.limits;
    switch (timer) {
        case timer_class::idle: return draining_ ? std::min(l.drain_idle_ms, l.idle_timeout_ms) : l.idle_timeout_ms;
        case timer_class::header: return l.header_timeout_ms;
        case timer_class::body: return l.body_timeout_ms;
        case timer_class::write: return l.write_timeout_ms;
        default: return l.linger_timeout_ms;
    }
}

// Chooses the timer class that applies (C1). Header, body and linger run from when they began, whatever trickles in;
// idle and write start anew with each sign of life.
void server_core::rearm(index_type index) {
    connection& c = connections_[index];
    timer_class wanted = timer_class::idle;
    if (c.phase == phase::lingering)
        wanted = timer_class::linger;
    else if (c.outbound)
        wanted = timer_class::write;
    else if (c.inbound && c.inbound->parser.started())
        wanted = c.inbound->parser.head_complete() ? timer_class::body : timer_class::header;
    const bool renewed = wanted == timer_class::idle || (wanted == timer_class::write && c.progressed);
    c.progressed = false;
    if (wanted == c.timer && !renewed) return;
    c.timer = wanted;
    wheel_.arm(index, now_ms_ + timeout_of(wanted));
}

void server_core::expire(index_type index) {
    connection& c = connections_[index];
    if (c.phase == phase::free) return;
    const timer_class timer = std::exchange(c.timer, timer_class::none);
    switch (timer) {
        case timer_class::header:
        case timer_class::body: {
            auto& count = timer == timer_class::header ? counters_.header_timeouts : counters_.body_timeouts;
            ++count;
            refuse(index, 408, "the request did not arrive in time", c.inbound->first_byte_ns,
                   c.inbound->buffer.size());
            return settle(index);
        }
        case timer_class::write: ++counters_.write_timeouts; return close(index, true);
        case timer_class::idle: ++counters_.idle_timeouts; return close(index);
        default: return close(index);
    }
}

server_core::index_type server_core::take_place() {
    if (free_.empty()) {
        const std::size_t before = connections_.size();
        const std::size_t after = std::min(options_.limits.connections_max, std::max(first_places, before * 2));
        connections_.resize(after);
        wheel_.grow(after);
        for (std::size_t i = after; i > before; --i) free_.push_back(static_cast<index_type>(i - 1));
    }
    const index_type index = free_.back();
    free_.pop_back();
    return index;
}

void server_core::on_accept(int fd) {
    if (counters_.open >= options_.limits.connections_max) {
        ++counters_.over_connections_max;
        return turn_away(fd);
    }
    const index_type index = take_place();
    connection& c = connections_[index];
    c.phase = phase::open;
    c.timer = timer_class::none;
    if (engine_->add(fd, token_of(index)) != 0) {
        c.phase = phase::free;
        free_.push_back(index);
        return turn_away(fd);
    }
    ++counters_.accepted;
    ++counters_.open;
    rearm(index);
}

// A 503 that needs no state: what the client has sent by now is read, so that closing does not reset the reply away.
void server_core::turn_away(int fd) const noexcept {
    constexpr std::string_view reply =
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    const file_descriptor owned(fd);
    char unread[4096];
    (void)::recv(fd, unread, sizeof unread, MSG_DONTWAIT);
    (void)::send(fd, reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)::shutdown(fd, SHUT_WR);
}

// Out of descriptors, the connection would wait in the queue and a level-triggered listener would wake us for it
// without end. So the reserve is given up, the connection taken, told 503 and closed, and the reserve taken back.
void server_core::on_accept_failed(int listener, int code) {
    if ((code == EMFILE || code == ENFILE) && reserve_) {
        reserve_.reset();
        const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            ++counters_.over_descriptors;
            turn_away(fd);
        }
        reserve_ = open_reserve();
        if (fd >= 0 && reserve_) return;
    }
    // Another thread took the reserve, or the kernel is out of something else: look again in a moment.
    pause_accepting();
}

void server_core::pause_accepting() {
    if (accept_again_ms_ != 0) return;
    ++counters_.accept_pauses;
    accept_again_ms_ = now_ms_ + accept_pause_ms;
    for (const auto& listener : listeners_) engine_->unlisten(listener.get());
}

void server_core::resume_accepting() {
    accept_again_ms_ = 0;
    if (!reserve_) reserve_ = open_reserve();
    for (const auto& listener : listeners_) engine_->listen(listener.get());
}

void server_core::close(index_type index, bool reset) {
    connection& c = connections_[index];
    wheel_.disarm(index);
    engine_->remove(token_of(index), reset);
    held_bytes_ -= c.held_bytes;
    if (c.inbound) give_back(std::move(c.inbound));
    const std::uint32_t generation = c.generation + 1;
    c = connection{};
    c.generation = generation;
    free_.push_back(index);
    --counters_.open;
}

server::server(std::vector<int> listeners, server_options options, handler answer)
    : core_(std::make_unique<server_core>(std::move(listeners), std::move(options), std::move(answer))) {}
server::~server() = default;
void server::run() { core_->run(); }
void server::stop() noexcept { core_->request_stop(); }
void server::drain() noexcept { core_->request_drain(); }
void server::watch(int fd, std::function<void()> readable) { core_->watch(fd, std::move(readable)); }
void server::unwatch(int fd) { core_->unwatch(fd); }
const server_counters& server::counters() const noexcept { return core_->counters(); }

}  // namespace holdfast::net
