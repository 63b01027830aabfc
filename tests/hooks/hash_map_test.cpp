// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of a hash map (store_rig.hpp), and all interleavings of two operations of
// each side with few pre-emptions and a death anywhere (schedule_rig.hpp); and
// which of its memory orders they need (weak_interleaving.hpp).
#include "hooks/hash_map_interleaving.hpp"
#include "hooks/hash_map_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

TEST(StoreDeaths, HashMap) { die_at_every_store<hash_map_subject>("hash_map", 200'000, {8, 16}); }

TEST(Interleavings, HashMap) {
    hash_map_interleaving same(false, 1), other(false, 0), erased(true, 1);
    interleave("hash_map: set, set another | find, find", same, 100'000);
    interleave("hash_map: set, set another | find, find the other", other, 100'000);
    interleave("hash_map: erase, set another | find, find", erased, 40'000);
}

TEST(Orders, HashMap) {
    hash_map_interleaving same(false, 1), other(false, 0), erased(true, 1);
    expect_orders_matter("hash_map", 4, {&same, &other, &erased}, 500);
}

}  // namespace
