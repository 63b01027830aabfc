// SPDX-License-Identifier: Apache-2.0
// measure.cpp - which way of measuring the options ask for.
#include <optional>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "holdfast/perf_test/modes.hpp"
#include "perf_test/counting.hpp"

namespace holdfast::perf_test {
namespace {

// A result that says why there is none.
result refused(const test_options& options, const char* why) {
    result found;
    found.suite = options.suite;
    found.name = options.name;
    found.parameter = options.parameter;
    found.failure = why;
    return found;
}

}  // namespace

result measure_body(const test_options& options, body_runner& body) {
    std::optional<cpu_pin> tied;  // groups of workers tie each of theirs
    try {
        if (!options.pin.empty() && options.threads.empty() && options.processes.empty())
            tied.emplace(options.pin.front());
    } catch (const error& wrong) {
        return refused(options, wrong.what());
    }
    if (is_counted_child(options)) return run_counted_child(options, body);
    const bool mode = wants_mode(options);
    result found = mode ? measure_mode(options, body) : measure_batches(options, body);
    // A schedule says how often the body runs: once more only for who asks.
    if (!mode || options.count != counting::standard) count_beside(options, body, found);
    return found;
}

}  // namespace holdfast::perf_test
