// SPDX-License-Identifier: Apache-2.0
// Two of many writers of a hash map, two operations each: all interleavings with few pre-emptions, and a death of
// either at every store, those of a takeover included (schedule_rig.hpp).
#include "hooks/hash_map_many_interleaving.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

constexpr auto set = map_number_model::set, erase = map_number_model::erase, find = map_number_model::find;

void try_all(const char* name, const hash_map_many_interleaving::steps& steps) {
    hash_map_many_interleaving test(steps);
    interleave(name, test, 4'000);
}

TEST(Interleavings, ManyWritersOfOneKeyOfAHashMap) {
    try_all("hash_map, many: set, erase | set, set", {{{{{set, 1}, {erase, 1}}}, {{{set, 1}, {set, 1}}}}});
    try_all("hash_map, many: erase, set | erase, find and verify",
            {{{{{erase, 1}, {set, 1}}}, {{{erase, 1}, {find, 1}}}}});
}

TEST(Interleavings, ManyWritersOfTwoKeysOfAHashMap) {
    try_all("hash_map, many: set, erase | set another, set", {{{{{set, 0}, {erase, 0}}}, {{{set, 1}, {set, 0}}}}});
}

}  // namespace
