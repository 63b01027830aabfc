// SPDX-License-Identifier: Apache-2.0
// The promises of pools, strands and keys where one thread runs the tasks, so that each is exact; and all of them at
// once against a model, over thousands of schedules. With real workers: tests/concurrency/executor_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/executor/keyed_executor.hpp"
#include "holdfast/executor/strand.hpp"
#include "holdfast/executor/thread_pool.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace std::chrono_literals;
using namespace holdfast::executor;
using holdfast::errc;
using holdfast::test::scaled;
using holdfast::test::seeded_random;
using testing::ElementsAre;
using testing::IsEmpty;

pool_options without_workers() {
    pool_options options;
    options.workers = 0;
    return options;
}

strand_options limit_of(std::uint32_t waiting_max, overflow when_full = overflow::refuse) {
    strand_options options;
    options.waiting_max = waiting_max;
    options.when_full = when_full;
    return options;
}

/// Counts how many of it there are.
struct counted {
    explicit counted(int& alive_now) : alive(&alive_now) { ++*alive; }
    counted(const counted& other) : alive(other.alive) { ++*alive; }
    counted(counted&& other) noexcept : alive(other.alive) { ++*alive; }
    counted& operator=(const counted&) = delete;
    ~counted() { --*alive; }
    int* alive;
};

// ---- tasks ----

TEST(ExecutorTask, SmallOnesFitLargeOnesDoNot) {
    const auto small = [x = std::array<std::byte, 48>{}] { (void)x; };
    const auto large = [x = std::array<std::byte, 49>{}] { (void)x; };
    static_assert(task_fits<decltype(small)> && !task_fits<decltype(large)>);
    const auto wide = [x = static_cast<long double>(1)] { (void)x; };
    static_assert(task_fits<decltype(wide)>);
    struct alignas(32) aligned {
        void operator()() const {}
    };
    static_assert(!task_fits<aligned>);
    static_assert(!task_fits<decltype(small), decltype([x = 1](cancel_reason) { (void)x; })>);
}

template <std::size_t Bytes>
void expect_one_life() {
    int alive = 0, ran = 0;
    {
        thread_pool pool(without_workers());
        strand order(pool);
        order.post([here = counted(alive), room = std::array<std::byte, Bytes>{}, &ran, &alive] {
            (void)room;
            EXPECT_EQ(alive, 2);
            ++ran;
            (void)here;
        });
        order.post([here = counted(alive), room = std::array<std::byte, Bytes>{}, &alive] {
            (void)room;
            (void)here;
            EXPECT_EQ(alive, 1) << "the one before is destroyed before this begins";
            throw std::runtime_error("thrown");
        });
        EXPECT_EQ(alive, 2);
        EXPECT_EQ(ran, 0);
        pool.run();
        EXPECT_EQ(alive, 0);
    }
    EXPECT_EQ(ran, 1);
}
TEST(ExecutorTask, LivesOnceInTheNode) { expect_one_life<8>(); }
TEST(ExecutorTask, LivesOnceOnTheHeap) { expect_one_life<400>(); }

TEST(ExecutorTask, MayBeMovedOnly) {
    thread_pool pool(without_workers());
    int seen = 0;
    pool.post([value = std::make_unique<int>(7), &seen] { seen = *value; });
    pool.run();
    EXPECT_EQ(seen, 7);
}

TEST(ExecutorTask, OneThatCannotBeMadeIsNotPosted) {
    struct refuses {
        refuses() = default;
        refuses(const refuses&) { throw std::runtime_error("no copy"); }
        void operator()() const {}
    };
    pool_options options = without_workers();
    options.waiting_max = 1;
    thread_pool pool(options);
    const refuses task;
    strand_options poisonable = limit_of(1);
    poisonable.poison_on_error = true;
    strand order(pool, poisonable);
    keyed_executor<int> keys(pool, {.waiting_max = 1});
    keyed_executor<int> free_keys(pool);
    for (int i = 0; i < 3; ++i) {  // what was reserved for it is given back
        EXPECT_THROW((void)pool.try_post(task), std::runtime_error);
        EXPECT_THROW((void)order.try_post(task), std::runtime_error);
        EXPECT_THROW((void)keys.try_post(1, task), std::runtime_error);
        EXPECT_THROW((void)free_keys.try_post(1, task), std::runtime_error);
    }
    EXPECT_EQ(keys.keys(), 0U);
    EXPECT_EQ(pool.run(), 0U);
    EXPECT_EQ(order.try_post([] {}), post_status::posted);
}

