// SPDX-License-Identifier: Apache-2.0
// A system call: checked by an ordinary test, timed by a performance test of the same suite.
#include <holdfast/perf_test.hpp>

#include <unistd.h>

TEST(SimpleTest, SysCall) { ASSERT_NE(getppid(), 0); }

// getppid enters the kernel each time: no C library remembers its answer.
PERF_TEST(SimpleTest, SysCallPerf) { getppid(); }
