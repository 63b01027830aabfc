// SPDX-License-Identifier: Apache-2.0
// metrics_subject.hpp - what a suite of percentile methods asks of each: take latencies, answer quantiles, tell its
// size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace holdfast::workload {

class quantile_method {
 public:
    virtual ~quantile_method() = default;
    /// Takes latencies in nanoseconds. One call takes many, so that neither the virtual call nor that of another
    /// language is what is timed.
    virtual void record(std::span<const std::uint64_t> values_ns) = 0;
    [[nodiscard]] virtual double quantile(double q) = 0;
    [[nodiscard]] virtual std::size_t bytes() const = 0;
};

struct metrics_kind {
    std::string name, version;
    bool sketch =
        true;  ///< answers any quantile of any number of samples; false: made for `level` and `expected` alone
    std::function<std::unique_ptr<quantile_method>(double level, std::size_t expected)> make;
};

}  // namespace holdfast::workload
