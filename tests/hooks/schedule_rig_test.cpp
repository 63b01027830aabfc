// SPDX-License-Identifier: Apache-2.0
// The schedule's own teeth: it tries every interleaving, once; mistakes that need one pre-emption, two, or a death are
// found with so many and not with fewer; and the name of a schedule is enough to repeat it.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "hooks/schedule_rig.hpp"
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
    std::string judge(std::optional<unsigned> dead) override { return end_ ? end_(*this, dead) : ""; }

    // Sequential consistency is all there is here.
    [[nodiscard]] std::uint64_t load(unsigned at) const { return word(at).load(std::memory_order_seq_cst); }
    void store(unsigned at, std::uint64_t value) { word(at).store(value, std::memory_order_seq_cst); }

    std::uint64_t seen = 0;  // private to whoever uses it
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
    schedule_rig rig(subject);
    const schedule_report every = rig.explore(7, false, all, 1);
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
    schedule_rig rig(subject);
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
    schedule_rig rig(subject);
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
    schedule_rig rig(subject);
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
        schedule_rig rig(right);
        EXPECT_EQ(rig.explore(3, false, all, 1).failure, "");
    }
    schedule_rig rig(wrong);
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
    schedule_rig rig(subject);
    EXPECT_EQ(rig.explore(1, false, all, 1).failure, "");
    EXPECT_NE(rig.explore(0, true, all, 1).failure.find("does not come to an end"), std::string::npos);
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
        schedule_rig rig(survived);
        EXPECT_EQ(rig.explore(2, true, all, 1).failure, "");
    }
    four_words subject(both, look, [](four_words& s, std::optional<unsigned> dead) {
        return dead && s.load(0) != s.load(1) ? std::string("cut") : "";
    });
    schedule_rig rig(subject);
    EXPECT_NE(rig.explore(0, true, all, 1).failure.find("cut"), std::string::npos);
}

}  // namespace
