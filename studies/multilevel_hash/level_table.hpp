// SPDX-License-Identifier: Apache-2.0
// level_table.hpp - the two many-level hash tables that were published for containers in shared memory, written from
// their description; no code of theirs is in it.
//
//   classic     R rows of equal length; geometric: each row is `ratio` times as long as the one before
//   rows        have prime lengths, all different, so that keys which share a place in one row part in the next
//   find        looks at place hash % length of every row until the key is there; a miss has looked at every row
//   insert      takes the first of those places that is free; none: refused, although others are free
//   erase       frees the place; what lies in later rows stays there
//
// Entries never move, so a place is a handle. `%` is a division by a run-time number, as published: by 64 bits, some 10
// to 20 cycles for each row.
//
// Layout of a region, wherever it lies: a heap, a mapping, the body of a segment (little-endian)
//   offset  bytes        field       written by
//        0      8        magic       format(), last
//        8      8        rows        format()
//       16      8        node_bytes  format()
//       24      8        size        the writer: entries
//       32     32        zero
//       64   1024        lengths     format(): one word a row, zero behind the last
//     1088  places * n   nodes       the writer: row after row, each node a key (0 = free) and a value
//
// (I1) attach() copies and checks rows and lengths against the region; later only the copy is used. A key is looked for
//      at hash % length of its row, so no byte of a node leads outside.
// Threads: one at a time, or any number that only read. Crash: none is provided for, as published: a writer killed
// between the words of a node leaves a torn one, and the size may be off by one.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "holdfast/detail/hash.hpp"
#include "holdfast/layout/hash_table_layout.hpp"

namespace study {

/// The prime that is nearest to `target` and not in `taken`; of two the larger.
[[nodiscard]] inline std::uint64_t nearest_prime(std::uint64_t target, std::span<const std::uint64_t> taken = {}) {
    const auto good = [&](std::uint64_t n) {
        return holdfast::layout::is_prime(n) && std::find(taken.begin(), taken.end(), n) == taken.end();
    };
    for (std::uint64_t away = 0;; ++away) {
        if (good(target + away)) return target + away;
        if (away < target && good(target - away)) return target - away;
    }
}

/// Lengths of `rows` rows, the first of about `first` places, each `ratio` times the one before. They sum up to what
/// they should: what rounding to a prime loses in one row is made up for in the next.
[[nodiscard]] inline std::vector<std::uint64_t> row_lengths_from(double first, std::size_t rows, double ratio) {
    double length = first;
    double missing = 0;
    std::vector<std::uint64_t> lengths;
    for (std::size_t row = 0; row < rows; ++row) {
        const double target = std::max(2.0, length + missing);
        lengths.push_back(nearest_prime(static_cast<std::uint64_t>(std::llround(target)), lengths));
        missing += length - static_cast<double>(lengths.back());
        length *= ratio;
    }
    return lengths;
}

/// Lengths of `rows` rows of together about `places` places, each `ratio` times the one before.
[[nodiscard]] inline std::vector<std::uint64_t> row_lengths(std::uint64_t places, std::size_t rows, double ratio) {
    const double share =
        ratio == 1 ? static_cast<double>(rows) : (1 - std::pow(ratio, static_cast<double>(rows))) / (1 - ratio);
    return row_lengths_from(static_cast<double>(places) / share, rows, ratio);
}

/// Rows that bring a row of `first` places down to one, each `ratio` times the one before. Requires: 0 < ratio < 1.
[[nodiscard]] inline std::size_t all_rows(double first, double ratio) {
    return static_cast<std::size_t>(std::max(1.0, std::floor(std::log(first) / -std::log(ratio))));
}

/// How many of x rows are published to be worth having: min(x, 3 * sqrt(x)).
[[nodiscard]] inline std::size_t effective_rows(std::size_t x) {
    return std::max<std::size_t>(1, std::min(x, static_cast<std::size_t>(3 * std::sqrt(static_cast<double>(x)))));
}

/// Rows of a geometric table whose first has `first` places.
[[nodiscard]] inline std::size_t geometric_rows(std::uint64_t first, double ratio) {
    return effective_rows(all_rows(static_cast<double>(first), ratio));
}

/// Lengths of the geometric table of about `places` places, its number of rows by the published rule.
[[nodiscard]] inline std::vector<std::uint64_t> geometric_lengths(std::uint64_t places, double ratio = 0.6) {
    const auto first = static_cast<std::uint64_t>(static_cast<double>(places) * (1 - ratio));
    return row_lengths(places, geometric_rows(first, ratio), ratio);
}

inline constexpr std::size_t level_rows_max = 128;
inline constexpr std::uint64_t level_magic = 0x0031'736c'6576'656cU;  // "levels1"

struct level_header {
    std::uint64_t magic, rows, node_bytes, size;
    std::array<std::uint64_t, 4> zero;
    std::array<std::uint64_t, level_rows_max> lengths;
};
static_assert(sizeof(level_header) == 64 + 8 * level_rows_max);

template <class Value>
struct level_node {
    std::uint64_t key;
    Value value;
};

/// Reads a table. Node is `const level_node<Value>` here and `level_node<Value>` for the writer.
template <class Value, class Node = const level_node<Value>>
class level_view {
    static_assert(std::is_trivially_copyable_v<Value> && alignof(Value) <= 8);

