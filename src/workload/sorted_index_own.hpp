// SPDX-License-Identifier: Apache-2.0
// sorted_index_own.hpp - the adapters that need no package: our index, binary search of the standard library over
// arrays, and std::map.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/sorted_index.hpp"
#include "workload/instruction_set.hpp"
#include "workload/sorted_index_subject.hpp"

namespace holdfast::workload {

/// Ours, a segment of its own in shared memory (a memfd).
template <class K>
class own_index {
 public:
    using key = K;
    static constexpr std::string_view name = "holdfast";
    static std::string version() { return own_version(); }

    own_index(const index_records<K>& records, page_choice pages)
        : reader_(std::make_shared<const segment>(make(records, pages))) {}

    bool find(K wanted, index_value<K>& out) { return take(reader_.find(wanted), out); }
    bool cover(K wanted, index_value<K>& out) { return take(reader_.find_covering(wanted), out); }
    std::uint64_t find_many(std::span<const K> keys, std::span<std::optional<index_value<K>>> out) {
        return reader_.find_many(keys, out).found;
    }
    std::uint64_t scan(K from, std::uint64_t count) {
        std::uint64_t sum = 0;
        reader_.read([&](const typename index::view& view) {
            std::uint64_t at = view.lower_bound(from).index();
            const std::uint64_t end = std::min(view.size(), at + count);
            for (sum = 0; at < end; ++at) sum += view.value(at).number;
        });
        return sum;
    }
    [[nodiscard]] memory_use memory() const {
        const segment& s = reader_.segment();
        return {s.info().total_bytes, s.info().total_bytes, s.pages().huge_bytes};
    }

 private:
    using index = sorted_index<K, index_value<K>, &index_value<K>::end>;

    static segment make(const index_records<K>& records, page_choice pages) {
        typename index::builder builder;
        builder.reserve(records.keys.size());
        for (std::size_t i = 0; i < records.keys.size(); ++i) builder.add(records.keys[i], records.values[i]);
        create_options options;
        options.pages.huge = pages == page_choice::huge;
        options.pages.prefault = true;
        return create_sorted_index("memfd:", builder, options);
    }
    static bool take(const typename index::reader::result& found, index_value<K>& out) {
        if (!found) return false;
        out = found->value;
        return true;
    }

    typename index::reader reader_;
};

/// std::lower_bound and std::upper_bound over an array of keys, values in an array beside it: the cache's best case.
template <class K>
class binary_search_index {
 public:
    using key = K;
    static constexpr std::string_view name = "std::lower_bound";
    static std::string version() { return standard_library_version(); }

    binary_search_index(const index_records<K>& records, page_choice pages)
        : pool_(pages),
          keys_(records.keys.begin(), records.keys.end(), pool_allocator<K>(pool_)),
          values_(records.values.begin(), records.values.end(), pool_allocator<index_value<K>>(pool_)) {}

    bool find(K wanted, index_value<K>& out) {
        const auto at = std::lower_bound(keys_.begin(), keys_.end(), wanted);
        if (at == keys_.end() || *at != wanted) return false;
        out = values_[static_cast<std::size_t>(at - keys_.begin())];
        return true;
    }
    bool cover(K wanted, index_value<K>& out) {
        const auto after = std::upper_bound(keys_.begin(), keys_.end(), wanted);
        if (after == keys_.begin()) return false;
        const index_value<K>& v = values_[static_cast<std::size_t>(after - keys_.begin()) - 1];
        if (wanted > v.end) return false;
        out = v;
        return true;
    }
    std::uint64_t scan(K from, std::uint64_t count) {
        std::size_t at = static_cast<std::size_t>(std::lower_bound(keys_.begin(), keys_.end(), from) - keys_.begin());
        const std::size_t end = std::min(values_.size(), at + count);
        std::uint64_t sum = 0;
        for (; at < end; ++at) sum += values_[at].number;
        return sum;
    }
    [[nodiscard]] memory_use memory() const { return pool_.use(); }

 private:
    memory_pool pool_;
    std::vector<K, pool_allocator<K>> keys_;
    std::vector<index_value<K>, pool_allocator<index_value<K>>> values_;
};

/// What every map with lower_bound and upper_bound can do. Map is built in key order.
template <class K, class Map>
class map_index {
 public:
    using key = K;
    bool find(K wanted, index_value<K>& out) {
        const auto at = map_.find(wanted);
        if (at == map_.end()) return false;
        out = at->second;
        return true;
    }
    bool cover(K wanted, index_value<K>& out) {
        auto at = map_.upper_bound(wanted);
        if (at == map_.begin()) return false;
        --at;
        if (wanted > at->second.end) return false;
        out = at->second;
        return true;
    }
    std::uint64_t scan(K from, std::uint64_t count) {
        std::uint64_t sum = 0;
        for (auto at = map_.lower_bound(from); at != map_.end() && count > 0; ++at, --count) sum += at->second.number;
        return sum;
    }
    [[nodiscard]] memory_use memory() const { return pool_.use(); }

 protected:
    template <class... Arguments>
    explicit map_index(page_choice pages, Arguments&&... arguments)
        : pool_(pages), map_(std::forward<Arguments>(arguments)..., typename Map::allocator_type(pool_)) {}
    void append(const index_records<K>& records) {
        for (std::size_t i = 0; i < records.keys.size(); ++i)
            map_.emplace_hint(map_.end(), records.keys[i], records.values[i]);
    }

    memory_pool pool_;
    Map map_;
};

/// std::map, nodes from a pool that lays them side by side in key order.
template <class K>
class standard_map_index
    : public map_index<K,
                       std::map<K, index_value<K>, std::less<K>, pool_allocator<std::pair<const K, index_value<K>>>>> {
    using base =
        map_index<K, std::map<K, index_value<K>, std::less<K>, pool_allocator<std::pair<const K, index_value<K>>>>>;

 public:
    static constexpr std::string_view name = "std::map";
    static std::string version() { return standard_library_version(); }
    standard_map_index(const index_records<K>& records, page_choice pages) : base(pages) { this->append(records); }
};

}  // namespace holdfast::workload
