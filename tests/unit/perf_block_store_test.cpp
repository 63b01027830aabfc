// SPDX-License-Identifier: Apache-2.0
// What operations of a block store cost in instructions (instruction_cost.hpp). That stores can have many writers is
// not paid by those of one.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "holdfast/block_store.hpp"
#include "holdfast/block_store/many.hpp"
#include "holdfast/perf_test/counters.hpp"
#include "support/instruction_cost.hpp"
#include "support/scale.hpp"

namespace {

using namespace holdfast;
using perf_test::run_counted;
using test::expect_cost;
using test::expect_nothing_of_many;
using u64 = std::uint64_t;

constexpr u64 values = 10'000;

enum class operation { allocate, read, replace, free };

/// Of values of 100 bytes, each once. A store that is two thirds full in the end, so that free units are found.
template <class Store>
void count(operation what) {
    auto store = Store::create("heap:", {.bytes = 3 * values * 128 / 2, .value_bytes = 100, .unit_bytes = 128});
    std::array<std::byte, 100> bytes{};
    std::vector<u64> handles(values);
    u64 done = 0;
    const auto allocate = [&] {
        for (u64& handle : handles) {
            const block_result kept = store.allocate(bytes);
            handle = kept.handle;
            done += kept ? 1 : 0;
        }
    };
    if (what != operation::allocate) {
        allocate();
        ASSERT_EQ(done, values);
        done = 0;
    }
    run_counted([&] {
        switch (what) {
            case operation::allocate: allocate(); break;
            case operation::read:
                for (const u64 handle : handles) done += store.read(handle, bytes) ? 1 : 0;
                break;
            case operation::replace:
                for (const u64 handle : handles) done += store.replace(handle, bytes) ? 1 : 0;
                break;
            case operation::free:
                for (const u64 handle : handles) done += store.free(handle) == outcome::ok ? 1 : 0;
                break;
        }
    });
    ASSERT_EQ(done, values);
}
using of_many = basic_block_store<writers::many>;

const test::counted_bodies counted{
    {"Read", [] { count<block_store>(operation::read); }},
    {"Allocate", [] { count<block_store>(operation::allocate); }},
    {"AllocateOfMany", [] { count<of_many>(operation::allocate); }},
    {"Replace", [] { count<block_store>(operation::replace); }},
    {"ReplaceOfMany", [] { count<of_many>(operation::replace); }},
    {"Free", [] { count<block_store>(operation::free); }},
    {"FreeOfMany", [] { count<of_many>(operation::free); }},
};

TEST(BlockStoreCost, OfOneWriterHasNothingOfManyInIt) {
    if (test::sanitized) GTEST_SKIP() << "needs: a build without sanitizers";
    if (expect_cost("Read", values, 56.0) == 0) GTEST_SKIP() << "needs: valgrind";
    expect_nothing_of_many({{"Allocate", 915.6}, {"Replace", 1216.3}, {"Free", 358.0}}, values, 30);
}

}  // namespace
