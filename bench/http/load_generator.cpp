// SPDX-License-Identifier: Apache-2.0
#include "http/load_generator.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include "http/answer_scanner.hpp"
#include "http/interruption.hpp"
#include "http/rate_schedule.hpp"
#include "net/file_descriptor.hpp"

namespace holdfast::bench::http {

namespace {

constexpr std::uint64_t late_ns = 50'000;
constexpr int wait_ms = 100;  // how long an interruption may go unseen

std::uint64_t now_ns() noexcept {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t in_ns(auto duration) noexcept {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// Marsaglia's xorshift64: one request in a few nanoseconds; nothing here needs more of it.
class random_order {
 public:
    explicit random_order(std::uint64_t seed) noexcept : state_(seed != 0 ? seed : 1) {}
    std::uint32_t below(std::uint32_t bound) noexcept {
        state_ ^= state_ << 13U;
        state_ ^= state_ >> 7U;
        state_ ^= state_ << 17U;
        return static_cast<std::uint32_t>(((state_ >> 32U) * bound) >> 32U);
    }

 private:
    std::uint64_t state_;
};

std::string shown(std::string_view bytes) {
    std::string text(bytes.substr(0, 200));
    std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    return "\"" + text + (bytes.size() > 200 ? "\"..." : "\"");
}

void compare(const exchange& wanted, const answer& got) {
    if (got.status == 200 && got.body == wanted.body) return;
    throw wrong_answer("to " + shown(wanted.request.substr(0, wanted.request.find('\r'))) + " the answer was " +
                       std::to_string(got.status) + " " + shown(got.body) + " instead of 200 " + shown(wanted.body));
}

/// A connection from another address of the loopback network each time: ports of one address run out, and searching an
/// almost full range is slow.
net::file_descriptor open_connection(std::uint16_t port, std::uint32_t number, bool& established) {
    net::file_descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) fail("socket");
    const int on = 1;
    (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(0x7F000102U + (number % 64) * 256);  // 127.0.1.2, 127.0.2.2, ...
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0) fail("bind");
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(port);
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    established = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0;
    if (!established && errno != EINPROGRESS)
        throw server_failed("connecting: " + std::generic_category().message(errno));
    return fd;
}

void check_connected(int fd) {
    int code = 0;
    socklen_t size = sizeof code;
    (void)::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
    if (code != 0) throw server_failed("connecting: " + std::generic_category().message(code));
}

bool ready_within(int fd, short events, std::chrono::milliseconds patience) {
    pollfd p{.fd = fd, .events = events, .revents = 0};
    for (auto left = patience; left.count() > 0; left -= std::chrono::milliseconds(wait_ms)) {
        check_interruption();
        if (::poll(&p, 1, static_cast<int>(std::min<std::chrono::milliseconds::rep>(left.count(), wait_ms))) > 0)
            return true;
    }
    return false;
}

class generator {
 public:
    generator(const load_plan& plan, const std::vector<exchange>& exchanges, const on_window& window)
        : plan_(plan), exchanges_(exchanges), window_(window), order_(plan.seed), scratch_(std::size_t{1} << 17U) {
        if (exchanges.empty() || exchanges.size() > std::numeric_limits<std::uint32_t>::max() ||
            plan.connections == 0 || plan.pipeline == 0 || (plan.connection_per_request && plan.pipeline != 1) ||
            plan.duration.count() <= 0 || plan.warm_up.count() < 0 || plan.rate_hz < 0)
            throw std::invalid_argument("a load without connections, requests or time");
        epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
        if (!epoll_) fail("epoll_create1");
        links_.resize(plan.connections);
        under_way_.resize(std::size_t{plan.connections} * plan.pipeline);
        free_.reserve(plan.connections);
    }

    load_outcome run() {
        if (!plan_.connection_per_request) connect_all();
        const std::uint64_t begin = now_ns();
        window_begin_ = begin + in_ns(plan_.warm_up);
        window_end_ = window_begin_ + in_ns(plan_.duration);
        progress_ = begin;
        if (plan_.rate_hz > 0)
            run_schedule(begin);
        else
            run_closed(begin);
        return std::move(outcome_);
    }

 private:
    struct link {
        net::file_descriptor fd;
        std::string partial;                 // of an answer
        std::uint32_t first = 0, count = 0;  // requests under way, in the link's ring of under_way_
        bool connecting = false;
        bool ending = false;  // answered; the server is about to close
    };
    struct request_under_way {
        std::uint64_t intended_ns = 0;
        std::uint32_t exchange = 0;
    };

    void run_closed(std::uint64_t begin) {
        for (std::uint32_t i = 0; i < links_.size(); ++i) ask(i, begin);
        while (!ended_ || requests_under_way_ > 0) {
            check_interruption();
            const std::uint64_t now = wait(plan_.spin ? 0 : wait_ms);
            tick(now);
            check_patience(now);
            for (const std::uint32_t i : free_)
                if (!ended_) ask(i, now);
            free_.clear();
        }
    }

    void run_schedule(std::uint64_t begin) {
        const rate_schedule schedule(begin, plan_.rate_hz / plan_.pipeline,
                                     static_cast<double>(window_end_ - begin) * 1e-9);
        outcome_.latency_ns.reserve(static_cast<std::size_t>(schedule.count() * plan_.pipeline));
        for (std::uint32_t i = 0; i < links_.size(); ++i) free_.push_back(i);
        std::size_t next_free = 0;  // free_ is a queue from here on
        std::uint64_t issued = 0, freed_ns = begin;
        while (issued < schedule.count() || requests_under_way_ > 0 || !ended_) {
            check_interruption();
            std::uint64_t now = now_ns();
            tick(now);
            while (issued < schedule.count() && next_free < free_.size() && schedule.start_ns(issued) <= now) {
                const std::uint64_t intended = schedule.start_ns(issued++);
                if (intended >= window_begin_ && now > std::max(intended, freed_ns) + late_ns) ++outcome_.late;
                ask(free_[next_free++], intended);
                now = now_ns();
            }
            if (next_free == free_.size() || next_free > 4096) {
                free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(next_free));
                next_free = 0;
            }
            const bool starved = next_free == free_.size();
            check_patience(
                wait_for(issued < schedule.count() && !starved ? schedule.start_ns(issued) : window_end_, now));
            if (starved && !free_.empty()) freed_ns = now_ns();
        }
    }

    void tick(std::uint64_t now) {
        if (!began_ && now >= window_begin_) {
            began_ = true;
            if (window_) window_(true);
            began_ns_ = now_ns();
            outcome_.answers = 0;
            // Without a schedule the window is as long as it should be, however late this was noticed.
            if (plan_.rate_hz == 0) window_end_ = began_ns_ + in_ns(plan_.duration);
        }
        if (began_ && !ended_ && now >= window_end_ && (plan_.rate_hz > 0 || outcome_.answers >= plan_.answers_min)) {
            ended_ = true;
            outcome_.seconds = static_cast<double>(now_ns() - began_ns_) * 1e-9;
            if (window_) window_(false);
        }
    }

    void check_patience(std::uint64_t now) const {
        if (requests_under_way_ > 0 && now > progress_ + in_ns(plan_.patience))
            throw server_failed("no answer within " + std::to_string(plan_.patience.count()) + " ms");
    }

    void connect_all() {
        for (std::uint32_t i = 0; i < links_.size(); ++i) {
            bool established = false;
            links_[i].fd = open_connection(plan_.port, connections_made_++, established);
            if (!established && !ready_within(links_[i].fd.get(), POLLOUT, plan_.patience))
                throw server_failed("no connection within " + std::to_string(plan_.patience.count()) + " ms");
            check_connected(links_[i].fd.get());
            watch(i, EPOLL_CTL_ADD, EPOLLIN);
        }
    }

    void watch(std::uint32_t i, int operation, std::uint32_t events) {
        epoll_event event{};
        event.events = events;
        event.data.u32 = i;
        if (::epoll_ctl(epoll_.get(), operation, links_[i].fd.get(), &event) != 0) fail("epoll_ctl");
    }

    /// Waits for events and handles them. Returns: the time after the wait.
    std::uint64_t wait(int timeout_ms) {
        std::array<epoll_event, 256> events;
        const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
        return handle(events.data(), count);
    }

    /// The same until about `due`, or without sleeping at all.
    std::uint64_t wait_for(std::uint64_t due, std::uint64_t now) {
        if (plan_.spin) return wait(0);
        const std::uint64_t left =
            std::min<std::uint64_t>(due > now ? due - now : 0, std::uint64_t{wait_ms} * 1'000'000U);
        const timespec limit{.tv_sec = 0, .tv_nsec = static_cast<long>(left)};
        std::array<epoll_event, 256> events;
        const int count = ::epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()), &limit, nullptr);
        return handle(events.data(), count);
    }

