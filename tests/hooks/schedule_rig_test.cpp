// SPDX-License-Identifier: Apache-2.0
// The schedule's own teeth: it tries every interleaving, once; mistakes that need one pre-emption, two, or a death are
// found with so many and not with fewer; and the name of a schedule is enough to repeat it.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "hooks/schedule_search.hpp"
#include "hooks/trio_rig.hpp"
#include "hooks/volume.hpp"
#include "support/hash_table_image.hpp"

namespace {

using namespace holdfast::test;

// Four shared words; what the processes do with them, and what must hold in the end.
class four_words final : public interleaving {
 public:
    using words = std::span<std::uint64_t, 4>;
    using what = std::function<std::string(four_words&, unsigned operation)>;
    using end = std::function<std::string(four_words&, std::optional<unsigned> dead)>;

    four_words(what zero, what one, end judged) : what_{std::move(zero), std::move(one)}, end_(std::move(judged)) {}

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override { seen = 0; }
    std::string run(unsigned process, unsigned operation) override { return what_[process](*this, operation); }
    std::string succeed() override { return successor ? successor(*this) : ""; }
    std::string judge(std::optional<unsigned> dead) override { return end_ ? end_(*this, dead) : ""; }

    // Sequential consistency is all there is here.
    [[nodiscard]] std::uint64_t load(unsigned at) const { return word(at).load(std::memory_order_seq_cst); }
    void store(unsigned at, std::uint64_t value) { word(at).store(value, std::memory_order_seq_cst); }

    std::uint64_t seen = 0;  // private to whoever uses it
    std::function<std::string(four_words&)> successor;
    using interleaving::begun;
    using interleaving::ended;

