// SPDX-License-Identifier: Apache-2.0
// judgement.hpp - what an assertion or a comparison came to, with the numbers it stands on: for reports.
//
// Every EXPECT_PERF_... and ASSERT_PERF_..., kept or broken, makes one, each number that is held against a baseline one
// more, and report_comparison (gtest/assertions.hpp) one of what measure_ab found. Threads: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/perf_test/compare.hpp"
#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

/// Who asked.
enum class judged_by : std::uint8_t {
    limit,       ///< EXPECT_PERF_LT and its like
    ratio,       ///< EXPECT_PERF_RATIO
    not_slower,  ///< EXPECT_PERF_NOT_SLOWER
    comparison,  ///< report_comparison: it fails nothing
    baseline     ///< --perf_baseline
};

/// "limit", "ratio", "not_slower", "comparison", "baseline".
[[nodiscard]] const char* to_string(judged_by who) noexcept;

/// One assertion or comparison. Numbers that there are none of are not a number, and absent in every output.
struct judgement {
    static constexpr double none = std::numeric_limits<double>::quiet_NaN();

    std::string suite, name;  ///< of the test it was made in; the name is GoogleTest's
    std::uint64_t pass = 1;   ///< over the tests in this process
    judged_by by = judged_by::comparison;
    std::string subject;  ///< what was judged, in the words of the source: "found.median() < 200ns"
    bool passed = true;
    /// not_slower, comparison, baseline: the verdict (compare.hpp); ratio: shown, refuted, undecided; limit: kept,
    /// broken. "void" if there was no number to judge.
    std::string outcome;
    double value = none;  ///< ns, or time now over time before (a ratio)
    interval range{none, none};
    double confidence = none;  ///< of range
    double limit = none;       ///< what value was held against; of a ratio of the last three kinds 1 + min_effect
    double alpha = none;       ///< chance of a false alarm that this judgement was allowed
    double p_value = none;     ///< corrected for its family
    std::size_t rounds = 0;    ///< in turn; 0 for what was not
    std::string text;          ///< one sentence for people

    [[nodiscard]] bool is_ratio() const noexcept { return by != judged_by::limit; }
    [[nodiscard]] std::string full_name() const { return suite.empty() ? name : suite + "." + name; }
};

/// What a comparison came to, as `options` had it judged. Passed unless it is slower.
[[nodiscard]] judgement judgement_of(const comparison& change, const compare_options& options, judged_by who);

/// Name and value for GoogleTest's XML and JSON reports: "verdict", "ratio" or "value_ns", "low", "high", "confidence",
/// "limit", "alpha", "p_value", "rounds", "subject"; what there is not is left out.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> properties_of(const judgement& made);

/// A name that an attribute in XML may have: what is no letter, digit or underscore becomes an underscore.
[[nodiscard]] std::string property_name(std::string_view text);

}  // namespace holdfast::perf_test
