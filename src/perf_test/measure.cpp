// SPDX-License-Identifier: Apache-2.0
// measure.cpp - which way of measuring the options ask for.
#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/modes.hpp"

namespace holdfast::perf_test {

result measure_body(const test_options& options, body_runner& body) {
    return wants_mode(options) ? measure_mode(options, body) : measure_batches(options, body);
}

}  // namespace holdfast::perf_test
