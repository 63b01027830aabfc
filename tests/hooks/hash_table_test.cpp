// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of the hash table, for three shapes of entries (store_rig.hpp), and all
// interleavings of two operations of each side with few pre-emptions and a death anywhere (schedule_rig.hpp); and
// which of its memory orders they need (weak_interleaving.hpp).
#include "hooks/table_interleaving.hpp"
#include "hooks/table_subject.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast::test;

TEST(StoreDeaths, HashTableOfValuesInOneWord) {
    die_at_every_store<table_subject<narrow_shape>>("hash_table, narrow", 150'000);
}
TEST(StoreDeaths, HashTableOfValuesOfSeveralWords) {
    die_at_every_store<table_subject<short_wide_shape>>("hash_table, wide", 150'000);
}
TEST(StoreDeaths, HashTableOfValuesThatShareAWordWithTheKey) {
    die_at_every_store<table_subject<short_crooked_shape>>("hash_table, crooked", 100'000);
}

using narrow = table_interleaving<narrow_shape>;
using wide = table_interleaving<short_wide_shape>;
constexpr auto assign = table_operation::insert_or_assign, insert = table_operation::try_insert,
               update = table_operation::update, erase = table_operation::erase;

TEST(Interleavings, HashTableUpdatesBesideFinds) {
    wide of_words({{{update, 1}, {update, 1}}}, {1, 1});
    interleave("hash_table, wide: update, update | find, find", of_words);
    narrow of_one({{{update, 1}, {assign, 1}}}, {1, 1});
    interleave("hash_table, narrow: update, assign | find, find", of_one);
}
TEST(Interleavings, HashTableEntriesThatComeAndGo) {
    wide reused({{{erase, 1}, {insert, 0}}}, {1, 0});
    interleave("hash_table, wide: erase, insert | find both", reused);
    narrow back({{{insert, 0}, {erase, 0}}}, {0, 0});
    interleave("hash_table, narrow: insert, erase | find, find", back);
}
TEST(Interleavings, HashTableVerifyBesideAWriter) {
    wide checked({{{update, 1}, {erase, 1}}}, {wide::verify_all, 1});
    interleave("hash_table, wide: update, erase | verify, find", checked);
}

TEST(Interleavings, HashTableScanBesideAWriter) {
    wide updated({{{update, 1}, {erase, 1}}}, {wide::scan_all, wide::scan_all});
    interleave("hash_table, wide: update, erase | scan, scan", updated);
    narrow reused({{{erase, 1}, {insert, 0}}}, {narrow::scan_all, 0});
    interleave("hash_table, narrow: erase, insert | scan, find", reused);
}
TEST(Interleavings, HashTableSuccessors) {
    wide updates({{{update, 1}, {update, 1}}}, {1, 1}), reused({{{erase, 1}, {insert, 0}}}, {1, 0});
    interleave_successors("hash_table, wide: update, update, successor | find, find", updates);
    interleave_successors("hash_table, wide: erase, insert, successor | find both", reused);
    wide scanned({{{update, 1}, {erase, 2}}}, {wide::scan_all, 2});
    interleave_successors("hash_table, wide: update, erase, successor | scan, find", scanned);
}

// Counters are lowered beside finds of keys that have gone past: none is missed.
TEST(Interleavings, HashTableRecountBesideAReader) {
    constexpr auto recount = narrow::recount_all;
    narrow behind({{{assign, recount}, {erase, 1}}}, {1, 2}, true);
    interleave("hash_table, crowded: recount, erase | find, find another", behind);
    narrow before({{{insert, 0}, {assign, recount}}}, {0, 3}, true);
    interleave("hash_table, crowded: insert, recount | find, find another", before);
    narrow checked({{{assign, recount}, {update, 1}}}, {narrow::verify_all, 1}, true);
    interleave("hash_table, crowded: recount, update | verify, find", checked);
    narrow scanned({{{assign, recount}, {insert, 0}}}, {narrow::scan_all, 0}, true);
    interleave("hash_table, crowded: recount, insert | scan, find", scanned);
    interleave_successors("hash_table, crowded: recount, erase, successor | find, find another", behind);
    interleave_successors("hash_table, crowded: insert, recount, successor | find, find another", before);
}

TEST(Orders, HashTable) {
    wide updates({{{update, 1}, {update, 1}}}, {1, 1}), reused({{{erase, 1}, {insert, 0}}}, {1, 0});
    narrow one({{{insert, 0}, {erase, 0}}}, {0, 0});
    narrow crowded({{{erase, 1}, {assign, narrow::recount_all}}}, {narrow::verify_all, narrow::verify_all}, true);
    expect_orders_matter("hash_table", {&updates, &reused, &one, {&crowded, 0.25}});
}

}  // namespace
