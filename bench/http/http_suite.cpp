// SPDX-License-Identifier: Apache-2.0
#include "http/http_suite.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "http/http_targets.hpp"
#include "http/load.hpp"
#include "http/load_tools.hpp"
#include "http/own_rate.hpp"
#include "http/rounds.hpp"
#include "http/scratch.hpp"
#include "http/two_workers.hpp"

namespace holdfast::bench::http {

namespace {

constexpr std::size_t rounds = 7;

struct workload_line {
    std::string name;
    answer_kind kind;
    workload_shape shape;

    [[nodiscard]] std::string requests() const { return name + ": requests"; }
    [[nodiscard]] std::string server_time() const { return name + ": server time a request"; }
    [[nodiscard]] std::string client_time() const { return name + ": client's and server's time a request"; }
    /// With one client each end waits for the other, and what is timed are the wake-ups.
    [[nodiscard]] bool tells_of_client() const {
        return kind == answer_kind::computed && shape.connections > 1 && !shape.connection_per_request;
    }
};

constexpr unsigned two_workers_connections = 128;

std::string two_workers(const char* what = "") { return std::string("two workers, JSON reply, 128 clients") + what; }

constexpr const char* libreactor_source =
    "M. Richards, Extreme HTTP Performance Tuning, talawah.io 2021: JSON of libreactor on 4 vCPU of EC2 c5n, 256 "
    "connections from a machine of its own";
constexpr const char* http_kit_source = "http-kit, 600k concurrent HTTP connections: one PC, the client on it as well";

/// Of others for one small answer over connections that are kept.
std::vector<workload::published_figure> published_requests(const workload_line& line) {
    if (line.kind != answer_kind::computed || line.shape.pipeline != 1 || line.shape.connection_per_request) return {};
    if (line.shape.connections == 256)
        return {{"libreactor, after nine steps of tuning", 1'203'164, "requests/s", libreactor_source},
                {"libreactor, as installed", 224'000, "requests/s", libreactor_source},
                {"http-kit, 600,000 connections that idle 5 to 45 s", 18'760, "requests/s", http_kit_source}};
    if (line.shape.connections == 64) return {{"http-kit, 10 connections", 31'400, "requests/s", http_kit_source}};
    return {};
}

/// At full load, which is not how ours is taken; so it stands beside the workload of the same connections only.
std::vector<workload::published_figure> published_latency(const workload_line& line, double us) {
    if (published_requests(line).empty() || line.shape.connections != 256) return {};
    return {{"libreactor, at 1.2 million requests/s", us, "us", libreactor_source}};
}

own_rate_line latency_of(const workload_line& line) {
    return {.name = line.name,
            .published_p50 = published_latency(line, 203),
            .published_p99 = published_latency(line, 265)};
}

std::vector<workload_line> workload_lines(bool quick) {
    struct family {
        const char* name;
        answer_kind kind;
        unsigned pipeline;
        bool connection_per_request;
    };
    constexpr std::array families{family{"JSON reply", answer_kind::computed, 1, false},
                                  family{"JSON reply, pipeline 16", answer_kind::computed, 16, false},
                                  family{"JSON reply, connection per request", answer_kind::computed, 1, true},
                                  family{"lookup by key", answer_kind::lookup, 1, false}};
    std::vector<workload_line> lines;
    for (const family& f : families)
        for (const unsigned connections : quick ? std::vector<unsigned>{64} : std::vector<unsigned>{1, 64, 256})
            lines.push_back({.name = std::string(f.name) + ", " + std::to_string(connections) +
                                     (connections == 1 ? " client" : " clients"),
                             .kind = f.kind,
                             .shape = {.connections = connections,
                                       .pipeline = f.pipeline,
                                       .connection_per_request = f.connection_per_request}});
    return lines;
}

std::string name_of(answer_kind kind) { return kind == answer_kind::computed ? "JSON reply" : "lookup"; }

std::string text_of(const std::vector<unsigned>& cores) {
    std::string text;
    for (const unsigned core : cores) text.append(text.empty() ? "" : ",").append(std::to_string(core));
    return text;
}

class suite_run {
 public:
    suite_run(const suite_options& options, const std::vector<subject>& subjects, workload::recorder& to)
        : options_(options), to_(to), quick_(to.options().quick), usable_(usable_cores()) {
        site_.program = options.program;
        site_.own_servers = options.own_servers;
        site_.peers = options.peers;
        site_.tools = options.tools;
        site_.server_cores = options.server_cores.empty() ? std::vector{usable_.front()} : options.server_cores;
        client_cores_ = options.client_cores.empty() ? std::vector{usable_.back()} : options.client_cores;
        for (const std::vector<unsigned>* const chosen : {&site_.server_cores, &client_cores_})
            for (const unsigned core : *chosen)
                if (std::ranges::find(usable_, core) == usable_.end())
                    throw std::invalid_argument("core " + std::to_string(core) +
                                                " is none that this process may use; there are " + text_of(usable_));
        round_.rounds = rounds;
        const double seconds = quick_ ? 0.42 : std::max(to.options().seconds, 0.35);
        round_.duration = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9 / rounds));
        round_.warm_up = std::chrono::milliseconds(quick_ ? 15 : 50);
        if (quick_) round_.latency_requests = 1'000;
        round_.spin = std::ranges::none_of(client_cores_, [&](unsigned core) {
            return std::ranges::find(site_.server_cores, core) != site_.server_cores.end();
        });
        for (const subject& each : subjects)
            if (each.ours || to.options().only.empty() ||
                std::ranges::find(to.options().only, each.name) != to.options().only.end())
                subjects_.push_back(each);
    }

    void run() {
        std::vector<workload_line> lines = workload_lines(quick_);
        std::erase_if(lines, [&](const workload_line& line) {
            const bool throughput = wants_throughput(line), latency = wants_own_rate(to_, latency_of(line));
            return !wants_client(line) && !throughput && !latency;
        });
        const bool wants_two = wants_two_workers();
        const bool wants_tools = options_.validate && wants(std::string(beside_tools));
        if (lines.empty() && !wants_two && !wants_tools) return;
        const pinned here(client_cores_);
        adopt_orphans();
        prepare();
        for (const answer_kind kind : {answer_kind::computed, answer_kind::lookup}) {
            const bool beside = wants_tools && kind == answer_kind::computed;
            if (!beside && std::ranges::none_of(lines, [&](const workload_line& line) { return line.kind == kind; }))
                continue;
            const std::vector<contestant> all = start(kind);
            if (beside) validate(all.front());
            for (const workload_line& line : lines)
                if (line.kind == kind) measure(line, all);
        }
        if (wants_two) compare_workers();
    }

 private:
    [[nodiscard]] bool wants_throughput(const workload_line& line) {
        return wants(line.requests(), line.server_time());
    }
    [[nodiscard]] bool wants_client(const workload_line& line) {
        return line.tells_of_client() && wants(line.client_time());
    }
    [[nodiscard]] bool wants_two_workers() {
        const bool throughput = wants(two_workers(": requests"), two_workers(": server time a request"));
        return wants_own_rate(to_, {.name = two_workers()}) || throughput;
    }
    [[nodiscard]] bool wants(const std::string& name) { return to_.wants(name); }
    [[nodiscard]] bool wants(const std::string& one, const std::string& other) {
        const bool first = wants(one);  // both are asked: who lists the experiments hears of both
        return wants(other) || first;
    }

    void prepare() {
        scratch_.emplace();
        site_.scratch = scratch_->folder();
        site_.table = scratch_->table();
        site_.records = make_records(quick_ ? 1000 : 10'000);
        site_.csv = site_.scratch / "records.csv";
        write_file(site_.csv, csv_of(site_.records));
        (void)output_of({.arguments = {site_.program, "load", site_.table, site_.csv, "--into", "hash_table", "--key",
                                       "id:u64", "--value", "user:u64,name:char[8]"},
                         .environment = {"HOLDFAST_REGISTRY=" + (site_.scratch / "registry").string()},
                         .cores = {},
                         .log = site_.scratch / "load.log"});
        to_.note("servers on core " + text_of(site_.server_cores) + ", a worker each; the client on core " +
                 text_of(client_cores_) +
                 (round_.spin ? ", polling" : ", shared with the servers: both are slower, and unevenly"));
    }

    /// Ours first, the one that the ratios are about before the other.
    [[nodiscard]] std::vector<contestant> start(answer_kind kind) {
        std::vector<contestant> all;
        std::erase_if(subjects_, [&](const subject& each) {
            const auto how = each.how.find(kind);
            if (how == each.how.end()) {
                to_.note(each.name + ", " + name_of(kind) + ": not asked, " + each.lack);
                return false;
            }
            try {
                to_.version(each.name, each.version(site_));
                all.push_back(
                    {.name = each.name, .server = start_and_check(each, site_, kind), .only_kept = each.only_kept});
                to_.note(each.name + ", " + name_of(kind) + ": " + how->second);
            } catch (const wrong_answer& e) {
                throw wrong_answer(each.name + " gave a wrong answer, so no number of this run counts: " + e.what());
            } catch (const interrupted&) {
                throw;
            } catch (const unavailable& e) {
                to_.skip(each.name, e.what());
                return true;
            } catch (const std::runtime_error& e) {  // child_failed, a file that cannot be written
                if (each.ours) throw;
                to_.skip(each.name, e.what());
                return true;
            }
            return false;
        });
        // The plain handler is what the peers' handlers compare with; the lookup is what `serve` is for.
        if (kind == answer_kind::lookup) {
            const auto serve = std::ranges::find(all, std::string(serve_epoll_name), &contestant::name);
            if (serve != all.end()) std::rotate(all.begin(), serve, serve + 1);
        }
        return all;
    }

    void measure(const workload_line& line, const std::vector<contestant>& running) {
        contestants all;
        for (const contestant& each : running)
            if (!each.only_kept || !line.shape.connection_per_request) all.push_back(&each);
        const std::vector<exchange> exchanges = make_exchanges(
            site_.table, line.kind == answer_kind::computed ? std::vector{site_.records.front()} : site_.records,
            line.shape.connection_per_request);
        std::vector<std::string> names;
        for (const contestant* const each : all) names.push_back(each->name);
        round_options throughput_rounds = round_;
        if (!wants_throughput(line)) throughput_rounds.rounds = 1;  // only to know what can be asked of each
        const throughput_samples found = measure_throughput(all, line.shape, exchanges, throughput_rounds);
        if (wants(line.requests()))
            to_.add(line.requests(), "requests/s", names, found.requests_per_second, true,
                    {.published = published_requests(line),
                     .warnings = marks_of(std::vector(names.size(), found.held_up), held_up_limit(0), round_)});
        if (wants(line.server_time())) {
            to_.add(line.server_time(), "us", names, found.cpu_us, false);
            note_targets(line, {.names = names, .us = found.cpu_us});
        }
        note_limits(line, names, found);
        if (wants_client(line)) measure_client_time(line, all, exchanges);
        measure_at_own_rate(to_, latency_of(line), all, line.shape, exchanges, round_, found);
    }

    /// Of many clients: with one, each waits for the other, and what is timed are the wake-ups.
    void note_targets(const workload_line& line, const server_times& found) {
        if (line.kind != answer_kind::computed || line.shape.connection_per_request || line.shape.connections == 1)
            return;
        if (line.shape.pipeline == 1)
            note_reply_targets(line.name, found, to_);
        else
            note_pipeline_targets(line.name, found, to_);
    }

    /// Of our servers: what the client takes of its core beside them.
    void measure_client_time(const workload_line& line, const contestants& all,
                             const std::vector<exchange>& exchanges) {
        contestants ours;
        for (const contestant* const each : all)
            if (is_ours(each->name)) ours.push_back(each);
        const client_samples found = measure_client(ours, line.shape, exchanges, round_);
        server_times both;
        for (std::size_t i = 0; i < ours.size(); ++i) {
            both.names.insert(both.names.end(), {client_of(ours[i]->name), ours[i]->name});
            both.us.insert(both.us.end(), {found.client_us[i], found.server_us[i]});
        }
        to_.add(line.client_time(), "us", both.names, both.us, false);
        note_client_targets(line.name, both, to_);
    }

    /// Each server of ours with two workers, and behind it with one.
    [[nodiscard]] std::vector<contestant> start_workers(const two_worker_cores& cores,
                                                        std::vector<std::string>& subjects) {
        std::vector<contestant> running;
        site where = site_;
        for (const subject& each : subjects_) {
            if (!each.ours || each.only_kept) continue;
            try {
                to_.version(each.name, each.version(where));
                for (const unsigned workers : {2U, 1U}) {
                    where.server_cores.assign(cores.servers.begin(), cores.servers.begin() + workers);
                    running.push_back({.name = with_workers(each.name, workers),
                                       .server = start_and_check(each, where, answer_kind::computed)});
                }
                subjects.push_back(each.name);
            } catch (const unavailable& e) {
                to_.skip(each.name, e.what());
            }
        }
        return running;
    }

    void compare_workers() {
        const two_worker_cores cores = cores_for_two(usable_, options_.server_cores, options_.client_cores);
        if (cores.servers.empty()) return to_.skip("two workers", "this process may use one core only");
        std::vector<std::string> subjects, names;
        const std::vector<contestant> running = start_workers(cores, subjects);
        if (running.empty()) return;
        contestants all;
        for (const contestant& each : running) {
            all.push_back(&each);
            names.push_back(each.name);
        }
        const workload_shape shape{.connections = two_workers_connections};
        const auto exchanges = make_exchanges(site_.table, std::vector{site_.records.front()}, false);
        round_options with = round_;
        with.spin = !cores.shared();
        const throughput_samples found = measure_by_two_clients(all, shape, exchanges, with, cores);
        if (const std::string name = two_workers(": requests"); wants(name))
            to_.add(name, "requests/s", names, found.requests_per_second, true);
        if (const std::string name = two_workers(": server time a request"); wants(name)) {
            to_.add(name, "us", names, found.cpu_us, false);
            note_worker_targets(two_workers(), subjects, {.names = names, .us = found.cpu_us}, to_);
        }
        measure_at_own_rate(to_, {.name = two_workers()}, all, with, found, [&](const std::vector<double>& rates_hz) {
            return measure_latency_by_two_clients(all, shape, exchanges, with, cores, rates_hz);
        });
        to_.note(two_workers(": two clients on cores ") + text_of(cores.clients) + ", workers on " +
                 text_of(cores.servers) + " or the first of them" +
                 (cores.shared() ? "; they share these, with one worker and with two" : ""));
    }

    /// Says what the reader must know of requests/s: that others ran here too, or that the client was the slower end.
    void note_limits(const workload_line& line, const std::vector<std::string>& names,
                     const throughput_samples& found) {
        if (round_.spin && found.held_up > held_up_limit(0)) {
            to_.note(line.name + ": other programs kept client or server from running for " +
                     std::to_string(static_cast<int>(found.held_up * 100)) +
                     " % of the time; only the server time a request means much then");
            return;
        }
        std::string idle;
        for (std::size_t i = 0; i < names.size(); ++i)
            if (const double busy = found.busy[i] / static_cast<double>(site_.server_cores.size()); busy < 0.95)
                idle.append(idle.empty() ? "" : ", ")
                    .append(names[i])
                    .append(" (")
                    .append(std::to_string(static_cast<int>(busy * 100)))
                    .append(" % busy)");
        if (!idle.empty() && line.shape.connections > 1)
            to_.note(line.name + ": the client was the limit for " + idle +
                     "; there the server time a request tells more than requests/s");
    }

    void validate(const contestant& ours) {
        std::vector<std::string> names{"this client"};
        std::vector<found_tool> tools;
        for (const load_tool& each : load_tools()) try {
                tools.push_back({.tool = &each, .program = find_program(site_, each.name)});
                names.push_back(each.name);
            } catch (const unavailable&) {
                to_.skip(each.name, "it is not installed (packages/bench_http.txt)");
            }
        if (tools.empty()) return;
        round_options options = round_;
        options.duration = std::chrono::seconds(1);  // they count whole seconds
        to_.add(std::string(beside_tools), "requests/s", names, compare_with_tools(tools, site_, ours, options), true);
    }

    static constexpr std::string_view beside_tools = "load generator, JSON reply, 64 clients: requests";

    const suite_options& options_;
    workload::recorder& to_;
    const bool quick_;
    const std::vector<unsigned> usable_;  // never empty: this runs on one
    std::optional<scratch> scratch_;
    site site_;
    std::vector<unsigned> client_cores_;
    round_options round_;
    std::vector<subject> subjects_;
};

}  // namespace

std::vector<subject> all_subjects() {
    return {holdfast_net_epoll(),
            holdfast_net_io_uring(),
            holdfast_serve_epoll(),
            holdfast_serve_io_uring(),
            bare_loop(),
            nginx(),
            h2o(),
            boost_beast(),
            restinio(),
            go_net_http(),
            hyper(),
            may_minihttp()};
}

workload::suite http_suite(suite_options options, std::vector<subject> subjects) {
    return {.name = "http",
            .description =
                "our servers beside a bare loop, nginx, h2o, Boost.Beast, RESTinio, Go net/http, hyper and "
                "may_minihttp: requests, processor time, latency",
            .run = [options = std::move(options), subjects = std::move(subjects)](workload::recorder& to) {
                int signal = 0;
                {
                    const interruption_watch watch;
                    try {
                        suite_run(options, subjects, to).run();
                    } catch (const interrupted& e) {
                        signal = e.signal;
                    }
                }
                if (signal != 0) ::raise(signal);  // everything is cleaned up; now it does what it does to any program
                if (signal != 0) throw interrupted(signal);  // unless the program ignores it
            }};
}

workload::suite http_suite() {
    workload::suite lazy = http_suite({}, {});
    lazy.run = [](workload::recorder& to) { http_suite(options_from_environment(), all_subjects()).run(to); };
    return lazy;
}

}  // namespace holdfast::bench::http
