// SPDX-License-Identifier: Apache-2.0
// rate_schedule.hpp - when each request is meant to start, fixed before the first one is sent.
//
// A client that waits for a slow answer before it asks again does not see what its users would have seen while it
// waited. So the starts come from a clock alone (I1), a late request is sent as soon as it can be, and its latency
// counts from the time in the schedule (I2).
// Source:  Tene, How NOT to Measure Latency, 2013 (coordinated omission).
// Threads: plain values.
#pragma once

#include <cmath>
#include <cstdint>

namespace holdfast::workload::http {

/// Starts at equal distances: number i at begin_ns + i / rate. Times are nanoseconds of a monotonic clock.
/// Requires: rate_hz > 0, seconds > 0.
class rate_schedule {
 public:
    rate_schedule(std::uint64_t begin_ns, double rate_hz, double seconds) noexcept
        : begin_ns_(begin_ns),
          interval_ns_(1e9 / rate_hz),
          // The subtraction keeps a whole number of intervals from being rounded up by one.
          count_(static_cast<std::uint64_t>(std::ceil(seconds * rate_hz - 1e-6))) {}

    /// Starts in the whole schedule.
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    /// From the multiple, not by adding up: a rounded interval would drift.
    [[nodiscard]] std::uint64_t start_ns(std::uint64_t index) const noexcept {
        return begin_ns_ + static_cast<std::uint64_t>(static_cast<double>(index) * interval_ns_);
    }

 private:
    std::uint64_t begin_ns_;
    double interval_ns_;
    std::uint64_t count_;
};

}  // namespace holdfast::workload::http
