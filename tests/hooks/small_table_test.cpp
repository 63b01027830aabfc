// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of a small table (store_rig.hpp), all interleavings of two operations of
// its writer and two finds with few pre-emptions and a death anywhere (schedule_rig.hpp), and which of its memory
// orders they need (weak_interleaving.hpp).
#include "hooks/small_table_interleaving.hpp"
#include "hooks/small_table_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;
using table = small_table_interleaving;
constexpr auto set = table::kind::set, erase = table::kind::erase, find = table::kind::find, check = table::kind::check,
               rest = table::kind::rest;

TEST(StoreDeaths, SmallTable) { die_at_every_store<small_table_subject>("small_table", 100'000, {8, 32}); }

// With room for two keys: each more is as many words more that a reader can stop at.
TEST(Interleavings, SmallTable) {
    table moved({{{erase, 1}, {set, 1}}}, {{{find, 1}, {find, 1}}}, {}, 2);
    interleave("small_table: erase, insert | find, find", moved);
    table reused({{{erase, 1}, {set, 2}}}, {{{find, 1}, {find, 2}}}, {}, 2);
    interleave("small_table: erase, insert another | find both", reused);
}
TEST(Interleavings, SmallTableVerifyBesideAWriter) {
    table updated({{{set, 1}, {rest, 0}}}, {{{find, 1}, {check, 0}}}, {}, 2);
    interleave("small_table: update | find, verify", updated);
    // A check beside a change of the keys stops at each word of three stores: five million schedules.
    table changed({{{set, 1}, {set, 2}}}, {{{find, 1}, {check, 0}}});
    interleave("small_table: update, insert | find, verify", changed);
}

TEST(Interleavings, SmallTableSuccessors) {
    table inserted({{{set, 2}, {set, 0}}}, {{{find, 2}, {find, 0}}});
    interleave_successors("small_table: insert, update, successor | find both", inserted);
}

TEST(Orders, SmallTable) {
    table moved({{{erase, 1}, {set, 1}}}, {{{find, 1}, {find, 1}}});
    // The reader takes a place for the key's that another one has, or none, until the writer puts the key there again.
    table again({{{erase, 2}, {set, 1}}}, {{{find, 1}, {find, 1}}}, {{erase, 1}, {set, 2}});
    table zero({{{set, 0}, {set, 1}}}, {{{find, 0}, {find, 0}}}, {{erase, 0}});
    // The place that is looked at first becomes that of a new key.
    table fresh({{{set, 1}, {set, 2}}}, {{{find, 2}, {find, 2}}}, {{erase, 0}});
    table checked({{{set, 1}, {set, 2}}}, {{{find, 2}, {check, 0}}});
    expect_orders_matter("small_table", {&moved, &again, &zero, &fresh, &checked}, 600);
}

}  // namespace
