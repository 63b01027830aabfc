// SPDX-License-Identifier: Apache-2.0
// report_table.cpp - a run as text for people.
#include <algorithm>

#include "holdfast/record/json_out.hpp"
#include "perf_test/number_text.hpp"
#include "workload/report.hpp"

namespace holdfast::workload {

namespace {

using perf_test::number_text;
using perf_test::ratio_text;

struct painter {
    bool wanted;
    [[nodiscard]] std::string operator()(std::string_view code, std::string_view text) const {
        if (!wanted) return std::string(text);
        return "\033[" + std::string(code) + "m" + std::string(text) + "\033[0m";
    }
};

/// Foreign text for a terminal: everything but printable UTF-8 becomes \xHH.
[[nodiscard]] std::string plain(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t bytes = detail::utf8_bytes(text);
        const std::string_view character = text.substr(0, bytes == 0 ? 1 : bytes);
        text.remove_prefix(character.size());
        if (bytes != 0 && !detail::is_control(character, bytes)) {
            out += character;
            continue;
        }
        for (const char byte : character) {
            out += "\\x";
            detail::append_hex(out, static_cast<unsigned char>(byte));
        }
    }
    return out;
}

/// Characters, not bytes.
[[nodiscard]] std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

[[nodiscard]] std::string left(std::string_view text, std::size_t width) {
    return std::string(text) + std::string(width - std::min(width, width_of(text)), ' ');
}

[[nodiscard]] std::string right(std::string_view text, std::size_t width) {
    return std::string(width - std::min(width, width_of(text)), ' ') + std::string(text);
}

[[nodiscard]] const ratio_report* ratio_to(const experiment_report& experiment, std::string_view peer) {
    for (const ratio_report& r : experiment.ratios)
        if (r.peer == peer) return &r;
    return nullptr;
}

[[nodiscard]] std::string ratio_cell(const ratio_report& r, const painter& paint) {
    const std::string numbers = right(ratio_text(r.ratio), 6) + "  (" + ratio_text(r.range.low) + " to " +
                                ratio_text(r.range.high) + ")" + (r.paired ? "" : " unpaired");
    const char* const code = !r.bounded ? "2" : r.range.low > 1 ? "32" : r.range.high < 1 ? "31" : "2";
    const std::string_view word = !r.bounded         ? "too few samples"
                                  : r.range.low > 1  ? "ours is better"
                                  : r.range.high < 1 ? "ours is worse"
                                                     : "no difference seen";
    return paint(code, numbers + "  " + std::string(word));
}

[[nodiscard]] std::string bracketed(const std::string& text) { return std::string("[").append(text).append("]"); }

[[nodiscard]] std::string codes_of(const std::vector<perf_test::warning>& warnings) {
    std::string out;
    for (const perf_test::warning& w : warnings) out += (out.empty() ? "" : ", ") + plain(w.code);
    return out;
}

/// Each code that a table shows, with what it said first.
[[nodiscard]] std::string explanations(const report& all, const painter& paint) {
    std::vector<std::string> told;
    std::string out;
    for (const experiment_report& e : all.experiments)
        for (const subject_report& s : e.subjects)
            for (const perf_test::warning& w : s.warnings) {
                if (std::find(told.begin(), told.end(), w.code) != told.end()) continue;
                told.push_back(w.code);
                out += paint("33", bracketed(plain(w.code))) + " for example " + plain(s.name) + " in " +
                       plain(e.name) + ": " + plain(w.text) + "\n";
            }
    return out;
}

}  // namespace

std::string table_text(const experiment_report& experiment, bool colours) {
    const painter paint{colours};
    std::string out = paint("1", plain(experiment.full_name())) + "\n";
    if (experiment.subjects.empty()) return out + "  nothing was measured\n";
    const perf_test::unit_scale scale =
        perf_test::scale_for(experiment.unit, experiment.subjects.front().described.median);
    std::size_t names = 10;
    for (const subject_report& s : experiment.subjects) names = std::max(names, width_of(plain(s.name)));
    for (const published_figure& p : experiment.published) names = std::max(names, width_of(plain(p.subject)));
    names = std::min<std::size_t>(names, 60);
    out += paint("2", "  " + left("", names) + right(plain(scale.unit), 12) + "   " + left("p05 to p95", 20) +
                          "   ratio (95 %)") +
           "\n";
    for (const subject_report& s : experiment.subjects) {
        const auto text = [&scale](double value) { return number_text(value / scale.divisor); };
        out += "  " + left(plain(s.name), names) + right(text(s.described.median), 12) + "   ";
        out += left(text(s.described.p05) + " to " + text(s.described.p95), 20);
        if (const ratio_report* const r = ratio_to(experiment, s.name)) out += "   " + ratio_cell(*r, paint);
        while (out.back() == ' ') out.pop_back();
        if (!s.warnings.empty()) out += std::string("  ").append(paint("33", bracketed(codes_of(s.warnings))));
        out += '\n';
    }
    std::vector<std::string> sources;
    for (const published_figure& p : experiment.published) {
        const auto known = std::find(sources.begin(), sources.end(), p.source);
        const auto place = std::to_string(known - sources.begin() + 1);
        if (known == sources.end()) sources.push_back(p.source);
        const perf_test::unit_scale own = perf_test::scale_for(p.unit, p.value);
        out += paint("2", "  " + left(plain(p.subject), names) + right(number_text(p.value / own.divisor), 12) + " " +
                              plain(own.unit) + "   published, another machine [" + place + "]") +
               "\n";
    }
    for (std::size_t i = 0; i < sources.size(); ++i)
        out += paint("2",
                     std::string("  ").append(bracketed(std::to_string(i + 1))).append(" ").append(plain(sources[i]))) +
               "\n";
    return out;
}

std::string closing_text(const report& all, bool colours) {
    const painter paint{colours};
    std::string out = explanations(all, paint);
    for (const suite_text& t : all.notes) out += plain(t.suite) + ": " + plain(t.text) + "\n";
    for (const suite_text& t : all.skipped)
        out += plain(t.suite) + ": " + paint("33", plain(t.subject) + " was not run") + ": " + plain(t.text) + "\n";
    for (const suite_text& t : all.failures)
        out += paint("31", plain(t.suite) + " failed") + ": " + plain(t.text) + "\n";
    if (!all.versions.empty()) {
        std::string versions;
        for (const auto& [subject, version] : all.versions)
            versions += (versions.empty() ? "" : ", ") + plain(subject) + " " + plain(version);
        out += paint("2", "versions: " + versions) + "\n";
    }
    out += paint("2", "machine: " + plain(all.machine.identity()) + ", " + plain(all.machine.kernel)) + "\n";
    for (const std::string& text : all.machine.warnings) out += paint("33", "mind: " + plain(text)) + "\n";
    return out;
}

}  // namespace holdfast::workload