// --- pressure

/// A pool that writes down what it tells: '+' and '-'.
struct pressed_pool {
    explicit pressed_pool(std::uint64_t high, std::uint64_t low, std::uint64_t waiting_max = 0) {
        pool_options options = without_workers();
        options.high_water = high;
        options.low_water = low;
        options.waiting_max = waiting_max;
        options.on_pressure = [this](bool pressed) {
            told += pressed ? '+' : '-';
            if (then) then(pressed);
        };
        pool.emplace(options);
    }
    std::string told;
    std::function<void(bool)> then;
    std::optional<thread_pool> pool;
};

TEST(ExecutorPressure, IsToldAtEachMarkOnce) {
    pressed_pool under(3, 1);
    thread_pool& pool = *under.pool;
    for (int round = 0; round < 3; ++round) {
        under.told.clear();
        while (pool.run_one()) continue;
        under.told.clear();
        pool.post([] {});
        pool.post([] {});
        EXPECT_EQ(under.told, "");
        pool.post([] {});
        EXPECT_EQ(under.told, "+");
        pool.post([] {});
        pool.run_one();
        pool.run_one();
        EXPECT_EQ(under.told, "+");
        pool.post([] {});  // up and down between the marks is not told
        pool.run_one();
        EXPECT_EQ(under.told, "+");
        pool.run_one();
        EXPECT_EQ(under.told, "+-");
        pool.post([] {});
        EXPECT_EQ(under.told, "+-");
        pool.post([] {});
        EXPECT_EQ(under.told, "+-+");
    }
}

TEST(ExecutorPressure, CountsWhatStrandsAndKeysWaitFor) {
    pressed_pool under(3, 0, 4);
    thread_pool& pool = *under.pool;
    strand free_order(pool), order(pool, limit_of(1, overflow::drop_oldest));
    keyed_executor<int> keys(pool, {.waiting_max = 1});
    free_order.post([] {});
    EXPECT_EQ(keys.try_post(1, [] {}), post_status::posted);
    EXPECT_EQ(keys.try_post(1, [] {}), post_status::full);  // one that is refused does not wait
    EXPECT_EQ(under.told, "");
    order.post([] {});
    EXPECT_EQ(under.told, "+");
    order.post([] {});  // in place of the other
    EXPECT_EQ(pool.try_post([] {}), post_status::posted);
    EXPECT_EQ(pool.try_post([] {}), post_status::full);
    pool.stop_now();
    pool.drain();
    EXPECT_EQ(under.told, "+-");
}

TEST(ExecutorPressure, WhoIsToldMayPostAndThrow) {
    pressed_pool under(2, 0);
    int ran = 0;
    under.then = [&](bool pressed) {
        if (pressed && ran == 0) under.pool->post([&] { ++ran; });
        throw std::runtime_error("dropped");
    };
    under.pool->post([&] { ++ran; });
    under.pool->post([&] { ++ran; });
    EXPECT_EQ(under.told, "+");
    under.pool->run();
    EXPECT_EQ(ran, 3);
    EXPECT_EQ(under.told, "+-");
    EXPECT_EQ(under.pool->stats().failed, 0U);
}

// What is told makes the other mark pass: it is told behind it, not within it.
TEST(ExecutorPressure, WhatPassesWhileOneIsToldIsToldBehindIt) {
    pressed_pool under(2, 1);
    int depth = 0, deepest = 0;
    under.then = [&](bool pressed) {
        deepest = std::max(deepest, ++depth);
        if (!pressed && under.told.size() < 5) under.pool->post([] {});
        --depth;
    };
    under.pool->post([] {});
    under.pool->post([] {});
    under.pool->run_one();
    EXPECT_EQ(under.told, "+-+");
    under.pool->run();
    EXPECT_EQ(under.told, "+-+-+-");
    EXPECT_EQ(deepest, 1);
}

