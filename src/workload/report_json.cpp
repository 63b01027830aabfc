// SPDX-License-Identifier: Apache-2.0
// report_json.cpp - the file form of a run. Its three members machine, results and ratios are a public format:
// docs/bench.md. No number in it is ever NaN or infinite: what is not finite is left out with its whole entry.
#include <cmath>

#include "holdfast/record/json_out.hpp"
#include "workload/report.hpp"

namespace holdfast::workload {

namespace {

using detail::json_out;

void append(json_out& out, const machine_record& machine) {
    out.key("machine").begin_object();
    out.member("name", machine.name).member("cpu", machine.cpu).member("cpus", machine.cpus);
    out.member("memory_bytes", machine.memory_bytes).member("kernel", machine.kernel);
    out.member("compiler", machine.compiler).member("build", machine.build).member("identity", machine.identity());
    out.key("conditions").begin_object();
    for (const auto& [name, value] : machine.conditions) out.member(name, value);
    out.end_object().key("warnings").begin_array();
    for (const std::string& text : machine.warnings) out.string(text);
    out.end_array().end_object();
}

[[nodiscard]] bool all_finite(const perf_test::summary& s) {
    return std::isfinite(s.median) && std::isfinite(s.p05) && std::isfinite(s.p95);
}

void append(json_out& out, const experiment_report& experiment, const subject_report& subject) {
    const perf_test::summary& s = subject.described;
    if (s.count == 0 || !all_finite(s)) return;
    out.begin_object().member("name", experiment.full_name()).member("subject", subject.name);
    out.member("unit", experiment.unit).member("median", s.median).member("p05", s.p05).member("p95", s.p95);
    out.member("runs", s.count);
    if (subject.bounded && std::isfinite(s.median_95.low) && std::isfinite(s.median_95.high))
        out.member("median_low", s.median_95.low).member("median_high", s.median_95.high);
    out.member("batch", subject.batch).member("higher_is_better", experiment.higher_is_better);
    out.key("warnings").begin_array();
    for (const perf_test::warning& w : subject.warnings) out.string(w.code + ": " + w.text);
    out.end_array().end_object();
}

void append(json_out& out, const experiment_report& experiment, const ratio_report& r) {
    if (!std::isfinite(r.ratio) || !std::isfinite(r.range.low) || !std::isfinite(r.range.high)) return;
    out.begin_object().member("name", experiment.full_name()).member("subject", r.subject).member("peer", r.peer);
    out.member("ratio", r.ratio).member("low", r.range.low).member("high", r.range.high).member("paired", r.paired);
    out.member("bounded", r.bounded).end_object();
}

void append(json_out& out, const char* name, const std::vector<suite_text>& texts) {
    out.key(name).begin_array();
    for (const suite_text& t : texts) {
        out.begin_object().member("suite", t.suite);
        if (!t.subject.empty()) out.member("subject", t.subject);
        out.member("text", t.text).end_object();
    }
    out.end_array();
}

void append_published(json_out& out, const report& all) {
    out.key("published").begin_array();
    for (const experiment_report& e : all.experiments)
        for (const published_figure& p : e.published) {
            if (!std::isfinite(p.value)) continue;
            out.begin_object().member("name", e.full_name()).member("subject", p.subject).member("value", p.value);
            out.member("unit", p.unit).member("source", p.source).end_object();
        }
    out.end_array();
}

void append_experiments(json_out& out, const report& all) {
    out.key("experiments").begin_array();
    for (const experiment_report& e : all.experiments) {
        out.begin_object().member("name", e.full_name()).member("suite", e.suite).member("rounds", e.rounds);
        // As text: a reader that keeps numbers as double would change a seed of 64 bits.
        out.member("disturbed_rounds", e.disturbed_rounds).member("seed", std::to_string(e.seed)).end_object();
    }
    out.end_array();
}

}  // namespace

std::string json_text(const report& all) {
    std::string text;
    json_out out(text);
    out.begin_object().member("schema", "holdfast-bench").member("schema_version", 1);
    append(out, all.machine);
    out.key("results").begin_array();
    for (const experiment_report& e : all.experiments)
        for (const subject_report& s : e.subjects) append(out, e, s);
    out.end_array().key("ratios").begin_array();
    for (const experiment_report& e : all.experiments)
        for (const ratio_report& r : e.ratios) append(out, e, r);
    out.end_array();
    out.member("started", all.started).member("quick", all.options.quick);
    if (std::isfinite(all.options.seconds)) out.member("seconds", all.options.seconds);
    if (!all.options.filter.empty()) out.member("filter", all.options.filter);
    append_published(out, all);
    append_experiments(out, all);
    out.key("versions").begin_object();
    for (const auto& [subject, version] : all.versions) out.member(subject, version);
    out.end_object();
    append(out, "skipped", all.skipped);
    append(out, "notes", all.notes);
    append(out, "failures", all.failures);
    out.end_object();
    return text + "\n";
}

}  // namespace holdfast::workload
