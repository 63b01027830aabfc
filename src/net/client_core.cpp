// SPDX-License-Identifier: Apache-2.0
// client_core.cpp - the loop, what is called from outside, and time.
#include "client_core.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "holdfast/error.hpp"

namespace holdfast::net {

namespace {

constexpr std::uint64_t inbox_tag = UINT64_MAX;
constexpr std::uint64_t clock_tag = UINT64_MAX - 1;
constexpr int settling_rounds = 4;  // what is left after these waits for the next turn, so that others have theirs

std::uint64_t client_clock_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

// Also when memory runs out in a turn: the next one goes on.
struct end_of_turn {
    bool& in_turn;
    ~end_of_turn() { in_turn = false; }
};

void check_client_options(const client_options& options) {
    const client_limits& l = options.limits;
    const client_timeouts& t = options.timeouts;
    const bool whole = l.connections_max != 0 && l.connections_per_origin_max != 0 && l.waiting_max != 0 &&
                       l.look_ups_max != 0 && options.address_delay.count() > 0 && l.idle.count() > 0 &&
                       l.name_kept.count() > 0 && l.answer.header_bytes_max != 0 && l.answer.headers_max != 0 &&
                       l.answer.body_bytes_max != 0 && t.connect.count() > 0 && t.first_byte.count() > 0 &&
                       t.silence.count() > 0 && t.whole.count() > 0;
    if (!whole)
        throw error(errc::invalid_argument, "client_options",
                    "a limit or time-out is 0 or less; give each a value or keep its default");
}

}  // namespace

client_core::client_core(client_options options)
    : options_(std::move(options)),
      inbox_(std::make_shared<client_inbox>()),
      exchange_wheel_(client_clock_ns() / 1'000'000U),
      connection_wheel_(client_clock_ns() / 1'000'000U),
      scratch_(std::make_unique<std::array<char, 65536>>()) {
    check_client_options(options_);
    epoll_ = file_descriptor(::epoll_create1(EPOLL_CLOEXEC));
    timer_ = file_descriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    const auto added = [this](int fd, std::uint64_t tag) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = tag;
        return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
    };
    if (!inbox_->wake || !epoll_ || !timer_ || !added(inbox_->wake.fd(), inbox_tag) || !added(timer_.get(), clock_tag))
        throw error(errc::io, "client", std::string("no epoll, eventfd or timerfd: ") + std::strerror(errno));
    read_clock();
}

client_core::~client_core() { end_everything(); }

void client_core::read_clock() noexcept { now_ms_ = client_clock_ns() / 1'000'000U; }

std::uint64_t client_core::take_number() noexcept {
    // Relaxed: only that no two are alike matters.
    return numbers_.fetch_add(1, std::memory_order_relaxed) + 1;
}

void client_core::start(std::uint64_t number, client_request asked, client_callbacks calls) {
    if (!in_turn_) read_clock();
    auto made = std::make_unique<client_exchange>();
    client_exchange& x = *made;
    x.number = number;
    x.asked = std::move(asked);
    x.calls = std::move(calls);
    if (free_places_.empty()) {
        const std::size_t before = by_place_.size(), after = std::max<std::size_t>(16, before * 2);
        exchange_wheel_.grow(after);
        free_places_.reserve(after);
        touched_.reserve(after);
        by_place_.resize(after);
        for (std::size_t i = after; i > before; --i) free_places_.push_back(static_cast<std::uint32_t>(i - 1));
    }
    exchanges_.emplace(number, std::move(made));
    x.place = free_places_.back();
    free_places_.pop_back();
    by_place_[x.place] = &x;
    ++counters_.started;
    if (ending_) return end_exchange(x, client_error::client_ended, "the client has ended");

    x.wrong = parse_client_url(x.asked.url, x.url);
    if (x.wrong.empty()) x.wrong = make_request_head(x.asked, x.url, x.head);
    const client_timeouts& t = x.asked.timeouts;
    if (std::min({t.connect, t.first_byte, t.silence, t.whole}).count() < 0) x.wrong = "a time-out is negative";
    if (x.asked.unix_socket.size() >= sizeof(sockaddr_un::sun_path) ||
        x.asked.unix_socket.find('\0') != std::string::npos)
        x.wrong = "the path of the unix socket is too long, or holds a NUL";
    x.wrong_error = client_error::invalid_request;
    if (x.wrong.empty() && x.url.scheme == "https" && !find_trust(x)) return touch(x);
    if (x.wrong.empty() && waiting_ >= options_.limits.waiting_max) {
        x.wrong = "too many requests wait for a connection";
        x.wrong_error = client_error::overloaded;
    }
    if (!x.wrong.empty()) return touch(x);
    x.whole_ms = now_ms_ + static_cast<std::uint64_t>(wait_of(x, &client_timeouts::whole).count());
    arm(x);
    x.origin = &origin_of(x);
    queue(x, false);
}

