// SPDX-License-Identifier: Apache-2.0
// view.hpp - looks into the image of a sorted index that lies in memory. See sorted_index.hpp.
//
// A view is a pointer and a private copy of the image's header. It gives copies of records, never references: the bytes
// may be somebody else's. How long the bytes mean something is the caller's affair (a pinned snapshot_view, a segment
// of an index's own); they are never read outside the image, whatever they hold.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/error.hpp"
#include "holdfast/layout/sorted_index_layout.hpp"
#include "holdfast/layout/sorted_index_search.hpp"
#include "holdfast/record/untrusted.hpp"
#include "holdfast/sorted_index/keys.hpp"

namespace holdfast {

/// One record of a sorted index.
template <class K, class V>
struct sorted_index_entry {
    K key{};
    V value{};
};

/// A typed view. RangeEnd: the member of V that ends the range [key, value.*RangeEnd], both ends included; nullptr when
/// records are single keys.
template <class K, class V, auto RangeEnd = nullptr>
class sorted_index_view {
    static_assert(detail::index_key<K>, "holdfast: a key is a record without padding, or a float");
    static_assert(record<V>, "holdfast: a value is a record");

 public:
    using value_type = sorted_index_entry<K, V>;
    class iterator;
    using const_iterator = iterator;

    /// A view of nothing.
    sorted_index_view() = default;

    /// Throws: error(corrupt) for bytes that are no index of these records.
    [[nodiscard]] static sorted_index_view over(std::span<const std::byte> image,
                                                const std::string& subject = "image") {
        sorted_index_view view;
        if (const char* wrong = view.parse(image)) throw error(errc::corrupt, subject, wrong);
        return view;
    }
    /// Likewise, for hot paths. Returns: nullptr, or what is wrong (a static text), the view unchanged.
    [[nodiscard]] const char* parse(std::span<const std::byte> bytes) noexcept {
        layout::sorted_index_image image;
        if (const char* wrong = layout::sorted_index_image::parse(bytes, image)) return wrong;
        const layout::sorted_index_header& header = image.header();
        if (header.key_bytes != sizeof(K) ||
            header.key_order != static_cast<std::uint32_t>(detail::description_of<K>().order))
            return "its keys are of another type";
        if (header.value_bytes < sizeof(V)) return "its values are shorter than asked for";  // longer: fields added
        if (header.range_end_offset != detail::range_end_offset_of<K, V, RangeEnd>())
            return "its ranges end in another field";
        image_ = image;
        return nullptr;
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return image_.size(); }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    /// Requires: index < size().
    [[nodiscard]] K key(std::uint64_t index) const noexcept { return copy<K>(image_.key(index)); }
    [[nodiscard]] V value(std::uint64_t index) const noexcept { return copy<V>(image_.value(index)); }
    [[nodiscard]] value_type operator[](std::uint64_t index) const noexcept { return {key(index), value(index)}; }

    [[nodiscard]] iterator begin() const noexcept { return {*this, 0}; }
    [[nodiscard]] iterator end() const noexcept { return {*this, size()}; }

    /// The record of exactly that key, or end(). Cost of these: log2(size) + 1 comparisons without branches.
    [[nodiscard]] iterator find(const K& wanted) const noexcept { return at(search().find(load(wanted))); }
    /// The record whose range holds the key (without ranges: as find), or end().
    [[nodiscard]] iterator find_covering(const K& wanted) const noexcept {
        return at(search().find_covering(load(wanted)));
    }
    [[nodiscard]] bool contains(const K& wanted) const noexcept { return find(wanted) != end(); }

