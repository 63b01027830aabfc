// SPDX-License-Identifier: Apache-2.0
// yard_table.hpp - buckets in several yards, one behind the other, each with a share of the slots of its own: what
// front and back yards, funnels and two-choice buckets have in common. Entries never move.
//
// A key has `choices` buckets in each yard. An insert goes to the emptiest of them in the first yard that has room;
// without any it is refused. A bucket counts, by class of the hash, the entries that went past it to a later yard; a
// search ends behind a yard of which one bucket counted none. (Neither published table has such counters: here all
// tables get them, so that their misses are compared at their best.) Every bucket looked at is a cache line of tags.
//
//   Iceberg-like   buckets of 64, then two choices of buckets of 8; its list behind them is left out: it is what a flat
//                  table in shared memory wants to do without. Pandey et al., IcebergHT, SIGMOD 2023.
//   funnel-like    yards that shrink, each with one choice, the last with two. Farach-Colton, Krapivin, Kuszmaul,
//   Optimal
//                  Bounds for Open Addressing Without Reordering, 2025.
//   two choices    one yard alone. Azar, Broder, Karlin, Upfal, SIAM J. Computing 29, 1999.
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "holdfast/detail/hash.hpp"

namespace study {

struct yard_shape {
    std::uint64_t buckets = 1;
    std::uint32_t slots = 26;   ///< of a bucket, at most 64
    std::uint32_t choices = 1;  ///< 1 or 2
};

/// Buckets of 64 slots, and an eighth as many slots behind them in buckets of 8.
[[nodiscard]] inline std::vector<yard_shape> iceberg_yards(std::uint64_t slots) {
    const std::uint64_t buckets = std::max<std::uint64_t>(1, slots / 72);
    return {{buckets, 64, 1}, {buckets, 8, 2}};
}
/// Yards of buckets of `per_bucket` slots, each `ratio` times the one before. What is left when a yard would have less
/// than eight buckets is the last, with two choices.
[[nodiscard]] inline std::vector<yard_shape> funnel_yards(std::uint64_t slots, std::uint32_t per_bucket, double ratio) {
    std::vector<yard_shape> yards;
    double left = static_cast<double>(slots) / per_bucket;
    for (double wanted = left * (1 - ratio); wanted >= 8; wanted *= ratio) {
        yards.push_back({static_cast<std::uint64_t>(std::llround(wanted)), per_bucket, 1});
        left -= static_cast<double>(yards.back().buckets);
    }
    yards.push_back({static_cast<std::uint64_t>(std::max(1LL, std::llround(left))), per_bucket, 2});
    return yards;
}

class yard_table {
 public:
    /// Requires: at least one yard, slots in 1 to 64, 1 or 2 choices.
    explicit yard_table(const std::vector<yard_shape>& shapes, std::uint64_t seed = 1) : seed_(seed) {
        for (const yard_shape& shape : shapes) {
            yards_.emplace_back(shape);
            slots_ += shape.buckets * shape.slots;
        }
    }

    /// False: the key is there, or none of its buckets has room.
    bool insert(std::uint64_t key, std::uint64_t value) {
        if (find(key) != nullptr) return false;
        return insert_new(key, value);
    }
    /// The same for a key that is not there.
    bool insert_new(std::uint64_t key, std::uint64_t value) {
        const std::uint64_t hash = hash_of(key);
        for (std::size_t i = 0; i < yards_.size(); ++i) {
            yard& here = yards_[i];
            const places of = places_of(hash, i);
            std::uint64_t emptiest = of.bucket[0];
            if (of.count == 2 && here.used(of.bucket[1]) < here.used(emptiest)) emptiest = of.bucket[1];
            if (here.used(emptiest) == here.shape.slots) continue;
            count(hash, i, true);
            const auto slot = static_cast<std::uint32_t>(std::countr_one(here.taken[emptiest]));
            here.taken[emptiest] |= std::uint64_t{1} << slot;
            here.entries[emptiest * here.shape.slots + slot] = {key, value};
            ++size_;
            return true;
        }
        return false;
    }
    [[nodiscard]] const std::uint64_t* find(std::uint64_t key) const {
        const place at = locate(key);
        return at.index ? &yards_[at.yard].entries[*at.index].value : nullptr;
    }
    bool erase(std::uint64_t key) {
        const place at = locate(key);
        if (!at.index) return false;
        yard& here = yards_[at.yard];
        here.taken[*at.index / here.shape.slots] &= ~(std::uint64_t{1} << *at.index % here.shape.slots);
        count(hash_of(key), at.yard, false);
        --size_;
        return true;
    }
    template <class Visit>
    void visit(Visit each) const {
        for (const yard& here : yards_)
            for (std::size_t i = 0; i < here.entries.size(); ++i)
                if ((here.taken[i / here.shape.slots] >> i % here.shape.slots & 1U) != 0)
                    each(here.entries[i].key, here.entries[i].value);
    }

