// SPDX-License-Identifier: Apache-2.0
// latency.hpp - every call timed by itself, one after the other without a pause: how the times are spread.
//
// The loop is closed: a call begins when the last one ends, so a slow call delays those behind it and they never show
// that. For what a client sees at a given load, use a schedule (rate.hpp).
// (I1) The clock's own cost, measured around the empty loop (engine.hpp), is taken off each time; never below zero.
// (I2) A body much shorter than that cost cannot be resolved call by call: the batches of the plain mode can.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "holdfast/perf_test/call_times.hpp"
#include "holdfast/perf_test/engine.hpp"

namespace holdfast::perf_test {

/// Whether the body (PERF_ABORT) or its group asked to end; `stop` may be null.
[[nodiscard]] inline bool wanted_to_stop(const std::atomic<std::uint32_t>* stop) noexcept {
    // Relaxed: it is a wish to end soon; nothing is read that was written before it.
    return stop_sign::is_raised() || (stop != nullptr && stop->load(std::memory_order_relaxed) != 0);
}

/// When a loop over calls ends: whichever comes first.
struct call_limits {
    double seconds = 1.5;
    std::uint64_t calls_max = std::numeric_limits<std::uint64_t>::max();
    const std::atomic<std::uint32_t>* stop = nullptr;  ///< a group's wish to end, as wanted_to_stop takes it
};

/// What a loop over calls did.
struct timed_calls {
    std::uint64_t count = 0;
    double seconds = 0;    ///< from the first start to the last end
    bool aborted = false;  ///< the stop sign was up
};

/// Times calls one by one. `Clock` is a tick_clock or a test's. Throws: what the body throws.
template <class Clock>
timed_calls time_calls(const Clock& clock, body_runner& body, const call_limits& limits, double cost_ns,
                       call_times& times) {
    timed_calls did;
    const std::uint64_t first = clock.start();
    for (;;) {
        body.prepare(1);
        const std::uint64_t begin = clock.start();
        (void)body.run_batch(1);
        const std::uint64_t end = clock.stop();
        body.finish();
        times.record(static_cast<std::uint64_t>(std::max(0.0, clock.ns(begin, end) - cost_ns) + 0.5));  // I1
        did.seconds = clock.ns(first, end) * 1e-9;
        did.aborted = stop_sign::is_raised();
        if (++did.count >= limits.calls_max || did.seconds >= limits.seconds || wanted_to_stop(limits.stop)) break;
    }
    return did;
}

/// The median time of an empty call of this body's loop. Cost: 1001 calls, well under a millisecond.
template <class Clock>
[[nodiscard]] double empty_call_ns(const Clock& clock, body_runner& body) {
    std::array<double, 1001> each{};
    for (double& ns : each) {
        const std::uint64_t begin = clock.start();
        (void)body.run_floor(1);
        const std::uint64_t end = clock.stop();
        ns = clock.ns(begin, end);
    }
    std::nth_element(each.begin(), each.begin() + each.size() / 2, each.end());
    return each[each.size() / 2];
}

}  // namespace holdfast::perf_test
