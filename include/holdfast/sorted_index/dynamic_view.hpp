// SPDX-License-Identifier: Apache-2.0
// dynamic_view.hpp - a view of a sorted index known by its schema alone: keys and values are bytes in the records'
// layout. What holds of view.hpp holds here; the search is the same code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/layout/sorted_index_layout.hpp"
#include "holdfast/layout/sorted_index_search.hpp"
#include "holdfast/sorted_index/keys.hpp"

namespace holdfast {

class dynamic_sorted_index_view {
 public:
    /// A view of nothing, for parse.
    explicit dynamic_sorted_index_view(std::shared_ptr<const index_shape> shape) noexcept : shape_(std::move(shape)) {}

    /// Throws: error(corrupt) for bytes that are no index of this shape.
    [[nodiscard]] static dynamic_sorted_index_view over(std::span<const std::byte> image,
                                                        std::shared_ptr<const index_shape> shape,
                                                        const std::string& subject = "image") {
        dynamic_sorted_index_view view(std::move(shape));
        if (const char* wrong = view.parse(image)) throw error(errc::corrupt, subject, wrong);
        return view;
    }
    /// Returns: nullptr, or what is wrong (a static text), the view unchanged.
    [[nodiscard]] const char* parse(std::span<const std::byte> bytes) noexcept {
        layout::sorted_index_image image;
        if (const char* wrong = layout::sorted_index_image::parse(bytes, image)) return wrong;
        if (const char* wrong = shape_->mismatch(image.header())) return wrong;
        image_ = image;
        return nullptr;
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return image_.size(); }
    [[nodiscard]] const index_shape& shape() const noexcept { return *shape_; }
    /// The stored bytes; they may be changing under a snapshot that is not pinned, so copy them with
    /// detail::copy_from_shared. Requires: index < size().
    [[nodiscard]] std::span<const std::byte> key(std::uint64_t index) const noexcept {
        return {image_.key(index), shape_->key.key_bytes};
    }
    [[nodiscard]] std::span<const std::byte> value(std::uint64_t index) const noexcept {
        return {image_.value(index), shape_->value_bytes};
    }

    /// As the typed view's, by position; nothing when there is no such record or the key has another size.
    [[nodiscard]] std::optional<std::uint64_t> find(std::span<const std::byte> key) const {
        return found(run(key, [](const auto& search, const auto& wanted) { return search.find(wanted); }));
    }
    [[nodiscard]] std::optional<std::uint64_t> find_covering(std::span<const std::byte> key) const {
        return found(run(key, [](const auto& search, const auto& wanted) { return search.find_covering(wanted); }));
    }
    /// Finds many keys that lie one after the other, as the typed view does: calls found(i, position) for each in
    /// order, a position being what find of that key would return. Bytes behind the last whole key are left alone.
    template <class Found>
    void find_many(std::span<const std::byte> keys, Found&& found) const {
        run_many(keys, [&](const auto& search, std::size_t count, auto key_at) {
            search.find_many(count, key_at, [&](std::size_t i, std::uint64_t at) { found(i, this->found(at)); });
        });
    }
    /// Likewise, as find_covering.
    template <class Found>
    void find_covering_many(std::span<const std::byte> keys, Found&& found) const {
        run_many(keys, [&](const auto& search, std::size_t count, auto key_at) {
            search.find_covering_many(count, key_at,
                                      [&](std::size_t i, std::uint64_t at) { found(i, this->found(at)); });
        });
    }
    /// Positions from 0 to size(). Requires: key.size() == shape().key.key_bytes.
    [[nodiscard]] std::uint64_t lower_bound(std::span<const std::byte> key) const {
        return run(key, [](const auto& search, const auto& wanted) { return search.lower_bound(wanted); });
    }
    [[nodiscard]] std::uint64_t upper_bound(std::span<const std::byte> key) const {
        return run(key, [](const auto& search, const auto& wanted) { return search.upper_bound(wanted); });
    }

    [[nodiscard]] const layout::sorted_index_image& image() const noexcept { return image_; }

 private:
    template <class Search>
    [[nodiscard]] std::uint64_t run(std::span<const std::byte> key, Search search) const {
        if (image_.size() == 0 || key.size() != shape_->key.key_bytes) return image_.size();
        return layout::with_order(shape_->key, [&](auto order) -> std::uint64_t {
            return search(layout::index_search(image_, order), order.load(key.data()));
        });
    }
    template <class Search>
    void run_many(std::span<const std::byte> keys, Search search) const {
        const std::size_t key_bytes = shape_->key.key_bytes;
        layout::with_order(shape_->key, [&](auto order) {
            search(layout::index_search(image_, order), keys.size() / key_bytes,
                   [&](std::size_t i) { return order.load(keys.data() + i * key_bytes); });
        });
    }
    [[nodiscard]] std::optional<std::uint64_t> found(std::uint64_t index) const noexcept {
        return index < image_.size() ? std::optional(index) : std::nullopt;
    }

    std::shared_ptr<const index_shape> shape_;
    layout::sorted_index_image image_;
};

}  // namespace holdfast
