// SPDX-License-Identifier: Apache-2.0
#include "perf_test/worker_work.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/latency.hpp"
#include "holdfast/perf_test/pacing.hpp"

namespace holdfast::perf_test {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): the thread's own identity
thread_local constinit worker_identity identity_here{};

constexpr std::uint64_t batch_ns_least = 100'000;  // a reading of the clock costs 30 ns: 0.03 % of it

void pin(const group_options& options, std::size_t index) {
    if (options.pin.empty()) return;
    const unsigned cpu = options.pin[index % options.pin.size()];
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0)
        memory::throw_errno(errno, "CPU " + std::to_string(cpu), "tying a worker to it",
                            "name CPUs that this process may use (taskset -p shows them)");
}

std::uint64_t timed_batch(body_runner& body, std::uint64_t operations, std::uint64_t& done) {
    body.prepare(operations);
    const std::uint64_t begin = monotonic_ns();
    done = body.run_batch(operations);
    const std::uint64_t end = monotonic_ns();
    body.finish();
    return end - begin;
}

/// Doubles the batch until it is long enough for the clock; that is the warm-up too.
std::uint64_t calibrate(const group_options& options, body_runner& body, const worker_memory& memory) {
    if (options.batch != 0) return options.batch;
    if (body.batch() != 0) return body.batch();
    std::uint64_t batch = 1;
    while (batch < std::uint64_t{1} << 40 && !wanted_to_stop(&memory.group().stop)) {
        std::uint64_t done = 0;
        if (timed_batch(body, batch, done) >= batch_ns_least) break;
        batch *= 2;
    }
    return batch;
}

/// The empty loop, ns an operation: the least of several, as everything that disturbs only adds to it.
double floor_of(body_runner& body) {
    constexpr std::uint64_t operations = 20'000;
    double least = std::numeric_limits<double>::max();
    for (int round = 0; round < 15; ++round) {
        const std::uint64_t begin = monotonic_ns();
        (void)body.run_floor(operations);
        least = std::min(least, static_cast<double>(monotonic_ns() - begin) / static_cast<double>(operations));
    }
    return least;
}

/// Reports ready and waits with the others. Returns: false if there is nothing to measure any more.
bool be_released(const worker_memory& memory, worker_block& mine) {
    if (stop_sign::is_raised()) return false;  // the warm-up asked to stop: not once more
    memory.announce(mine, worker_state::ready);
    return memory.await_start();
}

void wait_for_start(const worker_memory& memory) {
    const auto stopped = [&] { return wanted_to_stop(&memory.group().stop); };
    wait_until(monotonic_clock{}, memory.group().start_at_ns, pacing::spin, 60'000, stopped);
}

void measure_flat_out(const group_options& options, body_runner& body, const worker_memory& memory,
                      worker_block& mine) {
    mine.floor_ns = floor_of(body);
    mine.batch = calibrate(options, body, memory);
    if (!be_released(memory, mine)) return;
    wait_for_start(memory);
    mine.start_ns = monotonic_ns();
    const std::uint64_t until = memory.group().start_at_ns + static_cast<std::uint64_t>(options.seconds * 1e9);
    do {
        std::uint64_t done = 0;
        const auto took = static_cast<double>(timed_batch(body, mine.batch, done));
        mine.count += done;
        mine.busy_ns += took;
        if (done != 0) mine.batches.add(std::max(0.0, took / static_cast<double>(done) - mine.floor_ns));
        mine.end_ns = monotonic_ns();
    } while (mine.end_ns < until && !wanted_to_stop(&memory.group().stop));
}

void measure_calls(const group_options& options, body_runner& body, const worker_memory& memory, worker_block& mine) {
    const tick_clock& clock = tick_clock::get();
    mine.floor_ns = empty_call_ns(clock, body);
    (void)time_calls(clock, body, {.seconds = options.seconds / 20, .calls_max = 1000, .stop = &memory.group().stop},
                     mine.floor_ns, mine.calls);
    mine.calls = call_times{};  // that was the warm-up
    if (!be_released(memory, mine)) return;
    wait_for_start(memory);
    mine.start_ns = monotonic_ns();
    const timed_calls did =
        time_calls(clock, body, {.seconds = options.seconds, .stop = &memory.group().stop}, mine.floor_ns, mine.calls);
    mine.end_ns = monotonic_ns();
    mine.count = did.count;
    mine.busy_ns = latency_of(mine.calls).mean * static_cast<double>(did.count);
}

void measure_rate(const group_options& options, body_runner& body, const worker_memory& memory, worker_block& mine,
                  std::size_t index) {
    const timer_slack fine;
    const rate_costs costs = measure_rate_costs(options.rate->pace, body);
    mine.floor_ns = static_cast<double>(costs.call_ns);
    schedule plan(options.rate->hz, options.rate->arrival, options.rate->seed, {index, options.workers});
    if (!be_released(memory, mine)) return;
    const std::uint64_t origin = memory.group().start_at_ns;
    mine.start_ns = origin;
    follow_schedule(monotonic_clock{}, plan, origin, body, *options.rate, costs, &memory.group().stop, mine.rate);
    mine.end_ns = origin + mine.rate.end_ns;
    mine.count = mine.rate.calls;
    mine.busy_ns = latency_of(mine.rate.service).mean * static_cast<double>(mine.count);
}

}  // namespace

worker_identity current_worker() noexcept { return identity_here; }
void set_current_worker(worker_identity identity) noexcept { identity_here = identity; }

void work(const group_options& options, body_runner& body, const worker_memory& memory, std::size_t index) noexcept {
    worker_block& mine = memory.blocks()[index];
    set_current_worker({index, options.workers, options.processes});
    try {
        pin(options, index);
        if (options.rate) {
            measure_rate(options, body, memory, mine, index);
        } else if (options.latency) {
            measure_calls(options, body, memory, mine);
        } else {
            measure_flat_out(options, body, memory, mine);
        }
        mine.aborted = stop_sign::is_raised();
        if (mine.aborted) memory.stop();  // the sign of a forked worker is its own; the others must learn of it
        const std::string failures = options.processes && process_hooks().failures ? process_hooks().failures() : "";
        if (!failures.empty()) mine.set_text("failed checks: " + failures);
    } catch (const std::exception& thrown) {
        mine.set_text(std::string("threw: ") + thrown.what());
    } catch (...) {
        mine.set_text("threw something that is no std::exception");
    }
    memory.announce(mine, mine.text[0] == '\0' ? worker_state::done : worker_state::failed);
    set_current_worker({});
}

}  // namespace holdfast::perf_test
