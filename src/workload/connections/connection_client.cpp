// SPDX-License-Identifier: Apache-2.0
#include "workload/connections/connection_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "net/file_descriptor.hpp"
#include "workload/connections/byte_exchange.hpp"
#include "workload/connections/forked_process.hpp"
#include "workload/connections/idle_calendar.hpp"
#include "workload/http_load/answer_check.hpp"
#include "workload/http_load/answer_scanner.hpp"
#include "workload/http_load/load_connection.hpp"
#include "workload/http_load/load_generator.hpp"

namespace holdfast::workload::connections {

namespace {

constexpr std::uint64_t slot_ns = 4'000'000;
constexpr std::uint64_t look_ns = 100'000'000;  // how long an order, or one that is overdue, may go unseen
constexpr std::size_t opening_max = 64;         // connections without their first answer
/// Ports of one source are searched for by the kernel; with few of its 28,000 taken that is quick (13 times as many
/// connections a second as with 19,000).
constexpr std::size_t connections_of_source = 2'000;

std::uint64_t now_ns() noexcept {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t ns(std::chrono::nanoseconds time) noexcept { return static_cast<std::uint64_t>(time.count()); }

class client {
 public:
    client(const client_plan& plan, board& told)
        : plan_(plan),
          orders_(told.to_all()),
          words_(told.of(plan.number)),
          bytes_(random_bytes()),
          random_(plan.number + 1),
          scratch_(std::size_t{1} << 16U),
          links_(plan.connections),
          // Processes begin their slots beside one another (I1).
          calendar_(plan.connections, now_ns() / slot_ns * slot_ns + slot_ns * plan.number / plan.processes, slot_ns,
                    ns(plan.idle.most) + slot_ns),
          epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
        if (!epoll_) http::fail("epoll_create1");
    }

    void run() {
        // relaxed: orders, which publish nothing else.
        while (orders_.begin.load(std::memory_order_relaxed) == 0 && orders_.stop.load(std::memory_order_relaxed) == 0)
            ::usleep(1000);
        std::uint64_t now = now_ns();
        while (orders_.stop.load(std::memory_order_relaxed) == 0) {  // relaxed: as above
            open_some(now);
            now = wait(calendar_.next_ns(now + look_ns), now);
            calendar_.advance(now, [this](std::uint32_t which, std::uint64_t due_ns) { ask(which, due_ns); });
            look_for_overdue(now);
        }
        // A reset leaves nothing behind that waits for the other side.
        const linger abort{.l_onoff = 1, .l_linger = 0};
        for (const link& l : links_)
            if (l.fd) (void)::setsockopt(l.fd.get(), SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
    }

 private:
    enum class phase : std::uint8_t { none, connecting, waiting, idle, gone };
    struct link {
        net::file_descriptor fd;
        phase at = phase::none;
        bool opened = false;  // it has had an answer
        std::uint16_t asked = 0;
        std::uint64_t due_ns = 0;  // of the request under way
    };
    static_assert(sizeof(link) <= 16, "a million of these stand beside what is measured");

    void open_some(std::uint64_t now) {
        while (opening_ < opening_max && made_ < links_.size()) open(static_cast<std::uint32_t>(made_++), now);
    }

    void open(std::uint32_t i, std::uint64_t now) {
        link& l = links_[i];
        l.fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (!l.fd) http::fail("a client's socket");
        bind_source(l.fd.get(), plan_.first + i);
        ++opening_;
        l.at = phase::connecting;
        l.asked = random_size();
        l.due_ns = now;
        if (::connect(l.fd.get(), reinterpret_cast<const sockaddr*>(&plan_.server.storage), plan_.server.size) != 0 &&
            errno != EINPROGRESS)
            return refuse(i, errno);
        epoll_event event{};
        event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
        event.data.u32 = i;
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, l.fd.get(), &event) != 0) http::fail("epoll_ctl");
        // On loopback the handshake is over by now as a rule, and the request can go without another wait.
        send_request(i);
    }

