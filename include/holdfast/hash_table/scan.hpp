// SPDX-License-Identifier: Apache-2.0
// scan.hpp - walking over all entries of a hash table while its writer works.
//
// The walk goes over the tag lines: 26 slots for each 64 bytes read, and only occupied slots are copied, each
// consistent in itself. An entry that is there from the beginning to the end of the walk comes exactly once, since
// entries never move. One that is inserted or erased meanwhile may come or not; erased and inserted again it may come
// twice.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "holdfast/hash_table/find.hpp"

namespace holdfast::detail {

template <class Node, tag_match Match = tag_match::best>
class hash_table_scanner {
 public:
    hash_table_scanner() = default;
    /// Starts at slot `from`; a number behind the last slot is the end. Requires: the finder outlives the scanner.
    hash_table_scanner(const hash_table_finder<Node, Match>& finder, std::uint64_t from) noexcept
        : finder_(&finder), bucket_(from / layout::tags_per_line) {
        if (bucket_ >= finder_->bytes().buckets) return;
        places_ = finder_->occupied(bucket_);
        places_ &= ~((std::uint32_t{1} << (from % layout::tags_per_line)) - 1);
    }

    /// Copies the next entry to `key` and `value`. Returns: its slot, or no_slot at the end.
    std::uint64_t next(std::byte* key, std::byte* value) noexcept {
        for (;;) {
            while (places_ != 0) {
                const std::uint64_t slot =
                    bucket_ * layout::tags_per_line + static_cast<unsigned>(std::countr_zero(places_));
                places_ &= places_ - 1;
                if (finder_->read_entry(slot, key, value)) return slot;
            }
            if (bucket_ + 1 >= finder_->bytes().buckets) {
                bucket_ = finder_->bytes().buckets;
                return no_slot;
            }
            places_ = finder_->occupied(++bucket_);
        }
    }

 private:
    const hash_table_finder<Node, Match>* finder_ = nullptr;
    std::uint64_t bucket_ = 0;
    std::uint32_t places_ = 0;
};

}  // namespace holdfast::detail
