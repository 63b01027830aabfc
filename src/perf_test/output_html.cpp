// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "holdfast/perf_test/complexity.hpp"
#include "holdfast/perf_test/output.hpp"
#include "perf_test/html_parts.hpp"
#include "perf_test/number_text.hpp"
#include "perf_test/plot.hpp"

namespace holdfast::perf_test {

namespace {

using plot::escaped;

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

/// Times of single calls under one name.
struct distribution {
    std::string name;
    const latency_result* times;
};

[[nodiscard]] std::string cell(const percentile& p) {
    std::string out = "<td>";
    out.append(escaped(time_text(p.estimate))).append("<br/><span class=\"faint\">");
    out.append(p.bounded ? time_text(p.lower).append(" to ").append(time_text(p.upper)) : "too few calls");
    return out.append("</span></td>");
}

/// A row a distribution: percentiles with the bounds that hold the true ones.
[[nodiscard]] std::string percentiles(const std::vector<distribution>& all) {
    std::string out = "<div class=\"wide\"><table><thead><tr><th>calls, with 95 % bounds</th>";
    for (const percentile& p : all.front().times->percentiles)
        out += element("th", number_text(p.level * 100).append(" %"));
    out += "<th>longest</th></tr></thead><tbody>";
    for (const distribution& one : all) {
        out.append("<tr>").append(element("td", one.name));
        for (const percentile& p : one.times->percentiles) out += cell(p);
        out.append(element("td", time_text(one.times->maximum))).append("</tr>");
    }
    return out + "</tbody></table></div>\n";
}

/// How many calls take longer than a time; empty for results that were made without a histogram.
[[nodiscard]] std::string tails(const std::vector<distribution>& all) {
    double typical = 0;
    for (const distribution& one : all)
        if (!one.times->percentiles.empty()) typical = std::max(typical, one.times->percentiles.front().estimate);
    const unit_scale scale = scale_for("ns", typical);
    std::vector<plot::tail> curves;
    std::vector<plot::legend_entry> names;
    for (const distribution& one : all) {
        plot::tail curve{one.name, {}, curves.size()};
        for (const call_bucket& b : one.times->histogram)
            curve.calls.push_back({b.high / scale.divisor, static_cast<double>(b.count)});
        names.push_back({one.name, curve.colour});
        curves.push_back(std::move(curve));
    }
    std::string chart = plot::tails(curves, "share of calls that take longer", scale.unit);
    if (chart.empty()) return chart;
    std::string out = element("p", "Share of calls that take longer than a time");
    if (names.size() > 1) out += plot::legend(names);
    return out + chart;
}

[[nodiscard]] std::string distributions(const std::vector<distribution>& all) {
    return all.empty() ? std::string() : percentiles(all) + tails(all);
}

[[nodiscard]] std::string rate_line(const rate_result& r) {
    std::string line = number_text(r.wanted_hz).append(" calls a second wanted, ");
    line.append(number_text(r.achieved_hz)).append(" achieved, ");
    line.append(r.arrival == arrivals::fixed ? "evenly spread" : "at random").append("; ");
    line.append(std::to_string(r.late_starts)).append(" began late, backlog at most ");
    line.append(std::to_string(r.backlog_max)).append(", never begun ").append(std::to_string(r.abandoned));
    return line.append(". Response: from the intended start of a call to its end; service: from the actual one");
}

[[nodiscard]] std::string name_of(const workers_result& w) {
    return std::to_string(w.workers)
        .append(w.processes ? " process" : " thread")
        .append(w.workers == 1 ? ""
                : w.processes  ? "es"
                               : "s");
}

/// A row a group.
[[nodiscard]] std::string groups(const std::vector<workers_result>& all) {
    std::string out =
        "<div class=\"wide\"><table><thead><tr><th>workers</th><th>together</th><th>a worker</th>"
        "<th>fastest to slowest worker</th></tr></thead><tbody>";
    for (const workers_result& w : all) {
        out.append("<tr>").append(element("td", name_of(w)));
        if (!w.failure.empty()) {
            out.append("<td colspan=\"3\">").append(escaped(w.failure)).append("</td></tr>");
            continue;
        }
        out += element("td", number_text(w.wall_hz).append(" a second"));
        out += element("td", time_text(w.per_worker_ns.median).append(" an operation"));
        out +=
            element("td", time_text(w.per_worker_ns.minimum).append(" to ").append(time_text(w.per_worker_ns.maximum)));
        out += "</tr>";
    }
    return out + "</tbody></table></div>\n";
}

[[nodiscard]] std::string scaling(const test_scaling& curve) {
    double most = 0, workers = 1;
    for (const workers_and_rate& p : curve.points) {
        most = std::max(most, p.hz);
        workers = std::max(workers, p.workers);
    }
    const unit_scale scale = scale_for("operations/s", most);
    plot::fitted chart{{}, {}, curve.processes ? "processes" : "threads", scale.unit};
    for (const workers_and_rate& p : curve.points) chart.measured.push_back({p.workers, p.hz / scale.divisor});
    const scalability_fit& f = curve.found;
    for (int i = 0; i <= 60; ++i) {
        const double n = 1 + (workers - 1) * i / 60;
        chart.law.push_back({n, f.rate * n / (1 + f.contention * (n - 1) + f.coherency * n * (n - 1)) / scale.divisor});
    }
    return element("p", std::string("Scaling: ").append(f.text)) + plot::fit(chart, "throughput by workers");
}

[[nodiscard]] std::string workers(const result& r) {
    if (r.workers.empty()) return {};
    std::string out = groups(r.workers);
    std::vector<distribution> calls;
    for (const workers_result& w : r.workers) {
        if (!w.failure.empty()) continue;
        if (w.latency) calls.push_back({name_of(w), &*w.latency});
        if (w.rate) {
            out += element("p", name_of(w).append(": ").append(rate_line(*w.rate)));
            calls.push_back({name_of(w).append(", response"), &w.rate->response});
            calls.push_back({name_of(w).append(", service"), &w.rate->service});
        }
    }
    out += distributions(calls);
    for (const test_scaling& curve : scaling_of(r)) out += scaling(curve);
    return out;
}

[[nodiscard]] std::string growth_card(const test_growth& curve) {
    double longest = 0, least = curve.points.front().n, most = least;
    for (const size_and_time& p : curve.points) {
        longest = std::max(longest, p.ns);
        least = std::min(least, p.n);
        most = std::max(most, p.n);
    }
    const unit_scale scale = scale_for("ns", longest);
    plot::fitted chart{{}, {}, "parameter", scale.unit};
    for (const size_and_time& p : curve.points) chart.measured.push_back({p.n, p.ns / scale.divisor});
    for (int i = 0; i <= 60; ++i) {
        const double n = least * std::pow(most / least, i / 60.0);
        chart.law.push_back({n, time_at(curve.found.best, n) / scale.divisor});
    }
    std::string out = "<section class=\"card\">";
    out += element("h3", std::string(curve.name).append(" by its parameter"));
    return out + element("p", std::string("Time grows with ").append(curve.found.text)) +
           plot::fit(chart, "time by parameter") + "</section>\n";
}

[[nodiscard]] std::string samples(const result& r) {
    std::string line = time_text(r.time.median).append(" an operation, 95 % interval ");
    line.append(time_text(r.time.median_95.low)).append(" to ").append(time_text(r.time.median_95.high));
    line.append(", ").append(std::to_string(r.time.count)).append(" samples");
    if (r.batch != 0) line.append(" of ").append(std::to_string(r.batch)).append(" operations");
    const unit_scale scale = scale_for("ns", r.time.median);
    plot::series curve{r.name, {}, 0};
    for (const double sample : r.samples) curve.values.push_back(sample / scale.divisor);
    return element("p", line) + plot::ecdf({curve}, "distribution of the samples", scale.unit);
}

[[nodiscard]] std::string card(const result& r) {
    std::string out = "<section class=\"card\">";
    out += element("h3", r.parameter.empty() ? r.name : std::string(r.name).append(", ").append(r.parameter));
    if (!r.good()) {
        out += "<p class=\"bad\">";
        return out.append("No valid number: ").append(escaped(r.failure)).append("</p></section>\n");
    }
    if (r.time.count != 0 && r.workers.empty()) out += samples(r);
    if (r.latency) out += distributions({{"a call", &*r.latency}});
    if (r.rate) {
        out += element("p", rate_line(*r.rate));
        out += distributions({{"response", &r.rate->response}, {"service", &r.rate->service}});
    }
    out += workers(r);
    for (const counter& c : r.counters)
        if (c.per_operation > 0 || c.source != "rusage")  // no switches and no faults is what one expects
            out += element(
                "p", std::string(c.name).append(": ").append(number_text(c.per_operation)).append(" an operation"));
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
    add("flags", run.where.build.flags);
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
    const std::vector<test_growth> curves = growth_of(run.results);
    std::vector<std::string> suites;
    const auto add_suite = [&suites](const std::string& name) {
        if (std::find(suites.begin(), suites.end(), name) == suites.end()) suites.push_back(name);
    };
    for (const result& r : run.results) add_suite(r.suite);
    for (const judgement& made : run.judgements) add_suite(made.suite);
    for (const std::string& suite : suites) {
        if (!suite.empty()) body += element("h2", suite);
        std::vector<const result*> timed;
        std::string cards;
        for (const result& other : run.results) {
            if (other.suite != suite) continue;
            if (other.good() && other.time.count != 0 && other.workers.empty()) timed.push_back(&other);
            cards += card(other);
        }
        if (timed.size() > 1) body += overview(timed);
        for (const test_growth& curve : curves)
            if (curve.suite == suite) body += growth_card(curve);
        body += verdicts_card(run.judgements, suite);
        body += cards;
    }
    return plot::page("Performance tests", body);
}

}  // namespace holdfast::perf_test
