// SPDX-License-Identifier: Apache-2.0
#include "rings/rings_suite.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "holdfast/net/server.hpp"
#include "holdfast/version.hpp"
#include "http/load.hpp"
#include "http/many_connections.hpp"
#include "http/rounds.hpp"
#include "http/scratch.hpp"
#include "rings/ring_followers.hpp"
#include "workload/targets.hpp"

namespace holdfast::bench::rings {

namespace {

constexpr std::size_t rounds_usual = 5, rounds_quick = 3;
constexpr std::uint64_t ring_bytes = std::uint64_t{16} << 20U;
constexpr std::size_t message_bytes = 64;
constexpr std::size_t spare_descriptors = 100;

struct way_named {
    follow_way way;
    const char* name;
};
constexpr std::array ways{way_named{follow_way::events, "server-sent events"},
                          way_named{follow_way::frames, "WebSocket"}, way_named{follow_way::pages, "long poll"}};
constexpr std::array engines{"epoll", "io_uring"};

struct ring_line {
    std::string name;
    follow_way way;
    std::size_t followers;
    unsigned window;

    [[nodiscard]] std::string named(const char* what) const { return name + ": " + what; }
};
constexpr std::array figures{"deliveries", "server time a delivery", "p50 from the publication",
                             "p99 from the publication", "p99.9 from the publication"};

std::vector<ring_line> lines_of(bool quick) {
    std::vector<ring_line> lines;
    for (const way_named& way : ways)
        for (const std::size_t count : quick ? std::vector<std::size_t>{200} : std::vector<std::size_t>{1000, 10'000})
            for (const unsigned window : {1U, 16U}) {
                if (way.way == follow_way::pages && window != 1) continue;  // a page takes what is there, however many
                lines.push_back({.name = std::string(way.name) + " to " + http::count_text(count) + " subscribers" +
                                         (window == 1 ? "" : ", " + std::to_string(window) + " messages under way"),
                                 .way = way.way,
                                 .followers = count,
                                 .window = window});
            }
    return lines;
}

class suite_run {
 public:
    suite_run(const http::suite_options& options, workload::recorder& to) : to_(to), quick_(to.options().quick) {
        const std::vector<unsigned> usable = http::usable_cores();  // never empty: this runs on one
        site_.program = options.program;
        site_.server_cores = {options.server_cores.empty() ? usable.front() : options.server_cores.front()};
        client_cores_ = {options.client_cores.empty() ? usable.back() : options.client_cores.front()};
        rounds_ = quick_ ? rounds_quick : rounds_usual;
        const double seconds = quick_ ? 0.15 : std::max(to.options().seconds, 0.5);
        duration_ = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9 / static_cast<double>(rounds_)));
    }

    void run() {
        std::vector<ring_line> lines = lines_of(quick_);
        std::erase_if(lines, [&](const ring_line& line) {
            bool any = false;  // all are asked: who lists the experiments hears of each
            for (const char* const what : figures) any = to_.wants(line.named(what)) || any;
            return !any;
        });
        std::erase_if(lines, [&](const ring_line& line) {
            const std::size_t needed = line.followers + spare_descriptors;
            if (limit_.most() >= needed) return false;
            to_.skip(line.name, "it takes " + std::to_string(needed) +
                                    " descriptors a process, and the hard limit is " + std::to_string(limit_.most()));
            return true;
        });
        if (lines.empty()) return;
        const http::pinned here(client_cores_);
        http::adopt_orphans();
        const http::scratch scratch;
        site_.scratch = scratch.folder();
        site_.table = scratch.table();
        auto ring = broadcast_writer::create(site_.table, {.capacity_bytes = ring_bytes});
        start(std::ranges::max(lines, {}, &ring_line::followers).followers);
        for (const ring_line& line : lines) measure(line, ring);
    }

 private:
    void start(std::size_t followers) {
        for (const char* const engine : engines) {
            const std::string name = std::string("holdfast serve, ") + engine;
            if (std::string_view(engine) == "io_uring")
                if (const std::string lack = net::io_uring_lack(); !lack.empty()) {
                    to_.skip(name, lack);
                    continue;
                }
            to_.version(name, "holdfast " + std::string(version_text));
            http::running_server server = http::start_serving(
                site_, {site_.table, "--workers", "1", "--counters", site_.table + "-counts-" + engine, "--engine",
                        engine, "--limit", "connections-max=" + std::to_string(followers + spare_descriptors)});
            server.process->note_processes();
            running_.push_back({.name = name, .server = std::move(server)});
        }
        for (const http::contestant& one : running_) {
            all_.push_back(&one);
            names_.push_back(one.name);
        }
        to_.note("one worker on core " + std::to_string(site_.server_cores.front()) +
                 ", the writer and all subscribers on core " + std::to_string(client_cores_.front()) +
                 (spin() ? ", polling" : ", shared with the server: both are slower, and unevenly"));
    }

    [[nodiscard]] bool spin() const { return client_cores_ != site_.server_cores; }

    void measure(const ring_line& line, broadcast_writer& ring) {
        http::samples rate(all_.size()), cpu_us(all_.size()), p50_us(all_.size()), p99_us(all_.size()),
            p999_us(all_.size());
        http::in_turn(all_, rounds_, [&](std::size_t who, std::size_t round) {
            to_.progress(line.name + ", round " + std::to_string(round + 1) + ": " + names_[who]);
            const http::child_process& server = *all_[who]->server.process;
            const follow_plan plan{.port = all_[who]->server.port,
                                   .target = "/v1/rings/" + site_.table,
                                   .way = line.way,
                                   .first = ring.sequence() + 1,
                                   .publish =
                                       [&ring](std::string_view text) {
                                           if (!ring.publish(std::as_bytes(std::span(text))))
                                               throw std::runtime_error("the ring takes no message");
                                       },
                                   .followers = line.followers,
                                   .message_bytes = message_bytes,
                                   .window = line.window,
                                   .warm_up = std::chrono::milliseconds(quick_ ? 10 : 50),
                                   .duration = duration_,
                                   .spin = spin()};
            http::server_time used(server);
            const follow_outcome outcome = run_followers(plan, [&](bool) { used.mark(); });
            const auto count = static_cast<double>(outcome.deliveries);
            rate[who].push_back(count / outcome.seconds);
            cpu_us[who].push_back(used.us() / count);
            p50_us[who].push_back(http::percentile_of(outcome.latency_ns, 0.50) * 1e-3);
            p99_us[who].push_back(http::percentile_of(outcome.latency_ns, 0.99) * 1e-3);
            p999_us[who].push_back(http::percentile_of(outcome.latency_ns, 0.999) * 1e-3);
            http::await_rest(server);
        });
        to_.progress({});
        const auto add = [&](const char* what, const char* unit, const http::samples& found, bool higher) {
            if (to_.wants(line.named(what))) to_.add(line.named(what), unit, names_, found, higher);
        };
        add(figures[0], "deliveries/s", rate, true);
        add(figures[1], "us", cpu_us, false);
        add(figures[2], "us", p50_us, false);
        add(figures[3], "us", p99_us, false);
        add(figures[4], "us", p999_us, false);
    }

    workload::recorder& to_;
    const bool quick_;
    const http::more_descriptors limit_;
    http::site site_;
    std::vector<unsigned> client_cores_;
    std::size_t rounds_ = rounds_usual;
    std::chrono::nanoseconds duration_{};
    std::vector<http::contestant> running_;
    http::contestants all_;
    std::vector<std::string> names_;
};

}  // namespace

workload::suite rings_suite(http::suite_options options) {
    return {.name = "rings",
            .description = "a served ring and its 1,000 and 10,000 subscribers by events, WebSocket and long poll",
            .run = [options = std::move(options)](workload::recorder& to) {
                int signal = 0;
                {
                    const http::interruption_watch watch;
                    try {
                        suite_run(options, to).run();
                    } catch (const http::interrupted& e) {
                        signal = e.signal;
                    }
                }
                if (signal != 0) ::raise(signal);  // everything is cleaned up; now it does what it does to any program
                if (signal != 0) throw http::interrupted(signal);  // unless the program ignores it
            }};
}

workload::suite rings_suite() {
    workload::suite lazy = rings_suite({});
    lazy.run = [](workload::recorder& to) { rings_suite(http::options_from_environment()).run(to); };
    return lazy;
}

}  // namespace holdfast::bench::rings
