// SPDX-License-Identifier: Apache-2.0
// batch.hpp - many keys at once, so that their cache misses overlap.
//
// One lookup waits for memory twice, for the tag line and for the node, and a processor looks only a few lookups ahead
// by itself. Groups of up to 32 keys go through three passes: hash, and ask for the tag line; match, and ask for the
// node of the first place with the tag, while keys whose line tells that they are absent are answered at once; compare
// and copy. The few of which these passes do not tell all come behind: the lines that they need next were asked for.
//
// Where keys are mostly there, the first pass also asks for the line in which the entry probably lies, before anybody
// knows: hits take a tenth less time. Where they are mostly not, that would be in vain, and a third of a miss's time.
// Which it is the last batch tells (batch_hint).
//
// A table that fits into a core's second cache gives nothing to wait for: there each key is found at once.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

#include "holdfast/detail/prefetch.hpp"
#include "holdfast/hash_table/find.hpp"
#include "holdfast/record/untrusted.hpp"

namespace holdfast::detail {

// Answers of a batch of finds are told to a Sink: found(i, room) or absent(i) once for each key, in any order. A value
// is copied to the room that was made for it, room(sink, i), before it is told.

/// Answers as optionals.
template <class V>
struct optional_answers {
    std::span<std::optional<V>> values;
    std::size_t count = 0;

    struct room {
        raw_record<V> value;
        room(optional_answers& /*to*/, std::size_t /*i*/) noexcept {}
        [[nodiscard]] std::byte* data() noexcept { return value.data(); }
    };
    [[gnu::always_inline]] void found(std::size_t i, const room& with) noexcept {
        values[i].emplace(with.value.get());
        ++count;
    }
    // As reset(), without asking whether there was one: records end without a destructor.
    [[gnu::always_inline]] void absent(std::size_t i) noexcept { std::construct_at(&values[i]); }
};

/// Values to where value_of(i) says, and told(i, whether it was found).
template <class ValueOf, class Told>
struct answers_in_place {
    ValueOf value_of;
    Told told;

