// SPDX-License-Identifier: Apache-2.0
// result.hpp - what one measurement found: the numbers that every printer, file format, comparison and assertion works
// on.
//
// A body is the code under test, called once an operation. A batch is a run of operations between two readings of the
// clock; a sample is a batch's time over its operations, in nanoseconds an operation. Everything statistical is about
// the samples, in the order in which they were taken. Times are nanoseconds in double; rates are operations a second.
// Threads: plain values; no shared state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::perf_test {

/// A closed range that holds the true value with 95 % confidence, unless said otherwise.
struct interval {
    double low = 0;
    double high = 0;
};

/// Tukey's fences: samples beyond 1.5 (mild) and 3 (severe) interquartile ranges outside the quartiles.
struct outlier_counts {
    std::size_t low_severe = 0, low_mild = 0, high_mild = 0, high_severe = 0;
    [[nodiscard]] std::size_t total() const noexcept { return low_severe + low_mild + high_mild + high_severe; }
};

/// One sample of numbers, described (statistics.hpp: describe). All zero for no samples.
struct summary {
    std::size_t count = 0;
    double minimum = 0, p05 = 0, p25 = 0, median = 0, p75 = 0, p95 = 0, maximum = 0;
    double mean = 0, geometric_mean = 0, deviation = 0;  ///< deviation: sample standard deviation
    double mad = 0;                                      ///< median absolute deviation from the median, not scaled
    interval median_95;                                  ///< by order statistics: no assumption on the distribution
    outlier_counts outliers;
    double autocorrelation = 0;  ///< lag 1, of the samples in time order
    double drift = 0;       ///< change from the first to the last sample as a part of the median, by a robust slope
    std::size_t modes = 0;  ///< clearly separate peaks of the distribution
};

/// One percentile of a latency distribution with its bounds (latency_histogram's query).
struct percentile {
    double level = 0;  ///< 0 to 1
    double estimate = 0, lower = 0, upper = 0;
    bool bounded = false;  ///< the bounds hold with 95 %; false: too few samples for this level
};

/// Calls that took so long.
struct call_bucket {
    double low = 0, high = 0;  ///< ns, both within
    std::uint64_t count = 0;
};

/// Times of single calls, ns.
struct latency_result {
    std::uint64_t count = 0;
    std::vector<percentile> percentiles;  ///< ascending by level
    double minimum = 0, mean = 0, maximum = 0;
    std::vector<call_bucket> histogram{};  ///< of all calls, ascending; without empty buckets
};

/// How the starts of calls are spread over time in rate mode.
enum class arrivals : std::uint8_t { fixed, poisson };

/// How a paced run waits for the next start.
enum class pacing : std::uint8_t {
    spin,   ///< sleeps until shortly before, then watches the clock: exact, takes a CPU
    sleep,  ///< sleeps only: late by what the kernel's timers are late
};

/// Calls started by a schedule that was fixed beforehand and does not wait for slow ones.
struct rate_result {
    double wanted_hz = 0, achieved_hz = 0;
    arrivals arrival = arrivals::fixed;
    pacing pace = pacing::spin;
    std::uint64_t seed = 0;  ///< of Poisson arrivals
    std::uint64_t late_starts =
        0;  ///< calls that began later than the schedule said by more than the clock's grain and the pacing's own error
    std::uint64_t backlog_max = 0;  ///< most calls that were due and not yet begun
    std::uint64_t abandoned = 0;    ///< calls that were due before the end and never begun: the body is too slow
    double start_error_ns = 0;      ///< median delay of the starts that were waited for: the pacing's own error
    latency_result service;         ///< from the actual start of a call to its end
    latency_result response;        ///< from the intended start to its end: what a client would have seen. An abandoned
                                    ///< call is counted with the time it had waited, so it never flatters
};

/// The same body in several workers at once.
struct workers_result {
    std::size_t workers = 1;
    bool processes = false;      ///< forked processes instead of threads
    std::uint64_t count = 0;     ///< operations of all workers
    double seconds = 0;          ///< from the common start to the last end
    double wall_hz = 0;          ///< count over seconds
    double start_spread_ns = 0;  ///< from the first worker's start to the last one's
    summary per_worker_ns;       ///< ns an operation as each worker saw it
    std::vector<double> worker_ns;
    summary batches;  ///< ns an operation in each batch of any worker; autocorrelation and drift are medians over
                      ///< workers: neighbours in time are each worker's own
    std::optional<latency_result> latency;  ///< of all workers' calls, where calls were timed one by one
    std::optional<rate_result> rate;        ///< of all workers, each with its share of the schedule
    std::string failure;                    ///< which worker failed and how; the numbers are void then
};

/// What others did to the timed batches, as far as the kernel tells (disturbance.hpp).
struct disturbed_batches {
    std::uint64_t batches = 0;               ///< that were interrupted
    std::uint64_t rerun = 0;                 ///< of these, taken again; the others were kept because the time was over
    std::uint64_t involuntary_switches = 0;  ///< in all batches
    double steal_seconds = 0;                ///< in all batches, all CPUs together
};

/// One counter, an operation.
struct counter {
    std::string name;  ///< "instructions", "page-faults", "voluntary-switches", ...
    double per_operation = 0;
    std::string source;  ///< "perf_event", "rusage", "callgrind", "allocator"
};

/// Something a reader of the number must know. The code is stable and for programs: "unstable", "drift", "modes",
/// "deleted", "steal", ...
struct warning {
    std::string code;
    std::string text;
};

/// All that is known of one measured test.
struct result {
    std::string suite, name, parameter;  ///< GoogleTest's names; parameter is empty for a plain test
    std::string full_name() const { return suite.empty() ? name : suite + "." + name; }

    std::uint64_t pass = 1;  ///< over the tests in this process (--gtest_repeat); only the first is a run of its own

    std::uint64_t count = 0;      ///< operations that were run and timed
    double seconds = 0;           ///< time they took together
    std::uint64_t batch = 0;      ///< operations a batch
    double floor_ns = 0;          ///< cost of the empty loop, an operation; already taken off the samples
    std::vector<double> samples;  ///< ns an operation, in time order, floor taken off
    summary time;                 ///< of samples

    std::optional<latency_result> latency;
    std::optional<rate_result> rate;
    std::vector<workers_result> workers;
    std::vector<counter> counters;
    std::optional<disturbed_batches> disturbed;  ///< none where batches are too short to ask, or a mode was measured
    std::vector<warning> warnings;

    bool aborted = false;  ///< the body asked to stop (PERF_ABORT) or failed; the numbers are of what ran before
    std::string failure;   ///< why the measurement is void, empty if it is good; never report a number then

    [[nodiscard]] bool good() const noexcept { return failure.empty(); }
    [[nodiscard]] double hz() const noexcept { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }
};

}  // namespace holdfast::perf_test
