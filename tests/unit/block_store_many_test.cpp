// SPDX-License-Identifier: Apache-2.0
// Many writers of a block store: each other's values, claims, who wins, dead writers, and what must be refused.
#include "holdfast/block_store/many.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/block_many_bench.hpp"
#include "support/image_corruption.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/segment_tools.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using u64 = std::uint64_t;
using store = basic_block_store<writers::many>;

// ---- over plain bytes: three writers at one store, one operation at a time

class ManyBlocks : public ::testing::Test {
 protected:
    [[nodiscard]] many_block_writer attach(unsigned process) { return block_writer_of(bench_.view(), roll_, process); }
    [[nodiscard]] std::string damage() { return damage_of(bench_.view().as_const()); }
    [[nodiscard]] std::string wrong(const block_model& model) {
        if (std::string text = difference(bench_.reader(), model); !text.empty()) return text;
        if (std::string text = miscounted(bench_.view().as_const()); !text.empty()) return text;
        return damage();
    }

    block_bench bench_{96, 64, 4};
    writer_roll roll_;
};

TEST_F(ManyBlocks, ZeroedBytesAreAnEmptyStore) {
    EXPECT_EQ(wrong({}), "");
    EXPECT_EQ(bench_.reader().usage().units_free(), 96U);
    many_block_writer first = attach(0);
    EXPECT_EQ(leaks(bench_.view(), first), "");
}

TEST_F(ManyBlocks, ReadAndFreeEachOthersValues) {
    many_block_writer writer[] = {attach(0), attach(1), attach(2)};
    block_model model;
    for (u64 n = 0; n < 30; ++n) {
        const block_content what{n, static_cast<std::size_t>(n * 7)};
        const block_result kept = put(writer[n % 3], what);
        ASSERT_TRUE(kept);
        EXPECT_TRUE(model.emplace(kept.handle, what).second);
    }
    EXPECT_EQ(wrong(model), "");
    for (u64 n = 0; !model.empty(); ++n) {
        const u64 handle = model.begin()->first;
        EXPECT_EQ(writer[n % 3].free(handle), outcome::ok);
        EXPECT_EQ(writer[(n + 1) % 3].free(handle), outcome::stale);
        model.erase(handle);
        ASSERT_EQ(wrong(model), "");
    }
    EXPECT_FALSE(something_open(bench_.view()));
    EXPECT_EQ(leaks(bench_.view(), writer[1]), "");
}

TEST_F(ManyBlocks, ClaimsAreFreeUnitsThatNobodyElseTakes) {
    many_block_writer one = attach(0), other = attach(1);
    ASSERT_EQ(one.prepare(64 * 90 - layout::block_head_bytes), outcome::ok);
    const u64 pending = one.pending();
    EXPECT_NE(pending, 0U);
    EXPECT_FALSE(bench_.reader().contains(pending));
    EXPECT_EQ(bench_.reader().usage().units_free(), 96U);
    EXPECT_EQ(damage(), "");
    for (unsigned n = 0; n < 6; ++n) ASSERT_TRUE(put(other, {n, 10})) << n;
    EXPECT_EQ(put(other, {9, 10}).status, outcome::full);
    const block_result kept = one.commit();
    EXPECT_EQ(kept.handle, pending);
    EXPECT_EQ(bench_.reader().usage().units_free(), 0U);
    EXPECT_EQ(one.free(kept.handle), outcome::ok);
    ASSERT_EQ(one.prepare(64 * 80), outcome::ok);
    EXPECT_NE(one.pending(), pending);
    EXPECT_EQ(put(other, {9, 64 * 20}).status, outcome::full);
    one.discard();
    EXPECT_EQ(one.pending(), 0U);
    EXPECT_TRUE(put(other, {9, 64 * 20}));
    EXPECT_EQ(damage(), "");
}

// What one has freed the other's map does not know: a value that fits in one run alone is not laid out in pieces for
// it.
TEST_F(ManyBlocks, AValueThatFillsAStoreThatOthersEmptiedFits) {
    many_block_writer one = attach(0), other = attach(1);
    std::vector<u64> handles;
    for (unsigned n = 0; n < 96; ++n) handles.push_back(put(n % 3 == 0 ? one : other, {n, 10}).handle);
    EXPECT_EQ(put(one, {1, 10}).status, outcome::full);
    for (unsigned n = 0; n < 96; ++n)  // some of them by itself, which it knows
        ASSERT_EQ((n % 5 == 0 ? one : other).free(handles[n]), outcome::ok);
    const block_content all{7, static_cast<std::size_t>(bench_.geometry().value_bytes_max())};
    const block_result kept = put(one, all);
    ASSERT_TRUE(kept);
    EXPECT_EQ(wrong({{kept.handle, all}}), "");
}