    std::uint64_t handle(const epoll_event* events, int count) {
        if (count < 0 && errno != EINTR) fail("epoll_wait");
        const std::uint64_t now = now_ns();
        for (int e = 0; e < count; ++e) {
            link& l = links_[events[e].data.u32];
            if (l.connecting) {
                check_connected(l.fd.get());
                if ((events[e].events & EPOLLOUT) == 0) continue;
                l.connecting = false;
                send(l, exchanges_[under_way(events[e].data.u32, 0).exchange].request);
                watch(events[e].data.u32, EPOLL_CTL_MOD, EPOLLIN);
            } else {
                receive(events[e].data.u32, now);
            }
        }
        return now;
    }

    request_under_way& under_way(std::uint32_t i, std::uint32_t offset) noexcept {
        return under_way_[std::size_t{i} * plan_.pipeline + (links_[i].first + offset) % plan_.pipeline];
    }

    /// Fills the link with requests meant to start at `intended_ns`, and sends them together.
    void ask(std::uint32_t i, std::uint64_t intended_ns) {
        link& l = links_[i];
        if (requests_under_way_ == 0) progress_ = std::max(progress_, now_ns());
        output_.clear();
        for (; l.count < plan_.pipeline; ++l.count, ++requests_under_way_) {
            const std::uint32_t which = order_.below(static_cast<std::uint32_t>(exchanges_.size()));
            under_way(i, l.count) = {.intended_ns = intended_ns, .exchange = which};
            output_ += exchanges_[which].request;
        }
        if (!plan_.connection_per_request) return send(l, output_);
        bool established = false;
        l.fd = open_connection(plan_.port, connections_made_++, established);
        // On loopback the handshake is over by now as a rule, and the request can go without another wait.
        const ssize_t n = ::send(l.fd.get(), output_.data(), output_.size(), MSG_NOSIGNAL);
        if (n == static_cast<ssize_t>(output_.size())) return watch(i, EPOLL_CTL_ADD, EPOLLIN);
        if (n >= 0 || errno != EAGAIN) throw server_failed("a new connection takes no request");
        l.connecting = true;
        watch(i, EPOLL_CTL_ADD, EPOLLOUT);
    }

