// SPDX-License-Identifier: Apache-2.0
// array_model.hpp - an array over plain bytes, without a segment, and what it should hold: values that are functions of
// their index and of the number of the store that put them there, their stamp.
//
// A torn element, one of another index, or one older than before is recognised by itself. Stamp 0 is an element of
// zeros, as a new array has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/array/recover.hpp"
#include "holdfast/array/verify.hpp"
#include "support/hash_table_image.hpp"
#include "support/seed.hpp"

namespace holdfast::test {

/// Shapes of elements: one whole word; part of a word; several words; the last word in part; larger than a group.
struct narrow_elements {
    using value = std::uint64_t;
    static constexpr std::uint64_t size = 300, stamp_max = 1ULL << 40;
    static constexpr const char* name = "narrow";
};
struct crumb_elements {
    using value = std::array<std::uint8_t, 3>;
    static constexpr std::uint64_t size = 600, stamp_max = 1 << 12;
    static constexpr const char* name = "crumbs";
};
struct wide_elements {
    using value = std::array<std::uint64_t, 7>;
    static constexpr std::uint64_t size = 40, stamp_max = ~0ULL;
    static constexpr const char* name = "wide";
};
struct crooked_elements {
    using value = std::array<std::uint32_t, 5>;
    static constexpr std::uint64_t size = 80, stamp_max = ~0ULL;
    static constexpr const char* name = "crooked";
};
struct large_elements {
    using value = std::array<std::uint64_t, 150>;
    static constexpr std::uint64_t size = 6, stamp_max = ~0ULL;
    static constexpr const char* name = "large";
};

/// What store number `stamp` puts at `index`.
template <class T>
[[nodiscard]] T stamped_element(std::uint64_t index, std::uint64_t stamp) {
    T value{};
    if (stamp == 0) return value;
    if constexpr (sizeof(T) <= 8) {
        constexpr unsigned bits = sizeof(T) == 8 ? 20 : 12;
        const std::uint64_t word = stamp << bits | (random_at(index, stamp, 1) & ((1U << bits) - 1));
        std::memcpy(&value, &word, sizeof value);
    } else {
        std::byte bytes[sizeof(T)];
        for (std::size_t at = 0; at < sizeof(T); at += 4) {
            const auto piece = static_cast<std::uint32_t>(random_at(index, stamp, at));
            std::memcpy(bytes + at, &piece, 4);
        }
        std::memcpy(bytes, &stamp, 8);
        std::memcpy(&value, bytes, sizeof value);
    }
    return value;
}

/// The stamp of a value at `index`; nothing when no store puts it there.
template <class T>
[[nodiscard]] std::optional<std::uint64_t> stamp_of_element(std::uint64_t index, const T& value) {
    std::uint64_t stamp = 0;
    std::memcpy(&stamp, &value, sizeof(T) < 8 ? sizeof(T) : 8);
    if constexpr (sizeof(T) <= 8) stamp >>= sizeof(T) == 8 ? 20 : 12;
    const T expected = stamped_element<T>(index, stamp);
    if (std::memcmp(&value, &expected, sizeof(T)) != 0) return std::nullopt;
    return stamp;
}

/// What the array should hold: the stamp of each element.
using array_model = std::vector<std::uint64_t>;

/// An array of T on bytes of its own, or on someone else's. One writer, and loaders on the same bytes.
template <class T, holdfast::detail::copy_by By = holdfast::detail::copy_by::best>
class array_image {
 public:
    using element = holdfast::detail::fixed_element<T>;
    using view = holdfast::detail::array_view<std::byte, element>;
    using const_view = holdfast::detail::array_view<const std::byte, element>;
    using loader = holdfast::detail::array_loader<element, By>;

    explicit array_image(const layout::array_geometry& g)
        : geometry_(g), own_(std::make_unique<aligned_bytes>(g.body_bytes())), body_(own_->bytes()) {
        attach();
    }
    /// Recovers the array in `body`, as the next writer would.
    array_image(std::span<std::byte> body, const layout::array_geometry& g) : geometry_(g), body_(body) { attach(); }

