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
    if (wants_mode(options)) return measure_mode(options, body);
    result found = measure_batches(options, body);
    count_beside(options, body, found);
    return found;
}

}  // namespace holdfast::perf_test
