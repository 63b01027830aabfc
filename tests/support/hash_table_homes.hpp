// SPDX-License-Identifier: Apache-2.0
// hash_table_homes.hpp - where keys are at home in a hash table and where its entries lie, for tests that choose their
// keys so that entries overflow, and have to show that they did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "holdfast/hash_table/many_mutate.hpp"
#include "holdfast/hash_table/queries.hpp"

namespace holdfast::test {

/// Of the generation that a handle has come to. Requires: the handle outlives it, and does not go over to another one.
template <class K, class V>
class hash_table_homes {
 public:
    template <class Handle>
    explicit hash_table_homes(const Handle& of)
        : view_(std::span<const std::byte>(of.segment().bytes()), of.geometry(), {}) {}

    [[nodiscard]] std::uint64_t buckets() const noexcept { return view_.buckets; }
    [[nodiscard]] std::uint64_t home(const K& key) const noexcept { return hash(key).home(view_.buckets); }
    /// Whether the home bucket is one of the first half, in this generation and in each.
    [[nodiscard]] bool is_in_first_half(const K& key) const noexcept { return hash(key).hash >> 63 == 0; }
    [[nodiscard]] std::uint64_t stripe_of(std::uint64_t bucket) const noexcept { return view_.stripe_of(bucket); }
    [[nodiscard]] static std::uint64_t bucket_of(hash_table_slot slot) noexcept {
        return static_cast<std::uint64_t>(slot) / layout::tags_per_line;
    }
    /// Whether an entry that lies there is not at home; whether who changes it needs two stripes.
    [[nodiscard]] bool overflowed(const K& key, hash_table_slot at) const noexcept {
        return bucket_of(at) != home(key);
    }
    [[nodiscard]] bool crosses(const K& key, hash_table_slot at) const noexcept {
        return view_.stripe_of(bucket_of(at)) != view_.stripe_of(home(key));
    }
    /// The pairs of buckets that a key goes on to; call next() before the first.
    [[nodiscard]] detail::probe_pairs pairs(const K& key) const noexcept {
        return {home(key), hash(key), view_.buckets};
    }
    /// How many stripes have an owner. Requires, here and below: nobody writes meanwhile.
    [[nodiscard]] std::uint64_t owned_stripes() const noexcept {
        std::uint64_t found = 0;
        for (std::uint64_t stripe = 0; stripe <= view_.stripe_mask; ++stripe)
            found += detail::stripe_owner(view_.stripe(stripe)) != 0 ? 1 : 0;
        return found;
    }
    /// How many writers own two.
    [[nodiscard]] std::uint64_t owners_of_two() const noexcept {
        std::uint64_t found = 0;
        for (std::uint32_t writer = 0; writer < view_.writers; ++writer) {
            const detail::held_stripes held{
                detail::load_acquire<std::uint64_t>(view_.journal_at(writer) + layout::journal_held_offset)};
            const auto owns = [&](std::uint64_t named) {
                return named != 0 && named - 1 <= view_.stripe_mask &&
                       detail::stripe_owner(view_.stripe(named - 1)) == writer + 1;
            };
            found += owns(held.first()) && owns(held.second()) ? 1 : 0;
        }
        return found;
    }

 private:
    [[nodiscard]] detail::hash_parts hash(const K& key) const noexcept {
        return view_.hash(reinterpret_cast<const std::byte*>(&key));
    }
    detail::table_view<const std::byte, detail::fixed_node<K, V>> view_;
};

}  // namespace holdfast::test