    /// What is under way on one connection is far smaller than any socket buffer.
    static void send(const link& l, std::string_view bytes) {
        if (::send(l.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
            throw server_failed("a connection takes no more requests");
    }

    void receive(std::uint32_t i, std::uint64_t now) {
        link& l = links_[i];
        const std::size_t kept = l.partial.size();
        l.partial.copy(scratch_.data(), kept);
        const ssize_t n = ::recv(l.fd.get(), scratch_.data() + kept, scratch_.size() - kept, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) return end_of_connection(i, n < 0 ? errno : 0);
        std::string_view bytes(scratch_.data(), kept + static_cast<std::size_t>(n));
        while (!bytes.empty()) {
            if (l.count == 0) throw wrong_answer("an answer that was not asked for: " + shown(bytes));
            answer got;
            const scan_status status = scan_answer(bytes, got);
            if (status == scan_status::malformed)
                throw wrong_answer("no answer as the workload wants it: " + shown(bytes));
            if (status == scan_status::need_more) break;
            take(i, got, now);
            bytes.remove_prefix(got.bytes);
        }
        l.partial.assign(bytes);
        if (l.count == 0 && !plan_.connection_per_request) free_.push_back(i);
        if (l.count > 0 && l.count < plan_.pipeline && plan_.rate_hz == 0 && !ended_) ask(i, now);
    }

    void take(std::uint32_t i, const answer& got, std::uint64_t now) {
        link& l = links_[i];
        const request_under_way request = under_way(i, 0);
        compare(exchanges_[request.exchange], got);
        if (got.closes && !plan_.connection_per_request) throw server_failed("it closes a connection meant to be kept");
        l.first = (l.first + 1) % plan_.pipeline;
        --l.count;
        --requests_under_way_;
        l.ending = plan_.connection_per_request;
        progress_ = now;
        if (began_ && !ended_) ++outcome_.answers;
        if (plan_.rate_hz > 0 && request.intended_ns >= window_begin_) {
            const std::uint64_t taken = now_ns() - request.intended_ns;
            outcome_.latency_ns.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(taken, 0xFFFFFFFFU)));
        }
    }

