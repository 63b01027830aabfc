// SPDX-License-Identifier: Apache-2.0
// sorted_index_verify.hpp - checks an image of a sorted index: header, sum, order, ranges. Any bytes are safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "holdfast/layout/finding.hpp"
#include "holdfast/layout/sorted_index_layout.hpp"
#include "holdfast/layout/sorted_index_search.hpp"

namespace holdfast::layout {

/// Reports every place where order or ranges break (I1, I2), and what has no order: a NaN.
template <class Order>
void verify_sorted_order(const sorted_index_image& image, Order order, findings& found) {
    const index_search<Order> search(image, order);
    const std::uint64_t ranges_at = image.header().values_offset + image.header().range_end_offset;
    for (std::uint64_t i = 0; i < image.size(); ++i) {
        const std::uint64_t key_at = image.header().keys_offset + i * image.header().key_bytes;
        const std::uint64_t end_at = ranges_at + i * image.header().value_bytes;
        if (order.unordered(search.key_of(i)))
            found.add(key_at, "key " + std::to_string(i) + " is not a number");
        else if (i > 0 && !order.less(search.key_of(i - 1), search.key_of(i)))
            found.add(key_at, "key " + std::to_string(i) + " is not above the key before it");
        if (!image.has_ranges()) continue;
        if (order.unordered(search.end_of(i)))
            found.add(end_at, "the end of range " + std::to_string(i) + " is not a number");
        else if (order.less(search.end_of(i), search.key_of(i)))
            found.add(end_at, "range " + std::to_string(i) + " ends before it begins");
        if (i > 0 && !order.less(search.end_of(i - 1), search.key_of(i)))
            found.add(key_at, "range " + std::to_string(i) + " overlaps the one before it");
    }
}

/// What is damaged in an image. `description` tells the order of keys of several fields; pass nullptr to go by the
/// image's own header, which suffices for all others.
inline void verify_sorted_index(std::span<const std::byte> bytes, const key_description* description, findings& found) {
    sorted_index_image image;
    if (const char* wrong = sorted_index_image::parse(bytes, image)) {
        found.add(0, wrong);
        return;
    }
    if (image.computed_checksum() != image.header().checksum)
        found.add(offsetof(sorted_index_header, checksum), "image or its checksum is damaged");
    key_description own{image.header().key_bytes, image.order(), {}};
    if (description != nullptr) {
        if (description->key_bytes != own.key_bytes || description->order != own.order) {
            found.add(offsetof(sorted_index_header, key_order), "key size or order is not that of the schema");
            return;
        }
        own.parts = description->parts;
    }
    if (own.order == key_order::fields && own.parts.empty()) return;  // order unknown without the schema
    with_order(own, [&](auto order) { verify_sorted_order(image, order, found); });
}

}  // namespace holdfast::layout
