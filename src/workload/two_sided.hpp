// SPDX-License-Identifier: Apache-2.0
// two_sided.hpp - times subjects that take two cores, in turn, and looks at the way between the cores around each.
//
// How long a cache line takes from core to core is not the same all the time: on a virtual machine it changes by three
// times when the hypervisor moves a core. So a bare round trip of one line is timed before and after each sample, and a
// round whose probes disagree is taken again (as many times as there are rounds; then it is kept and counted), like one
// in which either core was taken away. Ratios are taken within rounds, as everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "workload/far_side.hpp"
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
    std::uint64_t operations_min = 64;  ///< a sample has a multiple of these
    std::uint64_t probe_trips = 200;    ///< of a line, before and after each sample
};

struct two_sided_result {
    std::vector<std::vector<double>> samples;  ///< [subject][round], ns an operation
    std::vector<double> line_ns;               ///< [round], a bare round trip of one line meanwhile
    std::vector<double> two_lines_ns;          ///< [round], likewise of a line each way
    std::size_t unsteady = 0;                  ///< rounds thrown away because the line's time changed in them
    std::size_t disturbed = 0;                 ///< rounds thrown away because a core was taken away
    std::size_t kept_disturbed = 0;            ///< of either kind, kept: no more repetitions were left
};

/// Throws: what a subject throws; holdfast::error (invalid_argument) for none.
[[nodiscard]] two_sided_result measure_two_sided(const std::vector<two_sided_subject>& subjects,
                                                 const two_sided_options& options);

/// The options of a run as the user wants it.
[[nodiscard]] two_sided_options two_sided_timing(const run_options& wanted);

/// "line round trip meanwhile 95 ns (93 to 98), 2 of 40 rounds taken again": a note for people.
[[nodiscard]] std::string line_text(const two_sided_result& found);

}  // namespace holdfast::workload