    /// Finds many keys with their cache misses overlapped: calls found(i, it) for each key in order, `it` being what
    /// find(keys[i]) would return. Cost: as many single ones; far less in an index that no cache holds.
    template <class Found>
    void find_many(std::span<const K> keys, Found&& found) const {
        search().find_many(
            keys.size(), [&](std::size_t i) { return load(keys[i]); },
            [&](std::size_t i, std::uint64_t position) { found(i, at(position)); });
    }
    /// Likewise, as find_covering(keys[i]).
    template <class Found>
    void find_covering_many(std::span<const K> keys, Found&& found) const {
        search().find_covering_many(
            keys.size(), [&](std::size_t i) { return load(keys[i]); },
            [&](std::size_t i, std::uint64_t position) { found(i, at(position)); });
    }
    /// The first record whose key is not below / is above the wanted one.
    [[nodiscard]] iterator lower_bound(const K& wanted) const noexcept {
        return {*this, search().lower_bound(load(wanted))};
    }
    [[nodiscard]] iterator upper_bound(const K& wanted) const noexcept {
        return {*this, search().upper_bound(load(wanted))};
    }

    [[nodiscard]] const layout::sorted_index_image& image() const noexcept { return image_; }

 private:
    [[nodiscard]] auto search() const noexcept { return layout::index_search(image_, detail::order_for<K>()); }
    [[nodiscard]] static auto load(const K& key) noexcept {
        using order = decltype(detail::order_for<K>());
        return order::load(reinterpret_cast<const std::byte*>(&key));
    }
    [[nodiscard]] iterator at(std::uint64_t index) const noexcept {
        return {*this, index == layout::index_npos ? size() : index};
    }
    template <class T>
    [[nodiscard]] static T copy(const std::byte* from) noexcept {
        alignas(8) std::array<std::byte, sizeof(T)> bytes;
        detail::copy_from_shared<sizeof(T)>(bytes.data(), from);
        return detail::record_of<T>(bytes);
    }

    layout::sorted_index_image image_;
};

/// Random access; `*it` is a copy. Must not outlive its view.
template <class K, class V, auto RangeEnd>
class sorted_index_view<K, V, RangeEnd>::iterator {
 public:
    using value_type = sorted_index_entry<K, V>;
    using reference = value_type;
    using difference_type = std::int64_t;
    using iterator_concept = std::random_access_iterator_tag;
    using iterator_category = std::input_iterator_tag;
    struct pointer {
        value_type entry;
        const value_type* operator->() const noexcept { return &entry; }
    };

    iterator() = default;
    iterator(const sorted_index_view& view, std::uint64_t index) noexcept
        : view_(&view), index_(static_cast<difference_type>(index)) {}

    [[nodiscard]] value_type operator*() const noexcept { return (*view_)[index()]; }
    [[nodiscard]] pointer operator->() const noexcept { return {**this}; }
    [[nodiscard]] value_type operator[](difference_type n) const noexcept { return *(*this + n); }
    /// Its place among the records.
    [[nodiscard]] std::uint64_t index() const noexcept { return static_cast<std::uint64_t>(index_); }

    iterator& operator++() noexcept { return *this += 1; }
    iterator& operator--() noexcept { return *this += -1; }
    iterator operator++(int) noexcept { return std::exchange(*this, *this + 1); }
    iterator operator--(int) noexcept { return std::exchange(*this, *this + -1); }
    iterator& operator+=(difference_type n) noexcept {
        index_ += n;
        return *this;
    }
    iterator& operator-=(difference_type n) noexcept { return *this += -n; }
    friend iterator operator+(iterator it, difference_type n) noexcept { return it += n; }
    friend iterator operator+(difference_type n, iterator it) noexcept { return it += n; }
    friend iterator operator-(iterator it, difference_type n) noexcept { return it += -n; }
    friend difference_type operator-(const iterator& a, const iterator& b) noexcept { return a.index_ - b.index_; }
    friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.index_ == b.index_; }
    friend std::strong_ordering operator<=>(const iterator& a, const iterator& b) noexcept {
        return a.index_ <=> b.index_;
    }

 private:
    const sorted_index_view* view_ = nullptr;
    difference_type index_ = 0;
};

}  // namespace holdfast