TEST(ExecutorPressure, NeedsAllOfIt) {
    const auto refused = [](std::uint64_t high, std::uint64_t low, bool told) {
        pool_options options = without_workers();
        options.high_water = high;
        options.low_water = low;
        if (told) options.on_pressure = [](bool) {};
        try {
            const thread_pool pool(options);
        } catch (const holdfast::error& e) {
            return e.reason() == errc::invalid_argument;
        }
        return false;
    };
    EXPECT_FALSE(refused(0, 0, false));
    EXPECT_FALSE(refused(2, 1, true));
    EXPECT_TRUE(refused(2, 2, true));
    EXPECT_TRUE(refused(2, 1, false));
    EXPECT_TRUE(refused(0, 0, true));
    EXPECT_TRUE(refused(0, 1, false));
}

TEST(ExecutorTask, AKeyThatCannotBeCopiedPostsNothing) {
    struct key {
        explicit key(int of) : number(of) {}
        key(const key& other) : number(other.number) {
            if (number < 0) throw std::runtime_error("no copy");
        }
        bool operator==(const key&) const = default;
        int number;
    };
    const auto hash = [](const key& k) { return static_cast<std::size_t>(k.number); };
    int alive = 0;
    pool_options options = without_workers();
    options.waiting_max = 1;
    thread_pool pool(options);
    keyed_executor<key, decltype(hash)> keys(pool, {}, hash);
    for (int i = 0; i < 3; ++i) {
        EXPECT_THROW((void)keys.try_post(key(-1), [here = counted(alive)] { (void)here; }), std::runtime_error);
    }
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(keys.try_post(key(1), [] {}), post_status::posted);
    EXPECT_EQ(keys.keys(), 1U);
}

// ---- turns ----

TEST(TurnBudget, EndsAfterItsTasks) {
    detail::turn_budget budget(3, 0ns);
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(budget.over()) << i;
        budget.spend();
    }
    EXPECT_TRUE(budget.over());
}

TEST(TurnBudget, EndsAfterItsTimeAndNeverBeforeTheFirstTask) {
    detail::turn_budget budget(1'000'000, 1ns);
    EXPECT_FALSE(budget.over());
    budget.spend();
    EXPECT_FALSE(budget.over());  // the clock starts
    budget.spend();
    while (!budget.over()) budget.spend();  // ends as soon as the clock has moved
}

TEST(ExecutorTurns, AColdKeyWaitsBehindATurnOfTheHotOneNotBehindItsQueue) {
    constexpr int hot_tasks = 50'000;
    pool_options options = without_workers();
    options.turn_time_max = 0ns;
    thread_pool pool(options);
    strand hot(pool), cold(pool);
    int done = 0, posted_at = -1, ran_at = -1;
    for (int i = 0; i < hot_tasks; ++i)
        hot.post([&, i] {
            ++done;
            if (i != 100) return;
            posted_at = done;
            cold.post([&] { ran_at = done; });
        });
    pool.run();
    EXPECT_EQ(done, hot_tasks);
    EXPECT_EQ(posted_at, 101);
    EXPECT_LE(ran_at - posted_at, 64);
    EXPECT_EQ(ran_at, 128) << "behind the turn in which it came";
}

TEST(ExecutorTurns, LongTasksEndATurnByTime) {
    pool_options options = without_workers();
    options.turn_time_max = 1us;
    thread_pool pool(options);
    strand hot(pool), cold(pool);
    int done = 0, ran_at = -1;
    const auto long_task = [&] {
        const auto end = std::chrono::steady_clock::now() + 20us;
        while (std::chrono::steady_clock::now() < end) continue;
        if (++done == 1) cold.post([&] { ran_at = done; });
    };
    for (int i = 0; i < 50; ++i) hot.post(long_task);
    pool.run();
    EXPECT_EQ(ran_at, 2) << "the clock starts behind the first task, and is read behind the second";
}

TEST(ExecutorTurns, EachKeyHasItsTurnBeforeAnyHasItsSecond) {
    pool_options options = without_workers();
    options.turn_tasks_max = 2;
    options.turn_time_max = 0ns;
    thread_pool pool(options);
    keyed_executor<char> keys(pool);
    std::string ran;
    for (const char key : std::string("aaaaabbbc")) keys.post(key, [&ran, key] { ran += key; });
    pool.run();
    EXPECT_EQ(ran, "aabbcaaba");
}

