// SPDX-License-Identifier: Apache-2.0
// The whole way of a writer that dies in service: a hash table in a named segment, its writer killed by SIGKILL at
// random instants of attaching (lease, recovery) and of operating; the successor attaches, finds the state before or
// after the operation under way, and goes on. A reader process keeps one read-only mapping through all of it.
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <string>

#include "holdfast/hash_table.hpp"
#include "support/hash_table_model.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

using key = wide_shape::key;
using value = wide_shape::value;
using table = hash_table<key, value>;
constexpr std::uint64_t keys = 400;

class HashTableSegmentKill : public segment_test, public ::testing::WithParamInterface<const char*> {
 protected:
    [[nodiscard]] std::string uri() const {
        const std::string kind = GetParam();
        return kind == "posix" ? posix_.uri() : kind == "file" ? disk_.file_uri("t") : system_v_.uri();
    }
    unique_posix_name posix_{"table"};
    unique_directory disk_{"table"};
    unique_system_v_name system_v_;
};

struct operation {
    table_operation what;
    std::uint64_t n, stamp;
};

operation plan(std::uint64_t seed, std::uint64_t round, std::uint64_t i) {
    const std::uint64_t random = random_at(seed, round, i);
    return {static_cast<table_operation>(random % 4), (random >> 8) % keys, (round << 16) + i + 2};
}

template <class Table>
std::string compare(const Table& with, const hash_table_model& model) {
    return difference<wide_shape>(
        [&](const key& k, value& v) {
            const auto found = with.find(k);
            if (found) v = *found;
            return found.has_value();
        },
        model, keys);
}

TEST_P(HashTableSegmentKill, TheSuccessorFindsBeforeOrAfterAndGoesOn) {
    const std::uint64_t seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    (void)table::create(uri(), {.capacity = keys});
    shared_image page(4096);
    auto* const stop = new (page.bytes().data()) std::atomic<std::uint64_t>(0);
    child_process reader([&]() -> std::string {
        const auto view = hash_table_reader<key, value>::attach(uri());
        while (stop->load(std::memory_order_relaxed) == 0) {  // a flag that orders nothing
            for (std::uint64_t n = 0; n < keys; ++n)
                if (const auto found = view.find(nth_key<wide_shape>(n)); found && !stamp_of<wide_shape>(n, *found))
                    return "key " + std::to_string(n) + " has a torn or foreign value";
            if (view.fault()) return "the reader latched a fault";
        }
        return {};
    });
    hash_table_model model;
    std::uint64_t takeovers = 0;
    const kill_report report = run_kill_rounds(
        {.rounds = scaled(3400), .delay_ns_max = 500'000, .seed = seed},
        [&](kill_progress& progress, std::uint64_t round) {
            progress.ready();
            auto writer = table::attach(uri());
            for (std::uint64_t i = 0;; ++i) {
                const operation op = plan(seed, round, i);
                progress.begin();
                (void)apply<wide_shape>(writer, op.what, op.n, op.stamp);
                progress.end();
            }
        },
        [&](const kill_progress& progress, std::uint64_t round) -> std::string {
            for (std::uint64_t i = 0; i < progress.completed(); ++i) {
                const operation op = plan(seed, round, i);
                apply(model, op.what, op.n, op.stamp);
            }
            hash_table_model after = model;
            if (progress.in_flight()) {
                const operation op = plan(seed, round, progress.completed());
                apply(after, op.what, op.n, op.stamp);
            }
            // The full check, on what the kill left and on what the successor made of it.
            const auto damage = [](const auto& of) {
                std::string text;
                const auto seen = of.verify([&](const hash_table_finding& f) {
                    text += std::string(describe(f.what)) + " at slot " + std::to_string(f.slot) + "; ";
                    return text.size() < 1000;
                });
                if (seen.busy != 0) text += "not all could be compared";
                return text;
            };
            // A reader before the successor, then the successor: it recovers, so the rounds alternate who comes first.
            if (round % 2 == 0) {
                const auto view = hash_table_reader<key, value>::attach(uri());
                if (!compare(view, model).empty() && !compare(view, after).empty())
                    return "a reader: " + compare(view, after);
                if (std::string text = damage(view); !text.empty()) return "verify() before the successor: " + text;
            }
            const auto next = table::attach(uri());
            ++takeovers;
            if (std::string text = damage(next); !text.empty()) return "verify() by the successor: " + text;
            if (next.size() != model.size() && next.size() != after.size())
                return "the size is " + std::to_string(next.size());
            if (compare(next, after).empty()) model = std::move(after);
            return compare(next, model);
        });
    stop->store(1, std::memory_order_relaxed);
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_TRUE(reader.wait().success()) << reader.wait().text();
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s: %s, %llu successors\n", GetParam(), report.text().c_str(),
                static_cast<unsigned long long>(takeovers));
}

INSTANTIATE_TEST_SUITE_P(Memory, HashTableSegmentKill, ::testing::Values("posix", "file", "sysv"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
