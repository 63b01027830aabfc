// SPDX-License-Identifier: Apache-2.0
// tables.hpp - the ways to look a key up among a few hundred. All answer alike: the value, or 0 for a key that is not
// there; values are never 0.
//
// Each is made of keys and their values, key i having value i + 1, and is then asked only.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "holdfast/array.hpp"
#include "holdfast/hash_table.hpp"
#include "holdfast/small_table.hpp"
#include "holdfast/sorted_index.hpp"

namespace study {

using value = std::uint64_t;

template <class Key>
class std_hashed {
 public:
    explicit std_hashed(const std::vector<Key>& keys) {
        for (const Key& key : keys) map_.emplace(key, map_.size() + 1);
    }
    value find(const Key& key) const {
        const auto found = map_.find(key);
        return found == map_.end() ? 0 : found->second;
    }

 private:
    std::unordered_map<Key, value> map_;
};

/// holdfast::hash_table in memory of the process's own.
class our_hashed {
 public:
    explicit our_hashed(const std::vector<std::uint64_t>& keys)
        : table_(holdfast::hash_table<std::uint64_t, value>::create("heap:", {.capacity = keys.size() * 10 / 9 + 8})) {
        value next = 0;
        for (const std::uint64_t key : keys) table_.try_insert(key, ++next);
    }
    value find(std::uint64_t key) const { return table_.find(key).value_or(0); }

 private:
    holdfast::hash_table<std::uint64_t, value> table_;
};

/// All keys one behind the other, looked at from the first on.
template <class Key>
class scanned {
 public:
    explicit scanned(const std::vector<Key>& keys) : keys_(keys) {}
    value find(const Key& key) const {
        for (std::size_t i = 0; i < keys_.size(); ++i)
            if (keys_[i] == key) return i + 1;
        return 0;
    }

 private:
    std::vector<Key> keys_;
};

/// The same for integers, without a way out: the compiler makes vector instructions of it.
class scanned_whole {
 public:
    explicit scanned_whole(const std::vector<std::uint64_t>& keys) : keys_(keys) {}
    value find(std::uint64_t key) const {
        value found = 0;
        const std::uint64_t* const at = keys_.data();
        const std::size_t size = keys_.size();
        for (std::size_t i = 0; i < size; ++i) found |= at[i] == key ? i + 1 : 0;
        return found;
    }

 private:
    std::vector<std::uint64_t> keys_;
};

/// Tags of 16 bits, all of them compared, 16 at a time on any x86-64, without a branch before the one key that they
/// leave: the strongest flat form without an order of the keys.
class tags_scanned {
 public:
    explicit tags_scanned(const std::vector<std::uint64_t>& keys) : keys_(keys), tags_((keys.size() + 63) / 64 * 64) {
        for (std::size_t i = 0; i < keys.size(); ++i) tags_[i] = tag_of(keys[i]);
    }
    value find(std::uint64_t key) const {
        const std::uint16_t tag = tag_of(key);
        std::size_t place = 0, met = 0;
        for (std::size_t i = 0; i < tags_.size(); i += 64) {
            const std::uint64_t equal = equal_among_64(tags_.data() + i, tag);
            met += equal != 0 ? std::size_t(__builtin_popcountll(equal)) : 0;
            place = equal != 0 ? i + std::size_t(__builtin_ctzll(equal)) : place;
        }
        if (met == 1 && place < keys_.size() && keys_[place] == key) return place + 1;
        return met < 2 ? 0 : among_several(key);
    }

 private:
    static std::uint16_t tag_of(std::uint64_t key) {
        return static_cast<std::uint16_t>((key * 0x9E37'79B9'7F4A'7C15) >> 48U);
    }
    /// Bit i: tags[i] equals tag.
    static std::uint64_t equal_among_64(const std::uint16_t* tags, std::uint16_t tag) {
#if defined(__SSE2__)
        const __m128i wanted = _mm_set1_epi16(static_cast<short>(tag));
        const auto load = [&](int at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(tags) + at); };
        std::uint64_t equal = 0;
        for (int i = 0; i < 4; ++i) {
            const __m128i low = _mm_cmpeq_epi16(load(2 * i), wanted), high = _mm_cmpeq_epi16(load(2 * i + 1), wanted);
            equal |= std::uint64_t(unsigned(_mm_movemask_epi8(_mm_packs_epi16(low, high)))) << unsigned(16 * i);
        }
        return equal;
#else
        std::uint64_t equal = 0;
        for (unsigned i = 0; i < 64; ++i) equal |= std::uint64_t(tags[i] == tag) << i;
        return equal;
#endif
    }
    value among_several(std::uint64_t key) const {
        const auto at = std::find(keys_.begin(), keys_.end(), key);
        return at == keys_.end() ? 0 : static_cast<value>(at - keys_.begin()) + 1;
    }

    std::vector<std::uint64_t> keys_;
    std::vector<std::uint16_t> tags_;
};

/// Sorted keys, halved; for integers without a branch that depends on the key.
template <class Key>
class halved {
 public:
    explicit halved(const std::vector<Key>& keys) {
        for (const Key& key : keys) rows_.emplace_back(key, rows_.size() + 1);
        std::sort(rows_.begin(), rows_.end());
        for (const auto& row : rows_) keys_.push_back(row.first);
    }
    value find(const Key& key) const {
        std::size_t from = 0, size = keys_.size();
        while (size > 1) {
            const std::size_t half = size / 2;
            from += keys_[from + half - 1] < key ? half : 0;
            size -= half;
        }
        return size != 0 && keys_[from] == key ? rows_[from].second : 0;
    }

