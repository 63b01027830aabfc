// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of one of many writers of a hash table, and of those who take over from it
// (store_rig.hpp). And two of them, two operations each: all interleavings with few pre-emptions, and a death of either
// at every store, those of a takeover included (schedule_rig.hpp). And three (trio_rig.hpp).
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "hooks/access_hooks.hpp"
#include "hooks/table_grow_interleaving.hpp"
#include "hooks/table_many_interleaving.hpp"
#include "hooks/table_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

using narrow = table_many_interleaving<narrow_shape>;
using wide = table_many_interleaving<short_wide_shape>;
constexpr auto insert = static_cast<std::uint32_t>(table_operation::try_insert),
               assign = static_cast<std::uint32_t>(table_operation::insert_or_assign),
               update = static_cast<std::uint32_t>(table_operation::update),
               erase = static_cast<std::uint32_t>(table_operation::erase);
constexpr std::uint32_t look = table_key_model::look, swap = table_key_model::swap, take = table_key_model::take;

TEST(StoreDeaths, ManyWritersOfAHashTableOfValuesInOneWord) {
    die_at_every_store<table_subject<narrow_shape, last_table_writer<narrow_shape>>>("hash_table, many, narrow",
                                                                                     70'000);
}
TEST(StoreDeaths, ManyWritersOfAHashTableOfValuesOfSeveralWords) {
    die_at_every_store<table_subject<short_wide_shape, last_table_writer<short_wide_shape>>>("hash_table, many, wide",
                                                                                             70'000);
}

TEST(Interleavings, ManyWritersOfOneKey) {
    narrow same({{{{{insert, narrow::near}, {erase, narrow::near}}}, {{{assign, narrow::near}, {swap, narrow::near}}}}},
                {});
    interleave("hash_table, many, narrow: insert, erase | assign, swap", same);
    expect_merging_loses_nothing(same, 1, true);
    wide values({{{{{update, wide::near}, {look, wide::near}}}, {{{swap, wide::near}, {erase, wide::near}}}}},
                {true, false, false, false});
    interleave("hash_table, many, wide: update, find | swap, erase", values);
}

// An entry is taken out only as long as it has the value that was seen: never one that another gave it meanwhile.
TEST(Interleavings, ManyWritersWhoTakeOutWhatTheyExpect) {
    narrow same({{{{{take, narrow::near, narrow::first_stamp}, {insert, narrow::near}}},
                  {{{assign, narrow::near}, {take, narrow::near, narrow::stamp_of_step(1, 0)}}}}},
                {true, false, false, false});
    interleave("hash_table, many, narrow: take, insert | assign, take", same);
    wide both({{{{{take, wide::far, wide::first_stamp}, {insert, wide::far}}},
                {{{take, wide::far, wide::first_stamp}, {update, wide::far}}}}},
              {false, true, false, false});
    interleave("hash_table, many, wide: take, insert | take, update", both);
}

TEST(Interleavings, ManyWritersOfTwoStripes) {
    narrow opposite(
        {{{{{insert, narrow::far}, {erase, narrow::far}}}, {{{insert, narrow::far_back}, {erase, narrow::far_back}}}}},
        {});
    interleave("hash_table, many, narrow: insert, erase | the same in opposite stripes", opposite);
    wide one({{{{{insert, wide::far}, {swap, wide::far}}}, {{{insert, wide::beside_far}, {erase, wide::far}}}}}, {});
    interleave("hash_table, many, wide: insert, swap | insert beside, erase", one);
}

// Two wait for the third's stripe, or one for both.
TEST(Interleavings, ThreeWritersOfAHashTable) {
    using three = table_many_interleaving<narrow_shape, 3>;
    three same({{{{{insert, three::near}, {erase, three::near}}},
                 {{{assign, three::near}, {swap, three::near}}},
                 {{{insert, three::near}, {take, three::near, three::stamp_of_step(1, 0)}}}}},
               {});
    interleave_three("hash_table, many, narrow: insert, erase | assign, swap | insert, take", same, 5'000);
    using wide_three = table_many_interleaving<short_wide_shape, 3>;
    wide_three far({{{{{insert, wide_three::far}, {erase, wide_three::far}}},
                     {{{insert, wide_three::far_back}, {erase, wide_three::far_back}}},
                     {{{insert, wide_three::beside_far}, {swap, wide_three::far}}}}},
                   {});
    interleave_three("hash_table, many, wide: insert, erase | the same in opposite stripes | insert beside, swap", far,
                     5'000);
}

// A writer that gives a stripe back while somebody reads its journal, and has it again at the next look at the stripe,
// with the count that was seen: it was between the two stores of giving back.
class one_who_comes_and_goes final : public access_listener {
 public:
    one_who_comes_and_goes(std::byte* held, std::byte* owner, std::uint32_t self, std::uint64_t home)
        : held_(held), owner_(owner), self_(self), home_(home) {
        come();
    }
    void before_store(std::byte*, std::size_t) noexcept override {}
    void before_load(const std::byte* at, std::size_t) noexcept override {
        const access_unwatched other;
        if (at == held_ && !away_)
            go();
        else if (at == owner_ && away_)
            come();
    }
    [[nodiscard]] unsigned journeys() const noexcept { return journeys_; }

 private:
    void come() noexcept {
        away_ = false;
        holdfast::detail::store_release<std::uint64_t>(held_, holdfast::detail::held_stripes::one(home_).word);
        holdfast::detail::store_release<std::uint32_t>(owner_, self_ + 1);
    }
    void go() noexcept {
        if (journeys_ != 0) return;  // a second one would raise the count
        ++journeys_;
        away_ = true;
        holdfast::detail::store_release<std::uint32_t>(owner_, 0);
        holdfast::detail::store_release<std::uint64_t>(held_, holdfast::detail::held_stripes::one(home_ + 1).word);
    }
    std::byte *held_, *owner_;
    std::uint32_t self_;
    std::uint64_t home_;
    bool away_ = false;
    unsigned journeys_ = 0;
};

TEST(HashTableManyBlame, AnOwnerThatIsElsewhereForAMomentIsNoDamage) {
    namespace layout = holdfast::layout;
    const auto geometry = many_geometry_for<std::uint64_t, std::uint64_t>(1000, 2);
    aligned_bytes bytes(geometry.body_bytes());
    writer_roll roll(2);
    many_writer<narrow_shape> waits(bytes.bytes(), geometry, roll, 0);
    waits.core().locks() = rolled_locks(roll, 0, 0);  // no patience
    const std::uint64_t key = nth_key<narrow_shape>(1);
    const auto& view = waits.bytes();
    const std::uint64_t home = view.stripe_of(view.hash(many_writer<narrow_shape>::as_bytes(key)).home(view.buckets));
    one_who_comes_and_goes other(view.journal_at(1) + layout::journal_held_offset,
                                 view.stripe(home) + layout::stripe_owner_offset, 1, home);
    table_answer answer;
    {
        const access_watch watch(bytes.bytes(), other);
        answer = waits.try_insert(key, 1);
    }
    EXPECT_EQ(other.journeys(), 1U);
    EXPECT_EQ(answer, table_answer::contended);
    EXPECT_EQ(waits.core().blocked_by(), 1U) << "it had the stripe at each look";
    EXPECT_FALSE(waits.reader().fault());
}

// Changes, and a check beside them, which takes a hundred times as long: who takes the stripe sees all that was done
// under it, while a find may tell of a time before.
TEST(Orders, HashTableMany) {
    narrow same({{{{{insert, narrow::near}, {erase, narrow::near}}}, {{{assign, narrow::near}, {swap, narrow::near}}}}},
                {});
    wide values({{{{{update, wide::near}, {swap, wide::near}}}, {{{swap, wide::near}, {erase, wide::near}}}}},
                {true, false, false, false});
    narrow opposite(
        {{{{{insert, narrow::far}, {erase, narrow::far}}}, {{{insert, narrow::far_back}, {erase, narrow::far_back}}}}},
        {});
    narrow checked({{{{{insert, narrow::far}, {erase, narrow::far}}},
                     {{{narrow::check, narrow::far}, {narrow::check, narrow::far}}}}},
                   {});
    expect_orders_matter("hash_table_many", {&same, &values, &opposite, {&checked, 0.12}}, 500);
}

TEST(Interleavings, ALeaderOfAGrowthBesideAWriter) {
    using growing = table_grow_interleaving<narrow_shape>;
    using lead = growing::lead;
    growing ends({lead::carry, lead::close}, {update, erase}, false, true);
    interleave("hash_table, many, grows: carry, close | update, erase", ends);
    growing begins({lead::open, lead::carry}, {erase, insert}, true, true);
    interleave("hash_table, many, grows: open, carry | erase, insert in two stripes", begins);
}

}  // namespace
