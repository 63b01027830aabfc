// SPDX-License-Identifier: Apache-2.0
// engine.hpp - the loop around a body, and what measures it.
//
// The loop is a template in the user's translation unit with the body inlined into it: no virtual call, no function
// pointer and no clock between two operations. What measures sees it through body_runner, one indirect call a batch.
// (I1) run_floor is the same loop, compiled by the same compiler with the same flags, around nothing: what it costs is
//      taken off.
// (I2) An iteration costs one load and one branch beside the body (the stop sign, so that a failure ends the run and is
//      not repeated a million times) and is a barrier for the compiler: nothing moves from one operation to the next.
// (I3) Exceptions leave the loop and the measurement; no number of such a run is valid.
// Threads: a runner may run in several threads at once if the body may.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "holdfast/perf_test/disturbance.hpp"
#include "holdfast/perf_test/do_not_optimize.hpp"
#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

/// Asks every loop of this process to end after the current operation.
class stop_sign {
 public:
    // Relaxed orders: the sign carries no data, and a loop that sees it one operation later is as good.
    static void raise() noexcept { raised().store(true, std::memory_order_relaxed); }
    static void lower() noexcept { raised().store(false, std::memory_order_relaxed); }
    [[nodiscard]] static bool is_raised() noexcept { return raised().load(std::memory_order_relaxed); }
    [[nodiscard]] static std::atomic<bool>& raised() noexcept { return raised_; }

 private:
    inline static constinit std::atomic<bool> raised_{false};
};

/// The code under test as the measuring code sees it.
class body_runner {
 public:
    virtual ~body_runner() = default;
    /// Does operations until `operations` are done or the stop sign is up. Returns: how many were done.
    virtual std::uint64_t run_batch(std::uint64_t operations) = 0;
    /// As many empty operations by the same code (I1).
    virtual std::uint64_t run_floor(std::uint64_t operations) = 0;
    /// Untimed, before a batch and after it: inputs for that many operations.
    virtual void prepare(std::uint64_t /*operations*/) {}
    virtual void finish() {}
    /// Operations a batch, if the body prescribes it; 0: whatever suits.
    [[nodiscard]] virtual std::uint64_t batch() const { return 0; }

 protected:
    body_runner() = default;
    body_runner(const body_runner&) = default;
    body_runner& operator=(const body_runner&) = default;
};

namespace detail {

// Never inlined and aligned alike, so that the body's loop and the empty one differ in nothing but the body.
template <class Body>
[[gnu::noinline, gnu::aligned(64)]] std::uint64_t run_loop(Body& body, std::uint64_t operations) {
    const std::atomic<bool>& stop = stop_sign::raised();
    std::uint64_t done = 0;
    while (done != operations) {
        body();
        ++done;
        clobber_memory();  // I2
        if (stop.load(std::memory_order_relaxed)) [[unlikely]]
            break;  // relaxed: see stop_sign
    }
    return done;
}

struct empty_body {
    void operator()() const noexcept {}
};

}  // namespace detail

/// A runner around a callable that does one operation.
template <class Body>
class looped_body : public body_runner {
 public:
    explicit looped_body(Body& body) noexcept : body_(body) {}
    std::uint64_t run_batch(std::uint64_t operations) override { return detail::run_loop(body_, operations); }
    std::uint64_t run_floor(std::uint64_t operations) override {
        detail::empty_body nothing;
        return detail::run_loop(nothing, operations);
    }

 private:
    Body& body_;
};

/// Measures as the options say: flat out, by a rate, call by call, in threads or in processes.
/// Returns: all numbers; failure says why there are none. Throws: what the body throws, after which nothing is valid.
[[nodiscard]] result measure_body(const test_options& options, body_runner& body);

/// Flat out on the calling thread: floor, calibration, warm-up, batches. What measure_body does without a mode.
[[nodiscard]] result measure_batches(const test_options& options, body_runner& body);

/// What disturbed the calling thread since the last question: disturbance_meter::since_last, or a test's.
using disturbance_source = std::function<disturbance()>;
[[nodiscard]] result measure_batches(const test_options& options, body_runner& body,
                                     const disturbance_source& disturbed);

}  // namespace holdfast::perf_test
