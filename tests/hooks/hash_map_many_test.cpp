// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of one of many writers of a hash map, and of those who take over from it
// (store_rig.hpp). And two of them, two operations each: the interleavings with few pre-emptions, and the deaths of
// either at a store, those of a takeover included; but for the long run a random part, since each end is judged by
// bringing back the map, its store and its table (schedule_rig.hpp, 0010). And three (trio_rig.hpp); and which of the
// memory orders they need (weak_interleaving.hpp).
#include "hooks/hash_map_many_interleaving.hpp"
#include "hooks/hash_map_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

constexpr auto set = map_number_model::set, erase = map_number_model::erase, find = map_number_model::find;

void try_all(const char* name, const hash_map_many_interleaving::steps& steps,
             std::uint64_t capacity = hash_map_many_interleaving::one_stripe) {
    hash_map_many_interleaving test(steps, capacity);
    interleave_in_the_long_run(4'000, name, test);
}

TEST(StoreDeaths, ManyWritersOfAHashMap) {
    die_at_every_store<hash_map_subject<last_map_writer>>("hash_map, many", 100'000, {8, 16});
}

TEST(Interleavings, ManyWritersOfOneKeyOfAHashMap) {
    try_all("hash_map, many: set, erase | set, set", {{{{{set, 1}, {erase, 1}}}, {{{set, 1}, {set, 1}}}}});
    try_all("hash_map, many: erase, set | erase, find and verify",
            {{{{{erase, 1}, {set, 1}}}, {{{erase, 1}, {find, 1}}}}});
}

TEST(Interleavings, ManyWritersOfTwoKeysOfAHashMap) {
    try_all("hash_map, many: set, erase | set another, set", {{{{{set, 0}, {erase, 0}}}, {{{set, 1}, {set, 0}}}}});
}

TEST(Interleavings, ManyWritersOfTwoStripesOfAHashMap) {
    try_all("hash_map, many, of two stripes: set, erase | set another, set",
            {{{{{set, 0}, {erase, 0}}}, {{{set, 1}, {set, 0}}}}}, hash_map_many_interleaving::two_stripes);
}

// All want one key; or two, each of a stripe of its own, while the third takes what either has brought.
TEST(Interleavings, ThreeWritersOfAHashMap) {
    using three = hash_maps_interleaving<3>;
    three same(three::steps{{{{{set, 1}, {erase, 1}}}, {{{set, 1}, {set, 1}}}, {{{erase, 1}, {find, 1, false}}}}});
    interleave_three("hash_map, many: set, erase | set, set | erase, find", same, 1'000);
    three other(
        three::steps{{{{{set, 0}, {find, 1, false}}}, {{{set, 1}, {find, 0, false}}}, {{{erase, 1}, {erase, 0}}}}},
        three::two_stripes);
    interleave_three("hash_map, many, of two stripes: set, find other | set other, find | erase other, erase", other,
                     1'000);
}

TEST(Orders, HashMapOfManyWriters) {
    hash_map_many_interleaving one({{{{{set, 1}, {erase, 1}}}, {{{set, 1}, {find, 1, false}}}}});
    hash_map_many_interleaving beside({{{{{erase, 1}, {set, 1}}}, {{{find, 1, false}, {find, 1, false}}}}});
    hash_map_many_interleaving checked({{{{{set, 1}, {erase, 1}}}, {{{set, 1}, {find, 1}}}}});
    expect_orders_matter("hash_map_many", {&one, &beside, {&checked, 0.2}}, 250);
}

}  // namespace
