// SPDX-License-Identifier: Apache-2.0
// The checker of histories: it accepts what some order explains and rejects what none does, of histories written by
// hand, of random ones whose answer an exhaustive search gives, and of right ones with one answer changed.
#include "support/linearizability.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast::test;

enum : std::uint32_t { write_kind, read_kind, add_kind };

// A register, with an addition for what two writers can do to it.
struct register_model {
    using state = std::uint64_t;
    static bool apply(state& s, const operation& op) {
        switch (op.kind) {
            case write_kind: s = op.given; return true;
            case add_kind: s += op.given; return op.killed || op.answer == s;
            default: return op.killed || op.answer == s;
        }
    }
};

operation wrote(std::uint64_t from, std::uint64_t to, std::uint64_t value) {
    return {from, to, write_kind, false, 0, value, 0};
}
operation read(std::uint64_t from, std::uint64_t to, std::uint64_t value) {
    return {from, to, read_kind, false, 0, 0, value};
}
operation added(std::uint64_t from, std::uint64_t to, std::uint64_t by, std::uint64_t sum) {
    return {from, to, add_kind, false, 0, by, sum};
}
operation killed(operation op) {
    op.killed = true;
    return op;
}
bool accepts(const history& h) { return check_history<register_model>(h).ok(); }

TEST(Linearizability, AcceptsWhatSomeOrderExplains) {
    EXPECT_TRUE(accepts({}));
    EXPECT_TRUE(accepts({read(1, 2, 0), wrote(3, 4, 7), read(5, 6, 7)}));
    EXPECT_TRUE(accepts({wrote(1, 10, 7), read(2, 3, 0), read(4, 5, 7)})) << "the write happened between the reads";
    EXPECT_TRUE(accepts({wrote(1, 10, 7), wrote(1, 10, 8), read(2, 3, 8), read(4, 5, 7)}));
    EXPECT_TRUE(accepts({wrote(1, 3, 7), read(3, 4, 0)})) << "at one instant: concurrent";
    EXPECT_TRUE(accepts({added(1, 9, 1, 3), added(1, 9, 2, 2)}));
}

TEST(Linearizability, RejectsWhatNoneDoes) {
    EXPECT_FALSE(accepts({read(1, 2, 5)})) << "a value that nobody wrote";
    EXPECT_FALSE(accepts({wrote(1, 2, 7), read(3, 4, 0)})) << "a write that was lost";
    EXPECT_FALSE(accepts({wrote(1, 10, 7), read(2, 3, 7), read(4, 5, 0)})) << "a value that went back";
    EXPECT_FALSE(accepts({wrote(1, 2, 7), wrote(3, 4, 8), read(5, 6, 7)})) << "an overwritten value";
    EXPECT_FALSE(accepts({read(1, 2, 7), wrote(3, 4, 7)})) << "a value from the future";
    EXPECT_FALSE(accepts({wrote(1, 10, 7), wrote(1, 10, 8), read(2, 3, 8), read(4, 5, 7), read(6, 7, 8)}));
    EXPECT_FALSE(accepts({added(1, 9, 1, 1), added(1, 9, 2, 2)})) << "an addition that was lost";
}

TEST(Linearizability, AKilledOperationHappenedOnceOrNever) {
    EXPECT_TRUE(accepts({killed(wrote(1, 10, 7)), read(11, 12, 0)}));
    EXPECT_TRUE(accepts({killed(wrote(1, 10, 7)), read(11, 12, 7)}));
    EXPECT_TRUE(accepts({killed(wrote(1, 10, 7)), read(2, 3, 0), read(4, 5, 7), read(11, 12, 7)}));
    EXPECT_FALSE(accepts({killed(wrote(1, 10, 7)), read(2, 3, 7), read(11, 12, 0)})) << "it was taken back";
    EXPECT_FALSE(accepts({killed(wrote(1, 10, 7)), read(11, 12, 0), read(13, 14, 7)})) << "after its recovery";
    EXPECT_TRUE(accepts({killed(added(1, 10, 5, 0)), read(11, 12, 5)}));
    EXPECT_FALSE(accepts({killed(added(1, 10, 5, 0)), read(11, 12, 10)})) << "twice";
}