client_exchange* client_core::find(request_id request) {
    const auto found = exchanges_.find(request.number);
    return found == exchanges_.end() ? nullptr : found->second.get();
}

void client_core::touch(client_exchange& x) {
    if (!std::exchange(x.touched, true)) touched_.push_back(x.number);
    wake();
}

// Within a turn settle() comes yet, or sees to the next one.
void client_core::wake() {
    if (in_turn_ || std::exchange(woken_, true)) return;
    inbox_->wake.signal();
}

bool client_core::cancel(request_id request) {
    client_exchange* const x = find(request);
    if (x == nullptr || x->cancelled) return false;
    x->cancelled = true;
    touch(*x);
    return true;
}

bool client_core::pause(request_id request) {
    client_exchange* const x = find(request);
    if (x == nullptr) return false;
    x->paused = true;
    touch(*x);
    return true;
}

bool client_core::resume(request_id request) {
    client_exchange* const x = find(request);
    if (x == nullptr) return false;
    x->paused = false;
    touch(*x);
    return true;
}

bool client_core::continue_upload(request_id request) {
    client_exchange* const x = find(request);
    if (x == nullptr) return false;
    x->upload_waits = false;
    touch(*x);
    return true;
}

timer_id client_core::after(std::chrono::nanoseconds delay, std::function<void()> task) {
    if (!task) throw error(errc::invalid_argument, "after", "no task; pass a function");
    // Rounded up, so that it is never early; and not of this turn, so that timers that make timers let others have one.
    constexpr std::uint64_t longest_ns = std::uint64_t{1} << 62U;
    const std::uint64_t delay_ns =
        delay.count() < 0 ? 0 : std::min(longest_ns, static_cast<std::uint64_t>(delay.count()));
    const std::uint64_t due_ms = (client_clock_ns() + delay_ns + 999'999U) / 1'000'000U;
    const timer_id made{.deadline_ms = std::max(due_ms, now_ms_ + 1), .number = ++timers_made_};
    timers_.emplace(made, std::move(task));
    wake();
    return made;
}

std::chrono::milliseconds client_core::wait_of(const client_exchange& x,
                                               std::chrono::milliseconds client_timeouts::* which) const noexcept {
    const std::chrono::milliseconds own = x.asked.timeouts.*which;
    return own.count() > 0 ? own : options_.timeouts.*which;
}

void client_core::set_phase(client_exchange& x, std::chrono::milliseconds wait, client_error error) {
    x.phase_ms = wait.count() > 0 ? now_ms_ + static_cast<std::uint64_t>(wait.count()) : 0;
    x.phase_error = error;
    arm(x);
}

void client_core::arm(client_exchange& x) {
    exchange_wheel_.arm(x.place, x.phase_ms == 0 ? x.whole_ms : std::min(x.whole_ms, x.phase_ms));
}

void client_core::expire(std::uint32_t place) {
    client_exchange* const x = by_place_[place];
    if (x == nullptr) return;
    if (now_ms_ >= x->whole_ms) return end_exchange(*x, client_error::whole_timeout, "not at its end in time");
    if (x->phase_ms == 0 || now_ms_ < x->phase_ms) return arm(*x);
    switch (x->phase_error) {
        case client_error::connect_timeout:
            return end_exchange(*x, x->phase_error,
                                x->stage == client_stage::securing
                                    ? x->origin->label + ": the handshake of TLS was not made in time"
                                    : "no connection to " + x->origin->label + " in time");
        case client_error::first_byte_timeout: return end_exchange(*x, x->phase_error, "no answer began in time");
        default: return end_exchange(*x, x->phase_error, "no byte was taken or came for too long");
    }
}

void client_core::run_due_timers() {
    while (!timers_.empty() && timers_.begin()->first.deadline_ms <= now_ms_)
        call(timers_.extract(timers_.begin()).mapped());
}

void client_core::run_posted() {
    std::vector<std::function<void()>> tasks;
    {
        const std::lock_guard guard(inbox_->lock);
        tasks.swap(inbox_->tasks);
    }
    for (const auto& task : tasks) call(task);
}

void client_core::turn(int timeout_ms) {
    if (std::exchange(in_turn_, true)) return;  // from a callback: the turn that runs sees to it
    const end_of_turn ends{in_turn_};
    std::array<epoll_event, 128> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
    read_clock();
    for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        handle(event.data.u64, event.events);
    }
    run_posted();
    exchange_wheel_.advance(now_ms_, [this](std::uint32_t place) { expire(place); });
    connection_wheel_.advance(now_ms_, [this](std::uint32_t place) { expire_connection(place); });
    run_due_timers();
    settle();
    arm_timer();
    in_turn_ = false;
    if (!touched_.empty() || dispatch_due_) wake();
}

