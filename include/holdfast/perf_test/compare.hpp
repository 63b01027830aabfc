// SPDX-License-Identifier: Apache-2.0
// compare.hpp - is it slower than before? A verdict that can fail a build without crying wolf.
//
// A change counts only beyond min_effect, and a verdict speaks only if the whole interval of the ratio lies on one side
// of that limit. Two ways to get there:
//   paired    both versions in one process, timed in turn (interleaved.hpp): what the machine does to one it does to
//             the other. Neighbouring rounds may resemble each other, so that the sign test is about the medians
//             of blocks of rounds, at most 32 and no more than there would be independent rounds. This is the way to
//             prefer.
//   runs      one version now, the other in the past, a number of process runs each. A process run is one observation,
//             however many samples it took: memory layout, placement and the state of the machine are drawn once a
//             process. The interval is Student's, of the logarithms of the runs' medians, with pooled deviation. With
//             fewer than 4 degrees of freedom that deviation is not known; then 5 % is assumed, and the interval is as
//             wide as that makes it.
// Verdicts over many tests are corrected by Holm, so that alpha is the chance of any false alarm in the whole family.
// Threads: pure functions, but for measure_ab (interleaved.hpp). Source: sign test: Conover, Practical Nonparametric
// Statistics, 3rd ed., 1999, section 3.4; runs as the unit: Kalibera and Jones, Rigorous Benchmarking in Reasonable
// Time, ISMM 2013; docs/design/0012-measuring.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/perf_test/interleaved.hpp"
#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

enum class verdict : std::uint8_t {
    same,      ///< the 95 % interval lies within the limits
    faster,    ///< all of the interval lies beyond the limit
    slower,    ///< likewise, on the other side
    too_noisy  ///< none of these can be told: measure longer
};

/// "same", "faster", "slower" or "too_noisy".
[[nodiscard]] const char* to_string(verdict v) noexcept;

struct compare_options {
    double min_effect = 0.03;             ///< changes up to this part are none; limits 1 + e and 1 / (1 + e)
    double alpha = 0.001;                 ///< chance of any "faster" or "slower" in the family if nothing changed
    double assumed_run_deviation = 0.05;  ///< between process runs, where too few tell it
    double least_run_deviation = 0.005;   ///< a few runs may agree by luck: never believed to be less than this
    std::size_t degrees_of_freedom = 4;   ///< of the deviation between runs, from which on it is taken from the runs
};

/// One comparison and what follows from it.
struct comparison {
    std::string name;
    double ratio = 0;       ///< time now over time of the base: above 1 is slower
    interval ratio_95;      ///< of this comparison alone
    double p_value = 1;     ///< of a ratio like this if the true one lay at the limit or within, two-sided
    double p_adjusted = 1;  ///< the same, corrected for the family
    verdict outcome = verdict::too_noisy;
    std::string text;  ///< one sentence for people
    std::string note;  ///< what the verdict stands on, if that is little; ends the text
};

/// Compares paired samples: base[i] and now[i] were taken in the same round. Fewer than 22 rounds never give
/// an alarm.
/// Throws: holdfast::error (invalid_argument) for unequal lengths, times that are negative or not finite, or options
/// that make no sense.
[[nodiscard]] comparison compare_paired(std::span<const double> base, std::span<const double> now,
                                        const compare_options& options = {});

/// Compares process runs: one summary a run. Throws: as above; for no run on a side or a median that is not above zero.
[[nodiscard]] comparison compare_runs(std::span<const summary> base, std::span<const summary> now,
                                      const compare_options& options = {});

/// Compares counts that are the same on every run (instructions by callgrind): above all of the base's by more than
/// min_effect is slower, below all of them by more is faster. No chance is in it, so it takes no part in a family.
/// Throws: holdfast::error (invalid_argument) for no run of the base, or a count that is not above zero.
[[nodiscard]] comparison compare_counts(std::span<const double> base, double now, double min_effect = 0.01);

/// Corrects the comparisons of a family for one another and sets outcome and text anew. Call it once all are there.
void judge(std::span<comparison> family, const compare_options& options = {});

/// Two versions timed in turn, and compared.
struct ab_result {
    interleaved_result run;  ///< subjects[0] is the base
    comparison change;       ///< too_noisy, with the failure as text, if one of them has no number
};

/// Times base and now in turn and compares them. Throws: as measure_interleaved.
[[nodiscard]] ab_result measure_ab(const subject& base, const subject& now, const interleaved_options& run = {},
                                   const compare_options& compare = {});

/// P(|T| > t) for Student's distribution; with infinite degrees of freedom the normal one's. Requires: t >= 0, df > 0.
[[nodiscard]] double student_two_sided(double t, double degrees_of_freedom) noexcept;

/// The t whose student_two_sided is p. Requires: 0 < p <= 1.
[[nodiscard]] double student_quantile(double p, double degrees_of_freedom) noexcept;

}  // namespace holdfast::perf_test