    [[nodiscard]] view bytes_view() const { return {body_, geometry_, {}}; }
    [[nodiscard]] loader reader() const { return loader(bytes_view().as_const()); }
    [[nodiscard]] std::span<std::byte> bytes() const { return body_; }
    [[nodiscard]] const layout::array_geometry& geometry() const { return geometry_; }
    [[nodiscard]] const array_recovery& recovery() const { return recovery_; }

    /// Stores values of that stamp at [first, first + count).
    void store(std::uint64_t first, std::uint64_t count, std::uint64_t stamp) {
        std::vector<T> values;
        for (std::uint64_t i = 0; i < count; ++i) values.push_back(stamped_element<T>(first + i, stamp));
        put(first, values);
    }
    /// Leaves the array as a writer does that is killed in such a store right behind its commit, before any cell.
    /// Requires: no other store through this image afterwards; the next writer is another one.
    void arm(std::uint64_t first, std::uint64_t count, std::uint64_t stamp) {
        const std::size_t journal_end = geometry_.journal_offset + geometry_.journal_bytes();
        const std::vector<std::byte> before(body_.begin(), body_.end());
        store(first, count, stamp);
        std::memcpy(body_.data() + journal_end, before.data() + journal_end, before.size() - journal_end);
        const view v = bytes_view();
        holdfast::detail::versions_odd(v, {first, count});
        holdfast::detail::set_sequence(v, holdfast::detail::load_relaxed<std::uint64_t>(v.journal) - 1);
    }
    void put(std::uint64_t first, std::span<const T> values) {
        writer_.store(first, values.size(), reinterpret_cast<const std::byte*>(values.data()), sizeof(T));
    }
    /// The stamp of an element; nothing when it is torn, foreign or does not come to rest.
    [[nodiscard]] static std::optional<std::uint64_t> stamp_at(const loader& in, std::uint64_t index) {
        T value{};
        if (in.load(index, reinterpret_cast<std::byte*>(&value)) != outcome::ok) return std::nullopt;
        return stamp_of_element<T>(index, value);
    }

    /// Findings of the full check as text, empty when the array is intact. Requires: nothing writes meanwhile.
    [[nodiscard]] std::string damage(array_verification* report = nullptr) const {
        return damage_of(bytes_view().as_const(), report);
    }
    [[nodiscard]] static std::string damage_of(const const_view& view, array_verification* report = nullptr) {
        std::string text;
        const array_verification result = holdfast::detail::verify(view, [&](const array_finding& f) {
            text += std::string(describe(f.what)) + " (" + std::to_string(f.count) + " elements from " +
                    std::to_string(f.first) + "); ";
            return text.size() < 1000;
        });
        if (result.busy != 0) text += std::to_string(result.busy) + " parts were busy, though nothing writes; ";
        if (report != nullptr) *report = result;
        return text;
    }

 private:
    void attach() {
        recovery_ = holdfast::detail::recover(bytes_view());
        writer_ = holdfast::detail::array_mutator<element>(bytes_view());
    }
    layout::array_geometry geometry_;
    std::unique_ptr<aligned_bytes> own_;
    std::span<std::byte> body_;
    array_recovery recovery_;
    holdfast::detail::array_mutator<element> writer_;
};

/// "" when each element has the model's stamp.
template <class Loader, class T>
[[nodiscard]] std::string array_difference(const Loader& in, const array_model& model) {
    for (std::uint64_t i = 0; i < model.size(); ++i) {
        const auto stamp = array_image<T>::stamp_at(in, i);
        if (!stamp) return "element " + std::to_string(i) + " is torn, foreign or cannot be read";
        if (*stamp != model[i])
            return "element " + std::to_string(i) + " is of store " + std::to_string(*stamp) + ", not of " +
                   std::to_string(model[i]);
    }
    return {};
}

}  // namespace holdfast::test