 private:
    [[nodiscard]] std::atomic_ref<std::uint64_t> word(unsigned at) const {
        return std::atomic_ref(reinterpret_cast<std::uint64_t*>(bytes_.bytes().data())[at]);
    }
    mutable aligned_bytes bytes_{32};
    std::array<what, 2> what_;
    end end_;
};

constexpr std::uint64_t all = 1'000'000'000;

TEST(ScheduleRig, EveryInterleavingIsTriedOnce) {
    const auto two_stores = [](four_words& s, unsigned operation) {
        s.store(0, operation);
        s.store(0, 7);
        return std::string();
    };
    four_words subject(two_stores, two_stores, {});
    schedule_search rig(subject);
    const search_report every = rig.explore(7, false, all, 1);
    EXPECT_EQ(every.failure, "");
    EXPECT_EQ(every.schedules, 70U);  // 8 over 4
    // At most one pre-emption: who begins, and in front of which of its accesses but the first it is stopped.
    EXPECT_EQ(rig.explore(1, false, all, 1).schedules, 2U * (1 + 3));
    // Each death: in front of each of 8 stores, for either beginning.
    EXPECT_EQ(rig.explore(0, true, all, 1).deaths, 16U);
}

TEST(ScheduleRig, WordsOfOneProcessAloneAreNoPointsOfPreemption) {
    const auto own_words = [](unsigned own) {
        return [own](four_words& s, unsigned) {
            for (int i = 0; i < 10; ++i) s.store(own, 1);
            (void)s.load(3);  // of both, stored by nobody
            return std::string();
        };
    };
    four_words subject(own_words(1), own_words(2), {});
    schedule_search rig(subject);
    EXPECT_EQ(rig.explore(3, false, all, 1).schedules, 2U);
}

TEST(ScheduleRig, ALostUpdateNeedsOnePreemption) {
    const auto add_one = [](four_words& s, unsigned) {
        s.store(0, s.load(0) + 1);
        return std::string();
    };
    four_words subject(add_one, add_one, [](four_words& s, std::optional<unsigned>) {
        return s.load(0) == 4 ? "" : std::string("lost");
    });
    schedule_search rig(subject);
    EXPECT_EQ(rig.explore(0, false, all, 1).failure, "");
    const std::string found = rig.explore(1, false, all, 1).failure;
    ASSERT_NE(found, "");
    // Again, by its name alone.
    const std::string name = found.substr(found.rfind(' ') + 1);
    EXPECT_EQ(rig.run(schedule::named(name.c_str())), "lost") << name;
    EXPECT_EQ(schedule::named(name.c_str()).name(), name);
    EXPECT_EQ(schedule::named("1@3@44x50").name(), "1@3@44x50");
}

TEST(ScheduleRig, AWordThatIsSeenComingAndGoingNeedsTwo) {
    const auto blink = [](four_words& s, unsigned operation) {
        if (operation != 0) return std::string();
        s.store(0, 1);
        s.store(0, 0);
        return std::string();
    };
    const auto look = [](four_words& s, unsigned operation) {
        if (operation != 0) return std::string();
        const bool came = s.load(0) == 1;
        return came && s.load(0) == 0 ? std::string("seen both") : "";
    };
    four_words subject(blink, look, {});
    schedule_search rig(subject);
    EXPECT_EQ(rig.explore(1, false, all, 1).failure, "");
    EXPECT_NE(rig.explore(2, false, all, 1).failure.find("seen both"), std::string::npos);
}

// A version in front of two words; a reader that does not look at it again believes a mix.
four_words versioned(bool looks_again) {
    return four_words(
        [](four_words& s, unsigned operation) {
            s.store(0, 2 * operation + 1);
            s.store(1, operation + 1);
            s.store(2, operation + 1);
            s.store(0, 2 * operation + 2);
            return std::string();
        },
        [looks_again](four_words& s, unsigned) {
            for (int i = 0; i < 3; ++i) {
                const std::uint64_t version = s.load(0), a = s.load(1), b = s.load(2);
                if (version % 2 != 0 || (looks_again && s.load(0) != version)) continue;
                return a == b ? "" : std::string("a mix");
            }
            return std::string();
        },
        {});
}
TEST(ScheduleRig, AReaderThatDoesNotLookAgainIsFound) {
    four_words right = versioned(true), wrong = versioned(false);
    {
        schedule_search rig(right);
        EXPECT_EQ(rig.explore(3, false, all, 1).failure, "");
    }
    schedule_search rig(wrong);
    EXPECT_NE(rig.explore(1, false, all, 1).failure.find("a mix"), std::string::npos);
}

TEST(ScheduleRig, WhoWaitsForTheDeadIsFoundAndWhoWaitsForTheLivingIsNot) {
    four_words subject(
        [](four_words& s, unsigned) {
            s.store(0, 1);
            s.store(1, 1);
            s.store(0, 0);
            return std::string();
        },
        [](four_words& s, unsigned) {
            while (s.load(0) != 0) {
            }
            return std::string();
        },
        {});
    schedule_search rig(subject);
    EXPECT_EQ(rig.explore(1, false, all, 1).failure, "");
    EXPECT_NE(rig.explore(0, true, all, 1).failure.find("does not come to an end"), std::string::npos);
}

// What the dead left undone is taken back while somebody who saw it is still looking.
TEST(ScheduleRig, ASuccessorThatTakesBackWhatWasSeenIsFound) {
    const auto both = [](four_words& s, unsigned operation) {
        if (operation == 0) s.store(0, 1);
        if (operation == 0) s.store(1, 1);
        return std::string();
    };
    const auto twice = [](four_words& s, unsigned) {
        const std::uint64_t first = s.load(0);
        return s.load(0) < first ? std::string("it went back") : std::string();
    };
    std::optional<unsigned> judged;
    four_words subject(both, twice, [&](four_words&, std::optional<unsigned> dead) {
        judged = dead;
        return std::string();
    });
    subject.successor = [](four_words& s) {
        if (s.load(1) == 0) s.store(0, 0);
        return std::string();
    };
    const auto explore = [&](unsigned bound, bool deaths, std::uint64_t& falls) {
        schedule_search rig(subject);
        const std::string found = rig.explore(bound, deaths, all, 1).failure;
        falls = rig.falls();
        return found;
    };
    std::uint64_t falls = 0;
    EXPECT_EQ(explore(3, true, falls), "");
    EXPECT_EQ(falls, 0U);
    subject.die_in_front_of(0);
    EXPECT_EQ(explore(3, false, falls), "");
    EXPECT_EQ(judged, 0U) << "process 0 is dead in the end";
    subject.die_in_front_of(1);
    EXPECT_EQ(explore(1, false, falls), "") << "the death, the successor and the look are not one behind the other";
    EXPECT_GT(falls, 0U);
    const std::string found = explore(2, false, falls);
    ASSERT_NE(found.find("it went back"), std::string::npos) << found;
    schedule_search again(subject);
    EXPECT_EQ(again.run(schedule::named(found.substr(found.rfind(' ') + 1).c_str())), "it went back");
    subject.die_in_front_of(2);
    EXPECT_EQ(explore(3, false, falls), "");
    EXPECT_EQ(falls, 0U) << "there is no third store";
}

TEST(ScheduleRig, ADeathBetweenTwoStoresIsJudged) {
    const auto both = [](four_words& s, unsigned operation) {
        s.store(0, operation + 1);
        s.store(1, operation + 1);
        return std::string();
    };
    const auto look = [](four_words& s, unsigned) { return s.load(3) == 0 ? "" : std::string("stored"); };
    four_words survived(both, look, [](four_words& s, std::optional<unsigned> dead) {
        return dead != 0U || (s.ended(0) < 2 && s.ended(1) == 2) ? "" : std::string("not one alone");
    });
    {
        schedule_search rig(survived);
        EXPECT_EQ(rig.explore(2, true, all, 1).failure, "");
    }
    four_words subject(both, look, [](four_words& s, std::optional<unsigned> dead) {
        return dead && s.load(0) != s.load(1) ? std::string("cut") : "";
    });
    schedule_search rig(subject);
    EXPECT_NE(rig.explore(0, true, all, 1).failure.find("cut"), std::string::npos);
}

// Two programs of random instructions over four words. Its end is all that it can tell: what lies in the words, what
// each process has made of all that it read and was told, and who died.
class random_programs final : public interleaving {
 public:
    enum instruction : unsigned { load, store, add, exchange_if, skip_if_odd, look, yield, look_unsaid };
    using end = std::array<std::uint64_t, 8>;

