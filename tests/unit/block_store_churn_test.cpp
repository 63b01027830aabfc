// SPDX-License-Identifier: Apache-2.0
// Steady churn at a given load: how scattered values get, and that nothing which fits is ever refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/block_bench.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

constexpr std::uint64_t units = 1U << 16;

// Sizes from 10 to 4000 bytes, as many between 10 and 20 as between 2000 and 4000.
std::size_t mixed_size(seeded_random& random) {
    return static_cast<std::size_t>(10.0 * std::pow(400.0, static_cast<double>(random.below(1U << 20)) / (1U << 20)));
}

struct churned {
    double scattered = 0;       // share of the values in more than one run
    double largest_runs = 0;    // most runs of a value
    std::uint64_t refused = 0;  // although the free units would have sufficed at worst
};

// Frees values at random until the store is below the load, stores one, and so on, for that many turnovers.
churned churn(double load, unsigned turnovers, seeded_random& random) {
    block_bench bench(units);
    block_writer writer = bench.writer();
    std::vector<std::uint64_t> handles;
    const auto most = static_cast<std::uint64_t>(load * units);
    const std::vector<std::byte> bytes(4096, std::byte{1});
    churned seen;
    for (std::uint64_t stored = 0; stored < turnovers * most;) {
        const std::size_t size = mixed_size(random);
        while (writer.units_used() + bench.geometry().units_for(size) > most) {
            const std::size_t at = random.below(handles.size());
            EXPECT_EQ(writer.free(handles[at]), outcome::ok);
            handles[at] = handles.back();
            handles.pop_back();
        }
        const std::uint64_t free = units - writer.units_used();
        const bool certain = free >= bench.geometry().units_for_at_worst(size);
        if (writer.prepare(size) != outcome::ok) {
            if (certain) ++seen.refused;
            ++stored;
            continue;
        }
        (void)writer.write(0, std::span(bytes).first(size));
        handles.push_back(writer.commit().handle);
        stored += bench.geometry().units_for(size);
    }
    for (const std::uint64_t handle : handles) {
        double runs = 0;
        EXPECT_TRUE(bench.reader().visit(handle, [&](auto, auto, auto) { ++runs; }));
        seen.scattered += runs > 1 ? 1.0 / static_cast<double>(handles.size()) : 0;
        seen.largest_runs = std::max(seen.largest_runs, runs);
    }
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    return seen;
}

TEST(BlockStoreChurn, ValuesStayTogetherUntilTheStoreIsNearlyFull) {
    seeded_random random;
    for (const auto& [percent, scattered_most] :
         {std::pair{50, 0.001}, {80, 0.12}, {90, 0.3}, {95, 0.45}, {99, 0.65}}) {
        const churned seen = churn(percent / 100.0, sanitized ? 1 : 10, random);
        EXPECT_EQ(seen.refused, 0U) << percent << " % full";
        EXPECT_LE(seen.scattered, scattered_most) << percent << " % full";
        RecordProperty("scattered at " + std::to_string(percent), std::to_string(seen.scattered));
        RecordProperty("most runs at " + std::to_string(percent), std::to_string(seen.largest_runs));
    }
}

}  // namespace
