// SPDX-License-Identifier: Apache-2.0
#include "rings/ring_followers.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "net/file_descriptor.hpp"
#include "workload/http_load/answer_check.hpp"
#include "workload/http_load/answer_scanner.hpp"
#include "workload/http_load/load_connection.hpp"

namespace holdfast::bench::rings {

namespace {

namespace load = workload::http;

constexpr std::size_t messages_max = 64;  // under way
constexpr std::size_t number_digits = 20;
constexpr std::string_view text_mark = "\"text\":\"", joined_mark = "\"event\":\"joined\"", next_mark = "\"next\":\"";
constexpr std::uint64_t look_ns = 50'000'000;

std::uint64_t time_of(clockid_t clock) noexcept {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(t.tv_nsec);
}
std::uint64_t now_ns() noexcept { return time_of(CLOCK_MONOTONIC); }
std::uint64_t in_ns(std::chrono::nanoseconds time) noexcept { return static_cast<std::uint64_t>(time.count()); }

class followers {
 public:
    followers(const follow_plan& plan, const http::on_window& window)
        : plan_(plan), window_(window), epoll_(::epoll_create1(EPOLL_CLOEXEC)), scratch_(std::size_t{1} << 18U) {
        if (!epoll_) load::fail("epoll_create1");
        if (plan.followers == 0 || plan.window == 0 || plan.window > messages_max || plan.message_bytes < number_digits)
            throw std::invalid_argument("a ring without subscribers, messages or a window");
        all_.reserve(plan.followers);
        for (std::size_t i = 0; i < plan.followers; ++i) open(i);
        progress_ns_ = now_ns();
        while (plan_.way != follow_way::pages && joined_ < all_.size()) {
            http::check_interruption();
            take(now_ns() + look_ns);
            check_patience("joined");
        }
    }

    follow_outcome run() {
        const std::uint64_t begin = now_ns();
        window_begin_ = begin + in_ns(plan_.warm_up);
        window_end_ = window_begin_ + in_ns(plan_.duration);
        progress_ns_ = begin;
        while (!ended_ || complete_ < sent_) {
            http::check_interruption();
            const std::uint64_t now = now_ns();
            tick(now);
            while (!ended_ && sent_ - complete_ < plan_.window) publish();
            take(std::min(now + look_ns, std::max(began_ ? window_end_ : window_begin_, now)));
            check_patience("got a message");
        }
        return std::move(outcome_);
    }

 private:
    struct follower {
        net::file_descriptor fd;
        std::uint64_t next = 0;  // of the messages of this run
        bool joined = false;
    };
    struct message {
        std::string text;
        std::uint64_t sent_ns = 0;
        std::size_t delivered = 0;
    };

    void open(std::size_t i) {
        int code = 0;
        net::file_descriptor fd =
            load::open_connection(http::loopback(plan_.port), static_cast<std::uint32_t>(i), code);
        if (code == EINPROGRESS) {
            if (!load::ready_within(fd.get(), POLLOUT, plan_.patience))
                throw http::server_failed("no connection in time");
            code = load::connection_error(fd.get());
        }
        if (code != 0) throw http::server_failed(load::connecting_text(code));
        all_.push_back({.fd = std::move(fd)});
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = i;
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, all_.back().fd.get(), &event) != 0) load::fail("epoll_ctl");
        ask(all_.back(), std::to_string(plan_.first));
    }