    static void bind_source(int fd, std::size_t number) {
        const int on = 1;
        (void)::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        const auto source = static_cast<std::uint32_t>(number / connections_of_source);
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(0x7F010001U + source / 250 * 256 + source % 250);  // 127.1.0.1, 127.1.0.2, ...
        if (::bind(fd, reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0) http::fail("bind");
    }

    std::uint16_t random_size() noexcept { return static_cast<std::uint16_t>(1 + random_.below(answer_bytes_max)); }

    void ask(std::uint32_t i, std::uint64_t due_ns) {
        link& l = links_[i];
        if (l.at != phase::idle) return;  // lost while it idled
        l.asked = random_size();
        l.due_ns = due_ns;
        send_request(i);
    }

    void send_request(std::uint32_t i) {
        link& l = links_[i];
        write_request(request_, l.asked);
        const ssize_t n = ::send(l.fd.get(), request_.data(), request_.size(), MSG_NOSIGNAL);
        if (n == static_cast<ssize_t>(request_.size())) {
            l.at = phase::waiting;
        } else if (l.at != phase::connecting) {
            end(i, words_.lost);  // some hundred bytes behind an answered request: there is always room for them
        } else if (n >= 0 || errno != EAGAIN) {
            refuse(i, n < 0 ? errno : ENOBUFS);
        }
    }

    std::uint64_t wait(std::uint64_t until, std::uint64_t now) {
        const std::uint64_t left = until > now ? until - now : 0;
        const timespec limit{.tv_sec = static_cast<time_t>(left / 1'000'000'000U),
                             .tv_nsec = static_cast<long>(left % 1'000'000'000U)};
        std::array<epoll_event, 256> events;
        const int count = ::epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()), &limit, nullptr);
        if (count < 0 && errno != EINTR) http::fail("epoll_pwait2");
        for (const epoll_event& one : std::span(events).first(static_cast<std::size_t>(std::max(count, 0))))
            handle(one.data.u32, one.events);
        return now_ns();
    }

    void handle(std::uint32_t i, std::uint32_t events) {
        link& l = links_[i];
        const bool ends = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        if (l.at == phase::connecting) {
            if (const int code = ends ? http::connection_error(l.fd.get()) : 0; code != 0) return refuse(i, code);
            send_request(i);
        }
        if (!ends && (events & EPOLLIN) == 0) return;
        while (l.fd && receive(i) && ends) {
        }
    }

    /// Returns: whether there may be more.
    bool receive(std::uint32_t i) {
        link& l = links_[i];
        std::size_t kept = 0;
        if (const auto part = parts_.find(i); part != parts_.end()) {
            kept = part->second.copy(scratch_.data(), scratch_.size() / 2);  // of less than a head and a body
            parts_.erase(part);
        }
        const ssize_t n = ::recv(l.fd.get(), scratch_.data() + kept, scratch_.size() - kept, 0);
        const std::string_view bytes(scratch_.data(), kept + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (kept != 0) parts_.emplace(i, bytes);
            return false;
        }
        if (n <= 0) {
            end(i, words_.lost);
            return false;
        }
        http::answer got;
        const http::scan_status status =
            l.at == phase::waiting ? http::scan_answer(bytes, got) : http::scan_status::malformed;
        if (status == http::scan_status::need_more) {
            parts_.emplace(i, bytes);
            return true;
        }
        if (status == http::scan_status::malformed || got.bytes != bytes.size())
            throw http::wrong_answer("no answer to what was asked: " + http::shown(bytes));
        take(i, got);
        return true;
    }

    void take(std::uint32_t i, const http::answer& got) {
        link& l = links_[i];
        if (got.status == 503) return refuse(i, got.status);
        if (got.status != 206 || got.body != std::string_view(bytes_).substr(0, l.asked))
            throw http::wrong_answer("to a request for " + std::to_string(l.asked) + " bytes the answer was " +
                                     std::to_string(got.status) + " with " + std::to_string(got.body.size()) +
                                     " bytes: " + http::shown(got.body.substr(0, 40)));
        const std::uint64_t now = now_ns();
        words_.answers.add(1);
        words_.body_bytes.add(got.body.size());
        if (!l.opened) {
            l.opened = true;
            words_.opened.add(1);
            --opening_;
        } else if (const std::int32_t interval = orders_.interval.load(std::memory_order_relaxed);  // relaxed: an order
                   interval >= 0) {
            words_.record(static_cast<std::size_t>(interval), now - std::min(now, l.due_ns));
        }
        if (got.closes) return end(i, words_.lost);
        l.at = phase::idle;
        const auto spread_ms = static_cast<std::uint32_t>((plan_.idle.most - plan_.idle.least).count());
        calendar_.add(i, now + ns(plan_.idle.least) + random_.below(spread_ms * 1000 + 1) * std::uint64_t{1000});
    }

    void refuse(std::uint32_t i, int why) {
        words_.refusal.store(why, std::memory_order_relaxed);  // relaxed: see connection_board.hpp
        end(i, words_.refused);
    }

    void end(std::uint32_t i, tally& as) {
        link& l = links_[i];
        as.add(1);
        if (!l.opened) --opening_;
        l.at = phase::gone;
        l.fd.reset();
        parts_.erase(i);
    }

    void look_for_overdue(std::uint64_t now) {
        if (now < looked_ns_ + 10 * look_ns) return;
        looked_ns_ = now;
        for (std::uint32_t i = 0; i < made_; ++i)
            if ((links_[i].at == phase::waiting || links_[i].at == phase::connecting) &&
                now > links_[i].due_ns + ns(plan_.patience))
                end(i, words_.timed_out);
    }

    const client_plan& plan_;
    const orders& orders_;
    client_words& words_;
    const std::string bytes_;
    quick_random random_;
    std::vector<char> scratch_;
    std::vector<link> links_;
    idle_calendar calendar_;
    net::file_descriptor epoll_;
    std::unordered_map<std::uint32_t, std::string> parts_;  // of answers, where one came in two
    std::string request_;
    std::size_t made_ = 0, opening_ = 0;
    std::uint64_t looked_ns_ = 0;
};

}  // namespace

void run_client(const client_plan& plan, board& told) {
    raise_descriptors();
    client(plan, told).run();
}

}  // namespace holdfast::workload::connections