TEST_F(ManyBlocks, ADeadWritersClaimIsDroppedByWhoLacksRoom) {
    many_block_writer one = attach(0), other = attach(1);
    ASSERT_EQ(one.prepare(64 * 90), outcome::ok);
    ASSERT_EQ(put(other, {1, 64 * 10}).status, outcome::full);
    EXPECT_EQ(other.takeovers(), 0U);
    roll_.die(0);
    EXPECT_EQ(bench_.reader().usage().units_free(), 96U);
    ASSERT_TRUE(put(other, {1, 64 * 90}));
    EXPECT_EQ(other.takeovers(), 1U);
    EXPECT_FALSE(something_open(bench_.view()));
    EXPECT_EQ(damage(), "");
}

TEST_F(ManyBlocks, AttachingDropsWhatTheDeadClaimed) {
    many_block_writer one = attach(0);
    ASSERT_EQ(one.prepare(64 * 90), outcome::ok);
    const u64 claimed = one.pending();
    roll_.die(0);
    many_block_writer next = attach(1);
    EXPECT_TRUE(next.recovery().claims_dropped);
    EXPECT_FALSE(something_open(bench_.view()));
    roll_.alive[0] = true;
    many_block_writer again = attach(0);  // the same slot: its numbers go on
    EXPECT_FALSE(again.recovery().claims_dropped);
    ASSERT_EQ(again.prepare(1), outcome::ok);
    EXPECT_GT(again.pending(), claimed);
    again.discard();
    EXPECT_EQ(leaks(bench_.view(), next), "");
}

// A record that its writer did not live to put in force says by its number which word its operation would have left.
// The slot's next holder must not make that word by a claim of its own.
TEST_F(ManyBlocks, ANumberInARecordThatIsNotInForceIsNotGivenOutAgain) {
    for (const bool replaces : {false, true}) {
        block_bench bench(3, 64, 2);
        writer_roll roll;
        many_block_writer one = block_writer_of(bench.view(), roll, 0), other = block_writer_of(bench.view(), roll, 1);
        const u64 old = put(one, {1, 40}).handle;
        ASSERT_TRUE(put(other, {2, 40}));
        ASSERT_EQ(bench.view().index_of(old), 0U);
        if (replaces) {
            ASSERT_EQ(one.prepare(40), outcome::ok);
        }
        // Killed in front of the selector: of all stores those to the record are made.
        const holdfast::detail::block_slots slots(bench.view());
        const std::vector<std::byte> before(bench.body().begin(), bench.body().end());
        const std::span<std::byte> record(slots.record_at(0, slots.selector(0) / 2 + 1), layout::block_record_bytes);
        ASSERT_EQ(replaces ? one.commit(old).status : one.free(old), outcome::ok);
        const std::vector<std::byte> written(record.begin(), record.end());
        std::ranges::copy(before, bench.body().begin());
        std::ranges::copy(written, record.begin());
        ASSERT_EQ(damage_of(bench.view().as_const()), "");

        for (const bool first : {true, false}) {
            roll.die(0);
            roll.alive[0] = true;
            many_block_writer next = block_writer_of(bench.view(), roll, 0);
            EXPECT_FALSE(next.recovery().counts_rebuilt);
            if (first) {
                ASSERT_EQ(other.free(old), outcome::ok);
            }
            ASSERT_EQ(next.prepare(40), outcome::ok);
            EXPECT_EQ(bench.view().index_of(next.pending()), 0U) << "what the record was to take lay there";
            EXPECT_EQ(damage_of(bench.view().as_const()), "") << "a claim is open";
            EXPECT_TRUE(bench.reader().usage());
        }
        roll.die(0);
        roll.alive[0] = true;
        many_block_writer last = block_writer_of(bench.view(), roll, 0);
        EXPECT_FALSE(last.recovery().counts_rebuilt);
        EXPECT_TRUE(last.recovery().claims_dropped);
        EXPECT_EQ(leaks(bench.view(), last), "");
    }
}

TEST_F(ManyBlocks, OfTwoWhoReplaceOneSucceeds) {
    many_block_writer one = attach(0), other = attach(1);
    const u64 old = put(one, {1, 100}).handle;
    const block_result replaced = put(other, {2, 200}, old);
    ASSERT_TRUE(replaced);
    EXPECT_EQ(put(one, {3, 50}, old).status, outcome::stale);
    EXPECT_EQ(wrong({{replaced.handle, {2, 200}}}), "");
    EXPECT_FALSE(something_open(bench_.view()));
    EXPECT_EQ(leaks(bench_.view(), one), "");
}

