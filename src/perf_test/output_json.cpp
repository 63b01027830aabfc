// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <span>

#include "holdfast/perf_test/complexity.hpp"
#include "holdfast/perf_test/output.hpp"
#include "holdfast/perf_test/statistics.hpp"
#include "holdfast/record/json_out.hpp"

namespace holdfast::perf_test {

namespace {

using holdfast::detail::json_out;

void append(json_out& out, const char* name, const interval& of) {
    out.key(name).begin_object().member("low", of.low).member("high", of.high).end_object();
}

/// `samples`: those that were summed up, in time order, where they were kept.
void append(json_out& out, const char* name, const summary& s, std::span<const double> samples = {}) {
    out.key(name).begin_object().member("count", s.count).member("minimum", s.minimum).member("p05", s.p05);
    out.member("p25", s.p25).member("median", s.median).member("p75", s.p75).member("p95", s.p95);
    out.member("maximum", s.maximum).member("mean", s.mean).member("geometric_mean", s.geometric_mean);
    out.member("deviation", s.deviation).member("mad", s.mad).member("variation", coefficient_of_variation(s));
    const bool are_numbers = std::all_of(samples.begin(), samples.end(), [](double x) { return std::isfinite(x); });
    if (!samples.empty() && are_numbers) {
        const double half_life = std::max(1.0, static_cast<double>(samples.size()) / 10);
        out.member("harmonic_mean", harmonic_mean(samples)).member("decayed_mean", decayed_mean(samples, half_life));
    }
    append(out, "median_95", s.median_95);
    const outlier_counts& o = s.outliers;
    out.key("outliers").begin_object().member("low_severe", o.low_severe).member("low_mild", o.low_mild);
    out.member("high_mild", o.high_mild).member("high_severe", o.high_severe).end_object();
    out.member("autocorrelation", s.autocorrelation).member("drift", s.drift).member("modes", s.modes).end_object();
}

void append(json_out& out, const char* name, const latency_result& l) {
    out.key(name).begin_object().member("count", l.count).member("minimum", l.minimum).member("mean", l.mean);
    out.member("maximum", l.maximum).key("percentiles").begin_array();
    for (const percentile& p : l.percentiles) {
        out.begin_object().member("level", p.level).member("estimate", p.estimate).member("lower", p.lower);
        out.member("upper", p.upper).member("bounded", p.bounded).end_object();
    }
    out.end_array().key("histogram").begin_array();
    for (const call_bucket& b : l.histogram) {
        out.begin_array();
        out.number(b.low);
        out.number(b.high);
        out.number(b.count);
        out.end_array();
    }
    out.end_array().end_object();
}

void append(json_out& out, const char* name, const rate_result& r) {
    out.key(name).begin_object().member("wanted_hz", r.wanted_hz).member("achieved_hz", r.achieved_hz);
    out.member("arrival", r.arrival == arrivals::fixed ? "fixed" : "poisson");
    out.member("pace", r.pace == pacing::spin ? "spin" : "sleep").member("seed", r.seed);
    out.member("late_starts", r.late_starts);
    out.member("backlog_max", r.backlog_max).member("abandoned", r.abandoned);
    out.member("start_error_ns", r.start_error_ns);
    append(out, "service", r.service);
    append(out, "response", r.response);
    out.end_object();
}

void append(json_out& out, const workers_result& w) {
    out.begin_object().member("workers", w.workers).member("processes", w.processes);
    out.member("failure", w.failure);
    if (w.failure.empty()) {
        out.member("count", w.count).member("seconds", w.seconds).member("wall_hz", w.wall_hz);
        out.member("start_spread_ns", w.start_spread_ns);
        append(out, "per_worker_ns", w.per_worker_ns);
        append(out, "batches", w.batches);
        if (w.latency) append(out, "latency", *w.latency);
        if (w.rate) append(out, "rate", *w.rate);
    }
    out.end_object();
}

void append_scaling(json_out& out, const result& r) {
    out.key("scaling").begin_array();
    for (const test_scaling& one : scaling_of(r)) {
        out.begin_object().member("processes", one.processes).member("rate", one.found.rate);
        out.member("contention", one.found.contention).member("coherency", one.found.coherency);
        out.member("relative_rms", one.found.relative_rms).member("best_workers", one.found.best_workers);
        out.member("limit", one.found.limit).member("efficiency", one.found.efficiency);
        out.member("efficiency_workers", one.found.efficiency_workers).member("text", one.found.text).end_object();
    }
    out.end_array();
}

void append(json_out& out, const test_growth& g) {
    out.begin_object().member("suite", g.suite).member("name", g.name).key("points").begin_array();
    for (const size_and_time& p : g.points) out.begin_object().member("n", p.n).member("ns", p.ns).end_object();
    out.end_array().member("shape", to_string(g.found.best.shape)).member("text", g.found.text);
    out.key("fits").begin_array();
    for (const growth_fit& f : g.found.fits) {
        out.begin_object().member("shape", to_string(f.shape)).member("factor", f.factor);
        append(out, "factor_95", f.factor_95);
        out.member("constant", f.constant).member("relative_rms", f.relative_rms);
        out.member("aicc", f.aicc).member("weight", f.weight).end_object();
    }
    out.end_array().end_object();
}

void append_numbers(json_out& out, const result& r) {
    out.member("count", r.count).member("seconds", r.seconds).member("hz", r.hz()).member("batch", r.batch);
    out.member("floor_ns", r.floor_ns);
    append(out, "time", r.time, r.samples);
    if (r.latency) append(out, "latency", *r.latency);
    if (r.rate) append(out, "rate", *r.rate);
    if (r.disturbed) {
        out.key("disturbed").begin_object().member("batches", r.disturbed->batches).member("rerun", r.disturbed->rerun);
        out.member("involuntary_switches", r.disturbed->involuntary_switches);
        out.member("steal_seconds", r.disturbed->steal_seconds).end_object();
    }
    out.key("workers").begin_array();
    for (const workers_result& w : r.workers) append(out, w);
    out.end_array();
    append_scaling(out, r);
    out.key("counters").begin_array();
    for (const counter& c : r.counters) {
        out.begin_object().member("name", c.name).member("per_operation", c.per_operation);
        out.member("source", c.source).end_object();
    }
    out.end_array().key("samples").begin_array();
    for (const double sample : r.samples) out.number(sample);
    out.end_array();
}

void append(json_out& out, const result& r) {
    out.begin_object().member("suite", r.suite).member("name", r.name).member("parameter", r.parameter);
    out.member("full_name", r.full_name())
        .member("pass", r.pass)
        .member("aborted", r.aborted)
        .member("failure", r.failure);
    if (r.good()) append_numbers(out, r);
    out.key("warnings").begin_array();
    for (const warning& w : r.warnings) out.begin_object().member("code", w.code).member("text", w.text).end_object();
    out.end_array().end_object();
}

void append(json_out& out, const judgement& j) {
    const auto add = [&out](const char* name, double value) {
        if (!std::isnan(value)) out.member(name, value);
    };
    out.begin_object().member("suite", j.suite).member("name", j.name).member("full_name", j.full_name());
    out.member("pass", j.pass).member("by", to_string(j.by)).member("subject", j.subject).member("passed", j.passed);
    out.member("verdict", j.outcome);
    add(j.is_ratio() ? "ratio" : "value", j.value);
    if (!std::isnan(j.range.low) && !std::isnan(j.range.high)) append(out, "interval", j.range);
    add("confidence", j.confidence);
    add("limit", j.limit);
    add("alpha", j.alpha);
    add("p_value", j.p_value);
    if (j.rounds != 0) out.member("rounds", j.rounds);
    out.member("text", j.text).end_object();
}

void append(json_out& out, const environment& e) {
    out.key("environment").begin_object().member("identity", identity_of(e)).member("cpu", e.cpu);
    out.member("cpus_online", e.cpus_online).member("cpus_usable", e.cpus_usable).member("governor", e.governor);
    out.member("boost", e.boost).member("smt", e.smt).member("huge_pages", e.huge_pages);
    out.member("address_layout", e.address_layout).member("load_average", e.load_average);
    out.member("steal_share", e.steal_share).member("virtualisation", e.virtualisation).member("kernel", e.kernel);
    out.member("machine", e.machine).member("memory_bytes", e.memory_bytes).member("revision", e.revision);
    out.member("clock", e.clock).key("build").begin_object().member("compiler", e.build.compiler);
    out.member("standard", e.build.standard).member("optimised", e.build.optimised);
    out.member("assertions", e.build.assertions).member("sanitizer", e.build.sanitizer);
    out.member("instructions", e.build.instructions).member("flags", e.build.flags).end_object();
    out.key("warnings").begin_array();
    for (const warning& w : warnings_of(e))
        out.begin_object().member("code", w.code).member("text", w.text).end_object();
    out.end_array().end_object();
}

}  // namespace

std::string identity_of(const environment& where) {
    const std::uint64_t gib = (where.memory_bytes + (1ULL << 29U)) >> 30U;
    std::string out = where.cpu;
    out.append(", ").append(std::to_string(where.cpus_usable)).append(" CPUs, ").append(std::to_string(gib));
    out.append(" GiB, ").append(where.machine).append(where.build.optimised ? ", optimised" : ", not optimised");
    if (!where.build.sanitizer.empty()) out.append(", ").append(where.build.sanitizer).append(" sanitizer");
    return out;
}

std::string to_json(const run_record& run) {
    std::string text;
    json_out out(text);
    out.begin_object().member("schema", "holdfast-perf_test").member("schema_version", json_schema_version);
    out.member("started", run.started);
    append(out, run.where);
    out.key("results").begin_array();
    for (const result& r : run.results) append(out, r);
    out.end_array().key("verdicts").begin_array();
    for (const judgement& made : run.judgements) append(out, made);
    out.end_array().key("growth").begin_array();
    for (const test_growth& curve : growth_of(run.results)) append(out, curve);
    out.end_array().end_object();
    text += '\n';
    return text;
}

}  // namespace holdfast::perf_test
