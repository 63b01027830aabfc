// SPDX-License-Identifier: Apache-2.0
// Any main() that runs GoogleTest will do (GTest::gtest_main too). This one refuses arguments that nobody knows.
#include <holdfast/perf_test.hpp>

PERF_TEST_MAIN
