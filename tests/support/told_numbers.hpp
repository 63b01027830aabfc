// SPDX-License-Identifier: Apache-2.0
// told_numbers.hpp - what a test recorded with RecordProperty() is also printed, one line each: "told: kills = 10000".
// scripts/test_report.py adds up the lines of a whole run; ctest keeps what a test prints, and nothing else of it.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>

namespace holdfast::test {

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
