// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "perf_test/plot.hpp"
#include "perf_test/plot_axis.hpp"
#include "perf_test/plot_svg.hpp"

namespace holdfast::perf_test::plot {

namespace {

constexpr double top = 10, bottom = 216, left = 64, right = width - 12;

/// An axis around values above zero.
[[nodiscard]] axis around(double low, double high, double begin, double end) {
    axis out{.low = low, .high = high, .begin = begin, .end = end, .logarithmic = high / low > 10};
    if (out.logarithmic) {
        out.low = low / 1.1;
        out.high = high * 1.1;
    } else {
        const double margin = std::max((high - low) * 0.05, high * 1e-3);
        out.low = std::max(0.0, low - margin);
        out.high = high + margin;
    }
    return out;
}

[[nodiscard]] bool above_zero(const point& p) { return p.x > 0 && p.y > 0 && std::isfinite(p.x) && std::isfinite(p.y); }

[[nodiscard]] std::string stroke(std::size_t colour) {
    return "curve k" + std::to_string(colour % 8) + " d" + std::to_string(colour % 4) + (colour == 0 ? " o" : "");
}

/// Horizontal lines with their numbers beside them.
[[nodiscard]] std::string side_scale(const axis& y, std::string_view unit) {
    std::string out;
    double written_to = 1e9;
    for (const double value : y.ticks()) {
        const double at = y.at(value);
        out += line(left, at, right, at, "grid");
        if (at > written_to) continue;
        written_to = at - 14;
        out += text_at(left - 6, at + 4, "end", "small", tick_text(value));
    }
    return out + text_at(left, bottom + 34, "start", "small", unit);
}

[[nodiscard]] double calls_of(const tail& one) {
    double sum = 0;
    for (const point& p : one.calls) sum += p.y;
    return sum;
}

/// A staircase: at each time, those that took that long are no longer above it.
[[nodiscard]] std::string staircase(const tail& one, const axis& x, const axis& y) {
    const double all = calls_of(one);
    double rest = all;
    std::string path = "M";
    path.append(coordinate(x.begin)).append(" ").append(coordinate(y.at(1)));
    for (const point& p : one.calls) {
        rest -= p.y;
        path.append("H").append(coordinate(x.at(p.x)));
        path.append("V").append(coordinate(y.at(std::max(rest, 0.0) / all)));
    }
    return "<path class=\"" + stroke(one.colour) + "\" d=\"" + path + "\">" + tooltip(one.name) + "</path>\n";
}

}  // namespace

std::string tails(const std::vector<tail>& given, std::string_view title, std::string_view unit) {
    std::vector<tail> all;
    double low = 0, high = 0, most_calls = 0;
    for (const tail& one : given) {
        tail kept{one.name, {}, one.colour};
        for (const point& p : one.calls)
            if (above_zero({std::max(p.x, 1e-300), p.y})) kept.calls.push_back(p);
        if (kept.calls.empty()) continue;
        most_calls = std::max(most_calls, calls_of(kept));
        for (const point& p : kept.calls) {
            if (p.x > 0 && (low <= 0 || p.x < low)) low = p.x;
            high = std::max(high, p.x);
        }
        all.push_back(std::move(kept));
    }
    if (all.empty() || high <= 0) return {};
    const axis x = around(low, high, left, right);
    const double rarest = std::clamp(0.5 / most_calls, 1e-9, 0.1);  // the longest call alone stands above the frame
    const axis y{.low = rarest, .high = 1, .begin = bottom, .end = top, .logarithmic = true};
    std::string out = begin(256, title) + scale(x, top, bottom, unit);
    for (double share = 1; share >= rarest * 0.999; share /= 10) {
        out += line(left, y.at(share), right, y.at(share), "grid");
        out += text_at(left - 6, y.at(share) + 4, "end", "small", tick_text(share * 100) + " %");
    }
    for (std::size_t i = all.size(); i-- > 0;) out += staircase(all[i], x, y);
    return out + std::string(finish);
}

std::string fit(const fitted& given, std::string_view title) {
    std::vector<point> measured, law;
    std::copy_if(given.measured.begin(), given.measured.end(), std::back_inserter(measured), above_zero);
    std::copy_if(given.law.begin(), given.law.end(), std::back_inserter(law), above_zero);
    if (measured.empty()) return {};
    point low = measured.front(), high = low;
    for (const auto* const some : {&measured, &law})
        for (const point& p : *some) {
            low = {std::min(low.x, p.x), std::min(low.y, p.y)};
            high = {std::max(high.x, p.x), std::max(high.y, p.y)};
        }
    const axis x = around(low.x, high.x, left, right);
    axis y = around(low.y, high.y, bottom, top);
    if (!y.logarithmic) y.low = 0;  // a cut axis makes small differences look large
    std::string out = begin(256, title) + scale(x, top, bottom, given.x_unit) + side_scale(y, given.y_unit);
    std::string path;
    for (const point& p : law) {
        path += path.empty() ? 'M' : 'L';
        path.append(coordinate(x.at(p.x))).append(" ").append(coordinate(y.at(p.y)));
    }
    if (!path.empty()) out += "<path class=\"" + stroke(1) + "\" d=\"" + path + "\"/>\n";
    for (const point& p : measured)
        out += "<circle class=\"f0\" cx=\"" + coordinate(x.at(p.x)) + "\" cy=\"" + coordinate(y.at(p.y)) +
               "\" r=\"4\"/>\n";
    return out + std::string(finish);
}

}  // namespace holdfast::perf_test::plot
