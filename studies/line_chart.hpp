// SPDX-License-Identifier: Apache-2.0
// line_chart.hpp - several lines over one axis as an SVG that stands alone: for a README as well as for a page.
//
// Measured points have marks; a law (a curve that a theory gives) is dashed and has none. Values that are not finite,
// or not above zero on a logarithmic axis, are left out.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "perf_test/plot.hpp"
#include "perf_test/plot_axis.hpp"
#include "perf_test/plot_svg.hpp"

namespace study {

namespace plot = holdfast::perf_test::plot;

struct chart_line {
    std::string name;
    std::vector<plot::point> points;
    bool law = false;
};

struct line_chart {
    std::string title, x_unit, y_unit;
    std::vector<chart_line> lines;
    bool x_logarithmic = false, y_logarithmic = false;
    std::optional<double> y_low = {}, y_high = {};
};

namespace detail {

inline constexpr double chart_height = 420, chart_left = 66, chart_right = plot::width - 18, chart_bottom = 360;

[[nodiscard]] inline bool drawable(const line_chart& chart, const plot::point& p) {
    return std::isfinite(p.x) && std::isfinite(p.y) && (!chart.x_logarithmic || p.x > 0) &&
           (!chart.y_logarithmic || p.y > 0);
}

[[nodiscard]] inline std::string svg_text(double x, double y, std::string_view anchor, std::string_view text) {
    std::string out = "<text x=\"" + plot::coordinate(x) + "\" y=\"" + plot::coordinate(y) + "\" text-anchor=\"";
    return out.append(anchor).append("\">").append(plot::escaped(text)).append("</text>\n");
}

[[nodiscard]] inline std::string svg_line(double x1, double y1, double x2, double y2) {
    std::string out = "<path stroke=\"#ddd\" d=\"M" + plot::coordinate(x1) + " " + plot::coordinate(y1);
    return out.append("L").append(plot::coordinate(x2)).append(" ").append(plot::coordinate(y2)).append("\"/>\n");
}

[[nodiscard]] inline std::string svg_of_line(const line_chart& chart, const chart_line& one, std::string_view colour,
                                             const plot::axis& x, const plot::axis& y) {
    std::string path, marks;
    for (const plot::point& p : one.points) {
        if (!drawable(chart, p)) continue;
        const std::string across = plot::coordinate(x.at(p.x)), down = plot::coordinate(y.at(p.y));
        path.append(path.empty() ? "M" : "L").append(across).append(" ").append(down);
        marks.append("<circle cx=\"").append(across).append("\" cy=\"").append(down).append("\" r=\"3\"/>");
    }
    std::string out = "<path fill=\"none\" stroke-width=\"1.8\" stroke=\"";
    out.append(colour)
        .append(one.law ? "\" stroke-dasharray=\"6 4" : "")
        .append("\" d=\"")
        .append(path)
        .append("\"/>\n");
    if (!one.law) out.append("<g fill=\"").append(colour).append("\">").append(marks).append("</g>\n");
    return out;
}

}  // namespace detail

/// The chart as an SVG document. Colours are written into it, so it looks the same wherever it is shown.
[[nodiscard]] inline std::string svg_of(const line_chart& chart) {
    constexpr std::array<std::string_view, 8> colours{"#0b5cd0", "#b93d09", "#0f6d66", "#951aa3",
                                                      "#47720d", "#b01c1c", "#8a3d0e", "#46536a"};
    const double top = 56 + 18 * std::ceil(static_cast<double>(chart.lines.size()) / 2);
    std::optional<plot::point> low, high;
    for (const chart_line& one : chart.lines)
        for (const plot::point& p : one.points) {
            if (!detail::drawable(chart, p)) continue;
            low = low ? plot::point{std::min(low->x, p.x), std::min(low->y, p.y)} : p;
            high = high ? plot::point{std::max(high->x, p.x), std::max(high->y, p.y)} : p;
        }
    if (!low || !high) return {};
    plot::axis x{low->x, high->x, detail::chart_left, detail::chart_right, chart.x_logarithmic};
    plot::axis y{chart.y_low.value_or(chart.y_logarithmic ? low->y : std::min(0.0, low->y)),
                 chart.y_high.value_or(high->y), detail::chart_bottom, top, chart.y_logarithmic};
    if (!(x.high > x.low)) x.high = x.low + 1;
    if (!(y.high > y.low)) y.high = y.low + 1;

    std::string out =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"12\" viewBox=\"0 0 ";
    out += plot::coordinate(plot::width) + " " + plot::coordinate(detail::chart_height) + "\">\n";
    out += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<g font-size=\"15\">";
    out += detail::svg_text(12, 24, "start", chart.title) + "</g>\n";
    for (std::size_t i = 0; i < chart.lines.size(); ++i) {
        const double key_x = 14 + 370 * static_cast<double>(i % 2), key_y = 48 + 18 * static_cast<double>(i / 2);
        out.append("<path stroke-width=\"2\" stroke=\"").append(colours[i % colours.size()]);
        if (chart.lines[i].law) out += "\" stroke-dasharray=\"6 4";
        out += "\" d=\"M" + plot::coordinate(key_x) + " " + plot::coordinate(key_y) + "h26\"/>\n";
        out += detail::svg_text(key_x + 34, key_y + 4, "start", chart.lines[i].name);
    }
    for (const double value : x.ticks()) {
        out += detail::svg_line(x.at(value), top, x.at(value), detail::chart_bottom);
        out += detail::svg_text(x.at(value), detail::chart_bottom + 18, "middle", plot::tick_text(value));
    }
    for (const double value : y.ticks()) {
        out += detail::svg_line(detail::chart_left, y.at(value), detail::chart_right, y.at(value));
        out += detail::svg_text(detail::chart_left - 6, y.at(value) + 4, "end", plot::tick_text(value));
    }
    out += detail::svg_text(detail::chart_right, detail::chart_bottom + 40, "end", chart.x_unit);
    out += detail::svg_text(12, detail::chart_bottom + 40, "start", chart.y_unit + " (up)");
    for (std::size_t i = 0; i < chart.lines.size(); ++i)
        out += detail::svg_of_line(chart, chart.lines[i], colours[i % colours.size()], x, y);
    return out + "</svg>\n";
}

}  // namespace study