    void ask(const follower& who, std::string_view from) {
        request_.assign("GET ").append(plan_.target).append("?from=").append(from);
        if (plan_.way == follow_way::pages) request_ += "&wait=60";
        request_ += " HTTP/1.1\r\nHost: localhost\r\n";
        if (plan_.way == follow_way::events) request_ += "Accept: text/event-stream\r\n";
        if (plan_.way == follow_way::frames)
            request_ +=
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                "Sec-WebSocket-Version: 13\r\n";
        request_ += "\r\n";
        if (::send(who.fd.get(), request_.data(), request_.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(request_.size()))
            throw http::server_failed("a connection takes no request");
    }

    void tick(std::uint64_t now) {
        if (!began_ && now >= window_begin_) {
            began_ = true;
            if (window_) window_(true);
            began_ns_ = now_ns();
            outcome_.cpu_ns = time_of(CLOCK_THREAD_CPUTIME_ID);
            window_end_ = began_ns_ + in_ns(plan_.duration);
        }
        // A window in which no message reached all would say nothing: on a machine that stands still it lasts longer.
        if (began_ && !ended_ && now >= window_end_ && outcome_.deliveries >= all_.size()) {
            ended_ = true;
            outcome_.seconds = static_cast<double>(now_ns() - began_ns_) * 1e-9;
            outcome_.cpu_ns = time_of(CLOCK_THREAD_CPUTIME_ID) - outcome_.cpu_ns;
            if (window_) window_(false);
        }
    }

    void check_patience(const char* what) const {
        if (now_ns() > progress_ns_ + in_ns(plan_.patience))
            throw http::server_failed(std::string("no subscriber ") + what + " within " +
                                      std::to_string(plan_.patience.count()) + " ms");
    }

    void publish() {
        message& m = under_way_[sent_ % messages_max];
        std::array<char, number_digits + 1> digits{};
        std::snprintf(digits.data(), digits.size(), "%020llu", static_cast<unsigned long long>(sent_));
        m.text.assign(digits.data(), number_digits).append(plan_.message_bytes - number_digits, 'x');
        m.delivered = 0;
        m.sent_ns = now_ns();
        if (complete_ == sent_) progress_ns_ = m.sent_ns;
        ++sent_;
        plan_.publish(m.text);
    }

    void take(std::uint64_t until) {
        const std::uint64_t now = now_ns(), left = plan_.spin || until <= now ? 0 : until - now;
        const timespec limit{.tv_sec = 0, .tv_nsec = static_cast<long>(left)};
        std::array<epoll_event, 256> events;
        const int count = ::epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()), &limit, nullptr);
        if (count < 0 && errno != EINTR) load::fail("epoll_pwait2");
        for (const epoll_event& one : std::span(events).first(static_cast<std::size_t>(std::max(count, 0))))
            receive(one.data.u64);
    }

    void receive(std::uint64_t i) {
        std::size_t kept = 0;
        if (const auto part = parts_.find(i); part != parts_.end()) {
            kept = part->second.copy(scratch_.data(), scratch_.size() / 2);
            parts_.erase(part);
        }
        const ssize_t n = ::recv(all_[i].fd.get(), scratch_.data() + kept, scratch_.size() - kept, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            throw http::server_failed("a subscriber's connection was closed or lost");
        std::string_view bytes(scratch_.data(), kept + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
        const std::uint64_t now = now_ns();
        bytes.remove_prefix(plan_.way == follow_way::pages ? take_page(all_[i], bytes, now)
                                                           : take_stream(all_[i], bytes, now));
        if (!bytes.empty()) parts_.emplace(i, bytes);
    }

    /// Returns: of how many bytes nothing is waited for any more.
    std::size_t take_stream(follower& who, std::string_view bytes, std::uint64_t now) {
        std::size_t done = 0;
        if (!who.joined) {
            const std::size_t at = bytes.find(joined_mark);
            if (at == std::string_view::npos) {
                if (bytes.size() >= 12 && bytes.substr(9, 3) != (plan_.way == follow_way::events ? "200" : "101"))
                    throw http::wrong_answer("a subscription was answered " + load::shown(bytes));
                return 0;
            }
            who.joined = true;
            ++joined_;
            progress_ns_ = now;
            done = at + joined_mark.size();
        }
        return done + take_messages(who, bytes.substr(done), now);
    }

    std::size_t take_messages(follower& who, std::string_view bytes, std::uint64_t now) {
        std::size_t done = 0;
        while (true) {
            const std::size_t at = bytes.find(text_mark, done);
            // The beginning of a mark may be the end of what has come.
            if (at == std::string_view::npos)
                return std::max(done, bytes.size() - std::min(bytes.size(), text_mark.size() - 1));
            const std::size_t begin = at + text_mark.size(), end = begin + plan_.message_bytes;
            if (bytes.size() < end) return at;
            deliver(who, bytes.substr(begin, plan_.message_bytes), now);
            done = end;
        }
    }

    std::size_t take_page(follower& who, std::string_view bytes, std::uint64_t now) {
        load::answer got;
        switch (load::scan_answer(bytes, got)) {
            case load::scan_status::need_more: return 0;
            case load::scan_status::malformed: break;
            case load::scan_status::complete:
                if (got.status != 200) break;
                (void)take_messages(who, got.body, now);
                if (const std::size_t at = got.body.rfind(next_mark); at != std::string_view::npos) {
                    const std::string_view rest = got.body.substr(at + next_mark.size());
                    ask(who, rest.substr(0, rest.find('"')));
                    return got.bytes;
                }
        }
        throw http::wrong_answer("a page was asked for, and this came: " + load::shown(bytes));
    }

    void deliver(follower& who, std::string_view text, std::uint64_t now) {
        message& m = under_way_[who.next % messages_max];
        if (who.next == sent_ || text != m.text)
            throw http::wrong_answer("a subscriber that waits for message " + std::to_string(who.next) + " got " +
                                     load::shown(text));
        ++who.next;
        progress_ns_ = now;
        if (began_ && !ended_) {
            ++outcome_.deliveries;
            outcome_.latency_ns.record(now - std::min(now, m.sent_ns));
        }
        if (++m.delivered == all_.size()) ++complete_;  // each gets them in order, so they end in order
    }

    const follow_plan& plan_;
    const http::on_window& window_;
    net::file_descriptor epoll_;
    std::vector<follower> all_;
    std::array<message, messages_max> under_way_;           // number modulo its size
    std::unordered_map<std::uint64_t, std::string> parts_;  // of what is not taken yet
    std::vector<char> scratch_;
    std::string request_;
    follow_outcome outcome_;
    std::size_t joined_ = 0;
    std::uint64_t sent_ = 0, complete_ = 0;
    std::uint64_t window_begin_ = 0, window_end_ = 0, began_ns_ = 0;
    std::uint64_t progress_ns_ = 0;  // when something last came, or began to be under way
    bool began_ = false, ended_ = false;
};

}  // namespace

follow_outcome run_followers(const follow_plan& plan, const http::on_window& window) {
    return followers(plan, window).run();
}

}  // namespace holdfast::bench::rings