    random_programs(std::uint64_t seed, bool unsaid) {
        draws random(seed);
        for (auto& of_process : programs_)
            for (auto& of_operation : of_process)
                for (auto& each : of_operation)
                    each = {static_cast<instruction>(random.below(unsaid ? 8 : 7)),
                            static_cast<unsigned>(random.below(4))};
    }
    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        known_ = {};
        done_ = {};
    }
    std::string run(unsigned process, unsigned operation) override {
        std::uint64_t& known = known_[process];
        const auto learn = [&](std::uint64_t what) { known = known * 31 + what + 1; };
        bool skips = false;
        for (const auto& [what, at] : programs_[process][operation]) {
            ++done_[process];
            if (std::exchange(skips, false)) continue;
            std::uint64_t expected = 0;
            switch (what) {
                case load: learn(word(at).load(std::memory_order_seq_cst)); break;
                case store: word(at).store(known % 4, std::memory_order_seq_cst); break;
                case add: learn(word(at).fetch_add(1, std::memory_order_seq_cst)); break;
                case exchange_if: learn(word(at).compare_exchange_strong(expected, 3) ? 1 : expected); break;
                case skip_if_odd: skips = known % 2 != 0; break;
                case look: learn(ended(1 - process)); break;
                case yield: learn(give_way() ? 1 : 0); break;
                case look_unsaid: learn(done_[1 - process]); break;
            }
        }
        return {};
    }
    std::string judge(std::optional<unsigned> dead) override {
        end now{known_[0], known_[1], ended(0), ended(1)};
        for (unsigned at = 0; at < 4; ++at) now[4 + at] = 5 * word(at).load(std::memory_order_seq_cst);
        now[7] += dead ? 1 + *dead : 0;
        ends.insert(now);
        return {};
    }
    std::set<end> ends;

 private:
    static constexpr std::size_t length = 6;  // of an operation
    [[nodiscard]] std::atomic_ref<std::uint64_t> word(unsigned at) {
        return std::atomic_ref(reinterpret_cast<std::uint64_t*>(bytes_.bytes().data())[at]);
    }
    aligned_bytes bytes_{32};
    std::array<std::array<std::array<std::pair<instruction, unsigned>, length>, operations>, 2> programs_{};
    std::array<std::uint64_t, 2> known_{}, done_{};
};
struct ends_of_programs {
    std::set<random_programs::end> all;
    search_report report;
    ends_of_programs(std::uint64_t seed, bool unsaid, bool merging, unsigned bound, bool deaths) {
        random_programs subject(seed, unsaid);
        schedule_search search(subject, merging);
        report = search.explore(bound, deaths, all_of_them, 1);
        all = subject.ends;
    }
    static constexpr std::uint64_t all_of_them = 1'000'000'000;
};

