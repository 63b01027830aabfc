// SPDX-License-Identifier: Apache-2.0
#include "scale.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "holdfast/perf_test/interleaved.hpp"
#include "holdfast/perf_test/statistics.hpp"

namespace study {
namespace {

namespace perf = holdfast::perf_test;

/// What is going on, for a person who waits.
void tell(const step& what) {
    if (::isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "\r%-70.70s\r", what.name.c_str());
}

perf::interleaved_options rounds_of(const run_options& options) {
    perf::interleaved_options rounds;
    rounds.seconds = options.seconds;
    rounds.rounds_min = options.quick ? 8 : 40;
    return rounds;
}

}  // namespace

void scale::keep(step what, std::vector<double> samples, const perf::result& found) {
    if (!found.good()) return miss(std::move(what), found.failure);
    what.time = perf::describe(samples);
    for (const perf::warning& one : found.warnings)
        if (one.code == "modes" || one.code == "disturbed" || one.code == "drift") what.remarks.push_back(one.code);
    steps_.push_back(std::move(what));
}

void scale::time(step what, const operations& run, double parts, const std::function<void()>& prepare,
                 std::uint64_t batch) {
    tell(what);
    try {
        perf::interleaved_result found =
            perf::measure_interleaved({{what.name, run, prepare, batch}}, rounds_of(options_));
        perf::result& one = found.subjects.front();
        for (double& sample : one.samples) sample /= parts;
        keep(std::move(what), one.samples, one);
    } catch (const std::exception& wrong) {
        miss(std::move(what), wrong.what());
    }
}

void scale::time_difference(step what, const operations& cheap, const operations& costly, double parts) {
    tell(what);
    try {
        const perf::interleaved_result found =
            perf::measure_interleaved({{"cheap", cheap, {}, 0}, {"costly", costly, {}, 0}}, rounds_of(options_));
        const perf::result &less = found.subjects[0], &more = found.subjects[1];
        if (!less.good()) return miss(std::move(what), less.failure);
        std::vector<double> samples;
        for (std::size_t i = 0; i < more.samples.size() && i < less.samples.size(); ++i)
            samples.push_back((more.samples[i] - less.samples[i]) / parts);
        keep(std::move(what), std::move(samples), more);
    } catch (const std::exception& wrong) {
        miss(std::move(what), wrong.what());
    }
}

void scale::miss(step what, std::string why) {
    what.missing = std::move(why);
    steps_.push_back(std::move(what));
}

const step* scale::find(const std::string& name) const noexcept {
    const auto found =
        std::find_if(steps_.begin(), steps_.end(), [&](const step& one) { return one.name == name && one.measured(); });
    return found == steps_.end() ? nullptr : &*found;
}

}  // namespace study