// ---- limits ----

TEST(ExecutorLimits, AFullStrandRefusesAndLeavesTheTaskAlone) {
    thread_pool pool(without_workers());
    strand order(pool, limit_of(2));
    int ran = 0;
    EXPECT_EQ(order.try_post([&] { ++ran; }), post_status::posted);
    EXPECT_EQ(order.try_post([&] { ++ran; }), post_status::posted);
    auto task = [kept = std::make_unique<int>(5), &ran] { ran += *kept; };
    EXPECT_EQ(order.try_post(std::move(task)), post_status::full);
    EXPECT_EQ(order.wait_post(std::move(task), 1h), post_status::full) << "nobody else could make room";
    pool.run();
    EXPECT_EQ(order.try_post(std::move(task)), post_status::posted) << "it was not moved from";
    pool.run();
    EXPECT_EQ(ran, 7);
}

TEST(ExecutorLimits, PostGoesBeyondThem) {
    pool_options options = without_workers();
    options.waiting_max = 1;
    thread_pool pool(options);
    strand order(pool, limit_of(1));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(order.post([] {}), post_status::posted);
    EXPECT_EQ(order.try_post([] {}), post_status::full);
    EXPECT_EQ(pool.post([] {}), post_status::posted);
    EXPECT_EQ(pool.try_post([] {}), post_status::full);
    pool.run();
    EXPECT_EQ(pool.stats().executed, 5U);
    EXPECT_EQ(order.try_post([] {}), post_status::posted);
}

TEST(ExecutorLimits, ATaskThatRunsDoesNotCount) {
    thread_pool pool(without_workers());
    strand order(pool, limit_of(1));
    std::vector<post_status> seen;
    order.post([&] {
        seen.push_back(order.try_post([] {}));
        seen.push_back(order.try_post([] {}));
        seen.push_back(order.wait_post([] {}, 1h));  // its own full queue: no wait for itself
        seen.push_back(order.post([] {}));
    });
    pool.run();
    EXPECT_THAT(seen, ElementsAre(post_status::posted, post_status::full, post_status::full, post_status::posted));
    EXPECT_EQ(pool.stats().executed, 3U);
}

TEST(ExecutorLimits, TheOldestIsDroppedForANewOne) {
    thread_pool pool(without_workers());
    strand order(pool, limit_of(3, overflow::drop_oldest));
    std::vector<int> ran, dropped;
    for (int i = 0; i < 7; ++i) {
        EXPECT_EQ(order.try_post([&ran, i] { ran.push_back(i); },
                                 [&dropped, i](cancel_reason why) {
                                     EXPECT_EQ(why, cancel_reason::dropped);
                                     dropped.push_back(i);
                                 }),
                  post_status::posted);
    }
    EXPECT_THAT(dropped, ElementsAre(0, 1, 2, 3));
    pool.run();
    EXPECT_THAT(ran, ElementsAre(4, 5, 6));
    EXPECT_EQ(pool.stats().cancelled, 4U);
}

TEST(ExecutorLimits, ThePoolsHoldsForAllStrandsAndKeys) {
    pool_options options = without_workers();
    options.waiting_max = 3;
    thread_pool pool(options);
    strand order(pool);
    keyed_executor<int> keys(pool, {.waiting_max = 2, .when_full = overflow::drop_oldest});
    EXPECT_EQ(order.try_post([] {}), post_status::posted);
    EXPECT_EQ(pool.try_post([] {}), post_status::posted);
    EXPECT_EQ(keys.try_post(1, [] {}), post_status::posted);
    EXPECT_EQ(order.try_post([] {}), post_status::full);
    EXPECT_EQ(pool.try_post([] {}), post_status::full);
    EXPECT_EQ(keys.try_post(2, [] {}), post_status::full);
    EXPECT_EQ(keys.keys(), 1U) << "a refused key is not kept";
    EXPECT_TRUE(pool.run_one());
    EXPECT_EQ(keys.try_post(2, [] {}), post_status::posted);
    EXPECT_EQ(keys.try_post(3, [] {}), post_status::full);
    pool.run();
    EXPECT_EQ(pool.stats().executed, 4U);
}

// ---- failures ----

