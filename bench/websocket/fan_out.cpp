// SPDX-License-Identifier: Apache-2.0
#include "websocket/fan_out.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "holdfast/net/websocket_frame.hpp"
#include "net/file_descriptor.hpp"
#include "websocket/websocket_messages.hpp"
#include "workload/http_load/answer_check.hpp"
#include "workload/http_load/load_connection.hpp"

namespace holdfast::bench::websocket {

namespace {

namespace load = workload::http;

constexpr std::size_t messages_max = 1024;  // under way
constexpr std::uint64_t look_ns = 50'000'000;
constexpr std::uint64_t late_ns = 50'000;

std::uint64_t time_of(clockid_t clock) noexcept {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(t.tv_nsec);
}
std::uint64_t now_ns() noexcept { return time_of(CLOCK_MONOTONIC); }
std::uint64_t in_ns(std::chrono::nanoseconds time) noexcept { return static_cast<std::uint64_t>(time.count()); }

class fan_out {
 public:
    fan_out(const fan_out_plan& plan, const http::on_window& window)
        : plan_(plan), window_(window), epoll_(::epoll_create1(EPOLL_CLOEXEC)), scratch_(std::size_t{1} << 16U) {
        if (!epoll_) load::fail("epoll_create1");
        if (plan.message_bytes < sizeof(std::uint64_t) || plan.subscribers == 0 || plan.window == 0 ||
            plan.window > messages_max)
            throw std::invalid_argument("a fan-out without subscribers, messages or a window");
        body_.assign(plan.message_bytes, 'x');
        const std::string opening = opening_of("/subscribe");
        subscribers_.reserve(plan.subscribers);
        for (std::size_t i = 0; i < plan.subscribers; ++i) {
            subscribers_.push_back({open(opening)});
            epoll_event event{};
            event.events = EPOLLIN;
            event.data.u64 = i;
            if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, subscribers_.back().fd.get(), &event) != 0)
                load::fail("epoll_ctl");
        }
        publisher_ = open(opening_of("/publish"));
    }

    fan_out_outcome run() {
        begin_ns_ = progress_ns_ = now_ns();
        window_begin_ = begin_ns_ + in_ns(plan_.warm_up);
        window_end_ = window_begin_ + in_ns(plan_.duration);
        while (!ended_ || complete_ < sent_) {
            http::check_interruption();
            std::uint64_t now = now_ns();
            tick(now);
            now = publish_due(now);
            take(now);
            if (complete_ < sent_ && now > progress_ns_ + in_ns(plan_.patience))
                throw http::server_failed("no message within " + std::to_string(plan_.patience.count()) + " ms");
        }
        return std::move(outcome_);
    }

 private:
    struct subscriber {
        net::file_descriptor fd;
        std::uint64_t next = 0;  // number of the message it is to get
    };
    struct message {
        std::uint64_t due_ns = 0;
        std::size_t delivered = 0;
    };

    net::file_descriptor open(const std::string& opening) {
        int code = 0;
        net::file_descriptor fd = load::open_connection(http::loopback(plan_.port), made_++, code);
        if (code == EINPROGRESS) {
            if (!load::ready_within(fd.get(), POLLOUT, plan_.patience))
                throw http::server_failed("no connection in time");
            code = load::connection_error(fd.get());
        }
        if (code != 0) throw http::server_failed(load::connecting_text(code));
        load::open_protocol(fd.get(), opening, plan_.patience);
        return fd;
    }

    void tick(std::uint64_t now) {
        if (!began_ && now >= window_begin_) {
            began_ = true;
            if (window_) window_(true);
            began_ns_ = now_ns();
            outcome_.cpu_ns = time_of(CLOCK_THREAD_CPUTIME_ID);
            if (plan_.rate_hz == 0) window_end_ = began_ns_ + in_ns(plan_.duration);
        }
        // A window in which nothing arrived would say nothing: on a machine that stands still it lasts longer.
        if (began_ && !ended_ && now >= window_end_ && outcome_.deliveries > 0 && timed_ > 0) {
            ended_ = true;
            outcome_.seconds = static_cast<double>(now_ns() - began_ns_) * 1e-9;
            outcome_.cpu_ns = time_of(CLOCK_THREAD_CPUTIME_ID) - outcome_.cpu_ns;
            if (window_) window_(false);
        }
    }

    [[nodiscard]] std::uint64_t due_ns() const noexcept {
        return begin_ns_ + static_cast<std::uint64_t>(static_cast<double>(sent_) * 1e9 / plan_.rate_hz);
    }

    std::uint64_t publish_due(std::uint64_t now) {
        const std::uint64_t room = plan_.rate_hz > 0 ? messages_max : plan_.window;
        while (!ended_ && (plan_.rate_hz == 0 || due_ns() <= now)) {
            if (sent_ - complete_ >= room) {
                full_ns_ = now;
                break;
            }
            publish(plan_.rate_hz > 0 ? due_ns() : now, now);
            now = now_ns();
        }
        until_ns_ = plan_.rate_hz > 0 && !ended_ ? std::min(due_ns(), now + look_ns) : now + look_ns;
        if (!ended_) until_ns_ = std::min(until_ns_, std::max(began_ ? window_end_ : window_begin_, now));
        return now;
    }

