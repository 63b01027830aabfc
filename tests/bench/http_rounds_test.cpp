// SPDX-License-Identifier: Apache-2.0
// What a turn of the http suite makes of its requests, and what it says of its targets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "http/http_targets.hpp"
#include "http/own_rate.hpp"
#include "http/rounds.hpp"
#include "http/two_workers.hpp"
#include "support/trial_recorder.hpp"

namespace {

using namespace holdfast::bench::http;
using testing::ElementsAre;
using testing::IsEmpty;

/// What is said of these server times, each the same in every round.
std::vector<std::string> said(void (*note)(const std::string&, const server_times&, holdfast::workload::recorder&),
                              const std::vector<std::pair<std::string, double>>& all) {
    server_times found;
    for (const auto& [name, us] : all) {
        found.names.push_back(name);
        found.us.emplace_back(7, us);
    }
    holdfast::test::trial_recorder to({});
    note("JSON reply, 64 clients", found, to);
    return to.notes;
}

TEST(HttpPercentile, IsThatOfTheHistogram) {
    holdfast::histogram_counts values, one;
    for (std::uint64_t i = 10'000; i > 0; --i) values.record(i);
    for (const double level : {0.5, 0.99, 0.999})
        EXPECT_NEAR(percentile_of(values, level), 10'000 * level, 10'000 * level / 64);
    one.record(7);
    EXPECT_EQ(percentile_of(one, 0.999), 7);
    EXPECT_THROW((void)percentile_of({}, 0.5), server_failed);
}

TEST(HttpPercentile, IsMarkedOnceTheTimeHeldUpCouldBeAllThatIsAboveIt) {
    EXPECT_DOUBLE_EQ(held_up_limit(0.5), 0.02);
    EXPECT_DOUBLE_EQ(held_up_limit(0.99), 1 - 0.99);
    EXPECT_DOUBLE_EQ(held_up_limit(0.999), 1 - 0.999);
}

TEST(OwnRate, AsksEachSubjectAtSharesOfItsOwnMedian) {
    const contestant fast{.name = "fast", .server = {}}, slow{.name = "slow", .server = {}};
    const throughput_samples found{
        .requests_per_second = {{900, 1000, 1100}, {90, 100, 110}}, .cpu_us = {}, .busy = {}};
    holdfast::test::trial_recorder to({});
    std::vector<std::vector<double>> asked;
    measure_at_own_rate(to, {.name = "fan-out", .requests = "deliveries"}, {&fast, &slow}, {}, found,
                        [&](const std::vector<double>& rates_hz) {
                            asked.push_back(rates_hz);
                            const samples one{{1}, {2}}, other{{3}, {4}}, last{{5}, {6}};
                            return latency_samples{.p50_us = one,
                                                   .p99_us = other,
                                                   .p999_us = last,
                                                   .held_up = {0, 0},
                                                   .late = {0, 7},
                                                   .batches = {100, 100},
                                                   .requests_least = 10'000};
                        });
    EXPECT_THAT(asked, ElementsAre(ElementsAre(500, 50), ElementsAre(900, 90)));
    EXPECT_EQ(to.ran.size(), 6U);
    EXPECT_EQ(to.added["fan-out: p50 at 50 % load fast"], 1);
    EXPECT_EQ(to.added["fan-out: p99 at 50 % load slow"], 4);
    EXPECT_EQ(to.added["fan-out: p99.9 at 90 % load slow"], 6);
    EXPECT_THAT(to.notes,
                ElementsAre("fan-out, at 50 % load: deliveries/s by a schedule, of its own median rate each: fast 500; "
                            "slow 50",
                            "fan-out, at 50 % load: the client itself was late with deliveries to slow (7 %); those "
                            "latencies are too long by that",
                            testing::StartsWith("fan-out, at 90 % load: deliveries/s by a schedule"),
                            testing::StartsWith("fan-out, at 90 % load: the client itself was late")));
}

TEST(HttpTargets, AreMetJustAtTheirBound) {
    EXPECT_THAT(said(note_reply_targets, {{net_epoll_name, 4.24},
                                          {net_io_uring_name, 4.0},
                                          {serve_epoll_name, 4.876},
                                          {serve_io_uring_name, 4.6},
                                          {floor_name, 4.6},
                                          {"nginx", 7.0},
                                          {"hyper", 5.3}}),
                ElementsAre("target: JSON reply, 64 clients, holdfast::net, io_uring at least 1.15 times as fast as "
                            "bare epoll loop: 1.15 times, 4000 ns (met)",
                            "target: JSON reply, 64 clients, holdfast::net, epoll in at most 1.06 times the time of "
                            "bare epoll loop: 0.92 times, 4240 ns (met)",
                            "target: JSON reply, 64 clients, holdfast::net, epoll, beside the best peer, at least "
                            "1.25 times as fast as hyper: 1.25 times, 4240 ns (met)",
                            "target: JSON reply, 64 clients, holdfast::net, io_uring, beside the best peer, at least "
                            "1.25 times as fast as hyper: 1.32 times, 4000 ns (met)",
                            "target: JSON reply, 64 clients, holdfast serve, epoll in at most 1.15 times the time of "
                            "holdfast::net, epoll: 1.15 times, 4876 ns (met)",
                            "target: JSON reply, 64 clients, holdfast serve, io_uring in at most 1.15 times the time "
                            "of holdfast::net, io_uring: 1.15 times, 4600 ns (met)"));
    EXPECT_THAT(said(note_pipeline_targets, {{net_epoll_name, 0.35}}),
                ElementsAre("target: JSON reply, 64 clients, holdfast::net, epoll in at most 0.35 us: 0.35 us (met)"));
}

TEST(HttpTargets, AreMissedBehindIt) {
    EXPECT_THAT(
        said(note_reply_targets, {{net_epoll_name, 4.29}, {floor_name, 4.0}, {serve_epoll_name, 4.98}, {"h2o", 5.3}}),
        ElementsAre("target: JSON reply, 64 clients, holdfast::net, epoll in at most 1.06 times the time of "
                    "bare epoll loop: 1.07 times, 4290 ns (missed)",
                    "target: JSON reply, 64 clients, holdfast::net, epoll, beside the best peer, at least "
                    "1.25 times as fast as h2o: 1.24 times, 4290 ns (missed)",
                    "target: JSON reply, 64 clients, holdfast serve, epoll in at most 1.15 times the time of "
                    "holdfast::net, epoll: 1.16 times, 4980 ns (missed)"));
    EXPECT_THAT(
        said(note_pipeline_targets, {{net_epoll_name, 0.4}, {net_io_uring_name, 0.3}, {floor_name, 0.1}}),
        ElementsAre("target: JSON reply, 64 clients, holdfast::net, epoll in at most 0.35 us: 0.40 us (missed)",
                    "target: JSON reply, 64 clients, holdfast::net, io_uring in at most 0.35 us: 0.30 us (met)"));
}

TEST(HttpTargets, HoldTwoWorkersAgainstOne) {
    server_times found;
    for (const auto& [workers, us] : {std::pair{2U, 4.4}, std::pair{1U, 4.0}}) {
        found.names.push_back(with_workers(net_epoll_name, workers));
        found.us.emplace_back(7, us);
    }
    holdfast::test::trial_recorder to({});
    note_worker_targets("two workers", {net_epoll_name, serve_epoll_name}, found, to);
    found.us[0].assign(7, 4.6);
    note_worker_targets("two workers", {net_epoll_name}, found, to);
    EXPECT_THAT(to.notes, ElementsAre("target: two workers, holdfast::net, epoll, two workers in at most 1.1 times the "
                                      "time of holdfast::net, epoll, one worker: 1.10 times, 4400 ns (met)",
                                      "target: two workers, holdfast::net, epoll, two workers in at most 1.1 times the "
                                      "time of holdfast::net, epoll, one worker: 1.15 times, 4600 ns (missed)"));
}

TEST(HttpTargets, HoldTheClientAgainstTheServerThatItAsks) {
    EXPECT_THAT(said(note_client_targets, {{client_of(net_epoll_name), 3.9},
                                           {net_epoll_name, 4.0},
                                           {client_of(net_io_uring_name), 4.4},
                                           {net_io_uring_name, 4.0}}),
                ElementsAre("target: JSON reply, 64 clients, load client of holdfast::net, epoll in at most 1.0 times "
                            "the time of holdfast::net, epoll: 0.97 times, 3900 ns (met)",
                            "target: JSON reply, 64 clients, load client of holdfast::net, io_uring in at most 1.0 "
                            "times the time of holdfast::net, io_uring: 1.10 times, 4400 ns (missed)"));
}

TEST(TwoWorkers, HaveCoresOfTheirOwnWhereThereAreFour) {
    const two_worker_cores four = cores_for_two({0, 1, 2, 3, 7}, {}, {});
    EXPECT_THAT(four.servers, ElementsAre(0, 1));
    EXPECT_THAT(four.clients, ElementsAre(3, 7));
    EXPECT_FALSE(four.shared());
    EXPECT_TRUE(cores_for_two({4, 5, 6}, {}, {}).shared());
    EXPECT_THAT(cores_for_two({4, 5, 6}, {5, 6}, {4, 5}).clients, ElementsAre(4, 5));
    EXPECT_THAT(cores_for_two({4, 5, 6}, {5, 6}, {4}).clients, ElementsAre(5, 6));  // one is not enough
    EXPECT_THAT(cores_for_two({4}, {}, {}).servers, IsEmpty());
}

TEST(HttpTargets, SayNothingOfSubjectsThatWereNotTimed) {
    EXPECT_THAT(said(note_reply_targets, {{net_epoll_name, 4.0}}), IsEmpty());
    EXPECT_THAT(said(note_reply_targets, {{floor_name, 4.0}, {"nginx", 5.0}}), IsEmpty());
    EXPECT_THAT(said(note_pipeline_targets, {{floor_name, 4.0}}), IsEmpty());
}

}  // namespace
