// SPDX-License-Identifier: Apache-2.0
// bucket_table.hpp - buckets of 26 slots and a counter line each, as holdfast::hash_table has them, with its probing as
// a parameter: what is it worth that buckets behind the home bucket come in pairs?
//
// The k-th bucket of a key is home + k * step, modulo their prime number. Buckets are looked at in groups: `first` of
// them, then `next` at a time. An insert takes the emptiest bucket of the first group with room. A bucket counts, by
// class of the hash, the entries that went past it; a search ends behind a group of which one bucket counted none.
//   {1, 2}  holdfast::hash_table: home, then pairs
//   {1, 1}  home, then one bucket at a time
//   {2, 2}  two homes, then pairs
// Hash, step, class, order and counters are those of the product, so {1, 2} puts each key into the same bucket as it
// does. Every bucket looked at is a cache line of tags. Threads: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "holdfast/hash_table/view.hpp"

namespace study {

struct bucket_shape {
    std::uint64_t buckets = 3;  ///< prime
    std::uint32_t first = 1, next = 2;
    std::uint32_t lines_max = 129;  ///< buckets that a key may lie in
    std::uint64_t seed = 1;
};

class bucket_table {
 public:
    static constexpr std::uint32_t slots_per_bucket = holdfast::layout::tags_per_line;

    explicit bucket_table(const bucket_shape& shape)
        : shape_(shape), start_(holdfast::detail::hash_start(shape.seed, 8)), buckets_(shape.buckets) {
        shape_.lines_max = static_cast<std::uint32_t>(std::min<std::uint64_t>(shape.lines_max, shape.buckets));
    }

    /// False: the key is there, or no bucket that it may lie in has room.
    bool insert(std::uint64_t key, std::uint64_t value) {
        if (find(key) != nullptr) return false;
        return insert_new(key, value);
    }
    /// The same for a key that is not there.
    bool insert_new(std::uint64_t key, std::uint64_t value) {
        const sequence of(*this, key);
        for (std::uint32_t from = 0; from < shape_.lines_max;) {
            const std::uint32_t to = group_end(from);
            bucket* emptiest = nullptr;
            for (std::uint32_t k = from; k < to; ++k) {
                bucket& one = buckets_[of.at(k)];
                if (emptiest == nullptr || one.used() < emptiest->used()) emptiest = &one;
            }
            if (emptiest->used() == slots_per_bucket) {
                from = to;
                continue;
            }
            count(of, from, true);
            const auto slot = static_cast<std::uint32_t>(std::countr_one(emptiest->taken));
            emptiest->taken |= 1U << slot;
            emptiest->keys[slot] = key;
            emptiest->values[slot] = value;
            ++size_;
            return true;
        }
        return false;
    }
    [[nodiscard]] const std::uint64_t* find(std::uint64_t key) const {
        const place at = locate(key);
        return at.slot ? &buckets_[at.bucket].values[*at.slot] : nullptr;
    }
    bool erase(std::uint64_t key) {
        const place at = locate(key);
        if (!at.slot) return false;
        buckets_[at.bucket].taken &= ~(1U << *at.slot);
        count(sequence(*this, key), at.group, false);
        --size_;
        return true;
    }
    template <class Visit>
    void visit(Visit each) const {
        for (const bucket& one : buckets_)
            for (std::uint32_t slot = 0; slot < slots_per_bucket; ++slot)
                if ((one.taken >> slot & 1U) != 0) each(one.keys[slot], one.values[slot]);
    }

    /// Buckets that a find looks at, whether the key is there or not.
    [[nodiscard]] std::uint64_t lines_of(std::uint64_t key) const { return locate(key).lines; }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    [[nodiscard]] std::uint64_t slots() const noexcept { return buckets_.size() * slots_per_bucket; }

 private:
    struct bucket {
        std::uint32_t taken = 0;
        std::array<std::uint8_t, 16> passed{};  // 15: that many or more, for good
        std::array<std::uint64_t, slots_per_bucket> keys{}, values{};
        [[nodiscard]] std::uint32_t used() const noexcept { return static_cast<std::uint32_t>(std::popcount(taken)); }
    };
    struct sequence {
        sequence(const bucket_table& table, std::uint64_t key) noexcept
            : hash{holdfast::detail::hash_key(reinterpret_cast<const std::byte*>(&key), 8, table.start_)},
              buckets(table.shape_.buckets),
              home(hash.home(buckets)),
              step(hash.step(buckets)) {}
        [[nodiscard]] std::uint64_t at(std::uint32_t k) const noexcept { return (home + k * step) % buckets; }
        holdfast::detail::hash_parts hash;
        std::uint64_t buckets, home, step;
    };
    struct place {
        std::uint64_t bucket = 0;
        std::optional<std::uint32_t> slot;
        std::uint32_t group = 0;  // number of the first bucket of its group
        std::uint64_t lines = 0;
    };

    [[nodiscard]] std::uint32_t group_end(std::uint32_t from) const noexcept {
        return std::min(from + (from == 0 ? shape_.first : shape_.next), shape_.lines_max);
    }
    [[nodiscard]] place locate(std::uint64_t key) const {
        const sequence of(*this, key);
        place at;
        for (std::uint32_t from = 0; from < shape_.lines_max; from = group_end(from)) {
            bool further = true;
            at.group = from;
            for (std::uint32_t k = from; k < group_end(from); ++k) {
                const bucket& one = buckets_[at.bucket = of.at(k)];
                ++at.lines;
                for (std::uint32_t slots = one.taken; slots != 0; slots &= slots - 1) {
                    const auto slot = static_cast<std::uint32_t>(std::countr_zero(slots));
                    if (one.keys[slot] != key) continue;
                    at.slot = slot;
                    return at;
                }
                further = further && one.passed[of.hash.group()] != 0;
            }
            if (!further) break;
        }
        return at;
    }
    /// An entry went past all buckets before number `end`, or leaves.
    void count(const sequence& of, std::uint32_t end, bool comes) {
        for (std::uint32_t k = 0; k < end; ++k) {
            std::uint8_t& passed = buckets_[of.at(k)].passed[of.hash.group()];
            if (passed < 15) passed = static_cast<std::uint8_t>(comes ? passed + 1 : passed - 1);
        }
    }

    bucket_shape shape_;
    std::uint64_t start_;
    std::vector<bucket> buckets_;
    std::uint64_t size_ = 0;
};

}  // namespace study
