// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of an array, for four shapes of elements (store_rig.hpp), and all
// interleavings of two operations of each side with few pre-emptions and a death anywhere (schedule_rig.hpp); and
// which of its memory orders they need (weak_interleaving.hpp). A record that is carried out again is many stores: its
// deaths are tried more seldom.
#include "hooks/array_interleaving.hpp"
#include "hooks/array_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

TEST(StoreDeaths, ArrayOfWords) {
    die_at_every_store<array_subject<few_narrow_elements>>("array, narrow", 150'000, {8, 32});
}
TEST(StoreDeaths, ArrayOfCrumbs) {
    die_at_every_store<array_subject<few_crumb_elements>>("array, crumbs", 100'000, {8, 32});
}
TEST(StoreDeaths, ArrayOfWideElements) {
    die_at_every_store<array_subject<few_wide_elements>>("array, wide", 100'000, {8, 32});
}
TEST(StoreDeaths, ArrayOfElementsLargerThanAGroup) {
    die_at_every_store<array_subject<few_large_elements>>("array, large", 60'000, {64, 64});
}

TEST(Interleavings, ArrayOfWideElements) {
    using wide = array_interleaving<std::array<std::uint64_t, 3>>;
    wide one(8, {{{1, 1}, {1, 1}}}, {{{1, 1}, {1, 1}}});
    interleave("array, wide: store, store | load, load", one);
    wide crossing(34, {{{31, 2}, {32, 1}}}, {{{31, 2}, {31, 1}}});
    interleave("array, wide: range, store | range across groups, load", crossing);
    using group = array_interleaving<std::array<std::uint64_t, 65>>;  // one a group
    group borders(3, {{{0, 2}, {1, 1}}}, {{{0, 2}, {0, 1}}});
    (void)interleave_up_to(volume(20'000), "array, of 65 words: range, store | range, load", borders);  // of 10^8
    wide checked(8, {{{1, 2}, {2, 1}}}, {{{0, 0}, {1, 2}}});
    interleave("array, wide: range, store | verify, range", checked);
}
TEST(Interleavings, ArrayOfWords) {
    using narrow = array_interleaving<std::uint64_t>;
    narrow both(6, {{{1, 2}, {2, 1}}}, {{{1, 2}, {1, 2}}});
    interleave("array, narrow: range, store | loads, loads", both);
    narrow checked(6, {{{1, 2}, {2, 1}}}, {{{0, 0}, {1, 2}}});
    interleave("array, narrow: range, store | verify, loads", checked);
}

TEST(Interleavings, ArraySuccessors) {
    using wide = array_interleaving<std::array<std::uint64_t, 3>>;
    wide loads(8, {{{1, 2}, {2, 1}}}, {{{1, 2}, {1, 1}}}), checked(8, {{{1, 2}, {2, 1}}}, {{{0, 0}, {1, 2}}});
    interleave_successors("array, wide: range, store, successor | range, load", loads);
    interleave_successors("array, wide: range, store, successor | verify, range", checked);
    using narrow = array_interleaving<std::uint64_t>;
    narrow words(6, {{{1, 2}, {2, 1}}}, {{{1, 2}, {1, 2}}});
    interleave_successors("array, narrow: range, store, successor | loads, loads", words);
}

TEST(Interleavings, ArrayLosesNothingByMerging) {
    using wide = array_interleaving<std::array<std::uint64_t, 3>>;
    wide one(8, {{{1, 1}, {1, 1}}}, {{{1, 1}, {1, 1}}});
    expect_merging_loses_nothing(one, 2, true);
}

TEST(Orders, Array) {
    using wide = array_interleaving<std::array<std::uint64_t, 3>>;
    wide one(8, {{{1, 1}, {1, 1}}}, {{{1, 1}, {1, 1}}}), range(8, {{{1, 2}, {2, 1}}}, {{{1, 2}, {1, 2}}});
    wide checked(8, {{{1, 2}, {2, 1}}}, {{{0, 0}, {1, 2}}});
    expect_orders_matter("array", {&one, &range, &checked});
}

}  // namespace
