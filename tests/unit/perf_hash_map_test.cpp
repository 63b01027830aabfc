// SPDX-License-Identifier: Apache-2.0
// What operations of a hash map cost in instructions (instruction_cost.hpp). That maps can have many writers is not
// paid by those of one.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/many.hpp"
#include "holdfast/perf_test/counters.hpp"
#include "support/instruction_cost.hpp"
#include "support/scale.hpp"

namespace {

using namespace holdfast;
using perf_test::run_counted;
using test::expect_cost;
using test::expect_nothing_of_many;
using u64 = std::uint64_t;

constexpr u64 entries = 10'000;

enum class operation { find, miss, insert, update, add, erase };

/// Of keys of 17 characters with values of 100 bytes, each once.
template <class Map>
void count(operation what) {
    auto map = Map::create("heap:", {.capacity = entries + 1111, .seed = 1});
    std::vector<std::string> keys;
    for (u64 n = 0; n < 2 * entries; ++n) keys.push_back("session:" + std::to_string(100'000'000 + n));
    const std::span<const std::string> there = std::span(keys).first(entries), missing = std::span(keys).last(entries);
    const std::array<std::byte, 100> value{};
    std::array<std::byte, 100> found{};
    const auto each = [](std::span<const std::string> all, auto&& operate) {
        u64 done = 0;
        for (const std::string& key : all) done += operate(std::string_view(key)) ? 1 : 0;
        return done;
    };
    const auto insert = [&](std::string_view key) { return map.insert(key, value); };
    u64 done = what == operation::insert ? entries : each(there, insert);
    ASSERT_EQ(done, entries);
    run_counted([&] {
        switch (what) {
            case operation::find: done = each(there, [&](auto key) { return map.find(key, found); }); break;
            case operation::miss: done = each(missing, [&](auto key) { return !map.find(key, found); }); break;
            case operation::insert: done = each(there, insert); break;
            case operation::update: done = each(there, [&](auto key) { return map.update(key, value); }); break;
            case operation::add:
                done = each(there, [&](auto key) { return map.template fetch_add<u64>(key, 8, 1); });
                break;
            case operation::erase: done = each(there, [&](auto key) { return map.erase(key); }); break;
        }
    });
    ASSERT_EQ(done, entries);
}
using of_one = hash_map<std::string_view>;
using of_many = hash_map<std::string_view, writers::many>;

const test::counted_bodies counted{
    {"Find", [] { count<of_one>(operation::find); }},     {"Miss", [] { count<of_one>(operation::miss); }},
    {"Insert", [] { count<of_one>(operation::insert); }}, {"InsertOfMany", [] { count<of_many>(operation::insert); }},
    {"Update", [] { count<of_one>(operation::update); }}, {"UpdateOfMany", [] { count<of_many>(operation::update); }},
    {"Add", [] { count<of_one>(operation::add); }},       {"AddOfMany", [] { count<of_many>(operation::add); }},
    {"Erase", [] { count<of_one>(operation::erase); }},   {"EraseOfMany", [] { count<of_many>(operation::erase); }},
};

TEST(HashMapCost, OfOneWriterHasNothingOfManyInIt) {
    if (test::sanitized) GTEST_SKIP() << "needs: a build without sanitizers";
    if (expect_cost("Find", entries, 275.2) == 0) GTEST_SKIP() << "needs: valgrind";
    (void)expect_cost("Miss", entries, 152.1);
    expect_nothing_of_many({{"Insert", 2132.9}, {"Update", 2793.1}, {"Add", 3080.1}, {"Erase", 1381.9}}, entries, 10);
}

}  // namespace
