// SPDX-License-Identifier: Apache-2.0
// complexity.hpp - how time grows with the size of a problem, and throughput with the number of workers.
//
// Sizes: time = constant + factor * shape(n), by least squares of relative errors (a run twice as long has twice the
// noise), each shape with and without the constant; a factor or constant below zero is not considered. Shapes are
// ranked by Akaike's criterion corrected for small samples; of those within 2 of the best the slowest growing one is
// chosen, since a better fit by so little is chance. Workers: the universal scalability law, throughput =
// rate N / (1 + contention (N - 1) + coherency N (N - 1)), with both coefficients at zero or above; coherency zero is
// Amdahl's law. Contention above 1 is possible: two workers then do less than one. An efficiency above 100 % is told
// beside the law, which cannot explain it: the small groups are slower than their share. Threads: pure functions.
// Source: Burnham and Anderson, Model Selection and Multimodel Inference, 2nd ed., 2002, section 2.4; Gunther,
// Guerrilla Capacity Planning, 2007, chapter 4.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

enum class growth : std::uint8_t { constant, logarithmic, linear, linear_logarithmic, quadratic };

/// "1", "log n", "n", "n log n", "n^2".
[[nodiscard]] const char* to_string(growth shape) noexcept;

/// One size and the time of one operation at it.
struct size_and_time {
    double n = 0;   ///< 1 to 1e18
    double ns = 0;  ///< 1e-9 to 1e18
};

struct growth_fit {
    growth shape = growth::constant;
    double factor = 0;        ///< ns for each unit of the shape; logarithms are to base 2; 0 for growth::constant
    interval factor_95;       ///< Student's, if the shape is the true one
    double constant = 0;      ///< ns at any size
    double relative_rms = 0;  ///< root of the mean squared relative error
    double aicc = 0;          ///< the less the better
    double weight = 0;        ///< of all five shapes, how likely this one is to predict best
};

/// What a fit makes of a size: ns. Requires: n >= 1.
[[nodiscard]] double time_at(const growth_fit& fit, double n) noexcept;

struct growth_result {
    growth_fit best;  ///< the chosen one
    std::vector<growth_fit>
        fits;          ///< the best of each shape, by aicc, ascending; shapes that do not fit at all are missing
    std::string text;  ///< one sentence for people
};

/// Throws: holdfast::error (invalid_argument) for fewer than 4 different sizes, a size or a time outside its
/// limits. Cost: linear.
[[nodiscard]] growth_result fit_growth(std::span<const size_and_time> points);

/// One number of workers and their common throughput.
struct workers_and_rate {
    double workers = 0;  ///< 1 to 1e9
    double hz = 0;       ///< 1e-18 to 1e18
};

struct scalability_fit {
    double rate = 0;        ///< of one worker, a second
    double contention = 0;  ///< part of the work that must be done one after the other
    double coherency = 0;   ///< cost of each pair of workers keeping up with one another
    double relative_rms = 0;
    double best_workers = 0;  ///< where throughput is greatest; infinite without coherency
    double limit = 0;  ///< greatest throughput over that of one worker: infinite without contention and coherency
    /// Throughput of a worker, over that of a worker in the smallest group measured: the best of all larger groups.
    /// Above 1 the workers together do more than their number of times what the smallest group does; the law knows no
    /// such thing.
    double efficiency = 0;
    double efficiency_workers = 0;  ///< how many these were
    std::string text;               ///< one sentence for people
};

/// Throws: holdfast::error (invalid_argument) for fewer than 4 different numbers of workers, one below 1, or a rate
/// that is not finite and above zero.
[[nodiscard]] scalability_fit fit_scalability(std::span<const workers_and_rate> points);

/// The tests of one name and of several sizes, as one curve.
struct test_growth {
    std::string suite, name;            ///< the name without GoogleTest's number of the parameter
    std::vector<size_and_time> points;  ///< the parameter, and the median time of an operation or call
    growth_result found;
};

/// The curves in a list of results: of tests with a parameter (TEST_P) that is a number within the limits of a size,
/// measured flat out or call by call on one thread. Those with fewer than 4 different sizes are left out.
[[nodiscard]] std::vector<test_growth> growth_of(std::span<const result> results);

/// Name and value of what belongs into GoogleTest's reports: "shape", "factor_ns", "factor_low", "factor_high",
/// "constant_ns", "error".
[[nodiscard]] std::vector<std::pair<std::string, std::string>> properties_of(const test_growth& curve);

/// How the groups of one test scale: threads or processes.
struct test_scaling {
    bool processes = false;
    std::vector<workers_and_rate> points;
    scalability_fit found;
};

/// What its groups make of a test; none with fewer than 4 numbers of workers. Groups that kept to a rate say nothing:
/// a rate limits throughput by itself.
[[nodiscard]] std::vector<test_scaling> scaling_of(const result& found);

}  // namespace holdfast::perf_test
