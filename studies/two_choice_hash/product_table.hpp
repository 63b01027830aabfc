// SPDX-License-Identifier: Apache-2.0
// product_table.hpp - holdfast::hash_table as it ships, over plain bytes, with a seed of ours; and how many buckets a
// find in it looks at, told from its own lines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>

#include "holdfast/hash_table/core.hpp"

namespace study {

class product_table {
 public:
    /// About so many slots; never less.
    product_table(std::uint64_t slots, std::uint64_t seed)
        : geometry_(holdfast::layout::plan_hash_table(
              {.capacity = slots * 100 / 103, .key_bytes = 8, .value_bytes = 8, .value_alignment = 8, .seed = seed})),
          bytes_(static_cast<std::byte*>(::operator new(geometry_.body_bytes(), std::align_val_t{64}))) {
        const std::span<std::byte> body(bytes_.get(), geometry_.body_bytes());
        std::fill(body.begin(), body.end(), std::byte{});
        mutator_ = mutator(view(body, geometry_, {}));
    }

    bool insert(std::uint64_t key, std::uint64_t value) {
        return mutator_.try_insert(bytes_of(key), bytes_of(value)).status == holdfast::outcome::ok;
    }
    bool insert_new(std::uint64_t key, std::uint64_t value) { return insert(key, value); }
    bool erase(std::uint64_t key) { return mutator_.erase(bytes_of(key)).status == holdfast::outcome::ok; }
    [[nodiscard]] std::optional<std::uint64_t> find(std::uint64_t key) const {
        std::uint64_t value = 0;
        if (finder().find(bytes_of(key), reinterpret_cast<std::byte*>(&value)) == holdfast::detail::no_slot) return {};
        return value;
    }

    /// Buckets that a find looks at, whether the key is there or not (find.hpp says in which order, and when it ends).
    [[nodiscard]] std::uint64_t lines_of(std::uint64_t key) const {
        const auto& table = finder().bytes();
        const auto h = table.hash(bytes_of(key));
        const std::uint64_t slot = finder().find(bytes_of(key), nullptr), home = h.home(table.buckets);
        // no_slot lies in no bucket.
        const std::uint64_t wanted = slot / holdfast::layout::tags_per_line;
        const auto passed = [&](std::uint64_t bucket) {
            return holdfast::detail::counter_of(table.line(bucket), h.group()) != 0;
        };
        std::uint64_t lines = 1;
        if (wanted == home || !passed(home)) return lines;
        holdfast::detail::probe_pairs pair(home, h, table.buckets);
        for (std::uint32_t i = 0; i < table.pairs_max; ++i) {
            pair.next();
            ++lines;
            if (wanted == pair.first()) return lines;
            ++lines;
            if (wanted == pair.second() || !passed(pair.first()) || !passed(pair.second())) return lines;
        }
        return lines;
    }
    [[nodiscard]] std::uint64_t size() const noexcept { return mutator_.size(); }
    [[nodiscard]] std::uint64_t slots() const noexcept { return geometry_.slots(); }
    [[nodiscard]] const holdfast::layout::hash_table_geometry& geometry() const noexcept { return geometry_; }

 private:
    using node = holdfast::detail::fixed_node<std::uint64_t, std::uint64_t>;
    using mutator = holdfast::detail::hash_table_mutator<node>;
    using view = mutator::view;
    struct release {
        void operator()(std::byte* p) const noexcept { ::operator delete(p, std::align_val_t{64}); }
    };
    [[nodiscard]] static const std::byte* bytes_of(const std::uint64_t& word) noexcept {
        return reinterpret_cast<const std::byte*>(&word);
    }
    [[nodiscard]] const holdfast::detail::hash_table_finder<node>& finder() const noexcept { return mutator_.finder(); }

    holdfast::layout::hash_table_geometry geometry_;
    std::unique_ptr<std::byte, release> bytes_;
    mutator mutator_;
};

}  // namespace study
