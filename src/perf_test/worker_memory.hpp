// SPDX-License-Identifier: Apache-2.0
// worker_memory.hpp - what a group of workers and its caller share, for threads and processes alike.
//
// One anonymous shared mapping: the group's words, then a block for each worker.
// (I1) A block is written by its worker alone. The caller reads `state` and `process` while the worker runs, everything
//      else after its end (a join, or the kernel's word that the process is gone).
// (I2) A worker that was killed leaves its block half-written: the caller believes none of it unless state is done.
// Orders: W1/R1 state: what the worker wrote before is there for whoever sees the state.
//         W2/R2 go: the instant to begin at is there for whoever sees that it is time to go.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/memory/descriptor.hpp"
#include "holdfast/perf_test/call_times.hpp"
#include "holdfast/perf_test/rate.hpp"

namespace holdfast::perf_test {

enum class worker_state : std::uint32_t { starting, ready, done, failed };

/// Samples in a fixed room: when it is full, neighbours are averaged and from then on each sample stands for twice as
/// many batches.
class sample_room {
 public:
    void add(double ns_an_operation) noexcept;
    [[nodiscard]] std::span<const double> samples() const noexcept { return {samples_.data(), count_}; }

 private:
    static constexpr std::size_t room = 2048;
    std::array<double, room> samples_{};
    std::size_t count_ = 0;
    std::uint64_t batches_a_sample_ = 1, gathered_ = 0;
    double gathered_sum_ = 0;
};

struct worker_block {
    std::atomic<worker_state> state{worker_state::starting};
    std::uint64_t count = 0, batch = 0;
    std::uint64_t start_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC: one clock for all processes
    double busy_ns = 0;                      // time of the batches or calls alone
    double floor_ns = 0;
    bool aborted = false;
    std::array<char, 4096> text{};  // why it failed, cut off where it does not fit
    sample_room batches;
    call_times calls;
    rate_counts rate;

    void set_text(std::string_view why) noexcept;
    [[nodiscard]] std::string get_text() const;
};

struct group_block {
    std::atomic<std::uint32_t> go{0};    // a futex: 0 while workers wait at the start
    std::atomic<std::uint32_t> stop{0};  // not 0: end soon
    std::uint64_t start_at_ns = 0;
};

/// The mapping, and the descriptor by which workers wake the caller.
class worker_memory {
 public:
    /// Throws: holdfast::error naming `test` where the system refuses.
    worker_memory(std::size_t workers, const std::string& test);
    ~worker_memory();
    worker_memory(const worker_memory&) = delete;
    worker_memory& operator=(const worker_memory&) = delete;

    [[nodiscard]] group_block& group() const noexcept { return *group_; }
    [[nodiscard]] std::span<worker_block> blocks() const noexcept { return blocks_; }
    [[nodiscard]] int events() const noexcept { return events_.get(); }

    /// Worker: tells the caller of a new state. Signal-safe.
    void announce(worker_block& mine, worker_state state) const noexcept;
    /// Worker: waits for release. Returns: false if the group is to end instead.
    [[nodiscard]] bool await_start() const noexcept;
    /// Caller: lets all begin at that instant.
    void release(std::uint64_t start_at_ns) const noexcept;
    /// Caller: all are to end soon, those at the start at once.
    void stop() const noexcept;

 private:
    void* mapped_ = nullptr;
    std::size_t bytes_ = 0;
    group_block* group_ = nullptr;
    std::span<worker_block> blocks_;
    memory::descriptor events_;
};

}  // namespace holdfast::perf_test
