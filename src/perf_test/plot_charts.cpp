// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "perf_test/number_text.hpp"
#include "perf_test/plot.hpp"
#include "perf_test/plot_axis.hpp"
#include "perf_test/plot_svg.hpp"

namespace holdfast::perf_test::plot {

namespace {

/// Room for the longest name; a longer one than that is cut with its whole in the tooltip.
template <class Row>
[[nodiscard]] double label_room(const std::vector<Row>& all) {
    std::size_t longest = 0;
    for (const Row& row : all) longest = std::max(longest, row.name.size());
    return std::clamp(static_cast<double>(longest) * 7.2 + 14, 60.0, 300.0);
}

[[nodiscard]] std::string label(double y, double room, const std::string& name) {
    const auto fits = static_cast<std::size_t>((room - 14) / 7.2);
    std::string shown = name;
    if (shown.size() > fits + 1) {
        shown.resize(fits > 3 ? fits - 1 : 2);
        while (!shown.empty() && (static_cast<unsigned char>(shown.back()) & 0xc0U) == 0x80U) shown.pop_back();
        if (!shown.empty() && static_cast<unsigned char>(shown.back()) >= 0xc0U) shown.pop_back();
        shown += "\u2026";
    }
    return text_at(room - 8, y + 4.5, "end", "", shown);
}

}  // namespace

std::string bars(const std::vector<bar>& given, std::string_view title, std::string_view unit) {
    std::vector<bar> all;
    double most = 0;
    for (const bar& b : given)
        if (std::isfinite(b.low) && std::isfinite(b.value) && std::isfinite(b.high)) {
            all.push_back(b);
            most =
                std::max({most, b.value, std::min(b.high, 3 * b.value)});  // a wild whisker does not squeeze the bars
        }
    if (all.empty()) return {};
    if (most <= 0) most = 1;
    constexpr double row = 30;
    const double room = label_room(all), bottom = row * static_cast<double>(all.size()) + 6;
    const axis x{.low = 0, .high = most, .begin = room, .end = width - 150};
    std::string out = begin(bottom + 40, title) + scale(x, 2, bottom, unit);
    double y = 6;
    for (const bar& b : all) {
        const double middle = y + row / 2 - 3;
        out += "<g>" + tooltip(b.name + ": " + b.text) + label(middle, room, b.name);
        out += "<rect class=\"f" + std::to_string(b.colour % 8) + "\" x=\"" + coordinate(room) + "\" y=\"" +
               coordinate(y) + "\" width=\"" + coordinate(std::max(0.5, x.at(b.value) - room)) + "\" height=\"" +
               coordinate(row - 8) + "\" rx=\"2\" opacity=\"0.85\"/>\n";
        out += line(x.at(b.low), middle + 1, x.at(b.high), middle + 1, "whisker");
        out += line(x.at(b.low), middle - 4, x.at(b.low), middle + 6, "whisker");
        if (b.high <= most) {
            out += line(x.at(b.high), middle - 4, x.at(b.high), middle + 6, "whisker");
        } else {  // an arrow: it ends beyond the chart
            out += line(x.end - 5, middle - 4, x.end, middle + 1, "whisker");
            out += line(x.end - 5, middle + 6, x.end, middle + 1, "whisker");
        }
        out += text_at(std::max(x.at(b.value), x.at(b.high)) + 8, middle + 5.5, "start", "", b.text) + "</g>\n";
        y += row;
    }
    return out + line(room, 2, room, bottom, "axis") + std::string(finish);
}

namespace {

[[nodiscard]] std::string curve(const std::vector<double>& sorted, const axis& x, const axis& y, std::size_t colour,
                                std::string_view name) {
    constexpr std::size_t points_max = 240;
    std::string path;
    const std::size_t n = sorted.size(), step = std::max<std::size_t>(1, n / points_max);
    double before = 0;
    for (std::size_t i = 0; i < n; i += step) {
        const double value = sorted[i];
        if (value > x.high) break;
        const double part = static_cast<double>(i + 1) / static_cast<double>(n);
        path += path.empty() ? 'M' : 'L';
        path += coordinate(x.at(value)) + ' ' + coordinate(y.at(before)) + 'V' + coordinate(y.at(part));
        before = part;
    }
    path += 'H' + coordinate(x.at(sorted.back()));
    if (sorted.back() <= x.high) path += 'V' + coordinate(y.at(1));
    const std::string c = std::to_string(colour % 8);
    return "<path class=\"curve k" + c + " d" + std::to_string(colour % 4) + (colour == 0 ? " o" : "") + "\" d=\"" +
           path + "\">" + tooltip(name) + "</path>\n";
}

}  // namespace

std::string ecdf(const std::vector<series>& given, std::string_view title, std::string_view unit) {
    std::vector<series> all;
    double low = 0, high = 0;
    for (const series& s : given) {
        series kept{s.name, {}, s.colour};
        for (const double value : s.values)
            if (std::isfinite(value)) kept.values.push_back(value);
        if (kept.values.empty()) continue;
        std::sort(kept.values.begin(), kept.values.end());
        const std::size_t cut = kept.values.size() / 200;
        const double least = kept.values[cut], most = kept.values[kept.values.size() - 1 - cut];
        low = all.empty() ? least : std::min(low, least);
        high = all.empty() ? most : std::max(high, most);
        all.push_back(std::move(kept));
    }
    if (all.empty()) return {};
    const double margin = std::max((high - low) * 0.03, std::fabs(high) * 1e-3);
    const bool logarithmic = low > 0 && high / low > 10;
    axis x{.low = low - margin, .high = high + margin, .begin = 52, .end = width - 12, .logarithmic = logarithmic};
    if (logarithmic) x.low = low / 1.05, x.high = high * 1.05;
    if (!(x.high > x.low)) x.high = x.low + 1;
    const axis y{.low = 0, .high = 1, .begin = 216, .end = 10};
    std::string out = begin(256, title) + scale(x, 10, 216, unit);
    for (const double part : {0.0, 0.25, 0.5, 0.75, 1.0}) {
        out += line(52, y.at(part), width - 12, y.at(part), "grid");
        out += text_at(46, y.at(part) + 4, "end", "small", tick_text(part * 100) + " %");
    }
    // Ours is drawn last, on top.
    for (std::size_t i = all.size(); i-- > 0;) out += curve(all[i].values, x, y, all[i].colour, all[i].name);
    return out + std::string(finish);
}

std::string ratios(const std::vector<ratio_row>& given, std::string_view title, const ratio_axis& around) {
    std::vector<ratio_row> all;
    double low = 0.8, high = 1.25;
    for (const ratio_row& r : given)
        if (r.low > 0 && r.ratio > 0 && r.high > 0 && std::isfinite(r.low) && std::isfinite(r.high) &&
            std::isfinite(r.ratio)) {
            all.push_back(r);
            low = std::min(low, r.low / 1.1);
            high = std::max(high, r.high * 1.1);
        }
    if (all.empty()) return {};
    constexpr double row = 26;
    const double room = label_room(all), bottom = row * static_cast<double>(all.size()) + 6;
    const axis x{.low = low, .high = high, .begin = room, .end = width - 160, .logarithmic = true};
    std::string out = begin(bottom + 40, title) + scale(x, 2, bottom, around.meaning);
    double middle = row / 2 + 2;
    out += line(x.at(1), 2, x.at(1), bottom, "axis");
    for (const ratio_row& r : all) {
        const bool above = r.low > 1, below = r.high < 1;
        const std::string_view verdict = !above && !below                 ? "same"
                                         : above == around.above_is_worse ? "worse"
                                                                          : "better";
        const std::string numbers = ratio_text(r.ratio) + " (" + ratio_text(r.low) + " to " + ratio_text(r.high) + ")";
        out += "<g>" + tooltip(r.name + ": " + numbers) + label(middle, room, r.name);
        out += "<path class=\"" + std::string(verdict) + "\" stroke-width=\"2.5\" d=\"M" + coordinate(x.at(r.low)) +
               " " + coordinate(middle) + "H" + coordinate(x.at(r.high)) + "\"/>\n";
        out += "<circle class=\"" + std::string(verdict) + "\" cx=\"" + coordinate(x.at(r.ratio)) + "\" cy=\"" +
               coordinate(middle) + "\" r=\"4.5\"/>\n";
        out += text_at(width - 152, middle + 4.5, "start", "", numbers) + "</g>\n";
        middle += row;
    }
    return out + std::string(finish);
}

}  // namespace holdfast::perf_test::plot
