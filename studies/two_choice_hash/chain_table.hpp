// SPDX-License-Identifier: Apache-2.0
// chain_table.hpp - hashing with chains, by one hash function or by two: with two, a key goes to the shorter of its
// chains ("power of two choices"; Azar, Broder, Karlin, Upfal, SIAM J. Computing 29, 1999).
//
// Layout of a region, wherever it lies (little-endian)
//   offset  bytes         field      written by
//        0      8         magic      format(), last
//        8      8         buckets    format()
//       16      8         capacity   format()
//       24      8         functions  format(): 1 or 2
//       32      8         size       the writer: entries
//       40      8         free       the writer: first of the freed nodes, 0 = none
//       48      8         fresh      the writer: nodes that were ever in use; those behind are free, too
//       56      8         zero
//       64  4 * buckets   heads      the writer: first node of each chain, 0 = none; the whole rounded up to 8
//       ..  nodes         nodes      the writer: key, value, link to the next node of the chain or of the freed ones
// A link is the number of a node counted from 1.
//
// (I1) Links are checked against the capacity and walks against the number of nodes: bytes that lie make keys
// unfindable,
//      and lead nowhere else. Threads: one at a time, or any number that only read. Crash: none is provided for.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <type_traits>

#include "holdfast/detail/hash.hpp"

namespace study {

struct chain_shape {
    std::uint64_t buckets = 0;
    std::uint64_t capacity = 0;
    std::uint64_t functions = 1;
};

/// What a find looks at, by how one counts.
struct chain_probes {
    std::uint64_t position = 0;       ///< of the key in its chain, from 1; 0: it is not there
    std::uint64_t nodes_in_turn = 0;  ///< nodes looked at if the first chain is searched to its end, then the second
    std::uint64_t heads_in_turn = 0;  ///< chains begun by the same search
};

template <class Value>
class chain_table {
    static_assert(std::is_trivially_copyable_v<Value> && alignof(Value) <= 8);

 public:
    enum class result : std::uint8_t { inserted, exists, full };

    [[nodiscard]] static std::size_t bytes_for(const chain_shape& shape) {
        return sizeof(header) + heads_bytes(shape.buckets) + shape.capacity * sizeof(node);
    }
    /// Makes an empty table. Requires: 8-aligned. Throws: std::invalid_argument.
    [[nodiscard]] static chain_table format(std::span<std::byte> region, const chain_shape& shape) {
        if (const char* wrong = check(shape)) throw std::invalid_argument(wrong);
        if (region.size() < bytes_for(shape)) throw std::invalid_argument("the region is too small for this table");
        std::memset(region.data(), 0, bytes_for(shape));
        auto* const h = reinterpret_cast<header*>(region.data());
        h->shape = shape;
        h->magic = magic_word;
        return attach(region);
    }
    /// Checks a region that holds a table. Requires: 8-aligned. Throws: std::invalid_argument.
    [[nodiscard]] static chain_table attach(std::span<std::byte> region) {
        if (region.size() < sizeof(header)) throw std::invalid_argument("the region is too small for a header");
        chain_table table;
        table.header_ = reinterpret_cast<header*>(region.data());
        if (table.header_->magic != magic_word) throw std::invalid_argument("the region holds no table of chains");
        table.shape_ = table.header_->shape;
        if (const char* wrong = check(table.shape_)) throw std::invalid_argument(wrong);
        if (region.size() < bytes_for(table.shape_))
            throw std::invalid_argument("the table reaches behind the end of the region");
        table.heads_ = reinterpret_cast<std::uint32_t*>(region.data() + sizeof(header));
        table.nodes_ = reinterpret_cast<node*>(region.data() + sizeof(header) + heads_bytes(table.shape_.buckets));
        return table;
    }

    [[nodiscard]] const Value* find(std::uint64_t key) const noexcept {
        const places of = places_of(key);
        for (std::size_t i = 0; i < of.count; ++i)
            if (const node* const found = search(of.bucket[i], key).found; found != nullptr) return &found->value;
        return nullptr;
    }
    /// Adds an entry unless the key is there: to the shorter chain, to the first of two that are as long.
    result insert(std::uint64_t key, const Value& value) noexcept {
        const places of = places_of(key);
        std::uint64_t bucket = of.bucket[0], shortest = ~std::uint64_t{0};
        for (std::size_t i = 0; i < of.count; ++i) {
            const walk seen = search(of.bucket[i], key);
            if (seen.found != nullptr) return result::exists;
            if (seen.nodes >= shortest) continue;
            shortest = seen.nodes;
            bucket = of.bucket[i];
        }
        const std::uint32_t taken = take();
        if (taken == 0) return result::full;
        nodes_[taken - 1] = {key, value, heads_[bucket], 0};
        heads_[bucket] = taken;
        ++header_->size;
        return result::inserted;
    }
    /// Returns: whether it was there.
    bool erase(std::uint64_t key) noexcept {
        const places of = places_of(key);
        for (std::size_t i = 0; i < of.count; ++i) {
            const walk seen = search(of.bucket[i], key);
            if (seen.found == nullptr) continue;
            std::uint32_t& link = seen.before == nullptr ? heads_[of.bucket[i]] : seen.before->next;
            const std::uint32_t freed = link;
            link = seen.found->next;
            seen.found->next = static_cast<std::uint32_t>(header_->free);
            header_->free = freed;
            --header_->size;
            return true;
        }
        return false;
    }
    /// Calls visit(key, value) for each entry, chain by chain.
    template <class Visit>
    void visit(Visit each) const {
        for (std::uint64_t bucket = 0; bucket < shape_.buckets; ++bucket)
            for (walk_of_chain at(*this, bucket); at.there(); at.next()) each(at->key, at->value);
    }

