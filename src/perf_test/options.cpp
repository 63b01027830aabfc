// SPDX-License-Identifier: Apache-2.0
// options.cpp - what the flags and a test's own wishes come to.
#include "holdfast/perf_test/options.hpp"

#include <cmath>
#include <string>

namespace holdfast::perf_test {
namespace {

constexpr double hz_max = 1e9;  // starts are planned in whole nanoseconds
constexpr double seconds_max = 24 * 3600.0;

}  // namespace

double test_options::timeout() const noexcept {
    if (timeout_seconds) return *timeout_seconds;
    // Floor, calibration and warm-up take less than `seconds`, the batches at most three times of it; a mode measures
    // once for each number of workers. The half minute is for bodies of which a single call takes seconds.
    const auto runs = static_cast<double>(1 + threads.size() + processes.size());
    const double factor = count == counting::callgrind ? 100 : 1;
    return factor * (6 * seconds * runs + 30);
}

test_options flag_values::for_test(double opt_hz, double opt_milliseconds) const {
    test_options chosen = test;
    if (!hz_given && opt_hz >= 0) chosen.hz = opt_hz;
    if (!seconds_given && opt_milliseconds >= 0) chosen.seconds = opt_milliseconds / 1e3;
    if (!std::isfinite(opt_hz) || !(chosen.hz <= hz_max)) {
        throw usage_error("the test asks for " + std::to_string(opt_hz) + " operations a second; the most is 1e9");
    }
    if (!std::isfinite(opt_milliseconds) || !(chosen.seconds > 0) || chosen.seconds > seconds_max) {
        throw usage_error("the test asks to run for " + std::to_string(opt_milliseconds) +
                          " ms; a time is above 0 and at most a day, or -1 for the default");
    }
    return chosen;
}

}  // namespace holdfast::perf_test
