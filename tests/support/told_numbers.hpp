// SPDX-License-Identifier: Apache-2.0
// told_numbers.hpp - what a test recorded with RecordProperty() is also printed, one line each: "told: kills = 10000".
// scripts/test_report.py adds up the lines of a whole run; ctest keeps what a test prints, and nothing else of it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

namespace holdfast::test {

/// Records `number` beside what the running test has recorded under `what` before: RecordProperty() would forget that.
inline void tell_more(const std::string& what, std::uint64_t number) {
    static const ::testing::TestInfo* of = nullptr;
    static std::map<std::string, std::uint64_t> sums;
    const ::testing::TestInfo* const running = ::testing::UnitTest::GetInstance()->current_test_info();
    if (of != running) sums.clear();
    of = running;
    ::testing::Test::RecordProperty(what, std::to_string(sums[what] += number));
}

class told_numbers : public ::testing::EmptyTestEventListener {
    void OnTestEnd(const ::testing::TestInfo& test) override {
        for (int i = 0; i < test.result()->test_property_count(); ++i) {
            const ::testing::TestProperty& property = test.result()->GetTestProperty(i);
            std::printf("told: %s = %s\n", property.key(), property.value());
        }
    }
};

/// In every program that has a rig in it.
inline const bool numbers_are_told = [] {
    ::testing::UnitTest::GetInstance()->listeners().Append(new told_numbers);
    return true;
}();

}  // namespace holdfast::test
