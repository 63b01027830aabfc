// SPDX-License-Identifier: Apache-2.0
// sorted_index_build.hpp - collects records in any order and lays them down as the image of a sorted index.
//
// Refuses what the image could not answer honestly: two records of one key, ranges that overlap or end before they
// begin, keys that are no number. Nothing is written until all records have passed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/shared_bytes.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/error.hpp"
#include "holdfast/layout/sorted_index_layout.hpp"
#include "holdfast/layout/sorted_index_search.hpp"

namespace holdfast {

/// A record that a sorted index cannot take, named by its place in the order of adding (the first is 0).
class sorted_index_error : public error {
 public:
    sorted_index_error(std::string_view explanation, std::uint64_t record, std::optional<std::uint64_t> other)
        : error(errc::invalid_argument, "record " + std::to_string(record), explanation),
          record_(record),
          other_(other) {}
    [[nodiscard]] std::uint64_t record() const noexcept { return record_; }
    /// The earlier record it clashes with, where there is one.
    [[nodiscard]] std::optional<std::uint64_t> other() const noexcept { return other_; }

 private:
    std::uint64_t record_;
    std::optional<std::uint64_t> other_;
};

}  // namespace holdfast

namespace holdfast::layout {

/// Records on their way into an image, in private memory. Knows keys and values as bytes; typed builders stand on it.
class sorted_index_build_core {
 public:
    /// `range_end_offset`: where in a value the last key of its range lies, or sorted_index_no_range.
    /// Throws: error(invalid_argument) when no image can have these numbers.
    sorted_index_build_core(key_description keys, std::uint32_t value_bytes, std::uint32_t range_end_offset)
        : description_(std::move(keys)), value_bytes_(value_bytes), range_end_offset_(range_end_offset) {
        const auto require = [](bool fine, std::string_view what) {
            if (!fine) throw error(errc::invalid_argument, "sorted index", what);
        };
        require(description_.key_bytes > 0 && description_.key_bytes <= sorted_index_key_bytes_max,
                "a key has 1 to 4096 bytes; take a smaller key record");
        require(value_bytes <= sorted_index_value_bytes_max, "a value has at most 2^24 bytes; take a smaller record");
        const std::uint32_t scalar = key_order_bytes(description_.order);
        require(scalar == 0 || scalar == description_.key_bytes, "key size contradicts key order");
        for (const key_part& part : description_.parts)
            require(part.offset <= description_.key_bytes && part.bytes <= description_.key_bytes - part.offset &&
                        (key_order_bytes(part.order) == 0 || key_order_bytes(part.order) == part.bytes),
                    "a key field lies outside the key or has another size than its type");
        require(range_end_offset == sorted_index_no_range ||
                    (value_bytes >= description_.key_bytes && range_end_offset <= value_bytes - description_.key_bytes),
                "the range end must be a field of the value, of the key's type");
    }

    void reserve(std::uint64_t records) {
        keys_.reserve(static_cast<std::size_t>(records) * description_.key_bytes);
        values_.reserve(static_cast<std::size_t>(records) * value_bytes_);
    }
    /// Requires: sizes as given to the constructor.
    void add(std::span<const std::byte> key, std::span<const std::byte> value) {
        if (key.size() != description_.key_bytes || value.size() != value_bytes_)
            throw sorted_index_error("key or value has another size than the index's; check the schema", size_, {});
        keys_.insert(keys_.end(), key.begin(), key.end());
        values_.insert(values_.end(), value.begin(), value.end());
        ++size_;
        checked_ = false;
    }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    [[nodiscard]] const key_description& description() const noexcept { return description_; }
    [[nodiscard]] std::uint32_t value_bytes() const noexcept { return value_bytes_; }
    [[nodiscard]] std::uint32_t range_end_offset() const noexcept { return range_end_offset_; }
    [[nodiscard]] std::uint64_t image_bytes() const noexcept { return placement().image_bytes; }

    /// Sorts and checks what was added. Throws: sorted_index_error. Cost: n log n, or n when added in order.
    void finish() {
        if (checked_) return;
        with_order(description_, [this](auto order) { sort_and_check(order); });
        checked_ = true;
    }

    /// Writes the image to the front of `out`, as one who publishes: readers of the slot's earlier object may still
    /// look. Requires: out.size() >= image_bytes(), out 16-byte aligned. Throws: as finish(); error(invalid_argument).
    void write(std::span<std::byte> out) {
        finish();
        const sorted_index_placement placed = placement();
        if (out.size() < placed.image_bytes || reinterpret_cast<std::uintptr_t>(out.data()) % sorted_index_alignment)
            throw error(errc::invalid_argument, "sorted index", "the room given is too small or not 16-byte aligned");
        sorted_index_header header{};
        header.magic = sorted_index_magic;
        header.format_version = sorted_index_format_version;
        header.key_order = static_cast<std::uint32_t>(description_.order);
        header.count = size_;
        header.image_bytes = placed.image_bytes;
        header.keys_offset = placed.keys_offset;
        header.values_offset = placed.values_offset;
        header.key_bytes = description_.key_bytes;
        header.value_bytes = value_bytes_;
        header.range_end_offset = range_end_offset_;
        std::byte* const base = out.data();
        put(base, reinterpret_cast<const std::byte*>(&header), sizeof header);
        write_array(base + placed.keys_offset, base + placed.values_offset, keys_, description_.key_bytes);
        write_array(base + placed.values_offset, base + placed.image_bytes, values_, value_bytes_);
        // Not read back: a peer that may write could have changed the header between.
        header.checksum = sorted_index_image::of_builder(header, base).computed_checksum();
        holdfast::detail::shared_store(base + offsetof(sorted_index_header, checksum), header.checksum);
    }

