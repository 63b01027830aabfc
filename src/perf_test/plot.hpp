// SPDX-License-Identifier: Apache-2.0
// plot.hpp - charts as SVG and the one page that holds them. Colours come from the page's style sheet, which knows
// light and dark; nothing is loaded from anywhere, and no script runs. All markup is well-formed XML.
//
// (I1) Every text that is passed in is escaped here: names come from command lines, files and GoogleTest parameters.
// (I2) Values that are not finite are left out; a chart without a value left is an empty string.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::perf_test::plot {

/// Text for an element or an attribute: the five characters of XML escaped, what XML forbids as \xHH.
[[nodiscard]] std::string escaped(std::string_view text);

/// One subject: its colour is that of its place among the subjects, 0 being ours.
struct bar {
    std::string name;
    double low = 0, value = 0, high = 0;  ///< the whisker's ends and the bar's
    std::string text;                     ///< written beside the bar
    std::size_t colour = 0;
};

/// Horizontal bars from zero with whiskers, the first on top.
[[nodiscard]] std::string bars(const std::vector<bar>& all, std::string_view title, std::string_view unit);

struct series {
    std::string name;
    std::vector<double> values;
    std::size_t colour = 0;
};

/// The part of the samples that is at most x, over x; a logarithmic x where the values span more than a decade. The
/// farthest 0.5 % on either side are cut off, so that one outlier does not squeeze the rest.
[[nodiscard]] std::string ecdf(const std::vector<series>& all, std::string_view title, std::string_view unit);

/// A number of calls that took so long, or a size and its time, or a number of workers and their throughput.
struct point {
    double x = 0, y = 0;
};

struct tail {
    std::string name;
    std::vector<point> calls;  ///< x: time, ascending; y: how many calls
    std::size_t colour = 0;
};

/// The share of calls that took longer than x, over x, on a logarithmic scale: one in a thousand shows as well as one
/// in two.
[[nodiscard]] std::string tails(const std::vector<tail>& all, std::string_view title, std::string_view unit);

/// Measured points and the curve of a law through them; an axis whose values span more than a decade is logarithmic.
/// Points that are not above zero are left out.
struct fitted {
    std::vector<point> measured, law;
    std::string x_unit, y_unit;
};
[[nodiscard]] std::string fit(const fitted& given, std::string_view title);

struct ratio_row {
    std::string name;
    double low = 0, ratio = 0, high = 0;
};

/// What a ratio above 1 means, below the axis, and whether that is worse.
struct ratio_axis {
    std::string_view meaning = "above 1: ours is better";
    bool above_is_worse = false;
};

/// Ratios with their intervals on a logarithmic axis around 1.
[[nodiscard]] std::string ratios(const std::vector<ratio_row>& all, std::string_view title,
                                 const ratio_axis& around = {});

/// Names with the colours of their places.
struct legend_entry {
    std::string name;
    std::size_t colour = 0;
};
[[nodiscard]] std::string legend(const std::vector<legend_entry>& all);

/// A whole document. `body` is markup already.
[[nodiscard]] std::string page(std::string_view title, std::string_view body);

}  // namespace holdfast::perf_test::plot
