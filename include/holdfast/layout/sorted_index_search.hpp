// SPDX-License-Identifier: Apache-2.0
// sorted_index_search.hpp - key orders, and the one binary search that typed and run-time typed indexes share.
//
// An order turns stored bytes into something comparable (`load`), compares (`less`), and tells what cannot be compared:
// a NaN, or a key with one in it (`unordered`). Loads may race with a writer: a search over a slot that is being
// overwritten gives some position below size(), to be thrown away by the caller's check.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "holdfast/detail/prefetch.hpp"
#include "holdfast/detail/shared_bytes.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/layout/sorted_index_layout.hpp"

namespace holdfast::layout {

inline constexpr std::uint64_t index_npos = ~std::uint64_t{0};

/// Numbers, in their natural order. (A NaN is never stored by a builder; searching for one finds nothing.)
template <class T>
struct scalar_order {
    using value_type = T;
    [[nodiscard]] static constexpr std::size_t stride() noexcept { return sizeof(T); }
    [[nodiscard]] static T load(const std::byte* at) noexcept {
        if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T) == 0) return shared(at);
        std::byte copy[sizeof(T)];  // a range end at an odd offset of a packed record
        holdfast::detail::copy_from_shared(copy, at, sizeof copy);
        T value;
        std::memcpy(&value, copy, sizeof value);
        return value;
    }
    /// Requires: `at` aligned as keys are.
    [[nodiscard]] static T load_key(const std::byte* at) noexcept { return shared(at); }
    [[nodiscard]] static bool less(T a, T b) noexcept { return a < b; }
    /// A NaN, which equals nothing, itself included.
    [[nodiscard]] static bool unordered(T value) noexcept {
        if constexpr (std::is_floating_point_v<T>) return value != value;
        return false;
    }

 private:
    using bits =
        std::conditional_t<sizeof(T) == 1, std::uint8_t,
                           std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                              std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
    [[nodiscard]] static T shared(const std::byte* at) noexcept {
        return std::bit_cast<T>(holdfast::detail::shared_load<bits>(at));
    }
};

/// Sixteen bytes in byte order, as two big-endian words: ipv6.
struct bytes16_order {
    struct value_type {
        std::uint64_t high, low;
    };
    [[nodiscard]] static constexpr std::size_t stride() noexcept { return 16; }
    [[nodiscard]] static value_type load(const std::byte* at) noexcept {
        std::byte copy[16];
        holdfast::detail::copy_from_shared(copy, at, sizeof copy);
        std::uint64_t words[2];
        std::memcpy(words, copy, sizeof words);
        return {__builtin_bswap64(words[0]), __builtin_bswap64(words[1])};
    }
    [[nodiscard]] static value_type load_key(const std::byte* at) noexcept {
        return {__builtin_bswap64(holdfast::detail::shared_load<std::uint64_t>(at)),
                __builtin_bswap64(holdfast::detail::shared_load<std::uint64_t>(at + 8))};
    }
    [[nodiscard]] static bool less(const value_type& a, const value_type& b) noexcept {
        return (a.high < b.high) | ((a.high == b.high) & (a.low < b.low));
    }
    [[nodiscard]] static bool unordered(const value_type&) noexcept { return false; }
};

/// Any number of bytes in byte order.
struct bytes_order {
    using value_type = const std::byte*;
    std::size_t bytes = 0;
    [[nodiscard]] std::size_t stride() const noexcept { return bytes; }
    [[nodiscard]] static value_type load(const std::byte* at) noexcept { return at; }
    [[nodiscard]] static value_type load_key(const std::byte* at) noexcept { return at; }
    [[nodiscard]] bool less(value_type a, value_type b) const noexcept {
        for (std::size_t i = 0; i < bytes; ++i) {
            const auto x = holdfast::detail::shared_load<unsigned char>(a + i);
            const auto y = holdfast::detail::shared_load<unsigned char>(b + i);
            if (x != y) return x < y;
        }
        return false;
    }
    [[nodiscard]] static bool unordered(value_type) noexcept { return false; }
};

/// One field of a key of several.
struct key_part {
    key_order order = key_order::bytes;  // never `fields`
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
};

/// How the keys of one index compare, known at run time: from a record's schema or an image's header.
struct key_description {
    std::uint32_t key_bytes = 0;
    key_order order = key_order::bytes;
    std::vector<key_part> parts;  // of order `fields`, most significant first
};