TEST(ScheduleSearch, RandomProgramsComeToTheSameEndsWhenStatesAreGoneOnFromOnce) {
    const std::uint64_t seed = choose_seed(), programs = volume(1000) / 2;
    std::uint64_t every = 0, merged = 0;
    for (std::uint64_t i = 0; i < programs; ++i) {
        const auto bound = static_cast<unsigned>(i % 4);
        const bool deaths = bound < 3;
        const ends_of_programs one(seed + i, false, false, bound, deaths), other(seed + i, false, true, bound, deaths);
        ASSERT_EQ(one.report.failure, "") << "seed " << seed + i;
        ASSERT_EQ(other.report.failure, "") << "seed " << seed + i;
        ASSERT_EQ(one.all, other.all) << "seed " << seed + i;
        ASSERT_EQ(one.report.schedules, other.report.all.schedules) << "seed " << seed + i;
        if (deaths) {
            ASSERT_EQ(one.report.deaths, other.report.all.deaths) << "seed " << seed + i;
        }
        every += one.report.schedules + one.report.deaths;
        merged += other.report.schedules + other.report.deaths;
    }
    std::printf("random programs: %llu schedules and deaths by %llu runs\n", static_cast<unsigned long long>(every),
                static_cast<unsigned long long>(merged));
    EXPECT_LT(merged, every);
}
// The test above would find it: processes that know of each other behind the rig's back come to ends that are missed.
TEST(ScheduleSearch, WhatProcessesKnowOfEachOtherUnsaidIsMissed) {
    std::uint64_t missed = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed)
        missed += ends_of_programs(seed, true, false, 3, false).all != ends_of_programs(seed, true, true, 3, false).all
                      ? 1U
                      : 0U;
    EXPECT_GT(missed, 0U);
}
TEST(ScheduleSearch, AProcessThatDoesNotDoAgainWhatItDidIsFound) {
    std::uint64_t runs = 0;
    const auto counts = [&](four_words& s, unsigned) {
        s.store(0, ++runs);
        (void)s.load(0);
        s.store(1, 1);
        return std::string();
    };
    four_words subject(counts, counts, {});
    schedule_search search(subject);
    EXPECT_NE(search.explore(2, false, all, 1).failure.find("did not do again"), std::string::npos);
}
TEST(ScheduleSearch, APartIsTriedWhereThereIsMoreThanAskedFor) {
    const auto store_all = [](four_words& s, unsigned operation) {
        for (unsigned i = 0; i < 20; ++i) s.store(i % 4, operation);
        return std::string();
    };
    four_words subject(store_all, store_all, {});
    schedule_search search(subject);
    const search_report part = search.explore(3, false, 1000, 1);
    EXPECT_EQ(part.failure, "");
    EXPECT_FALSE(part.complete());
    EXPECT_LE(part.schedules, 3000U);
    EXPECT_GE(part.schedules, 500U);
}

// Three processes that share words, each with two operations.
class words_of_three final : public interleaving {
 public:
    using what = std::function<std::string(words_of_three&, unsigned process, unsigned operation)>;
    explicit words_of_three(what each) : each_(std::move(each)) {}

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override { met.reset(); }
    std::string run(unsigned process, unsigned operation) override { return each_(*this, process, operation); }
    void died(unsigned process) override { met = process; }
    std::string judge(std::optional<unsigned> dead) override { return met == dead ? "" : "another died"; }

    [[nodiscard]] std::uint64_t load(unsigned at) const { return word(at).load(std::memory_order_seq_cst); }
    void store(unsigned at, std::uint64_t value) { word(at).store(value, std::memory_order_seq_cst); }
    using interleaving::give_way;

 private:
    [[nodiscard]] std::atomic_ref<std::uint64_t> word(unsigned at) const {
        return std::atomic_ref(reinterpret_cast<std::uint64_t*>(bytes_.bytes().data())[at]);
    }
    mutable aligned_bytes bytes_{32};
    what each_;
    std::optional<unsigned> met;
};

// Between two loads of the first the second must run, and then the third, to their ends.
TEST(TrioRig, OnePreemptionLetsTheOthersRunInEitherOrder) {
    words_of_three chain([](words_of_three& w, unsigned process, unsigned operation) -> std::string {
        if (operation != 0) return {};
        if (process == 1) w.store(0, 1);
        if (process == 2 && w.load(0) == 1) w.store(1, 1);
        if (process != 0) return {};
        const bool before = w.load(0) == 1;
        return !before && w.load(1) == 1 ? "both came in between" : "";
    });
    const trio_report found = explore_trio(chain, 1000, 1);
    const std::string name = found.failure.substr(found.failure.find("schedule ") + 9);
    ASSERT_NE(found.failure, "");
    EXPECT_EQ(trio_schedule::named(name.c_str()).preempted.size(), 1U) << name;
    trio_rig again(chain);
    EXPECT_EQ(again.run(trio_schedule::named(name.c_str())), "both came in between") << name;
    EXPECT_EQ(again.run(trio_schedule::named("012")), "");
}

// A lock: who waits lets the others go on, so that nobody waits for ever but for the dead.
TEST(TrioRig, WhoWaitsLetsOthersGoOnAndWhoWaitsForTheDeadIsSeen) {
    words_of_three locked([](words_of_three& w, unsigned process, unsigned) -> std::string {
        while (w.load(0) != 0)
            if (!w.give_way()) return "nobody else is there";
        w.store(0, process + 1);
        w.store(1, w.load(1) + 1);
        w.store(0, 0);
        return {};
    });
    trio_rig rig(locked);
    // Process 2 is stopped with the lock, 0 and 1 wait, and all come to their end.
    EXPECT_EQ(rig.run(trio_schedule::named("201@2>012")), "");
    EXPECT_EQ(rig.steps()[2].process, 0U);
    EXPECT_NE(rig.run(trio_schedule::named("201x2")).find("does not come to an end"), std::string::npos);
    EXPECT_EQ(trio_schedule::named("201@2>012@17>120x33").name(), "201@2>012@17>120x33");
}

}  // namespace
