// SPDX-License-Identifier: Apache-2.0
// core.hpp - the algorithms of the hash table over plain bytes, without segments, leases or schemas.
//
//   layout/hash_table_layout.hpp  the bytes, and the checked geometry
//   detail/hash.hpp               the hash of keys
//   detail/words.hpp              atomic words
//   hash_table/line.hpp           tag lines
//   hash_table/view.hpp           addresses, probe sequence
//   hash_table/digest.hpp         checksum of keys and values
//   hash_table/intent.hpp         the running operation, in one word
//   hash_table/find.hpp           readers
//   hash_table/batch.hpp          many keys at once
//   hash_table/scan.hpp           all entries
//   hash_table/mutate.hpp         the writer
//   hash_table/recover.hpp        after a crash
//   hash_table/verify.hpp         full check
//
// Everything is a template over a node description: fixed_node<K, V> (sizes known to the compiler) or runtime_node
// (sizes from the segment). Use: make a table_view from bytes and a checked geometry; a hash_table_finder reads it, a
// hash_table_mutator writes it, recover() comes before the first write, verify() checks it.
#pragma once

#include "holdfast/hash_table/batch.hpp"    // IWYU pragma: export
#include "holdfast/hash_table/find.hpp"     // IWYU pragma: export
#include "holdfast/hash_table/mutate.hpp"   // IWYU pragma: export
#include "holdfast/hash_table/recover.hpp"  // IWYU pragma: export
#include "holdfast/hash_table/scan.hpp"     // IWYU pragma: export
#include "holdfast/hash_table/verify.hpp"   // IWYU pragma: export
#include "holdfast/hash_table/view.hpp"     // IWYU pragma: export
