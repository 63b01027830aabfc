// SPDX-License-Identifier: Apache-2.0
// Counters that are there and counters that are not, the allocation hook, and this program under callgrind.
#include "holdfast/perf_test/counters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/perf_test/count_allocations.hpp"
#include "support/scale.hpp"

namespace {

using namespace holdfast::perf_test;
using ::testing::HasSubstr;

void work(std::uint64_t n) {
    for (std::uint64_t x = n; n > 0; --n) {
        x = x * 6364136223846793005U + 1;
        asm volatile("" : "+r"(x));
    }
}

double value_of(const std::vector<counter>& all, const std::string& name) {
    for (const counter& c : all)
        if (c.name == name) return c.per_operation;
    return -1;
}

TEST(EventCounters, CountOrSayWhyNot) {
    event_counters counters;
    counters.start();
    work(1'000'000);
    const std::vector<counter> found = counters.stop(1'000'000);
    if (!counters.available()) {
        EXPECT_THAT(counters.reason(),
                    ::testing::AnyOf(HasSubstr("-count=callgrind"), HasSubstr("perf_event_open failed")));
        EXPECT_TRUE(found.empty());
        GTEST_SKIP() << "needs perf events: " << counters.reason();
    }
    EXPECT_TRUE(counters.reason().empty());
    const double instructions = value_of(found, "instructions");
    if (instructions >= 0) {
        EXPECT_GT(instructions, 2);
        EXPECT_LT(instructions, 50);
    }
}

TEST(UsageCounters, FaultsAreCounted) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* memory = mmap(nullptr, 64 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    madvise(memory, 64 * page, MADV_NOHUGEPAGE);
    const usage_counters counters;
    for (std::size_t i = 0; i < 64; ++i) static_cast<char*>(memory)[i * page] = 1;
    const std::vector<counter> found = counters.stop(64);
    munmap(memory, 64 * page);
    EXPECT_EQ(found.size(), 4U);
    EXPECT_GE(value_of(found, "minor-faults"), 1);
    EXPECT_GE(value_of(found, "voluntary-switches"), 0);
    EXPECT_EQ(found[0].source, "rusage");
    EXPECT_EQ(value_of(counters.stop(0), "minor-faults"), 0) << "no operations, no quotient";
}

TEST(Allocations, AreCountedByThread) {
    ASSERT_TRUE(allocations_are_counted());
    const allocation_totals before = allocations_of_this_thread();
    for (int i = 0; i < 10; ++i) {
        auto p = std::make_unique<std::array<char, 100>>();
        asm volatile("" : : "r"(p.get()) : "memory");
    }
    std::vector<counter> found = allocations_since(before, 10);
    EXPECT_EQ(value_of(found, "allocations"), 1);
    EXPECT_EQ(value_of(found, "allocated-bytes"), 100);
    allocation_totals elsewhere;
    std::thread([&] {
        const auto p = std::make_unique<int>(1);
        asm volatile("" : : "r"(p.get()) : "memory");
        elsewhere = allocations_of_this_thread();
    }).join();
    EXPECT_GE(elsewhere.calls, 1U);
    EXPECT_LT(elsewhere.calls, 20U) << "another thread's count is its own";
}

TEST(Allocations, AlignedArraysAndRefusals) {
    struct alignas(256) wide {
        char bytes[256];
    };
    const auto p = std::make_unique<wide>();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.get()) % 256, 0U);
    const auto q = std::make_unique<wide[]>(3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(q.get()) % 256, 0U);
    if (!holdfast::test::sanitized) {
        std::size_t most = ~std::size_t{0} / 4;
        asm volatile("" : "+r"(most));
        EXPECT_EQ(::operator new(most, std::nothrow), nullptr);
        EXPECT_THROW(::operator delete(::operator new(most)), std::bad_alloc);
    }
}

std::string own_path() {
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : std::string();
}

// What the tests below run under valgrind: by name, and only then.
TEST(CallgrindBody, DISABLED_TenThousand) {
    run_counted([] { work(10'000); });
}
TEST(CallgrindBody, DISABLED_TwentyThousand) {
    run_counted([] { work(20'000); });
}
TEST(CallgrindBody, DISABLED_Nothing) {}
TEST(CallgrindBody, DISABLED_Fails) { FAIL(); }

callgrind_result count(const std::string& test) {
    return count_with_callgrind(
        {own_path(), "--gtest_also_run_disabled_tests", "--gtest_filter=CallgrindBody." + test});
}

TEST(Callgrind, CountsTheSameEveryTime) {
    if (holdfast::test::sanitized) GTEST_SKIP() << "needs a build without sanitizers";
    const callgrind_result ten = count("DISABLED_TenThousand");
    if (ten.failure.find("not installed") != std::string::npos) GTEST_SKIP() << "needs valgrind";
    ASSERT_EQ(ten.failure, "");
    const callgrind_result twenty = count("DISABLED_TwentyThousand");
    ASSERT_EQ(twenty.failure, "");
    EXPECT_EQ(count("DISABLED_TenThousand").instructions, ten.instructions);
    const double each = static_cast<double>(twenty.instructions - ten.instructions) / 10'000;
    EXPECT_GE(each, 2);
    EXPECT_LE(each, 40);
    EXPECT_EQ(each, std::floor(each)) << "whole instructions";
}

TEST(Callgrind, FailuresAreSaid) {
    EXPECT_THAT(count_with_callgrind({}).failure, HasSubstr("no program"));
    const std::string path = std::getenv("PATH");
    setenv("PATH", "/nowhere", 1);
    EXPECT_THAT(count("DISABLED_Nothing").failure, HasSubstr("apt-get install valgrind"));
    setenv("PATH", path.c_str(), 1);
    if (holdfast::test::sanitized) GTEST_SKIP() << "needs a build without sanitizers";
    const callgrind_result nothing = count("DISABLED_Nothing");
    if (nothing.failure.find("not installed") != std::string::npos) GTEST_SKIP() << "needs valgrind";
    EXPECT_THAT(nothing.failure, HasSubstr("did not call run_counted"));
    EXPECT_THAT(count("DISABLED_Fails").failure, HasSubstr("ended with status 1"));
    EXPECT_THAT(count_with_callgrind({"/bin/sleep", "1000"}, 0.3).failure, HasSubstr("did not end in time"));
}

TEST(Callgrind, OutsideItWorkJustRuns) {
    bool ran = false;
    run_counted([&] { ran = true; });
    EXPECT_TRUE(ran);
    EXPECT_FALSE(under_valgrind());
    EXPECT_THROW(run_counted([] { throw 1; }), int);
}

}  // namespace
