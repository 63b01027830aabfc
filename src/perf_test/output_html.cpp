// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "holdfast/perf_test/output.hpp"
#include "perf_test/number_text.hpp"
#include "perf_test/plot.hpp"

namespace holdfast::perf_test {

namespace {

using plot::escaped;

[[nodiscard]] std::string element(std::string_view name, std::string_view text) {
    std::string out = "<";
    out.append(name).append(">").append(escaped(text)).append("</").append(name).append(">");
    return out;
}

[[nodiscard]] std::string time_text(double ns) {
    const unit_scale scale = scale_for("ns", ns);
    return number_text(ns / scale.divisor).append(" ").append(scale.unit);
}

/// Medians of the tests of one suite beside each other.
[[nodiscard]] std::string overview(const std::vector<const result*>& tests) {
    std::vector<plot::bar> bars;
    double typical = 0;
    for (const result* const r : tests) typical = std::max(typical, r->time.median);
    const unit_scale scale = scale_for("ns", typical);
    for (const result* const r : tests)
        bars.push_back({.name = r->name,
                        .low = r->time.p05 / scale.divisor,
                        .value = r->time.median / scale.divisor,
                        .high = r->time.p95 / scale.divisor,
                        .text = time_text(r->time.median),
                        .colour = 0});
    return plot::bars(bars, "medians, with the 5th to 95th percentile", scale.unit);
}

[[nodiscard]] std::string percentiles(const latency_result& l, std::string_view title) {
    std::string out = element("p", title);
    out += "<div class=\"wide\"><table><thead><tr><th>level</th><th>time</th><th>bounds</th></tr></thead><tbody>";
    for (const percentile& p : l.percentiles) {
        out += "<tr>";
        out += element("td", number_text(p.level * 100).append(" %")) + element("td", time_text(p.estimate));
        out +=
            element("td", p.bounded ? time_text(p.lower).append(" to ").append(time_text(p.upper)) : "too few calls");
        out += "</tr>";
    }
    return out + "</tbody></table></div>\n";
}

[[nodiscard]] std::string card(const result& r) {
    std::string out = "<section class=\"card\">";
    out += element("h3", r.parameter.empty() ? r.name : std::string(r.name).append(", ").append(r.parameter));
    if (!r.good()) {
        out += "<p class=\"bad\">";
        return out.append("No valid number: ").append(escaped(r.failure)).append("</p></section>\n");
    }
    if (r.time.count != 0) {
        std::string line = time_text(r.time.median).append(" an operation, 95 % interval ");
        line.append(time_text(r.time.median_95.low)).append(" to ").append(time_text(r.time.median_95.high));
        line.append(", ").append(std::to_string(r.time.count)).append(" samples of ");
        line.append(std::to_string(r.batch)).append(" operations");
        out += element("p", line);
        const unit_scale scale = scale_for("ns", r.time.median);
        plot::series curve{r.name, {}, 0};
        for (const double sample : r.samples) curve.values.push_back(sample / scale.divisor);
        out += plot::ecdf({curve}, "distribution of the samples", scale.unit);
    }
    if (r.latency) out += percentiles(*r.latency, "Single calls");
    if (r.rate) out += percentiles(r.rate->response, "From the intended start of a call to its end");
    for (const counter& c : r.counters)
        out +=
            element("p", std::string(c.name).append(": ").append(number_text(c.per_operation)).append(" an operation"));
    for (const warning& w : r.warnings) out += element("p", std::string(w.code).append(": ").append(w.text));
    return out + "</section>\n";
}

[[nodiscard]] std::string environment_list(const run_record& run) {
    std::string out = "<dl>";
    const auto add = [&out](std::string_view name, std::string_view value) {
        if (!value.empty()) out += element("dt", name) + element("dd", value);
    };
    add("machine", identity_of(run.where));
    add("system", run.where.kernel);
    add("compiler", run.where.build.compiler);
    add("governor", run.where.governor);
    add("virtualisation", run.where.virtualisation);
    add("revision", run.where.revision);
    add("begun", run.started);
    out += "</dl>\n";
    for (const warning& w : warnings_of(run.where)) out += element("p", w.text);
    return out;
}

}  // namespace

std::string to_html(const run_record& run) {
    std::string body = "<h1>Performance tests</h1>\n";
    body += environment_list(run);
    std::vector<std::string> suites;
    for (const result& r : run.results) {
        if (std::find(suites.begin(), suites.end(), r.suite) != suites.end()) continue;
        suites.push_back(r.suite);
        body += element("h2", r.suite);
        std::vector<const result*> timed;
        std::string cards;
        for (const result& other : run.results) {
            if (other.suite != r.suite) continue;
            if (other.good() && other.time.count != 0) timed.push_back(&other);
            cards += card(other);
        }
        if (timed.size() > 1) body += overview(timed);
        body += cards;
    }
    return plot::page("Performance tests", body);
}

}  // namespace holdfast::perf_test
