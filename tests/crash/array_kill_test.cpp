// SPDX-License-Identifier: Apache-2.0
// The writer of an array is killed by SIGKILL thousands of times at random instants, recovery included, while a reader
// process reads without pause. Attacked: no torn element, none that goes back, wide ranges all at once, nothing that
// verify() calls damage, and after each kill exactly the state before or after the one store under way.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "holdfast/array.hpp"
#include "support/array_model.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

struct planned {
    u64 first, count, stamp;
};

// Store i of a round: a function of (seed, round, i), known to worker and parent. Stamps only grow.
planned plan_store(u64 seed, u64 round, u64 i, const layout::array_geometry& g) {
    const u64 random = random_at(seed, round, i);
    const u64 count = random % 2 == 0 ? 1 : 1 + (random >> 8) % std::min<u64>({g.range_max, g.size, 12});
    return {(random >> 16) % (g.size - count + 1), count, (round << 16) + i + 1};
}

template <class T>
std::vector<T> values_of(const planned& op) {
    std::vector<T> values;
    for (u64 i = 0; i < op.count; ++i) values.push_back(stamped_element<T>(op.first + i, op.stamp));
    return values;
}

struct reader_counters {
    std::atomic<u64> stop{0}, reads{0}, ranges{0};
};

// Reads every element over and over until told to stop. Returns what was wrong.
template <class Image, class T>
std::string read_until_stopped(const typename Image::loader& in, const layout::array_geometry& g,
                               reader_counters& shared) {
    std::vector<u64> newest(g.size, 0);
    const u64 count = std::min<u64>({g.range_max, g.size, 12});
    std::vector<T> values(count);
    const auto judge = [&](u64 i, std::optional<u64> stamp) -> std::string {
        const std::string name = "element " + std::to_string(i);
        if (!stamp) return name + " is torn, foreign or cannot be read";
        if (*stamp < newest[i])
            return name + " went back from " + std::to_string(newest[i]) + " to " + std::to_string(*stamp);
        newest[i] = *stamp;
        return {};
    };
    // Relaxed: flags and counts between processes that order nothing else.
    while (shared.stop.load(std::memory_order_relaxed) == 0) {
        for (u64 i = 0; i < g.size; ++i) {
            if (std::string text = judge(i, Image::stamp_at(in, i)); !text.empty()) return text;
            shared.reads.fetch_add(1, std::memory_order_relaxed);
            if (i % 8 != 0 || i > g.size - count) continue;
            if (in.load_range(i, count, reinterpret_cast<std::byte*>(values.data())) != outcome::ok)
                return "a range cannot be read";
            for (u64 j = 0; j < count; ++j)
                if (std::string text = judge(i + j, stamp_of_element<T>(i + j, values[j])); !text.empty()) return text;
            shared.ranges.fetch_add(1, std::memory_order_relaxed);
        }
    }
    return {};
}

template <class Shape>
class kill_bench {
 public:
    using value = typename Shape::value;
    using image_type = array_image<value>;

    explicit kill_bench(u64 seed)
        : geometry_(layout::plan_array(Shape::size, sizeof(value))),
          seed_(seed),
          image_(geometry_.body_bytes()),
          copy_(geometry_.body_bytes()),
          page_(4096),
          counters_(new(page_.bytes().data()) reader_counters),
          model_(Shape::size, 0) {}

