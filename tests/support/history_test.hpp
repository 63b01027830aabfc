// SPDX-License-Identifier: Apache-2.0
// history_test.hpp - what tests of recorded histories share: rounds, their sum, and what is printed of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "holdfast/segment.hpp"
#include "support/history_rig.hpp"
#include "support/segment_tools.hpp"

namespace holdfast::test {

class history_test : public segment_test {
 protected:
    static constexpr std::uint64_t round_ms = 100;

    /// Rounds of a fresh object each: begin() makes it and gives the roles, end() recovers it once more, judge(run)
    /// says whether what was recorded could be.
    template <class Begin, class End, class Judge>
    void check_rounds(std::uint64_t rounds, Begin&& begin, End&& end, Judge&& judge) {
        const std::uint64_t seed = choose_seed();
        SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(seed));
        std::uint64_t kills = 0, stops = 0;
        std::vector<std::size_t> done_by_role;
        history_report sum;
        for (std::uint64_t round = 0; round < scaled(rounds) && sum.ok(); ++round) {
            const unique_posix_name name("history");
            const std::vector<history_role> roles = begin(name.uri());
            const history_run run = run_roles(roles, round_ms * slowness / (sanitized ? 4 : 1),
                                              random_at(seed, 1, round), [&] { end(name.uri()); });
            ASSERT_EQ(run.failure, "") << "round " << round;
            done_by_role.resize(roles.size());
            for (std::size_t i = 0; i < roles.size(); ++i) done_by_role[i] += run.of_role[i].size();
            sum.add(judge(run));
            kills += run.kills;
            stops += run.stops;
        }
        EXPECT_EQ(sum.violation, "");
        EXPECT_GT(kills, 0U);
        EXPECT_GT(sum.killed, 0U) << "no kill met an operation";
        EXPECT_GT(stops, 0U);
        for (const std::size_t done : done_by_role) EXPECT_GT(done, 0U) << "a role did nothing";
        RecordProperty("operations", std::to_string(sum.operations));
        RecordProperty("kills", std::to_string(kills));
        RecordProperty("killed_operations", std::to_string(sum.killed));
        std::printf(
            "%llu operations checked, %llu of them ended by a kill; %llu kills, %llu stops; at most %zu "
            "configurations\n",
            static_cast<unsigned long long>(sum.operations), static_cast<unsigned long long>(sum.killed),
            static_cast<unsigned long long>(kills), static_cast<unsigned long long>(stops), sum.configurations_max);
    }
    /// A dead writer's lease is free once the kernel has torn it down: wait for that, on the lock itself.
    [[nodiscard]] static attach_options patient() {
        attach_options options;
        options.lease_timeout = std::chrono::seconds(10);
        return options;
    }
};

}  // namespace holdfast::test
