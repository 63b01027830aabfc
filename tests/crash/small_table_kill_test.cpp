// SPDX-License-Identifier: Apache-2.0
// The writer of a small table in a named segment is killed by SIGKILL at random instants, attaching included, while a
// reader process finds without pause. Attacked: after each kill the state before or after the one operation under way,
// for readers that were there, for new ones and for the next writer; nothing that verify() calls damage.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <optional>
#include <string>

#include "holdfast/small_table.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/small_table_model.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;
using table_type = small_table<u64, small_value>;
using reader_type = small_table_reader<u64, small_value>;

constexpr u64 keys = 48, capacity = 32;
using model = small_numbers<keys>;

struct planned {
    unsigned what;
    u64 key, number;
};
// Operation i of a round: a function of (seed, round, i), known to worker and parent. Numbers only grow.
planned plan(u64 seed, u64 round, u64 i) {
    const u64 random = random_at(seed, round, i);
    return {static_cast<unsigned>(random % 3), (random >> 16) % keys, (round << 16) + i + 1};
}
u64 count_of(const model& numbers) {
    u64 count = 0;
    for (const u64 number : numbers) count += number != 0 ? 1 : 0;
    return count;
}
void carry_into(model& to, const planned& op) {
    u64& number = to[op.key];
    if (op.what == 0)
        number = 0;
    else if (number != 0 || (op.what == 1 && count_of(to) < capacity))
        number = op.number;
}
void operate(table_type& table, const planned& op) {
    const small_value value = small_value_of(op.key, op.number);
    if (op.what == 0)
        (void)table.erase(op.key);
    else
        (void)(op.what == 1 ? table.insert_or_assign(op.key, value) : table.update(op.key, value));
}

/// What a reader finds; nothing for a value that is torn or another key's.
std::optional<model> found_by(reader_type& reader) {
    model found{};
    for (u64 key = 0; key < keys; ++key) {
        small_value value{};
        const outcome got = reader.find(key, value);
        if (got == outcome::not_found) continue;
        if (got != outcome::ok || value != small_value_of(key, value.number)) return std::nullopt;
        found[key] = value.number;
    }
    return found;
}
bool intact(const reader_type& reader) {
    const auto done = reader.verify([](const small_table_finding&) { return true; });
    return done.intact() && !done.busy;
}

struct reader_counters {
    std::atomic<u64> stop{0}, finds{0};
};

TEST(SmallTableKill, BeforeOrAfterForReadersAndTheNextWriter) {
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    unique_posix_name name("small");
    (void)table_type::create(name.uri(), {.capacity = capacity});
    shared_image page(4096);
    auto* const counters = new (page.bytes().data()) reader_counters;
    child_process finder([&]() -> std::string {
        auto reader = reader_type::attach(name.uri());
        model last{};
        // Relaxed: flags and counts between processes that order nothing else.
        while (counters->stop.load(std::memory_order_relaxed) == 0) {
            const auto found = found_by(reader);
            if (!found) return "a torn value, another key's, or no answer";
            for (u64 key = 0; key < keys; ++key) {
                if ((*found)[key] == 0) continue;
                if ((*found)[key] < last[key]) return "a value went back in time";
                last[key] = (*found)[key];
            }
            counters->finds.fetch_add(keys, std::memory_order_relaxed);
        }
        return {};
    });
    auto there = reader_type::attach(name.uri());
    model now{};
    u64 open = 0;
    kill_report report = run_kill_rounds(
        {.rounds = scaled(800), .delay_ns_max = 400'000, .seed = seed},
        [&](kill_progress& progress, u64 round) {
            progress.ready();
            auto writer = table_type::attach(name.uri());
            for (u64 i = 0;; ++i) {
                progress.begin();
                operate(writer, plan(seed, round, i));
                progress.end();
            }
        },
        [&](const kill_progress& progress, u64 round) -> std::string {
            for (u64 i = 0; i < progress.completed(); ++i) carry_into(now, plan(seed, round, i));
            model after = now;
            if (progress.in_flight()) carry_into(after, plan(seed, round, progress.completed()));
            auto late = reader_type::attach(name.uri());
            const auto seen = found_by(there), seen_late = found_by(late);
            if (!seen || (*seen != now && *seen != after)) return "a reader finds neither before nor after";
            if (seen != seen_late) return "readers disagree";
            if (!intact(there)) return "damage before the successor came";
            auto next = table_type::attach(name.uri());
            open += next.recovery().change_ended ? 1 : 0;
            if (next.recovery().array.journal_rejected || next.recovery().doubles != 0) return "recovery found damage";
            if (found_by(there) != seen) return "recovery changed what was seen";
            if (!intact(there)) return "damage after the successor came";
            if (next.size() != count_of(*seen)) return "the next writer counts other entries";
            now = *seen;
            return {};
        });
    counters->stop.store(1, std::memory_order_relaxed);
    if (const ended& end = finder.wait(); !end.success() && report.failure.empty())
        report.failure = "the reader: " + end.text();
    EXPECT_EQ(report.failure, "");
    EXPECT_TRUE(report.passed());
    if (!sanitized) {
        EXPECT_GT(open, 0U) << "no kill came into a change of the set of keys";
    }
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s; %llu changes ended by their successor; reader: %llu finds\n", report.text().c_str(),
                static_cast<unsigned long long>(open),
                static_cast<unsigned long long>(counters->finds.load(std::memory_order_relaxed)));
}

}  // namespace
