// SPDX-License-Identifier: Apache-2.0
// quantile_errors.hpp - how far a method's percentiles are off, each level by itself: a mean over levels would let good
// low ones hide a bad high one.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace holdfast::workload {

struct error_level {
    double q;
    const char* name;
};
inline constexpr std::array error_levels{error_level{0.9, "p90"}, error_level{0.99, "p99"},
                                         error_level{0.999, "p99.9"}};

class quantile_errors {
 public:
    using percents =
        std::array<double, error_levels.size()>;  ///< estimate over the sample's quantile, less 1, times 100

    void add(const percents& trial) {
        trials_.push_back(trial);
        double worst = 0;
        for (const double percent : trial) worst = std::max(worst, std::abs(percent));
        worst_of_trials_.push_back(worst);
    }
    /// Of each trial, the level that is off furthest.
    [[nodiscard]] const std::vector<double>& worst_of_trials() const noexcept { return worst_of_trials_; }

    struct level_error {
        double rms = 0;
        const char* level = "";
    };
    /// Root of the mean squared error over the trials, of the level where it is greatest. Requires: a trial.
    [[nodiscard]] level_error worst_rms() const {
        level_error worst;
        for (std::size_t i = 0; i < error_levels.size(); ++i) {
            double squares = 0;
            for (const percents& trial : trials_) squares += trial[i] * trial[i];
            const double rms = std::sqrt(squares / static_cast<double>(trials_.size()));
            if (rms >= worst.rms) worst = {rms, error_levels[i].name};
        }
        return worst;
    }

 private:
    std::vector<percents> trials_;
    std::vector<double> worst_of_trials_;
};

}  // namespace holdfast::workload