TEST_F(ManyBlocks, NumbersGoRoundAndSkipNothingThatStands) {
    // The smallest round: a handle of 62 bits for 2^32 - 1 units would leave 2^24; over these few units it is set
    // forward.
    many_block_writer one = attach(0);
    const holdfast::detail::block_slots slots(bench_.view());
    EXPECT_EQ(slots.later(0, 5), 5U);
    EXPECT_EQ(slots.later(7, 0), 7U);
    EXPECT_EQ(slots.later(7, 5), 7U);
    EXPECT_EQ(slots.later(5, 7), 7U);
    EXPECT_EQ(slots.later(slots.number_max(), 3), 3U);
    EXPECT_EQ(slots.later(3, slots.number_max()), 3U);
    // The last claim but one of the round, as a dead writer named it.
    const u64 last = bench_.view().handle(0, slots.serial(0, slots.number_max() - 1));
    holdfast::detail::store_release<u64>(slots.claim_at(0), last);
    many_block_writer next = attach(0);
    std::vector<u64> numbers;
    for (unsigned n = 0; n < 3; ++n)
        numbers.push_back(slots.number_of(bench_.view().serial_of(put(next, {n, 1}).handle)));
    EXPECT_THAT(numbers, ::testing::ElementsAre(slots.number_max(), 1U, 2U));
    EXPECT_EQ(damage(), "");
    many_block_writer after = attach(0);
    EXPECT_EQ(slots.number_of(bench_.view().serial_of(put(after, {9, 1}).handle)), 3U);
}

// Three writers do anything, and die at any time between operations, with claims open or not; a model knows what is
// there. Nothing is ever lost: used + free = capacity holds after each operation, and every unit can be had in the end.
TEST_F(ManyBlocks, RandomHistoriesFollowAModel) {
    const u64 seed = choose_seed();
    for (u64 round = 0; round < scaled(60); ++round) {
        seeded_random random(seed + round);
        const auto below = [&](u64 n) { return random() % n; };
        block_bench bench(96, 64, 3);  // slots need not be a power of two
        writer_roll roll;
        std::vector<many_block_writer> writer;
        for (unsigned p = 0; p < 3; ++p) writer.push_back(block_writer_of(bench.view(), roll, p));
        block_model model;
        std::set<u64> given;
        const auto any = [&] {
            return std::next(model.begin(), static_cast<std::ptrdiff_t>(below(model.size())))->first;
        };
        for (unsigned step = 0; step < 400; ++step) {
            const auto p = static_cast<unsigned>(below(3));
            const block_content what{step, static_cast<std::size_t>(below(3) == 0 ? below(2000) : below(150))};
            const u64 old = !model.empty() && below(3) == 0 ? any() : 0;
            switch (below(8)) {
                case 0:
                case 1:
                case 2:
                    if (const block_result kept = put(writer[p], what, old); kept) {
                        ASSERT_TRUE(given.insert(kept.handle).second) << "a handle was given out twice";
                        model[kept.handle] = what;
                        model.erase(old);
                    } else {
                        ASSERT_EQ(kept.status, outcome::full);
                    }
                    break;
                case 3:
                case 4:
                    if (!model.empty()) {
                        const u64 handle = any();
                        ASSERT_EQ(writer[p].free(handle), outcome::ok);
                        model.erase(handle);
                    }
                    break;
                case 5: (void)writer[p].prepare(what.bytes); break;
                case 6: ASSERT_EQ(writer[p].free(below(~u64{0})), outcome::stale); break;
                default:
                    roll.die(p);
                    ASSERT_EQ(damage_of(bench.view().as_const()), "");
                    roll.alive[p] = true;
                    writer[p] = block_writer_of(bench.view(), roll, p);
                    break;
            }
            const block_store_usage usage = bench.reader().usage();
            ASSERT_TRUE(usage);
            ASSERT_EQ(usage.values, model.size());
            if (step % 16 == 0) {
                ASSERT_EQ(difference(bench.reader(), model), "");
                ASSERT_EQ(miscounted(bench.view().as_const()), "");
                ASSERT_EQ(damage_of(bench.view().as_const()), "");
            }
        }
        for (unsigned p = 1; p < 3; ++p) roll.die(p);  // with what they have claimed
        ASSERT_EQ(leaks(bench.view(), writer[0]), "");
    }
}

