// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/load_server.hpp"

#include <signal.h>
#include <sys/prctl.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "inspect/json_out.hpp"
#include "inspect/metrics_reader.hpp"
#include "workload/command.hpp"
#include "workload/http_load/interruption.hpp"
#include "workload/http_load/load_generator.hpp"
#include "workload/http_load/load_url.hpp"

namespace holdfast::cli {

namespace {

using workload::http::load_failures;
using workload::http::load_outcome;

constexpr std::array<std::pair<const char*, double>, 4> levels{
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}}};

std::vector<std::pair<const char*, std::uint64_t>> kinds_of(const load_failures& all) {
    return {{"refused", all.refused},     {"closed", all.closed},     {"reset", all.reset},
            {"timed_out", all.timed_out}, {"not_sent", all.not_sent}, {"unreadable", all.unreadable}};
}

double rate_of(const load_outcome& found) { return static_cast<double>(found.answers) / found.seconds; }

/// Microseconds of the client's processor time a request.
double client_cost(const load_outcome& found) {
    return static_cast<double>(found.cpu_ns) * 1e-3 / static_cast<double>(found.answers);
}

double late_share(const load_outcome& found) {
    return found.starts == 0 ? 0 : static_cast<double>(found.late) / static_cast<double>(found.starts);
}

void print_json(const http_load_options& chosen, const load_outcome& found) {
    std::string text;
    inspect::json_out out(text);
    out.begin_object().member("url", chosen.url).member("connections", chosen.connections);
    out.member("pipeline", chosen.pipeline).member("rate_hz", chosen.rate_hz).member("seconds", found.seconds);
    out.member("answers", found.answers).member("requests_per_second", rate_of(found));
    out.key("statuses").begin_object();
    for (const auto& [code, count] : found.statuses) out.member(std::to_string(code), count);
    out.end_object().key("errors").begin_object();
    for (const auto& [kind, count] : kinds_of(found.failures)) out.member(kind, count);
    out.end_object().key("latency_ns").begin_object().member("count", found.latency_ns.total());
    for (const auto& [name, level] : levels)
        if (const auto q = found.latency_ns.quantile(level))
            out.key(name)
                .begin_object()
                .member("estimate", q->estimate)
                .member("lower", q->lower)
                .member("upper", q->upper)
                .end_object();
    if (found.latency_ns.total() > 0) out.member("max", found.latency_ns.greatest_noted());
    inspect::append_buckets(out, found.latency_ns);
    out.end_object();
    if (found.answers > 0) out.member("client_cpu_us_per_request", client_cost(found));
    if (chosen.rate_hz > 0) out.member("late_share", late_share(found));
    out.end_object();
    put(text + "\n");
}

std::string statuses_text(const load_outcome& found) {
    std::string text;
    for (const auto& [code, count] : found.statuses) text += format("{}{}: {}", text.empty() ? "" : ", ", code, count);
    return text.empty() ? "none" : text;
}

std::string errors_text(const load_failures& all) {
    std::string text;
    for (const auto& [kind, count] : kinds_of(all)) {
        if (count == 0) continue;
        std::string name(kind);
        if (const std::size_t at = name.find('_'); at != std::string::npos) name[at] = ' ';
        text += format("{}{}: {}", text.empty() ? "" : ", ", name, count);
    }
    return text.empty() ? "none" : text;
}

std::string latency_text(const load_outcome& found) {
    std::string text;
    for (const auto& [name, level] : levels)
        if (const auto q = found.latency_ns.quantile(level))
            text += format("{} {:.1f} us ({:.1f} to {:.1f}), ", name, q->estimate * 1e-3,
                           static_cast<double>(q->lower) * 1e-3, static_cast<double>(q->upper) * 1e-3);
    if (text.empty()) return "nothing was answered";
    return text + format("greatest {:.1f} us", static_cast<double>(found.latency_ns.greatest_noted()) * 1e-3);
}

void print_text(const http_load_options& chosen, const load_outcome& found) {
    text_list lines;
    lines.add("asked", format("{}, {} connections, {} under way on each, {:.1f} s", chosen.url, chosen.connections,
                              chosen.pipeline, found.seconds));
    lines.add("answers", format("{}, {:.1f} a second{}", found.answers, rate_of(found),
                                chosen.rate_hz > 0 ? format(" of {} asked for", chosen.rate_hz) : ""));
    lines.add("statuses", statuses_text(found));
    lines.add("errors", errors_text(found.failures));
    lines.add("latency", latency_text(found));
    if (found.answers > 0) lines.add("client", format("{:.2f} us of its processor time a request", client_cost(found)));
    if (chosen.rate_hz > 0)
        lines.add("late starts", format("{:.2f} %, sent more than 50 us behind the schedule by the client itself{}",
                                        late_share(found) * 100,
                                        late_share(found) > 0.01 ? ": the latencies are too long by that" : ""));
    lines.print();
}

void check(std::uint64_t value, std::uint64_t least, std::uint64_t most, const char* option) {
    if (value < least || value > most)
        throw workload::usage_error(format("{}: is a number from {} to {}", option, least, most));
}

workload::http::load_plan plan_of(const http_load_options& chosen, const workload::http::load_url& url) {
    workload::http::load_plan plan;
    plan.server = url.server;
    plan.tolerant = true;
    plan.connections = static_cast<unsigned>(chosen.connections);
    plan.pipeline = static_cast<unsigned>(chosen.pipeline);
    plan.rate_hz = static_cast<double>(chosen.rate_hz);
    plan.duration = std::chrono::seconds(chosen.seconds);
    plan.spin = false;
    return plan;
}

}  // namespace

int load_server(const http_load_options& chosen) {
    check(chosen.connections, 1, 100'000, "--connections");
    check(chosen.pipeline, 1, 256, "--pipeline");
    check(chosen.seconds, 1, 86'400, "--duration");
    check(chosen.rate_hz, 0, 10'000'000, "--rate");
    const workload::http::load_url url = workload::http::parse_load_url(chosen.url);
    (void)::prctl(PR_SET_TIMERSLACK, 1000UL);  // else the kernel wakes us up to 50 us late
    std::optional<load_outcome> found;
    int signal = 0;
    {
        const workload::http::interruption_watch watch;
        try {
            found = workload::http::run_load(plan_of(chosen, url), {{.request = url.request(), .body = {}}});
        } catch (const workload::http::interrupted& e) {
            signal = e.signal;
        } catch (const workload::http::server_failed& e) {  // before anything was asked
            say(chosen.url + ": " + e.what() + "; start the server, or name the address that it listens on");
            return failed;
        }
    }
    if (signal != 0) ::raise(signal);
    if (!found) return failed;
    if (chosen.json)
        print_json(chosen, *found);
    else
        print_text(chosen, *found);
    return found->answers > 0 ? success : negative;
}

}  // namespace holdfast::cli
