// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of one of many writers of a block store, and of those who take over from
// it (store_rig.hpp). And two of them, two operations each: all interleavings with few pre-emptions, and a death of
// either at every store, those of a takeover included (schedule_rig.hpp).
#include "hooks/block_store_many_interleaving.hpp"
#include "hooks/block_store_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;
using does = block_store_many_interleaving::does;

void try_all(const char* name, const block_store_many_interleaving::steps& steps) {
    block_store_many_interleaving test(steps);
    interleave(name, test);
}

TEST(StoreDeaths, ManyWritersOfABlockStore) {
    die_at_every_store<block_store_subject<last_block_writer>>("block_store, many", 100'000);
}

TEST(Interleavings, ManyWritersOfABlockStoreLookForRoom) {
    try_all("block_store, many: store 2 units, 1 | store 1 unit, 2",
            {{{does::put_large, does::put_small}, {does::put_small, does::put_large}}});
    try_all("block_store, many: claim and drop, store | store, verify",
            {{{does::keep, does::put_small}, {does::put_small, does::look}}});
}

TEST(Interleavings, ManyWritersOfABlockStoreTakeTheSameValue) {
    try_all("block_store, many: free, store | free, store",
            {{{does::free_first, does::put_large}, {does::free_first, does::put_large}}});
    try_all("block_store, many: replace, free what went | replace, verify",
            {{{does::replace_first, does::free_first}, {does::replace_first, does::look}}});
    try_all("block_store, many: replace, store | free, store",
            {{{does::replace_first, does::put_small}, {does::free_first, does::put_small}}});
}

// What was just committed is met by enumeration and freed, before its writer has said that it is complete.
TEST(Interleavings, ManyWritersOfABlockStoreTakeWhatJustCame) {
    try_all("block_store, many: store, replace | free the last, free the last",
            {{{does::put_small, does::replace_first}, {does::late, does::late}}});
    try_all("block_store, many: replace, store | free the last, store",
            {{{does::replace_first, does::put_small}, {does::late, does::put_small}}});
}

}  // namespace
