// SPDX-License-Identifier: Apache-2.0
// digest.hpp - the checksum of keys and values: one 64-bit sum for each region of 16 buckets.
//
// A region's digest is the sum of a term for every 8-byte word of its live nodes. Sums let the writer take one entry
// out and put another in without looking at the rest of the region, and let recovery do the same.
//
// (I1) Terms: detail/digest_term.hpp. Damage inside one word always changes the sum.
// (I2) A position is a distance from the start of the node array. A copy of a segment at another address has the same
//      digests.
// The digest is part of the layout. It finds accidents; who may write the segment can write the digest as well.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "holdfast/detail/digest_term.hpp"
#include "holdfast/detail/words.hpp"
#include "holdfast/hash_table/intent.hpp"
#include "holdfast/hash_table/view.hpp"

namespace holdfast::detail {

/// The terms of the words [from, to) at `words`, as those of the node at `node`. Cost: a multiplication for each word,
/// and one more.
template <class Byte, class Node>
[[nodiscard, gnu::always_inline]] inline std::uint64_t digest_words(const table_view<Byte, Node>& view,
                                                                    const std::byte* node, const std::byte* words,
                                                                    std::uint32_t from, std::uint32_t to) noexcept {
    std::uint64_t multiplier =
        digest_multiplier(static_cast<std::uint64_t>(node - view.nodes) + std::uint64_t{8} * from);
    std::uint64_t sum = 0;
    for (std::uint32_t i = from; i < to; ++i, multiplier += 8 * hash_multipliers[0])
        sum += digest_term(load_acquire<std::uint64_t>(words + std::size_t{8} * i), multiplier);
    return sum;
}

/// The terms of a whole node.
template <class Byte, class Node>
[[nodiscard, gnu::always_inline]] inline std::uint64_t digest_node(const table_view<Byte, Node>& view,
                                                                   const std::byte* node) noexcept {
    // The commonest size, without a loop.
    if (view.node_words == 2) return digest_words(view, node, node, 0, 2);
    return digest_words(view, node, node, 0, view.node_words);
}

/// The terms of those words at `words` that an update of the value of `node` may change.
template <class Byte, class Node>
[[nodiscard]] inline std::uint64_t digest_value(const table_view<Byte, Node>& view, const std::byte* node,
                                                const std::byte* words) noexcept {
    return digest_words(view, node, words, view.value_word, view.value_end);
}

/// The terms of all live nodes of a region, as they are now. Of the slot that an open intent names, if it lies there,
/// the words are left out that base leaves out, too.
template <class Byte, class Node>
[[nodiscard]] std::uint64_t digest_region(const table_view<Byte, Node>& view, std::uint64_t region,
                                          hash_table_intent intent) noexcept {
    std::uint64_t sum = 0;
    const std::uint64_t first = region * layout::buckets_per_region;
    for (std::uint64_t bucket = first; bucket < first + layout::buckets_per_region && bucket < view.buckets; ++bucket)
        for (unsigned place = 0; place < layout::tags_per_line; ++place) {
            if (!is_key_tag(tag_at(view.line(bucket), place))) continue;
            const std::uint64_t slot = bucket * layout::tags_per_line + place;
            const std::byte* node = view.node_at(bucket, place);
            if (!intent.is_open() || slot != intent.slot())
                sum += digest_node(view, node);
            else if (intent.what() == hash_table_intent::update)
                sum += digest_words(view, node, node, 0, view.value_word) +
                       digest_words(view, node, node, view.value_end, view.node_words);
        }
    return sum;
}

/// A region summed a piece at a time, beside whoever changes it. What comes of it is the region's digest, unless it was
/// changed meanwhile or is damaged: which of them digest_region() tells.
class region_sum {
 public:
    static constexpr std::uint64_t bytes_a_piece = std::uint64_t{256} << 10;

    /// One piece. Returns: whether that was the last; then take() is due.
    template <class Byte, class Node>
    [[nodiscard]] bool add_some(const table_view<Byte, Node>& view, std::uint64_t region) noexcept {
        const std::uint64_t first = region * layout::buckets_per_region * layout::tags_per_line;
        const std::uint64_t slots = std::min(layout::buckets_per_region * layout::tags_per_line, view.slots() - first);
        for (std::uint64_t looked_at = 0; next_ < slots && looked_at < bytes_a_piece; ++next_) {
            const std::uint64_t bucket = (first + next_) / layout::tags_per_line;
            const auto place = static_cast<unsigned>((first + next_) % layout::tags_per_line);
            if (!is_key_tag(tag_at(view.line(bucket), place))) continue;
            sum_ += digest_node(view, view.node_at(bucket, place));
            looked_at += view.node_bytes;
        }
        return next_ == slots;
    }
    /// The sum; the next one begins.
    [[nodiscard]] std::uint64_t take() noexcept {
        next_ = 0;
        return std::exchange(sum_, 0);
    }

 private:
    std::uint64_t next_ = 0;  // slot of the region
    std::uint64_t sum_ = 0;
};

}  // namespace holdfast::detail