// A replacement that came second shows its value for a moment. Begun before the check and not over behind it, it leaves
// no trace in its journal: what was counted meanwhile is no damage. The findings, of words that are none, are where the
// check is met in the middle.
TEST_F(ManyBlocks, AValueThatIsWithdrawnWhileAllIsCheckedIsNoDamage) {
    using record = holdfast::detail::block_record;
    many_block_writer one = attach(0), other = attach(1);
    const u64 old = put(one, {1, 10}).handle, fresh = put(one, {2, 100}).handle;
    ASSERT_EQ(bench_.view().index_of(fresh), 1U);
    // As if `fresh` was to replace the old one: C3 is stored, C5 is not.
    const holdfast::detail::block_slots slots(bench_.view());
    std::byte* const head = bench_.view().word_at(1);
    const auto word_is = [&](std::byte* at, u64 word) { holdfast::detail::store_release<u64>(at, word); };
    word_is(head, slots.claim_of(fresh));
    holdfast::detail::begin_operation(slots, 0, slots.selector(0) / 2 + 1,
                                      record{{fresh, old, 1, 1, 2 | u64{1} << 32, slots.serial(0, 3), 0, 0}});
    ASSERT_EQ(damage(), "");
    ASSERT_EQ(miscounted(bench_.view().as_const()), "");
    ASSERT_EQ(other.free(old), outcome::ok);
    ASSERT_EQ(damage(), "") << "a writer that was killed here moves nothing";

    word_is(bench_.view().word_at(0), 1);
    word_is(bench_.view().word_at(90), 1);
    std::vector<block_damage> found;
    const auto seen = holdfast::detail::verify_blocks(bench_.view().as_const(), [&](const block_finding& f) {
        found.push_back(f.what);
        if (f.unit == 0) word_is(head, fresh);                   // C5
        if (f.unit == 90) word_is(head, slots.claim_of(fresh));  // withdrawn, behind an F3 that failed
        return true;
    });
    EXPECT_THAT(found, ::testing::ElementsAre(block_damage::word, block_damage::word));
    EXPECT_TRUE(seen.busy);
    EXPECT_EQ(seen.values, 1U) << "it was met";
}

// ---- damage

class ManyBlocksDamaged : public ManyBlocks {
 protected:
    ManyBlocksDamaged() {
        many_block_writer writer[] = {attach(0), attach(1), attach(2)};
        for (u64 n = 0; n < 12; ++n) {
            const block_content what{n, static_cast<std::size_t>(n * 20)};
            model_[put(writer[n % 3], what).handle] = what;
        }
        const u64 gone = model_.begin()->first;
        EXPECT_EQ(writer[2].free(gone), outcome::ok);
        model_.erase(gone);
        EXPECT_EQ(writer[1].prepare(200), outcome::ok);  // and dies
        for (unsigned p = 0; p < 4; ++p) roll_.die(p);
        base_.assign(bench_.body().begin(), bench_.body().end());
    }
    void restore() { std::ranges::copy(base_, bench_.body().begin()); }

    block_model model_;
    std::vector<std::byte> base_;
};