TEST(ExecutorErrors, GoToTheStrandsOwnCallbackElseToThePools) {
    std::vector<std::string> told;
    const auto tell = [&told](const std::string& to) {
        return [&told, to](const std::exception_ptr& what) {
            try {
                std::rethrow_exception(what);
            } catch (const std::exception& e) {
                told.push_back(to + ": " + e.what());
            }
        };
    };
    pool_options options = without_workers();
    options.on_error = tell("pool");
    thread_pool pool(options);
    strand_options own;
    own.on_error = tell("strand");
    strand with(pool, own), without(pool);
    keyed_executor<std::string> keys(
        pool, {.on_error = [&](const std::string& key, const std::exception_ptr& what) { tell(key)(what); }});
    bool went_on = false;
    with.post([] { throw std::runtime_error("1"); });
    with.post([&] { went_on = true; });
    without.post([] { throw std::runtime_error("2"); });
    keys.post("key", [] { throw std::runtime_error("3"); });
    pool.post([] { throw std::runtime_error("4"); });
    pool.run();
    EXPECT_TRUE(went_on);
    EXPECT_THAT(told, ElementsAre("strand: 1", "pool: 2", "key: 3", "pool: 4"));
    EXPECT_EQ(pool.stats().failed, 4U);
    EXPECT_EQ(pool.stats().executed, 5U);
}

TEST(ExecutorErrors, OfCallbacksAreDropped) {
    pool_options options = without_workers();
    options.on_error = [](const std::exception_ptr&) { throw std::runtime_error("also"); };
    thread_pool pool(options);
    strand order(pool, limit_of(1, overflow::drop_oldest));
    bool ran = false;
    order.post([] {}, [](cancel_reason) { throw std::runtime_error("cancel"); });
    order.post([] { throw std::runtime_error("first"); });
    pool.run();
    order.post([&] { ran = true; });
    pool.run();
    EXPECT_TRUE(ran);
    EXPECT_EQ(pool.stats().failed, 1U);
    EXPECT_EQ(pool.stats().cancelled, 1U);
}

TEST(ExecutorErrors, WithoutACallbackAreCounted) {
    thread_pool pool(without_workers());
    pool.post([] { throw 1; });
    pool.run();
    EXPECT_EQ(pool.stats().failed, 1U);
}

TEST(ExecutorErrors, PoisonAStrandUntilItIsReset) {
    thread_pool pool(without_workers());
    strand_options options;
    options.poison_on_error = true;
    strand order(pool, options);
    std::vector<int> ran, cancelled;
    const auto post = [&](int i) {
        return order.post([&ran, i] { i == 1 ? throw std::runtime_error("poison") : ran.push_back(i); },
                          [&cancelled, i](cancel_reason why) {
                              EXPECT_EQ(why, cancel_reason::poisoned);
                              cancelled.push_back(i);
                          });
    };
    for (int i = 0; i < 4; ++i) EXPECT_EQ(post(i), post_status::posted);
    pool.run();
    EXPECT_THAT(ran, ElementsAre(0));
    EXPECT_THAT(cancelled, ElementsAre(2, 3));
    EXPECT_EQ(post(5), post_status::poisoned);
    EXPECT_EQ(order.try_post([] {}), post_status::poisoned);
    EXPECT_EQ(order.wait_post([] {}, 1h), post_status::poisoned);
    order.reset();
    EXPECT_EQ(post(6), post_status::posted);
    pool.run();
    EXPECT_THAT(ran, ElementsAre(0, 6));
}

TEST(ExecutorErrors, PoisonOneKeyAndKeepItInMind) {
    thread_pool pool(without_workers());
    keyed_executor<int> keys(pool, {.poison_on_error = true});
    keys.post(1, [] { throw std::runtime_error("poison"); });
    keys.post(2, [] {});
    pool.run();
    EXPECT_EQ(keys.keys(), 1U);
    EXPECT_EQ(keys.post(1, [] {}), post_status::poisoned);
    EXPECT_EQ(keys.post(2, [] {}), post_status::posted);
    EXPECT_TRUE(keys.reset(1));
    EXPECT_FALSE(keys.reset(1));
    pool.run();
    EXPECT_EQ(keys.keys(), 0U);
    EXPECT_EQ(keys.post(1, [] {}), post_status::posted);
}

