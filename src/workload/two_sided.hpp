// SPDX-License-Identifier: Apache-2.0
// two_sided.hpp - times subjects that take two cores, in turn, and looks at the way between the cores around each.
//
// How long a cache line takes from core to core is not the same all the time: on a virtual machine it changes by three
// times when the hypervisor moves a core. So a bare round trip of one line is timed before and after each sample, and a
// sample whose probes disagree, with each other or with those of its round, is taken again, like one in which either
// core was taken away (sample_rounds.hpp says which and how often). Ratios are taken within rounds, as everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "workload/far_side.hpp"
#include "workload/sample_rounds.hpp"
#include "workload/suite.hpp"
#include "workload/targets.hpp"

namespace holdfast::workload {

/// One of the things compared.
struct two_sided_subject {
    std::string name;
    far_side* far = nullptr;
    std::function<double(std::uint64_t operations)> run;  ///< both sides' work; returns the nanoseconds that count
};

struct two_sided_options {
    double seconds = 1.5;         ///< timed seconds a subject, about
    double batch_seconds = 4e-3;  ///< of one sample
    std::size_t rounds_min = 11;
    std::size_t rounds_max = 500;
    std::uint64_t operations_min = 64;                   ///< a sample has a multiple of these
    std::size_t retakes = sample_rounds::usual_retakes;  ///< of one sample
    std::uint64_t probe_trips = 200;                     ///< of a line, before and after each sample, in two halves
};

/// Throws: what a subject throws; holdfast::error (invalid_argument) for none.
[[nodiscard]] two_sided_result measure_two_sided(const std::vector<two_sided_subject>& subjects,
                                                 const two_sided_options& options);

/// How long a sample may take before the next gets fewer operations than were calibrated.
[[nodiscard]] constexpr double sample_seconds_max(const two_sided_options& options) {
    return 25 * options.batch_seconds;
}

/// The options of a run as the user wants it.
[[nodiscard]] two_sided_options two_sided_timing(const run_options& wanted);

/// A note for people: how long the line took meanwhile, how many samples were taken again and why, and how many that
/// should have been were kept.
[[nodiscard]] std::string line_text(const two_sided_result& found);

}  // namespace holdfast::workload
