// SPDX-License-Identifier: Apache-2.0
#include "workload/http_load/load_generator.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "net/file_descriptor.hpp"
#include "workload/http_load/answer_check.hpp"
#include "workload/http_load/answer_scanner.hpp"
#include "workload/http_load/interruption.hpp"
#include "workload/http_load/load_connection.hpp"
#include "workload/http_load/load_ring.hpp"
#include "workload/http_load/rate_schedule.hpp"

namespace holdfast::workload::http {

namespace {

constexpr std::uint64_t late_ns = 50'000;
constexpr std::uint64_t reconnect_ns = 10'000'000;
constexpr int events_max = 1024;  // taken between two looks at the clock

std::uint64_t time_of(clockid_t clock) noexcept {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t now_ns() noexcept { return time_of(CLOCK_MONOTONIC); }

std::uint64_t in_ns(auto duration) noexcept {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

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

class generator {
 public:
    generator(const load_plan& plan, const std::vector<exchange>& exchanges, const on_window& window)
        : plan_(plan), exchanges_(exchanges), window_(window), order_(plan.seed), scratch_(std::size_t{9} << 17U) {
        if (exchanges.empty() || exchanges.size() > std::numeric_limits<std::uint32_t>::max() ||
            plan.connections == 0 || plan.pipeline == 0 ||
            (plan.connection_per_request && (plan.pipeline != 1 || plan.tolerant)) ||
            (!plan.protocol.opening.empty() && (plan.connection_per_request || plan.tolerant)) ||
            plan.duration.count() <= 0 || plan.warm_up.count() < 0 || plan.rate_hz < 0)
            throw std::invalid_argument("a load without connections, requests or time");
        // Connections of one request are mostly made and closed, and messages may be larger than a socket takes.
        if (plan.ring && !plan.connection_per_request && plan.protocol.opening.empty())
            ring_ = load_ring::make(plan.connections);
        epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
        if (!epoll_) fail("epoll_create1");
        links_.resize(plan.connections);
        under_way_.resize(std::size_t{plan.connections} * plan.pipeline);
        free_.reserve(plan.connections);
    }

    ~generator() {
        // The kernel's receives would hold connections for a while that are only closed.
        for (const link& l : links_)
            if (ring_ && l.fd) (void)::shutdown(l.fd.get(), SHUT_RDWR);
    }
    generator(const generator&) = delete;
    generator& operator=(const generator&) = delete;

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
        for (std::size_t code = 0; code < statuses_.size(); ++code)
            if (statuses_[code] != 0) outcome_.statuses[static_cast<int>(code)] = statuses_[code];
        return std::move(outcome_);
    }

 private:
    struct link {
        net::file_descriptor fd;
        std::string partial;                 // of an answer
        std::string unsent;                  // of requests
        std::string output;                  // with a ring: what is being sent, where it is no exchange's own
        std::uint32_t use = 0;               // with a ring: counts the connections of this link
        bool sending = false;                // with a ring: bytes are lent to the kernel
        std::uint32_t first = 0, count = 0;  // requests under way, in the link's ring of under_way_
        std::uint64_t asked_ns = 0;          // tolerant: when the requests under way began to be
        bool connecting = false;
        bool ending = false;  // answered; the server is about to close
        bool free = false;    // without requests: its newest place in free_ counts
        bool used = false;    // tolerant: this connection has answered
    };
    struct request_under_way {
        std::uint64_t intended_ns = 0;
        std::uint32_t exchange = 0;
    };
    struct broken_link {
        std::uint32_t link;
        std::uint64_t again_ns;  // when it is made anew
    };

    void run_closed(std::uint64_t begin) {
        for (std::uint32_t i = 0; i < links_.size(); ++i) ask(i, begin, begin);
        while (!ended_ || requests_under_way_ > 0) {
            check_interruption();
            const std::uint64_t now = wait(plan_.spin ? 0 : broken_.empty() ? wait_ms : 1);
            tick(now);
            look_after_links(now);
            for (std::size_t i = 0; i < free_.size() && !ended_; ++i)
                if (links_[free_[i]].free) ask(free_[i], now, now);
            free_.clear();
        }
    }

    void run_schedule(std::uint64_t begin) {
        const rate_schedule schedule(begin, plan_.rate_hz / plan_.pipeline,
                                     static_cast<double>(window_end_ - begin) * 1e-9);
        for (std::uint32_t i = 0; i < links_.size(); ++i) make_free(i);
        std::size_t next_free = 0;  // free_ is a queue from here on
        std::uint64_t issued = 0, freed_ns = begin;
        while (issued < schedule.count() || requests_under_way_ > 0 || !ended_) {
            check_interruption();
            std::uint64_t now = now_ns();
            tick(now);
            const auto has_free = [&] {
                while (next_free < free_.size() && !links_[free_[next_free]].free) ++next_free;
                return next_free < free_.size();
            };
            while (issued < schedule.count() && has_free() && schedule.start_ns(issued) <= now) {
                const std::uint64_t intended = schedule.start_ns(issued++);
                if (intended >= window_begin_) {
                    ++outcome_.starts;
                    if (now > std::max(intended, freed_ns) + late_ns) ++outcome_.late;
                }
                ask(free_[next_free++], intended, now);
                now = now_ns();
            }
            if (next_free == free_.size() || next_free > 4096) {
                free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(next_free));
                next_free = 0;
            }
            const bool starved = !has_free();
            // Behind a server that cannot keep up, the rest would only tell how long the queue was.
            if (plan_.tolerant && now > window_end_ + in_ns(plan_.patience)) {
                outcome_.failures.not_sent += (schedule.count() - issued) * plan_.pipeline;
                issued = schedule.count();
            }
            look_after_links(
                wait_for(issued < schedule.count() && !starved ? schedule.start_ns(issued) : window_end_, now));
            if (starved && !free_.empty()) freed_ns = now_ns();
        }
    }

    void tick(std::uint64_t now) {
        if (!began_ && now >= window_begin_) {
            began_ = true;
            if (window_) window_(true);
            began_ns_ = now_ns();
            outcome_.cpu_ns = time_of(CLOCK_THREAD_CPUTIME_ID);
            // Without a schedule the window is as long as it should be, however late this was noticed.
            if (plan_.rate_hz == 0) {
                window_begin_ = began_ns_;
                window_end_ = began_ns_ + in_ns(plan_.duration);
            }
        }
        if (began_ && !ended_ && now >= window_end_ &&
            (plan_.tolerant || plan_.rate_hz > 0 || outcome_.answers >= plan_.answers_min)) {
            ended_ = true;
            outcome_.seconds = static_cast<double>(now_ns() - began_ns_) * 1e-9;
            outcome_.cpu_ns = time_of(CLOCK_THREAD_CPUTIME_ID) - outcome_.cpu_ns;
            if (window_) window_(false);
        }
    }

    /// Strict: the server has failed if nothing came for long. Tolerant: each link for itself, a few times in that
    /// long; and those that broke are made anew.
    void look_after_links(std::uint64_t now) {
        const std::uint64_t patience = in_ns(plan_.patience);
        if (!plan_.tolerant) {
            if (requests_under_way_ > 0 && now > progress_ + patience)
                throw server_failed("no answer within " + std::to_string(plan_.patience.count()) + " ms");
            return;
        }
        if (now > looked_ns_ + patience / 16) {
            looked_ns_ = now;
            for (std::uint32_t i = 0; i < links_.size(); ++i)
                if (links_[i].count > 0 && now > links_[i].asked_ns + patience)
                    lose(i, outcome_.failures.timed_out, now);
        }
        for (std::size_t left = broken_.size(); left > 0 && broken_.front().again_ns <= now; --left) {
            const std::uint32_t i = broken_.front().link;
            broken_.pop_front();
            reconnect(i, now);
        }
    }

    void connect_all() {
        for (std::uint32_t i = 0; i < links_.size(); ++i) {
            int code = 0;
            links_[i].fd = open_connection(plan_.server, connections_made_++, code);
            if (code == EINPROGRESS) {
                if (!ready_within(links_[i].fd.get(), POLLOUT, plan_.patience))
                    throw server_failed("no connection within " + std::to_string(plan_.patience.count()) + " ms");
                code = connection_error(links_[i].fd.get());
            }
            if (code != 0) throw server_failed(connecting_text(code));
            if (!plan_.protocol.opening.empty())
                open_protocol(links_[i].fd.get(), plan_.protocol.opening, plan_.patience);
            watch(i, EPOLL_CTL_ADD, EPOLLIN);
        }
    }

    /// A link that broke, without requests yet.
    void reconnect(std::uint32_t i, std::uint64_t now) {
        link& l = links_[i];
        if (l.sending) return broken_.push_back({.link = i, .again_ns = now + reconnect_ns});  // see load_ring, I2
        int code = 0;
        l.fd = open_connection(plan_.server, connections_made_++, code);
        if (code != 0 && code != EINPROGRESS) return lose_attempt(i, now);
        l.connecting = true;
        watch(i, EPOLL_CTL_ADD, EPOLLOUT);
    }

    void watch(std::uint32_t i, int operation, std::uint32_t events) {
        if (ring_) return watch_by_ring(i, events);
        epoll_event event{};
        event.events = events;
        event.data.u32 = i;
        if (::epoll_ctl(epoll_.get(), operation, links_[i].fd.get(), &event) != 0) fail("epoll_ctl");
    }

    void watch_by_ring(std::uint32_t i, std::uint32_t events) {
        link& l = links_[i];
        if ((events & EPOLLOUT) != 0) return ring_->await_connection(i, l.use, l.fd.get());
        if (::fcntl(l.fd.get(), F_SETFL, 0) != 0) fail("fcntl");  // it blocks from here on: see load_ring
        ring_->receive(i, l.use, l.fd.get());
    }

    /// Waits for events and handles them. Returns: the time after the wait.
    std::uint64_t wait(int timeout_ms) {
        if (ring_) return wait_by_ring(std::chrono::milliseconds(timeout_ms));
        std::array<epoll_event, 256> events;
        const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
        return handle(events.data(), count);
    }

    /// The same until about `due`, or without sleeping at all.
    std::uint64_t wait_for(std::uint64_t due, std::uint64_t now) {
        if (plan_.spin) return wait(0);
        const std::uint64_t longest = 1'000'000U * (broken_.empty() ? std::uint64_t{wait_ms} : 1U);
        const std::uint64_t left = std::min(due > now ? due - now : ended_ ? longest : 0, longest);
        if (ring_) return wait_by_ring(std::chrono::nanoseconds(left));
        const timespec limit{.tv_sec = 0, .tv_nsec = static_cast<long>(left)};
        std::array<epoll_event, 256> events;
        const int count = ::epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()), &limit, nullptr);
        return handle(events.data(), count);
    }

