// SPDX-License-Identifier: Apache-2.0
// Workers, posters and ends at once: order and one at a time for each key, nothing lost, no wake lost, whoever waits
// for room or for the end is woken. What tasks of one key share is plain memory: thread sanitizer watches it.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "holdfast/executor/keyed_executor.hpp"
#include "holdfast/executor/strand.hpp"
#include "holdfast/executor/thread_pool.hpp"
#include "support/scale.hpp"

namespace {

using namespace std::chrono_literals;
using namespace holdfast::executor;
using holdfast::test::scaled;

constexpr std::size_t key_count = 5;
constexpr std::uint64_t producer_count = 3;

pool_options workers(unsigned count) {
    pool_options options;
    options.workers = count;
    return options;
}

/// What the tasks of one key share, without any synchronisation of its own.
struct key_state {
    std::array<std::uint64_t, producer_count> next{};
    std::uint64_t ran = 0;
    bool inside = false;

    void run(std::uint64_t producer, std::uint64_t number) {
        EXPECT_FALSE(inside) << "two tasks of a key at a time";
        inside = true;
        EXPECT_EQ(next[producer]++, number) << "out of order, or lost";
        ++ran;
        inside = false;
    }
};

/// post(key, producer, number), from producer_count threads at once.
template <class Post>
void produce(std::uint64_t each, const Post& post) {
    std::vector<std::thread> producers;
    for (std::uint64_t producer = 0; producer < producer_count; ++producer)
        producers.emplace_back([&, producer] {
            for (std::uint64_t i = 0; i < each; ++i) post(i % key_count, producer, i / key_count);
        });
    for (std::thread& t : producers) t.join();
}

class ExecutorConcurrency : public ::testing::TestWithParam<unsigned> {};

TEST_P(ExecutorConcurrency, StrandsKeepTheOrderOfEachProducer) {
    const std::uint64_t each = scaled(100'000);
    thread_pool pool(workers(GetParam()));
    std::vector<strand> strands;
    for (std::size_t i = 0; i < key_count; ++i) strands.emplace_back(pool);
    std::array<key_state, key_count> states;
    produce(each, [&](std::size_t key, std::uint64_t producer, std::uint64_t number) {
        strands[key].post([at = &states[key], producer, number] { at->run(producer, number); });
    });
    pool.drain();
    std::uint64_t ran = 0;
    for (const key_state& at : states) ran += at.ran;
    EXPECT_EQ(ran, producer_count * each);
    EXPECT_EQ(pool.stats().executed, ran);
}

TEST_P(ExecutorConcurrency, KeysWithLimitsKeepItAndLoseNothing) {
    const std::uint64_t each = scaled(30'000);
    pool_options options = workers(GetParam());
    options.waiting_max = 20;
    thread_pool pool(options);
    keyed_executor<std::size_t> keys(pool, {.waiting_max = 3});
    std::array<key_state, key_count> states;
    produce(each, [&](std::size_t key, std::uint64_t producer, std::uint64_t number) {
        const auto task = [at = &states[key], producer, number] { at->run(producer, number); };
        if (number % 2 == 0 || keys.try_post(key, task) != post_status::posted) {
            EXPECT_EQ(keys.wait_post(key, task, 60s), post_status::posted) << "nobody told of the room";
        }
    });
    pool.drain();
    EXPECT_EQ(pool.stats().executed, producer_count * each);
    EXPECT_EQ(keys.keys(), 0U);
}

// Calls never overlap nor repeat each other, and the last one tells the truth: who stops while there is pressure, as
// all here do, is not left so.
TEST_P(ExecutorConcurrency, PressureIsToldInTurn) {
    const std::uint64_t each = scaled(50'000);
    std::atomic<int> inside{0};
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> left_stopped{0};
    std::uint64_t came = 0, went = 0;  // of whoever tells alone
    pool_options options = workers(GetParam());
    options.high_water = 3;
    options.low_water = 1;
    options.on_pressure = [&](bool pressed) {
        EXPECT_EQ(inside.fetch_add(1), 0) << "two at a time";
        EXPECT_EQ(came - went, pressed ? 0U : 1U) << "told twice";
        ++(pressed ? came : went);
        stop = pressed;
        inside.fetch_sub(1);
    };
    {
        thread_pool pool(options);
        keyed_executor<std::size_t> keys(pool);
        produce(each, [&](std::size_t key, std::uint64_t, std::uint64_t) {
            const auto until = std::chrono::steady_clock::now() + 20s;
            while (stop && left_stopped == 0) {
                std::this_thread::yield();
                if (std::chrono::steady_clock::now() > until) ++left_stopped;
            }
            keys.post(key, [] {});
        });
        pool.drain();
        EXPECT_EQ(pool.stats().executed, producer_count * each);
    }
    EXPECT_EQ(left_stopped, 0U) << "it was not told that few wait";
    EXPECT_EQ(came, went) << "it was not told that nothing waits";
    EXPECT_GT(came, each / 100);
    std::printf("pressure came and went %llu times\n", static_cast<unsigned long long>(came));
}

TEST_P(ExecutorConcurrency, DroppedOnesAreToldAndNothingElseIsMissing) {
    const std::uint64_t each = scaled(50'000);
    thread_pool pool(workers(GetParam()));
    keyed_executor<std::size_t> keys(pool, {.waiting_max = 4, .when_full = overflow::drop_oldest});
    std::atomic<std::uint64_t> ran{0}, dropped{0}, posted{0};
    produce(each, [&](std::size_t key, std::uint64_t, std::uint64_t) {
        if (keys.try_post(key, [&] { ++ran; }, [&](cancel_reason) { ++dropped; }) == post_status::posted) ++posted;
    });
    pool.drain();
    EXPECT_EQ(posted, producer_count * each);
    EXPECT_EQ(ran + dropped, posted);
    EXPECT_EQ(pool.stats().cancelled, dropped);
}

TEST_P(ExecutorConcurrency, FailuresPoisonAndResetBesidePosts) {
    const std::uint64_t each = scaled(20'000);
    thread_pool pool(workers(GetParam()));
    keyed_executor<std::size_t> keys(pool, {.poison_on_error = true});
    std::atomic<std::uint64_t> ran{0}, cancelled{0}, posted{0};
    produce(each, [&](std::size_t key, std::uint64_t, std::uint64_t number) {
        const auto task = [&ran, number] {
            ++ran;
            if (number % 7 == 0) throw std::runtime_error("now and then");
        };
        if (keys.post(key, task, [&](cancel_reason) { ++cancelled; }) == post_status::posted)
            ++posted;
        else
            keys.reset(key);
    });
    pool.drain();
    EXPECT_EQ(ran + cancelled, posted);
    for (std::size_t key = 0; key < key_count; ++key) keys.reset(key);
    EXPECT_EQ(keys.keys(), 0U);
}

TEST_P(ExecutorConcurrency, StopBesidePostersRunsOrCancelsEachTaskOnce) {
    for (std::uint64_t round = scaled(60); round > 0; --round) {
        std::atomic<std::uint64_t> ran{0}, cancelled{0}, posted{0};
        std::atomic<std::uint64_t> closed{0};
        {
            thread_pool pool(workers(GetParam()));
            keyed_executor<std::size_t> keys(pool, {.waiting_max = 50});
            std::thread stopping([&] {
                while (ran < 300) std::this_thread::yield();
                round % 2 == 0 ? pool.stop_now() : pool.close();
            });
            produce(100'000, [&](std::size_t key, std::uint64_t, std::uint64_t) {
                if (closed != 0) return;
                switch (keys.wait_post(key, [&] { ++ran; }, 60s, [&](cancel_reason) { ++cancelled; })) {
                    case post_status::posted: ++posted; break;
                    case post_status::closed: ++closed; break;
                    default: ADD_FAILURE() << "neither posted nor closed";
                }
            });
            stopping.join();
            pool.drain();
            EXPECT_EQ(ran + cancelled, posted);
            EXPECT_GT(closed, 0U);
        }
        EXPECT_EQ(ran + cancelled, posted);
    }
}

TEST_P(ExecutorConcurrency, HandlesAndPoolsGoWhileTasksRun) {
    for (std::uint64_t round = scaled(2000); round > 0; --round) {
        std::atomic<std::uint64_t> ran{0};
        {
            thread_pool pool(workers(GetParam()));
            const auto order = std::make_unique<strand>(pool);
            const auto keys = std::make_unique<keyed_executor<std::uint64_t>>(pool);
            for (std::uint64_t i = 0; i < 20; ++i) {
                order->post([&] { ++ran; });
                keys->post(i, [&] { ++ran; });
                pool.post([&] { ++ran; });
            }
        }
        ASSERT_EQ(ran, 60U);
    }
}

// Workers sleep before nearly every post: one wake lost, and this does not end.
TEST_P(ExecutorConcurrency, NoWakeIsLost) {
    thread_pool pool(workers(GetParam()));
    strand order(pool);
    std::atomic<int> done{0};
    for (int i = 1; i <= static_cast<int>(scaled(10'000)); ++i) {
        order.post([&] {
            ++done;
            done.notify_one();
        });
        if (i % 50 == 0) std::this_thread::sleep_for(100us);  // long enough to fall asleep
        for (int seen = done; seen != i; seen = done) done.wait(seen);
    }
}

TEST_P(ExecutorConcurrency, TasksPostToEachOtherAcrossKeysWithoutDeadlock) {
    const std::uint64_t rounds = scaled(100'000);
    thread_pool pool(workers(GetParam()));
    keyed_executor<std::uint64_t> keys(pool, {.waiting_max = 1});
    std::atomic<std::uint64_t> ran{0}, refused{0};
    struct hop {
        keyed_executor<std::uint64_t>* keys;
        std::atomic<std::uint64_t>*ran, *refused;
        std::uint64_t left;
        void operator()() const {
            ++*ran;
            if (left == 0) return;
            // Full: it does not wait, all workers might; the work goes on where nobody can refuse it.
            const hop next{keys, ran, refused, left - 1};
            if (keys->wait_post(left % 3, next, 60s) == post_status::posted) return;
            ++*refused;
            EXPECT_EQ(keys->post(left % 3, next), post_status::posted);
        }
    };
    for (std::uint64_t chain = 0; chain < 4; ++chain) keys.post(chain, hop{&keys, &ran, &refused, rounds / 4});
    pool.drain();
    EXPECT_EQ(ran, 4 * (rounds / 4 + 1));
}

INSTANTIATE_TEST_SUITE_P(Workers, ExecutorConcurrency, ::testing::Values(1U, 3U), testing::PrintToStringParamName());

TEST(ExecutorThreads, RunKeysInParallel) {
    thread_pool pool(workers(3));
    keyed_executor<int> keys(pool);
    for (int round = 0; round < 20; ++round) {
        std::this_thread::sleep_for(500us);  // all workers sleep, or nearly: each has to be woken for its key
        std::atomic<int> inside{0};
        for (int key = 0; key < 3; ++key)
            keys.post(key, [&] {  // each ends only when the others have begun
                ++inside;
                while (inside < 3) std::this_thread::yield();
            });
        pool.drain();
    }
}

TEST(ExecutorThreads, AColdKeyOvertakesFiftyThousandTasksOfAHotOne) {
    pool_options options = workers(1);
    options.turn_time_max = 0ns;
    thread_pool pool(options);
    strand hot(pool), cold(pool);
    std::uint64_t done = 0;  // the one worker's
    std::uint64_t posted_at = 0, ran_at = 0;
    std::atomic<bool> begin{false};
    for (std::uint64_t i = 0; i < 50'000; ++i)
        hot.post([&, i] {
            while (!begin) std::this_thread::yield();  // until all are there
            ++done;
            if (i != 1000) return;
            posted_at = done;
            cold.post([&] { ran_at = done; });
        });
    begin = true;
    pool.drain();
    EXPECT_EQ(done, 50'000U);
    EXPECT_LE(ran_at - posted_at, 64U);
}

TEST(ExecutorThreads, DrainHasItsTime) {
    thread_pool pool(workers(1));
    std::atomic<bool> go{false};
    pool.post([&] {
        while (!go) std::this_thread::yield();
    });
    EXPECT_FALSE(pool.drain_for(1ms));
    EXPECT_FALSE(pool.runs_here());
    std::vector<std::thread> waiting;
    for (int i = 0; i < 3; ++i) waiting.emplace_back([&] { EXPECT_TRUE(pool.drain_for(60s)); });
    go = true;
    for (std::thread& t : waiting) t.join();
    pool.drain();
}

TEST(ExecutorThreads, WaitingForRoomEndsWithTheTimeAndWithThePool) {
    pool_options options = workers(1);
    options.waiting_max = 1;
    thread_pool pool(options);
    strand order(pool);
    std::atomic<bool> go{false}, began{false};
    order.post([&] {
        began = true;
        while (!go) std::this_thread::yield();
    });
    while (!began) std::this_thread::yield();
    EXPECT_EQ(order.wait_post([] {}, 1ms), post_status::posted);
    EXPECT_EQ(order.wait_post([] {}, 1ms), post_status::timed_out);
    EXPECT_EQ(pool.wait_post([] {}, 0ms), post_status::timed_out);
    std::thread waiting([&] { EXPECT_EQ(order.wait_post([] {}, 60s), post_status::closed); });
    std::this_thread::sleep_for(1ms);  // it waits by now, or looks later: closed either way
    pool.close();
    waiting.join();
    go = true;
    pool.drain();
}

// What is longest must not be taken for what has passed.
TEST(ExecutorThreads, AWaitForEverLastsUntilItsEnd) {
    constexpr auto for_ever = std::chrono::nanoseconds::max();
    thread_pool pool(workers(1));
    strand_options one_waits;
    one_waits.waiting_max = 1;
    strand order(pool, one_waits);
    std::atomic<bool> go{false}, began{false};
    order.post([&] {
        began = true;
        while (!go) std::this_thread::yield();
    });
    while (!began) std::this_thread::yield();
    EXPECT_EQ(order.wait_post([] {}, for_ever), post_status::posted);
    std::thread waiting([&] { EXPECT_EQ(order.wait_post([] {}, for_ever), post_status::posted); });
    std::thread draining([&] { EXPECT_TRUE(pool.drain_for(for_ever)); });
    std::this_thread::sleep_for(50ms);  // they wait by now, or look later: both end well either way
    go = true;
    waiting.join();
    draining.join();
    EXPECT_TRUE(pool.drain_for(for_ever));  // the drain above may have ended before the last task was posted
    EXPECT_EQ(order.wait_post([] {}, std::chrono::nanoseconds::min()), post_status::posted);
    EXPECT_TRUE(pool.drain_for(for_ever));
}

TEST(ExecutorThreads, RunOneIsOfPoolsWithoutWorkers) {
    thread_pool pool(workers(1));
    EXPECT_THROW(pool.run_one(), holdfast::error);
    EXPECT_EQ(pool.workers(), 1U);
}

}  // namespace
