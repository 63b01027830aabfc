// SPDX-License-Identifier: Apache-2.0
// A hash table of one writer that grows or shrinks: all interleavings of its writer's steps with a reader that follows,
// with few pre-emptions and a death anywhere, and with a successor at each store (schedule_rig.hpp); a death at every
// store of random histories (store_rig.hpp). And one of many writers that shrinks, beside another writer.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "hooks/table_grow_interleaving.hpp"
#include "hooks/table_grow_one_interleaving.hpp"
#include "hooks/table_grow_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

using narrow = table_grow_one_interleaving<narrow_shape>;
using wide = table_grow_one_interleaving<short_wide_shape>;
constexpr auto insert = table_operation::try_insert, update = table_operation::update, erase = table_operation::erase;

TEST(StoreDeaths, HashTableThatGrowsOfValuesInOneWord) {
    die_at_every_store<table_grow_subject<narrow_shape>>("hash_table, grows, narrow", 100'000);
}
TEST(StoreDeaths, HashTableThatGrowsOfValuesOfSeveralWords) {
    die_at_every_store<table_grow_subject<short_wide_shape>>("hash_table, grows, wide", 100'000);
}

// How what was tried ended; a file left behind is one that has a second name, NAME.growing.
struct ends {
    std::uint64_t stayed = 0, moved = 0, left_behind = 0;

    void tell() const {
        std::printf(
            "hash_table, grows: %llu ends in the old generation, %llu in the new, %llu with a file left behind\n",
            static_cast<unsigned long long>(stayed), static_cast<unsigned long long>(moved),
            static_cast<unsigned long long>(left_behind));
    }
};
// One at a time: logical processes have one place for their mappings.
template <class Subject>
void grow_beside_a_reader(const char* name, const typename Subject::script& what, ends& all) {
    Subject subject(what);
    interleave(name, subject);
    all.stayed += subject.stayed();
    all.moved += subject.moved();
    all.left_behind += subject.left_behind();
}

TEST(Interleavings, HashTableThatGrowsBesideFinds) {
    ends all;
    for (const unsigned left : {narrow::all_steps, 5U, 4U, 3U})
        grow_beside_a_reader<narrow>("hash_table, grows: erase, insert | find both",
                                     {{{{erase, 1}, {insert, 0}}}, {1, 0}, left}, all);
    all.tell();
}
TEST(Interleavings, HashTableThatTakesTheNameBesideFinds) {
    ends all;
    grow_beside_a_reader<narrow>("hash_table, grows: update, update and take the name | find, find",
                                 {{{{update, 1}, {update, 1}}}, {1, 1}, 2}, all);
    grow_beside_a_reader<wide>("hash_table, grows: update and take the name, erase | find, find",
                               {{{{update, 1}, {erase, 1}}}, {1, 1}, 1}, all);
    grow_beside_a_reader<narrow>("hash_table, grows: erase and take the name, insert | find both",
                                 {{{{erase, 1}, {insert, 0}}}, {1, 0}, 1}, all);
    all.tell();
    if (std::getenv("HOLDFAST_TEST_SCHEDULE") != nullptr) return;
    EXPECT_GT(all.stayed, 100U);
    EXPECT_GT(all.moved, 100U);
    EXPECT_GT(all.left_behind, 10U);
}
TEST(Interleavings, HashTableThatTakesTheNameBesideScans) {
    ends all;
    grow_beside_a_reader<narrow>("hash_table, grows: update and take the name, erase | scan, scan",
                                 {{{{update, 1}, {erase, 2}}}, {narrow::scan_all, narrow::scan_all}, 1}, all);
    grow_beside_a_reader<narrow>("hash_table, grows: erase, insert and take the name | scan, find by who comes",
                                 {{{{erase, 1}, {insert, 0}}}, {narrow::scan_all, narrow::come_and_find}, 2}, all);
    all.tell();
}
TEST(Interleavings, HashTableThatShrinksBesideAReader) {
    ends all;
    grow_beside_a_reader<narrow>("hash_table, shrinks: update, update and take the name | find, find",
                                 {{{{update, 1}, {update, 1}}}, {1, 1}, 2, false}, all);
    grow_beside_a_reader<narrow>("hash_table, shrinks: erase and take the name, insert | scan, find",
                                 {{{{erase, 1}, {insert, 0}}}, {narrow::scan_all, 0}, 1, false}, all);
    all.tell();
    if (std::getenv("HOLDFAST_TEST_SCHEDULE") != nullptr) return;
    EXPECT_GT(all.moved, 100U);
}
TEST(Interleavings, HashTableThatGrowsLosesNothingByMerging) {
    narrow subject({{{{erase, 1}, {insert, 0}}}, {1, 0}, 1});
    expect_merging_loses_nothing(subject, 1, true);
}
TEST(Interleavings, HashTableThatGrowsSuccessors) {
    narrow subject({{{{erase, 1}, {insert, 0}}}, {1, 0}, 1});
    interleave_successors(
        "hash_table, grows: erase and take the name, insert, a successor that grows it anew | find both", subject);
}
TEST(Interleavings, HashTableThatShrinksSuccessors) {
    narrow subject({{{{erase, 1}, {insert, 0}}}, {1, 0}, 1, false});
    interleave_successors(
        "hash_table, shrinks: erase and take the name, insert, a successor that shrinks it anew | find both", subject);
}

// Growing: tests/hooks/hash_table_many_test.cpp.
TEST(Interleavings, ALeaderOfAShrinkageBesideAWriter) {
    using shrinking = table_grow_interleaving<narrow_shape>;
    using lead = shrinking::lead;
    const auto kind = [](table_operation what) { return static_cast<std::uint32_t>(what); };
    shrinking ends({lead::carry, lead::close}, {kind(update), kind(erase)}, false, true, false);
    interleave("hash_table, many, shrinks: carry, close | update, erase", ends);
    shrinking begins({lead::open, lead::carry}, {kind(erase), kind(insert)}, true, true, false);
    interleave("hash_table, many, shrinks: open, carry | erase, insert in two stripes", begins);
}

}  // namespace
