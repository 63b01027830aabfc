// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of a block store (store_rig.hpp), and all interleavings of two operations
// of each side with few pre-emptions and a death anywhere (schedule_rig.hpp); and which of its memory orders they need
// (weak_interleaving.hpp).
#include "hooks/block_store_interleaving.hpp"
#include "hooks/block_store_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

TEST(StoreDeaths, BlockStore) { die_at_every_store<block_store_subject<one_block_writer>>("block_store", 600'000); }

using asks = block_store_interleaving::asks;

TEST(Interleavings, BlockStoreReplacesBesideReads) {
    block_store_interleaving same(true, asks::same), other(true, asks::other), verify(true, asks::verify);
    interleave("block_store: replace, store | read, read", same);
    interleave("block_store: replace, store | read, read another", other);
    interleave("block_store: replace, store | read, verify", verify);
}
TEST(Interleavings, BlockStoreFreesBesideReads) {
    block_store_interleaving same(false, asks::same), usage(false, asks::usage), verify(false, asks::verify);
    interleave("block_store: free, store | read, read", same);
    interleave("block_store: free, store | read, usage", usage);
    interleave("block_store: free, store | read, verify", verify);
}

TEST(Interleavings, BlockStoreScanBesideAWriter) {
    block_store_interleaving replaced(true, asks::scan), freed(false, asks::scan);
    interleave("block_store: replace, store | read, scan", replaced);
    interleave("block_store: free, store | read, scan", freed);
}
TEST(Interleavings, BlockStoreSuccessors) {
    block_store_interleaving replaced(true, asks::same), freed(false, asks::verify), scanned(false, asks::scan);
    interleave_successors("block_store: replace, store, successor | read, read", replaced);
    interleave_successors("block_store: free, store, successor | read, verify", freed);
    interleave_successors("block_store: free, store, successor | read, scan", scanned);
}

TEST(Orders, BlockStore) {
    block_store_interleaving replaces(true, asks::same), frees(false, asks::same), verified(true, asks::verify);
    expect_orders_matter("block_store", {&replaces, &frees, &verified});
}

}  // namespace
