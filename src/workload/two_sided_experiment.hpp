// SPDX-License-Identifier: Apache-2.0
// two_sided_experiment.hpp - an experiment of one template's subjects that takes both cores: timed in turn, written
// down, and what the way between the cores was meanwhile noted under the table.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workload/far_side.hpp"
#include "workload/targets.hpp"
#include "workload/two_sided.hpp"

namespace holdfast::workload {

/// A subject of which `body` is timed on the near side.
[[nodiscard]] inline two_sided_subject timed_near(std::string name, far_side& far,
                                                  std::function<void(std::uint64_t)> body) {
    return {std::move(name), &far, [body = std::move(body)](std::uint64_t times) {
                const auto start = std::chrono::steady_clock::now();
                body(times);
                const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
                return took.count();
            }};
}

/// Subjects timed beside writers at a pace, which one falls behind that waits for a lock or takes longer.
class beside_writers {
 public:
    explicit beside_writers(std::uint64_t hz) noexcept : hz_(hz) {}

    /// `begin` sets the far side to work, whose progress counts what it does.
    void add(std::string name, far_side& far, std::function<void(std::uint64_t)> body, std::function<void()> begin) {
        const auto kept = std::make_shared<writer_count>();
        counts_.push_back(kept);
        two_sided_subject timed = timed_near(std::move(name), far, std::move(body));
        timed.run = [run = std::move(timed.run), begin = std::move(begin), kept, &far](std::uint64_t times) {
            begin();
            // Relaxed, both: counts that nothing hangs on.
            const std::uint64_t before = far.progress().load(std::memory_order_relaxed);
            const double took = run(times);
            kept->done += far.progress().load(std::memory_order_relaxed) - before;
            kept->ns += took;
            return took;
        };
        subjects_.push_back(std::move(timed));
    }
    [[nodiscard]] const std::vector<two_sided_subject>& subjects() const noexcept { return subjects_; }

    /// Notes of each writer that came to less than nine tenths of its pace what it came to. Requires: all were timed.
    void note_slow(recorder& to, const std::string& experiment) const {
        for (std::size_t i = 0; i < subjects_.size(); ++i) {
            const double a_second =
                counts_[i]->ns > 0 ? 1e9 * static_cast<double>(counts_[i]->done) / counts_[i]->ns : 0;
            if (a_second < 0.9 * static_cast<double>(hz_))
                to.note(experiment + ": the writer of " + subjects_[i].name + " came to " + fixed_text(a_second, 0) +
                        " a second");
        }
    }

 private:
    struct writer_count {
        std::uint64_t done = 0;
        double ns = 0;
    };
    std::uint64_t hz_;
    std::vector<two_sided_subject> subjects_;
    std::vector<std::shared_ptr<writer_count>> counts_;
};

/// Has them timed. The first is ours. `warming`: the fewest operations of a sample, and as many before each, uncounted.
/// Throws: what a subject throws.
inline sampled run_two_sided(recorder& to, const std::string& name, const std::vector<two_sided_subject>& subjects,
                             std::uint64_t warming = two_sided_options{}.operations_min) {
    sampled found;
    for (const two_sided_subject& one : subjects) found.names.push_back(one.name);
    two_sided_options timing = two_sided_timing(to.options());
    timing.operations_min = warming;
    two_sided_result timed = measure_two_sided(subjects, timing);
    to.add(name, "ns", found.names, timed.samples, false);
    to.note(name + ": " + line_text(timed));
    found.samples = std::move(timed.samples);
    return found;
}

}  // namespace holdfast::workload