    void end_of_connection(std::uint32_t i, int code) {
        link& l = links_[i];
        if (!l.ending || code != 0)
            throw server_failed(code != 0 ? "a connection was lost: " + std::generic_category().message(code)
                                          : "it closed a connection with requests under way or to come");
        l.fd.reset();
        l.ending = false;
        free_.push_back(i);
    }

    const load_plan& plan_;
    const std::vector<exchange>& exchanges_;
    const on_window& window_;
    random_order order_;
    net::file_descriptor epoll_;
    std::vector<link> links_;
    std::vector<request_under_way> under_way_;
    std::vector<std::uint32_t> free_;  // links without requests
    std::vector<char> scratch_;
    std::string output_;
    load_outcome outcome_;
    std::uint64_t window_begin_ = 0, window_end_ = 0, began_ns_ = 0;
    std::uint64_t progress_ = 0;  // when an answer last came, or requests began to be under way
    std::uint64_t requests_under_way_ = 0;
    std::uint32_t connections_made_ = 0;
    bool began_ = false, ended_ = false;
};

}  // namespace

load_outcome run_load(const load_plan& plan, const std::vector<exchange>& exchanges, const on_window& window) {
    return generator(plan, exchanges, window).run();
}

void ask_once(std::uint16_t port, const exchange& what, std::chrono::milliseconds patience) {
    bool established = false;
    const net::file_descriptor fd = open_connection(port, 0, established);
    if (!established && !ready_within(fd.get(), POLLOUT, patience)) throw server_failed("no connection in time");
    check_connected(fd.get());
    if (::send(fd.get(), what.request.data(), what.request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(what.request.size()))
        throw server_failed("a new connection takes no request");
    std::string bytes;
    while (ready_within(fd.get(), POLLIN, patience)) {
        std::array<char, 4096> part;
        const ssize_t n = ::recv(fd.get(), part.data(), part.size(), 0);
        if (n <= 0) throw server_failed("a connection was lost before its answer");
        bytes.append(part.data(), static_cast<std::size_t>(n));
        answer got;
        switch (scan_answer(bytes, got)) {
            case scan_status::complete: return compare(what, got);
            case scan_status::malformed: throw wrong_answer("no answer as the workload wants it: " + shown(bytes));
            case scan_status::need_more: break;
        }
    }
    throw server_failed("no answer in time");
}

}  // namespace holdfast::bench::http