    /// Buckets that a find looks at, whether the key is there or not.
    [[nodiscard]] std::uint64_t lines_of(std::uint64_t key) const { return locate(key).lines; }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    [[nodiscard]] std::uint64_t slots() const noexcept { return slots_; }
    [[nodiscard]] std::size_t yards() const noexcept { return yards_.size(); }

 private:
    struct entry {
        std::uint64_t key = 0, value = 0;
    };
    struct yard {
        explicit yard(const yard_shape& s)
            : shape(s), taken(s.buckets), passed(s.buckets), entries(s.buckets * s.slots) {}
        [[nodiscard]] std::uint32_t used(std::uint64_t bucket) const {
            return static_cast<std::uint32_t>(std::popcount(taken[bucket]));
        }
        yard_shape shape;
        std::vector<std::uint64_t> taken;                  // a bit a slot
        std::vector<std::array<std::uint8_t, 16>> passed;  // by class; 15: that many or more, for good
        std::vector<entry> entries;
    };
    struct places {
        std::array<std::uint64_t, 2> bucket{};
        std::size_t count = 0;
    };
    struct place {
        std::size_t yard = 0;
        std::optional<std::uint64_t> index;  // of the entry in its yard
        std::uint64_t lines = 0;
    };

    [[nodiscard]] std::uint64_t hash_of(std::uint64_t key) const noexcept {
        return holdfast::detail::hash_key(reinterpret_cast<const std::byte*>(&key), 8,
                                          holdfast::detail::hash_start(seed_, 8));
    }
    [[nodiscard]] static std::size_t class_of(std::uint64_t hash) noexcept { return hash & 15U; }
    /// The key's buckets in a yard: one, or two that differ.
    [[nodiscard]] places places_of(std::uint64_t hash, std::size_t i) const noexcept {
        namespace fold = holdfast::detail;
        const yard_shape& shape = yards_[i].shape;
        places of;
        for (std::uint64_t choice = 0; choice < shape.choices; ++choice) {
            const std::uint64_t mixed =
                fold::multiply_fold(hash ^ fold::hash_multipliers[2] * (2 * i + choice + 1), fold::hash_finish);
            const std::uint64_t bucket = fold::multiply_high(mixed, shape.buckets);
            if (of.count == 0 || of.bucket[0] != bucket) of.bucket[of.count++] = bucket;
        }
        return of;
    }
    [[nodiscard]] place locate(std::uint64_t key) const {
        const std::uint64_t hash = hash_of(key);
        place at;
        for (at.yard = 0; at.yard < yards_.size(); ++at.yard) {
            const yard& here = yards_[at.yard];
            const places of = places_of(hash, at.yard);
            bool further = true;
            for (std::size_t choice = 0; choice < of.count; ++choice) {
                const std::uint64_t bucket = of.bucket[choice];
                ++at.lines;
                for (std::uint64_t slots = here.taken[bucket]; slots != 0; slots &= slots - 1) {
                    const std::uint64_t index =
                        bucket * here.shape.slots + static_cast<std::uint64_t>(std::countr_zero(slots));
                    if (here.entries[index].key != key) continue;
                    at.index = index;
                    return at;
                }
                further = further && here.passed[bucket][class_of(hash)] != 0;
            }
            if (!further) break;
        }
        return at;
    }
    /// An entry went past all yards before number `end`, or leaves.
    void count(std::uint64_t hash, std::size_t end, bool comes) {
        for (std::size_t i = 0; i < end; ++i) {
            const places of = places_of(hash, i);
            for (std::size_t choice = 0; choice < of.count; ++choice) {
                std::uint8_t& passed = yards_[i].passed[of.bucket[choice]][class_of(hash)];
                if (passed < 15) passed = static_cast<std::uint8_t>(comes ? passed + 1 : passed - 1);
            }
        }
    }

    std::uint64_t seed_, slots_ = 0, size_ = 0;
    std::vector<yard> yards_;
};

}  // namespace study
