// SPDX-License-Identifier: Apache-2.0
// Processes that register counters, count and record latencies, killed by SIGKILL at ten thousand random instants each.
// Attacked: nothing that was counted is lost or counted twice, and no slot is lost to a name that a killed process had
// begun to write: every name still finds room.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "holdfast/metrics/counter_slots.hpp"
#include "holdfast/metrics/latency_shards.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

constexpr std::size_t names = 8;
constexpr u64 fresh_every = 2;  // rounds: registering is killed, too

/// Operations before the kill is armed: a fresh process meets a fault at each page first. At times none.
constexpr u64 warm_up(u64 round) { return round % fresh_every == 0 ? 0 : 30; }

/// Names of several words, the first words alike.
layout::counter_name_words name_of(u64 n) {
    std::string label = "worker=\"number ";
    label.append(std::to_string(n)).append("\"");
    return *layout::encode_counter_name("requests_served_total", label);
}

TEST(MetricsKill, CountersLoseNothingAndNoSlot) {
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    shared_image pages(names * sizeof(layout::counter_slot)), copy(pages.size());
    u64 begun = 0, finished = 0, unfinished_names = 0;
    const kill_report report = run_kill_rounds(
        {.rounds = scaled(10'000),
         .delay_ns_max = 25'000,
         .seed = seed,
         .met = [&] { return sanitized || unfinished_names > 0; }},
        [&](kill_progress& progress, u64 round) {
            const detail::counter_slots slots(pages.bytes(), names, "test");
            for (u64 i = 0;; ++i) {
                if (i == warm_up(round)) progress.ready();
                progress.begin();
                layout::counter_slot* const slot = slots.install(name_of(random_at(seed, round, i) % names));
                if (slot == nullptr) ::_exit(1);
                counter(slot->value).add(1);
                progress.end();
            }
        },
        [&](const kill_progress& progress, u64 round) -> std::string {
            begun += progress.started();
            finished += progress.completed();
            u64 sum = 0;
            const auto count = [&](std::string_view, std::string_view, u64 value) { sum += value; };
            const auto left = detail::counter_slots(pages.bytes(), names, "test").for_each(count);
            unfinished_names += left.unfinished;
            if (left.damaged != 0 || left.unfinished > 1) return "a name is damaged";
            if (sum < finished || sum > begun)
                return std::to_string(sum) + " counted, done are " + std::to_string(finished) + ", begun " +
                       std::to_string(begun);
            copy.assign(pages.bytes());
            const detail::counter_slots next(copy.bytes(), names, "test");
            for (u64 n = 0; n < names; ++n)
                if (next.install(name_of(n)) == nullptr) return "a slot is lost: name " + std::to_string(n);
            sum = 0;
            const auto all = next.for_each(count);
            if (all.counters != names || all.unfinished != 0 || all.damaged != 0) return "not every name has its slot";
            if (sum < finished || sum > begun) return "registering changed a count";
            finished = begun = sum;  // what was in flight is settled now
            if ((round + 1) % fresh_every != 0) return {};
            std::memset(pages.bytes().data(), 0, pages.size());
            begun = finished = 0;
            return {};
        });
    EXPECT_TRUE(report.passed()) << report.text();
    if (!sanitized) {
        EXPECT_GT(unfinished_names, 0U) << "no kill met a name being written";
    }
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s; %llu names left unfinished and taken up again\n", report.text().c_str(),
                static_cast<unsigned long long>(unfinished_names));
}

TEST(MetricsKill, HistogramsLoseNothing) {
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    constexpr std::size_t shards = 3;
    shared_image pages(layout::latency_shard_bytes(shards));
    const detail::latency_shards histogram(pages.bytes(), shards, "test");
    u64 begun = 0, finished = 0;
    const kill_report report = run_kill_rounds(
        {.rounds = scaled(10'000), .delay_ns_max = 20'000, .seed = seed},
        [&](kill_progress& progress, u64 round) {
            // A shard of its own, which it goes on with after whoever was killed there, or the one that is shared.
            auto line = histogram.line(round % shards);
            for (u64 i = 0;; ++i) {
                if (i == warm_up(round)) progress.ready();
                progress.begin();
                detail::record_value(line, 100 + random_at(seed, round, i) % 100'000);
                progress.end();
            }
        },
        [&](const kill_progress& progress, u64) -> std::string {
            begun += progress.started();
            finished += progress.completed();
            const u64 total = histogram.merged().total();
            if (total < finished || total > begun)
                return std::to_string(total) + " recorded, done are " + std::to_string(finished) + ", begun " +
                       std::to_string(begun);
            finished = begun = total;
            return {};
        });
    EXPECT_TRUE(report.passed()) << report.text();
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s\n", report.text().c_str());
}

}  // namespace
