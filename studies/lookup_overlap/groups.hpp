// SPDX-License-Identifier: Apache-2.0
// groups.hpp - the three passes of find_many (holdfast/hash_table/batch.hpp) over groups of a size of one's own: the
// product's are of 32, and its marks for the keys of a group fit into 32 bits.
//
// The passes are written out once more here, as the product has no use for another size; what they do with a bucket is
// the product's. That nothing is lost by that shows at 32 keys and fewer at a call, where both do the same.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/hash_table/batch.hpp"
#include "ways.hpp"

namespace study {

/// find_many of a table of numbers, in groups of up to so many keys.
template <std::size_t Group>
class grouped_finder {
    static_assert(Group <= 64, "a bit for each key of a group");

 public:
    explicit grouped_finder(const number_table& of)
        : finder_(typename finder::view(of.segment().bytes(), of.geometry(), {})) {}

    void find_many(keys asked, std::span<std::optional<std::uint64_t>> found) {
        answers to{found};
        const auto* const bytes = reinterpret_cast<const std::byte*>(asked.data());
        if (!finder_.bytes().prefetches) return holdfast::detail::find_one_by_one(finder_, bytes, asked.size(), to);
        for (std::size_t from = 0; from < asked.size(); from += Group) {
            const std::size_t n = std::min(asked.size() - from, Group);
            const std::size_t seen = find_group(bytes + from * sizeof(std::uint64_t), from, n, to);
            mostly_there_ = holdfast::detail::batch_there_min * seen >= n;
        }
    }

 private:
    using finder = holdfast::detail::hash_table_finder<holdfast::detail::fixed_node<std::uint64_t, std::uint64_t>>;
    using answers = holdfast::detail::optional_answers<std::uint64_t>;
    using sight = typename finder::sight;
    using hash_parts = holdfast::detail::hash_parts;
    struct candidate {
        const std::byte* node;
        std::uint32_t version, index;
    };

    /// Returns: how many tags were met at home.
    [[gnu::always_inline]] std::size_t find_group(const std::byte* asked, std::size_t from, std::size_t count,
                                                  answers& to) const {
        const finder near(finder_.bytes());  // nobody else can reach it: what it knows stays in registers
        const auto& view = near.bytes();
        const auto key = [&](std::size_t i) { return asked + i * sizeof(std::uint64_t); };
        std::uint64_t hashes[Group];
        const std::byte* lines[Group];
        for (std::size_t i = 0; i < count; ++i) {
            const hash_parts h = view.hash(key(i));
            const auto home = view.home_of(h);
            hashes[i] = h.hash;
            lines[i] = view.line(home.bucket);
            holdfast::detail::prefetch(lines[i]);
            if (mostly_there_) view.prefetch_in(home.bucket, home);
        }
        candidate candidates[Group];
        std::size_t seen = 0;
        std::uint64_t past = 0, unsure = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const hash_parts h{hashes[i]};
            const std::uint64_t number = h.home(view.buckets);
            const typename finder::home_bucket home{number, lines[i], view.bucket_nodes(number)};
            const auto looked = near.look(home, h);
            if (looked.places != 0 && h.low() != holdfast::layout::tag_free) {
                const std::byte* const node =
                    home.nodes + static_cast<unsigned>(std::countr_zero(looked.places)) * view.node_bytes;
                holdfast::detail::prefetch(node);
                candidates[seen++] = {node, looked.version, static_cast<std::uint32_t>(i)};
                continue;
            }
            std::uint64_t place = 0;
            switch (near.conclude(home, looked, h, key(i), nullptr, place)) {
                case sight::miss: to.absent(from + i); break;
                case sight::past:
                    past |= std::uint64_t{1} << i;
                    near.prefetch_past_home(h, mostly_there_);
                    break;
                default: unsure |= std::uint64_t{1} << i;
            }
        }
        for (std::size_t j = 0; j < seen; ++j) {
            const auto [node, version, i] = candidates[j];
            typename answers::room room(to, from + i);
            if (near.holds(node, lines[i], version, key(i), room.data())) [[likely]]
                to.found(from + i, room);
            else
                unsure |= std::uint64_t{1} << i;
        }
        for (std::uint64_t left = past | unsure; left != 0; left &= left - 1) {
            const auto i = static_cast<unsigned>(std::countr_zero(left));
            const sight told = (past >> i & 1U) != 0 ? sight::past : sight::unsure;
            holdfast::detail::end_find(finder_, told, {hashes[i]}, key(i), from + i, to);
        }
        return seen;
    }

    finder finder_;
    bool mostly_there_ = true;
};

/// In groups of up to so many, so many keys at a call.
template <std::size_t Group>
std::uint64_t in_groups(const number_table& of, keys asked, std::size_t at_a_call) {
    grouped_finder<Group> finder(of);
    std::vector<std::optional<std::uint64_t>> found(at_a_call);
    std::uint64_t sum = 0;
    while (!asked.empty()) {
        const std::size_t n = std::min(at_a_call, asked.size());
        finder.find_many(asked.first(n), found);
        for (std::size_t i = 0; i < n; ++i) sum += found[i].value_or(0);
        asked = asked.subspan(n);
    }
    return sum;
}

}  // namespace study
