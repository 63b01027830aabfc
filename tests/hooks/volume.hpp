// SPDX-License-Identifier: Apache-2.0
// volume.hpp - what the tests of this folder share: how many deaths are tried, and how they are told.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "hooks/schedule_search.hpp"
#include "hooks/store_rig.hpp"
#include "hooks/survivors.hpp"
#include "hooks/trio_rig.hpp"
#include "hooks/weak_interleaving.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/share.hpp"
#include "support/told_numbers.hpp"

namespace holdfast::test {

/// `base` times the scale. Not scaled(): these programs are built for hooks, not for a sanitizer.
[[nodiscard]] inline std::uint64_t volume(std::uint64_t base) {
    const double work = static_cast<double>(base) * scale();
    return work < 1000 ? 1000 : static_cast<std::uint64_t>(work);
}

/// Random histories of Subject until volume(points) deaths, or the gate's share of them, were tried; prints how many of
/// which kind.
template <class Subject>
void die_at_every_store(const char* name, std::uint64_t points, const store_rig_options& options = {}) {
    const std::clock_t start = std::clock();
    const store_report report = crash_histories<Subject>(choose_seed(), volume(share_of(points)), options);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;  // of the processor
    EXPECT_EQ(report.failure, "") << name;
    const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf(
        "%s: %llu deaths (%llu in operations, %llu in recovery, %llu in recovery from that), %llu operations in "
        "%llu histories, %llu stores, %.1f s\n",
        name, number(report.all_points()), number(report.points[0]), number(report.points[1]), number(report.points[2]),
        number(report.operations), number(report.histories), number(report.stores), seconds);
    tell_more("deaths", report.all_points());
    if (::testing::Test::HasFailure()) return;
    EXPECT_GT(report.operations, 0U);
    EXPECT_GT(report.stores, report.operations / 2) << "the operations' stores were not reported";
}

/// "all 120 schedules by 9 runs", or "one in 8 schedules, 15 runs".
[[nodiscard]] inline std::string tried(const search_report& report, const char* what, std::uint64_t run,
                                       std::uint64_t all) {
    const bool complete = report.complete();
    return (complete ? "all " + std::to_string(all) : "one in " + std::to_string(report.one_in)) + " " + what +
           (complete ? " by " : ", ") + std::to_string(run) + " runs";
}

/// Interleavings of two processes at two pre-emptions, with each death, and at three without: all of them, or where
/// that takes more than `most` runs of either a random part. HOLDFAST_TEST_SCHEDULE=NAME runs the one of that name
/// alone. Returns: whether all were tried.
inline bool interleave_up_to(std::uint64_t most, const char* name, interleaving& subject) {
    const std::clock_t start = std::clock();
    schedule_search search(subject);
    if (const char* wanted = std::getenv("HOLDFAST_TEST_SCHEDULE"); wanted != nullptr) {
        EXPECT_EQ(search.run(schedule::named(wanted)), "") << name << ", schedule " << wanted;
        return true;
    }
    const std::uint64_t seed = choose_seed();
    const search_report deaths = search.explore(2, true, most, seed);
    const search_report whole = search.explore(3, false, most, seed);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;  // of the processor
    EXPECT_EQ(deaths.failure, "") << name << ", repeat with HOLDFAST_TEST_SCHEDULE=(that)";
    EXPECT_EQ(whole.failure, "") << name << ", repeat with HOLDFAST_TEST_SCHEDULE=(that)";
    std::printf("%s: %llu points; 2 pre-emptions: %s, %s; 3: %s; %.1f s\n", name,
                static_cast<unsigned long long>(deaths.points),
                tried(deaths, "schedules", deaths.schedules, deaths.all.schedules).c_str(),
                tried(deaths, "deaths", deaths.deaths, deaths.all.deaths).c_str(),
                tried(whole, "schedules", whole.schedules, whole.all.schedules).c_str(), seconds);
    tell_more("schedules", deaths.schedules + whole.schedules);
    tell_more("schedules_with_a_death", deaths.deaths);
    EXPECT_GT(deaths.schedules, 2U) << "the processes share no words";
    return deaths.complete() && whole.complete();
}

inline constexpr std::uint64_t interleaved_at_once = 4'000'000;  // each is half a KiB of memory

/// All of these interleavings; in the long run about 100,000 of those with one pre-emption more, too.
inline void interleave(const char* name, interleaving& subject) {
    const bool complete = interleave_up_to(std::min(volume(interleaved_at_once), interleaved_at_once), name, subject);
    if (scale() >= 1) {
        EXPECT_TRUE(complete) << name << ": not all schedules were tried";
    }
    if (scale() < 10 || std::getenv("HOLDFAST_TEST_SCHEDULE") != nullptr) return;
    schedule_search further(subject);
    const std::uint64_t seed = choose_seed(), most = 100'000;
    EXPECT_EQ(further.explore(3, true, most, seed).failure, "") << name << ", with one pre-emption more";
    EXPECT_EQ(further.explore(4, false, most, seed).failure, "") << name << ", with one pre-emption more";
}

/// The same where all take a minute or two: the long run tries them all, any other one a part.
inline void interleave_in_the_long_run(std::uint64_t part, const char* name, interleaving& subject) {
    const bool is_long = scale() >= 100;
    const bool complete = interleave_up_to(is_long ? interleaved_at_once : volume(part), name, subject);
    if (is_long) {
        EXPECT_TRUE(complete) << name << ": not all schedules were tried";
    }
}

/// Every interleaving at two pre-emptions of process 1 with process 0 that dies in front of each of its stores in turn
/// and the successor that is there at once. HOLDFAST_TEST_SCHEDULE=NAME runs the one of that name at each store.
inline void interleave_successors(const char* name, interleaving& subject) {
    const std::clock_t start = std::clock();
    std::uint64_t runs = 0, all = 0;
    std::uint32_t store = 0;
    for (bool fell = true; fell && !::testing::Test::HasFailure(); store += fell ? 1U : 0U) {
        subject.die_in_front_of(store);
        schedule_search search(subject);
        if (const char* wanted = std::getenv("HOLDFAST_TEST_SCHEDULE"); wanted != nullptr) {
            EXPECT_EQ(search.run(schedule::named(wanted)), "") << name << ", store " << store;
        } else {
            const search_report report = search.explore(2, false, 1'000'000, 1);
            EXPECT_EQ(report.failure, "")
                << name << ", a death in front of store " << store << "; repeat with HOLDFAST_TEST_SCHEDULE=(that)";
            EXPECT_TRUE(report.complete()) << name << ": not all schedules were tried";
            runs += report.schedules;
            all += report.all.schedules;
        }
        fell = search.falls() != 0;
    }
    subject.die_in_front_of(std::nullopt);
    std::printf("%s: a successor at each of %u stores; 2 pre-emptions: all %llu schedules by %llu runs; %.1f s\n", name,
                store, static_cast<unsigned long long>(all), static_cast<unsigned long long>(runs),
                static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    tell_more("schedules_with_a_successor", runs);
    EXPECT_GT(store, 0U) << "process 0 stores nothing";
}

/// Three processes: what trio_rig.hpp says, volume(most) of each random part. HOLDFAST_TEST_SCHEDULE=NAME runs the one
/// of that name alone.
inline void interleave_three(const char* name, interleaving& subject, std::uint64_t most) {
    const std::clock_t start = std::clock();
    if (const char* wanted = std::getenv("HOLDFAST_TEST_SCHEDULE"); wanted != nullptr) {
        EXPECT_EQ(trio_rig(subject).run(trio_schedule::named(wanted)), "") << name << ", schedule " << wanted;
        return;
    }
    const trio_report report = explore_trio(subject, volume(most), choose_seed());
    EXPECT_EQ(report.failure, "") << name << ", repeat with HOLDFAST_TEST_SCHEDULE=(that)";
    std::printf(
        "%s: %llu schedules, %llu deaths; of two pre-emptions one in %llu, of one with a death one in %llu; "
        "%.1f s\n",
        name, static_cast<unsigned long long>(report.schedules), static_cast<unsigned long long>(report.deaths),
        static_cast<unsigned long long>(report.one_in_pairs), static_cast<unsigned long long>(report.one_in_deaths),
        static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    tell_more("schedules", report.schedules);
    tell_more("schedules_with_a_death", report.deaths);
    EXPECT_GT(report.schedules, 100U) << "the processes share no words";
}

/// Runs all schedules of `bound` pre-emptions, once each by itself and once with states gone on from once: the same
/// ends, as many schedules and deaths as were counted without running them, and one image for each number of an end.
inline void expect_merging_loses_nothing(interleaving& subject, unsigned bound, bool deaths) {
    std::map<std::uint64_t, std::vector<std::byte>> ends[2];
    search_report reports[2];
    for (const bool merging : {false, true}) {
        schedule_search search(subject, merging);
        search.at_each_end([&](std::uint64_t number) {
            const access_unwatched looker;
            const std::span<const std::byte> image = subject.image();
            std::vector<std::byte> now(image.begin(), image.end());
            EXPECT_EQ(ends[merging].try_emplace(number, now).first->second, now) << "two ends have one number";
        });
        reports[merging] = search.explore(bound, deaths, 1'000'000'000, 1);
        EXPECT_EQ(reports[merging].failure, "");
    }
    EXPECT_EQ(ends[true], ends[false]);
    EXPECT_EQ(reports[true].all.schedules, reports[false].schedules);
    if (deaths) {
        EXPECT_EQ(reports[true].all.deaths, reports[false].deaths);
    }
    EXPECT_LT(reports[true].schedules + reports[true].deaths, reports[false].schedules + reports[false].deaths);
}

/// Two processes whose orders are relaxed.
struct orders_subject {
    orders_subject(interleaving* of, double of_executions = 1) : test(of), share(of_executions) {}
    interleaving* test;
    double share;  // of the executions: less where one takes long
};

/// Relaxes each memory order of the subjects' processes in turn (weak_interleaving.hpp), then all that survived
/// together, prints what became of each, and expects that those survive, and those alone, of which survivors.txt says
/// why.
/// `base`: executions of each, times the scale; ten times as many of one that survives them without a reason.
/// HOLDFAST_TEST_ORDERS=FILE appends the table's lines to a file.
inline void expect_orders_matter(const char* container, const std::vector<orders_subject>& subjects,
                                 double base = 2000) {
    const auto executions_of = [base](const orders_subject& one) {
        return static_cast<std::uint64_t>(base * one.share * (scale() < 1 ? 1 : scale()));
    };
    const order_reasons reasons = reasons_in(survivors_list(), container);
    std::map<std::string, order_mutant> all;
    const auto note = [&](const order_mutant& mutant) {
        order_mutant& known = all.try_emplace(mutant.where, order_mutant{mutant.where, {}, 0}).first->second;
        if (known.caught.empty()) known.executions += mutant.executions;
        if (known.caught.empty()) known.caught = mutant.caught;
    };
    const auto is_open = [&](const std::string& where) {
        return !all.contains(where) || (all.at(where).caught.empty() && !reasons.contains(where));
    };
    // The first round over all subjects, the second over what is open after that.
    for (const unsigned patience : {1U, 10U})
        for (const orders_subject& subject : subjects) {
            weak_interleaving test(*subject.test);
            const std::uint64_t executions = executions_of(subject);
            for (const auto& [where, places] : orders_of(test, executions / patience, 1))
                if (patience == 1 || is_open(where)) note(weaken(test, where, places, executions * patience, patience));
        }
    std::set<std::string> survived, caught;
    for (const auto& [where, mutant] : all) (mutant.caught.empty() ? survived : caught).insert(where);
    for (const orders_subject& subject : subjects) {
        weak_interleaving test(*subject.test);
        const std::uint64_t executions = executions_of(subject);
        std::set<const void*> together;
        for (const auto& [where, places] : orders_of(test, executions / 4, 1))
            if (survived.contains(where)) together.insert(places.begin(), places.end());
        if (!together.empty()) note(weaken(test, "(all that survive, together)", together, executions, 1));
    }
    const char* const table = std::getenv("HOLDFAST_TEST_ORDERS");
    std::FILE* const out = table == nullptr ? stdout : std::fopen(table, "a");
    ASSERT_NE(out, nullptr);
    for (const auto& [where, mutant] : all) {
        const auto reason = reasons.find(where);
        const std::string became = !mutant.caught.empty()    ? mutant.caught
                                   : reason != reasons.end() ? "survives: " + reason->second
                                                             : "survives";
        std::fprintf(out, "%s\n", order_row(container, where, became, mutant.executions).c_str());
    }
    if (out != stdout) std::fclose(out);
    std::printf("%s: %zu of %zu relaxed orders caught\n", container, caught.size(), caught.size() + survived.size());
    tell_more("relaxed_orders_caught", caught.size());
    for (const std::string& wrong : contradictions(container, reasons, survived, caught)) ADD_FAILURE() << wrong;
    EXPECT_FALSE(caught.empty()) << container << ": no order is tried";
}

}  // namespace holdfast::test
