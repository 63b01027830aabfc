// SPDX-License-Identifier: Apache-2.0
// level_table.hpp - the two many-level hash tables that were published for containers in shared memory, written here
// from their description for comparison; no code of theirs is in it.
//
//   classic     R rows of equal length; geometric: each row is `ratio` times as long as the one before
//   rows        have prime lengths, all different, so that keys which share a place in one row part in the next
//   find        looks at place hash % length of every row until the key is there; a miss has looked at every row
//   insert      takes the first of those places that is free; none: refused, although others are free
//   erase       frees the place; what lies in later rows stays there
//
// Entries never move, so a place is a handle, as in our table. `%` is a division by a run-time number, as published: by
// 64 bits, some 10 to 20 cycles for each row. Key 0 marks a free place. Threads: none of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/detail/hash.hpp"
#include "workload/hash_table_subject.hpp"

namespace holdfast::bench {

[[nodiscard]] constexpr bool is_prime(std::uint64_t n) noexcept {
    if (n < 4) return n >= 2;
    if (n % 2 == 0) return false;
    for (std::uint64_t d = 3; d * d <= n; d += 2)
        if (n % d == 0) return false;
    return true;
}

/// The prime that is nearest to `target` and not in `taken`; of two the larger.
[[nodiscard]] inline std::uint64_t nearest_prime(std::uint64_t target, std::span<const std::uint64_t> taken = {}) {
    const auto good = [&](std::uint64_t n) {
        return is_prime(n) && std::find(taken.begin(), taken.end(), n) == taken.end();
    };
    for (std::uint64_t away = 0;; ++away) {
        if (good(target + away)) return target + away;
        if (away < target && good(target - away)) return target - away;
    }
}

/// Lengths of `rows` rows of together about `places` places, each `ratio` times the one before.
[[nodiscard]] inline std::vector<std::uint64_t> row_lengths(std::uint64_t places, std::size_t rows, double ratio) {
    const double share =
        ratio == 1 ? static_cast<double>(rows) : (1 - std::pow(ratio, static_cast<double>(rows))) / (1 - ratio);
    double length = static_cast<double>(places) / share;
    double missing = 0;  // places that the rows so far are short of; the next one makes up for them
    std::vector<std::uint64_t> lengths;
    for (std::size_t row = 0; row < rows; ++row) {
        const double target = std::max(2.0, length + missing);
        lengths.push_back(nearest_prime(static_cast<std::uint64_t>(std::llround(target)), lengths));
        missing += length - static_cast<double>(lengths.back());
        length *= ratio;
    }
    return lengths;
}

/// Rows of a geometric table: as many as bring a row of `first` places down to one, x of them, cut to 3 * sqrt(x),
/// which is published to keep 98 % of the usage.
[[nodiscard]] inline std::size_t geometric_rows(std::uint64_t first, double ratio) {
    const double x = std::floor(std::log(static_cast<double>(first)) / -std::log(ratio));
    return static_cast<std::size_t>(std::max(1.0, std::min(x, std::floor(3 * std::sqrt(x)))));
}

/// Rows of places for keys and values.
template <class Value>
class level_table {
 public:
    level_table(const std::vector<std::uint64_t>& lengths, workload::page_choice pages)
        : pool_(pages), rows_(lengths.size()) {
        for (const std::uint64_t length : lengths) places_ += length;
        nodes_ = static_cast<node*>(pool_.allocate(places_ * sizeof(node)));
        clear();
        node* at = nodes_;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            rows_[i] = {lengths[i], at};
            at += lengths[i];
        }
    }