    /// What finding this key costs; for one that is not there, what finding that out costs.
    [[nodiscard]] chain_probes probes_of(std::uint64_t key) const noexcept {
        chain_probes probes;
        const places of = places_of(key);
        for (std::size_t i = 0; i < of.count && probes.position == 0; ++i) {
            const walk seen = search(of.bucket[i], key);
            ++probes.heads_in_turn;
            probes.nodes_in_turn += seen.nodes;
            if (seen.found != nullptr) probes.position = seen.nodes;
        }
        return probes;
    }
    [[nodiscard]] std::uint64_t size() const noexcept { return header_->size; }
    [[nodiscard]] const chain_shape& shape() const noexcept { return shape_; }

 private:
    static constexpr std::uint64_t magic_word = 0x0031'736e'6961'6863U;  // "chains1"
    struct header {
        std::uint64_t magic;
        chain_shape shape;
        std::uint64_t size, free, fresh, zero;
    };
    static_assert(sizeof(header) == 64);
    struct node {
        std::uint64_t key;
        Value value;
        std::uint32_t next, zero;
    };
    struct places {
        std::array<std::uint64_t, 2> bucket{};
        std::size_t count = 0;
    };
    struct walk {
        node *found = nullptr, *before = nullptr;
        std::uint64_t nodes = 0;  // looked at: up to the key, or the whole chain
    };

    /// The nodes of one chain, each at most once whatever the links say.
    class walk_of_chain {
     public:
        walk_of_chain(const chain_table& table, std::uint64_t bucket) noexcept
            : table_(table), left_(table.shape_.capacity) {
            go(table.heads_[bucket]);
        }
        [[nodiscard]] bool there() const noexcept { return at_ != nullptr; }
        [[nodiscard]] node* operator->() const noexcept { return at_; }
        [[nodiscard]] node* get() const noexcept { return at_; }
        void next() noexcept { go(at_->next); }

     private:
        void go(std::uint32_t link) noexcept {
            const bool leads = link != 0 && link <= table_.shape_.capacity && left_ > 0;
            at_ = leads ? table_.nodes_ + (link - 1) : nullptr;
            left_ -= leads ? 1 : 0;
        }
        const chain_table& table_;
        std::uint64_t left_;
        node* at_ = nullptr;
    };

    chain_table() = default;
    [[nodiscard]] static const char* check(const chain_shape& shape) noexcept {
        constexpr std::uint64_t most = 0xffff'fff0U;
        if (shape.buckets == 0 || shape.buckets > most) return "the number of buckets is out of range";
        if (shape.capacity == 0 || shape.capacity > most) return "the capacity is out of range";
        if (shape.functions != 1 && shape.functions != 2) return "a key has one hash function or two";
        return nullptr;
    }
    [[nodiscard]] static std::size_t heads_bytes(std::uint64_t buckets) noexcept { return (buckets * 4 + 7) / 8 * 8; }

    /// The chains of a key: one, or two; one if both functions name the same.
    [[nodiscard]] places places_of(std::uint64_t key) const noexcept {
        namespace hash = holdfast::detail;
        const std::uint64_t state = hash::multiply_fold(key ^ hash::hash_multipliers[0], hash::hash_multipliers[1]);
        places of;
        of.bucket[of.count++] = hash::multiply_high(
            hash::multiply_fold(state ^ hash::hash_multipliers[2], hash::hash_finish), shape_.buckets);
        if (shape_.functions == 1) return of;
        const std::uint64_t other = hash::multiply_high(
            hash::multiply_fold(state ^ hash::hash_finish, hash::hash_multipliers[3]), shape_.buckets);
        if (other != of.bucket[0]) of.bucket[of.count++] = other;
        return of;
    }
    [[nodiscard]] walk search(std::uint64_t bucket, std::uint64_t key) const noexcept {
        walk seen;
        for (walk_of_chain at(*this, bucket); at.there(); at.next()) {
            ++seen.nodes;
            if (at->key == key) {
                seen.found = at.get();
                return seen;
            }
            seen.before = at.get();
        }
        return seen;
    }
    /// A free node's link, 0 if there is none.
    [[nodiscard]] std::uint32_t take() noexcept {
        if (const std::uint64_t freed = header_->free; freed != 0 && freed <= shape_.capacity) {
            header_->free = nodes_[freed - 1].next;
            return static_cast<std::uint32_t>(freed);
        }
        if (header_->fresh >= shape_.capacity) return 0;
        return static_cast<std::uint32_t>(++header_->fresh);
    }

    header* header_ = nullptr;
    chain_shape shape_;
    std::uint32_t* heads_ = nullptr;
    node* nodes_ = nullptr;
};

}  // namespace study
