// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "perf_test/html_parts.hpp"

namespace holdfast::perf_test {
namespace {

[[nodiscard]] std::string short_text(double value) {
    if (!std::isfinite(value)) return {};
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%.3g", value);
    return text.data();
}

/// A ratio, or a time. Limits may be of other things than times, so these have no unit of their own.
[[nodiscard]] std::string value_text(const judgement& made, double value) {
    if (!std::isfinite(value)) return {};
    return made.is_ratio() ? ratio_text(value) : number_text(value);
}

[[nodiscard]] std::string range_text(const judgement& made) {
    if (!(made.range.low < made.range.high) || !std::isfinite(made.confidence)) return {};
    const auto end = [&made](double value) {
        return std::isfinite(value) ? value_text(made, value) : std::string("unknown");
    };
    std::string text = end(made.range.low).append(" to ").append(end(made.range.high));
    return text.append(" (").append(short_text(made.confidence * 100)).append(" %)");
}

[[nodiscard]] std::string row(const judgement& made) {
    std::string out = "<tr><td>";
    out.append(plot::escaped(made.name)).append("<br/>").append(plot::escaped(made.subject));
    out.append("<br/><span class=\"faint\">").append(plot::escaped(made.text)).append("</span></td>");
    out.append(element("td", to_string(made.by)));
    out.append(made.passed ? "<td>" : "<td class=\"bad\">").append(plot::escaped(made.outcome)).append("</td>");
    for (const std::string& text : {value_text(made, made.value), range_text(made), value_text(made, made.limit),
                                    short_text(made.alpha), short_text(made.p_value)})
        out += element("td", text);
    return out.append("</tr>\n");
}

}  // namespace

std::string verdicts_card(std::span<const judgement> all, std::string_view suite) {
    std::string rows;
    std::vector<plot::ratio_row> ratios;
    for (const judgement& made : all) {
        if (made.suite != suite) continue;
        rows += row(made);
        // Of a ratio that somebody claimed it is not known which side is the good one.
        if (made.is_ratio() && made.by != judged_by::ratio)
            ratios.push_back({std::string(made.name).append(": ").append(made.subject), made.range.low, made.value,
                              made.range.high});
    }
    if (rows.empty()) return {};
    std::string out = "<section class=\"card\">";
    out += element("h3", "Verdicts");
    out +=
        "<div class=\"wide\"><table><thead><tr><th>test and what it says</th><th>kind</th><th>verdict</th>"
        "<th>ratio or value</th><th>interval</th><th>limit</th><th>alpha</th><th>p</th></tr></thead><tbody>";
    out.append(rows).append("</tbody></table></div>\n");
    return out + plot::ratios(ratios, "time now over time before", {"above 1: slower now", true}) + "</section>\n";
}

}  // namespace holdfast::perf_test