    std::uint64_t wait_by_ring(std::chrono::nanoseconds longest) {
        ring_->wait(longest);
        const std::uint64_t now = now_ns();
        ring_event event;
        for (int left = events_max; left > 0 && ring_->next(event); --left) handle(event, now);
        return now;
    }

    void handle(const ring_event& event, std::uint64_t now) {
        const std::uint32_t i = event.link;
        link& l = links_[i];
        if (event.kind == ring_event_kind::sent) l.sending = false;  // whichever connection it was for
        if (!l.fd || event.use != load_ring::told(l.use)) return;
        switch (event.kind) {
            case ring_event_kind::connected: return connected(i, now);
            case ring_event_kind::ended: return end_of_connection(i, event.error, now);
            case ring_event_kind::received:
                if (!event.bytes.empty()) receive(i, event.bytes, now);
                if (event.last && l.fd && event.use == load_ring::told(l.use)) ring_->receive(i, l.use, l.fd.get());
                return;
            case ring_event_kind::sent:
                if (event.error != 0) return cannot_send(i, now);
                if (l.unsent.empty()) return;
                l.output.swap(l.unsent);
                l.unsent.clear();
                return send_by_ring(i, l.output);
        }
    }

    std::uint64_t handle(const epoll_event* events, int count) {
        if (count < 0 && errno != EINTR) fail("epoll_wait");
        const std::uint64_t now = now_ns();
        for (int e = 0; e < count; ++e) {
            const std::uint32_t i = events[e].data.u32;
            if (!links_[i].connecting && (events[e].events & EPOLLOUT) != 0) send_rest(i);
            if (!links_[i].connecting)
                receive(i, now);
            else if ((events[e].events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
                connected(i, now);
        }
        return now;
    }

    void connected(std::uint32_t i, std::uint64_t now) {
        link& l = links_[i];
        if (const int code = connection_error(l.fd.get()); code != 0) {
            if (!plan_.tolerant) throw server_failed(connecting_text(code));
            return lose_attempt(i, now);
        }
        l.connecting = false;
        watch(i, EPOLL_CTL_MOD, EPOLLIN);
        if (plan_.connection_per_request)
            send(i, exchanges_[under_way(i, 0).exchange].request);
        else
            make_free(i);
    }

    request_under_way& under_way(std::uint32_t i, std::uint32_t offset) noexcept {
        return under_way_[std::size_t{i} * plan_.pipeline + (links_[i].first + offset) % plan_.pipeline];
    }

    /// Fills the link with requests meant to start at `intended_ns`, and sends them together.
    void ask(std::uint32_t i, std::uint64_t intended_ns, std::uint64_t now) {
        link& l = links_[i];
        l.free = false;
        if (requests_under_way_ == 0) progress_ = std::max(progress_, now);
        l.asked_ns = now;
        const std::uint32_t first_new = l.count;
        std::uint32_t which = 0;
        for (; l.count < plan_.pipeline; ++l.count, ++requests_under_way_) {
            which = order_.below(static_cast<std::uint32_t>(exchanges_.size()));
            under_way(i, l.count) = {.intended_ns = intended_ns, .exchange = which};
        }
        if (l.count - first_new == 1) {
            if (!plan_.connection_per_request) return send(i, exchanges_[which].request);
            output_ = exchanges_[which].request;
        } else {
            output_.clear();
            for (std::uint32_t k = first_new; k < l.count; ++k) output_ += exchanges_[under_way(i, k).exchange].request;
            if (!ring_) return send(i, output_);
            if (l.sending) return void(l.unsent.append(output_));
            l.output.swap(output_);
            return send_by_ring(i, l.output);
        }
        int code = 0;
        l.fd = open_connection(plan_.server, connections_made_++, code);
        if (code != 0 && code != EINPROGRESS) throw server_failed(connecting_text(code));
        // On loopback the handshake is over by now as a rule, and the request can go without another wait.
        const ssize_t n = ::send(l.fd.get(), output_.data(), output_.size(), MSG_NOSIGNAL);
        if (n == static_cast<ssize_t>(output_.size())) return watch(i, EPOLL_CTL_ADD, EPOLLIN);
        if (n >= 0 || errno != EAGAIN) throw server_failed("a new connection takes no request");
        l.connecting = true;
        watch(i, EPOLL_CTL_ADD, EPOLLOUT);
    }

    /// Requests of HTTP that are under way on one connection are far smaller than any socket buffer; messages are not.
    void send(std::uint32_t i, std::string_view bytes) {
        if (ring_) return send_by_ring(i, bytes);
        if (!links_[i].unsent.empty()) return void(links_[i].unsent.append(bytes));
        const ssize_t n = ::send(links_[i].fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n == static_cast<ssize_t>(bytes.size())) return;
        if (!plan_.protocol.opening.empty() && (n >= 0 || errno == EAGAIN)) {
            links_[i].unsent.assign(bytes.substr(n > 0 ? static_cast<std::size_t>(n) : 0));
            return watch(i, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
        }
        cannot_send(i, now_ns());
    }

    /// Bytes that stay as they are until they are sent, or wait behind those that are being sent.
    void send_by_ring(std::uint32_t i, std::string_view bytes) {
        link& l = links_[i];
        if (l.sending) return void(l.unsent.append(bytes));
        l.sending = true;
        ring_->send(i, l.use, l.fd.get(), bytes);
    }

    void cannot_send(std::uint32_t i, std::uint64_t now) {
        if (!plan_.tolerant) throw server_failed("a connection takes no more requests");
        lose(i, outcome_.failures.reset, now);
    }

    void send_rest(std::uint32_t i) {
        std::string& rest = links_[i].unsent;
        if (rest.empty()) return;
        const ssize_t n = ::send(links_[i].fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) throw server_failed("a connection takes no more requests");
        rest.erase(0, n > 0 ? static_cast<std::size_t>(n) : 0);
        if (rest.empty()) watch(i, EPOLL_CTL_MOD, EPOLLIN);
    }

    void receive(std::uint32_t i, std::uint64_t now) {
        link& l = links_[i];
        if (!l.fd) return;  // it broke in this very turn
        const std::size_t kept = l.partial.size();
        l.partial.copy(scratch_.data(), kept);
        const ssize_t n = ::recv(l.fd.get(), scratch_.data() + kept, scratch_.size() - kept, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) return end_of_connection(i, n < 0 ? errno : 0, now);
        take_answers(i, std::string_view(scratch_.data(), kept + static_cast<std::size_t>(n)), now);
    }

    void receive(std::uint32_t i, std::string_view bytes, std::uint64_t now) {
        link& l = links_[i];
        if (l.partial.empty()) return take_answers(i, bytes, now);
        joined_.swap(l.partial);  // it is written anew while these are read
        joined_.append(bytes);
        take_answers(i, joined_, now);
    }

    /// Of what was received and not taken yet.
    void take_answers(std::uint32_t i, std::string_view bytes, std::uint64_t now) {
        link& l = links_[i];
        while (!bytes.empty()) {
            answer got;
            const scan_status status = l.count == 0 ? scan_status::malformed : scan(bytes, got);
            if (status == scan_status::malformed) return unreadable(i, bytes, now);
            if (status == scan_status::need_more) break;
            take(i, got, now);
            bytes.remove_prefix(got.bytes);
            if (got.closes && !plan_.connection_per_request) return lose(i, outcome_.failures.closed, now);
        }
        l.partial.assign(bytes);
        if (l.count == 0 && !plan_.connection_per_request) make_free(i);
        if (l.count > 0 && l.count < plan_.pipeline && plan_.rate_hz == 0 && !ended_) ask(i, now, now);
    }

    scan_status scan(std::string_view bytes, answer& out) noexcept {
        return plan_.protocol.scan == scan_answer ? heads_.scan(bytes, out) : plan_.protocol.scan(bytes, out);
    }

    void unreadable(std::uint32_t i, std::string_view bytes, std::uint64_t now) {
        const bool asked = links_[i].count > 0;
        if (!plan_.tolerant)
            throw wrong_answer((asked ? "no answer as the workload wants it: " : "an answer that was not asked for: ") +
                               shown(bytes));
        if (!asked) ++outcome_.failures.unreadable;
        lose(i, outcome_.failures.unreadable, now);
    }

    void take(std::uint32_t i, const answer& got, std::uint64_t now) {
        link& l = links_[i];
        const request_under_way request = under_way(i, 0);
        if (!plan_.tolerant) {
            check_answer(exchanges_[request.exchange], got);
            if (got.closes && !plan_.connection_per_request)
                throw server_failed("it closes a connection meant to be kept");
        }
        l.first = (l.first + 1) % plan_.pipeline;
        --l.count;
        --requests_under_way_;
        l.ending = plan_.connection_per_request;
        l.asked_ns = now;
        l.used = true;
        progress_ = now;
        if (began_ && !ended_) {
            ++outcome_.answers;
            ++statuses_[static_cast<std::size_t>(got.status)];
        }
        if (began_ && (plan_.rate_hz > 0 || plan_.tolerant) && request.intended_ns >= window_begin_)
            outcome_.latency_ns.record((ring_ ? now : now_ns()) - request.intended_ns);  // a ring's bytes were there
    }

    void end_of_connection(std::uint32_t i, int code, std::uint64_t now) {
        link& l = links_[i];
        if (plan_.tolerant) return lose(i, code != 0 ? outcome_.failures.reset : outcome_.failures.closed, now);
        if (!l.ending || code != 0)
            throw server_failed(code != 0 ? "a connection was lost: " + std::generic_category().message(code)
                                          : "it closed a connection with requests under way or to come");
        l.fd.reset();
        l.ending = false;
        make_free(i);
    }

    void make_free(std::uint32_t i) {
        links_[i].free = true;
        free_.push_back(i);
    }

    /// The connection is done with. Its requests under way count as `kind`; without any, nothing was lost with it.
    void lose(std::uint32_t i, std::uint64_t& kind, std::uint64_t now) {
        link& l = links_[i];
        kind += l.count;
        requests_under_way_ -= l.count;
        const bool harmless = l.count == 0 && l.used;
        l.count = 0;
        l.partial.clear();
        close(l);
        l.free = l.used = false;
        if (harmless)
            broken_.push_front({.link = i, .again_ns = now});
        else
            broken_.push_back({.link = i, .again_ns = now + reconnect_ns});
    }

    void close(link& l) {
        if (ring_ && l.fd) {  // its receive ends with it, and is told as one of an earlier use
            (void)::shutdown(l.fd.get(), SHUT_RDWR);
            ++l.use;
            l.unsent.clear();
        }
        l.fd.reset();
    }

    void lose_attempt(std::uint32_t i, std::uint64_t now) {
        ++outcome_.failures.refused;
        close(links_[i]);
        links_[i].connecting = false;
        broken_.push_back({.link = i, .again_ns = now + reconnect_ns});
    }

    const load_plan& plan_;
    const std::vector<exchange>& exchanges_;
    const on_window& window_;
    random_order order_;
    net::file_descriptor epoll_;
    std::vector<link> links_;
    std::unique_ptr<load_ring> ring_;  // ends before what it sends
    std::vector<request_under_way> under_way_;
    std::vector<std::uint32_t> free_;  // links without requests
    std::deque<broken_link> broken_;   // links without a connection, the next to be made first
    std::vector<char> scratch_;
    std::string output_, joined_;
    answer_heads heads_;
    load_outcome outcome_;
    std::array<std::uint64_t, 1000> statuses_{};
    std::uint64_t window_begin_ = 0, window_end_ = 0, began_ns_ = 0;
    std::uint64_t progress_ = 0;  // when an answer last came, or requests began to be under way
    std::uint64_t looked_ns_ = 0;
    std::uint64_t requests_under_way_ = 0;
    std::uint32_t connections_made_ = 0;
    bool began_ = false, ended_ = false;
};

}  // namespace

load_outcome run_load(const load_plan& plan, const std::vector<exchange>& exchanges, const on_window& window) {
    return generator(plan, exchanges, window).run();
}

}  // namespace holdfast::workload::http
