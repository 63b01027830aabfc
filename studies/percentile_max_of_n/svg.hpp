// SPDX-License-Identifier: Apache-2.0
// svg.hpp - the one figure of the study: dots on a scale that shows 0.1 % and 800 % alike.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace study {

struct series {
    std::string name;
    std::string colour;
    std::vector<double> percent;  ///< one a row; not a number where there is none
};

struct panel {
    std::string title;
    std::vector<std::string> rows;
    std::vector<series> dots;
};

/// Panels side by side. The scale is that of asinh(10 x): straight near 0, logarithmic beyond 1 %.
inline std::string figure(std::string_view title, const std::vector<panel>& panels) {
    constexpr double width = 360, left = 110, row = 24, top = 74;
    const auto number = [](double x) {
        char text[32];
        std::snprintf(text, sizeof text, "%.1f", x);
        return std::string(text);
    };
    const auto scale = [](double percent) { return std::asinh(10 * percent) / std::asinh(10 * 1000.0); };
    const double height = top + row * static_cast<double>(panels.front().rows.size()) + 50;
    std::string svg =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"11\" width=\"" +
        number(left + width * static_cast<double>(panels.size())) + "\" height=\"" + number(height) +
        "\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"12\" y=\"22\" font-size=\"15\">" +
        std::string(title) + "</text>\n";
    const auto text = [&](double x, double y, std::string_view anchor, std::string_view what) {
        svg += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + std::string(anchor) + "\">" +
               std::string(what) + "</text>\n";
    };
    const auto line = [&](double x1, double y1, double x2, double y2, std::string_view colour) {
        svg += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" +
               number(y2) + "\" stroke=\"" + std::string(colour) + "\"/>\n";
    };
    double legend = 12;
    for (const series& one : panels.front().dots) {
        svg += "<circle cx=\"" + number(legend + 4) + "\" cy=\"38\" r=\"4.5\" fill=\"" + one.colour + "\"/>\n";
        text(legend + 13, 42, "start", one.name);
        legend += 40 + 6.2 * static_cast<double>(one.name.size());
    }
    for (std::size_t p = 0; p < panels.size(); ++p) {
        const double middle = left + width * (static_cast<double>(p) + 0.5);
        const double half = width / 2 - 18;
        const double bottom = top + row * static_cast<double>(panels[p].rows.size());
        text(middle, top - 10, "middle", panels[p].title);
        for (const double tick : {-1000.0, -100.0, -10.0, -1.0, 0.0, 1.0, 10.0, 100.0, 1000.0}) {
            const double x = middle + half * scale(tick);
            line(x, top, x, bottom, tick == 0 ? "#555" : "#ddd");
            char tick_text[16];
            std::snprintf(tick_text, sizeof tick_text, tick == 0 ? "%.0f" : "%+.0f", tick);
            text(x, bottom + 16, "middle", tick_text);
        }
        text(middle, bottom + 34, "middle", "% off the true percentile");
        for (std::size_t r = 0; r < panels[p].rows.size(); ++r) {
            const double y = top + row * (static_cast<double>(r) + 0.5);
            if (p == 0) text(left - 2, y + 4, "end", panels[p].rows[r]);
            line(middle - half, y, middle + half, y, "#f0f0f0");
            for (const series& one : panels[p].dots)
                if (std::isfinite(one.percent[r]))
                    svg += "<circle cx=\"" + number(middle + half * scale(one.percent[r])) + "\" cy=\"" + number(y) +
                           "\" r=\"4.5\" fill=\"" + one.colour + "\" fill-opacity=\"0.8\"/>\n";
        }
    }
    return svg + "</svg>\n";
}

}  // namespace study
