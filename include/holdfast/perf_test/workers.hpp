// SPDX-License-Identifier: Apache-2.0
// workers.hpp - one body in several workers at once: threads of this process, or processes forked from it.
//
// Every worker warms up, reports itself ready and waits; when all are ready, an instant shortly ahead is named and each
// begins at it. Threads call one body object together, processes call a copy each (what the body maps as shared memory
// stays one). A worker gathers its numbers in memory that it shares with the caller, and nobody else writes there.
// (I1) A worker that throws, exits, is killed or does not come back makes the whole result void: its failure names the
//      test, the worker and the cause. There is no number of the survivors.
// (I2) No child outlives run_group: each is reaped, or killed and reaped; one whose caller dies is killed by the
//      kernel.
// (I3) A child ends by _exit: nothing that was registered for the end of the caller's process runs twice, and stdio is
//      flushed before each fork and at the child's end.
// (I4) A thread that does not come back cannot be ended alone: the process is, with a message, as a watchdog would.
// Fork copies only the calling thread. A lock that another thread holds at that instant stays locked in the child; the
// message for a hanging child says how many threads there were.
// Threads: one run_group at a time, on the thread that owns the process's children here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/rate.hpp"
#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

/// Who the calling code is, for a body that wants to work on its own part of something.
struct worker_identity {
    std::size_t index = 0, workers = 1;
    bool process = false;
};

/// The worker that runs on this thread; {0, 1, false} outside a group.
[[nodiscard]] worker_identity current_worker() noexcept;

/// How a test framework learns of what happens in forked workers. Both may be empty; both run in the child.
struct worker_hooks {
    std::function<void()> begin;            ///< first thing after fork: silence printers, forget inherited results
    std::function<std::string()> failures;  ///< last thing: the text of checks that failed here, empty if none
};

/// The hooks of this process; set them before the first group.
[[nodiscard]] worker_hooks& process_hooks() noexcept;

/// One group of workers.
struct group_options {
    std::string test;  ///< for messages
    std::size_t workers = 1;
    bool processes = false;
    double seconds = 1.5;
    std::uint64_t batch = 0;  ///< operations a batch; 0: as the body says, else calibrated by each worker
    bool latency = false;     ///< times each call
    std::optional<rate_options> rate = std::nullopt;  ///< follows a schedule; its hz is of all workers together
    std::vector<unsigned> pin = {};                   ///< CPUs that workers are tied to, in turn; empty: not tied
    double patience_seconds = 30;                     ///< a worker that is so late counts as hanging; 0: never
};
inline constexpr std::size_t workers_max = 1024;

struct group_outcome {
    workers_result result;
    std::vector<double> samples;  ///< ns an operation, floor taken off: all workers' batches, worker by worker
    double floor_ns = 0;          ///< of the empty loop, or of an empty call where calls are timed
    bool aborted = false;         ///< a body asked to stop; the numbers are of what ran before
};

/// Runs the body in a group. A failure of a worker is in result.failure. Throws: holdfast::error (invalid_argument) for
/// no or more than workers_max workers; (no_space, unsupported, io) where the system refuses memory or descriptors.
[[nodiscard]] group_outcome run_group(const group_options& options, body_runner& body);

}  // namespace holdfast::perf_test
