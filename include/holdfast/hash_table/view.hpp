// SPDX-License-Identifier: Apache-2.0
// view.hpp - the checked geometry turned into addresses, and the probe sequence of a key.
//
// A 64-bit hash h is used as: bucket = h scaled to [0, buckets); tag = bits 0-15, moved away from 0 and from 0xff00
// upwards; overflow class = bits 16-19; step = 1 + bits 20-51 scaled to buckets - 1; preferred slot = h scaled to all
// slots, which lies in the home bucket. Probe order: home; then the pairs (home + step, home + 2 step), (home + 3 step,
// home + 4 step),
// ... modulo buckets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "holdfast/detail/hash.hpp"
#include "holdfast/detail/prefetch.hpp"
#include "holdfast/hash_table/line.hpp"
#include "holdfast/layout/hash_table_layout.hpp"

namespace holdfast::detail {

/// Node description with sizes known at compile time. A reader's V may be a prefix of the stored value.
template <class K, class V>
struct fixed_node {
    [[nodiscard]] static constexpr std::size_t key_bytes() noexcept { return sizeof(K); }
    [[nodiscard]] static constexpr std::size_t value_bytes() noexcept { return sizeof(V); }
    /// Whether the layout leaves nothing between key and value, whatever the value's alignment.
    static constexpr bool value_follows_key = sizeof(K) % 8 == 0;
    /// Of a node that holds just these, where that does not depend on the value's alignment; else 0.
    static constexpr std::size_t words = value_follows_key ? (sizeof(K) + sizeof(V) + 7) / 8 : 0;
};

/// Node description with sizes known at run time.
struct runtime_node {
    std::size_t key = 0;
    std::size_t value = 0;
    [[nodiscard]] constexpr std::size_t key_bytes() const noexcept { return key; }
    [[nodiscard]] constexpr std::size_t value_bytes() const noexcept { return value; }
};

template <class Node>
[[nodiscard]] constexpr std::size_t kept_key_bytes() noexcept {
    if constexpr (requires { Node::words; })
        return worth_keeping(Node::key_bytes());
    else
        return 0;
}
template <class Node>
[[nodiscard]] constexpr std::size_t kept_value_bytes() noexcept {
    if constexpr (requires { Node::words; })
        return worth_keeping(Node::value_bytes());
    else
        return 0;
}
/// Keys and values as operations in line have them, which may end in a call: kept, where the compiler knows them.
template <class Node>
using kept_key = kept_bytes<kept_key_bytes<Node>()>;
template <class Node>
using kept_value = kept_bytes<kept_value_bytes<Node>()>;

/// Where an entry is looked for first.
struct home_place {
    std::uint64_t bucket = 0;
    std::uint64_t fraction = 0;  // how far into it, of 2^64

    /// The place of the preferred slot in it.
    [[nodiscard]] constexpr unsigned preferred() const noexcept {
        return static_cast<unsigned>(multiply_high(fraction, layout::tags_per_line));
    }
};

/// A hash split into what the probe sequence needs.
struct hash_parts {
    std::uint64_t hash = 0;