TEST_F(ManyBlocksDamaged, EveryFlippedBitOfTheRecordsInForceIsFoundAndCountedOver) {
    const holdfast::detail::block_slots slots(bench_.view());
    for (u64 slot = 0; slot < 3; ++slot) {
        const u64 operation = slots.selector(slot) / 2;
        const auto at = static_cast<std::size_t>(slots.record_at(slot, operation) - bench_.body().data());
        for (std::size_t bit = 0; bit < 8 * layout::block_record_bytes; ++bit) {
            restore();
            bench_.body()[at + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
            ASSERT_NE(damage(), "") << "slot " << slot << ", bit " << bit;
            roll_.alive[3] = true;
            many_block_writer next = attach(3);
            ASSERT_TRUE(next.recovery().counts_rebuilt) << "slot " << slot << ", bit " << bit;
            ASSERT_EQ(miscounted(bench_.view().as_const()), "") << "slot " << slot << ", bit " << bit;
            ASSERT_EQ(difference(bench_.reader(), model_), "");
            ASSERT_NE(damage().find("rebuilt"), std::string::npos) << "it goes on to say so";
            roll_.die(3);
        }
    }
}

TEST_F(ManyBlocksDamaged, EveryFlippedBitOfAWordIsFoundWhereItMeansSomething) {
    for (u64 unit = 0; unit < bench_.geometry().units; ++unit) {
        if (!bench_.view().in_use(unit)) continue;
        for (unsigned bit = 0; bit < 64; ++bit) {
            restore();
            bench_.body()[layout::block_words_offset + 8 * unit + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
            ASSERT_NE(damage(), "") << "unit " << unit << ", bit " << bit;
        }
    }
}

TEST_F(ManyBlocksDamaged, AClaimThatNoJournalNamesIsFound) {
    const holdfast::detail::block_slots slots(bench_.view());
    EXPECT_EQ(damage(), "") << "an open claim of a dead writer is no damage";
    bench_.body()[static_cast<std::size_t>(slots.claim_at(1) - bench_.body().data())] ^= std::byte{1};
    EXPECT_NE(damage(), "");
}

// Slots need not be a power of two: then handles can be made up that name none.
TEST(ManyBlocksOfThreeSlots, AWordThatNamesNoneOfThemIsFound) {
    block_bench bench(20, 64, 3);
    writer_roll roll;
    many_block_writer writer = block_writer_of(bench.view(), roll, 0);
    const u64 kept = put(writer, {1, 10}).handle;
    const holdfast::detail::block_slots slots(bench.view());
    for (const u64 slot : {u64{2}, u64{3}}) {
        const u64 unit = bench.view().index_of(kept) + 1;
        const u64 handle = bench.view().handle(unit, slots.serial(slot, 1));
        holdfast::detail::store_release<u64>(bench.view().word_at(unit), slots.dropped(handle));
        EXPECT_EQ(damage_of(bench.view().as_const()).empty(), slot < 3) << "a freed value";
        holdfast::detail::store_release<u64>(bench.view().word_at(unit), 0);
    }
}

TEST_F(ManyBlocksDamaged, NumbersGoOnBehindThoseOfADamagedJournal) {
    const holdfast::detail::block_slots slots(bench_.view());
    std::set<u64> seen;
    for (u64 i = 0; i < bench_.geometry().units; ++i) {
        const u64 word = bench_.view().word(i);
        seen.insert(slots.dropped(word) | layout::block_live_bit);
    }
    for (const std::byte junk : {std::byte{0x5A}, std::byte{0xFF}}) {
        restore();
        std::ranges::fill_n(slots.selector_at(1), layout::block_journal_bytes, junk);
        roll_.alive[1] = true;
        many_block_writer next = attach(1);
        EXPECT_TRUE(next.recovery().counts_rebuilt);
        EXPECT_TRUE(bench_.reader().usage()) << "what was begun anew is sound";
        EXPECT_NE(damage().find("rebuilt"), std::string::npos) << damage();
        for (unsigned n = 0; n < 20; ++n) {
            const block_result kept = put(next, {n, 1});
            ASSERT_TRUE(kept);
            const u64 number = slots.number_of(bench_.view().serial_of(kept.handle));
            for (const u64 handle : seen) {
                if (bench_.view().is_handle(handle) && slots.slot_of(handle) == 1) {
                    ASSERT_GT(number, slots.number_of(bench_.view().serial_of(handle)));
                }
            }
        }
        EXPECT_TRUE(bench_.reader().usage());
        EXPECT_NE(damage().find("rebuilt"), std::string::npos) << damage();
        roll_.die(1);
    }
}

// Together, by one pass over the words: each slot's claims are dropped, and its numbers go on behind its own.
TEST_F(ManyBlocksDamaged, AllJournalsAreMendedEachByWhatIsItsOwn) {
    const holdfast::detail::block_slots slots(bench_.view());
    const auto number_of = [&](u64 handle) { return slots.number_of(bench_.view().serial_of(handle)); };
    for (const bool whole : {true, false}) {
        restore();
        std::array<u64, 4> highest{};
        for (u64 unit = 0; unit < bench_.geometry().units; ++unit) {
            const u64 handle = slots.dropped(bench_.view().word(unit)) | layout::block_live_bit;
            if (!bench_.view().is_handle(handle) || slots.slot_of(handle) >= highest.size()) continue;
            u64& number = highest[slots.slot_of(handle)];
            number = std::max(number, number_of(handle));
        }
        for (u64 slot = 0; slot < 3; ++slot) {
            if (whole)  // of the numbers only the words tell
                std::ranges::fill_n(slots.selector_at(slot), layout::block_journal_bytes, std::byte{0x5A});
            else
                slots.record_at(slot, slots.selector(slot) / 2)[8] ^= std::byte{1};
        }
        roll_.alive[3] = true;
        many_block_writer next = attach(3);
        EXPECT_TRUE(next.recovery().counts_rebuilt);
        for (unsigned slot = 0; slot < 3; ++slot) {
            EXPECT_FALSE(slots.left_something(slot)) << slot;
            EXPECT_EQ(roll_.held_by[slot], slot) << "its lock was given back";
        }
        EXPECT_EQ(miscounted(bench_.view().as_const()), "");
        for (unsigned slot = 0; slot < 3; ++slot) {
            roll_.alive[slot] = true;
            many_block_writer own = attach(slot);
            EXPECT_FALSE(own.recovery().counts_rebuilt) << "that is done";
            // The last of slot 2 is that of a free, which no value ever had, and its damaged record told of it alone.
            const u64 last = highest[slot] - (slot == 2 && !whole ? 1 : 0);
            EXPECT_EQ(number_of(put(own, {slot, 1}).handle), last + 1) << "slot " << slot;
            roll_.die(slot);
        }
        roll_.die(3);
    }
}

// Who frees a value puts a number of its own in the place of the value's: then no word tells of it.
TEST_F(ManyBlocks, NumbersThatNoWordCarriesAreNotGivenOutAgainBehindADamagedJournal) {
    const holdfast::detail::block_slots slots(bench_.view());
    std::set<u64> gone;
    {
        many_block_writer one = attach(1), other = attach(2);
        for (unsigned n = 0; n < 20; ++n) gone.insert(put(one, {n, 1}).handle);
        for (const u64 handle : gone) ASSERT_EQ(other.free(handle), outcome::ok);
    }
    *slots.record_at(1, slots.selector(1) / 2) ^= std::byte{1};
    many_block_writer next = attach(1);
    ASSERT_TRUE(next.recovery().counts_rebuilt);
    for (unsigned n = 0; n < 20; ++n) {
        const block_result kept = put(next, {n, 1});
        ASSERT_TRUE(kept);
        ASSERT_FALSE(gone.contains(kept.handle)) << "a handle that was freed names another value";
    }
    EXPECT_EQ(miscounted(bench_.view().as_const()), "");
}

// A value that stands since more than half a round of numbers tells nothing of the last one.
TEST_F(ManyBlocks, NumbersGoOnBehindTheLastClaimOfADamagedJournalWhateverOldWordsSay) {
    const holdfast::detail::block_slots slots(bench_.view());
    const auto number_of = [&](u64 handle) { return slots.number_of(bench_.view().serial_of(handle)); };
    many_block_writer other = attach(2);
    u64 last = 0;
    {
        many_block_writer one = attach(1);
        ASSERT_EQ(number_of(put(one, {0, 1}).handle), 1U);  // and stands
    }
    // As if all numbers up to that one had come and gone.
    const u64 half = slots.number_max() / 2;
    holdfast::detail::store_release<u64>(slots.claim_at(1), bench_.view().handle(0, slots.serial(1, half - 2)));
    {
        many_block_writer one = attach(1);
        std::vector<u64> gone;
        for (unsigned n = 0; n < 6; ++n) gone.push_back(put(one, {n, 1}).handle);
        for (const u64 handle : gone) ASSERT_EQ(other.free(handle), outcome::ok);
        last = number_of(gone.back());
        ASSERT_GT(last, half + 1);
    }
    *slots.record_at(1, slots.selector(1) / 2) ^= std::byte{1};
    many_block_writer next = attach(1);
    ASSERT_TRUE(next.recovery().counts_rebuilt);
    EXPECT_EQ(number_of(put(next, {9, 1}).handle), last + 1);
}

// Any bytes in journals and words: nothing crashes, hangs or leaves the store.
TEST_F(ManyBlocksDamaged, AnyBytesAreReadVerifiedRecoveredAndWrittenOn) {
    seeded_random random;
    const holdfast::detail::block_slots slots(bench_.view());
    const auto journals = static_cast<std::size_t>(slots.selector_at(0) - bench_.body().data());
    const std::size_t words = layout::block_words_offset, bytes = 8 * bench_.geometry().units;
    for (u64 round = 0; round < scaled(3000); ++round) {
        restore();
        for (u64 change = random() % 8 + 1; change != 0; --change) {
            const bool journal = random() % 2 == 0;
            const std::size_t at = journal ? journals + random() % (4 * layout::block_journal_bytes) / 8 * 8
                                           : words + random() % bytes / 8 * 8;
            u64 word = 0;
            switch (random() % 5) {
                case 0: word = random(); break;
                case 1: word = bench_.view().word(random() % bench_.geometry().units); break;
                case 2: word = slots.claim_of(bench_.view().word(random() % bench_.geometry().units)); break;
                case 3: word = ~u64{0}; break;
                default: std::memcpy(&word, bench_.body().data() + at, 8), word ^= u64{1} << (random() % 64);
            }
            std::memcpy(bench_.body().data() + at, &word, 8);
        }
        (void)damage();
        (void)bench_.reader().usage();
        std::vector<std::byte> out(300);
        for (const u64 h : handles_of(bench_.reader())) (void)bench_.reader().read(h, out);
        for (unsigned p = 0; p < 4; ++p) roll_.alive[p] = p < 2;
        many_block_writer next[] = {attach(0), attach(1)};
        for (unsigned n = 0; n < 12; ++n) {
            many_block_writer& by = next[n % 2];
            const std::vector<u64> handles = handles_of(by.reader());
            const u64 any = handles.empty() ? 0 : handles[random() % handles.size()];
            by.locks() = rolled_locks(roll_, n % 2, 3);  // little patience: a made-up record may name who lives
            if (random() % 2 == 0)
                (void)put(by, {n, static_cast<std::size_t>(random() % 900)}, random() % 2 == 0 ? any : 0);
            else
                (void)by.free(any);
        }
        (void)damage();
        (void)bench_.reader().usage();
    }
}

// ---- segments

class BlockStoreMany : public segment_test {
 protected:
    [[nodiscard]] std::string uri() const { return name_.uri(); }
    static std::vector<std::byte> text(std::size_t bytes) { return whole_object(bytes, bytes); }
    static std::string damage_of(const auto& in) {
        std::string text;
        const auto seen = in.verify([&](const block_finding& f) {
            text += std::string(describe(f.what)) + "; ";
            return true;
        });
        return seen.busy ? text + "busy" : text;
    }
    unique_posix_name name_{"blocks"};
};

TEST_F(BlockStoreMany, HandlesShareOneStore) {
    store first = store::create(uri(), {.bytes = 100'000, .value_bytes = 100, .writer_slots = 3});
    store second = store::attach(uri()), third = store::attach(uri());
    EXPECT_EQ((std::set{first.writer_slot(), second.writer_slot(), third.writer_slot()}),
              (std::set<std::uint32_t>{0, 1, 2}));
    EXPECT_EQ(refusal_of([&] { (void)store::attach(uri()); }), errc::writer_alive);
    std::vector<u64> handles;
    for (std::size_t n = 0; n < 300; ++n) handles.push_back((n % 2 == 0 ? first : second).allocate(text(n)).handle);
    const block_store_reader reader = block_store_reader::attach(uri());
    std::vector<std::byte> out;
    for (std::size_t n = 0; n < 300; ++n) {
        ASSERT_TRUE(reader.read(handles[n], out));
        ASSERT_EQ(out, text(n));
    }
    EXPECT_EQ(reader.usage().values, 300U);
    for (const u64 handle : handles) ASSERT_EQ(third.free(handle), outcome::ok);
    EXPECT_EQ(third.free(handles[0]), outcome::stale);
    EXPECT_EQ(first.usage().units_used, 0U);
    EXPECT_EQ(damage_of(reader), "");
}

TEST_F(BlockStoreMany, IsRefusedToWritersOfOneAndTheOtherWayRound) {
    {
        const store many = store::create(uri(), {.bytes = 1000});
    }
    EXPECT_EQ(refusal_of([&] { (void)block_store::attach(uri()); }), errc::geometry_mismatch);
    const unique_posix_name other{"one"};
    {
        const block_store one = block_store::create(other.uri(), {.bytes = 1000});
    }
    EXPECT_EQ(refusal_of([&] { (void)store::attach(other.uri()); }), errc::geometry_mismatch);
    EXPECT_TRUE(block_store_reader::attach(uri()).usage());
    EXPECT_EQ(block_store::attach(other.uri()).segment().info().container_version, layout::block_store_version);
}

TEST_F(BlockStoreMany, RefusesWhatNoHandleCanTell) {
    EXPECT_EQ(refusal_of([&] { (void)store::create("heap:", {.bytes = 1000, .writer_slots = 0}); }),
              errc::invalid_argument);
    EXPECT_EQ(refusal_of([&] { (void)store::create("heap:", {.bytes = 1000, .writer_slots = 1025}); }),
              errc::invalid_argument);
    const layout::block_store_request large{u64{1} << 38, 0, 64, 1024};
    EXPECT_NE(layout::check(large), nullptr) << "32 bits of units and 10 of writers leave 20";
}

// Units that a freed value left must be claimed anew before its handle is given out again.
TEST_F(BlockStoreMany, RefusesWhereNumbersGoRoundSoonerThanItsSearch) {
    const auto refused = [](u64 units, u64 unit_bytes, u64 slots) {
        return layout::check(layout::block_store_request{units * unit_bytes, 0, unit_bytes, slots}) != nullptr;
    };
    for (const u64 unit_bytes : {u64{64}, u64{4096}}) {
        EXPECT_TRUE(refused(u64{1} << 26, unit_bytes, 1024)) << "26 bits of units and 10 of writers leave 26";
        EXPECT_FALSE(refused(u64{1} << 25, unit_bytes, 1024));
        EXPECT_TRUE(refused(u64{1} << 28, unit_bytes, 1024)) << "24 are left";
        EXPECT_FALSE(refused(u64{1} << 28, unit_bytes, 16));
        EXPECT_TRUE(refused((u64{1} << 28) + 1, unit_bytes, 16));
        EXPECT_FALSE(refused(u64{1} << 30, unit_bytes, 1));
        EXPECT_FALSE(refused(layout::block_units_max, unit_bytes, 0)) << "stores of one writer are what they were";
    }
    // Those that exist are read as ever.
    const layout::block_store_geometry made{u64{1} << 26, 64, 1024};
    layout::block_store_geometry out;
    EXPECT_EQ(layout::read_block_store_geometry(layout::geometry_words_of(made), made.body_bytes(), out), nullptr);
}

TEST_F(BlockStoreMany, EveryGeometryWordIsChecked) {
    const layout::block_store_geometry g{1000, 64, 5};
    layout::block_store_geometry out;
    const auto sound = layout::geometry_words_of(g);
    EXPECT_EQ(layout::read_block_store_geometry(sound, g.body_bytes(), out), nullptr);
    EXPECT_EQ(out, g);
    for (std::size_t i = 0; i < sound.size(); ++i)
        for (unsigned bit = 0; bit < 64; ++bit) {
            auto words = sound;
            words[i] ^= u64{1} << bit;
            const char* why = layout::read_block_store_geometry(words, g.body_bytes(), out);
            // Slots within one page of journals leave all offsets as they are: such a number is possible.
            if (i == 4 && words[4] >= 1 && words[4] <= 16) continue;
            EXPECT_NE(why, nullptr) << "word " << i << " bit " << bit;
        }
}

TEST_F(BlockStoreMany, AForkedHandleRefusesToWrite) {
    store mine = store::create(uri(), {.bytes = 10'000});
    ASSERT_EQ(mine.prepare(100), outcome::ok);
    child_process child([&] {
        const bool refused = mine.allocate({}).status == outcome::read_only &&
                             mine.commit().status == outcome::read_only && mine.free(1) == outcome::read_only;
        mine.discard();
        ::_exit(refused ? 0 : 1);
    });
    EXPECT_EQ(child.wait().code, 0);
    EXPECT_TRUE(mine.commit());
}

// Who finishes for a dead one may be stopped in that, and others then wait for it.
TEST_F(BlockStoreMany, WhoFinishesForTheDeadIsNamedInItsPlace) {
    store mine = store::create(uri(), {.bytes = 6400, .unit_bytes = 64});
    child_process dies([&] {
        store other = store::attach(uri());
        (void)other.prepare(5000);
        ::raise(SIGKILL);
    });
    (void)dies.wait();
    const holdfast::detail::block_view<const std::byte> view(mine.segment().bytes(), mine.geometry());
    const holdfast::detail::block_slots slots(view);
    ASSERT_EQ(slots.pid(1), static_cast<u64>(dies.pid()));
    EXPECT_TRUE(mine.allocate(text(5000)));
    EXPECT_EQ(mine.takeovers(), 1U);
    EXPECT_EQ(slots.pid(1), static_cast<u64>(::getpid()));
}

TEST_F(BlockStoreMany, AHandleThatGoesLeavesItsClaimToTheNext) {
    store mine = store::create(uri(), {.bytes = 6400, .unit_bytes = 64});
    {
        store other = store::attach(uri());
        ASSERT_EQ(other.prepare(5000), outcome::ok);
        EXPECT_EQ(mine.allocate(text(5000)).status, outcome::full);
    }
    EXPECT_TRUE(mine.allocate(text(5000)));
    EXPECT_EQ(mine.takeovers(), 1U);
    EXPECT_EQ(damage_of(mine), "");
}

}  // namespace
