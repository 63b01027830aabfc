// SPDX-License-Identifier: Apache-2.0
// queries.hpp - what a typed reader and a typed writer of a hash table can both be asked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <utility>

#include "holdfast/hash_table/attach.hpp"
#include "holdfast/hash_table/result.hpp"
#include "holdfast/hash_table/scan.hpp"
#include "holdfast/record/untrusted.hpp"

namespace holdfast {

/// A copy of one entry, consistent in itself.
template <class K, class V>
struct hash_table_entry {
    hash_table_slot slot{};
    K key;
    V value;
};

namespace detail {

/// Queries over finder_for_queries(), which Self provides, as well as segment(), geometry() and mapping_for_queries(),
/// the owner of what that finder reads.
template <class Self, class K, class V>
class hash_table_queries {
 public:
    using key_type = K;
    using mapped_type = V;
    using value_type = hash_table_entry<K, V>;
    class iterator;

    /// Returns: a copy of the key's value, never torn; or nothing.
    /// Threads: any number, beside the writer. Cost: one or two cache lines. After a crash of the writer: as before.
    [[nodiscard, gnu::always_inline]] std::optional<V> find(const K& key) const noexcept {
        raw_record<V> value;
        if (!finder().get(bytes_of(key), value.data())) return std::nullopt;
        return value.get();
    }
    /// The same into `value`. Returns: whether the key is there; if not, `value` may be anything. Cost: that of a find,
    /// and no copy beside the one into `value`: an optional takes one or two more wherever the compiler keeps it in
    /// memory.
    [[nodiscard, gnu::always_inline]] bool find(const K& key, V& value) const noexcept {
        if constexpr (has_boolean(facts_for<V>())) {
            const std::optional<V> found = find(key);
            if (found) value = *found;
            return found.has_value();
        } else {
            return finder().get(bytes_of(key), reinterpret_cast<std::byte*>(&value));
        }
    }
    [[nodiscard]] bool contains(const K& key) const noexcept { return finder().get(bytes_of(key), nullptr); }

    /// Asks for the cache lines in which find(key) will look first, and does not wait for them: a find some hundred
    /// nanoseconds later meets them. For code that has other work meanwhile, such as a coroutine; who has many keys at
    /// once takes find_many(). Cost: the hash of the key; in vain where the table lies in the caches already.
    void prefetch(const K& key) const noexcept { finder().prefetch(bytes_of(key)); }

    /// Finds many keys with their cache misses overlapped: values[i] becomes what find(keys[i]) would return at some
    /// moment of the call. Beside a writer these are moments in no particular order, each key's own, that of one given
    /// twice, too: no snapshot. It gains from 8 keys on, in tables beyond the near caches (docs/guide/hash_table.md).
    /// Requires: values.size() >= keys.size(). Returns: how many were found.
    std::size_t find_many(std::span<const K> keys, std::span<std::optional<V>> values) const noexcept {
        optional_answers<V> answers{values};
        find_batch(finder(), reinterpret_cast<const std::byte*>(keys.data()), std::min(keys.size(), values.size()),
                   answers);
        return answers.count;
    }

    /// Returns: where the key's entry lies, good until it is erased. Of a handle that goes over to other generations
    /// (growing_hash_table, writers::many) only until it does, and a slot does not tell: place_of() does.
    [[nodiscard]] std::optional<hash_table_slot> slot_of(const K& key) const noexcept {
        const std::uint64_t slot = finder().find(bytes_of(key), nullptr);
        return slot == no_slot ? std::nullopt : std::optional(static_cast<hash_table_slot>(slot));
    }
    /// Returns: the entry at a slot, or nothing if it is free or no slot of this table. Any number may be asked for.
    [[nodiscard]] std::optional<value_type> entry_at(hash_table_slot slot) const noexcept {
        raw_record<K> key;
        raw_record<V> value;
        if (!finder().read_slot(static_cast<std::uint64_t>(slot), key.data(), value.data())) return std::nullopt;
        return value_type{slot, key.get(), value.get()};
    }
    [[nodiscard]] std::optional<V> value_at(hash_table_slot slot) const noexcept {
        raw_record<V> value;
        if (!finder().read_slot(static_cast<std::uint64_t>(slot), nullptr, value.data())) return std::nullopt;
        return value.get();
    }