 public:
    using byte = std::conditional_t<std::is_const_v<Node>, const std::byte, std::byte>;
    using header = std::conditional_t<std::is_const_v<Node>, const level_header, level_header>;
    class iterator;

    level_view() = default;
    /// Checks a region that holds a table. Requires: 8-aligned. Throws: std::invalid_argument, naming what is wrong.
    [[nodiscard]] static level_view attach(std::span<byte> region) {
        level_view table;
        if (region.size() < sizeof(level_header)) throw std::invalid_argument("the region is too small for a header");
        table.header_ = reinterpret_cast<header*>(region.data());
        const level_header& h = *table.header_;
        const std::uint64_t rows = h.rows;
        if (h.magic != level_magic) throw std::invalid_argument("the region holds no table of levels");
        if (h.node_bytes != sizeof(Node)) throw std::invalid_argument("the table's values have another size");
        if (rows == 0 || rows > level_rows_max) throw std::invalid_argument("the number of rows is out of range");
        std::uint64_t room = (region.size() - sizeof(level_header)) / sizeof(Node);
        Node* at = reinterpret_cast<Node*>(region.data() + sizeof(level_header));
        for (std::uint64_t i = 0; i < rows; ++i) {
            const std::uint64_t length = h.lengths[i];
            if (length < 2 || length > room) throw std::invalid_argument("a row reaches behind the end of the region");
            table.rows_.push_back({length, at});
            at += length;
            room -= length;
            table.places_ += length;
        }
        return table;
    }

    [[nodiscard]] const Value* find(std::uint64_t key) const noexcept {
        std::uint64_t looked_at = 0;
        return find(key, looked_at);
    }
    /// The same, adding to `looked_at` how many places it looked at.
    [[nodiscard]] const Value* find(std::uint64_t key, std::uint64_t& looked_at) const noexcept {
        const Node* const found = locate(key, looked_at);
        return found == nullptr ? nullptr : &found->value;
    }

    /// Entries, in no order that means anything: all of the first row, then of the second...
    [[nodiscard]] iterator begin() const noexcept { return iterator(first_node(), first_node() + places_); }
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

    [[nodiscard]] std::uint64_t size() const noexcept { return header_->size; }
    [[nodiscard]] std::uint64_t places() const noexcept { return places_; }
    [[nodiscard]] std::size_t rows() const noexcept { return rows_.size(); }
    [[nodiscard]] std::uint64_t row_length(std::size_t i) const { return rows_.at(i).length; }
    /// Entries of one row. Cost: looks at all of its places.
    [[nodiscard]] std::uint64_t row_size(std::size_t i) const {
        const row& r = rows_.at(i);
        return static_cast<std::uint64_t>(
            std::count_if(r.nodes, r.nodes + r.length, [](const auto& n) { return n.key != 0; }));
    }

 protected:
    struct row {
        std::uint64_t length;
        Node* nodes;
    };
    [[nodiscard]] static std::uint64_t hash_of(std::uint64_t key) noexcept {
        return holdfast::detail::multiply_fold(key ^ holdfast::detail::hash_multipliers[1],
                                               holdfast::detail::hash_multipliers[0]);
    }
    /// Key 0 marks a free place, so nothing is found by it.
    [[nodiscard]] Node* locate(std::uint64_t key, std::uint64_t& looked_at) const noexcept {
        if (key == 0) return nullptr;
        const std::uint64_t hash = hash_of(key);
        for (const row& r : rows_) {
            ++looked_at;
            if (Node& n = r.nodes[hash % r.length]; n.key == key) return &n;
        }
        return nullptr;
    }
    [[nodiscard]] Node* first_node() const noexcept { return rows_.empty() ? nullptr : rows_.front().nodes; }

