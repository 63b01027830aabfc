// SPDX-License-Identifier: Apache-2.0
// The writer of a hash table is killed by SIGKILL thousands of times at random instants, recovery included, while a
// reader process reads without pause. Attacked: no torn value, no lost key, no value that goes back, nothing that
// verify() calls damage, and after each kill exactly the state before or after the one operation under way.
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "support/hash_table_model.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

// Keys 0, 4, 8, ... are put in at the start and never erased: readers must always find them.
constexpr bool is_permanent(std::uint64_t n) { return n % 4 == 0; }

struct planned {
    table_operation what;
    std::uint64_t n;
    std::uint64_t stamp;
};

// Operation i of a round: a function of (seed, round, i), known to worker and parent. Stamps only grow.
planned plan_operation(std::uint64_t seed, std::uint64_t round, std::uint64_t i, std::uint64_t keys) {
    const std::uint64_t random = random_at(seed, round, i);
    const std::uint64_t n = (random >> 8) % keys;
    const auto what = static_cast<table_operation>(random % 4);
    const bool forbidden = what == table_operation::erase && is_permanent(n);
    return {forbidden ? table_operation::update : what, n, (round << 16) + i + 2};
}

struct reader_counters {
    std::atomic<std::uint64_t> stop{0}, hits{0}, misses{0};
};

// Reads every key over and over until told to stop. Returns what was wrong.
template <class Shape, class Finder>
std::string read_until_stopped(const Finder& finder, std::uint64_t keys, reader_counters& shared) {
    std::vector<std::uint64_t> newest(keys, 0);
    // Relaxed: flags and counts between processes that order nothing else.
    while (shared.stop.load(std::memory_order_relaxed) == 0) {
        for (std::uint64_t n = 0; n < keys; ++n) {
            const auto key = nth_key<Shape>(n);
            typename Shape::value value{};
            const bool found = finder.find(reinterpret_cast<const std::byte*>(&key),
                                           reinterpret_cast<std::byte*>(&value)) != holdfast::detail::no_slot;
            (found ? shared.hits : shared.misses).fetch_add(1, std::memory_order_relaxed);
            const std::string name = "key " + std::to_string(n);
            if (!found && is_permanent(n)) return name + " is lost";
            if (!found) continue;
            const auto stamp = stamp_of<Shape>(n, value);
            if (!stamp) return name + " has a torn or foreign value";
            if (*stamp < newest[n])
                return name + " went back from " + std::to_string(newest[n]) + " to " + std::to_string(*stamp);
            newest[n] = *stamp;
        }
        if (finder.fault()) return "the reader latched a fault";
    }
    return {};
}

template <class Shape>
class kill_bench {
 public:
    kill_bench(std::uint64_t capacity, std::uint64_t seed)
        : geometry_(geometry_for<typename Shape::key, typename Shape::value>(capacity, seed)),
          seed_(seed),
          image_(geometry_.body_bytes()),
          copy_(geometry_.body_bytes()),
          page_(4096),
          counters_(new(page_.bytes().data()) reader_counters) {
        shaped_table<Shape> table(image_.bytes(), geometry_);
        for (std::uint64_t n = 0; n < capacity; n += 4) {
            EXPECT_EQ(apply<Shape>(table, table_operation::try_insert, n, 1), table_answer::inserted);
            model_[n] = 1;
        }
    }

