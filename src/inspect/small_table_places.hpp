// SPDX-License-Identifier: Apache-2.0
// small_table_places.hpp - which elements of a saved array are entries of a small table that lie in the file twice.
//
// A small table is saved as the array that it is, neighbours at one moment and others at another: a key that was taken
// out behind the save and came again in front of it lies there twice, of which the later one is what it became. Nothing
// but its shape tells a small table from another array (small_table/entry.hpp), so all of that shape is asked for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "holdfast/record/schema.hpp"
#include "holdfast/small_table.hpp"

namespace holdfast::inspect {

class small_table_places {
 public:
    small_table_places(const record_schema& elements, std::uint64_t size) {
        const field* const state = elements.find("state");
        if (state == nullptr || state->type != field_type::u64 || state->count != 1 || size < 2 ||
            size > small_table_capacity_max + 1)
            return;
        fits_ = true;
        for (const field& each : elements.fields()) {
            if (each.offset >= state->offset) continue;
            key_bytes_ = std::max(key_bytes_, each.offset + each.total_bytes());
            fits_ = fits_ && (each.name == "key" || each.name.starts_with("key."));
        }
        state_ = state->offset;
        fits_ = fits_ && key_bytes_ != 0 && key_bytes_ <= 8;
    }

    /// The next elements of the file, the first ones first.
    void add(std::span<const std::byte> elements, std::size_t element_bytes) {
        for (; fits_ && !elements.empty(); elements = elements.subspan(element_bytes))
            add_one(elements.first(element_bytes), place_++);
    }
    /// The places whose key came once more behind them; none of an array that is no small table.
    [[nodiscard]] std::vector<std::uint64_t> outdated() {
        std::vector<std::uint64_t> places;
        if (!fits_) return places;
        std::ranges::sort(keys_);
        for (std::size_t i = 1; i < keys_.size(); ++i)
            if (keys_[i].first == keys_[i - 1].first) places.push_back(keys_[i - 1].second);
        return places;
    }

 private:
    void add_one(std::span<const std::byte> element, std::uint64_t place) {
        const std::uint64_t key = word(element.first(static_cast<std::size_t>(key_bytes_)));
        const std::uint64_t state = word(element.subspan(static_cast<std::size_t>(state_), 8));
        if (place == 0)
            fits_ = key == 0 && (state == 0 || state >= detail::changing_after(0));  // the head
        else if (state == detail::small_table_used)
            keys_.emplace_back(key, place);
        else
            fits_ = std::ranges::all_of(element, [](std::byte b) { return b == std::byte{0}; });
    }
    [[nodiscard]] static std::uint64_t word(std::span<const std::byte> bytes) noexcept {
        std::uint64_t value = 0;
        std::memcpy(&value, bytes.data(), bytes.size());
        return value;
    }

    std::uint64_t key_bytes_ = 0, state_ = 0, place_ = 0;
    bool fits_ = false;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> keys_;  // with their places
};

}  // namespace holdfast::inspect
