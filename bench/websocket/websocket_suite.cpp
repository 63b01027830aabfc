// SPDX-License-Identifier: Apache-2.0
#include "websocket/websocket_suite.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "http/load.hpp"
#include "http/many_connections.hpp"
#include "http/own_rate.hpp"
#include "http/rounds.hpp"
#include "http/scratch.hpp"
#include "websocket/fan_out.hpp"
#include "websocket/fan_out_rounds.hpp"
#include "websocket/websocket_messages.hpp"
#include "websocket/websocket_subjects.hpp"
#include "workload/targets.hpp"

namespace holdfast::bench::websocket {

namespace {

using http::contestant;
using http::contestants;
using http::samples;

constexpr std::size_t echo_rounds = 7;
constexpr std::size_t fan_out_rounds_usual = 7;
constexpr std::size_t fan_out_bytes = 64;

/// What is compared, and under which names.
struct line {
    std::string name;
    const char* unit;     ///< of its rate
    const char* counted;  ///< what the rate counts
    const char* each;     ///< one of them

    [[nodiscard]] http::own_rate_line own_rate() const { return {.name = name, .requests = counted}; }
    [[nodiscard]] std::string rate() const { return name + ": " + counted; }
    [[nodiscard]] std::string server_time() const { return name + ": server time a " + each; }
    [[nodiscard]] std::string p50() const { return name + ": p50 at half load"; }
    [[nodiscard]] std::string p99() const { return name + ": p99 at half load"; }
    [[nodiscard]] std::string p999() const { return name + ": p99.9 at half load"; }
};

struct echo_line : line {
    unsigned connections;
    std::size_t bytes;
};

struct fan_out_line : line {
    std::size_t subscribers;
    unsigned window;
};

std::vector<echo_line> echo_lines(bool quick) {
    struct size {
        const char* name;
        std::size_t bytes;
    };
    constexpr std::array sizes{size{"32 bytes", 32}, size{"1 KiB", 1024}, size{"64 KiB", 65'536}};
    std::vector<echo_line> lines;
    for (const size& s : sizes)
        for (const unsigned connections : quick ? std::vector<unsigned>{64} : std::vector<unsigned>{1, 64, 256})
            lines.push_back({{std::string("echo of ") + s.name + ", " + std::to_string(connections) +
                                  (connections == 1 ? " connection" : " connections"),
                              "messages/s", "messages", "message"},
                             connections,
                             s.bytes});
    return lines;
}

std::vector<fan_out_line> fan_out_lines(bool quick) {
    std::vector<fan_out_line> lines;
    for (const std::size_t count : quick ? std::vector<std::size_t>{200} : std::vector<std::size_t>{1000, 10'000})
        for (const unsigned window : {1U, 16U}) {
            lines.push_back({{"fan-out to " + http::count_text(count) + " subscribers" +
                                  (window == 1 ? std::string() : ", " + std::to_string(window) + " messages under way"),
                              "deliveries/s", "deliveries", "delivery"},
                             count,
                             window});
        }
    return lines;
}

std::string shown_cores(const std::vector<unsigned>& cores) {
    std::string text;
    for (const unsigned core : cores) text.append(text.empty() ? "" : ",").append(std::to_string(core));
    return text;
}

class suite_run {
 public:
    suite_run(const http::suite_options& options, const std::vector<http::subject>& subjects, workload::recorder& to)
        : to_(to), quick_(to.options().quick) {
        const std::vector<unsigned> usable = http::usable_cores();  // never empty: this runs on one
        site_.own_servers = options.own_servers;
        site_.peers = options.peers;
        site_.tools = options.tools;
        // One thread each, so one core.
        site_.server_cores = {options.server_cores.empty() ? usable.front() : options.server_cores.front()};
        client_cores_ = {options.client_cores.empty() ? usable.back() : options.client_cores.front()};
        const double seconds = quick_ ? 0.28 : std::max(to.options().seconds, 0.35);
        round_.rounds = echo_rounds;
        round_.duration = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9 / echo_rounds));
        round_.warm_up = std::chrono::milliseconds(quick_ ? 10 : 50);
        if (quick_) round_.latency_requests = 500;
        round_.spin = client_cores_ != site_.server_cores;
        for (const http::subject& each : subjects)
            if (workload::is_wanted_subject(to.options(), each.name, each.ours)) subjects_.push_back(each);
    }

    void run() {
        std::vector<echo_line> echoes = echo_lines(quick_);
        std::vector<fan_out_line> fans = fan_out_lines(quick_);
        std::erase_if(echoes, [&](const line& one) { return !wants(one); });
        std::erase_if(fans, [&](const line& one) { return !wants(one); });
        if (echoes.empty() && fans.empty()) return;
        const http::pinned here(client_cores_);
        http::adopt_orphans();
        const http::scratch scratch;
        site_.scratch = scratch.folder();
        to_.note("servers of one thread on core " + shown_cores(site_.server_cores) + ", the client on core " +
                 shown_cores(client_cores_) +
                 (round_.spin ? ", polling" : ", shared with the servers: both are slower, and unevenly"));
        start();
        for (const echo_line& one : echoes) measure(one);
        for (const fan_out_line& one : fans) measure(one);
    }

 private:
    /// All of them are asked: who lists the experiments hears of each.
    [[nodiscard]] bool wants(const line& one) {
        const bool throughput = wants_throughput(one), own_rate = http::wants_own_rate(to_, one.own_rate());
        return wants_latency(one) || throughput || own_rate;
    }
    [[nodiscard]] bool wants_throughput(const line& one) {
        const bool rate = to_.wants(one.rate());
        return to_.wants(one.server_time()) || rate;
    }
    [[nodiscard]] bool wants_latency(const line& one) {
        bool any = false;
        for (const std::string& name : {one.p50(), one.p99(), one.p999()}) any = to_.wants(name) || any;
        return any;
    }

    void start() {
        for (const http::subject& each : subjects_) try {
                to_.version(each.name, each.version(site_));
                http::running_server server = each.start(site_, http::answer_kind::computed);
                const http::load_plan trial{.server = http::loopback(server.port),
                                            .protocol = protocol_of("/echo"),
                                            .connections = 1,
                                            .warm_up = std::chrono::nanoseconds(0),
                                            .duration = std::chrono::nanoseconds(1),
                                            .spin = round_.spin};
                (void)http::run_load(trial, make_messages(1024));
                server.process->note_processes();
                running_.push_back({.name = each.name, .server = std::move(server)});
                to_.note(each.name + ": " + each.how.at(http::answer_kind::computed));
            } catch (const http::wrong_answer& e) {
                throw http::wrong_answer(each.name +
                                         " gave a wrong answer, so no number of this run counts: " + e.what());
            } catch (const http::interrupted&) {
                throw;
            } catch (const http::unavailable& e) {
                to_.skip(each.name, e.what());
            } catch (const std::runtime_error& e) {  // child_failed, server_failed
                if (each.ours) throw;
                to_.skip(each.name, e.what());
            }
        for (const contestant& one : running_) all_.push_back(&one);
        if (all_.empty()) throw std::runtime_error("no server of ours could be started");
    }

    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (const contestant& one : running_) all.push_back(one.name);
        return all;
    }

    void measure(const echo_line& one) {
        const std::vector<http::exchange> messages = make_messages(one.bytes);
        const http::workload_shape shape{.connections = one.connections};
        http::round_options options = round_;
        options.protocol = protocol_of("/echo");
        to_.progress(one.name + ": as many as go");
        if (!wants_throughput(one)) options.rounds = 1;  // only to know what can be asked of each
        const http::throughput_samples found = http::measure_throughput(all_, shape, messages, options);
        report(one, found);
        note_client(one, messages, options, found);
        options.rounds = round_.rounds;
        if (wants_latency(one)) measure_at_half_load(one, shape, messages, options, found);
        to_.progress(one.name + ": at shares of the own rate");
        http::measure_at_own_rate(to_, one.own_rate(), all_, shape, messages, options, found);
        to_.progress({});
    }

    void measure_at_half_load(const echo_line& one, const http::workload_shape& shape,
                              const std::vector<http::exchange>& messages, const http::round_options& options,
                              const http::throughput_samples& found) {
        const auto [rate_hz, slowest] = half_load(found);
        to_.progress(one.name + ": at half load");
        const http::latency_samples latency =
            http::measure_latency(all_, shape, messages, options, std::vector(all_.size(), rate_hz));
        report(one, latency, rate_hz, slowest);
        std::uint64_t late = 0, sent = 0;
        for (const std::uint64_t one_late : latency.late) late += one_late;
        for (const std::uint64_t one_sent : latency.batches) sent += one_sent;
        if (late * 100 > sent)
            to_.note(one.name + ": the client itself was late with " + std::to_string(late * 100 / sent) +
                     " % of the messages; the latencies are too long by that");
    }

    void measure(const fan_out_line& one) {
        if (limit_.most() < one.subscribers + 100) {
            to_.skip(one.name, "it takes " + std::to_string(one.subscribers + 100) +
                                   " descriptors a process, and the hard limit is " + std::to_string(limit_.most()));
            return;
        }
        fan_out_rounds how = rounds_of(one);
        if (!wants_throughput(one)) how.rounds = 1;  // only to know what can be asked of each
        const http::throughput_samples found = measure_fan_out(all_, how);
        report(one, found);
        note_client(one, found);
        how.rounds = rounds_of_fan_out();
        const auto at = [&](const std::vector<double>& rates_hz) {
            return measure_fan_out_latency(all_, how, rates_hz);
        };
        if (wants_latency(one)) {
            const auto [rate_hz, slowest] = half_load(found);
            report(one, at(std::vector(all_.size(), rate_hz)), rate_hz, slowest);
        }
        http::measure_at_own_rate(to_, one.own_rate(), all_, round_, found, at);
        to_.progress({});
    }

    [[nodiscard]] std::size_t rounds_of_fan_out() const { return quick_ ? 3 : fan_out_rounds_usual; }

    [[nodiscard]] fan_out_rounds rounds_of(const fan_out_line& one) {
        fan_out_rounds how{.plan = {.subscribers = one.subscribers,
                                    .message_bytes = fan_out_bytes,
                                    .window = one.window,
                                    .warm_up = round_.warm_up,
                                    .duration = round_.duration,
                                    .spin = round_.spin},
                           .rounds = rounds_of_fan_out(),
                           .before_turn = [this, name = one.name](std::size_t who, std::size_t round) {
                               to_.progress(name + ", round " + std::to_string(round + 1) + ": " + all_[who]->name);
                           }};
        if (quick_) {
            how.messages = 8;
            how.seconds_max = 0.1;
        }
        return how;
    }

    struct load_level {
        double rate_hz;
        std::string slowest;
    };
    [[nodiscard]] load_level half_load(const http::throughput_samples& found) const {
        std::size_t slowest = 0;
        std::vector<double> rates;
        for (const std::vector<double>& each : found.requests_per_second) {
            rates.push_back(workload::median_of(each));
            if (rates.back() < rates[slowest]) slowest = rates.size() - 1;
        }
        return {rates[slowest] / 2, all_[slowest]->name};
    }

    void report(const line& one, const http::throughput_samples& found) {
        if (to_.wants(one.rate())) to_.add(one.rate(), one.unit, names(), found.requests_per_second, true);
        if (!to_.wants(one.server_time())) return;
        to_.add(one.server_time(), "us", names(), found.cpu_us, false);
        note_best_peer(one, found.cpu_us);
        std::string idle;
        for (std::size_t i = 0; i < all_.size(); ++i)
            if (found.busy[i] < 0.95)
                idle.append(idle.empty() ? "" : ", ")
                    .append(all_[i]->name)
                    .append(" (")
                    .append(std::to_string(static_cast<int>(found.busy[i] * 100)))
                    .append(" % busy)");
        if (!idle.empty())
            to_.note(one.name + ": the client, or the way between, was the limit for " + idle +
                     "; there the server time tells more than the rate");
    }

    void report(const line& one, const http::latency_samples& found, double rate_hz, const std::string& slowest) {
        const auto add = [&](const std::string& name, const samples& us) {
            if (to_.wants(name)) to_.add(name, "us", names(), us, false);
        };
        add(one.p50(), found.p50_us);
        add(one.p99(), found.p99_us);
        add(one.p999(), found.p999_us);
        to_.note(one.name + ": latency at " + std::to_string(static_cast<long>(rate_hz)) + " " + one.unit +
                 ", half of what " + slowest + ", the slowest here, can do");
    }

    void note_best_peer(const line& one, const samples& us) {
        std::optional<std::size_t> best;
        const auto is_ours = [&](std::size_t i) {
            return all_[i]->name == net_epoll_name || all_[i]->name == net_io_uring_name;
        };
        for (std::size_t i = 0; i < all_.size(); ++i)
            if (!is_ours(i) && (!best || workload::median_of(us[i]) < workload::median_of(us[*best]))) best = i;
        if (!best) return;
        for (std::size_t i = 0; i < all_.size(); ++i) {
            if (!is_ours(i)) continue;
            workload::sampled both{.names = {all_[i]->name, all_[*best]->name}, .samples = {us[i], us[*best]}};
            for (std::vector<double>& each : both.samples)
                for (double& value : each) value *= 1e3;
            workload::note_if_any(
                to_, workload::at_least_text(one.name + ", " + all_[i]->name + ", server time beside the best peer,",
                                             both, all_[*best]->name, 1.0));
        }
    }

    /// What the client takes of its core beside our first server, when it sleeps instead of polling.
    void note_client(const echo_line& one, const std::vector<http::exchange>& messages,
                     const http::round_options& options, const http::throughput_samples& found) {
        const http::load_outcome outcome = http::run_load({.server = http::loopback(all_.front()->server.port),
                                                           .protocol = options.protocol,
                                                           .connections = one.connections,
                                                           .warm_up = options.warm_up,
                                                           .duration = options.duration,
                                                           .spin = false},
                                                          messages);
        note_client(one, static_cast<double>(outcome.cpu_ns) * 1e-3 / static_cast<double>(outcome.answers), found);
    }
    void note_client(const fan_out_line& one, const http::throughput_samples& found) {
        fan_out_plan plan = rounds_of(one).plan;
        plan.port = all_.front()->server.port;
        plan.spin = false;
        const fan_out_outcome outcome = run_fan_out(plan);
        http::await_rest(*all_.front()->server.process);
        note_client(one, static_cast<double>(outcome.cpu_ns) * 1e-3 / static_cast<double>(outcome.deliveries), found);
    }
    void note_client(const line& one, double client_us, const http::throughput_samples& found) {
        to_.note(one.name + ": the client takes " + workload::fixed_text(client_us, 2) + " us of processor time a " +
                 one.each + " when it does not poll, " + all_.front()->name + " " +
                 workload::fixed_text(workload::median_of(found.cpu_us.front()), 2) + " us");
    }

    workload::recorder& to_;
    const bool quick_;
    const http::more_descriptors limit_;
    http::site site_;
    std::vector<unsigned> client_cores_;
    http::round_options round_;
    std::vector<http::subject> subjects_;
    std::vector<contestant> running_;
    contestants all_;
};

}  // namespace

workload::suite websocket_suite(http::suite_options options, std::vector<http::subject> subjects) {
    return {.name = "websocket",
            .description =
                "WebSocket echo and fan-out beside Boost.Beast, libwebsockets, websocketpp, gorilla/websocket, "
                "fastwebsockets and tokio-tungstenite",
            .run = [options = std::move(options), subjects = std::move(subjects)](workload::recorder& to) {
                int signal = 0;
                {
                    const http::interruption_watch watch;
                    try {
                        suite_run(options, subjects, to).run();
                    } catch (const http::interrupted& e) {
                        signal = e.signal;
                    }
                }
                if (signal != 0) ::raise(signal);  // everything is cleaned up; now it does what it does to any program
                if (signal != 0) throw http::interrupted(signal);  // unless the program ignores it
            }};
}

workload::suite websocket_suite() {
    workload::suite lazy = websocket_suite({}, {});
    lazy.run = [](workload::recorder& to) {
        http::suite_options options = http::options_from_environment();
        options.peers = options.own_servers.parent_path().parent_path() / "peers/websocket";
        if (const char* const given = std::getenv("HOLDFAST_WEBSOCKET_PEERS"); given != nullptr && *given != '\0')
            options.peers = std::filesystem::absolute(given);
        websocket_suite(std::move(options), all_subjects()).run(to);
    };
    return lazy;
}

}  // namespace holdfast::bench::websocket