 private:
    std::vector<std::pair<Key, value>> rows_;
    std::vector<Key> keys_;
};

/// holdfast::sorted_index: the same kind of search, over an image that may lie in a snapshot.
class our_halved {
 public:
    explicit our_halved(const std::vector<std::uint64_t>& keys) {
        index::builder records;
        value next = 0;
        for (const std::uint64_t key : keys) records.add(key, ++next);
        image_ = records.build();
        view_ = index::view::over(image_);
    }
    our_halved(const our_halved&) = delete;  // the view is of this object's image
    our_halved& operator=(const our_halved&) = delete;
    value find(std::uint64_t key) const {
        const auto found = view_.find(key);
        return found == view_.end() ? 0 : (*found).value;
    }

 private:
    using index = holdfast::sorted_index<std::uint64_t, value>;
    std::vector<std::byte> image_;
    index::view view_;
};

/// A perfect hash, the best form that we know of one: the upper bits of a product name a group, the bits below them a
/// slot, and each group has a displacement that was tried until all of its keys fell on free slots, where they and
/// their values lie. Plain arrays of one process.
class displaced {
 public:
    explicit displaced(const std::vector<std::uint64_t>& keys)
        : slot_bits_(unsigned(std::bit_width(keys.size() + keys.size() / 2))),
          group_bits_(slot_bits_ - 2),
          displacements_(std::size_t{1} << group_bits_) {
        for (multiplier_ = 0x9E37'79B9'7F4A'7C15; !laid_out(keys);)
            multiplier_ = multiplier_ * 0xD134'2543'DE82'EF95 + 2;
    }
    value find(std::uint64_t key) const {
        const row& at = rows_[slot_of(key) ^ displacements_[key * multiplier_ >> (64 - group_bits_)]];
        return at.key == key ? at.held : 0;
    }

 private:
    struct row {
        std::uint64_t key = 0;
        value held = 0;
    };
    std::size_t slot_of(std::uint64_t key) const { return key * multiplier_ << group_bits_ >> (64 - slot_bits_); }
    bool laid_out(const std::vector<std::uint64_t>& keys) {
        std::vector<std::vector<std::size_t>> groups(displacements_.size());
        for (std::size_t i = 0; i < keys.size(); ++i) groups[keys[i] * multiplier_ >> (64 - group_bits_)].push_back(i);
        std::vector<std::size_t> order(groups.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::sort(order.begin(), order.end(), [&](auto a, auto b) { return groups[a].size() > groups[b].size(); });
        rows_.assign(std::size_t{1} << slot_bits_, {});
        return std::all_of(order.begin(), order.end(), [&](std::size_t group) {
            for (std::uint16_t by = 0; by < rows_.size(); ++by) {
                std::size_t done = 0;
                for (; done < groups[group].size(); ++done) {
                    row& at = rows_[slot_of(keys[groups[group][done]]) ^ by];
                    if (at.held != 0) break;
                    at = {keys[groups[group][done]], groups[group][done] + 1};
                }
                displacements_[group] = by;
                if (done == groups[group].size()) return true;
                while (done-- > 0) rows_[slot_of(keys[groups[group][done]]) ^ by] = {};
            }
            return false;
        });
    }

    unsigned slot_bits_, group_bits_;
    std::uint64_t multiplier_ = 0;
    std::vector<std::uint16_t> displacements_;
    std::vector<row> rows_;
};

/// The same kind of hash, made by each reader, over the entries of holdfast::small_table, which are read whole beside a
/// writer.
class our_small {
 public:
    explicit our_small(const std::vector<std::uint64_t>& keys)
        : table_(holdfast::small_table<std::uint64_t, value>::create("heap:", {.capacity = keys.size()})),
          reader_(table_.make_reader()) {
        value next = 0;
        for (const std::uint64_t key : keys) (void)table_.try_insert(key, ++next);
    }
    value find(std::uint64_t key) const { return reader_.find(key).value_or(0); }

 private:
    holdfast::small_table<std::uint64_t, value> table_;
    mutable holdfast::small_table_reader<std::uint64_t, value> reader_;  // a find may arrange the keys anew
};

/// Keys that are places: 0 to n - 1.
class placed {
 public:
    explicit placed(const std::vector<std::uint64_t>& keys) : values_(keys.size()) {
        for (std::size_t i = 0; i < keys.size(); ++i) values_[keys[i]] = i + 1;
    }
    value find(std::uint64_t key) const { return key < values_.size() ? values_[key] : 0; }

 private:
    std::vector<value> values_;
};

/// The same in holdfast::array, whose elements are read whole beside a writer.
class our_placed {
 public:
    explicit our_placed(const std::vector<std::uint64_t>& keys)
        : values_(holdfast::array<value>::create("heap:", {.size = keys.size()})) {
        for (std::size_t i = 0; i < keys.size(); ++i) values_.store(keys[i], i + 1);
    }
    value find(std::uint64_t key) const { return key < values_.size() ? values_.load(key) : 0; }

 private:
    holdfast::array<value> values_;
};

}  // namespace study
