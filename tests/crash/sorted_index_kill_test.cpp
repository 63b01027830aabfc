// SPDX-License-Identifier: Apache-2.0
// The publisher of indexes is killed by SIGKILL ten thousand times at random instants, of attaching, building in place
// and publishing. Attacked: readers find the index before or after, never a mixture, and no slot is lost: the next
// publisher goes through all of them. And whoever makes an index for good leaves a whole one or none.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "holdfast/sorted_index.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;
using publisher = sorted_index_publisher<u64, u64>;
using index_reader = sorted_index_reader<u64, u64>;

constexpr u64 records_max = 60;

// The index of a version: its number of records and their values follow from it.
u64 records_of(u64 version) { return 1 + random_at(version, 1, 1) % records_max; }
void fill(publisher::builder& builder, u64 version) {
    for (u64 key = records_of(version); key-- > 0;) builder.add(3 * key, random_at(version, 2, key));
}
template <class View>
std::string fault_of(const View& index, u64 version) {
    u64 key = 0;
    for (const auto& entry : index) {
        if (entry.key != 3 * key || entry.value != random_at(version, 2, key)) return "a record of another version";
        ++key;
    }
    return key == records_of(version) ? "" : "another number of records";
}

class SortedIndexKill : public segment_test {
 protected:
    [[nodiscard]] static attach_options patient() {
        attach_options options;
        options.lease_timeout = std::chrono::seconds(10);
        return options;
    }
    unique_posix_name name_{"index"};
};

TEST_F(SortedIndexKill, PublishersLeaveTheIndexBeforeOrAfterAndNoSlotIsLost) {
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    constexpr std::uint32_t slots = 4;
    (void)publisher::create(name_.uri(), {.records_max = records_max, .slots = slots});
    index_reader reader = index_reader::attach(name_.uri());
    u64 version = 0;
    const kill_report report = run_kill_rounds(
        {.rounds = scaled(10'000), .delay_ns_max = 60'000, .seed = seed},
        [&](kill_progress& progress, u64 round) {
            if (round % 4 == 0) progress.ready();  // attaching is killed, too
            publisher mine = publisher::attach(name_.uri(), patient());
            if (round % 4 != 0) progress.ready();
            for (;;) {
                publisher::builder builder;
                fill(builder, mine.version() + 1);
                progress.begin();
                if (!mine.publish(builder)) ::_exit(1);
                progress.end();
            }
        },
        [&](const kill_progress& progress, u64 round) -> std::string {
            const u64 least = version + progress.completed();
            u64 now = reader.version();
            if (now != least && !(progress.in_flight() && now == least + 1))
                return "version " + std::to_string(now) + " after " + std::to_string(least);
            version = now;
            std::string fault;
            if (now != 0) {
                const auto got = reader.read([&](const index_reader::view& index) { fault = fault_of(index, now); });
                if (!got || got.version != now) return "the index cannot be read";
            }
            if (!fault.empty() || round % 16 != 0) return fault;
            if (const auto found = verify_sorted_index(reader.segment()); !found.empty())
                return "verify: " + found.list()[0].what;
            publisher next = publisher::attach(name_.uri(), patient());
            for (std::uint32_t i = 0; i < 2 * slots; ++i) {
                publisher::builder builder;
                fill(builder, ++version);
                if (next.publish(builder).version != version) return "a slot is lost";
            }
            return {};
        });
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_EQ(reader.fault(), std::nullopt);
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s; version %llu\n", report.text().c_str(), static_cast<unsigned long long>(version));
}

TEST_F(SortedIndexKill, MakersOfAnIndexLeaveAWholeOneOrNone) {
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    u64 whole = 0;
    const kill_report report = run_kill_rounds(
        {.rounds = scaled(1'000), .delay_ns_max = 300'000, .seed = seed},
        [&](kill_progress& progress, u64) {
            publisher::builder builder;
            fill(builder, 5);
            progress.ready();
            progress.begin();
            (void)create_sorted_index(name_.uri(), builder);
            progress.end();
            for (;;) ::pause();
        },
        [&](const kill_progress& progress, u64) -> std::string {
            const bool there = ::access(name_.path().c_str(), F_OK) == 0;
            if (progress.completed() == 1 && !there) return "it was made, and is not there";
            std::string fault;
            if (there) {
                ++whole;
                index_reader reader = index_reader::attach(name_.uri());
                if (!reader.read([&](const index_reader::view& index) { fault = fault_of(index, 5); }))
                    fault = "the index cannot be read";
                if (!verify_sorted_index(reader.segment()).empty()) fault = "the index is damaged";
            }
            name_.remove();
            return fault;
        });
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_GT(whole, 0U);
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s; %llu left a whole index\n", report.text().c_str(), static_cast<unsigned long long>(whole));
}

}  // namespace
