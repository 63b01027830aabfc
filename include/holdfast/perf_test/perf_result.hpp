// SPDX-License-Identifier: Apache-2.0
// perf_result.hpp - a result that is asked questions: numbers that carry their interval, and ratios of two results.
//
// Threads: plain values.
#pragma once

#include <chrono>
#include <string>
#include <type_traits>
#include <utility>

#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

/// A number and how far it may be off: with 95 % confidence the true one lies within.
struct measured {
    double value = 0;  ///< nanoseconds, or what the caller compares
    interval range;
    std::string void_reason;  ///< why there is no number; empty if there is one
};

/// An exact number: a limit that somebody wrote down. Durations become nanoseconds.
template <class T>
    requires std::is_arithmetic_v<T>
[[nodiscard]] measured exactly(T value) {
    const auto number = static_cast<double>(value);
    return {.value = number, .range = {number, number}, .void_reason = {}};
}
template <class Count, class Period>
[[nodiscard]] measured exactly(std::chrono::duration<Count, Period> value) {
    return exactly(std::chrono::duration<double, std::nano>(value).count());
}
[[nodiscard]] inline measured exactly(measured value) { return value; }

/// What perf_test::run returns.
class perf_result : public result {
 public:
    perf_result() = default;
    explicit perf_result(result found) : result(std::move(found)) {}

    /// Nanoseconds an operation; void if nothing of the body was left to measure (the warning `deleted`).
    [[nodiscard]] measured median() const;
    /// Nanoseconds a call; void unless calls were timed one by one (PERF_LATENCY, or options with `latency`), and if
    /// half of them took no time that can be told.
    [[nodiscard]] measured percentile_at(double level) const;
    [[nodiscard]] measured p50() const { return percentile_at(0.5); }
    [[nodiscard]] measured p90() const { return percentile_at(0.9); }
    [[nodiscard]] measured p99() const { return percentile_at(0.99); }
    [[nodiscard]] measured p999() const { return percentile_at(0.999); }
};
using PerfResult = perf_result;

/// Why a result has no time that could be compared; empty if it has one.
[[nodiscard]] std::string why_no_time(const result& found);

/// Time of `a` over time of `b` by their medians. Requires: 0 < confidence < 1. The samples are taken for independent:
/// results taken one after the other differ by what the machine did meanwhile, too.
[[nodiscard]] measured ratio_of(const result& a, const result& b, double confidence = 0.95);

/// The same from samples of the same rounds (measure_interleaved), which cancels what the machine did meanwhile.
[[nodiscard]] measured paired_ratio_of(const result& a, const result& b, double confidence = 0.95);

/// "5 %", "99.9%" or "0.95" as a part. Throws: usage_error for what is not above 0 and below 1.
[[nodiscard]] double percentage_of(std::string text);
/// The same: a confidence is such a part.
[[nodiscard]] inline double confidence_of(std::string text) { return percentage_of(std::move(text)); }

}  // namespace holdfast::perf_test