// ---- ends ----

TEST(ExecutorEnd, CloseRefusesAndWhatWasPostedRuns) {
    thread_pool pool(without_workers());
    strand order(pool, limit_of(10));
    keyed_executor<int> keys(pool);
    int ran = 0;
    post_status within = post_status::posted;
    order.post([&] {
        ++ran;
        within = order.post([] {});
    });
    pool.close();
    EXPECT_EQ(order.post([] {}), post_status::closed);
    EXPECT_EQ(keys.try_post(1, [] {}), post_status::closed);
    EXPECT_EQ(pool.wait_post([] {}, 1h), post_status::closed);
    pool.drain();
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(within, post_status::closed);
}

TEST(ExecutorEnd, StopCancelsWhatHasNotBegunInOrder) {
    thread_pool pool(without_workers());
    strand order(pool);
    std::vector<int> ran, cancelled;
    for (int i = 0; i < 5; ++i)
        order.post(
            [&, i] {
                ran.push_back(i);
                if (i == 1) pool.stop_now();
            },
            [&, i](cancel_reason why) {
                EXPECT_EQ(why, cancel_reason::stopped);
                cancelled.push_back(i);
            });
    pool.post([] { FAIL() << "it was cancelled"; });
    pool.drain();
    EXPECT_THAT(ran, ElementsAre(0, 1));
    EXPECT_THAT(cancelled, ElementsAre(2, 3, 4));
    EXPECT_EQ(order.post([] {}), post_status::closed);
    EXPECT_EQ(pool.stats().cancelled, 4U);
}

TEST(ExecutorEnd, TheDestructorRunsWhatWasPostedAlsoOfHandlesThatHaveGone) {
    int ran = 0;
    {
        thread_pool pool(without_workers());
        {
            strand order(pool);
            keyed_executor<std::string> keys(pool, {.waiting_max = 5});
            for (int i = 0; i < 100; ++i) {
                order.post([&] { ++ran; });
                (void)keys.try_post(std::to_string(i), [&] { ++ran; });
            }
        }
        EXPECT_EQ(ran, 0);
        EXPECT_TRUE(pool.run_one());
    }
    EXPECT_EQ(ran, 200);
}

TEST(ExecutorEnd, HandlesMayOutliveThePool) {
    std::optional<strand> order;
    std::optional<keyed_executor<int>> keys;
    {
        thread_pool pool(without_workers());
        order.emplace(pool);
        keys.emplace(pool, keyed_options<int>{.poison_on_error = true});
        order->post([] {});
        keys->post(1, [] { throw 1; });
    }
    EXPECT_EQ(keys->keys(), 1U);
}

TEST(ExecutorEnd, DrainWithinATaskIsRefused) {
    thread_pool pool(without_workers());
    int refused = 0;
    pool.post([&] {
        try {
            pool.drain();
        } catch (const holdfast::error& e) {
            refused += e.reason() == errc::invalid_argument ? 1 : 0;
        }
    });
    pool.drain();
    EXPECT_EQ(refused, 1);
    EXPECT_TRUE(pool.drain_for(0ns));
}

TEST(ExecutorEnd, AStrandMovedIsTheSame) {
    thread_pool pool(without_workers());
    std::vector<int> ran;
    strand first(pool);
    first.post([&] { ran.push_back(1); });
    strand second(std::move(first));
    second.post([&] { ran.push_back(2); });
    strand third(pool);
    third = std::move(second);
    third.post([&] { ran.push_back(3); });
    pool.run();
    EXPECT_THAT(ran, ElementsAre(1, 2, 3));
}

TEST(ExecutorOptions, NonsenseIsRefused) {
    const auto refused = [](auto change) {
        pool_options options;
        change(options);
        try {
            const thread_pool pool(options);
        } catch (const holdfast::error& e) {
            return e.reason() == errc::invalid_argument;
        }
        return false;
    };
    EXPECT_TRUE(refused([](pool_options& o) { o.turn_tasks_max = 0; }));
    EXPECT_TRUE(refused([](pool_options& o) { o.turn_time_max = -1ns; }));
    EXPECT_TRUE(refused([](pool_options& o) {
        o.workers = 1;
        o.seed = 1;
    }));
}

// ---- deep and wide ----

