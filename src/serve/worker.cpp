// SPDX-License-Identifier: Apache-2.0
// worker.cpp - one worker process: a loop that answers requests on the listener it was given.
//
// SIGHUP has it read its certificate again. It ends when told by SIGTERM, or when the supervisor's end of the lifeline
// closes: when that stops or dies. Both drain. A byte from there before the end says that a successor accepts by now;
// from the unix socket, too, or not. SIGINT is left to the supervisor, since a terminal sends it to all of us.
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/memory/descriptor.hpp"
#include "holdfast/memory/truncation_guard.hpp"
#include "holdfast/net/server.hpp"
#include "serve/api.hpp"
#include "serve/worker_arguments.hpp"

namespace holdfast::serve {

namespace {

constexpr std::chrono::milliseconds refresh_interval{50};

memory::descriptor watch_worker_signals() {
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGUSR2, SIG_IGN);  // meant for the supervisor, and sent to all of a service
    ::signal(SIGXFSZ, SIG_IGN);  // an audit log that may grow no further is an error of write(2)
    sigset_t wanted;
    ::sigemptyset(&wanted);
    ::sigaddset(&wanted, SIGTERM);
    ::sigaddset(&wanted, SIGHUP);
    if (::sigprocmask(SIG_BLOCK, &wanted, nullptr) != 0) memory::throw_errno(errno, "worker", "sigprocmask");
    memory::descriptor fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) memory::throw_errno(errno, "worker", "signalfd");
    return fd;
}

/// Says that this worker answers from now on, and lets go of the pipe.
void report_ready(memory::descriptor& pipe, unsigned index) {
    const auto number = static_cast<std::uint16_t>(index);
    while (::write(pipe.get(), &number, sizeof number) < 0 && errno == EINTR) {
    }
    pipe.reset();
}

/// 1 for the engine that this worker has; the other one may have been its predecessor's.
class engine_gauges {
 public:
    engine_gauges(const counter_set& counters, unsigned index) {
        for (std::size_t i = 0; i < gauges_.size(); ++i) {
            std::string labels;
            append_metric_label(labels, "engine", engines[i]);
            append_metric_label(labels, "worker", std::to_string(index));
            gauges_[i] = counters.try_get(engine_family, labels).value_or(counter());
        }
    }
    void publish(std::string_view engine) const noexcept {
        for (std::size_t i = 0; i < gauges_.size(); ++i)
            if (gauges_[i]) gauges_[i].set(engines[i] == engine ? 1 : 0);
    }

 private:
    static constexpr std::array<std::string_view, 2> engines{"epoll", "io_uring"};
    std::array<counter, 2> gauges_{};
};

/// Pages and reports for people and collectors are few, slow and would blur what clients of the data see.
constexpr bool is_data(route which) noexcept { return which >= route::table_get && which <= route::index_get; }

/// Gives memory that a burst of large answers left free back to the system. The allocator alone keeps it: below the
/// last block in use nothing is trimmed, and each large block that was freed raises what it regards as worth keeping.
class memory_trimmer {
 public:
    void tick() {
#ifdef __GLIBC__
        if (++ticks_ % ticks_between != 0) return;
        const std::size_t free = ::mallinfo2().fordblks;
        // What was given back still counts as free: only more of it is worth another pass.
        if (free > left_ + worth_bytes) {
            ::malloc_trim(0);
            left_ = ::mallinfo2().fordblks;
        } else if (free < left_) {
            left_ = free;
        }
#endif
    }

 private:
    static constexpr unsigned ticks_between = 20;  // a second
    static constexpr std::size_t worth_bytes = std::size_t{4} << 20U;
    unsigned ticks_ = 0;
    std::size_t left_ = 0;
};

/// Where that cannot be, as when the set of CPUs has changed, it runs anywhere: only slower.
void pin_to(const std::vector<int>& cpus) {
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    for (const int cpu : cpus)
        if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(cpu), &wanted);
    if (CPU_COUNT(&wanted) != 0 && ::sched_setaffinity(0, sizeof wanted, &wanted) != 0)
        std::fprintf(stderr, "holdfast serve: a worker cannot be pinned to its CPU: %s\n", std::strerror(errno));
}

void reload_certificate(const net::tls_credentials& credentials) {
    try {
        credentials.reload();
    } catch (const error& e) {
        std::fprintf(stderr, "holdfast serve: %s; the certificate from before stays in use\n", e.what());
    }
}

/// How a worker ends: as it is told first.
class worker_end {
 public:
    worker_end(net::server& server, api& routes) noexcept : server_(server), routes_(routes) {}

    /// Nobody else accepts.
    void drain() { end(false); }
    /// Others accept; but for `unix_listener`, where that is one. It has no name any more, so nobody comes to it once
    /// nobody waits there, and it may be left like the others.
    void hand_over(int unix_listener) {
        if (ended_) return;
        if (unix_listener < 0 || !anybody_waits(unix_listener)) return end(true);
        const auto now = std::chrono::steady_clock::now();
        if (!until_) until_ = now + wait_max;
        if (now >= *until_) return end(false);  // no descriptors, say: they are refused, as by any drain
        server_.after(look_interval, [this, unix_listener] { hand_over(unix_listener); });
    }

