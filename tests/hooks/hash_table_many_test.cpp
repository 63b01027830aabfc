// SPDX-License-Identifier: Apache-2.0
// Two of many writers of a hash table, two operations each: all interleavings with few pre-emptions, and a death of
// either at every store, those of a takeover included (schedule_rig.hpp).
#include "hooks/table_grow_interleaving.hpp"
#include "hooks/table_many_interleaving.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

struct short_wide_shape {
    using key = std::uint64_t;
    using value = std::array<std::uint64_t, 3>;
};
using narrow = table_many_interleaving<narrow_shape>;
using wide = table_many_interleaving<short_wide_shape>;
constexpr auto insert = static_cast<std::uint32_t>(table_operation::try_insert),
               assign = static_cast<std::uint32_t>(table_operation::insert_or_assign),
               update = static_cast<std::uint32_t>(table_operation::update),
               erase = static_cast<std::uint32_t>(table_operation::erase);
constexpr std::uint32_t look = table_key_model::look, swap = table_key_model::swap;

TEST(Interleavings, ManyWritersOfOneKey) {
    narrow same({{{{{insert, narrow::near}, {erase, narrow::near}}}, {{{assign, narrow::near}, {swap, narrow::near}}}}},
                {});
    interleave("hash_table, many, narrow: insert, erase | assign, swap", same);
    expect_merging_loses_nothing(same, 1, true);
    wide values({{{{{update, wide::near}, {look, wide::near}}}, {{{swap, wide::near}, {erase, wide::near}}}}},
                {true, false, false, false});
    interleave("hash_table, many, wide: update, find | swap, erase", values);
}

TEST(Interleavings, ManyWritersOfTwoStripes) {
    narrow opposite(
        {{{{{insert, narrow::far}, {erase, narrow::far}}}, {{{insert, narrow::far_back}, {erase, narrow::far_back}}}}},
        {});
    interleave("hash_table, many, narrow: insert, erase | the same in opposite stripes", opposite);
    wide one({{{{{insert, wide::far}, {swap, wide::far}}}, {{{insert, wide::beside_far}, {erase, wide::far}}}}}, {});
    interleave("hash_table, many, wide: insert, swap | insert beside, erase", one);
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