TEST(ExecutorDepth, ATaskMayPostItselfForEverWithoutRecursion) {
    thread_pool pool(without_workers());
    strand order(pool);
    std::uint64_t left = scaled(300'000);
    std::function<void()> again = [&] {
        if (--left > 0) order.post([&] { again(); });
    };
    order.post([&] { again(); });
    pool.run();
    EXPECT_EQ(left, 0U);
}

TEST(ExecutorDepth, KeysComeAndGoByTheThousandAndCollide) {
    thread_pool pool(without_workers());
    const auto poor = [](int key) { return static_cast<std::size_t>(key % 50); };
    keyed_executor<int, decltype(poor)> keys(pool, {}, poor);
    std::map<int, int> ran;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 5000; ++i) keys.post(i, [&ran, i, round] { EXPECT_EQ(ran[i]++ / 2, round); });
        for (int i = 5000; i-- > 0;) keys.post(i, [&ran, i, round] { EXPECT_EQ(ran[i]++ / 2, round); });
        EXPECT_EQ(keys.keys(), 5000U);
        pool.run();
        EXPECT_EQ(keys.keys(), 0U);
    }
    EXPECT_EQ(ran.size(), 5000U);
}

// ---- the model ----

/// Keys with everything that options can ask for, beside a model of them. Tasks are numbers; each, when it runs or is
/// cancelled, has to be the one that the model has next.
class world {
 public:
    world(std::uint64_t seed, seeded_random& random) : random_(random), pool_(options_of(seed)) {
        options_.waiting_max = static_cast<std::uint32_t>(random.below(4));
        options_.when_full = random.below(2) == 0 ? overflow::refuse : overflow::drop_oldest;
        options_.poison_on_error = random.below(2) == 0;
        pool_max_ = pool_waiting_max(seed);
        keyed_options<int> given{.waiting_max = options_.waiting_max,
                                 .when_full = options_.when_full,
                                 .poison_on_error = options_.poison_on_error,
                                 .on_error = [this](int key, const std::exception_ptr&) { failed_ = key; }};
        keys_.emplace(pool_, std::move(given));
    }

    void step() {
        switch (random_.below(8)) {
            case 0:
            case 1: turn(); break;
            case 2: reset(static_cast<int>(random_.below(key_count))); break;
            default: post();
        }
        std::size_t there = 0;
        for (const model_key& key : model_) there += !key.waiting.empty() || key.poisoned ? 1 : 0;
        EXPECT_EQ(keys_->keys(), there);
    }
    void finish(bool stop) {
        if (stop) {
            stopped_ = true;
            pool_.stop_now();
        } else if (random_.below(2) == 0) {
            pool_.close();
        }
        ends_ = true;
        if (random_.below(2) == 0) keys_.reset();  // the handle goes first
        while (turn()) continue;
        pool_.drain();
        EXPECT_EQ(total_waiting(), 0U);
        EXPECT_EQ(pool_.stats().executed, executed_);
        EXPECT_EQ(pool_.stats().cancelled, cancelled_);
        EXPECT_EQ(executed_ + cancelled_, posted_);
    }

 private:
    static constexpr int key_count = 4;
    struct model_key {
        std::deque<int> waiting;
        bool poisoned = false;
    };

    static std::uint64_t pool_waiting_max(std::uint64_t seed) { return seed % 3 == 0 ? 6 : 0; }
    static pool_options options_of(std::uint64_t seed) {
        pool_options options = without_workers();
        options.seed = seed;
        options.turn_tasks_max = 1 + static_cast<std::uint32_t>(seed % 5);
        options.waiting_max = pool_waiting_max(seed);
        return options;
    }
    [[nodiscard]] std::size_t total_waiting() const {
        return std::accumulate(model_.begin(), model_.end(), std::size_t{0},
                               [](std::size_t sum, const model_key& key) { return sum + key.waiting.size(); });
    }

