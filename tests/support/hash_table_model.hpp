// SPDX-License-Identifier: Apache-2.0
// hash_table_model.hpp - what a hash table should hold: keys and values that are functions of a number, and a model to
// compare with.
//
// A value carries the number of the operation that wrote it, its stamp, and is otherwise a function of key and stamp:
// a torn value, one of another key or an older one than before is recognised by itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <type_traits>

#include "support/hash_table_image.hpp"
#include "support/seed.hpp"
#include "support/table_answer.hpp"

namespace holdfast::test {

/// Shapes of entries: a value inside one word; one of several words; one that shares its first word with the key.
struct narrow_shape {
    using key = std::uint64_t;
    using value = std::uint64_t;
    static constexpr const char* name = "narrow";
};
struct wide_shape {
    using key = std::uint64_t;
    using value = std::array<std::uint64_t, 7>;
    static constexpr const char* name = "wide";
};
struct crooked_shape {
    using key = std::array<std::uint32_t, 3>;
    using value = std::array<std::uint32_t, 5>;
    static constexpr const char* name = "crooked";
};

/// The n-th key of a shape. Different n, different keys.
template <class Shape>
[[nodiscard]] typename Shape::key nth_key(std::uint64_t n) {
    typename Shape::key key{};
    const std::uint64_t words[2] = {n, random_at(7, 7, n)};
    std::memcpy(&key, words, sizeof key);
    return key;
}

/// The value that operation `stamp` writes for key number `n`.
template <class Shape>
[[nodiscard]] typename Shape::value stamped_value(std::uint64_t n, std::uint64_t stamp) {
    typename Shape::value value{};
    std::byte bytes[sizeof value];
    for (std::size_t at = 0; at < sizeof value; at += 4) {
        const auto word = static_cast<std::uint32_t>(random_at(n, stamp, at));
        std::memcpy(bytes + at, &word, 4);
    }
    if constexpr (sizeof value == 8) {
        const std::uint64_t word = stamp << 20 | (random_at(n, stamp, 1) & 0xFFFFF);
        std::memcpy(bytes, &word, 8);
    } else {
        std::memcpy(bytes, &stamp, 8);
    }
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

/// The stamp of a value of key number `n`; nothing when it is not a value of that key.
template <class Shape>
[[nodiscard]] std::optional<std::uint64_t> stamp_of(std::uint64_t n, const typename Shape::value& value) {
    std::uint64_t stamp = 0;
    std::memcpy(&stamp, &value, 8);
    if constexpr (sizeof value == 8) stamp >>= 20;
    const typename Shape::value expected = stamped_value<Shape>(n, stamp);
    if (std::memcmp(&value, &expected, sizeof value) != 0) return std::nullopt;
    return stamp;
}

/// What the table should hold: key number -> stamp.
using hash_table_model = std::map<std::uint64_t, std::uint64_t>;

enum class table_operation : std::uint8_t { try_insert, insert_or_assign, update, erase };

[[nodiscard]] constexpr const char* name_of(table_operation what) noexcept {
    switch (what) {
        case table_operation::try_insert: return "try_insert";
        case table_operation::insert_or_assign: return "insert_or_assign";
        case table_operation::update: return "update";
        case table_operation::erase: return "erase";
    }
    return "?";
}

/// What the operation does to a table with room.
inline void apply(hash_table_model& model, table_operation what, std::uint64_t n, std::uint64_t stamp) {
    const bool there = model.contains(n);
    switch (what) {
        case table_operation::try_insert:
            if (!there) model[n] = stamp;
            return;
        case table_operation::insert_or_assign: model[n] = stamp; return;
        case table_operation::update:
            if (there) model[n] = stamp;
            return;
        case table_operation::erase: model.erase(n); return;
    }
}

template <class Shape>
using shaped_table = hash_table_image<typename Shape::key, typename Shape::value>;

/// Does it to a table (a shaped_table, or a hash_table of the shape's types).
template <class Shape, class Table>
table_answer apply(Table& table, table_operation what, std::uint64_t n, std::uint64_t stamp) {
    const auto key = nth_key<Shape>(n);
    switch (what) {
        case table_operation::try_insert: return table.try_insert(key, stamped_value<Shape>(n, stamp));
        case table_operation::insert_or_assign: return table.insert_or_assign(key, stamped_value<Shape>(n, stamp));
        case table_operation::update: return table.update(key, stamped_value<Shape>(n, stamp));
        case table_operation::erase: break;
    }
    return table.erase(key);
}

/// "" when reading each of the keys [0, keys) gives what the model says; `free_key`, if given, is not looked at.
template <class Shape, class Find>
[[nodiscard]] std::string difference(Find&& find, const hash_table_model& model, std::uint64_t keys,
                                     std::optional<std::uint64_t> free_key = std::nullopt) {
    for (std::uint64_t n = 0; n < keys; ++n) {
        if (free_key == n) continue;
        typename Shape::value value{};
        const bool found = find(nth_key<Shape>(n), value);
        const auto expected = model.find(n);
        if (found != (expected != model.end()))
            return "key " + std::to_string(n) + (found ? " is there and should not be" : " is lost");
        if (!found) continue;
        const auto stamp = stamp_of<Shape>(n, value);
        if (!stamp) return "key " + std::to_string(n) + " has a torn or foreign value";
        if (*stamp != expected->second)
            return "key " + std::to_string(n) + " has the value of operation " + std::to_string(*stamp) + ", not of " +
                   std::to_string(expected->second);
    }
    return {};
}

}  // namespace holdfast::test