    [[nodiscard]] const Value* find(std::uint64_t key) const noexcept {
        const std::uint64_t hash = hash_of(key);
        for (const row& r : rows_)
            if (const node& n = r.nodes[hash % r.length]; n.key == key) return &n.value;
        return nullptr;
    }
    [[nodiscard]] Value* find(std::uint64_t key) noexcept {
        return const_cast<Value*>(static_cast<const level_table*>(this)->find(key));
    }
    /// False if the key is there or every place of it is taken. Requires: key != 0.
    bool insert(std::uint64_t key, const Value& value) noexcept {
        const std::uint64_t hash = hash_of(key);
        node* free = nullptr;
        for (const row& r : rows_) {
            node& n = r.nodes[hash % r.length];
            if (n.key == key) return false;
            if (n.key == 0 && free == nullptr) free = &n;
        }
        if (free == nullptr) return false;
        *free = {key, value};
        ++size_;
        return true;
    }
    bool erase(std::uint64_t key) noexcept {
        const std::uint64_t hash = hash_of(key);
        for (const row& r : rows_) {
            node& n = r.nodes[hash % r.length];
            if (n.key != key) continue;
            n.key = 0;
            --size_;
            return true;
        }
        return false;
    }
    void clear() noexcept {
        for (std::uint64_t i = 0; i < places_; ++i) nodes_[i].key = 0;
        size_ = 0;
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    [[nodiscard]] std::uint64_t places() const noexcept { return places_; }
    [[nodiscard]] std::size_t rows() const noexcept { return rows_.size(); }
    [[nodiscard]] workload::memory_use memory() const { return pool_.use(); }

 private:
    struct node {
        std::uint64_t key;
        Value value;
    };
    struct row {
        std::uint64_t length;
        node* nodes;
    };
    static std::uint64_t hash_of(std::uint64_t key) noexcept {
        return holdfast::detail::multiply_fold(key ^ holdfast::detail::hash_multipliers[1],
                                               holdfast::detail::hash_multipliers[0]);
    }

    workload::memory_pool pool_;
    std::vector<row> rows_;
    std::uint64_t places_ = 0;
    std::uint64_t size_ = 0;
    node* nodes_ = nullptr;
};

/// What both have in common as adapters.
template <class Value>
class level_adapter {
 public:
    using value = Value;
    static std::string version() { return "written for this comparison from its description"; }

    bool find(std::uint64_t key, Value& out) const {
        const Value* const found = table_.find(key);
        if (found == nullptr) return false;
        out = *found;
        return true;
    }
    bool insert(std::uint64_t key, const Value& v) { return table_.insert(key, v); }
    bool update(std::uint64_t key, const Value& v) {
        Value* const found = table_.find(key);
        if (found == nullptr) return false;
        *found = v;
        return true;
    }
    bool erase(std::uint64_t key) { return table_.erase(key); }
    void clear() { table_.clear(); }
    [[nodiscard]] std::uint64_t size() const { return table_.size(); }
    [[nodiscard]] workload::memory_use memory() const { return table_.memory(); }

 protected:
    level_adapter(const std::vector<std::uint64_t>& lengths, workload::page_choice pages) : table_(lengths, pages) {}

 private:
    level_table<Value> table_;
};

/// 50 rows, 90 % full: "more than 90 % usage".
template <class Value>
class classic_table : public level_adapter<Value> {
 public:
    static constexpr std::string_view name = "classic table, 50 levels";
    explicit classic_table(const workload::table_request& request)
        : level_adapter<Value>(row_lengths(request.entries * 10 / 9, 50, 1.0), request.pages) {}
};

/// Rows that shrink by 0.6, 80 % full: the load that its author advises, below the 85 % and more that it reaches.
template <class Value>
class geometric_table : public level_adapter<Value> {
 public:
    static constexpr std::string_view name = "geometric table, ratio 0.6";
    explicit geometric_table(const workload::table_request& request)
        : level_adapter<Value>(lengths_for(request.entries * 10 / 8), request.pages) {}

 private:
    static std::vector<std::uint64_t> lengths_for(std::uint64_t places) {
        const auto first = static_cast<std::uint64_t>(static_cast<double>(places) * (1 - 0.6));
        return row_lengths(places, geometric_rows(first, 0.6), 0.6);
    }
};

}  // namespace holdfast::bench
