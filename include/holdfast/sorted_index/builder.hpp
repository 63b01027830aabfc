// SPDX-License-Identifier: Apache-2.0
// builder.hpp - collects records for a sorted index, checks them, and writes the image. See sorted_index.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "holdfast/layout/sorted_index_build.hpp"
#include "holdfast/sorted_index/keys.hpp"
#include "holdfast/sorted_index/view.hpp"

namespace holdfast {

/// Collects records known by their schema alone, in any order.
class dynamic_sorted_index_builder {
 public:
    explicit dynamic_sorted_index_builder(const index_shape& shape)
        : core_(shape.key, shape.value_bytes, shape.range_end_offset), words_(shape.words()) {}

    void reserve(std::uint64_t records) { core_.reserve(records); }
    /// Throws: sorted_index_error when a size is not the shape's.
    void add(std::span<const std::byte> key, std::span<const std::byte> value) { core_.add(key, value); }
    [[nodiscard]] std::uint64_t size() const noexcept { return core_.size(); }

    /// Sorts and checks. Throws: sorted_index_error naming the record that repeats a key, overlaps, ends before it
    /// begins, or is no number. Cost: n log n; n when added in order.
    void finish() { core_.finish(); }
    /// Bytes of the image.
    [[nodiscard]] std::uint64_t image_bytes() const noexcept { return core_.image_bytes(); }
    /// Bytes of the image of that many records, to size a snapshot's slots.
    [[nodiscard]] static std::uint64_t image_bytes_of(const index_shape& shape, std::uint64_t records) noexcept {
        return layout::sorted_index_placement::of(records, shape.key.key_bytes, shape.value_bytes).image_bytes;
    }
    /// Writes the image. Requires: out 16-byte aligned, image_bytes() long or longer. Throws: as finish.
    void write(std::span<std::byte> out) { core_.write(out); }
    /// What index_shape::words() says of these records.
    [[nodiscard]] const std::array<std::uint64_t, 4>& shape_words() const noexcept { return words_; }
    /// The image in memory of its own. Throws: as finish.
    [[nodiscard]] std::vector<std::byte> build() {
        std::vector<std::byte> image(static_cast<std::size_t>(image_bytes()));
        write(image);
        return image;
    }

 private:
    layout::sorted_index_build_core core_;
    std::array<std::uint64_t, 4> words_;
};

/// Collects typed records in any order.
template <class K, class V, auto RangeEnd = nullptr>
class sorted_index_builder : private dynamic_sorted_index_builder {
 public:
    using value_type = sorted_index_entry<K, V>;

    sorted_index_builder() : dynamic_sorted_index_builder(detail::shape_of<K, V, RangeEnd>()) {}

    void add(const K& key, const V& value) { dynamic_sorted_index_builder::add(bytes_of(key), bytes_of(value)); }
    /// So that std::back_inserter works.
    void push_back(const value_type& entry) { add(entry.key, entry.value); }
    [[nodiscard]] static std::uint64_t image_bytes_of(std::uint64_t records) noexcept {
        return layout::sorted_index_placement::of(records, sizeof(K), sizeof(V)).image_bytes;
    }

    using dynamic_sorted_index_builder::build;
    using dynamic_sorted_index_builder::finish;
    using dynamic_sorted_index_builder::image_bytes;
    using dynamic_sorted_index_builder::reserve;
    using dynamic_sorted_index_builder::size;
    using dynamic_sorted_index_builder::write;

    /// For what takes either builder.
    [[nodiscard]] dynamic_sorted_index_builder& untyped() noexcept { return *this; }

 private:
    template <class T>
    [[nodiscard]] static std::span<const std::byte> bytes_of(const T& value) noexcept {
        return {reinterpret_cast<const std::byte*>(&value), sizeof(T)};
    }
};

}  // namespace holdfast
