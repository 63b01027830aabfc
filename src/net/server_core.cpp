// SPDX-License-Identifier: Apache-2.0
// server_core.cpp - the loop: waiting, accepting, timers, control. What travels on a connection: server_exchange.cpp.
#include "server_core.hpp"

#include <fcntl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "connection_strand.hpp"
#include "holdfast/error.hpp"
#include "tls_engine.hpp"

namespace holdfast::net {

namespace {

constexpr std::uint64_t body_bytes_of_timeout = 64U << 10U;  // of a body in pieces: so much wins new time

std::unique_ptr<engine> make_engine(engine_choice wanted, engine_sink& sink) {
    if (wanted == engine_choice::epoll) return make_epoll_engine(sink);
    try {
        return make_uring_engine(sink);
    } catch (const error&) {
        if (wanted == engine_choice::io_uring) throw;
    }
    return make_epoll_engine(sink);
}

/// What a client is told that there is no room for, before it has said anything.
std::string make_busy() {
    response said;
    said.problem(503, "the server has no room for another connection; ask again later");
    return std::string("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n")
        .append(said.fields())
        .append("Content-Length: " + std::to_string(said.body().size()) + "\r\n\r\n")
        .append(said.body());
}

}  // namespace

std::uint64_t monotonic_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

server_core::server_core(std::vector<int> listeners, server_options options, handler answer)
    : options_(std::move(options)),
      answer_(std::move(answer)),
      files_(std::make_shared<file_places>(options_.files_max)),
      wheel_(monotonic_ns() / 1'000'000U),
      busy_(make_busy()) {
    listeners_.reserve(listeners.size());
    for (const int fd : listeners) listeners_.emplace_back(fd);
    check_options();
    check_pool();
    spare_inbound_.reserve(64);
    response_.loop_.files = files_;
    const auto on_wire = [choice = options_.engine](engine_sink& sink) { return make_engine(choice, sink); };
    engine_ = options_.tls.empty() ? on_wire(*this) : make_tls_engine(*this, options_.tls, on_wire);
    mail_ = std::make_shared<mailbox>(engine_->waker());
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

server_core::~server_core() { end_everything(); }

// Each channel is told, and handles find everything closed. Nothing is left to do where run() has returned.
void server_core::end_everything() {
    for (std::size_t i = 0; i < connections_.size(); ++i) {
        drop_pending(connections_[i], channel_end::server_ended);
        lose_body(connections_[i], channel_end::server_ended);
    }
    call_back();
    if (ledger_) {  // what runs in the pool may use what is about to go
        ledger_->wait_for_tasks();
        count_exceptions_of_pool();
    }
    counters_.over_descriptors += files_->take_lacks();
    mail_->close();
}

void server_core::check_options() const {
    const limits& l = options_.limits;
    const bool whole = l.connections_max != 0 && l.output_bytes_max != 0 && l.held_bytes_max != 0 &&
                       l.message.target_bytes_max != 0 && l.message.header_bytes_max != 0 && l.header_timeout_ms != 0 &&
                       l.body_timeout_ms != 0 && l.idle_timeout_ms != 0 && l.write_timeout_ms != 0 &&
                       l.linger_timeout_ms != 0 && l.answer_timeout_ms != 0 && l.pipeline_max != 0 &&
                       l.websocket_ping_ms != 0 && l.websocket_close_ms != 0;
    if (!whole)
        throw error(errc::invalid_argument, "server limits",
                    "a limit or time-out is 0; give each a value or keep its default");
    if (!answer_) throw error(errc::invalid_argument, "server", "no handler; pass a function that answers requests");
    for (const tls_listener& with_tls : options_.tls)
        if (std::ranges::find(listeners_, with_tls.listener, &file_descriptor::get) == listeners_.end())
            throw error(errc::invalid_argument, "listener " + std::to_string(with_tls.listener),
                        "has TLS and is none of this server's; give its descriptor among the listeners, too");
    if (options_.tick_interval.count() < 0 || (options_.tick_interval.count() > 0 && !options_.on_tick))
        throw error(errc::invalid_argument, "tick_interval", "needs an on_tick and a length that is not negative");
}

// The flags carry the request, the engine only the wake-up: the loop looks at them each time round. Relaxed would
// suffice for the flags, the wake-up being a system call that orders them; sequentially consistent costs nothing here
// and needs no argument.
void server_core::request_stop() noexcept {
    stop_requested_ = true;
    engine_->wake();
}

void server_core::request_drain(bool others_accept) noexcept {
    if (others_accept) others_accept_ = true;  // before the request itself
    drain_requested_ = true;
    engine_->wake();
}

void server_core::watch(int fd, std::function<void()> readable) {
    engine_->watch(fd);
    watches_[fd] = std::move(readable);
}

void server_core::unwatch(int fd) {
    if (watches_.erase(fd) != 0) engine_->unwatch(fd);
}

void server_core::on_watched(int fd) {
    const auto found = watches_.find(fd);
    if (found == watches_.end()) return;
    const auto call = found->second;  // a copy: the callback may unwatch itself
    call();
}

void server_core::run() {
    if (std::exchange(running_, true))
        throw error(errc::invalid_argument, "server", "run() works once; make another server");
    check_where_it_runs();
    const mailbox::attendance here(*mail_);
    on_wake();
    if (options_.tick_interval.count() > 0)
        next_tick_ms_ = now_ms_ + static_cast<std::uint64_t>(options_.tick_interval.count());
    while (!stop_requested_) {
        if (drain_requested_ && !draining_) begin_drain();
        if (draining_ && ((listeners_.empty() && counters_.open == 0) || now_ms_ >= drain_deadline_ms_)) break;
        engine_->wait(next_timeout_ms());
        open_letters();
        run_timers();
        if (!touched_.empty() && !looks_again()) settle_touched();
        if (!ended_.empty() || !drained_.empty() || !bodies_ended_.empty()) call_back();
    }
    for (index_type i = 0; i < connections_.size(); ++i)
        if (connections_[i].phase != phase::free) close(i, true, channel_end::server_ended);
    for (const auto& listener : listeners_) engine_->unlisten(listener.get());
    listeners_.clear();
    engine_->finish();
    end_everything();
}

void server_core::begin_drain() {
    draining_ = true;
    drain_deadline_ms_ = now_ms_ + options_.limits.drain_timeout_ms;
    // Connections already in the queue were promised service by the kernel's handshake; closing the listener would
    // reset them.
    const bool others_accept = others_accept_;
    for (const auto& listener : listeners_)
        if (others_accept)
            engine_->leave(listener.get());
        else
            engine_->drain(listener.get());
    // To end before the cut, in order.
    drain_idle_ms_ = others_accept ? options_.limits.drain_timeout_ms / 4 * 3 : options_.limits.drain_idle_ms;
    for (index_type i = 0; i < connections_.size(); ++i)
        if (connections_[i].phase != phase::free) {
            drain_streams(i);
            timer_class& timer = connections_[i].timer;  // of these two the time is shorter from now on
            if (timer == timer_class::handshake || timer == timer_class::idle) timer = timer_class::none;
            rearm(i);
        }
}

void server_core::on_drained(int listener) {
    std::erase_if(listeners_, [listener](const file_descriptor& owned) { return owned.get() == listener; });
}

int server_core::next_timeout_ms() const {
    if (!touched_.empty() || !mail_->is_empty()) return 0;
    int timeout = wheel_.next_ms(now_ms_);
    const auto at_most = [&](std::uint64_t when_ms) {
        if (when_ms == 0) return;
        const int left =
            when_ms <= now_ms_ ? 0 : static_cast<int>(std::min<std::uint64_t>(when_ms - now_ms_, 1U << 30U));
        timeout = timeout < 0 ? left : std::min(timeout, left);
    };
    at_most(next_tick_ms_);
    if (!timers_.empty()) at_most(timers_.begin()->first.deadline_ms);
    at_most(drain_deadline_ms_);
    return timeout;
}

void server_core::on_wake() {
    const std::uint64_t now = monotonic_ns();
    now_ms_ = now / 1'000'000U;
    arrival_ns_ = now;
    const engine_shortages lacked = engine_->shortages();
    counters_.out_of_buffers = lacked.buffers;
    counters_.out_of_completions = lacked.completions;
    counters_.over_descriptors += files_->take_lacks();
    if (ledger_) count_exceptions_of_pool();
}

void server_core::run_timers() {
    wheel_.advance(now_ms_, [this](std::uint32_t index) { expire(index); });
    if (!timers_.empty()) run_due_timers();
    if (next_tick_ms_ != 0 && now_ms_ >= next_tick_ms_) {
        next_tick_ms_ = now_ms_ + static_cast<std::uint64_t>(options_.tick_interval.count());
        options_.on_tick();
    }
}

std::uint64_t server_core::timeout_of(timer_class timer) const noexcept {
    const limits& l = options_.limits;
    switch (timer) {
        case timer_class::handshake:
            return draining_ ? std::min(drain_idle_ms_, l.header_timeout_ms) : l.header_timeout_ms;
        case timer_class::idle: return draining_ ? std::min(drain_idle_ms_, l.idle_timeout_ms) : l.idle_timeout_ms;
        case timer_class::header: return l.header_timeout_ms;
        case timer_class::body: return l.body_timeout_ms;
        case timer_class::write: return l.write_timeout_ms;
        case timer_class::ping: return l.websocket_ping_ms;
        case timer_class::closing: return l.websocket_close_ms;
        default: return l.linger_timeout_ms;
    }
}

// When the timer is due. What the client has begun has its time from the beginning, though the output has waited for
// it meanwhile.
std::uint64_t server_core::due_of(connection& c, timer_class timer, bool renewed) const noexcept {
    const std::uint64_t anew = now_ms_ + timeout_of(timer);
    if (timer != timer_class::header && timer != timer_class::body) return anew;
    begun_time& time = c.body ? c.body->time : c.socket ? c.socket->time : c.inbound->time;
    if (time.of != timer || renewed) {
        time = {.of = timer, .due_ms = anew};
        if (c.body) c.body->since_timer = 0;
    }
    return std::max(time.due_ms, now_ms_ + 1);  // it may have ended while output waited
}

// Whether the client waits to be told to go on: "100 Continue" stands behind the answers to earlier requests, and
// nothing of the body has come.
bool server_core::waits_for_continue(const connection& c) noexcept {
    if (c.body)
        return c.body->awaits_continue ||
               (c.body->continue_waits && c.pending && c.pending->waiting.size() > 1);  // its own is the last of them
    return c.inbound && c.continue_sent && c.pending && !c.inbound->parser.body_begun();
}

// Chooses the timer class that applies (C1). Handshake, header, body and linger run from when they began, whatever
// trickles in; header and body stand still in a pause of ours. Idle and write start anew with each sign of life, and an
// empty line in front of a request, all that `inbound` can hold of one that is idle, is none.
void server_core::rearm(index_type index) {
    connection& c = connections_[index];
    const bool unread = c.paused && !c.yields;  // not for a turn alone
    const auto keep = [&](begun_time& time) { unread ? time.stand_still(now_ms_) : time.go_on(now_ms_); };
    if (c.body) keep(c.body->time);
    if (c.socket) keep(c.socket->time);
    if (c.inbound) keep(c.inbound->time);
    timer_class wanted = timer_class::idle;
    if (c.phase == phase::lingering)
        wanted = timer_class::linger;
    else if (c.securing)
        wanted = timer_class::handshake;
    else if (c.waiting != 0)
        wanted = timer_class::write;
    else if (c.body)
        wanted = unread || waits_for_continue(c) ? timer_class::none : timer_class::body;
    else if (c.inbound && c.inbound->parser.started() && !waits_for_continue(c))
        // What it lacks may have come and lie unread: the client's time does not run while we do not read.
        wanted = unread                              ? timer_class::none
                 : c.inbound->parser.head_complete() ? timer_class::body
                                                     : timer_class::header;
    else if (c.socket && c.socket->begun)
        wanted = c.socket->ending                              ? timer_class::closing
                 : waits_for_strand(c)                         ? timer_class::none
                 : unread || !c.socket->session.is_under_way() ? timer_class::ping
                                                               : timer_class::body;
    else if (c.pending || (c.paused && c.inbound))  // requests wait for their turn
        wanted = timer_class::none;
    if (wanted == timer_class::none) {
        c.timer = wanted;
        return wheel_.disarm(index);
    }
    const bool renewed =
        (wanted == timer_class::idle && !c.inbound) || (wanted == timer_class::write && c.progressed) ||
        (wanted == timer_class::ping && std::exchange(c.socket->heard, false)) ||
        (wanted == timer_class::body &&
         (c.body ? c.body->since_timer >= body_bytes_of_timeout : c.socket && std::exchange(c.socket->whole, false)));
    c.progressed = false;
    if (wanted == c.timer && !renewed) return;
    c.timer = wanted;
    wheel_.arm(index, due_of(c, wanted, renewed));
}

// The reader of a body was paused while nothing came of it: since when, nobody knows, so its client's time begins anew.
void server_core::notice_pause(index_type index) {
    connections_[index].body->time = {};
    ++counters_.read_pauses;
    pause(index);
    settle(index);
}

void server_core::expire(index_type index) {
    connection& c = connections_[index];
    if (c.phase == phase::free) return;
    const timer_class timer = std::exchange(c.timer, timer_class::none);
    switch (timer) {
        case timer_class::header:
        case timer_class::body: {
            if (c.body && c.body->is_paused()) return notice_pause(index);
            auto& count = timer == timer_class::header ? counters_.header_timeouts : counters_.body_timeouts;
            ++count;
            if (c.body) {
                break_body(index, 408, "the body did not arrive in time", body_end::timed_out);
                return settle(index);
            }
            if (c.socket) return expire_message(index);
            refuse(index, *c.inbound, 408, "the request did not arrive in time", c.inbound->unread().size());
            return settle(index);
        }
        case timer_class::write: {
            ++counters_.write_timeouts;
            const bool ending = c.socket && c.socket->ending;
            return close(index, true, ending ? *c.socket->ending : channel_end::cut);
        }
        case timer_class::idle: ++counters_.idle_timeouts; return close(index);
        case timer_class::handshake: ++counters_.tls_timeouts; return close(index);
        case timer_class::ping:
        case timer_class::closing: return expire_websocket(index);
        case timer_class::none: return;  // what it was armed for is over, and settle() is due
        case timer_class::linger: return close(index);
    }
}

server_core::index_type server_core::take_place() {
    if (free_.empty()) {
        const std::size_t before = connections_.size();
        const std::size_t after = std::min(options_.limits.connections_max, before + place_table<connection>::step);
        connections_.grow(after);
        wheel_.grow(after);
        for (std::size_t i = after; i > before; --i) free_.push_back(static_cast<index_type>(i - 1));
    }
    const index_type index = free_.back();
    free_.pop_back();
    return index;
}

void server_core::on_accept(accepted arrival) {
    if (arrival.only_refuse) {
        ++counters_.over_descriptors;
        return engine_->refuse(arrival, busy_);
    }
    // Connections that are gone while the pool has their calls still cost memory.
    const std::size_t gone = ledger_ ? ledger_->orphans.load(std::memory_order_relaxed) : 0;
    if (counters_.open + gone >= options_.limits.connections_max) {
        ++counters_.over_connections_max;
        return engine_->refuse(arrival, busy_);
    }
    std::unique_ptr<connection_aside> aside;
    if (options_.identify_peers) {
        aside = std::make_unique<connection_aside>();
        aside->peer = engine_->peer_of(arrival);
    }
    const index_type index = take_place();
    connection& c = connections_[index];
    c.phase = phase::open;
    c.timer = timer_class::none;
    if (engine_->take(arrival, token_of(index)) != 0) {
        c.phase = phase::free;
        free_.push_back(index);
        ++counters_.over_descriptors;
        return engine_->refuse(arrival, busy_);
    }
    c.aside = std::move(aside);
    c.securing = engine_->secures(arrival.listener);
    ++counters_.accepted;
    ++counters_.open;
    rearm(index);
}

void server_core::on_tls(connection_token token, tls_event what) {
    connection& c = connections_[token.index];
    switch (what) {
        case tls_event::resumed: ++counters_.tls_resumed; [[fallthrough]];
        case tls_event::secured:
            ++counters_.tls_handshakes;
            c.securing = false;
            return rearm(token.index);
        case tls_event::truncated: ++counters_.tls_truncated; return;
        case tls_event::cut: ++counters_.tls_failures; return;
        case tls_event::plain: ++counters_.tls_plain; break;
        case tls_event::refused: ++counters_.tls_failures; break;
        case tls_event::broken:  // what has been answered still goes out; nothing more can be
            ++counters_.tls_failures;
            drop_pending(c, channel_end::client_away);
            lose_body(c, body_end::client_away);
            if (c.inbound) give_back(std::move(c.inbound));
            break;
    }
    c.securing = false;
    c.phase = phase::last;
    c.discarding = true;
    settle(token.index);
}

void server_core::on_accept_paused() { ++counters_.accept_pauses; }

void server_core::close(index_type index, bool reset, channel_end why) {
    connection& c = connections_[index];
    wheel_.disarm(index);
    engine_->remove(token_of(index), reset);
    account(c, 0);
    drop_pending(c, why);
    lose_body(c, why);
    if (connection_strand* const strand = strand_of(c)) strand->leave();
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
void server::drain() noexcept { core_->request_drain(false); }
void server::hand_over() noexcept { core_->request_drain(true); }
void server::watch(int fd, std::function<void()> readable) { core_->watch(fd, std::move(readable)); }
bool server::post(std::function<void()> task) { return core_->post(std::move(task)); }
timer_id server::after(std::chrono::nanoseconds delay, std::function<void()> task) {
    return core_->after(delay, std::move(task));
}
bool server::cancel(timer_id timer) { return core_->cancel(timer); }
void server::unwatch(int fd) { core_->unwatch(fd); }
const server_counters& server::counters() const noexcept { return core_->counters(); }
std::string_view server::engine() const noexcept { return core_->engine_name(); }

}  // namespace holdfast::net