    void publish(std::uint64_t due, std::uint64_t now) {
        if (complete_ == sent_) progress_ns_ = now;
        if (due >= window_begin_) {
            ++outcome_.messages;
            if (now > std::max(due, full_ns_) + late_ns) ++outcome_.late;
        }
        under_way_[sent_ % messages_max] = {.due_ns = due};
        std::memcpy(body_.data(), &sent_, sizeof sent_);
        ++sent_;
        frame_.clear();
        constexpr net::websocket_key key{0x5a, 0x3c, 0x96, 0xe1};
        net::append_websocket_frame(frame_, net::websocket_opcode::binary, true, body_, &key);
        // Far smaller than any socket buffer, and so are all that may be under way.
        if (::send(publisher_.get(), frame_.data(), frame_.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(frame_.size()))
            throw http::server_failed("the publisher's connection takes no more");
    }

    void take(std::uint64_t now) {
        const std::uint64_t left = plan_.spin || until_ns_ <= now ? 0 : until_ns_ - now;
        const timespec limit{.tv_sec = 0, .tv_nsec = static_cast<long>(left)};
        std::array<epoll_event, 256> events;
        const int count = ::epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()), &limit, nullptr);
        if (count < 0 && errno != EINTR) load::fail("epoll_pwait2");
        for (const epoll_event& one : std::span(events).first(static_cast<std::size_t>(std::max(count, 0)))) {
            receive(one.data.u64);
            // What is due by the schedule does not wait until all that came is read.
            if (plan_.rate_hz > 0) (void)publish_due(now_ns());
        }
    }

    void receive(std::uint64_t i) {
        subscriber& s = subscribers_[i];
        std::size_t kept = 0;
        if (const auto part = parts_.find(i); part != parts_.end()) {
            kept = part->second.copy(scratch_.data(), scratch_.size() / 2);
            parts_.erase(part);
        }
        const ssize_t n = ::recv(s.fd.get(), scratch_.data() + kept, scratch_.size() - kept, 0);
        if (n <= 0 && errno != EAGAIN && errno != EINTR)
            throw http::server_failed("a subscriber's connection was lost");
        if (n == 0) throw http::server_failed("a subscriber's connection was closed");
        std::string_view bytes(scratch_.data(), kept + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
        const std::uint64_t now = now_ns();
        while (!bytes.empty()) {
            load::answer got;
            const load::scan_status status = scan_frame(bytes, got);
            if (status == load::scan_status::need_more) break;
            if (status == load::scan_status::malformed || s.next == sent_)
                throw http::wrong_answer("a subscriber got what was not sent: " + load::shown(bytes));
            deliver(s, got.body, now);
            bytes.remove_prefix(got.bytes);
        }
        if (!bytes.empty()) parts_.emplace(i, bytes);
    }

    void deliver(subscriber& s, std::string_view body, std::uint64_t now) {
        std::uint64_t number = 0;
        if (body.size() == plan_.message_bytes) std::memcpy(&number, body.data(), sizeof number);
        if (body.size() != plan_.message_bytes || number != s.next ||
            body.substr(sizeof number).find_first_not_of('x') != std::string_view::npos)
            throw http::wrong_answer("a subscriber that waits for message " + std::to_string(s.next) + " got " +
                                     load::shown(body));
        message& m = under_way_[number % messages_max];
        ++s.next;
        progress_ns_ = now;
        if (began_ && !ended_) ++outcome_.deliveries;
        if (began_ && m.due_ns >= window_begin_) {
            outcome_.latency_ns.record(now - std::min(now, m.due_ns));
            ++timed_;
        }
        if (++m.delivered == subscribers_.size()) ++complete_;  // each gets them in order, so they end in order
    }

    const fan_out_plan& plan_;
    const http::on_window& window_;
    net::file_descriptor epoll_, publisher_;
    std::vector<subscriber> subscribers_;
    std::array<message, messages_max> under_way_;  // number modulo its size
    std::unordered_map<std::uint64_t, std::string> parts_;
    std::vector<char> scratch_;
    std::string body_, frame_;
    fan_out_outcome outcome_;
    std::uint32_t made_ = 0;
    std::uint64_t sent_ = 0, complete_ = 0;
    std::uint64_t begin_ns_ = 0, window_begin_ = 0, window_end_ = 0, began_ns_ = 0, until_ns_ = 0;
    std::uint64_t full_ns_ = 0;      // when there was last no room for a message
    std::uint64_t timed_ = 0;        // deliveries in latency_ns
    std::uint64_t progress_ns_ = 0;  // when a message last arrived, or one began to be under way
    bool began_ = false, ended_ = false;
};

}  // namespace

fan_out_outcome run_fan_out(const fan_out_plan& plan, const http::on_window& window) {
    return fan_out(plan, window).run();
}

}  // namespace holdfast::bench::websocket