 private:
    static constexpr std::chrono::milliseconds look_interval{2};
    // Of the second that a supervisor adds to a drain's limit.
    static constexpr std::chrono::milliseconds wait_max{200};

    [[nodiscard]] static bool anybody_waits(int listener) noexcept {
        struct pollfd asked{listener, POLLIN, 0};
        return ::poll(&asked, 1, 0) > 0;
    }
    void end(bool others_accept) {
        if (std::exchange(ended_, true)) return;
        routes_.drain(others_accept);
        if (others_accept)
            server_.hand_over();
        else
            server_.drain();
    }

    net::server& server_;
    api& routes_;
    std::optional<std::chrono::steady_clock::time_point> until_;
    bool ended_ = false;
};

int serve_requests(const worker_arguments& arguments) {
    std::vector<int> listeners = arguments.listeners;
    if (arguments.unix_listener >= 0) listeners.push_back(arguments.unix_listener);
    for (const int fd : listeners) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    for (const int fd : {arguments.lifeline, arguments.ready}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    const memory::descriptor lifeline(arguments.lifeline);
    memory::descriptor ready(arguments.ready);
    const memory::descriptor signals = watch_worker_signals();
    memory::install_truncation_guard();
    pin_to(arguments.cpus);

    const shared_counts counts = shared_counts::attach(arguments.options.name);
    latency_recorder latency = counts.latency.make_recorder();
    request_counters refused(counts.counters, arguments.index);
    loop_counters of_loop(counts.counters, arguments.index);
    ring_counters of_rings(counts.counters, arguments.index);
    api routes(arguments.options, arguments.index, counts);

    net::server_options options;
    options.limits = arguments.options.limits;
    options.engine = arguments.options.engine_choice();
    const serve_options& wanted = arguments.options;
    options.identify_peers = arguments.unix_listener >= 0 || !wanted.audit_log.empty() || wanted.rate_of_one != 0;
    options.tick_interval = refresh_interval;
    if (!wanted.tls_certificate.empty()) {
        const net::tls_credentials credentials({wanted.tls_certificate, wanted.tls_key});
        for (const int fd : arguments.listeners) options.tls.push_back({.listener = fd, .credentials = credentials});
    }
    const std::vector<net::tls_listener> with_tls = options.tls;
    memory_trimmer trimmer;
    const engine_gauges engine_now(counts.counters, arguments.index);
    bool keeps_gauges = true;        // else they are a successor's by now
    net::server* running = nullptr;  // ticks come from within its run()
    const auto publish_rings = [&] {
        const ring_counts& rings = routes.rings().counts();
        of_rings.publish({routes.rings().subscribers(), rings.read, rings.delivered, rings.lost}, keeps_gauges);
    };
    options.on_tick = [&] {
        routes.refresh();
        of_loop.publish(running->counters(), keeps_gauges);
        if (keeps_gauges) engine_now.publish(running->engine());
        publish_rings();
        trimmer.tick();
    };
    options.on_response = [&](const net::response_event& event) {
        // What was understood is counted by the route's handler, before its answer leaves.
        if (!event.parsed) refused.count(route::none, event.status);
        if (is_data(static_cast<route>(event.route))) latency.record(event.latency_ns);
    };
    net::server server(std::move(listeners), options,
                       [&](const net::request& from, net::response& to) { routes.answer(from, to); });
    running = &server;
    routes.run_on(server);
    worker_end ending(server, routes);
    server.watch(lifeline.get(), [&] {
        char byte = 0;
        const ssize_t n = ::read(lifeline.get(), &byte, 1);
        if (n < 0) return;  // another worker was faster: ours comes, or the end does
        server.unwatch(lifeline.get());
        keeps_gauges = n == 0;
        if (n == 0)
            ending.drain();
        else
            ending.hand_over(byte == lifeline_others_accept_tcp ? arguments.unix_listener : -1);
    });
    server.watch(signals.get(), [&] {
        struct signalfd_siginfo info{};
        while (::read(signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
            if (info.ssi_signo == static_cast<std::uint32_t>(SIGHUP)) {
                if (!with_tls.empty()) reload_certificate(with_tls.front().credentials);  // they share them
                continue;
            }
            server.unwatch(signals.get());
            return ending.drain();
        }
    });
    engine_now.publish(server.engine());
    report_ready(ready, arguments.index);
    server.run();
    of_loop.publish(server.counters(), keeps_gauges);
    publish_rings();
    return 0;
}

}  // namespace

int run_worker(std::span<const std::string_view> words) {
    ::prctl(PR_SET_NAME, "holdfast-worker");  // else ps shows "exe", after the link it was started by
    try {
        return serve_requests(worker_arguments::parse(words));
    } catch (const std::exception& e) {
        std::fprintf(stderr, "holdfast serve: %s\n", e.what());
        return 1;
    }
}

}  // namespace holdfast::serve
