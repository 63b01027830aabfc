// SPDX-License-Identifier: Apache-2.0
// html_parts.hpp - what the cards of the page are made of.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "holdfast/perf_test/judgement.hpp"
#include "perf_test/number_text.hpp"
#include "perf_test/plot.hpp"

namespace holdfast::perf_test {

[[nodiscard]] inline std::string element(std::string_view name, std::string_view text) {
    std::string out = "<";
    out.append(name).append(">").append(plot::escaped(text)).append("</").append(name).append(">");
    return out;
}

[[nodiscard]] inline std::string time_text(double ns) {
    const unit_scale scale = scale_for("ns", ns);
    return number_text(ns / scale.divisor).append(" ").append(scale.unit);
}

/// What the assertions and comparisons of one suite came to: a table, and a chart of those that are ratios. Empty
/// without any of that suite.
[[nodiscard]] std::string verdicts_card(std::span<const judgement> all, std::string_view suite);

}  // namespace holdfast::perf_test
