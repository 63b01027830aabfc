// SPDX-License-Identifier: Apache-2.0
// targets.hpp - how suites say whether a target is met, and which subjects the user wants.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "workload/suite.hpp"

namespace holdfast::workload {

/// " (met)" or " (missed)".
[[nodiscard]] inline std::string verdict(bool met) { return met ? " (met)" : " (missed)"; }

/// With that many digits behind the point.
[[nodiscard]] inline std::string fixed_text(double value, int digits) {
    char text[40];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

/// Whether the user wants that subject beside ours.
[[nodiscard]] inline bool is_wanted_subject(const run_options& wanted, std::string_view name, bool ours) {
    return ours || wanted.only.empty() || std::ranges::any_of(wanted.only, [&](const std::string& one) {
               return name == one || name.starts_with(one + ", ");
           });
}

}  // namespace holdfast::workload
