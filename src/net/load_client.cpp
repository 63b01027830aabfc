// SPDX-License-Identifier: Apache-2.0
#include "load_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "file_descriptor.hpp"
#include "holdfast/error.hpp"
#include "response_reader.hpp"

namespace holdfast::net {

namespace {

std::uint64_t now_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

struct in_flight {
    std::uint64_t tag = 0;
    std::uint64_t made_ns = 0;
    std::uint64_t begin = 0;  // position of its first byte in all that this connection ever sent
    bool head = false;
};

enum class link_state : std::uint8_t { down, connecting, up, retired };

struct link {
    file_descriptor fd;
    link_state state = link_state::down;
    bool wants_output = false;
    bool waiting = false;  // for retry_ns
    std::uint64_t retry_ns = 0;
    std::uint64_t sent = 0;  // bytes the kernel took, of all appended to `output`
    std::uint64_t made = 0;
    std::string output;  // what the kernel has not taken
    std::deque<in_flight> requests;
    response_reader reader;
};

constexpr std::uint64_t wake_tag = UINT64_MAX;
constexpr int sweep_ms = 20;  // how often time-outs are looked for

}  // namespace

class load_client::core {
 public:
    core(load_options options, next_request next, on_result result, on_refused refused)
        : options_(std::move(options)),
          next_(std::move(next)),
          result_(std::move(result)),
          refused_(std::move(refused)) {
        address_.sin_family = AF_INET;
        address_.sin_port = htons(options_.port);
        if (::inet_pton(AF_INET, options_.host.c_str(), &address_.sin_addr) != 1)
            throw error(errc::invalid_argument, options_.host, "not an IPv4 address; give one such as 127.0.0.1");
        if (options_.port == 0 || options_.connections == 0 || options_.pipeline == 0)
            throw error(errc::invalid_argument, "load_client", "port, connections and pipeline must not be 0");
        epoll_ = file_descriptor(::epoll_create1(EPOLL_CLOEXEC));
        wake_ = file_descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!epoll_ || !wake_) throw error(errc::io, "load_client", std::strerror(errno));
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = wake_tag;
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0)
            throw error(errc::io, "load_client", std::strerror(errno));
        links_.resize(options_.connections);
    }

    bool run() {
        for (unsigned i = 0; i < links_.size(); ++i) connect(i);
        std::uint64_t swept_ns = now_ns();
        while (!stop_ && live() != 0) {
            std::array<epoll_event, 256> events;
            const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
            for (int i = 0; i < count; ++i) {
                const auto& event = events[static_cast<std::size_t>(i)];
                if (event.data.u64 == wake_tag)
                    clear_wake();
                else
                    handle(static_cast<unsigned>(event.data.u64), event.events);
            }
            const std::uint64_t now = now_ns();
            for (unsigned i = 0; i < links_.size() && waiting_ != 0; ++i)
                if (links_[i].waiting && links_[i].retry_ns <= now) connect(i);
            if (finish_ || now - swept_ns > sweep_ms * 1'000'000U) sweep(now), swept_ns = now;
        }
        if (!stop_) return true;
        for (unsigned i = 0; i < links_.size(); ++i) fail(i, load_outcome::lost, 0, link_state::retired);
        return false;
    }

    void request(std::atomic<bool>& flag) noexcept {
        flag = true;
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
    }
    void finish() noexcept { request(finish_); }
    void stop() noexcept { request(stop_); }
    [[nodiscard]] const load_counters& counters() const noexcept { return counters_; }

 private:
    [[nodiscard]] std::size_t live() const noexcept { return links_.size() - retired_; }
    [[nodiscard]] int wait_ms() const noexcept {
        return waiting_ == 0 ? sweep_ms
                             : static_cast<int>(std::min<long long>(sweep_ms, options_.reconnect_delay.count()));
    }

    void clear_wake() noexcept {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
    }

    void set_waiting(link& l, bool waiting) noexcept {
        if (l.waiting == waiting) return;
        l.waiting = waiting;
        waiting_ += waiting ? 1 : static_cast<std::size_t>(-1);
    }

    void retire(link& l) noexcept {
        set_waiting(l, false);
        l.fd.reset();
        retired_ += l.state == link_state::retired ? 0 : 1;
        l.state = link_state::retired;
    }

    void control(int operation, unsigned index) noexcept {
        link& l = links_[index];
        epoll_event event{};
        event.events = EPOLLIN | EPOLLRDHUP | (l.wants_output ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
        event.data.u64 = index;
        (void)::epoll_ctl(epoll_.get(), operation, l.fd.get(), &event);
    }

    void connect(unsigned index) {
        link& l = links_[index];
        set_waiting(l, false);
        if (finish_) return retire(l);
        l.reader.clear();
        l.output.clear();
        l.sent = l.made = 0;
        l.fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (!l.fd) return refuse(index, errno);
        const int on = 1;
        (void)::setsockopt(l.fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        leave_the_servers_address(l.fd.get());
        const int result = ::connect(l.fd.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_);
        if (result != 0 && errno != EINPROGRESS) return refuse(index, errno);
        l.state = link_state::connecting;
        l.wants_output = true;
        control(EPOLL_CTL_ADD, index);
    }

    // A client that keeps trying a port nobody listens on is in time given that very port as its own, connects to
    // itself and keeps the server from coming back. From another address of the loopback network it cannot.
    void leave_the_servers_address(int fd) const noexcept {
        const std::uint32_t there = ntohl(address_.sin_addr.s_addr);
        if (there >> 24U != 127) return;
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(there == 0x7F000002U ? 0x7F000003U : 0x7F000002U);
        const int on = 1;
        (void)::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        (void)::bind(fd, reinterpret_cast<const sockaddr*>(&here), sizeof here);
    }

    void refuse(unsigned index, int code) {
        link& l = links_[index];
        l.fd.reset();
        l.state = link_state::down;
        ++counters_.refused;
        set_waiting(l, true);
        l.retry_ns = now_ns() + static_cast<std::uint64_t>(options_.reconnect_delay.count()) * 1'000'000U;
        if (refused_) refused_(index, code);
    }

    void handle(unsigned index, std::uint32_t events) {
        link& l = links_[index];
        if (!l.fd) return;
        if (l.state == link_state::connecting) {
            int code = 0;
            socklen_t size = sizeof code;
            (void)::getsockopt(l.fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
            if (code != 0) return refuse(index, code);
            if ((events & EPOLLOUT) == 0) return;
            ++counters_.connected;
            l.state = link_state::up;
        }
        if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0 && !receive(index)) return;
        ask(index);
    }

    // Returns false when the connection is gone.
    bool receive(unsigned index) {
        link& l = links_[index];
        while (true) {
            const ssize_t n = ::recv(l.fd.get(), scratch_.data(), scratch_.size(), 0);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0 && errno == EAGAIN) return true;
            if (n < 0) return fail(index, load_outcome::lost, errno), false;
            if (n > 0) l.reader.buffer().append(scratch_.data(), static_cast<std::size_t>(n));
            if (!take_responses(index, n == 0)) return false;
            if (n == 0) return fail(index, load_outcome::lost, 0), false;
            if (static_cast<std::size_t>(n) < scratch_.size()) return true;
        }
    }

    bool take_responses(unsigned index, bool ended) {
        link& l = links_[index];
        while (!l.requests.empty()) {
            const in_flight request = l.requests.front();
            const auto status = l.reader.next(request.head, ended);
            if (status == response_reader::status::need_more) return true;
            if (status == response_reader::status::malformed) return fail(index, load_outcome::malformed, 0), false;
            l.requests.pop_front();
            ++counters_.responses;
            const bool closes = l.reader.closes();
            report(index, request,
                   {.outcome = load_outcome::response,
                    .status = l.reader.code(),
                    .head = l.reader.head(),
                    .body = l.reader.body()});
            l.reader.drop();
            if (closes) return fail(index, load_outcome::lost, 0), false;
        }
        // Bytes nobody asked for: a server that has lost count answers the wrong question next.
        if (!l.reader.buffer().empty()) return fail(index, load_outcome::malformed, 0), false;
        return true;
    }

    void report(unsigned index, const in_flight& request, load_result result) {
        result.connection = index;
        result.tag = request.tag;
        result.latency_ns = now_ns() - request.made_ns;
        result.sent = links_[index].sent > request.begin;
        result_(result);
    }

    // Ends the connection: what is in flight has this outcome, then a new one is made.
    void fail(unsigned index, load_outcome outcome, int code, link_state then = link_state::down) {
        link& l = links_[index];
        if (l.state == link_state::retired) return;
        if (l.state == link_state::up && l.requests.empty() && outcome == load_outcome::lost &&
            then == link_state::down)
            ++counters_.closed_idle;
        l.fd.reset();
        std::deque<in_flight> ended;
        ended.swap(l.requests);
        for (const in_flight& request : ended) {
            auto& count = outcome == load_outcome::lost        ? counters_.lost
                          : outcome == load_outcome::timed_out ? counters_.timed_out
                                                               : counters_.malformed;
            ++count;
            report(index, request, {.outcome = outcome, .error = code});
        }
        if (then == link_state::retired) return retire(l);
        // At once the first time: a server that is up gets no holiday. If it is not, refuse() brings the delay.
        l.state = link_state::down;
        connect(index);
    }

    void ask(unsigned index) {
        link& l = links_[index];
        while (!finish_ && !stop_ && l.requests.size() < options_.pipeline) {
            const std::size_t before = l.output.size();
            const auto tag = next_(index, l.output);
            if (!tag) break;
            ++counters_.requests;
            const std::uint64_t begin = l.made;
            l.made += l.output.size() - before;
            l.requests.push_back({.tag = *tag,
                                  .made_ns = now_ns(),
                                  .begin = begin,
                                  .head = std::string_view(l.output).substr(before).starts_with("HEAD ")});
        }
        if (l.requests.empty()) return retire(l);
        send(index);
    }

    void send(unsigned index) {
        link& l = links_[index];
        if (!l.output.empty()) {
            const ssize_t n = ::send(l.fd.get(), l.output.data(), l.output.size(), MSG_NOSIGNAL);
            // EPIPE or a reset is met by the next receive too, together with whatever was answered before it.
            if (n < 0 && errno != EAGAIN && errno != EINTR) {
                const int code = errno;
                if (receive(index)) fail(index, load_outcome::lost, code);
                return;
            }
            if (n > 0) {
                l.sent += static_cast<std::uint64_t>(n);
                l.output.erase(0, static_cast<std::size_t>(n));
            }
        }
        if (const bool wanted = !l.output.empty(); wanted != l.wants_output) {
            l.wants_output = wanted;
            control(EPOLL_CTL_MOD, index);
        }
    }

    void sweep(std::uint64_t now) {
        const auto limit = static_cast<std::uint64_t>(options_.request_timeout.count()) * 1'000'000U;
        for (unsigned i = 0; i < links_.size(); ++i) {
            link& l = links_[i];
            if (!l.requests.empty() && now - l.requests.front().made_ns > limit) fail(i, load_outcome::timed_out, 0);
            if (finish_ && l.requests.empty()) retire(l);
        }
    }

    load_options options_;
    next_request next_;
    on_result result_;
    on_refused refused_;
    sockaddr_in address_{};
    file_descriptor epoll_;
    file_descriptor wake_;
    std::atomic<bool> stop_{false};
    std::atomic<bool> finish_{false};
    std::vector<link> links_;
    std::size_t retired_ = 0;
    std::size_t waiting_ = 0;  // links that wait for their retry
    load_counters counters_;
    std::array<char, 65536> scratch_{};
};

load_client::load_client(load_options options, next_request next, on_result result, on_refused refused)
    : core_(std::make_unique<core>(std::move(options), std::move(next), std::move(result), std::move(refused))) {}
load_client::~load_client() = default;
bool load_client::run() { return core_->run(); }
void load_client::finish() noexcept { core_->finish(); }
void load_client::stop() noexcept { core_->stop(); }
const load_counters& load_client::counters() const noexcept { return core_->counters(); }

}  // namespace holdfast::net
