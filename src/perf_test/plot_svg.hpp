// SPDX-License-Identifier: Apache-2.0
// plot_svg.hpp - the elements that charts are made of. Coordinates are those of the view box, whose width is fixed.
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "perf_test/number_text.hpp"
#include "perf_test/plot.hpp"
#include "perf_test/plot_axis.hpp"

namespace holdfast::perf_test::plot {

inline constexpr double width = 760;

[[nodiscard]] inline std::string coordinate(double value) {
    std::array<char, 32> text{};
    const int length = std::snprintf(text.data(), text.size(), "%.1f", value);
    return {text.data(), static_cast<std::size_t>(length)};
}

[[nodiscard]] inline std::string begin(double height, std::string_view title) {
    const std::string name = escaped(title);
    return "<div class=\"wide\"><svg viewBox=\"0 0 " + coordinate(width) + " " + coordinate(height) +
           "\" role=\"img\" aria-label=\"" + name + "\">\n";
}

inline constexpr std::string_view finish = "</svg></div>\n";

[[nodiscard]] inline std::string line(double x1, double y1, double x2, double y2, std::string_view style) {
    return "<path class=\"" + std::string(style) + "\" d=\"M" + coordinate(x1) + " " + coordinate(y1) + "L" +
           coordinate(x2) + " " + coordinate(y2) + "\"/>\n";
}

[[nodiscard]] inline std::string text_at(double x, double y, std::string_view anchor, std::string_view style,
                                         std::string_view text) {
    return "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" text-anchor=\"" + std::string(anchor) +
           "\" class=\"" + std::string(style) + "\">" + escaped(text) + "</text>\n";
}

/// A round number: without the zeros behind the point.
[[nodiscard]] inline std::string tick_text(double value) {
    std::string text = number_text(value);
    if (text.find('.') == std::string::npos || text.find('e') != std::string::npos) return text;
    while (text.ends_with('0')) text.pop_back();
    if (text.ends_with('.')) text.pop_back();
    return text;
}

/// Vertical lines with their numbers below.
[[nodiscard]] inline std::string scale(const axis& x, double top, double bottom, std::string_view unit) {
    std::string out;
    double written_to = -1e9;
    for (const double value : x.ticks()) {
        const double at = x.at(value);
        out += line(at, top, at, bottom, "grid");
        const std::string text = tick_text(value);
        const double half = 4.0 * static_cast<double>(text.size());
        if (at - half < written_to) continue;
        written_to = at + half + 6;
        out += text_at(at, bottom + 16, "middle", "small", text);
    }
    return out + text_at(x.end, bottom + 34, "end", "small", unit);
}

[[nodiscard]] inline std::string tooltip(std::string_view text) { return "<title>" + escaped(text) + "</title>"; }

}  // namespace holdfast::perf_test::plot