    /// An input range over copies of all entries; what it promises beside a working writer: hash_table/scan.hpp. While
    /// one lives the handle stays where it is, and its mapping is kept: behind a move to another generation (growing
    /// tables, writers::many) it goes on over the old one, with values as they were at the move.
    [[nodiscard]] iterator begin() const noexcept { return scan_from(0); }
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }
    /// The same from a slot on: a scan in portions goes on behind the last slot it saw. The slot is one of the
    /// generation that the handle has come to; whether that is still the one of the last portion place_of() tells.
    [[nodiscard]] auto entries_from(hash_table_slot slot) const noexcept {
        return std::ranges::subrange(scan_from(static_cast<std::uint64_t>(slot)), std::default_sentinel);
    }

    /// Number of entries: exact when no operation is under way, also after a crash; off by one while one is.
    [[nodiscard]] std::uint64_t size() const noexcept { return finder().size(); }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    /// Entries the table was made for; it takes a few more.
    [[nodiscard]] std::uint64_t capacity() const noexcept { return self().geometry().capacity; }
    [[nodiscard]] std::uint64_t slots() const noexcept { return self().geometry().slots(); }

    /// Checks every byte that has a meaning; on_finding(const hash_table_finding&) -> bool, false stops. Beside a
    /// working writer it reports no false damage, but what it could not compare is counted in `busy`. A handle of
    /// writers::many that cannot go over to the newest generation checks an empty table: fault() tells. Throws:
    /// std::bad_alloc. Cost: a lookup and a scan of every entry; 16 bytes of memory a bucket, 256 MiB at most.
    template <class OnFinding>
    hash_table_verification verify(OnFinding&& on_finding) const {
        return detail::verify(finder().bytes(), std::forward<OnFinding>(on_finding));
    }

    /// Forgets a `contended` in fault(): then the next miss without a fault is a miss again. Returns: whether there was
    /// one. Threads: one that shares the handle may lose sight of its own.
    bool clear_contended() const noexcept { return finder().clear_contended(); }
    /// What kept an operation of this handle from an answer: the first damage that it met (corrupt, or truncated where
    /// the guard is on), or, without damage, `contended`: a read found no quiet moment beside the writer, or a handle
    /// of writers::many could not go over to the generation that took this one's place. Until it can, questions are
    /// answered as by an empty table.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        const std::optional<errc> own = finder().fault();
        return own ? own : self().segment().fault();
    }

 private:
    [[nodiscard]] const Self& self() const noexcept { return static_cast<const Self&>(*this); }
    [[nodiscard]] const auto& finder() const noexcept { return self().finder_for_queries(); }
    [[nodiscard]] iterator scan_from(std::uint64_t slot) const noexcept {
        const auto& newest = finder();  // first: it may lead to another generation, and so to another mapping
        return iterator(self().mapping_for_queries(), newest, slot);
    }
};

template <class Self, class K, class V>
class hash_table_queries<Self, K, V>::iterator {
 public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = hash_table_entry<K, V>;
    using difference_type = std::ptrdiff_t;

    iterator() = default;
    iterator(std::shared_ptr<const void> mapping, const hash_table_finder<fixed_node<K, V>>& finder,
             std::uint64_t from) noexcept
        : scan_(std::move(mapping), finder, from) {
        ++*this;
    }
    [[nodiscard]] const value_type& operator*() const noexcept { return *entry_; }
    [[nodiscard]] const value_type* operator->() const noexcept { return &*entry_; }
    iterator& operator++() noexcept {
        raw_record<K> key;
        raw_record<V> value;
        const std::uint64_t slot = scan_.next(key.data(), value.data());
        if (slot == no_slot)
            entry_.reset();
        else
            entry_.emplace(value_type{static_cast<hash_table_slot>(slot), key.get(), value.get()});
        return *this;
    }
    void operator++(int) noexcept { ++*this; }
    friend bool operator==(const iterator& i, std::default_sentinel_t) noexcept { return !i.entry_.has_value(); }

 private:
    hash_table_scan<fixed_node<K, V>> scan_;
    std::optional<value_type> entry_;
};

}  // namespace detail
}  // namespace holdfast
