// SPDX-License-Identifier: Apache-2.0
// modes.hpp - the ways to measure that are not "flat out on one thread": which of them the options ask for, whether
// they go together, and what comes out as a result.
//
//   options                    what happens                                    what the result holds
//   latency                    each call timed, one after the other            latency
//   hz                         calls begun by a schedule                       rate (service and response)
//   threads, processes         flat out in groups, one after the other         one workers entry a group
//   latency + groups           each call timed, in each worker                 latency in each workers entry
//   hz + groups                hz is of all workers together, each its share   rate in each workers entry
//   latency + hz               as hz: the service times are what latency asks  rate
// Anything else that contradicts itself is refused with a sentence (mode_conflict), never half obeyed.
#pragma once

#include <string>

#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

/// Whether the options ask for any of these modes, or say what only these understand.
[[nodiscard]] bool wants_mode(const test_options& options) noexcept;

/// Why the options cannot be obeyed together; empty if they can.
[[nodiscard]] std::string mode_conflict(const test_options& options);

/// Measures in the mode that the options ask for. Of several groups of workers, the count, time and samples of the
/// result are those of the last one.
/// Requires: wants_mode. Returns: the result; failure is set for a conflict or a failed worker. Throws: what the body
/// throws on the calling thread; holdfast::error where the system refuses what a group needs.
[[nodiscard]] result measure_mode(const test_options& options, body_runner& body);

}  // namespace holdfast::perf_test
