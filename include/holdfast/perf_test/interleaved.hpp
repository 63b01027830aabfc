// SPDX-License-Identifier: Apache-2.0
// interleaved.hpp - several subjects timed in turn, so that what the machine does to one it does to all.
//
// Rounds: in each, every subject runs one batch; the order changes from round to round (the rows of a Latin square in
// which each subject follows each other one equally often, drawn at random), so that no subject always follows the same
// other. Samples of one round are paired: a ratio is taken within rounds and then described, which cancels whatever
// changes slowly. A batch is calibrated for each subject to last about the same time. Threads: one at a time; the
// subjects run on the calling thread. Source: the square: Williams, Australian J. Scientific Research A 2, 1949; paired
// comparison and sign test interval: Conover, Practical Nonparametric Statistics, 3rd ed., 1999, sections 3.4 and 5.7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

/// One of the things compared.
struct subject {
    std::string name;
    std::function<void(std::uint64_t operations)>
        run;                        ///< does exactly this many operations; results must be used (do_not_optimize)
    std::function<void()> prepare;  ///< untimed, before each batch; may be empty
    std::uint64_t batch = 0;        ///< operations a batch; 0: calibrated. A subject that uses itself up sets it
    std::function<void(std::uint64_t operations)> empty =
        {};  ///< the same loop without the body: what is no more than that is warned of ("deleted"). Its cost
             ///< stays in the times. May be empty: then less than a cycle is warned of
};

struct interleaved_options {
    double seconds = 1.5;         ///< timed seconds a subject, about
    std::size_t rounds_min = 30;  ///< rounds at least (a slow subject takes as long as they take)
    std::size_t rounds_max = 3000;
    double batch_seconds_min = 2.5e-4;  ///< a calibrated batch lasts at least this, and 1000 times the clock's grain;
                                        ///< short ones fit between two interruptions
    double warm_part = 0.1;       ///< of a calibrated batch, run untimed before it: the caches are another subject's
    std::uint64_t seed = 0;       ///< of the order; 0: taken from the clock and written into the result
    bool rerun_disturbed = true;  ///< a round with steal time or an involuntary context switch is run again, as often
                                  ///< as undisturbed ones came up
};

/// Ratio of two subjects' times, from the paired rounds.
struct paired_ratio {
    double ratio = 0;    ///< median over rounds of time(b) / time(a): above 1 means that a is faster
    interval ratio_95;   ///< sign-test interval of that median
    double p_value = 1;  ///< Wilcoxon signed ranks on the log ratios, two-sided
};

/// The ratio of paired samples: b[i] and a[i] were taken in the same round. Pairs with a time of zero tell nothing and
/// are left out; without any other the ratio is 0. Throws: holdfast::error (invalid_argument) for unequal lengths or a
/// time that is negative or not finite.
[[nodiscard]] paired_ratio ratio_of_pairs(std::span<const double> a, std::span<const double> b);

struct interleaved_result {
    std::vector<result> subjects;  ///< in the order given; result::name is the subject's
    std::uint64_t seed = 0;
    std::size_t rounds = 0;            ///< kept: each subject has as many samples
    std::size_t disturbed_rounds = 0;  ///< kept although disturbed: no more repetitions were left
    std::size_t rerun_rounds = 0;      ///< disturbed, thrown away and run again

    /// Throws: holdfast::error (invalid_argument) for an index that is none.
    [[nodiscard]] paired_ratio ratio(std::size_t a, std::size_t b) const;
};

/// Times the subjects in turn. A subject whose batches take no measurable time has a failure and no samples.
/// Throws: holdfast::error (invalid_argument) for no subjects, a subject without a name or body, or options that make
/// no sense; whatever a body throws, after which no number of the run is valid. Cost: about options.seconds a subject
/// and a fifth more for calibration and warming; a body that takes long runs rounds_min + 4 times.
interleaved_result measure_interleaved(const std::vector<subject>& subjects, const interleaved_options& options);

/// The order of one cycle of rounds: each row holds 0 to subjects - 1; every ordered pair of neighbours comes up
/// equally often. One row for one subject, n for even n, 2 n for odd n. For tests and for other drivers of rounds.
[[nodiscard]] std::vector<std::vector<std::size_t>> balanced_orders(std::size_t subjects, std::uint64_t seed);

}  // namespace holdfast::perf_test
