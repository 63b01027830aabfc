// SPDX-License-Identifier: Apache-2.0
// Which samples are taken again, how often, and what is told of it; samples are made up, and no clock runs.
#include "workload/sample_rounds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "workload/two_sided.hpp"

namespace {

using namespace holdfast::workload;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

[[nodiscard]] sample_attempt quiet(double ns, double line = 100) {
    return {.ns = ns, .before = {line, line}, .after = {line, line}, .two_lines_ns = 2 * line};
}
[[nodiscard]] sample_attempt interrupted(double ns) {
    sample_attempt one = quiet(ns);
    one.lost_core = true;
    return one;
}
[[nodiscard]] sample_attempt stolen_from(double ns) {
    sample_attempt one = quiet(ns);
    one.stolen = true;
    return one;
}
[[nodiscard]] sample_attempt moved(double ns) {
    sample_attempt one = quiet(ns);
    one.after = {300, 300};
    return one;
}

/// Subjects whose next samples are written down; those that are not are quiet ones of 1 ns.
struct script {
    std::map<std::size_t, std::deque<sample_attempt>> next;
    std::vector<std::size_t> taken;  // by whom, in order

    [[nodiscard]] sample_attempt operator()(std::size_t subject) {
        taken.push_back(subject);
        auto& mine = next[subject];
        if (mine.empty()) return quiet(1);
        const sample_attempt one = mine.front();
        mine.pop_front();
        return one;
    }
};

constexpr std::array<std::size_t, 3> in_order{0, 1, 2};

TEST(SampleRounds, AQuietRoundIsTakenOnce) {
    script all{{{0, {quiet(10)}}, {1, {quiet(20)}}, {2, {quiet(30)}}}, {}};
    sample_rounds rounds(3, std::ref(all));
    rounds.round(std::array<std::size_t, 3>{2, 0, 1});
    EXPECT_THAT(all.taken, ElementsAre(2, 0, 1));
    EXPECT_THAT(rounds.found().samples, ElementsAre(ElementsAre(10), ElementsAre(20), ElementsAre(30)));
    EXPECT_THAT(rounds.found().line_ns, ElementsAre(100));
    EXPECT_THAT(rounds.found().two_lines_ns, ElementsAre(200));
    EXPECT_EQ(rounds.found().unsteady + rounds.found().disturbed + rounds.found().kept, 0U);
}

// What the samples of others are kept for: pairs are of one round, so each subject has one sample in every round.
TEST(SampleRounds, OnlyTheSampleThatWasDisturbedIsTakenAgain) {
    script all{{{1, {quiet(20), interrupted(999), quiet(21), quiet(22)}}}, {}};
    sample_rounds rounds(3, std::ref(all));
    for (int i = 0; i < 3; ++i) rounds.round(in_order);
    EXPECT_THAT(all.taken, ElementsAre(0, 1, 2, 0, 1, 2, 1, 0, 1, 2));
    EXPECT_THAT(rounds.found().samples[1], ElementsAre(20, 21, 22));
    EXPECT_THAT(rounds.found().samples, Each(SizeIs(3)));
    EXPECT_THAT(rounds.found().line_ns, SizeIs(3));
    EXPECT_EQ(rounds.found().disturbed, 1U);
    EXPECT_EQ(rounds.found().unsteady, 0U);
    EXPECT_EQ(rounds.found().kept, 0U);
}

TEST(SampleRounds, ASampleInWhichTheLineChangedIsTakenAgain) {
    script all{{{0, {moved(999), moved(998), quiet(10)}}}, {}};
    sample_rounds rounds(3, std::ref(all));
    rounds.round(in_order);
    EXPECT_THAT(rounds.found().samples[0], ElementsAre(10));
    EXPECT_EQ(rounds.found().unsteady, 2U);
    EXPECT_EQ(rounds.found().kept, 0U);
}

TEST(SampleRounds, OneLongProbeOfTwoIsAnInterruptionOfTheProbe) {
    script all;
    all.next[0] = {quiet(10)};
    all.next[0].front().after = {500, 101};
    sample_rounds rounds(3, std::ref(all));
    rounds.round(in_order);
    EXPECT_THAT(all.taken, SizeIs(3));
    EXPECT_THAT(rounds.found().samples[0], ElementsAre(10));
}

// Samples that are steady each by itself, but with another line than those that they would be paired with.
TEST(SampleRounds, SamplesOfBeforeTheLineChangedAreTakenAgainWithTheNewOne) {
    script all{{{0, {quiet(10, 100), quiet(30, 300)}}, {1, {quiet(20, 300)}}, {2, {quiet(25, 300)}}}, {}};
    sample_rounds rounds(3, std::ref(all));
    rounds.round(in_order);
    EXPECT_THAT(all.taken, ElementsAre(0, 1, 2, 0));
    EXPECT_THAT(rounds.found().samples[0], ElementsAre(30));
    EXPECT_THAT(rounds.found().line_ns, ElementsAre(300));
    EXPECT_EQ(rounds.found().unsteady, 1U);
    EXPECT_EQ(rounds.found().kept, 0U);
}

TEST(SampleRounds, ALineThatIsOddOnceCostsNoMoreThanThoseBesideIt) {
    script all{{{2, {quiet(25, 300), quiet(26)}}}, {}};
    sample_rounds rounds(3, std::ref(all));
    rounds.round(in_order);
    // The first of the others shows that the line is as before, so that only the odd one goes again.
    EXPECT_THAT(all.taken, ElementsAre(0, 1, 2, 0, 2));
    EXPECT_THAT(rounds.found().samples[2], ElementsAre(26));
    EXPECT_EQ(rounds.found().kept, 0U);
}

TEST(SampleRounds, ADisturbedSampleSaysNothingOfTheLine) {
    script all;
    all.next[2] = {interrupted(999), quiet(25)};
    all.next[2].front().before = all.next[2].front().after = {300, 300};
    sample_rounds rounds(3, std::ref(all));
    rounds.round(in_order);
    EXPECT_THAT(all.taken, ElementsAre(0, 1, 2, 2));
}

TEST(SampleRounds, StolenTimeIsToldLateSoTheSampleBeforeIsInDoubtToo) {
    script all{{{0, {quiet(10)}}, {1, {quiet(999), quiet(20)}}, {2, {stolen_from(998), quiet(30)}}}, {}};
    sample_rounds rounds(3, std::ref(all));
    rounds.round(in_order);
    EXPECT_THAT(all.taken, ElementsAre(0, 1, 2, 1, 2));
    EXPECT_THAT(rounds.found().samples, ElementsAre(ElementsAre(10), ElementsAre(20), ElementsAre(30)));
    EXPECT_EQ(rounds.found().disturbed, 2U);
    // Across the bound of two rounds nobody is blamed: the round before is handed over.
    all.taken.clear();
    all.next[0] = {stolen_from(999), quiet(11)};
    rounds.round(in_order);
    EXPECT_THAT(all.taken, ElementsAre(0, 1, 2, 0));
}

TEST(SampleRounds, ASampleThatIsNeverGoodIsKeptAndTold) {
    script all;
    for (int i = 0; i < 10; ++i) all.next[1].push_back(interrupted(100 + i));
    sample_rounds rounds(3, std::ref(all));
    rounds.round(in_order);
    EXPECT_THAT(all.taken, SizeIs(3 + sample_rounds::usual_retakes));
    EXPECT_THAT(rounds.found().samples[1], ElementsAre(100.0 + sample_rounds::usual_retakes));
    EXPECT_EQ(rounds.found().disturbed, sample_rounds::usual_retakes);
    EXPECT_EQ(rounds.found().kept, 1U);
}

// A machine on which everything is disturbed gives worse numbers, not a run without an end.
TEST(SampleRounds, WhereEverythingIsDisturbedTheRunIsHardlyLonger) {
    std::size_t taken = 0;
    sample_rounds rounds(3, [&](std::size_t) {
        ++taken;
        return interrupted(1);
    });
    for (int i = 0; i < 100; ++i) rounds.round(in_order);
    EXPECT_EQ(taken, 300 + 3 * sample_rounds::usual_retakes);
    EXPECT_EQ(rounds.found().kept, 300U);
    EXPECT_THAT(rounds.found().samples, Each(SizeIs(100)));
}

TEST(SampleRounds, WhoWantsNoRetakesGetsNone) {
    std::size_t taken = 0;
    const auto often = [&](std::size_t) { return ++taken % 2 == 0 ? interrupted(1) : quiet(1); };
    sample_rounds rounds(3, often, 0);
    for (int i = 0; i < 10; ++i) rounds.round(in_order);
    EXPECT_EQ(taken, 30U);
    EXPECT_EQ(rounds.found().kept, 15U);
}

TEST(SampleRounds, ASampleOfThreeDisturbedLeavesEveryRoundWhole) {
    std::size_t taken = 0;
    sample_rounds rounds(3, [&](std::size_t) { return ++taken % 3 == 0 ? interrupted(999) : quiet(1); });
    for (int i = 0; i < 100; ++i) rounds.round(in_order);
    EXPECT_EQ(rounds.found().kept, 0U);
    EXPECT_THAT(rounds.found().samples, Each(Each(1)));
    EXPECT_EQ(taken, 300 + rounds.found().disturbed);
}

TEST(SampleRounds, TheNoteSaysWhatWasTakenAgainAndWhatWasKept) {
    script all{{{0, {moved(999), quiet(10)}}, {2, {interrupted(999), interrupted(998), quiet(30)}}}, {}};
    for (int i = 0; i < 10; ++i) all.next[1].push_back(interrupted(100 + i));
    sample_rounds rounds(3, std::ref(all));
    rounds.round(in_order);
    EXPECT_THAT(line_text(rounds.found()),
                HasSubstr("one cache line there and back took 100 ns meanwhile (p05 to p95 100 to 100), a line each "
                          "way 200 ns; of 3 samples taken again: 1 in which that changed, 6 that lost a core; 1 that "
                          "should have been were kept"));
}

}  // namespace
