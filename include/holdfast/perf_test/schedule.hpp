// SPDX-License-Identifier: Apache-2.0
// schedule.hpp - when each call of a paced run ought to begin: decided by the rate and the seed alone, never by how
// long earlier calls took.
//
// Times are nanoseconds since the common start.
// (I1) Intended starts never decrease, and the i-th depends on (hz, arrivals, seed, share, i) only.
// (I2) Of n workers, worker k has a share. Fixed arrivals: calls k, k+n, k+2n, ... of the common schedule. Poisson:
//      a process of its own with rate hz/n; n of these together are one of rate hz.
// Source: superposition of Poisson processes: Kingman, Poisson Processes, 1993, section 2.2; exponential gaps by
// inversion: Devroye, Non-Uniform Random Variate Generation, 1986, section II.2; SplitMix64: Steele, Lea, Flood, Fast
// Splittable Pseudorandom Number Generators, OOPSLA 2014, doi:10.1145/2660193.2660195.
#pragma once

#include <cmath>
#include <cstdint>

#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

/// One worker's part of a common schedule.
struct schedule_share {
    std::uint64_t worker = 0, workers = 1;
};

/// The intended starts, one after the other.
///
/// Requires: 0 < hz <= rate_hz_max. Threads: one.
class schedule {
 public:
    schedule(double hz, arrivals kind, std::uint64_t seed = 0, schedule_share share = {})
        : period_ns_(1e9 * static_cast<double>(share.workers) / hz),
          kind_(kind),
          next_{kind == arrivals::fixed ? 1e9 * static_cast<double>(share.worker) / hz : 0,
                seed ^ (share.worker * 0xd134'2543'de82'ef95)},  // not SplitMix's own step: the streams would overlap
          phase_ns_(next_.time_ns),
          due_(next_) {
        if (kind == arrivals::poisson) {
            step(next_);
            due_ = next_;
            next_.index = due_.index = 0;
        }
    }

    /// The intended start of the next call.
    [[nodiscard]] std::uint64_t next_ns() const noexcept { return static_cast<std::uint64_t>(next_.time_ns); }
    /// How many calls came before the next one.
    [[nodiscard]] std::uint64_t index() const noexcept { return next_.index; }
    [[nodiscard]] double period_ns() const noexcept { return period_ns_; }
    void advance() noexcept { step(next_); }

    /// How many calls have an intended start at or before `now_ns`; `now_ns` never decreases from call to call.
    /// Requires: whatever was advanced over is due by then.
    ///
    /// Exact, but for Poisson arrivals that lie more than 65,536 calls behind: from there on the mean rate tells, which
    /// is right to 0.4 % (one standard deviation). Cost: Poisson arrivals are drawn once more, 20 ns each.
    [[nodiscard]] std::uint64_t due_by(std::uint64_t now_ns) noexcept {
        const double now = static_cast<double>(now_ns);
        if (kind_ == arrivals::fixed) return fixed_due_by(now_ns);
        if (due_.index < next_.index) due_ = next_;
        const double behind = (now - due_.time_ns) / period_ns_;
        if (behind > walk_max) return due_.index + static_cast<std::uint64_t>(behind);
        while (static_cast<std::uint64_t>(due_.time_ns) <= now_ns) step(due_);
        return due_.index;
    }

 private:
    struct cursor {
        double time_ns;
        std::uint64_t random;
        std::uint64_t index = 0;

        // Uniform in [0, 1). SplitMix64: a word of state, so that a second cursor costs nothing.
        double uniform() noexcept {
            std::uint64_t z = random += 0x9e37'79b9'7f4a'7c15;
            z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
            z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
            return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
        }
    };
    static constexpr double walk_max = 65'536;

    void step(cursor& at) noexcept {
        ++at.index;
        if (kind_ == arrivals::fixed) {
            at.time_ns = fixed_at(at.index);  // not a running sum: rounding must not add up over a long run
        } else {
            at.time_ns -= std::log1p(-at.uniform()) * period_ns_;
        }
    }

    [[nodiscard]] double fixed_at(std::uint64_t index) const noexcept {
        return phase_ns_ + static_cast<double>(index) * period_ns_;
    }

    // The division may be one off where a start falls on the very nanosecond.
    [[nodiscard]] std::uint64_t fixed_due_by(std::uint64_t now_ns) const noexcept {
        const double passed = static_cast<double>(now_ns) - phase_ns_;
        auto due = passed < 0 ? 0 : static_cast<std::uint64_t>(passed / period_ns_) + 1;
        while (static_cast<std::uint64_t>(fixed_at(due)) <= now_ns) ++due;
        while (due > 0 && static_cast<std::uint64_t>(fixed_at(due - 1)) > now_ns) --due;
        return due;
    }

    double period_ns_;
    arrivals kind_;
    cursor next_;
    double phase_ns_;
    cursor due_;
};

/// A faster schedule could not be told from one without pauses: starts are whole nanoseconds.
inline constexpr double rate_hz_max = 1e9;

}  // namespace holdfast::perf_test
