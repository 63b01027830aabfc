// SPDX-License-Identifier: Apache-2.0
// The writer of a small table is killed by SIGKILL at random instants, attaching and recovery included, while a reader
// process finds without pause: in a named segment, with its lease, and thousands of times over plain shared bytes,
// where a round is short. Attacked: after each kill the state before or after the one operation under way, for readers
// that were there, for new ones and for the next writer; nothing that verify() calls damage.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

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
void carry_into(model& to, const planned& op) {
    u64& number = to[op.key];
    if (op.what == 0)
        number = 0;
    else if (number != 0 || (op.what == 1 && count_of(to) < capacity))
        number = op.number;
}
template <class Operations>
void operate(Operations& table, const planned& op) {
    const small_value value = small_value_of(op.key, op.number);
    if (op.what == 0)
        (void)table.erase(op.key);
    else
        (void)(op.what == 1 ? table.insert_or_assign(op.key, value) : table.update(op.key, value));
}

/// Where the table lies: how its readers and its next writer come to it.
struct in_segment {
    using table_type = small_table<u64, small_value>;
    using reader_type = small_table_reader<u64, small_value>;
    std::string uri;

    [[nodiscard]] reader_type reader() const { return reader_type::attach(uri); }
    [[nodiscard]] table_type attach() const { return table_type::attach(uri); }
    [[nodiscard]] static table_type& operations(table_type& table) { return table; }
    [[nodiscard]] static small_table_recovery recovery(table_type& table) { return table.recovery(); }
    [[nodiscard]] static std::optional<u64> number_of(reader_type& reader, u64 key) {
        small_value value{};
        const outcome got = reader.find(key, value);
        if (got == outcome::not_found) return 0;
        return got == outcome::ok && value == small_value_of(key, value.number) ? std::optional(value.number)
                                                                                : std::nullopt;
    }
    [[nodiscard]] static bool intact(const reader_type& reader) {
        const auto done = reader.verify([](const small_table_finding&) { return true; });
        return done.intact() && !done.busy;
    }
};
struct in_bytes {
    std::span<std::byte> bytes;
    layout::array_geometry geometry;

    [[nodiscard]] small_image::finder reader() const { return small_image::reader_of(bytes, geometry); }
    [[nodiscard]] small_image attach() const { return {bytes, geometry}; }
    [[nodiscard]] static small_image::mutator& operations(small_image& table) { return table.writer(); }
    [[nodiscard]] static small_table_recovery recovery(small_image& table) {
        small_table_recovery done = table.writer().done();
        done.array = table.array();
        return done;
    }
    [[nodiscard]] static std::optional<u64> number_of(small_image::finder& reader, u64 key) {
        return small_image::number_of(reader, key);
    }
    [[nodiscard]] static bool intact(const small_image::finder& reader) {
        return small_image::damage_of(reader).empty();
    }
};

/// What a reader finds; nothing for a value that is torn or another key's.
template <class Place, class Reader>
std::optional<model> found_by(Reader& reader) {
    model found{};
    for (u64 key = 0; key < keys; ++key) {
        const auto number = Place::number_of(reader, key);
        if (!number) return std::nullopt;
        found[key] = *number;
    }
    return found;
}

struct reader_counters {
    std::atomic<u64> stop{0}, finds{0};
};

template <class Place>
std::string find_until_stopped(const Place& place, reader_counters& counters) {
    auto reader = place.reader();
    model last{};
    // Relaxed: flags and counts between processes that order nothing else.
    while (counters.stop.load(std::memory_order_relaxed) == 0) {
        const auto found = found_by<Place>(reader);
        if (!found) return "a torn value, another key's, or no answer";
        for (u64 key = 0; key < keys; ++key) {
            if ((*found)[key] == 0) continue;
            if ((*found)[key] < last[key]) return "a value went back in time";
            last[key] = (*found)[key];
        }
        counters.finds.fetch_add(keys, std::memory_order_relaxed);
    }
    return {};
}

/// One reader is there all the time, one comes after each kill, then the next writer.
template <class Place>
class judge_of_kills {
 public:
    judge_of_kills(const Place& place, u64 seed) : place_(place), seed_(seed), there_(place.reader()) {}

    std::string operator()(const kill_progress& progress, u64 round) {
        for (u64 i = 0; i < progress.completed(); ++i) carry_into(now_, plan(seed_, round, i));
        model after = now_;
        if (progress.in_flight()) carry_into(after, plan(seed_, round, progress.completed()));
        auto late = place_.reader();
        const auto seen = found_by<Place>(there_);
        if (!seen || (*seen != now_ && *seen != after)) return "a reader finds neither before nor after";
        if (seen != found_by<Place>(late)) return "readers disagree";
        if (!Place::intact(there_)) return "damage before the successor came";
        auto next = place_.attach();
        const small_table_recovery done = Place::recovery(next);
        open_ += done.change_ended ? 1 : 0;
        if (done.array.journal_rejected || done.doubles != 0) return "recovery found damage";
        if (found_by<Place>(there_) != seen) return "recovery changed what was seen";
        if (!Place::intact(there_)) return "damage after the successor came";
        if (Place::operations(next).size() != count_of(*seen)) return "the next writer counts other entries";
        now_ = *seen;
        return {};
    }
    /// Changes of the set of keys that a successor ended.
    [[nodiscard]] u64 open() const noexcept { return open_; }

 private:
    const Place& place_;
    u64 seed_;
    decltype(std::declval<const Place&>().reader()) there_;
    model now_{};
    u64 open_ = 0;
};

template <class Place>
void kill_writers(const Place& place, u64 rounds, u64 delay_ns_max) {
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    shared_image page(4096);
    auto* const counters = new (page.bytes().data()) reader_counters;
    child_process finder([&] { return find_until_stopped(place, *counters); });
    judge_of_kills<Place> judge(place, seed);
    kill_report report = run_kill_rounds(
        {.rounds = scaled(rounds), .delay_ns_max = delay_ns_max, .seed = seed},
        [&](kill_progress& progress, u64 round) {
            progress.ready();
            auto writer = place.attach();
            for (u64 i = 0;; ++i) {
                const planned op = plan(seed, round, i);
                progress.begin();
                operate(Place::operations(writer), op);
                progress.end();
            }
        },
        [&](const kill_progress& progress, u64 round) { return judge(progress, round); });
    counters->stop.store(1, std::memory_order_relaxed);
    if (const ended& end = finder.wait(); !end.success() && report.failure.empty())
        report.failure = "the reader: " + end.text();
    EXPECT_EQ(report.failure, "");
    EXPECT_TRUE(report.passed());
    if (!sanitized) {
        EXPECT_GT(judge.open(), 0U) << "no kill came into a change of the set of keys";
    }
    ::testing::Test::RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s; %llu changes ended by their successor; reader: %llu finds\n", report.text().c_str(),
                static_cast<unsigned long long>(judge.open()),
                static_cast<unsigned long long>(counters->finds.load(std::memory_order_relaxed)));
}

TEST(SmallTableKill, InASegmentBeforeOrAfterForReadersAndTheNextWriter) {
    const unique_posix_name name("small");
    (void)in_segment::table_type::create(name.uri(), {.capacity = capacity});
    kill_writers(in_segment{name.uri()}, 1000, 400'000);
}

TEST(SmallTableKill, ThousandsOfKillsLeaveBeforeOrAfter) {
    const layout::array_geometry geometry = small_image::plan(capacity);
    shared_image image(geometry.body_bytes());
    kill_writers(in_bytes{image.bytes(), geometry}, 9200, 60'000);
}

}  // namespace
