// SPDX-License-Identifier: Apache-2.0
// output_csv.cpp - results as RFC 4180, and as properties: both are flat lists of names and numbers.
#include <array>
#include <charconv>
#include <cmath>

#include "holdfast/perf_test/output.hpp"

namespace holdfast::perf_test {

namespace {

/// The shortest text that reads back as the same number; nothing for what is none.
[[nodiscard]] std::string text_of(double value) {
    if (!std::isfinite(value)) return {};
    std::array<char, 40> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

[[nodiscard]] std::string level_of(const result& r, double level) {
    const latency_result* const of = r.latency ? &*r.latency : r.rate ? &r.rate->response : nullptr;
    if (of != nullptr)
        for (const percentile& p : of->percentiles)
            if (std::fabs(p.level - level) < 1e-9) return text_of(p.estimate);
    return {};
}

/// Everything that is one number or text; empty values where there is none.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> fields_of(const result& r) {
    const summary& s = r.time;
    const auto number = [&r](double value) { return r.good() ? text_of(value) : std::string(); };
    const bool timed = r.good() && s.count != 0;
    const auto sample = [timed](double value) { return timed ? text_of(value) : std::string(); };
    return {{"count", r.good() ? std::to_string(r.count) : std::string()},
            {"seconds", number(r.seconds)},
            {"hz", number(r.hz())},
            {"samples", r.good() ? std::to_string(s.count) : std::string()},
            {"median_ns", sample(s.median)},
            {"median_low_ns", sample(s.median_95.low)},
            {"median_high_ns", sample(s.median_95.high)},
            {"mad_ns", sample(s.mad)},
            {"p05_ns", sample(s.p05)},
            {"p95_ns", sample(s.p95)},
            {"floor_ns", number(r.floor_ns)},
            {"call_p50_ns", r.good() ? level_of(r, 0.5) : std::string()},
            {"call_p99_ns", r.good() ? level_of(r, 0.99) : std::string()},
            {"call_p999_ns", r.good() ? level_of(r, 0.999) : std::string()},
            {"achieved_hz", r.good() && r.rate ? text_of(r.rate->achieved_hz) : std::string()}};
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
    for (const auto& [name, value] : fields_of(result{})) out.append(",").append(name);
    out += ",warnings,failure\r\n";
    for (const result& r : results) {
        out.append(quoted(r.suite)).append(",").append(quoted(r.name)).append(",").append(quoted(r.parameter));
        for (const auto& [name, value] : fields_of(r)) out.append(",").append(value);
        out.append(",").append(quoted(codes_of(r))).append(",").append(quoted(r.failure)).append("\r\n");
    }
    return out;
}

std::vector<std::pair<std::string, std::string>> properties_of(const result& found) {
    std::vector<std::pair<std::string, std::string>> all;
    const auto add = [&all](const std::string& name, const std::string& value) {
        if (!value.empty()) all.emplace_back(name, value);
    };
    if (found.good())
        for (const auto& [name, value] : fields_of(found)) add(name, value);
    for (const counter& c : found.counters)
        if (found.good()) add(c.name, text_of(c.per_operation));
    add("warnings", codes_of(found));
    add("failure", found.failure);
    return all;
}

}  // namespace holdfast::perf_test