    // `operate` does one planned operation on a recovered table.
    template <class Operate>
    kill_report run(std::uint64_t kills, Operate&& operate) {
        child_process reader([&]() -> std::string {
            const typename shaped_table<Shape>::finder finder({image_.bytes(), geometry_, {}});
            return read_until_stopped<Shape>(finder, geometry_.capacity, *counters_);
        });
        kill_report report = run_kill_rounds(
            {.rounds = kills, .delay_ns_max = 80'000, .seed = seed_},
            [&](kill_progress& progress, std::uint64_t round) {
                progress.ready();  // from here on: recovery is killed, too
                shaped_table<Shape> table(image_.bytes(), geometry_);
                for (std::uint64_t i = 0;; ++i) {
                    const planned op = plan_operation(seed_, round, i, geometry_.capacity);
                    progress.begin();
                    operate(table, op);
                    progress.end();
                }
            },
            [&](const kill_progress& progress, std::uint64_t round) { return verify(progress, round); });
        counters_->stop.store(1, std::memory_order_relaxed);
        if (const ended& end = reader.wait(); !end.success() && report.failure.empty())
            report.failure = "the reader: " + end.text();
        return report;
    }
    [[nodiscard]] const reader_counters& counters() const noexcept { return *counters_; }
    [[nodiscard]] std::uint64_t replays() const noexcept { return replays_; }
    [[nodiscard]] std::uint64_t settlings() const noexcept { return settlings_; }

 private:
    // Recovers a copy: the table itself is left as the kill left it, for the next worker to recover and to be killed in
    // it.
    std::string verify(const kill_progress& progress, std::uint64_t round) {
        const std::uint64_t done = progress.completed();
        for (std::uint64_t i = 0; i < done; ++i) {
            const planned op = plan_operation(seed_, round, i, geometry_.capacity);
            apply(model_, op.what, op.n, op.stamp);
        }
        const detail_view raw(image_.bytes(), geometry_, {});
        if (std::string text = shaped_table<Shape>::damage_of(raw); !text.empty()) return "verify(): " + text;
        copy_.assign(image_.bytes());
        shaped_table<Shape> table(copy_.bytes(), geometry_);
        replays_ += table.recovery().update_replayed ? 1 : 0;
        settlings_ += table.recovery().operation_settled ? 1 : 0;
        if (table.recovery().journal_rejected) return "recovery rejected the journal of a mere crash";
        if (std::string text = table.damage(); !text.empty()) return "verify() after recovery: " + text;

        const auto reading = [&](const auto& key, auto& value) { return table.find(key, value); };
        std::string text = difference<Shape>(reading, model_, geometry_.capacity);
        if (!text.empty() && progress.in_flight()) {
            const planned op = plan_operation(seed_, round, done, geometry_.capacity);
            hash_table_model after = model_;
            apply(after, op.what, op.n, op.stamp);
            const std::string text_after = difference<Shape>(reading, after, geometry_.capacity);
            if (text_after.empty()) model_ = std::move(after);
            text = text_after.empty()
                       ? ""
                       : "neither before (" + text + ") nor after (" + text_after + ") the " + name_of(op.what);
        }
        if (text.empty() && table.writer().size() != model_.size())
            text = "the size is " + std::to_string(table.writer().size());
        return text;
    }
    using detail_view = holdfast::detail::table_view<const std::byte, typename shaped_table<Shape>::node>;

    layout::hash_table_geometry geometry_;
    std::uint64_t seed_;
    shared_image image_, copy_, page_;
    reader_counters* counters_;
    hash_table_model model_;
    std::uint64_t replays_ = 0, settlings_ = 0;
};

struct population {
    std::uint64_t capacity;
    std::uint64_t kills;
};

template <class Shape>
void kill_writers(const population& p, const char* what) {
    const std::uint64_t seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    kill_bench<Shape> bench(p.capacity, seed);
    const kill_report report = bench.run(scaled(p.kills), [](shaped_table<Shape>& table, const planned& op) {
        (void)apply<Shape>(table, op.what, op.n, op.stamp);
    });
    EXPECT_EQ(report.failure, "");
    EXPECT_EQ(report.kills, scaled(p.kills));
    EXPECT_GT(report.in_flight, 0U);
    const std::uint64_t hits = bench.counters().hits.load(std::memory_order_relaxed);  // the reader has ended
    EXPECT_GT(hits, 0U);
    ::testing::Test::RecordProperty("kills", std::to_string(report.kills));
    ::testing::Test::RecordProperty("reads", std::to_string(hits));
    std::printf("%s: %s; journal replayed %llu times, intent settled %llu times; reader: %llu hits checked\n", what,
                report.text().c_str(), static_cast<unsigned long long>(bench.replays()),
                static_cast<unsigned long long>(bench.settlings()), static_cast<unsigned long long>(hits));
}

TEST(HashTableKill, NarrowValues) { kill_writers<narrow_shape>({250, 3000}, "narrow"); }
TEST(HashTableKill, WideValues) { kill_writers<wide_shape>({250, 5000}, "wide"); }
TEST(HashTableKill, ValuesThatShareAWordWithTheKey) { kill_writers<crooked_shape>({60, 2000}, "crooked"); }

// The test's own teeth: an update that bypasses the journal must be found.
TEST(HashTableKill, FindsAWideUpdateWithoutTheJournal) {
    if (sanitized) GTEST_SKIP() << "needs: a build without sanitizers (a round takes 20 ms and more)";
    kill_bench<wide_shape> bench(250, choose_seed());
    const kill_report report = bench.run(3000, [](shaped_table<wide_shape>& table, const planned& op) {
        const auto key = nth_key<wide_shape>(op.n);
        const auto value = stamped_value<wide_shape>(op.n, op.stamp);
        const std::uint64_t slot = table.reader().find(shaped_table<wide_shape>::as_bytes(key), nullptr);
        if (op.what == table_operation::erase || op.what == table_operation::try_insert ||
            slot == holdfast::detail::no_slot) {
            (void)apply<wide_shape>(table, op.what, op.n, op.stamp);
            return;
        }
        const auto view = table.view();
        const std::uint64_t bucket = slot / layout::tags_per_line;
        std::byte* const node = view.node_at(bucket, static_cast<unsigned>(slot % layout::tags_per_line));
        const auto digest = [&] { return holdfast::detail::load_relaxed<std::uint64_t>(view.digest_of(bucket)); };
        const std::uint64_t base = digest() - holdfast::detail::digest_value(view, node, node);
        holdfast::detail::copy_to_words(node, table.geometry().value_offset, shaped_table<wide_shape>::as_bytes(value),
                                        sizeof value);
        holdfast::detail::store_release<std::uint64_t>(view.digest_of(bucket),
                                                       base + holdfast::detail::digest_value(view, node, node));
    });
    EXPECT_NE(report.failure.find("the checksum does not match"), std::string::npos) << report.failure << report.text();
}

}  // namespace
