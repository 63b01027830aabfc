// SPDX-License-Identifier: Apache-2.0
// The queue and broadcast suites without a clock: do their loops find wrong subjects, does every experiment run, and
// does a far side that fails end the run with its own words?
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>

#include "holdfast/perf_test/environment.hpp"
#include "support/trial_recorder.hpp"
#include "support/unique_name.hpp"
#include "workload/broadcast_own.hpp"
#include "workload/broadcast_suite.hpp"
#include "workload/queue_suite.hpp"
#include "workload/two_sided.hpp"

namespace {

using namespace holdfast::workload;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

/// Two processors, and a registry of its own that is empty at the end.
class Channels : public testing::Test {
 protected:
    void SetUp() override {
        if (!cores_.there) GTEST_SKIP() << "it takes two processors";
        pin_.emplace(cores_.near);  // two sides that look for each other on one core wait for its scheduler
    }
    void TearDown() override { EXPECT_THAT(registry_.entries(), IsEmpty()); }
    [[nodiscard]] channel_request request(std::size_t batch = 1) {
        return {.ring_bytes = 16'384,
                .name = "holdfast-test-channel-" + std::to_string(::getpid()) + "-" + std::to_string(++made_),
                .batch = batch,
                .far_cpu = cores_.far};
    }
    const two_cores cores_ = pick_two_cores();
    std::optional<holdfast::perf_test::cpu_pin> pin_;
    const holdfast::test::unique_directory registry_;
    const holdfast::test::scoped_environment place_{"HOLDFAST_REGISTRY", registry_.path()};
    int made_ = 0;
};

TEST_F(Channels, OwnQueuesDeliverEverythingBothWays) {
    constexpr struct {
        std::size_t bytes, batch;
    } forms[] = {{8, 1}, {64, 4}, {1024, 2}};
    for (const channel_kind& kind : own_queue_kinds())
        for (const auto& form : forms) {
            const auto channel = kind.make(form.bytes, request(form.batch));
            EXPECT_NO_THROW(channel->open_and_verify(true)) << kind.name << form.bytes;
            EXPECT_NO_THROW(channel->stream(200)) << kind.name << form.bytes;
            EXPECT_NO_THROW(channel->add_up(201)) << kind.name << form.bytes;
            EXPECT_NO_THROW(channel->echo(20)) << kind.name << form.bytes;
        }
}

TEST_F(Channels, OwnRingsDeliverEverythingAndCountLosses) {
    for (const channel_kind& kind : own_broadcast_kinds()) {
        const auto channel = kind.make(64, request());
        EXPECT_NO_THROW(channel->open_and_verify(true)) << kind.name;
        EXPECT_NO_THROW(channel->stream(2000)) << kind.name;
        EXPECT_NO_THROW(channel->add_up(2001)) << kind.name;
        EXPECT_NO_THROW(channel->echo(50)) << kind.name;
        if (!kind.lossy) continue;
        for (int i = 0; i < 5; ++i) EXPECT_NO_THROW(channel->publish(20'000)) << kind.name;
        EXPECT_EQ(channel->published(), 100'000U);
        EXPECT_LE(channel->lost(), channel->published());
    }
}

enum class flaw { none, lost, doubled, altered, first_word, refuses, dies };

/// A pipe whose receiver does something wrong, once it has taken the messages of the comparison or at once.
template <flaw Flaw, bool AtOnce>
struct flawed {
    template <std::size_t Bytes>
    struct channel : kernel_stream<Bytes, false> {
        using base = kernel_stream<Bytes, false>;
        using base::base;
        std::size_t receive(std::span<std::byte> out) {
            std::size_t got = base::receive(out);
            seen += got;
            if (got == 0 || (!AtOnce && seen < 10'000)) return got;
            if (Flaw == flaw::lost && !done) {
                done = true;
                while ((got = base::receive(out)) == 0) {
                }
            }
            if (Flaw == flaw::doubled && !done) {
                done = true;
                std::memcpy(kept, out.data(), Bytes);
            } else if (Flaw == flaw::doubled) {
                std::memcpy(out.data(), kept, Bytes);
            }
            if (Flaw == flaw::altered) out[Bytes - 1] ^= std::byte{1};
            if (Flaw == flaw::first_word) out[0] ^= std::byte{1};
            if (Flaw == flaw::refuses) throw std::runtime_error("this one refuses");
            if (Flaw == flaw::dies) ::raise(SIGKILL);
            return got;
        }
        std::uint64_t seen = 0;
        bool done = false;
        std::byte kept[Bytes] = {};
    };
};

template <flaw Flaw, bool AtOnce, bool AddUp = false>
void run_flawed(const channel_request& request) {
    channel_loops<typename flawed<Flaw, AtOnce>::template channel<64>> channel(request);
    channel.open_and_verify(false);
    AddUp ? channel.add_up(30'000) : channel.stream(30'000);
}

/// A ring under a lock whose reader in place does not look at all words.
template <std::size_t Bytes>
struct skimming : locked_ring<Bytes> {
    using locked_ring<Bytes>::locked_ring;
    std::size_t add_up(std::size_t most, words_seen& seen) {
        const std::size_t came = locked_ring<Bytes>::add_up(most, seen);
        seen.sum -= seen.last;
        return came;
    }
};

TEST_F(Channels, LoopsSeeEveryFlaw) {
    EXPECT_NO_THROW((run_flawed<flaw::none, true>(request())));
    EXPECT_THROW((run_flawed<flaw::lost, true>(request())), std::runtime_error);
    EXPECT_THROW((run_flawed<flaw::doubled, true>(request())), std::runtime_error);
    EXPECT_THROW((run_flawed<flaw::altered, true>(request())), std::runtime_error);
    // Under the clock too, where only the first word is looked at.
    EXPECT_THROW((run_flawed<flaw::lost, false>(request())), std::runtime_error);
    EXPECT_THROW((run_flawed<flaw::doubled, false>(request())), std::runtime_error);
    EXPECT_THROW((run_flawed<flaw::first_word, false>(request())), std::runtime_error);
    // Or all of them, where they are added up.
    EXPECT_NO_THROW((run_flawed<flaw::none, true, true>(request())));
    EXPECT_THROW((run_flawed<flaw::altered, false, true>(request())), std::runtime_error);
    EXPECT_THROW(channel_loops<skimming<64>>(request()).open_and_verify(false), std::runtime_error);
}

TEST_F(Channels, WhatHappensToTheFarSideIsTold) {
    const auto told = [this](void (*run)(const channel_request&)) {
        try {
            run(request());
        } catch (const std::runtime_error& failure) {
            return std::string(failure.what());
        }
        return std::string("nothing");
    };
    EXPECT_THAT(told(run_flawed<flaw::refuses, false>), HasSubstr("this one refuses"));
    EXPECT_THAT(told(run_flawed<flaw::dies, false>), HasSubstr("has died"));
}

TEST_F(Channels, TheNumberOfAFarProcessThatDiedIsNobodyElsesBeforeTheEnd) {
    std::optional<far_side> far(std::in_place, far_place::process, cores_.far,
                                [](far_side& side, const far_order& order) {
                                    side.progress().store(static_cast<std::uint64_t>(::getpid()));
                                    if (order.count != 0) ::raise(SIGKILL);
                                });
    far->carry_out({far_side::own_orders, 0});
    const auto pid = static_cast<pid_t>(far->progress().load());
    EXPECT_THROW(far->carry_out({far_side::own_orders, 1}), std::runtime_error);
    // A number that was given back by now could be that of a process which the end of this one kills.
    EXPECT_EQ(::kill(pid, 0), 0);
    far.reset();
    EXPECT_EQ(::kill(pid, 0), -1);
}

/// A ring under a lock whose reader miscounts.
template <std::size_t Bytes>
struct miscounting : locked_ring<Bytes> {
    using locked_ring<Bytes>::locked_ring;
    [[nodiscard]] std::uint64_t lost() const { return locked_ring<Bytes>::lost() * 2; }
};

TEST_F(Channels, AWrongCountOfLossesIsSeen) {
    channel_loops<miscounting<64>> channel(request());
    channel.open_and_verify(false);
    // A thousand rings full: at one of these times the reader is overrun.
    EXPECT_THROW(for (int i = 0; i < 1000; ++i) channel.publish(2560), std::runtime_error);
}

TEST_F(Channels, ALineGoesThereAndBack) {
    for (const far_place place : {far_place::process, far_place::thread}) {
        far_side far(place, cores_.far, [](far_side&, const far_order&) {});
        EXPECT_GT(far.line_round_trip(100), 1);
        far.rest();
        EXPECT_GT(far.line_round_trip(100), 1);
        EXPECT_NO_THROW(far.carry_out({far_side::own_orders, 0}));
    }
}

TEST_F(Channels, ThePlaceOfASubjectInARoundDoesNotMatter) {
    far_side far(far_place::thread, cores_.far, [](far_side&, const far_order&) {});
    std::vector<two_sided_subject> subjects;
    for (const double ns : {10.0, 20.0, 40.0})
        subjects.push_back(
            {"takes " + std::to_string(ns), &far, [ns](std::uint64_t n) { return ns * static_cast<double>(n); }});
    two_sided_options options;
    options.seconds = 0.001;
    options.batch_seconds = 1e-4;
    options.rounds_min = options.rounds_max = 4;
    options.probe_trips = 10;
    const two_sided_result found = measure_two_sided(subjects, options);
    ASSERT_THAT(found.samples, SizeIs(3));
    EXPECT_EQ(found.samples[0].size(), 4U);
    EXPECT_EQ(found.line_ns.size(), found.samples[0].size());
    EXPECT_DOUBLE_EQ(median_of(found.samples[1]), 20);
    EXPECT_DOUBLE_EQ(times_faster(found.samples[0], found.samples[2]), 4);
    EXPECT_THAT(line_text(found), HasSubstr("one cache line there and back"));
}

// A lock that falls into step with the other side behind its first samples: no experiment takes an hour of it.
TEST_F(Channels, ASampleThatTakesFarLongerThanMeantIsFollowedByShorterOnes) {
    far_side far(far_place::thread, cores_.far, [](far_side&, const far_order&) {});
    constexpr double wanted_ns = 4e6;
    std::vector<std::uint64_t> asked;
    bool slow = false;
    const std::vector<two_sided_subject> subjects{{"slow by and by", &far, [&](std::uint64_t n) {
                                                       asked.push_back(n);
                                                       slow |= n > 300'000;  // no calibration's: the first sample
                                                       return (slow ? 40'000.0 : 10.0) * static_cast<double>(n);
                                                   }}};
    two_sided_options options;
    options.seconds = 0.001;
    options.batch_seconds = wanted_ns / 1e9;
    options.rounds_min = options.rounds_max = 50;
    options.probe_trips = 10;
    options.retakes = 100;
    const two_sided_result found = measure_two_sided(subjects, options);
    EXPECT_DOUBLE_EQ(found.samples[0].back(), 40'000);
    const auto longest = std::max_element(asked.begin(), asked.end());
    EXPECT_EQ(*longest, 400'000 / options.operations_min * options.operations_min);
    EXPECT_LE(40'000.0 * static_cast<double>(asked.back()), 1e9 * sample_seconds_max(options));
    EXPECT_EQ(std::count(asked.begin(), asked.end(), *longest), 1) << "disturbed or not";
}

TEST_F(Channels, SuitesRunTheirExperiments) {
    pin_.reset();                                             // a suite looks for its two processors itself
    const auto fewer = [](std::vector<channel_kind> kinds) {  // each takes a process, and the time of its rounds
        std::erase_if(kinds, [](const channel_kind& kind) {
            return kind.name.starts_with("std::") || kind.name.ends_with("wakes sleepers");
        });
        return kinds;
    };
    const struct {
        suite of;
        const char* filter;
        std::size_t experiments;
    } runs[] = {{queue_suite(fewer(own_queue_kinds())), "one by one", 2},
                {queue_suite(fewer(own_queue_kinds())), "8 bytes in batches of 64, ring of 256", 1},
                {queue_suite(fewer(own_queue_kinds())), "1 KiB", 2},
                {queue_suite(fewer(own_queue_kinds())), "there and back", 1},
                {broadcast_suite(fewer(own_broadcast_kinds())), "8 bytes", 1},
                {broadcast_suite(fewer(own_broadcast_kinds())), "64 bytes in batches", 1}};
    for (const auto& [s, filter, experiments] : runs) {
        holdfast::test::trial_recorder all({.quick = true, .seconds = 0.001, .filter = filter, .only = {"pipe"}});
        s.run(all);
        EXPECT_EQ(all.ran.size(), experiments) << s.name << filter;
        for (const auto& [name, subjects] : all.ran) {
            EXPECT_THAT(subjects.front(), StartsWith("holdfast")) << name;
            if (!name.starts_with("publish")) {
                EXPECT_THAT(subjects, Contains("pipe")) << name;
            }
            EXPECT_THAT(subjects, testing::Not(Contains("unix socket"))) << name;
        }
        for (const std::string& note : all.notes)
            if (note.starts_with("target: ")) {
                EXPECT_THAT(note, AnyOf(HasSubstr("(met)"), HasSubstr("(missed)"), EndsWith("compare with")));
            }
    }
}

// What is asked of a queue of elements beside others of its kind: at each size in batches, the one that peers have too.
TEST_F(Channels, TheQueueOfElementsHasATargetAtEachSizeInBatches) {
    pin_.reset();
    std::vector<channel_kind> kinds = own_queue_kinds();
    const auto of_peers = [](const channel_kind& kind) { return !kind.name.starts_with("holdfast"); };
    std::erase_if(kinds, [](const channel_kind& kind) { return kind.name.ends_with("wakes sleepers"); });
    const auto targets_of = [&](const char* filter, std::vector<channel_kind> among) {
        holdfast::test::trial_recorder all({.quick = true, .seconds = 0.001, .filter = filter, .only = {"pipe"}});
        queue_suite(std::move(among)).run(all);
        std::erase_if(all.notes, [](const std::string& note) { return !note.starts_with("target: "); });
        return all.notes;
    };
    EXPECT_THAT(
        targets_of("64 bytes in batches of 32, ring of 256", kinds),
        Contains(AllOf(StartsWith("target: 64 bytes in batches of 32, ring of 256 KiB, by queue<T>, at least 2.0 "
                                  "times as fast as the fastest of queues"),
                       EndsWith("compare with"))));
    // With a queue of one writer and one reader among the others it is a number.
    for (channel_kind& kind : kinds)
        if (of_peers(kind)) kind.spsc_queue = true;
    for (const char* filter : {"8 bytes in batches of 64, ring of 4", "64 bytes in batches of 32, ring of 4"})
        EXPECT_THAT(targets_of(filter, kinds),
                    Contains(AllOf(HasSubstr(" at least 2.0 times as fast as the fastest of queues"),
                                   HasSubstr(" times pipe"), AnyOf(HasSubstr("(met)"), HasSubstr("(missed)")))))
            << filter;
    const std::vector<std::string> targets = targets_of("1 KiB", kinds);
    for (const char* way : {"copied in and copied out, ring of 4 MiB", "in place by who can, ring of 4 MiB"})
        for (const char* whose : {" at least 2.0 times", ", by queue<T>, at least 2.0 times"})
            EXPECT_THAT(targets, Contains(AllOf(StartsWith("target: 1 KiB in batches of 16"),
                                                HasSubstr(std::string(way) + whose), HasSubstr(" times pipe"))));
}

TEST_F(Channels, WhoReadsInPlaceIsSaid) {
    for (const channel_kind& kind : own_queue_kinds())
        EXPECT_EQ(kind.in_place, kind.name.starts_with("holdfast") || kind.name.starts_with("std::")) << kind.name;
}

}  // namespace