    void post() {
        const int key = static_cast<int>(random_.below(key_count)), number = next_++;
        const bool forced = random_.below(4) == 0;
        model_key& at = model_[static_cast<std::size_t>(key)];
        const bool full = options_.waiting_max != 0 && at.waiting.size() >= options_.waiting_max;
        const bool drops = options_.when_full == overflow::drop_oldest;
        post_status expected = post_status::posted;
        if (at.poisoned)
            expected = post_status::poisoned;
        else if (!forced && ((full && !drops) || (pool_max_ != 0 && total_waiting() >= pool_max_)))
            expected = post_status::full;
        if (expected == post_status::posted) {
            ++posted_;
            if (full && drops) expect_cancelled_.push_back(at.waiting.front());
            // The cancel callback takes the oldest out; the new one stands behind it already.
            at.waiting.push_back(number);
        }
        const auto run = [this, key, number] { ran(key, number); };
        const auto cancel = [this, key, number](cancel_reason why) { was_cancelled(key, number, why); };
        EXPECT_EQ(forced ? keys_->post(key, run, cancel) : keys_->try_post(key, run, cancel), expected);
        EXPECT_THAT(expect_cancelled_, IsEmpty());
    }
    void ran(int key, int number) {
        EXPECT_FALSE(stopped_);
        model_key& at = model_[static_cast<std::size_t>(key)];
        ASSERT_FALSE(at.waiting.empty());
        EXPECT_EQ(at.waiting.front(), number) << "out of order";
        at.waiting.pop_front();
        ++executed_;
        if (!ends_ && random_.below(4) == 0) post();  // its own queue among others
        if (random_.below(6) != 0) return;
        if (options_.poison_on_error) {
            at.poisoned = true;
            expect_cancelled_.assign(at.waiting.begin(), at.waiting.end());
        }
        failed_ = -1;
        throw std::runtime_error("drawn");
    }
    void was_cancelled(int key, int number, cancel_reason why) {
        model_key& at = model_[static_cast<std::size_t>(key)];
        ASSERT_FALSE(at.waiting.empty());
        EXPECT_EQ(at.waiting.front(), number);
        at.waiting.pop_front();
        ++cancelled_;
        if (stopped_ && why == cancel_reason::stopped) return;
        ASSERT_FALSE(expect_cancelled_.empty());
        EXPECT_EQ(expect_cancelled_.front(), number);
        EXPECT_EQ(why, at.poisoned ? cancel_reason::poisoned : cancel_reason::dropped);
        expect_cancelled_.pop_front();
    }
    bool turn() {
        const bool any = pool_.run_one();
        EXPECT_THAT(expect_cancelled_, IsEmpty());
        EXPECT_NE(failed_, -1) << "a failure nobody was told of";
        return any;
    }
    void reset(int key) {
        bool& poisoned = model_[static_cast<std::size_t>(key)].poisoned;
        EXPECT_EQ(keys_->reset(key), std::exchange(poisoned, false));
    }

    seeded_random& random_;
    thread_pool pool_;
    keyed_options<int> options_;
    std::uint64_t pool_max_ = 0;
    std::optional<keyed_executor<int>> keys_;
    std::array<model_key, key_count> model_;
    std::deque<int> expect_cancelled_;
    int next_ = 0, failed_ = 0;
    bool stopped_ = false, ends_ = false;
    std::uint64_t posted_ = 0, executed_ = 0, cancelled_ = 0;
};

TEST(ExecutorModel, EveryScheduleKeepsEveryPromise) {
    seeded_random random;
    for (std::uint64_t schedule = 0; schedule < scaled(5000) && !testing::Test::HasFailure(); ++schedule) {
        world tried(random(), random);
        for (std::uint64_t steps = random.below(80); steps > 0; --steps) tried.step();
        tried.finish(random.below(3) == 0);
    }
}

TEST(ExecutorModel, ASeedRepeatsItsScheduleAndAnotherDoesNot) {
    const auto schedule_of = [](std::uint64_t seed) {
        pool_options options = without_workers();
        options.seed = seed;
        thread_pool pool(options);
        keyed_executor<int> keys(pool);
        std::vector<int> ran;
        for (int i = 0; i < 200; ++i) keys.post(i % 10, [&ran, i] { ran.push_back(i); });
        pool.run();
        return ran;
    };
    EXPECT_EQ(schedule_of(1), schedule_of(1));
    std::set<std::vector<int>> all;
    for (std::uint64_t seed = 0; seed < 50; ++seed) all.insert(schedule_of(seed));
    EXPECT_EQ(all.size(), 50U);
}

}  // namespace