void client_core::handle(std::uint64_t tag, std::uint32_t events) {
    if (tag == inbox_tag) {
        woken_ = false;
        return inbox_->wake.clear();
    }
    if (tag == clock_tag) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = ::read(timer_.get(), &count, sizeof count);
        armed_ms_ = 0;
        return;
    }
    // Ended earlier in this turn, and perhaps followed by another in its place: the event is not that one's.
    const auto place = static_cast<std::uint32_t>(tag);
    if (connections_[place] == nullptr || generations_[place] != static_cast<std::uint32_t>(tag >> 32U)) return;
    client_connection& c = *connections_[place];
    switch (c.at) {
        case step::connecting: return handle_connecting(c);
        case step::beginning: return begin_transport(c);
        case step::busy: return handle_busy(c, events);
        case step::idle:
            if (!c.transport->is_quiet()) give_up(c);
            return;
    }
}

void client_core::settle() {
    for (int round = 0; round < settling_rounds && (!touched_.empty() || dispatch_due_); ++round) {
        std::vector<std::uint64_t> numbers;
        numbers.swap(touched_);
        for (const std::uint64_t number : numbers)
            if (client_exchange* const x = find({number})) go_on(*x);
        if (dispatch_due_) dispatch();
    }
}

// A mark was left from outside, or by a callback.
void client_core::go_on(client_exchange& x) {
    x.touched = false;
    if (x.cancelled) return end_exchange(x, client_error::cancelled, "cancelled");
    if (!x.wrong.empty()) return end_exchange(x, x.wrong_error, std::move(x.wrong));
    if (x.on == nullptr || x.on->at != step::busy) return;
    client_connection& c = *x.on;
    renew_phase(x);
    if (!x.paused) {
        if (!take_answer(c)) return;
        if (c.transport->holds_input() && !receive(c)) return;
    }
    if (!send(c)) return;
    watch_busy(c);
}

void client_core::arm_timer() {
    int left = exchange_wheel_.next_ms(now_ms_);
    const auto at_most = [&left](int other) {
        if (other >= 0) left = left < 0 ? other : std::min(left, other);
    };
    at_most(connection_wheel_.next_ms(now_ms_));
    if (!timers_.empty()) {
        const std::uint64_t due_ms = timers_.begin()->first.deadline_ms;
        at_most(due_ms <= now_ms_ ? 0 : static_cast<int>(std::min<std::uint64_t>(due_ms - now_ms_, 1U << 30U)));
    }
    if (left < 0) return;
    // One that fires too early costs a turn; setting it anew for each request that ends would cost a call each.
    const std::uint64_t due_ms = now_ms_ + static_cast<std::uint64_t>(left);
    if (armed_ms_ != 0 && armed_ms_ <= due_ms) return;
    armed_ms_ = due_ms;
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(due_ms / 1000U);
    when.it_value.tv_nsec = static_cast<long>(due_ms % 1000U) * 1'000'000;
    (void)::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void client_core::run() {
    if (std::exchange(ran_, true))
        throw error(errc::invalid_argument, "client", "run() works once; make another client");
    while (!stop_requested_) turn(-1);
    end_everything();
}

// The flag carries the request, the eventfd the wake-up, which is a system call and orders them.
void client_core::stop() noexcept {
    stop_requested_ = true;
    inbox_->wake.signal();
}

// What was posted before runs, so that a start() that another thread left here has its on_done.
void client_core::end_everything() {
    ending_ = true;
    {
        const std::lock_guard guard(inbox_->lock);
        inbox_->closed = true;
    }
    run_posted();
    while (!exchanges_.empty())
        end_exchange(*exchanges_.begin()->second, client_error::client_ended, "the client has ended");
    timers_.clear();
    while (!idle_.empty()) close(*idle_.front());
}

}  // namespace holdfast::net
