// SPDX-License-Identifier: Apache-2.0
// output_csv.cpp - results as RFC 4180, and as properties: both are flat lists of names and numbers.
#include <array>
#include <charconv>
#include <cmath>

#include "holdfast/perf_test/complexity.hpp"
#include "holdfast/perf_test/output.hpp"

namespace holdfast::perf_test {

namespace {

/// The shortest text that reads back as the same number; nothing for what is none.
[[nodiscard]] std::string cell_of(double value) {
    if (!std::isfinite(value)) return {};
    std::array<char, 40> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// What a row tells: a test that ran alone, or one of its groups of workers.
struct measurement {
    const result& test;
    const workers_result* group = nullptr;

    [[nodiscard]] bool good() const { return test.good() && (group == nullptr || group->failure.empty()); }
    [[nodiscard]] const std::string& failure() const {
        return group != nullptr && !group->failure.empty() ? group->failure : test.failure;
    }
    [[nodiscard]] const summary& batches() const { return group != nullptr ? group->batches : test.time; }
    [[nodiscard]] const latency_result* service() const {
        const auto& latency = group != nullptr ? group->latency : test.latency;
        const rate_result* const paced = rate();
        return latency ? &*latency : paced != nullptr ? &paced->service : nullptr;
    }
    [[nodiscard]] const rate_result* rate() const {
        const auto& paced = group != nullptr ? group->rate : test.rate;
        return paced ? &*paced : nullptr;
    }
};

[[nodiscard]] std::vector<measurement> measurements_of(const result& test) {
    if (test.workers.empty()) return {{test, nullptr}};
    std::vector<measurement> all;
    for (const workers_result& group : test.workers) all.push_back({test, &group});
    return all;
}

[[nodiscard]] std::string level_of(const latency_result* of, double level) {
    if (of != nullptr)
        for (const percentile& p : of->percentiles)
            if (std::fabs(p.level - level) < 1e-9) return cell_of(p.estimate);
    return {};
}

using fields = std::vector<std::pair<std::string, std::string>>;

/// Percentiles of single calls: what a client waited where there was a schedule, else the call alone.
void add_calls(const measurement& m, fields& all) {
    const rate_result* const rate = m.good() ? m.rate() : nullptr;
    const latency_result* const service = m.good() ? m.service() : nullptr;
    const latency_result* const calls = rate != nullptr ? &rate->response : service;
    all.emplace_back("call_p50_ns", level_of(calls, 0.5));
    all.emplace_back("call_p99_ns", level_of(calls, 0.99));
    all.emplace_back("call_p999_ns", level_of(calls, 0.999));
    all.emplace_back("achieved_hz", rate != nullptr ? cell_of(rate->achieved_hz) : std::string());
    all.emplace_back("service_p50_ns", level_of(service, 0.5));
    all.emplace_back("service_p99_ns", level_of(service, 0.99));
    all.emplace_back("service_p999_ns", level_of(service, 0.999));
}

/// Everything that is one number or text; empty values where there is none.
[[nodiscard]] fields fields_of(const measurement& m) {
    const summary& s = m.batches();
    const workers_result* const group = m.group;
    const auto number = [&m](double value) { return m.good() ? cell_of(value) : std::string(); };
    const auto whole = [&m](std::uint64_t value) { return m.good() ? std::to_string(value) : std::string(); };
    const bool timed = m.good() && s.count != 0;
    const auto sample = [timed](double value) { return timed ? cell_of(value) : std::string(); };
    fields all{{"count", whole(group != nullptr ? group->count : m.test.count)},
               {"seconds", number(group != nullptr ? group->seconds : m.test.seconds)},
               {"hz", number(group != nullptr ? group->wall_hz : m.test.hz())},
               {"samples", whole(s.count)},
               {"median_ns", sample(s.median)},
               {"median_low_ns", sample(s.median_95.low)},
               {"median_high_ns", sample(s.median_95.high)},
               {"mad_ns", sample(s.mad)},
               {"p05_ns", sample(s.p05)},
               {"p95_ns", sample(s.p95)},
               {"floor_ns", number(m.test.floor_ns)}};
    add_calls(m, all);
    all.emplace_back("threads", group != nullptr && !group->processes ? std::to_string(group->workers) : std::string());
    all.emplace_back("processes",
                     group != nullptr && group->processes ? std::to_string(group->workers) : std::string());
    all.emplace_back("worker_ns", group != nullptr ? number(group->per_worker_ns.median) : std::string());
    return all;
}

[[nodiscard]] std::string quoted(const std::string& text) {
    if (text.find_first_of("\",\r\n") == std::string::npos) return text;
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"') out += '"';
        out += c;
    }
    out += '"';
    return out;
}

[[nodiscard]] std::string codes_of(const result& r) {
    std::string out;
    for (const warning& w : r.warnings) {
        if (!out.empty()) out += ' ';
        out += w.code;
    }
    return out;
}

}  // namespace

std::string to_csv(std::span<const result> results) {
    std::string out = "suite,name,parameter";
    const result none;
    for (const auto& [name, value] : fields_of({none, nullptr})) out.append(",").append(name);
    out += ",warnings,failure\r\n";
    for (const result& r : results)
        for (const measurement& m : measurements_of(r)) {
            out.append(quoted(r.suite)).append(",").append(quoted(r.name)).append(",").append(quoted(r.parameter));
            for (const auto& [name, value] : fields_of(m)) out.append(",").append(value);
            out.append(",").append(quoted(codes_of(r))).append(",").append(quoted(m.failure())).append("\r\n");
        }
    return out;
}

std::vector<std::pair<std::string, std::string>> properties_of(const result& found) {
    fields all;
    const auto add = [&all](const std::string& name, const std::string& value) {
        if (!value.empty()) all.emplace_back(name, value);
    };
    for (const measurement& m : measurements_of(found)) {
        if (!found.good()) break;
        std::string group;
        if (m.group != nullptr)
            group.append(m.group->processes ? "processes_" : "threads_")
                .append(std::to_string(m.group->workers))
                .append("_");
        for (const auto& [name, value] : fields_of(m))
            if (name != "threads" && name != "processes") add(group + name, value);
    }
    for (const counter& c : found.counters)
        if (found.good()) add(c.name, cell_of(c.per_operation));
    for (const test_scaling& one : scaling_of(found)) {
        const std::string group = one.processes ? "processes_" : "threads_";
        add(group + "contention", cell_of(one.found.contention));
        add(group + "coherency", cell_of(one.found.coherency));
        add(group + "efficiency", cell_of(one.found.efficiency));
    }
    add("warnings", codes_of(found));
    add("failure", found.failure);
    return all;
}

}  // namespace holdfast::perf_test
