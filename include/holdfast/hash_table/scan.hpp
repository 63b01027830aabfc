// SPDX-License-Identifier: Apache-2.0
// scan.hpp - walking over all entries of a hash table while its writer works.
//
// The walk goes over the tag lines: 26 slots for each 64 bytes read, and only occupied slots are copied, each
// consistent in itself. An entry that is there from the beginning to the end of the walk comes exactly once, since
// entries never move. One that is inserted or erased meanwhile may come or not; erased and inserted again it may come
// twice.
// A table that grows or shrinks meanwhile goes on in another segment, where all this would not hold from one slot to
// the next. So the scan of a handle keeps the mapping that it began in, and goes on there to its end, over the entries
// as they were when the next generation took that one's place.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "holdfast/hash_table/find.hpp"

namespace holdfast::detail {

/// How far a walk has come. The finder is the same with each call.
class scan_position {
 public:
    scan_position() = default;
    /// Starts at slot `from`; a number behind the last slot is the end.
    template <class Finder>
    scan_position(const Finder& finder, std::uint64_t from) noexcept : bucket_(from / layout::tags_per_line) {
        if (bucket_ >= finder.bytes().buckets) return;
        places_ = finder.occupied(bucket_);
        places_ &= ~((std::uint32_t{1} << (from % layout::tags_per_line)) - 1);
    }

    /// Copies the next entry to `key` and `value`. Returns: its slot, or no_slot at the end.
    template <class Finder>
    std::uint64_t next(const Finder& finder, std::byte* key, std::byte* value) noexcept {
        for (;;) {
            while (places_ != 0) {
                const std::uint64_t slot =
                    bucket_ * layout::tags_per_line + static_cast<unsigned>(std::countr_zero(places_));
                places_ &= places_ - 1;
                if (finder.read_entry(slot, key, value)) return slot;
            }
            if (bucket_ + 1 >= finder.bytes().buckets) {
                bucket_ = finder.bytes().buckets;
                return no_slot;
            }
            places_ = finder.occupied(++bucket_);
        }
    }

 private:
    std::uint64_t bucket_ = 0;
    std::uint32_t places_ = 0;
};

/// A walk over bytes that stay where they are.
template <class Node, tag_match Match = tag_match::best>
class hash_table_scanner {
 public:
    hash_table_scanner() = default;
    /// Requires: the finder outlives the scanner, and is not assigned to.
    hash_table_scanner(const hash_table_finder<Node, Match>& finder, std::uint64_t from) noexcept
        : finder_(&finder), at_(finder, from) {}

    /// As scan_position::next().
    std::uint64_t next(std::byte* key, std::byte* value) noexcept { return at_.next(*finder_, key, value); }

 private:
    const hash_table_finder<Node, Match>* finder_ = nullptr;
    scan_position at_;
};

/// The scan of a handle, which may go over to another generation meanwhile. Keeps that mapping until it goes.
template <class Node>
class hash_table_scan {
 public:
    hash_table_scan() = default;
    /// `of`: the handle's finder over `mapping`. Requires: it stays where it is until the scan has gone.
    hash_table_scan(std::shared_ptr<const void> mapping, const hash_table_finder<Node>& of, std::uint64_t from) noexcept
        : mapping_(std::move(mapping)), of_(&of), own_(of.bytes()), at_(own_, from) {}

    /// As scan_position::next(). What it meets is the handle's fault().
    std::uint64_t next(std::byte* key, std::byte* value) noexcept {
        const std::uint64_t slot = at_.next(own_, key, value);
        if (const std::optional<errc> met = own_.fault()) [[unlikely]] {
            of_->latch(*met);
            (void)own_.clear_contended();  // the handle's own clear_contended() is to be the last word
        }
        return slot;
    }

 private:
    std::shared_ptr<const void> mapping_;
    const hash_table_finder<Node>* of_ = nullptr;
    hash_table_finder<Node> own_;
    scan_position at_;
};

}  // namespace holdfast::detail
