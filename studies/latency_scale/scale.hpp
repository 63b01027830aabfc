// SPDX-License-Identifier: Apache-2.0
// scale.hpp - the steps of the scale: what each costs here, and what was published of other machines.
//
// A step has a time, or a reason why it has none. Times are ns, of one operation: the median of rounds, with its 95 %
// interval and the 5th and 95th percentile. Threads: one, but for the partners that a step starts and ends itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/perf_test/result.hpp"

namespace study {

/// What somebody else measured, or said to be typical, on another machine: a number or a range, ns.
struct published_time {
    double low = 0, high = 0;
    std::string source;
};

struct step {
    std::string name;
    std::string how;  ///< what exactly was timed
    std::vector<published_time> published;
    holdfast::perf_test::summary time{};  ///< count is 0 where it was not measured
    std::string missing{};                ///< why not
    std::vector<std::string> remarks{};   ///< what a reader of the number must know

    [[nodiscard]] bool measured() const noexcept { return time.count != 0; }
};

/// A set of so many bytes and the time of a dependent read in it.
struct stair {
    double bytes = 0, ns = 0;
};

struct run_options {
    double seconds = 0.5;  ///< timed for each step, about
    bool quick = false;
    std::size_t memory_max = std::size_t{2} << 30U;  ///< largest set, bytes
    std::string folder = ".";                        ///< on the disk in question
};

/// What is timed: does exactly so many operations.
using operations = std::function<void(std::uint64_t)>;

/// The scale as it grows.
class scale {
 public:
    explicit scale(run_options options) : options_(std::move(options)) {}

    /// Times a step. Each operation counts as `parts` of the step: a round trip is two transfers. `prepare` and `batch`
    /// as holdfast::perf_test::subject has them. What run throws is why the step is missing.
    void time(step what, const operations& run, double parts = 1, const std::function<void()>& prepare = {},
              std::uint64_t batch = 0);
    /// Times what `costly` takes more than `cheap`, over `parts`, in turn.
    void time_difference(step what, const operations& cheap, const operations& costly, double parts);
    /// A step that cannot be measured here.
    void miss(step what, std::string why);
    void add_stair(stair one) { stairs_.push_back(one); }

    [[nodiscard]] const run_options& options() const noexcept { return options_; }
    [[nodiscard]] const std::vector<step>& steps() const noexcept { return steps_; }
    [[nodiscard]] const std::vector<stair>& stairs() const noexcept { return stairs_; }
    /// nullptr if there is none of that name, or it has no time.
    [[nodiscard]] const step* find(const std::string& name) const noexcept;

 private:
    void keep(step what, std::vector<double> samples, const holdfast::perf_test::result& found);

    run_options options_;
    std::vector<step> steps_;
    std::vector<stair> stairs_;
};

void time_processor(scale& all);  // a cycle, a branch, caches and memory, cores
void time_kernel(scale& all);     // calls, switches, faults, threads and processes, sleep
void time_loopback(scale& all);   // pipes and sockets
void time_disk(scale& all);       // files, the page cache, the disk
void add_far_away(scale& all);    // what no program here can time

/// The table for people.
void print(const scale& all);
/// latency_scale.csv, latency_scale.svg, cache_stairs.svg and latency_scale.html. Returns: whether all could be
/// written.
bool write_files(const scale& all, const std::string& folder);
/// What must hold on any machine, quiet or busy. Returns: how many of these do not; says which on stderr.
int check(const scale& all);

}  // namespace study
