// SPDX-License-Identifier: Apache-2.0
// worker_work.hpp - what one worker does between its birth and its last word, the same for threads and processes.
#pragma once

#include <cstddef>

#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/workers.hpp"
#include "perf_test/worker_memory.hpp"

namespace holdfast::perf_test {

/// Warms up, waits for the common start, measures, and announces done or failed. Nothing leaves it but by the block:
/// what the body throws becomes the failure's text.
void work(const group_options& options, body_runner& body, const worker_memory& memory, std::size_t index) noexcept;

/// Sets what current_worker says on this thread.
void set_current_worker(worker_identity identity) noexcept;

}  // namespace holdfast::perf_test