// The truth by trying every order of every choice of killed operations that happened.
bool exhaustive(const history& h) {
    std::vector<std::size_t> order(h.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    do {
        bool fits = true;
        for (std::size_t i = 0; i < order.size() && fits; ++i)
            for (std::size_t j = i + 1; j < order.size() && fits; ++j)
                fits = h[order[j]].returned >= h[order[i]].called;  // none before one that it followed
        for (unsigned dropped = 0; fits && dropped < (1U << h.size()); ++dropped) {
            register_model::state state = 0;
            bool explained = true;
            for (const std::size_t i : order) {
                if ((dropped >> i & 1U) != 0)
                    explained = explained && h[i].killed;
                else
                    explained = explained && register_model::apply(state, h[i]);
            }
            if (explained) return true;
        }
    } while (std::next_permutation(order.begin(), order.end()));
    return false;
}

TEST(Linearizability, AgreesWithExhaustiveSearchOnRandomHistories) {
    seeded_random random;
    std::uint64_t right = 0, wrong = 0;
    for (std::uint64_t round = 0; round < scaled(4000); ++round) {
        history h;
        for (std::uint64_t n = 1 + random.below(6); n > 0; --n) {
            const std::uint64_t from = random.below(12), to = from + random.below(8);
            operation op{from,
                         to,
                         static_cast<std::uint32_t>(random.below(3)),
                         random.below(4) == 0,
                         0,
                         random.below(3),
                         random.below(4)};
            h.push_back(op);
        }
        const bool truth = exhaustive(h);
        (truth ? right : wrong) += 1;
        std::string text;
        for (const operation& op : h) text += op.text() + "\n";
        ASSERT_EQ(accepts(h), truth) << text;
    }
    EXPECT_GT(right, scaled(4000) / 20);
    EXPECT_GT(wrong, scaled(4000) / 20);
}

// A long history of a register with one writer and readers that really are concurrent, made by playing it.
struct played {
    history writes, reads;
    // What is known of killed writes when all is over: one that the next goes on from has happened, one whose version
    // the next has too has not.
    [[nodiscard]] history all() const {
        history h = reads;
        for (std::size_t i = 0; i < writes.size(); ++i) {
            operation w = writes[i];
            if (w.killed && i + 1 < writes.size()) {
                if (writes[i + 1].given == w.given) continue;
                w.killed = false;
            }
            h.push_back(w);
        }
        return h;
    }
};
played play(seeded_random& random, std::size_t steps, std::size_t readers, bool kills) {
    played out;
    std::uint64_t now = 1, state = 0, version = 0;
    std::optional<operation> writing;
    bool happened = false;
    std::vector<std::optional<operation>> reading(readers);
    for (std::size_t i = 0; i < steps; ++i) {
        ++now;
        const std::size_t who = random.below(readers + 1);
        if (who == readers) {
            if (!writing) {
                writing = operation{now, 0, write_kind, false, 0, version + 1, 0};
                happened = false;
            } else if (!happened && random.below(2) == 0) {
                state = ++version;
                happened = true;
            } else if (happened || (kills && random.below(3) == 0)) {
                writing->returned = now;
                writing->killed = !happened || (kills && random.below(10) == 0);
                out.writes.push_back(*writing);
                writing.reset();
            }
            continue;
        }
        auto& mine = reading[who];
        if (!mine) {
            mine = operation{now, 0, read_kind, false, 0, 0, state};
        } else if (random.below(2) == 0) {
            mine->answer = state;  // it may see another state as long as it is under way
        } else {
            mine->returned = now;
            out.reads.push_back(*mine);
            mine.reset();
        }
    }
    if (writing && happened) {
        writing->returned = ++now;
        out.writes.push_back(*writing);
    }
    return out;
}

TEST(Linearizability, AcceptsLongHistoriesAndRejectsThemWithOneAnswerChanged) {
    seeded_random random;
    std::uint64_t rejected = 0, changed = 0;
    // One changed answer in a hundred is right as well, so a share is told of many rounds only.
    const std::uint64_t rounds = std::max<std::uint64_t>(scaled(60), 60);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const played game = play(random, 3000, 4, round % 2 == 0);
        const auto whole = check_history<register_model>(game.all());
        ASSERT_TRUE(whole.ok()) << whole.violation;
        const auto fast = check_versions(game.writes, game.reads);
        ASSERT_TRUE(fast.ok()) << fast.violation;
        played other = game;
        operation& victim = other.reads[random.below(other.reads.size())];
        const std::uint64_t former = victim.answer;
        victim.answer = former >= 3 && random.below(2) == 0 ? former - 3 : former + 3;
        ++changed;
        const bool general = accepts(other.all()), versions = check_versions(other.writes, other.reads).ok();
        EXPECT_EQ(general, versions) << "the two checkers disagree about " << victim.text();
        rejected += general ? 0 : 1;
    }
    EXPECT_GT(rejected * 10, changed * 9) << "hardly any wrong answer was noticed";
}

TEST(Linearizability, VersionsAgreeWithTheGeneralCheckOnRandomReads) {
    seeded_random random;
    std::uint64_t right = 0, wrong = 0;
    for (std::uint64_t round = 0; round < scaled(3000); ++round) {
        played game = play(random, 30, 2, round % 2 == 0);
        for (operation& r : game.reads)
            if (random.below(4) == 0) r.answer = random.below(game.writes.size() + 2);
        const bool general = accepts(game.all());
        (general ? right : wrong) += 1;
        std::string text;
        for (const operation& op : game.all()) text += op.text() + "\n";
        ASSERT_EQ(check_versions(game.writes, game.reads).ok(), general) << text;
    }
    EXPECT_GT(right, 0U);
    EXPECT_GT(wrong, 0U);
}

TEST(Linearizability, KeysAreCheckedEachByItself) {
    const auto of_key = [](operation op, std::uint64_t key) {
        op.key = key;
        return op;
    };
    const history right{of_key(wrote(1, 2, 7), 1), of_key(read(3, 4, 0), 2), of_key(read(3, 4, 7), 1)};
    EXPECT_TRUE(check_by_key<register_model>(right).ok());
    EXPECT_EQ(check_by_key<register_model>(right).operations, 3U);
    const history wrong{of_key(wrote(1, 2, 7), 1), of_key(read(3, 4, 7), 2)};
    EXPECT_FALSE(check_by_key<register_model>(wrong).ok());
}

}  // namespace
