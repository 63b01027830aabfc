// SPDX-License-Identifier: Apache-2.0
// untrusted.hpp - a record out of bytes that another process wrote.
//
// Every pattern of bytes is some value of the integers, floats, texts and enums (of fixed underlying type) a record is
// made of, but not of bool: a byte of 2 read as one is undefined behaviour. So bytes that mean bool are brought to 0 or
// 1 first. Records without any cost nothing for it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "holdfast/record/reflect.hpp"

namespace holdfast::detail {

/// Whether any member, nested ones included, is a bool.
[[nodiscard]] constexpr bool has_boolean(const element_facts& facts) noexcept {
    if (facts.nested == nullptr) return facts.type == field_type::boolean;
    for (std::size_t i = 0; i < facts.nested->count; ++i)
        if (has_boolean(facts.nested->rows[i].facts)) return true;
    return false;
}

/// Where a record's bools lie: runs of bytes.
struct boolean_runs {
    struct run {
        std::size_t offset;
        std::size_t count;
    };
    std::array<run, 64> list{};  // a record has at most 64 fields (record_schema)
    std::size_t count = 0;

    void add(const element_facts& facts, std::size_t base) noexcept {
        if (facts.nested == nullptr) {
            if (facts.type == field_type::boolean && count < list.size()) list[count++] = {base, facts.count};
            return;
        }
        for (std::size_t i = 0; i < facts.nested->count; ++i)
            add(facts.nested->rows[i].facts, base + offset_of(*facts.nested, facts.nested->rows[i]));
    }
};

/// The T in `bytes`, whatever they are. Requires: bytes hold sizeof(T).
template <class T>
[[nodiscard]] T record_of(std::array<std::byte, sizeof(T)> bytes) noexcept {
    if constexpr (has_boolean(facts_for<T>())) {
        static const boolean_runs runs = [] {
            boolean_runs found;
            found.add(facts_for<T>(), 0);
            return found;
        }();
        for (std::size_t i = 0; i < runs.count; ++i)
            for (std::size_t at = runs.list[i].offset; at < runs.list[i].offset + runs.list[i].count; ++at)
                bytes[at] = std::byte{bytes[at] != std::byte{0}};
    }
    return std::bit_cast<T>(bytes);
}

/// Room for a T whose bytes come from a segment; a T need not be default-constructible.
template <class T>
struct raw_record {
    alignas(T) std::array<std::byte, sizeof(T)> bytes;
    [[nodiscard]] std::byte* data() noexcept { return bytes.data(); }
    [[nodiscard]] T get() const noexcept { return record_of<T>(bytes); }
};

/// The bytes of a record of our own.
template <class T>
[[nodiscard]] const std::byte* bytes_of(const T& value) noexcept {
    return reinterpret_cast<const std::byte*>(&value);
}

}  // namespace holdfast::detail
