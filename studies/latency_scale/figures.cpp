// SPDX-License-Identifier: Apache-2.0
#include "figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "perf_test/plot.hpp"

namespace study {
namespace {

constexpr double least = 0.1, decades = 13;  // of the scale's axis: 0.1 ns to 1000 s
constexpr std::string_view ours = "#0b5cd0", theirs = "#b93d09", grid = "#ddd", faint = "#555";

std::string number(double x) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f", x);
    return text.data();
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text,
                    std::string_view colour = "#111") {
    std::string out = "<text x=\"";
    out.append(number(x)).append("\" y=\"").append(number(y)).append("\" text-anchor=\"").append(anchor);
    out.append("\" style=\"fill:").append(colour).append("\">").append(holdfast::perf_test::plot::escaped(text));
    return out.append("</text>\n");
}

std::string line(double x1, double y1, double x2, double y2, std::string_view colour, double width = 1) {
    std::string out = "<path fill=\"none\" stroke=\"";
    out.append(colour).append("\" stroke-width=\"").append(number(width)).append("\" d=\"M").append(number(x1));
    out.append(" ").append(number(y1)).append("L").append(number(x2)).append(" ").append(number(y2));
    return out.append("\"/>\n");
}

std::string dot(double x, double y, std::string_view colour, bool filled) {
    std::string out = "<circle cx=\"";
    out.append(number(x)).append("\" cy=\"").append(number(y)).append("\" r=\"4.5\" stroke-width=\"1.6\" stroke=\"");
    return out.append(colour).append("\" fill=\"").append(filled ? colour : "none").append("\"/>\n");
}

std::string begin(double width, double height, std::string_view title) {
    std::string out =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"12\" viewBox=\"0 0 ";
    out.append(number(width)).append(" ").append(number(height)).append("\" width=\"").append(number(width));
    out.append("\" role=\"img\" aria-label=\"").append(title).append("\">\n");
    out.append("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
    return out.append(text_at(12, 22, "start", title));
}

double typical(const step& one) {
    if (one.measured()) return one.time.median;
    return one.published.empty() ? 0 : std::sqrt(one.published.front().low * one.published.front().high);
}

}  // namespace

std::string scale_figure(const scale& all) {
    std::vector<const step*> rows;
    for (const step& one : all.steps())
        if (typical(one) > 0) rows.push_back(&one);
    std::sort(rows.begin(), rows.end(), [](const step* a, const step* b) {
        return typical(*a) != typical(*b) ? typical(*a) < typical(*b) : a->name < b->name;
    });
    constexpr double left = 320, width = 960, top = 64, row = 22;
    const double bottom = top + row * static_cast<double>(rows.size());
    const auto x_of = [](double ns) {
        const double part = std::log10(std::max(ns, least) / least) / decades;
        return left + (width - left - 30) * std::clamp(part, 0.0, 1.0);
    };
    std::string svg = begin(width, bottom + 40, "Latencies on a logarithmic scale");
    svg += dot(18, 40, ours, true) + text_at(28, 44, "start", "this machine, with the 5th to 95th percentile");
    svg += dot(368, 40, theirs, false) + text_at(378, 44, "start", "published, other machines");
    for (int decade = 0; decade <= static_cast<int>(decades); ++decade) {
        const double x = x_of(least * std::pow(10, decade));
        svg += line(x, top, x, bottom, grid);
        if (decade % 3 == 1) {
            constexpr std::array names{"1 ns", "1 us", "1 ms", "1 s", "1000 s"};
            svg += text_at(x, bottom + 18, "middle", names[static_cast<std::size_t>(decade / 3)], faint);
        }
    }
    double y = top + row / 2;
    for (const step* const one : rows) {
        svg += text_at(left - 10, y + 4, "end", one->name, one->measured() ? "#111" : faint);
        for (const published_time& p : one->published) {
            if (p.high > p.low)
                svg += line(x_of(p.low), y, x_of(p.high), y, theirs, 5);
            else
                svg += dot(x_of(p.low), y, theirs, false);
        }
        if (one->measured()) {
            svg += line(x_of(one->time.p05), y, x_of(one->time.p95), y, ours, 1.6);
            svg += dot(x_of(one->time.median), y, ours, true);
        }
        y += row;
    }
    return svg + "</svg>\n";
}

std::string stairs_figure(const scale& all) {
    constexpr double left = 60, right = 20, top = 40, width = 760, height = 340, bottom = 50;
    double fastest = all.stairs().front().ns, slowest = fastest;
    for (const stair& one : all.stairs()) {
        fastest = std::min(fastest, one.ns);
        slowest = std::max(slowest, one.ns);
    }
    const double first = std::log2(all.stairs().front().bytes),
                 last = std::max(first + 1, std::log2(all.stairs().back().bytes));
    const double low = std::floor(std::log10(fastest)), high = std::max(low + 1, std::ceil(std::log10(slowest)));
    const auto x_of = [&](double bytes) {
        return left + (width - left - right) * (std::log2(bytes) - first) / (last - first);
    };
    const auto y_of = [&](double ns) {
        return height - bottom - (height - bottom - top) * (std::log10(ns) - low) / (high - low);
    };
    std::string svg = begin(width, height, "A dependent read by the size of the set, huge pages");
    for (double decade = low; decade <= high; ++decade) {
        const double y = y_of(std::pow(10, decade));
        svg += line(left, y, width - right, y, grid) +
               text_at(left - 6, y + 4, "end", time_text(std::pow(10, decade)), faint);
    }
    for (double power = std::ceil(first); power <= last; power += 2) {
        const double bytes = std::exp2(power);
        const std::string name = power >= 30   ? std::to_string(static_cast<int>(std::exp2(power - 30))) + " GiB"
                                 : power >= 20 ? std::to_string(static_cast<int>(std::exp2(power - 20))) + " MiB"
                                               : std::to_string(static_cast<int>(std::exp2(power - 10))) + " KiB";
        svg += text_at(x_of(bytes), height - bottom + 18, "middle", name, faint);
    }
    std::string path;
    for (const stair& one : all.stairs()) {
        path.append(path.empty() ? "M" : "L").append(number(x_of(one.bytes))).append(" ").append(number(y_of(one.ns)));
        svg += dot(x_of(one.bytes), y_of(one.ns), ours, true);
    }
    svg.append("<path fill=\"none\" stroke=\"").append(ours).append("\" stroke-width=\"1.8\" d=\"").append(path);
    return svg.append("\"/>\n</svg>\n");
}

}  // namespace study
