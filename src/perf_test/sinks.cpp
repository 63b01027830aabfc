// SPDX-License-Identifier: Apache-2.0
// sinks.cpp - the sinks that the flags ask for.
#include "holdfast/perf_test/session.hpp"

namespace holdfast::perf_test {

std::vector<std::unique_ptr<sink>> make_sinks(const flag_values& /*flags*/) { return {}; }

}  // namespace holdfast::perf_test
