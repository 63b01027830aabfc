// SPDX-License-Identifier: Apache-2.0
// forked.hpp - assertions that fail in a forked worker fail the test in the process that GoogleTest knows.
//
// A child's GoogleTest is a copy: what fails there is seen by nobody else. So the child prints nothing itself; its last
// act is to hand the text of what failed to its caller, where it becomes one failure that names the worker.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "holdfast/perf_test/workers.hpp"

namespace holdfast::perf_test::detail {

class forked_assertions {
 public:
    static bool watch() {
        process_hooks() = {begin, failures};
        return true;
    }

 private:
    inline static int inherited = 0;  // what the test had said before the fork is the caller's

    static const testing::TestResult* result_here() {
        const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
        return test == nullptr ? nullptr : test->result();
    }

    static void begin() {
        auto& listeners = testing::UnitTest::GetInstance()->listeners();
        delete listeners.Release(listeners.default_result_printer());
        if (const testing::TestResult* result = result_here()) inherited = result->total_part_count();
    }

    static std::string failures() {
        std::string text;
        const testing::TestResult* result = result_here();
        if (result == nullptr) return text;
        for (int i = inherited; i < result->total_part_count(); ++i) {
            const testing::TestPartResult& part = result->GetTestPartResult(i);
            if (part.passed()) continue;
            text += text.empty() ? "" : "; ";
            if (part.file_name() != nullptr)
                text += std::string(part.file_name()) + ":" + std::to_string(part.line_number()) + ": ";
            text += part.skipped() ? "the body skipped the test: " : "";
            text += part.message();
        }
        std::replace(text.begin(), text.end(), '\n', ' ');  // it becomes one line of a message
        return text;
    }
};
inline const bool watching_forked_assertions = forked_assertions::watch();

}  // namespace holdfast::perf_test::detail