template <class Use>
decltype(auto) with_scalar_order(key_order order, std::uint32_t bytes, Use&& use) {
    switch (order) {
        case key_order::u8: return use(scalar_order<std::uint8_t>{});
        case key_order::u16: return use(scalar_order<std::uint16_t>{});
        case key_order::u32: return use(scalar_order<std::uint32_t>{});
        case key_order::u64: return use(scalar_order<std::uint64_t>{});
        case key_order::i8: return use(scalar_order<std::int8_t>{});
        case key_order::i16: return use(scalar_order<std::int16_t>{});
        case key_order::i32: return use(scalar_order<std::int32_t>{});
        case key_order::i64: return use(scalar_order<std::int64_t>{});
        case key_order::f32: return use(scalar_order<float>{});
        case key_order::f64: return use(scalar_order<double>{});
        case key_order::bytes:
        case key_order::fields: break;
    }
    return use(bytes_order{bytes});
}

/// Several fields, compared one after the other.
struct fields_order {
    using value_type = const std::byte*;
    const key_description* description = nullptr;
    [[nodiscard]] std::size_t stride() const noexcept { return description->key_bytes; }
    [[nodiscard]] static value_type load(const std::byte* at) noexcept { return at; }
    [[nodiscard]] static value_type load_key(const std::byte* at) noexcept { return at; }
    [[nodiscard]] bool less(value_type a, value_type b) const noexcept {
        for (const key_part& part : description->parts) {
            const int sign = with_scalar_order(part.order, part.bytes, [&](auto order) {
                const auto x = order.load(a + part.offset);
                const auto y = order.load(b + part.offset);
                return order.less(x, y) ? -1 : order.less(y, x) ? 1 : 0;
            });
            if (sign != 0) return sign < 0;
        }
        return false;
    }
    /// A part that equals nothing makes the comparison of the parts behind it decide, and that is no order.
    [[nodiscard]] bool unordered(value_type key) const noexcept {
        for (const key_part& part : description->parts)
            if (with_scalar_order(part.order, part.bytes,
                                  [&](auto order) { return order.unordered(order.load(key + part.offset)); }))
                return true;
        return false;
    }
};

/// Calls use(order) with the order that `description` tells; the one place where run-time types become compiled code.
template <class Use>
decltype(auto) with_order(const key_description& description, Use&& use) {
    if (description.order == key_order::fields) return use(fields_order{&description});
    if (description.order == key_order::bytes && description.key_bytes == 16) return use(bytes16_order{});
    return with_scalar_order(description.order, description.key_bytes, std::forward<Use>(use));
}

/// Searches of one validated image in one order. Positions are < size(), or size(), or index_npos, whatever the bytes.
/// Requires: order.stride() == image.header().key_bytes.
template <class Order>
class index_search {
 public:
    using value_type = typename Order::value_type;

    index_search(const sorted_index_image& image, Order order) noexcept : image_(image), order_(order) {}

    /// First position whose key is not below `key`.
    [[nodiscard]] std::uint64_t lower_bound(value_type key) const noexcept {
        return partition_point([&](const std::byte* at) { return before(at, key); });
    }
    /// First position whose key is above `key`.
    [[nodiscard]] std::uint64_t upper_bound(value_type key) const noexcept {
        return partition_point([&](const std::byte* at) { return !above(at, key); });
    }
    [[nodiscard]] std::uint64_t find(value_type key) const noexcept {
        return order_.unordered(key) ? index_npos : exactly(key, lower_bound(key));
    }
    /// The record whose range [key, end] holds `key`; without ranges the same as find.
    [[nodiscard]] std::uint64_t find_covering(value_type key) const noexcept {
        if (!image_.has_ranges()) return find(key);
        return order_.unordered(key) ? index_npos : covering(key, upper_bound(key));
    }

    /// Many keys at once, their cache misses overlapped: calls found(i, position) for i from 0 to count - 1 in order,
    /// with what find(key_at(i)) would return.
    template <class KeyAt, class Found>
    void find_many(std::size_t count, KeyAt key_at, Found&& found) const {
        in_groups(
            count, key_at, found, [this](const std::byte* at, value_type key) { return before(at, key); },
            [](std::uint64_t bound) { return bound; },
            [this](value_type key, std::uint64_t bound) { return exactly(key, bound); });
    }
    /// Likewise, as find_covering(key_at(i)).
    template <class KeyAt, class Found>
    void find_covering_many(std::size_t count, KeyAt key_at, Found&& found) const {
        if (!image_.has_ranges()) return find_many(count, key_at, found);
        in_groups(
            count, key_at, found, [this](const std::byte* at, value_type key) { return !above(at, key); },
            [](std::uint64_t bound) { return bound == 0 ? bound : bound - 1; },
            [this](value_type key, std::uint64_t bound) { return covering(key, bound); });
    }
    /// Requires: the image has ranges, index < size().
    [[nodiscard]] value_type end_of(std::uint64_t index) const noexcept {
        return order_.load(image_.value(index) + image_.header().range_end_offset);
    }
    [[nodiscard]] value_type key_of(std::uint64_t index) const noexcept { return order_.load_key(image_.key(index)); }
    [[nodiscard]] const Order& order() const noexcept { return order_; }

