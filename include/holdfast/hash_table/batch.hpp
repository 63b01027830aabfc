// SPDX-License-Identifier: Apache-2.0
// batch.hpp - many keys at once, so that their cache misses overlap.
//
// One lookup waits for memory twice: for the tag line and for the node. A processor looks only two to four lookups
// ahead by itself. Groups of 32 keys go through three passes: hash and ask for the tag line; match and ask for the
// first candidate's node, or for the first pair of lines where the key may have gone on, if it is not known to be
// absent by then; then the rest of an ordinary find, from what the match showed, whose lines have arrived. A table that
// fits into a core's second cache gives nothing to wait for: there each key is found at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "holdfast/detail/prefetch.hpp"
#include "holdfast/hash_table/find.hpp"

namespace holdfast::detail {

inline constexpr std::size_t batch_group = 32;

/// Finds `count` keys that lie one after the other; calls found(index, slot) for each, in order, after its value was
/// copied to value_of(index). A slot of no_slot means absent.
template <class Node, tag_match Match, class ValueOf, class Found>
void find_batch(const hash_table_finder<Node, Match>& finder, const std::byte* keys, std::size_t count,
                ValueOf&& value_of, Found&& found) {
    const auto& view = finder.bytes();
    const std::size_t key_bytes = view.node.key_bytes();
    if (!view.prefetches) {
        for (std::size_t i = 0; i < count; ++i) found(i, finder.find(keys + i * key_bytes, value_of(i)));
        return;
    }
    for (std::size_t from = 0; from < count; from += batch_group) {
        const std::size_t n = count - from < batch_group ? count - from : batch_group;
        hash_parts hashes[batch_group];
        std::uint64_t homes[batch_group];
        for (std::size_t i = 0; i < n; ++i) {
            hashes[i] = view.hash(keys + (from + i) * key_bytes);
            homes[i] = hashes[i].home(view.buckets);
            view.prefetch_line(homes[i]);
        }
        typename hash_table_finder<Node, Match>::sighting seen[batch_group];
        std::uint32_t absent = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const auto home = finder.bucket_at(homes[i]);
            seen[i] = finder.look(home, hashes[i]);
            if (seen[i].places != 0) {
                prefetch(view.node_at(homes[i], static_cast<unsigned>(std::countr_zero(seen[i].places))));
            } else if (finder.is_absent(home, seen[i], hashes[i])) {
                absent |= std::uint32_t{1} << i;
            } else {
                probe_pairs pair(homes[i], hashes[i], view.buckets);
                pair.next();
                view.prefetch_line(pair.first());
                view.prefetch_line(pair.second());
            }
        }
        for (std::size_t i = 0; i < n; ++i) {
            const std::byte* key = keys + (from + i) * key_bytes;
            const bool is_absent = (absent >> i & 1U) != 0;
            found(from + i, is_absent ? no_slot
                                      : finder.find_from(seen[i], hashes[i], finder.bucket_at(homes[i]), key,
                                                         value_of(from + i)));
        }
    }
}

}  // namespace holdfast::detail
