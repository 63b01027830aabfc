// SPDX-License-Identifier: Apache-2.0
// free_map.hpp - the writer's private list of free units: one bit each, learned from the shared words region by region
// when a search first comes by.
//
// Nothing of it lies in the segment, so there is nothing that a kill could leave half done, and nothing to rebuild when
// a writer attaches: the words alone say what is free (block_store_layout.hpp, I2).
// (I1) A set bit is a free unit. A clear bit is a unit in use, of the claim in preparation, or of a region not learned.
// (I2) free_[r] is the number of set bits of region r, or `unknown`.
// Of many writers (many_write.hpp) a set bit is a unit that was free when it was looked at.
// Cost: 1 bit a unit of private memory (1/512 of a store of 64-byte units); learning a region 4096 words, once.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "holdfast/block_store/many_view.hpp"
#include "holdfast/layout/segment_header.hpp"

namespace holdfast::detail {

/// The writer's; of many writers each one's guess, which the words correct when it takes units.
template <writers Policy>
class block_free_map {
 public:
    block_free_map() = default;
    /// Throws: std::bad_alloc.
    explicit block_free_map(const block_view<const std::byte>& view)
        : view_(view),
          bits_((view.units() + 63) / 64),
          free_((view.units() + region_units - 1) / region_units, unknown) {}

    /// The first free unit in [from, to), or `to`.
    [[nodiscard]] std::uint64_t next_free(std::uint64_t from, std::uint64_t to) noexcept {
        while (from < to) {
            const std::uint64_t region = from / region_units;
            const std::uint64_t end = std::min((region + 1) * region_units, to);
            if (known(region) != 0) {
                std::uint64_t bits = bits_[from / 64] & (~std::uint64_t{0} << (from % 64));
                for (std::uint64_t at = from / 64 * 64; at < end; at += 64, bits = at < end ? bits_[at / 64] : 0)
                    if (bits != 0) {
                        const std::uint64_t found = at + static_cast<std::uint64_t>(std::countr_zero(bits));
                        return std::min(found, to);
                    }
            }
            from = end;
        }
        return to;
    }

    /// How many units from a free one on are free, counted up to `most`.
    [[nodiscard]] std::uint64_t run_length(std::uint64_t from, std::uint64_t most) noexcept {
        most = std::min(most, view_.units() - from);
        std::uint64_t length = 0;
        while (length < most) {
            const std::uint64_t at = from + length;
            if (known(at / region_units) == 0) break;
            const auto ones = static_cast<std::uint64_t>(std::countr_one(bits_[at / 64] >> (at % 64)));
            length += ones;
            if (ones != 64 - at % 64) break;
        }
        return std::min(length, most);
    }

    /// Requires: all of them free.
    void take(std::uint64_t first, std::uint64_t count) noexcept {
        for_each_word(first, count, [&](std::uint64_t word, std::uint64_t mask) {
            bits_[word] &= ~mask;
            free_[word / region_words] -= static_cast<std::uint32_t>(std::popcount(mask));
        });
    }
    /// Requires: the shared words say that they are free, or the claim that had them was dropped. In a region not
    /// learned the words will tell.
    void give(std::uint64_t first, std::uint64_t count) noexcept {
        for_each_word(first, count, [&](std::uint64_t word, std::uint64_t mask) {
            std::uint32_t& free = free_[word / region_words];
            if (free == unknown) return;
            free += static_cast<std::uint32_t>(std::popcount(mask & ~bits_[word]));
            bits_[word] |= mask;
        });
    }
    /// Forgets the regions that a search from unit `from` has passed when it comes to `to`, so that the next one to
    /// come by learns what other writers have freed there; all of them where it came round. Requires: both in the
    /// store.
    void forget_passed(std::uint64_t from, std::uint64_t to) noexcept {
        if (to < from) return forget_all();
        for (std::uint64_t region = from / region_units; region < to / region_units; ++region) forget(region);
    }
    void forget_all() noexcept {
        for (std::uint64_t region = 0; region < free_.size(); ++region) forget(region);
    }

 private:
    static constexpr std::uint64_t region_units = 4096;
    static constexpr std::uint64_t region_words = region_units / 64;
    static constexpr std::uint32_t unknown = ~std::uint32_t{0};

    template <class Change>
    static void for_each_word(std::uint64_t first, std::uint64_t count, Change&& change) {
        while (count != 0) {
            const std::uint64_t bit = first % 64, part = std::min(count, 64 - bit);
            const std::uint64_t ones = part == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << part) - 1;
            change(first / 64, ones << bit);
            first += part;
            count -= part;
        }
    }

    void forget(std::uint64_t region) noexcept {
        if (free_[region] == unknown) return;
        free_[region] = unknown;
        const std::uint64_t first = region * region_words, end = std::min(first + region_words, bits_.size());
        std::fill(bits_.begin() + static_cast<std::ptrdiff_t>(first), bits_.begin() + static_cast<std::ptrdiff_t>(end),
                  std::uint64_t{0});
    }

    [[nodiscard]] std::uint32_t known(std::uint64_t region) noexcept {
        if (free_[region] == unknown) [[unlikely]]
            learn(region);
        return free_[region];
    }

    [[nodiscard]] bool is_taken(std::uint64_t unit) const noexcept {
        if constexpr (Policy == writers::many)
            return block_slots(view_).is_taken(unit, view_.word(unit));
        else
            return view_.in_use(unit);
    }

    void learn(std::uint64_t region) noexcept {
        const std::uint64_t first = region * region_units, end = std::min(first + region_units, view_.units());
        std::uint32_t free = 0;
        for (std::uint64_t i = first; i < end; ++i) {
            if (is_taken(i)) continue;
            bits_[i / 64] |= std::uint64_t{1} << (i % 64);
            ++free;
        }
        free_[region] = free;
    }

    block_view<const std::byte> view_;
    std::vector<std::uint64_t> bits_;
    std::vector<std::uint32_t> free_;
};

}  // namespace holdfast::detail
