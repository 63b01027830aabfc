// SPDX-License-Identifier: Apache-2.0
// options.cpp - what the flags and a test's own wishes come to.
#include "holdfast/perf_test/options.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace holdfast::perf_test {
namespace {

constexpr double planned_hz_max = 1e9;  // starts are planned in whole nanoseconds
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

test_options flag_values::over(test_options own) const {
    const bool mode = test.latency || (hz_given && test.hz > 0) || !test.threads.empty() || !test.processes.empty();
    if (mode) own.precision = 0;
    if (hz_given) {
        own.hz = test.hz;
        if (test.hz == 0) own.arrival = arrivals::fixed, own.pace = pacing::spin;
    }
    if (seconds_given) own.seconds = test.seconds;
    if (test.warmup_seconds) own.warmup_seconds = test.warmup_seconds;
    if (test.timeout_seconds) own.timeout_seconds = test.timeout_seconds;
    if (test.precision > 0) own.precision = test.precision;
    if (test.batch != 0) own.batch = test.batch;
    own.latency = own.latency || test.latency;
    if (arrival_given) own.arrival = test.arrival;
    if (pace_given) own.pace = test.pace;
    if (!test.threads.empty()) own.threads = test.threads;
    if (!test.processes.empty()) own.processes = test.processes;
    if (!test.pin.empty()) own.pin = test.pin;
    if (test.count != counting::standard) own.count = test.count;
    if (test.seed != 0) own.seed = test.seed;
    return own;
}

test_options flag_values::for_test(double opt_hz, double opt_milliseconds) const {
    test_options chosen;
    if (opt_hz >= 0) chosen.hz = opt_hz;
    if (opt_milliseconds >= 0) chosen.seconds = opt_milliseconds / 1e3;
    chosen = over(std::move(chosen));
    if (!std::isfinite(opt_hz) || !(chosen.hz <= planned_hz_max)) {
        throw usage_error("the test asks for " + std::to_string(opt_hz) + " operations a second; the most is 1e9");
    }
    if (!std::isfinite(opt_milliseconds) || !(chosen.seconds > 0) || chosen.seconds > seconds_max) {
        throw usage_error("the test asks to run for " + std::to_string(opt_milliseconds) +
                          " ms; a time is above 0 and at most a day, or -1 for the default");
    }
    return chosen;
}

}  // namespace holdfast::perf_test