    header* header_ = nullptr;
    std::vector<row> rows_;
    std::uint64_t places_ = 0;
};

template <class Value, class Node>
class level_view<Value, Node>::iterator {
 public:
    using iterator_concept = std::forward_iterator_tag;
    using value_type = level_node<Value>;
    using difference_type = std::ptrdiff_t;

    iterator() = default;
    iterator(const Node* at, const Node* end) noexcept : at_(at), end_(end) { skip_free(); }
    [[nodiscard]] const value_type& operator*() const noexcept { return *at_; }
    [[nodiscard]] const value_type* operator->() const noexcept { return at_; }
    iterator& operator++() noexcept {
        ++at_;
        skip_free();
        return *this;
    }
    iterator operator++(int) noexcept {
        iterator before = *this;
        ++*this;
        return before;
    }
    friend bool operator==(const iterator&, const iterator&) = default;
    friend bool operator==(const iterator& i, std::default_sentinel_t) noexcept { return i.at_ == i.end_; }

 private:
    void skip_free() noexcept {
        while (at_ != end_ && at_->key == 0) ++at_;
    }
    const Node* at_ = nullptr;
    const Node* end_ = nullptr;
};

enum class level_result : std::uint8_t {
    inserted,
    exists,        ///< the key is there; nothing changed
    full,          ///< every place of this key is taken, although others may be free
    reserved_key,  ///< key 0 marks a free place
};

/// Writes a table, and reads it.
template <class Value>
class level_table : public level_view<Value, level_node<Value>> {
    using view = level_view<Value, level_node<Value>>;
    using node = level_node<Value>;

 public:
    [[nodiscard]] static std::size_t bytes_for(std::span<const std::uint64_t> lengths) {
        std::size_t places = 0;
        for (const std::uint64_t length : lengths) places += length;
        return sizeof(level_header) + places * sizeof(node);
    }
    /// Makes an empty table of these rows. Requires: 8-aligned. Throws: std::invalid_argument.
    [[nodiscard]] static level_table format(std::span<std::byte> region, std::span<const std::uint64_t> lengths) {
        if (lengths.empty() || lengths.size() > level_rows_max)
            throw std::invalid_argument("a table has 1 to 128 rows");
        if (region.size() < bytes_for(lengths)) throw std::invalid_argument("the region is too small for these rows");
        std::memset(region.data(), 0, bytes_for(lengths));
        auto* const h = reinterpret_cast<level_header*>(region.data());
        h->rows = lengths.size();
        h->node_bytes = sizeof(node);
        std::copy(lengths.begin(), lengths.end(), h->lengths.begin());
        h->magic = level_magic;
        return attach(region);
    }
    [[nodiscard]] static level_table attach(std::span<std::byte> region) { return level_table(view::attach(region)); }

    using view::find;
    [[nodiscard]] Value* find(std::uint64_t key) noexcept {
        std::uint64_t looked_at = 0;
        node* const found = this->locate(key, looked_at);
        return found == nullptr ? nullptr : &found->value;
    }

    level_result insert(std::uint64_t key, const Value& value) noexcept {
        if (key == 0) return level_result::reserved_key;
        const std::uint64_t hash = view::hash_of(key);
        node* free = nullptr;
        for (const auto& r : this->rows_) {
            node& n = r.nodes[hash % r.length];
            if (n.key == key) return level_result::exists;
            if (n.key == 0 && free == nullptr) free = &n;
        }
        if (free == nullptr) return level_result::full;
        fill(*free, key, value);
        return level_result::inserted;
    }
    /// The same for a key that is not there: it stops at the first free place. Requires: key is not 0 and not there.
    level_result insert_new(std::uint64_t key, const Value& value) noexcept {
        const std::uint64_t hash = view::hash_of(key);
        for (const auto& r : this->rows_)
            if (node& n = r.nodes[hash % r.length]; n.key == 0) {
                fill(n, key, value);
                return level_result::inserted;
            }
        return level_result::full;
    }
    /// Returns: whether it was there.
    bool erase(std::uint64_t key) noexcept {
        std::uint64_t looked_at = 0;
        node* const found = this->locate(key, looked_at);
        if (found == nullptr) return false;
        found->key = 0;
        --this->header_->size;
        return true;
    }
    void clear() noexcept {
        for (std::uint64_t i = 0; i < this->places_; ++i) this->first_node()[i].key = 0;
        this->header_->size = 0;
    }

 private:
    explicit level_table(view&& attached) : view(std::move(attached)) {}
    void fill(node& free, std::uint64_t key, const Value& value) noexcept {
        free.value = value;
        free.key = key;
        ++this->header_->size;
    }
};

}  // namespace study
