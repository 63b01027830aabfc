// SPDX-License-Identifier: Apache-2.0
// instruction_cost.hpp - what an operation costs in instructions, counted by callgrind: the same on a busy and a quiet
// machine. What is counted calls perf_test::run_counted() and is a test of the same program, which has it only where it
// is asked for: run under valgrind, by name.
//
// A count cannot see what an instruction takes: a locked one is one more. tests/e2e/one_writer_test.py looks for those.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/perf_test/counters.hpp"

namespace holdfast::test {

inline constexpr const char* counted_variable = "HOLDFAST_TEST_COUNTED";

/// What a program has to count, by name: a test "Counted.NAME" where that is asked for.
class counted_bodies {
 public:
    struct one {
        const char* name;
        void (*run)();
    };
    counted_bodies(std::initializer_list<one> all) {
        const char* const asked = std::getenv(counted_variable);
        for (const one& each : all)
            if (asked != nullptr && std::string_view(asked) == each.name)
                ::testing::RegisterTest("Counted", each.name, nullptr, nullptr, __FILE__, __LINE__,
                                        [run = each.run]() -> ::testing::Test* { return new body(run); });
    }

 private:
    class body final : public ::testing::Test {
     public:
        explicit body(void (*run)()) : run_(run) {}
        void TestBody() override { run_(); }

     private:
        void (*run_)();
    };
};

/// Of one operation, its loop included; 0: it cannot be counted here, for want of valgrind.
inline double cost_of(const std::string& name, std::uint64_t operations) {
    ::setenv(counted_variable, name.c_str(), 1);
    const auto counted = perf_test::count_with_callgrind(
        {std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_filter=Counted." + name});
    ::unsetenv(counted_variable);
    if (counted.failure.find("not installed") != std::string::npos) return 0;
    EXPECT_EQ(counted.failure, "") << name;
    return static_cast<double>(counted.instructions) / static_cast<double>(operations);
}

/// How much may be counted, by what was measured: by g++ 12 and with AVX2, as then, a twentieth more, in which what
/// many writers do finds no room; by other compilers and processors a third more, which shows what is grossly wrong.
inline double leeway() {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ == 12 && defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") != 0) return 1.05;
#endif
    return 1.33;
}

/// Prints what an operation costs, and expects about what was measured. Returns: as cost_of(), which it asks.
inline double expect_cost(const std::string& name, std::uint64_t operations, double measured) {
    const double cost = cost_of(name, operations);
    if (cost == 0) return 0;
    std::printf("%s: %.1f instructions\n", name.c_str(), cost);
    EXPECT_GT(cost, measured / 2) << name;
    EXPECT_LT(cost, measured * leeway()) << name;
    return cost;
}

/// For each operation of one writer: about what was measured, and that of many, NAMEOfMany, at least `many_least` more:
/// what they pay is to be seen.
inline void expect_nothing_of_many(std::initializer_list<std::pair<const char*, double>> measured,
                                   std::uint64_t operations, double many_least) {
    for (const auto& [name, cost] : measured) {
        const double one = expect_cost(name, operations, cost);
        EXPECT_GT(cost_of(std::string(name) + "OfMany", operations), one + many_least)
            << "what many writers pay is to be seen by this test";
    }
}

}  // namespace holdfast::test