    struct room {
        std::byte* value;
        room(answers_in_place& to, std::size_t i) : value(to.value_of(i)) {}
        [[nodiscard]] std::byte* data() const noexcept { return value; }
    };
    void found(std::size_t i, const room& /*with*/) { told(i, true); }
    void absent(std::size_t i) { told(i, false); }
};
template <class ValueOf, class Told>
answers_in_place(ValueOf, Told) -> answers_in_place<ValueOf, Told>;

inline constexpr std::size_t batch_group = 32;
// A group with fewer keys than one of so many in a line that carries their tag: the next one does not ask for places.
inline constexpr std::size_t batch_there_min = 4;

/// The rest of a find of which a look did not tell all, with a room of its own, so that the others stay in registers.
template <class Node, tag_match Match, class Sink>
[[gnu::always_inline]] inline void end_find(const hash_table_finder<Node, Match>& finder,
                                            typename hash_table_finder<Node, Match>::sight told, hash_parts h,
                                            const std::byte* key, std::size_t i, Sink& sink) {
    typename Sink::room room(sink, i);
    if (finder.go_on(told, h, key, room.data()) != no_slot)
        sink.found(i, room);
    else
        sink.absent(i);
}

/// Each key by itself.
template <class Node, tag_match Match, class Sink>
[[gnu::always_inline]] inline void find_one_by_one(const hash_table_finder<Node, Match>& finder, const std::byte* keys,
                                                   std::size_t count, Sink& sink) {
    using sight = typename hash_table_finder<Node, Match>::sight;
    const auto& view = finder.bytes();
    for (std::size_t i = 0; i < count; ++i) {
        const std::byte* const key = keys + i * view.node.key_bytes();
        const hash_parts h = view.hash(key);
        typename Sink::room room(sink, i);
        std::uint64_t place = 0;
        const sight told = finder.see_near(h.home(view.buckets), h, key, room.data(), place);
        if (told == sight::hit)
            sink.found(i, room);
        else if (told == sight::miss)
            sink.absent(i);
        else
            end_find(finder, told, h, key, i, sink);
    }
}

/// At most `Group` keys. `mostly_there`: their entries' likely places are asked for, too. Returns: how many tags were
/// met at home.
template <std::size_t Group, class Node, tag_match Match, class Sink>
[[gnu::always_inline]] inline std::size_t find_group(const hash_table_finder<Node, Match>& finder,
                                                     const std::byte* keys, std::size_t from, std::size_t count,
                                                     bool mostly_there, Sink& sink) {
    using marks = std::conditional_t<Group <= 32, std::uint32_t, std::uint64_t>;  // a bit for each key
    static_assert(Group <= 64);
    using finder_type = hash_table_finder<Node, Match>;
    using sight = typename finder_type::sight;
    const finder_type near(finder.bytes());  // nobody else can reach it: what it knows stays in registers
    const auto& view = near.bytes();
    const std::size_t key_bytes = view.node.key_bytes();
    keys += from * key_bytes;
    std::uint64_t hashes[Group];
    const std::byte* lines[Group];
    for (std::size_t i = 0; i < count; ++i) {
        const hash_parts h = view.hash(keys + i * key_bytes);
        const home_place home = view.home_of(h);
        hashes[i] = h.hash;
        lines[i] = view.line(home.bucket);
        prefetch(lines[i]);
        if (mostly_there) view.prefetch_in(home.bucket, home);
    }
    struct candidate {
        const std::byte* node;
        std::uint32_t version, index;
    };
    candidate candidates[Group];
    std::size_t seen = 0;
    marks past = 0, unsure = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const hash_parts h{hashes[i]};
        const typename finder_type::home_bucket home{h.home(view.buckets), lines[i],
                                                     view.bucket_nodes(h.home(view.buckets))};
        const auto looked = near.look(home, h);
        if (looked.places != 0 && h.low() != layout::tag_free) {
            const std::byte* const node =
                home.nodes + static_cast<unsigned>(std::countr_zero(looked.places)) * view.node_bytes;
            prefetch(node);
            candidates[seen++] = {node, looked.version, static_cast<std::uint32_t>(i)};
            continue;
        }
        std::uint64_t place = 0;
        switch (near.conclude(home, looked, h, keys + i * key_bytes, nullptr, place)) {
            case sight::miss: sink.absent(from + i); break;
            case sight::past:
                past |= marks{1} << i;
                near.prefetch_past_home(h, mostly_there);
                break;
            default: unsure |= marks{1} << i;
        }
    }
    for (std::size_t j = 0; j < seen; ++j) {
        const auto [node, version, i] = candidates[j];
        typename Sink::room room(sink, from + i);
        if (near.holds(node, lines[i], version, keys + i * key_bytes, room.data())) [[likely]]
            sink.found(from + i, room);
        else
            unsure |= marks{1} << i;
    }
    for (marks left = past | unsure; left != 0; left &= left - 1) {
        const auto i = static_cast<unsigned>(std::countr_zero(left));
        const sight told = (past >> i & 1U) != 0 ? sight::past : sight::unsure;
        end_find(finder, told, {hashes[i]}, keys + i * key_bytes, from + i, sink);
    }
    return seen;
}

/// Finds `count` keys that lie one after the other. In line, so that a sink of the caller's own stays in registers,
/// too.
template <std::size_t Group = batch_group, class Node, tag_match Match, class Sink>
[[gnu::always_inline]] inline void find_batch(const hash_table_finder<Node, Match>& finder, const std::byte* keys,
                                              std::size_t count, Sink& sink) {
    if (!finder.bytes().prefetches) return find_one_by_one(finder, keys, count, sink);
    bool mostly_there = finder.hint().mostly_there();
    for (std::size_t from = 0; from < count; from += Group) {
        const std::size_t n = std::min(count - from, Group);
        mostly_there = batch_there_min * find_group<Group>(finder, keys, from, n, mostly_there, sink) >= n;
    }
    if (count != 0) finder.hint().say(mostly_there);
}

}  // namespace holdfast::detail
