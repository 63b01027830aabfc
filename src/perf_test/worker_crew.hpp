// SPDX-License-Identifier: Apache-2.0
// worker_crew.hpp - the workers of a group as those who start them see them: threads or processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/perf_test/workers.hpp"
#include "perf_test/worker_memory.hpp"

namespace holdfast::perf_test {

/// Starts workers, notices their ends and leaves none behind.
class crew {
 public:
    virtual ~crew() = default;  // an implementation's ends every worker
    /// Throws: holdfast::error where the system refuses.
    virtual void start(std::size_t worker) = 0;
    /// Sleeps until something happens to a worker, or the instant has come (CLOCK_MONOTONIC; 0: none).
    virtual void wait_for_news(std::uint64_t until_ns) = 0;
    /// Whether the worker has ended, well or not.
    [[nodiscard]] virtual bool ended(std::size_t worker) const = 0;
    /// "worker 2 of 4 (process 123)", as messages name it; counted from 1.
    [[nodiscard]] virtual std::string name(std::size_t worker) const = 0;
    /// Whether nothing speaks against a worker that has ended and said that it was done.
    [[nodiscard]] virtual bool ended_well(std::size_t worker) const = 0;
    /// How a worker that has ended without a last word did so: "was killed by signal 11 (SIGSEGV)".
    [[nodiscard]] virtual std::string end_of(std::size_t worker) const = 0;
    /// Ends those who are late; `message` says who. Threads cannot be ended, so with them it ends the process (I4).
    /// Returns: the message and what more there is to say.
    virtual std::string end_late(std::string message) = 0;
    /// The group has failed: ends whom it can end at once. The others see the group's stop.
    virtual void give_up() noexcept = 0;

 protected:
    crew() = default;
    crew(const crew&) = default;
    crew& operator=(const crew&) = default;
};

[[nodiscard]] std::unique_ptr<crew> make_threads(const group_options& options, body_runner& body,
                                                 const worker_memory& memory);
[[nodiscard]] std::unique_ptr<crew> make_processes(const group_options& options, body_runner& body,
                                                   const worker_memory& memory);

/// Waits for the eventfd of `memory` (and empties it) or other descriptors, until the instant; 0: no limit.
void poll_events(const worker_memory& memory, const std::vector<int>& others, std::uint64_t until_ns);

}  // namespace holdfast::perf_test
