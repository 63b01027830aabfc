// SPDX-License-Identifier: Apache-2.0
// svg.hpp - the figures of the study: dots on a scale that shows 0.1 % and 800 % alike, and estimates over levels.
#pragma once

#include <algorithm>
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

struct estimate_series {
    std::string name;
    std::string colour;
    std::vector<double> values;  ///< one a level
};

/// Estimates over levels, which stand at equal distances for each nine; the first series is a line, the others are
/// rings of different sizes, so that those which agree are seen around each other.
inline std::string level_figure(std::string_view title, std::string_view unit, const std::vector<double>& levels,
                                const std::vector<std::string>& level_names, const std::vector<estimate_series>& all) {
    constexpr double width = 760, height = 420, left = 64, right = 24, top = 96, bottom = 40;
    double greatest = 0;
    for (const estimate_series& one : all)
        for (const double value : one.values) greatest = std::max(greatest, value);
    const double step = std::pow(10, std::floor(std::log10(greatest)));
    const double end = step * std::ceil(greatest / step);
    const auto number = [](double x, const char* form = "%.1f") {
        char text[32];
        std::snprintf(text, sizeof text, form, x);
        return std::string(text);
    };
    const double first = -std::log10(1 - levels.front()), last = -std::log10(1 - levels.back());
    const auto x_of = [&](double level) {
        return left + 20 + (width - left - right - 40) * (-std::log10(1 - level) - first) / (last - first);
    };
    const auto y_of = [&](double value) { return height - bottom - (height - bottom - top) * value / end; };
    std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"11\" width=\"";
    svg.append(number(width)).append("\" height=\"").append(number(height));
    svg.append("\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"12\" y=\"22\" font-size=\"15\">");
    svg.append(title).append("</text>\n");
    const auto text = [&](double x, double y, std::string_view anchor, std::string_view what) {
        svg.append("<text x=\"").append(number(x)).append("\" y=\"").append(number(y)).append("\" text-anchor=\"");
        svg.append(anchor).append("\">").append(what).append("</text>\n");
    };
    const auto ring = [&](double x, double y, double radius, std::string_view colour) {
        svg.append("<circle cx=\"").append(number(x)).append("\" cy=\"").append(number(y)).append("\" r=\"");
        svg.append(number(radius))
            .append("\" fill=\"none\" stroke-width=\"1.6\" stroke=\"")
            .append(colour)
            .append("\"/>\n");
    };
    for (double value = 0; value <= end * 1.001; value += step) {
        svg.append("<path stroke=\"#ddd\" d=\"M").append(number(left)).append(" ").append(number(y_of(value)));
        svg.append("H").append(number(width - right)).append("\"/>\n");
        text(left - 6, y_of(value) + 4, "end", number(value, "%.0f"));
    }
    text(left - 6, top - 12, "end", unit);
    for (std::size_t i = 0; i < levels.size(); ++i)
        text(x_of(levels[i]), height - bottom + 18, "middle", level_names[i]);
    for (std::size_t s = 0; s < all.size(); ++s) {
        const double key_x = 12 + 250 * static_cast<double>(s % 3), key_y = 44 + 18 * static_cast<double>(s / 3);
        const double radius = 1.5 + 2 * static_cast<double>(s);
        text(key_x + 24, key_y + 4, "start", all[s].name);
        std::string path;
        for (std::size_t i = 0; i < levels.size(); ++i) {
            const double x = x_of(levels[i]), y = y_of(all[s].values[i]);
            path.append(path.empty() ? "M" : "L").append(number(x)).append(" ").append(number(y));
            if (s > 0) ring(x, y, radius, all[s].colour);
        }
        if (s > 0) {
            ring(key_x + 10, key_y, std::min(radius, 8.0), all[s].colour);
            continue;
        }
        svg.append("<path fill=\"none\" stroke=\"").append(all[s].colour).append("\" d=\"").append(path).append("M");
        svg.append(number(key_x)).append(" ").append(number(key_y)).append("h18\"/>\n");
    }
    return svg + "</svg>\n";
}

}  // namespace study