 private:
    /// Keys whose searches go forward together: enough for as many misses as a core can have under way.
    static constexpr std::size_t group = 16;

    [[nodiscard]] bool before(const std::byte* at, value_type key) const noexcept {
        return order_.less(order_.load_key(at), key);
    }
    [[nodiscard]] bool above(const std::byte* at, value_type key) const noexcept {
        return order_.less(key, order_.load_key(at));
    }
    /// What a find makes of the key's lower bound, whatever that is.
    [[nodiscard]] std::uint64_t exactly(value_type key, std::uint64_t bound) const noexcept {
        if (bound >= image_.size()) return index_npos;
        const auto stored = order_.load_key(image_.key(bound));
        return order_.less(key, stored) || order_.less(stored, key) ? index_npos : bound;
    }
    /// What a find_covering makes of the key's upper bound. Requires: ranges, bound <= size().
    [[nodiscard]] std::uint64_t covering(value_type key, std::uint64_t bound) const noexcept {
        if (bound == 0) return index_npos;
        return order_.less(end_of(bound - 1), key) ? index_npos : bound - 1;
    }

    /// A mask: each step of a search waits for the one before it, and an `and` takes a third of a multiplication's
    /// time.
    [[nodiscard]] static std::uint64_t all_or_none(bool all) noexcept {
        return std::uint64_t{0} - static_cast<std::uint64_t>(all);
    }

    /// Halves the remaining records log2(size) times by arithmetic instead of a branch that would be mispredicted half
    /// of the time. Terminates and stays inside whatever the predicate answers.
    template <class Before>
    [[nodiscard]] std::uint64_t partition_point(Before before) const noexcept {
        const std::size_t stride = order_.stride();
        const std::byte* const keys = image_.keys();
        std::uint64_t left = image_.size();
        if (left == 0) return 0;
        std::uint64_t base = 0;
        while (left > 1) {
            const std::uint64_t half = left / 2;
            base += half & all_or_none(before(keys + (base + half - 1) * stride));
            left -= half;
        }
        return base + static_cast<std::uint64_t>(before(keys + base * stride));
    }

    /// Searches in groups. Each group asks for its values' lines before it looks at the first of them.
    template <class KeyAt, class Found, class Left, class Candidate, class Finish>
    void in_groups(std::size_t count, KeyAt& key_at, Found& found, Left left_of, Candidate candidate,
                   Finish finish) const {
        value_type keys[group];
        std::uint64_t bounds[group];
        for (std::size_t from = 0; from < count; from += group) {
            const std::size_t n = count - from < group ? count - from : group;
            for (std::size_t i = 0; i < n; ++i) keys[i] = key_at(from + i);
            partition_points(keys, n, bounds, left_of);
            for (std::size_t i = 0; i < n; ++i)
                if (const std::uint64_t at = candidate(bounds[i]); at < image_.size()) prefetch(image_.value(at));
            for (std::size_t i = 0; i < n; ++i)
                found(from + i, order_.unordered(keys[i]) ? index_npos : finish(keys[i], bounds[i]));
        }
    }

    /// partition_point for each of up to a group's keys, one halving of all before the next: the probes of a step do
    /// not wait for each other, and each key's next probe is asked for as soon as it is known. As many steps as for
    /// one key, since they depend on the size alone, and every base + left stays <= size.
    template <class Left>
    void partition_points(const value_type* wanted, std::size_t n, std::uint64_t* bases, Left left_of) const noexcept {
        const std::size_t stride = order_.stride();
        const std::byte* const keys = image_.keys();
        std::uint64_t left = image_.size();
        for (std::size_t i = 0; i < n; ++i) bases[i] = 0;
        if (left == 0) return;
        while (left > 1) {
            const std::uint64_t half = left / 2;
            left -= half;
            const std::uint64_t ahead = left > 1 ? left / 2 - 1 : 0;  // of the next probe, from the base
            for (std::size_t i = 0; i < n; ++i) {
                const bool right = left_of(keys + (bases[i] + half - 1) * stride, wanted[i]);
                bases[i] += half & all_or_none(right);
                prefetch(keys + (bases[i] + ahead) * stride);
            }
        }
        for (std::size_t i = 0; i < n; ++i)
            bases[i] += static_cast<std::uint64_t>(left_of(keys + bases[i] * stride, wanted[i]));
    }
    static void prefetch(const std::byte* at) noexcept { holdfast::detail::prefetch(at); }

    const sorted_index_image& image_;
    Order order_;
};

}  // namespace holdfast::layout