    [[nodiscard]] constexpr std::uint64_t home(std::uint64_t buckets) const noexcept {
        return multiply_high(hash, buckets);
    }
    /// The bits that tags are made of. Of 255 keys in 256 they are the tag.
    [[nodiscard]] constexpr std::uint16_t low() const noexcept { return static_cast<std::uint16_t>(hash); }
    /// The same with bits above them, for who looks at those of a tag only.
    [[nodiscard]] constexpr std::uint32_t low_bits() const noexcept { return static_cast<std::uint32_t>(hash); }
    [[nodiscard]] constexpr bool has_plain_tag() const noexcept { return low() - 1U < layout::tag_reserved_min - 1U; }
    [[nodiscard]] constexpr std::uint16_t tag() const noexcept {
        if (has_plain_tag()) [[likely]]
            return low();
        // The 257 unusable values are spread over as many usable ones: 0 -> 0x100, 0xff00 + i -> 1 + i.
        return static_cast<std::uint16_t>(low() == 0 ? 0x100 : low() - layout::tag_reserved_min + 1);
    }
    [[nodiscard]] constexpr unsigned group() const noexcept { return static_cast<unsigned>(hash >> 16) & 15U; }
    [[nodiscard]] constexpr std::uint64_t step(std::uint64_t buckets) const noexcept {
        return 1 + ((((hash >> 20) & 0xffff'ffffU) * (buckets - 1)) >> 32);
    }
};

/// The pairs of buckets after the home bucket, one after the other.
class probe_pairs {
 public:
    constexpr probe_pairs(std::uint64_t home, hash_parts h, std::uint64_t buckets) noexcept
        : second_(home), step_(h.step(buckets)), buckets_(buckets) {}
    /// Moves on to the next pair; call it once before the first.
    constexpr void next() noexcept {
        first_ = advance(second_);
        second_ = advance(first_);
    }
    [[nodiscard]] constexpr std::uint64_t first() const noexcept { return first_; }
    [[nodiscard]] constexpr std::uint64_t second() const noexcept { return second_; }

 private:
    [[nodiscard]] constexpr std::uint64_t advance(std::uint64_t from) const noexcept {
        const std::uint64_t to = from + step_;  // both below buckets, so one subtraction is a modulo
        return to >= buckets_ ? to - buckets_ : to;
    }
    std::uint64_t first_ = 0;
    std::uint64_t second_;
    std::uint64_t step_;
    std::uint64_t buckets_;
};

/// Who owns a stripe: writer slot + 1, or 0. Acquire: R5, pairs with W5, the store that gives it back: whoever finds it
/// free, or another's, sees what its last owner stored.
[[nodiscard]] inline std::uint32_t stripe_owner(const std::byte* stripe) noexcept {
    return load_acquire<std::uint32_t>(stripe + layout::stripe_owner_offset);
}

/// Nodes that fit into a core's second cache come sooner than a guess at their place is made.
inline constexpr std::uint64_t prefetch_bytes_min = 1U << 20;

/// Addresses inside one body. Byte is std::byte for the writer, const std::byte for readers.
///
/// Requires: g came from plan_hash_table() or read_hash_table_geometry() for at most this many body bytes; the body is
/// 64-aligned; the node description agrees with g. Then every address for bucket < buckets and slot < slots lies inside
/// the body.
template <class Byte, class Node>
struct table_view {
    Byte* journal = nullptr;
    Byte* lines = nullptr;
    Byte* nodes = nullptr;
    std::uint64_t buckets = 0;
    std::uint64_t bucket_bytes = 0;
    std::uint64_t node_bytes = 0;
    std::uint64_t value_offset = 0;
    std::uint64_t hash_state = 0;
    std::uint32_t pairs_max = 0;
    std::uint32_t slots_per_line = 1;  // nodes that share a cache line, a power of two; 1 where some straddle lines
    [[no_unique_address]] Node node{};
    Byte* digests = nullptr;
    std::uint32_t node_words = 0;
    std::uint32_t value_word = 0;  // an update changes words [value_word, value_end) of a node
    std::uint32_t value_end = 0;
    vector_unit vectors = vector_unit::compiled;
    bool prefetches = false;  // whether guessing at a node's line pays
    // Many writers only (many_mutate.hpp); journal is then the writer's own, or the first.
    std::uint32_t writers = 0;
    Byte* stripes = nullptr;
    Byte* journals = nullptr;
    std::uint64_t journal_bytes = 0;
    std::uint64_t stripe_mask = 0;

    table_view() = default;
    table_view(std::span<Byte> body, const layout::hash_table_geometry& g, Node description) noexcept
        : journal(body.data() + g.journal_offset),
          lines(body.data() + g.lines_offset),
          nodes(body.data() + g.nodes_offset),
          buckets(g.buckets),
          bucket_bytes(g.node_bytes * layout::tags_per_line),
          node_bytes(g.node_bytes),
          value_offset(g.value_offset),
          hash_state(hash_start(g.seed, g.key_bytes)),
          pairs_max(static_cast<std::uint32_t>(g.pairs_max)),
          slots_per_line(g.node_bytes <= 64 && 64 % g.node_bytes == 0 ? static_cast<std::uint32_t>(64 / g.node_bytes)
                                                                      : 1),
          node(description),
          digests(body.data() + g.digests_offset),
          node_words(static_cast<std::uint32_t>(g.node_bytes / 8)),
          value_word(static_cast<std::uint32_t>(g.value_offset / 8)),
          value_end(static_cast<std::uint32_t>((g.value_offset + g.value_bytes + 7) / 8)),
          vectors(widest_vector_unit()),
          prefetches(slots() * node_bytes > prefetch_bytes_min) {
        if (g.writer_slots == 0) return;
        writers = static_cast<std::uint32_t>(g.writer_slots);
        stripes = body.data() + g.stripes_offset;
        journals = journal;
        journal_bytes = g.journal_bytes();
        stripe_mask = g.stripes - 1;
    }

    /// The same view for reading only.
    [[nodiscard]] table_view<const Byte, Node> as_const() const noexcept {
        table_view<const Byte, Node> v;
        v.journal = journal;
        v.lines = lines;
        v.nodes = nodes;
        v.buckets = buckets;
        v.bucket_bytes = bucket_bytes;
        v.node_bytes = node_bytes;
        v.value_offset = value_offset;
        v.hash_state = hash_state;
        v.pairs_max = pairs_max;
        v.slots_per_line = slots_per_line;
        v.node = node;
        v.digests = digests;
        v.node_words = node_words;
        v.value_word = value_word;
        v.value_end = value_end;
        v.vectors = vectors;
        v.prefetches = prefetches;
        v.writers = writers;
        v.stripes = stripes;
        v.journals = journals;
        v.journal_bytes = journal_bytes;
        v.stripe_mask = stripe_mask;
        return v;
    }

    /// Offset of the value in a node: a constant where key and value are known to the compiler.
    [[nodiscard]] constexpr std::uint64_t value_at() const noexcept {
        if constexpr (requires { requires Node::value_follows_key; })
            return Node::key_bytes();
        else
            return value_offset;
    }
    /// A node description whose keys are hashes already says what to take (hash_map/view.hpp).
    [[nodiscard]] hash_parts hash(const std::byte* key) const noexcept {
        if constexpr (requires { Node::hash(key, hash_state); })
            return {Node::hash(key, hash_state)};
        else
            return {hash_key(key, node.key_bytes(), hash_state)};
    }
    [[nodiscard]] std::uint64_t slots() const noexcept { return buckets * layout::tags_per_line; }
    [[nodiscard]] Byte* line(std::uint64_t bucket) const noexcept { return lines + bucket * layout::line_bytes; }
    [[nodiscard]] std::uint64_t regions() const noexcept {
        return (buckets + layout::buckets_per_region - 1) / layout::buckets_per_region;
    }
    /// The checksum of the region that a bucket lies in.
    [[nodiscard]] Byte* digest_of(std::uint64_t bucket) const noexcept {
        return digests + bucket / layout::buckets_per_region * 8;
    }
    [[nodiscard]] bool has_many_writers() const noexcept { return stripes != nullptr; }
    /// Many writers only: the stripe of a bucket, the line of a stripe, and a writer's journal.
    [[nodiscard]] std::uint64_t stripe_of(std::uint64_t bucket) const noexcept {
        return bucket / layout::buckets_per_region & stripe_mask;
    }
    [[nodiscard]] Byte* stripe(std::uint64_t number) const noexcept { return stripes + number * layout::stripe_bytes; }
    [[nodiscard]] Byte* journal_at(std::uint64_t writer) const noexcept { return journals + writer * journal_bytes; }
    /// The same view as that writer has it. Requires: writer < writers.
    [[nodiscard]] table_view as_writer(std::uint64_t writer) const noexcept {
        table_view v = *this;
        v.journal = journal_at(writer);
        return v;
    }
    /// Where an update of a value in the bucket would be found: in the journal of whoever owns its stripe.
    [[nodiscard]] Byte* journal_for(std::uint64_t bucket) const noexcept {
        return has_many_writers() ? journal_of_owner(bucket) : journal;
    }
    [[nodiscard]] Byte* bucket_nodes(std::uint64_t bucket) const noexcept { return nodes + bucket * bucket_bytes; }
    [[nodiscard]] Byte* node_at(std::uint64_t bucket, unsigned place) const noexcept {
        return bucket_nodes(bucket) + place * node_bytes;
    }

    /// The slot, of the home bucket, at which an entry with this hash is looked for first.
    [[nodiscard]] std::uint64_t preferred_slot(hash_parts h) const noexcept { return multiply_high(h.hash, slots()); }
    /// Home bucket and, in it, the place of the preferred slot: whole and fraction of hash * buckets / 2^64.
    [[nodiscard]] home_place home_of(hash_parts h) const noexcept {
        const uint128 product = uint128{h.hash} * buckets;
        return {static_cast<std::uint64_t>(product >> 64), static_cast<std::uint64_t>(product)};
    }
    /// Asks for the cache line in which an entry with this hash probably lies, if it is in its home bucket.
    void prefetch_preferred(hash_parts h) const noexcept { prefetch_preferred(home_of(h)); }
    [[gnu::always_inline]] void prefetch_preferred(home_place home) const noexcept {
        if (prefetches) prefetch(bucket_nodes(home.bucket) + preferred_byte(home));
    }
    /// The same where the nodes of the home bucket are at hand.
    [[gnu::always_inline]] void prefetch_preferred(home_place home, const std::byte* its_nodes) const noexcept {
        if (prefetches) prefetch(its_nodes + preferred_byte(home));
    }
    /// The same for another bucket, where an insert chooses by the same place.
    void prefetch_in(std::uint64_t bucket, home_place home) const noexcept {
        prefetch(bucket_nodes(bucket) + preferred_byte(home));
    }
    void prefetch_line(std::uint64_t bucket) const noexcept { prefetch(line(bucket)); }

 private:
    /// A byte of the cache line in which the preferred node of a bucket begins, from the bucket's first node on.
    [[nodiscard, gnu::always_inline]] std::uint64_t preferred_byte(home_place home) const noexcept {
        // Where whole nodes share a line, any byte of the node will do. A wrong guess where nodes are longer than
        // known.
        if constexpr (requires { requires Node::words != 0 && 8 % Node::words == 0; })
            return multiply_high(home.fraction, 8 * Node::words * layout::tags_per_line);
        else
            return home.preferred() * node_bytes;
    }
    [[nodiscard, gnu::noinline]] Byte* journal_of_owner(std::uint64_t bucket) const noexcept {
        const std::uint64_t owner = stripe_owner(stripe(stripe_of(bucket)));
        return journal_at(owner - 1 < writers ? owner - 1 : 0);
    }
};

}  // namespace holdfast::detail
