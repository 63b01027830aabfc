// SPDX-License-Identifier: Apache-2.0
// report_html.cpp - a run as one page: for each experiment bars, ratios, the distribution of the samples, and the
// table.
#include "perf_test/number_text.hpp"
#include "perf_test/plot.hpp"
#include "workload/report.hpp"

namespace holdfast::workload {

namespace {

namespace plot = perf_test::plot;
using perf_test::number_text;
using perf_test::ratio_text;
using plot::escaped;

[[nodiscard]] std::string element(std::string_view name, std::string_view text) {
    std::string out = "<";
    out.append(name).append(">").append(escaped(text)).append("</").append(name).append(">");
    return out;
}

/// Behind an interval that is none.
[[nodiscard]] std::string too_few(bool bounded) { return bounded ? "" : ", too few samples"; }

[[nodiscard]] std::string charts(const experiment_report& e, const perf_test::unit_scale& scale) {
    std::vector<plot::bar> bars;
    std::vector<plot::series> curves;
    std::vector<plot::legend_entry> names;
    for (std::size_t i = 0; i < e.subjects.size(); ++i) {
        const subject_report& s = e.subjects[i];
        const auto scaled = [&scale](double value) { return value / scale.divisor; };
        bars.push_back({.name = s.name,
                        .low = scaled(s.described.p05),
                        .value = scaled(s.described.median),
                        .high = scaled(s.described.p95),
                        .text = number_text(scaled(s.described.median)) + " " + scale.unit,
                        .colour = i});
        plot::series curve{s.name, {}, i};
        for (const double sample : s.samples) curve.values.push_back(scaled(sample));
        curves.push_back(std::move(curve));
        names.push_back({s.name, i});
    }
    std::string out = plot::bars(bars, e.full_name() + ": medians, with the 5th to 95th percentile", scale.unit);
    std::vector<plot::ratio_row> rows;
    for (const ratio_report& r : e.ratios)
        rows.push_back({"vs " + r.peer + too_few(r.bounded), r.range.low, r.ratio, r.range.high});
    if (!rows.empty())
        out += "<p class=\"faint\">Ratio of each peer to ours, with its 95 % interval</p>" +
               plot::ratios(rows, e.full_name() + ": ratios");
    const std::string curve = plot::ecdf(curves, e.full_name() + ": distribution of the samples", scale.unit);
    if (!curve.empty())
        out +=
            "<details open=\"open\"><summary>Distribution of the samples: the part that is at most so much</summary>" +
            plot::legend(names) + curve + "</details>\n";
    return out;
}

[[nodiscard]] std::string table(const experiment_report& e, const perf_test::unit_scale& scale) {
    std::string out = "<details><summary>Numbers</summary><div class=\"wide\"><table><thead><tr>";
    for (const std::string& heading :
         {std::string("subject"), "median, " + scale.unit, std::string("95 % interval"), std::string("p05"),
          std::string("p95"), std::string("runs"), std::string("ratio"), std::string("95 % interval")})
        out += element("th", heading);
    out += "</tr></thead><tbody>\n";
    for (const subject_report& s : e.subjects) {
        const auto text = [&scale](double value) { return number_text(value / scale.divisor); };
        out += "<tr>" + element("td", s.name) + element("td", text(s.described.median));
        out += element(
            "td", text(s.described.median_95.low) + " to " + text(s.described.median_95.high) + too_few(s.bounded));
        out += element("td", text(s.described.p05)) + element("td", text(s.described.p95));
        out += element("td", std::to_string(s.described.count));
        const ratio_report* ratio = nullptr;
        for (const ratio_report& r : e.ratios)
            if (r.peer == s.name) ratio = &r;
        out += element("td", ratio == nullptr ? "" : ratio_text(ratio->ratio));
        out += element("td", ratio == nullptr ? ""
                                              : ratio_text(ratio->range.low) + " to " + ratio_text(ratio->range.high) +
                                                    too_few(ratio->bounded));
        out += "</tr>\n";
    }
    return out + "</tbody></table></div></details>\n";
}

[[nodiscard]] std::string card(const experiment_report& e) {
    std::string out = "<section class=\"card\">" + element("h3", e.name);
    if (e.subjects.empty()) return out + "<p>Nothing was measured.</p></section>\n";
    const perf_test::unit_scale scale = perf_test::scale_for(e.unit, e.subjects.front().described.median);
    out += "<p class=\"faint\">" + escaped(scale.unit) + (e.higher_is_better ? ", more is better" : ", less is better");
    if (e.rounds != 0) out += ", " + std::to_string(e.rounds) + " rounds";
    if (e.disturbed_rounds != 0) out += ", " + std::to_string(e.disturbed_rounds) + " of them disturbed";
    out += "</p>\n" + charts(e, scale);
    for (const subject_report& s : e.subjects)
        for (const perf_test::warning& w : s.warnings) out += element("p", s.name + ": " + w.text);
    if (!e.published.empty()) {
        out += "<p>Published, measured on other machines and therefore not compared:</p><ul>";
        for (const published_figure& p : e.published)
            out += element("li", p.subject + ": " + number_text(p.value) + " " + p.unit + " (" + p.source + ")");
        out += "</ul>\n";
    }
    return out + table(e, scale) + "</section>\n";
}

[[nodiscard]] std::string machine_list(const report& all) {
    const machine_record& m = all.machine;
    std::string out = "<dl>";
    const auto add = [&out](std::string_view name, std::string_view value) {
        if (!value.empty()) out += element("dt", name) + element("dd", value);
    };
    add("machine", m.identity());
    add("system", m.kernel);
    add("compiler", m.compiler);
    add("build", m.build);
    for (const auto& [name, value] : m.conditions) add(name, value);
    add("begun", all.started);
    add("time", all.options.quick ? "cut short (--quick): for a first look, not for quoting"
                                  : number_text(all.options.seconds) + " s a subject and experiment");
    for (const auto& [subject, version] : all.versions) add(subject, version);
    out += "</dl>\n";
    if (m.warnings.empty()) return out;
    out += "<ul>";
    for (const std::string& text : m.warnings) out += element("li", text);
    return out + "</ul>\n";
}

[[nodiscard]] std::string texts(std::string_view title, const std::vector<suite_text>& all) {
    if (all.empty()) return {};
    std::string out = element("h2", title) + "<ul>";
    for (const suite_text& t : all)
        out += element("li", t.suite + ": " + (t.subject.empty() ? "" : t.subject + ": ") + t.text);
    return out + "</ul>\n";
}

}  // namespace

std::string html_text(const report& all) {
    std::string body =
        "<h1>Holdfast, measured</h1>\n<p class=\"faint\">Each experiment times its subjects in turn, round after "
        "round; a ratio is taken within rounds, and above 1 means that ours is better.</p>\n" +
        machine_list(all);
    body += texts("Failed", all.failures);
    std::string suite;
    for (const experiment_report& e : all.experiments) {
        if (e.suite != suite) body += element("h2", e.suite);
        suite = e.suite;
        body += card(e);
    }
    body += texts("Remarks", all.notes) + texts("Not run", all.skipped);
    return plot::page("Holdfast bench, " + all.started, body);
}

}  // namespace holdfast::workload
