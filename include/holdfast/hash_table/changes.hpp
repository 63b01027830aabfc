// SPDX-License-Identifier: Apache-2.0
// changes.hpp - what writers of a hash table, one or many, have beside the single operations: changes that look at an
// entry first, and many inserts at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "holdfast/hash_table/result.hpp"
#include "holdfast/record/untrusted.hpp"

namespace holdfast::detail {

/// What decides about an entry of a table that nobody else writes: a find, decide(V&) -> table_change, and what that
/// says. `finder`: the table's own.
template <class Table, class Finder, class Decide>
hash_table_result change_entry(
    Table& table, const Finder& finder, const typename Table::key_type& key,
    Decide&& decide) noexcept(noexcept(decide(std::declval<typename Table::mapped_type&>()))) {
    if (!table.segment().writable()) return {outcome::read_only};
    std::optional<typename Table::mapped_type> value = table.find(key);
    if (!value && (table.segment().fault() || finder.damage_hides(bytes_of(key)))) return {outcome::corrupt};
    if (!value) return {outcome::not_found};
    switch (std::forward<Decide>(decide)(*value)) {
        case table_change::none: break;
        case table_change::store: return table.update(key, *value);
        case table_change::erase: return table.erase(key);
    }
    return {outcome::stale, entry_change::none, table.slot_of(key)};
}

/// How many inserts are on their way: enough for the lines of the last ones to come meanwhile.
inline constexpr std::size_t inserts_ahead = 12;

/// Self provides the single operations, and change_by(key, decide(V&) -> table_change), in which nobody else changes
/// the entry.
///
/// Where values are compared it is all bytes of a V that are. Bytes between its fields, if it has any, are as their
/// writer left them: with such a V, modify() and erase_if() compare what is meant.
template <class Self, class K, class V>
class hash_table_changes {
 public:
    /// Changes the value of a key by change(V&), for instance `[](V& v) { ++v.count; }`. Readers see the old or the new
    /// value. Returns: ok, not_found, read_only or corrupt; of many writers contended, and change() must be short, as
    /// others may wait for it, and leave the table alone: `contended` is all it gets. Throws: what change throws;
    /// nothing is changed.
    template <class Change>
    hash_table_result modify(const K& key, Change&& change) noexcept(noexcept(change(std::declval<V&>()))) {
        return self().change_by(key, [&](V& value) noexcept(noexcept(change(std::declval<V&>()))) {
            change(value);
            return table_change::store;
        });
    }
    /// Gives the key the value `desired` if it has, byte for byte, the value `expected`. Returns: as modify(); stale:
    /// it has another value.
    hash_table_result compare_and_set(const K& key, const V& expected, const V& desired) noexcept {
        return self().change_by(key, [&](V& value) noexcept {
            if (!is_same(value, expected)) return table_change::none;
            std::memcpy(&value, &desired, sizeof(V));
            return table_change::store;
        });
    }
    /// Removes the key's entry if it has, byte for byte, the value `expected`. Returns: as compare_and_set().
    hash_table_result compare_and_erase(const K& key, const V& expected) noexcept {
        return self().change_by(key, [&](V& value) noexcept {
            return is_same(value, expected) ? table_change::erase : table_change::none;
        });
    }
    /// Removes the key's entry if wanted(const V&) -> bool says so; what holds for change() of modify() holds for it.
    /// Returns: as compare_and_set(); stale: it was not wanted.
    template <class Wanted>
    hash_table_result erase_if(const K& key, Wanted&& wanted) noexcept(noexcept(wanted(std::declval<const V&>()))) {
        return self().change_by(key, [&](V& value) noexcept(noexcept(wanted(std::declval<const V&>()))) {
            return wanted(std::as_const(value)) ? table_change::erase : table_change::none;
        });
    }

    /// As try_insert() of each key with the value in the same place, in this order; their waits for memory overlap, so
    /// that large tables are filled faster. Returns: how many were inserted. `results`, as far as it reaches, tells of
    /// each. Requires: as many values as keys.
    std::size_t try_insert_many(std::span<const K> keys, std::span<const V> values,
                                std::span<hash_table_result> results = {}) noexcept {
        const std::size_t count = std::min(keys.size(), values.size());
        // Where nodes come from the second cache anyway, to ask costs more than to wait.
        const std::size_t asked = self().finder_for_queries().bytes().prefetches ? count : 0;
        for (std::size_t i = 0; i < std::min(asked, inserts_ahead); ++i) self().prefetch(keys[i]);
        std::size_t inserted = 0;
        for (std::size_t i = 0; i < count; ++i) {
            if (i + inserts_ahead < asked) self().prefetch(keys[i + inserts_ahead]);
            const hash_table_result done = self().try_insert(keys[i], values[i]);
            inserted += done ? 1 : 0;
            if (i < results.size()) results[i] = done;
        }
        return inserted;
    }

 private:
    [[nodiscard]] Self& self() noexcept { return static_cast<Self&>(*this); }
    [[nodiscard]] static bool is_same(const V& a, const V& b) noexcept {
        return std::memcmp(bytes_of(a), bytes_of(b), sizeof(V)) == 0;
    }
};

}  // namespace holdfast::detail