    // operate(array, op, values) does one planned store of those values on a recovered array.
    template <class Operate>
    kill_report run(u64 kills, Operate&& operate) {
        child_process reader([&]() -> std::string {
            const typename image_type::loader loader({image_.bytes(), geometry_, {}});
            return read_until_stopped<image_type, value>(loader, geometry_, *counters_);
        });
        kill_report report = run_kill_rounds(
            {.rounds = kills, .delay_ns_max = 60'000, .seed = seed_},
            [&](kill_progress& progress, u64 round) {
                progress.ready();  // from here on: recovery is killed, too
                image_type array(image_.bytes(), geometry_);
                for (u64 i = 0;; ++i) {
                    const planned op = plan_store(seed_, round, i, geometry_);
                    const std::vector<value> values = values_of<value>(op);
                    progress.begin();
                    operate(array, op, values);
                    progress.end();
                }
            },
            [&](const kill_progress& progress, u64 round) { return verify(progress, round); });
        counters_->stop.store(1, std::memory_order_relaxed);
        if (const ended& end = reader.wait(); !end.success() && report.failure.empty())
            report.failure = "the reader: " + end.text();
        return report;
    }
    [[nodiscard]] const reader_counters& counters() const noexcept { return *counters_; }
    [[nodiscard]] u64 finished() const noexcept { return finished_; }

 private:
    static void apply(array_model& model, const planned& op) {
        std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(op.first), op.count, op.stamp);
    }
    // Recovers a copy: the array itself is left as the kill left it, for the next worker to recover and to be killed in
    // it.
    std::string verify(const kill_progress& progress, u64 round) {
        const u64 done = progress.completed();
        for (u64 i = 0; i < done; ++i) apply(model_, plan_store(seed_, round, i, geometry_));
        const typename image_type::const_view raw(image_.bytes(), geometry_, {});
        if (std::string text = image_type::damage_of(raw); !text.empty()) return "verify(): " + text;
        copy_.assign(image_.bytes());
        image_type array(copy_.bytes(), geometry_);
        finished_ += array.recovery().store_finished ? 1 : 0;
        if (array.recovery().journal_rejected) return "recovery rejected the journal of a mere crash";
        if (std::string text = array.damage(); !text.empty()) return "verify() after recovery: " + text;
        std::string text = array_difference<typename image_type::loader, value>(array.reader(), model_);
        if (!text.empty() && progress.in_flight()) {
            array_model after = model_;
            apply(after, plan_store(seed_, round, done, geometry_));
            const std::string text_after = array_difference<typename image_type::loader, value>(array.reader(), after);
            if (text_after.empty()) model_ = std::move(after);
            text = text_after.empty() ? "" : "neither before (" + text + ") nor after (" + text_after + ")";
        }
        return text;
    }

    layout::array_geometry geometry_;
    u64 seed_;
    shared_image image_, copy_, page_;
    reader_counters* counters_;
    array_model model_;
    u64 finished_ = 0;
};

template <class Shape>
void kill_writers(u64 kills) {
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    kill_bench<Shape> bench(seed);
    const kill_report report = bench.run(
        scaled(kills), [](auto& array, const planned& op, const auto& values) { array.put(op.first, values); });
    EXPECT_EQ(report.failure, "");
    EXPECT_EQ(report.kills, scaled(kills));
    EXPECT_GT(report.in_flight, 0U);
    if (!sanitized) {
        EXPECT_GT(bench.finished(), 0U) << "no kill came between a commit and the end of its store";
    }
    const u64 reads = bench.counters().reads.load(std::memory_order_relaxed);  // the reader has ended
    EXPECT_GT(reads, 0U);
    ::testing::Test::RecordProperty("kills", std::to_string(report.kills));
    ::testing::Test::RecordProperty("reads", std::to_string(reads));
    std::printf("%s: %s; %llu stores finished by their successor; reader: %llu elements, %llu ranges\n", Shape::name,
                report.text().c_str(), static_cast<unsigned long long>(bench.finished()),
                static_cast<unsigned long long>(reads),
                static_cast<unsigned long long>(bench.counters().ranges.load(std::memory_order_relaxed)));
}

TEST(ArrayKill, NarrowElements) { kill_writers<narrow_elements>(3000); }
TEST(ArrayKill, WideElements) { kill_writers<wide_elements>(4000); }
TEST(ArrayKill, ElementsWhoseLastWordIsShort) { kill_writers<crooked_elements>(2000); }
TEST(ArrayKill, ElementsLargerThanAGroup) { kill_writers<large_elements>(2000); }