 private:
    [[nodiscard]] sorted_index_placement placement() const noexcept {
        return sorted_index_placement::of(size_, description_.key_bytes, value_bytes_);
    }
    static void put(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
        holdfast::detail::copy_to_shared(to, from, bytes);
    }
    [[nodiscard]] const std::byte* key(std::uint64_t record) const noexcept {
        return keys_.data() + record * description_.key_bytes;
    }
    [[nodiscard]] const std::byte* range_end(std::uint64_t record) const noexcept {
        return values_.data() + record * value_bytes_ + range_end_offset_;
    }
    /// The record at a place of the sorted order.
    [[nodiscard]] std::uint64_t record_at(std::uint64_t place) const noexcept {
        return order_.empty() ? place : order_[place];
    }

    template <class Order>
    void sort_and_check(Order order) {
        if (size_ > sorted_index_count_max)
            throw error(errc::invalid_argument, "sorted index", "more than 2^36 records; split it");
        for (std::uint64_t i = 0; i < size_; ++i) {
            if (order.unordered(order.load(key(i)))) throw sorted_index_error("its key is not a number (NaN)", i, {});
        }
        const auto before = [&](std::uint64_t a, std::uint64_t b) {
            const auto x = order.load(key(a));
            const auto y = order.load(key(b));
            return order.less(x, y) || (!order.less(y, x) && a < b);
        };
        order_.clear();
        bool sorted = true;
        for (std::uint64_t i = 1; sorted && i < size_; ++i) sorted = before(i - 1, i);
        if (!sorted) {
            order_.resize(static_cast<std::size_t>(size_));
            std::iota(order_.begin(), order_.end(), std::uint64_t{0});
            std::sort(order_.begin(), order_.end(), before);
        }
        check_neighbours(order);
    }

    template <class Order>
    void check_neighbours(const Order& order) const {
        const bool ranges = range_end_offset_ != sorted_index_no_range;
        for (std::uint64_t place = 0; place < size_; ++place) {
            const std::uint64_t record = record_at(place);
            // A NaN end fails this comparison too, as it must.
            if (ranges && !(order.less(order.load(key(record)), order.load(range_end(record))) ||
                            !(order.less(order.load(range_end(record)), order.load(key(record))) ||
                              order.unordered(order.load(range_end(record))))))
                throw sorted_index_error("its range ends before it begins", record, {});
            if (place == 0) continue;
            const std::uint64_t previous = record_at(place - 1);
            const std::uint64_t later = std::max(record, previous);
            const std::uint64_t earlier = std::min(record, previous);
            if (!order.less(order.load(key(previous)), order.load(key(record))))
                throw sorted_index_error("has the same key as record " + std::to_string(earlier), later, earlier);
            if (ranges && !order.less(order.load(range_end(previous)), order.load(key(record))))
                throw sorted_index_error("its range overlaps that of record " + std::to_string(earlier), later,
                                         earlier);
        }
    }

    /// Writes one array in sorted order and zeroes the gap behind it, through a buffer so that the shared side is
    /// written by long copies whatever the stride.
    void write_array(std::byte* to, const std::byte* end, const std::vector<std::byte>& from,
                     std::size_t stride) const {
        if (order_.empty()) {
            put(to, from.data(), from.size());
            to += from.size();
        } else if (stride != 0) {
            const std::size_t batch = std::max<std::size_t>(1, 32768 / stride);
            std::vector<std::byte> buffer;
            buffer.reserve(batch * stride);
            for (const std::uint64_t record : order_) {
                const std::byte* at = from.data() + record * stride;
                buffer.insert(buffer.end(), at, at + stride);
                if (buffer.size() < batch * stride) continue;
                put(to, buffer.data(), buffer.size());
                to += buffer.size();
                buffer.clear();
            }
            put(to, buffer.data(), buffer.size());
            to += buffer.size();
        }
        for (; to != end; ++to) holdfast::detail::shared_store<unsigned char>(to, 0);
    }

    key_description description_;
    std::uint32_t value_bytes_ = 0;
    std::uint32_t range_end_offset_ = sorted_index_no_range;
    std::uint64_t size_ = 0;
    std::vector<std::byte> keys_, values_;  // in the order of adding
    std::vector<std::uint64_t> order_;      // record at each place; empty: as added
    bool checked_ = false;
};

}  // namespace holdfast::layout