// The test's own teeth: a store that bypasses the journal must be found.
TEST(ArrayKill, FindsAStoreWithoutTheJournal) {
    if (sanitized) GTEST_SKIP() << "needs: a build without sanitizers (a round takes 20 ms and more)";
    using value = wide_elements::value;
    kill_bench<wide_elements> bench(choose_seed());
    const kill_report report = bench.run(3000, [](auto& array, const planned& op, const auto& values) {
        const auto view = array.bytes_view();
        for (u64 i = op.first; i < op.first + op.count; ++i) {
            const value& v = values[i - op.first];
            const auto* bytes = reinterpret_cast<const std::byte*>(&v);
            std::byte* const digest = view.digest_of(view.group_of(i));
            const u64 next = holdfast::detail::load_relaxed<u64>(digest) -
                             holdfast::detail::digest_element(view, i, view.element_at(i)) +
                             holdfast::detail::digest_element(view, i, bytes);
            holdfast::detail::copy_to_words(view.element_at(i), 0, bytes, sizeof v);
            holdfast::detail::store_release<u64>(digest, next);
        }
    });
    EXPECT_NE(report.failure, "") << report.text();
}

// The whole way of a writer that dies in service: an array in a named segment, its writer killed at random instants of
// attaching (lease, recovery) and of storing; the successor attaches and finds the state before or after.
class ArraySegmentKill : public segment_test, public ::testing::WithParamInterface<const char*> {
 protected:
    [[nodiscard]] std::string uri() const {
        const std::string kind = GetParam();
        return kind == "posix" ? posix_.uri() : kind == "file" ? disk_.file_uri("a") : system_v_.uri();
    }
    unique_posix_name posix_{"array"};
    unique_directory disk_{"array"};
    unique_system_v_name system_v_;
};

TEST_P(ArraySegmentKill, TheSuccessorFindsBeforeOrAfterAndGoesOn) {
    using value = wide_elements::value;
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    const u64 size = wide_elements::size;
    const auto g = layout::plan_array(size, sizeof(value));
    (void)array<value>::create(uri(), {.size = size});
    const auto differs = [](const auto& from, const array_model& model) {
        for (u64 i = 0; i < model.size(); ++i)
            if (stamp_of_element<value>(i, from[i]) != model[i]) return true;
        return false;
    };
    const auto view = array_reader<value>::attach(uri());  // one mapping through all of it
    array_model model(size, 0);
    const kill_report report = run_kill_rounds(
        {.rounds = scaled(3400), .delay_ns_max = 400'000, .seed = seed},
        [&](kill_progress& progress, u64 round) {
            progress.ready();
            auto writer = array<value>::attach(uri());
            for (u64 i = 0;; ++i) {
                const planned op = plan_store(seed, round, i, g);
                const std::vector<value> values = values_of<value>(op);
                progress.begin();
                if (op.count == 1)
                    writer.store(op.first, values[0]);
                else
                    writer.store_range(op.first, values);
                progress.end();
            }
        },
        [&](const kill_progress& progress, u64 round) -> std::string {
            const auto apply = [&](array_model& to, u64 i) {
                const planned op = plan_store(seed, round, i, g);
                std::fill_n(to.begin() + static_cast<std::ptrdiff_t>(op.first), op.count, op.stamp);
            };
            for (u64 i = 0; i < progress.completed(); ++i) apply(model, i);
            array_model after = model;
            if (progress.in_flight()) apply(after, progress.completed());
            const bool seen_after = !differs(view, after);
            if (!seen_after && differs(view, model)) return "a reader sees neither before nor after";
            const auto intact = [](const auto& of) {
                const auto found = of.verify([](const array_finding&) { return true; });
                return found.intact() && found.busy == 0;
            };
            if (!intact(view)) return "damage before the successor came";
            const auto next = array<value>::attach(uri());
            if (!intact(next)) return "damage after the successor came";
            if (!differs(next, after))
                model = std::move(after);
            else if (seen_after || differs(next, model))
                return "the successor finds neither before nor after, or took back what was seen";
            return {};
        });
    EXPECT_TRUE(report.passed()) << report.text();
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s: %s\n", GetParam(), report.text().c_str());
}

INSTANTIATE_TEST_SUITE_P(Memory, ArraySegmentKill, ::testing::Values("posix", "file", "sysv"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
