// SPDX-License-Identifier: Apache-2.0
// hash_table_own.hpp - the adapters that need no package: our table, and the standard library's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "holdfast/hash_table.hpp"
#include "workload/hash_table_subject.hpp"
#include "workload/instruction_set.hpp"

namespace holdfast::workload {

/// Of a table of which so many entries fill 90 %: it has 3 % more slots than its capacity.
[[nodiscard]] inline hash_table_options table_options_for(std::uint64_t entries, page_choice pages) {
    hash_table_options options;
    options.capacity = static_cast<std::uint64_t>(static_cast<double>(entries) / 0.9 / 1.03) + 1;
    options.segment.pages.huge = pages == page_choice::huge;
    options.segment.pages.prefault = true;
    return options;
}

/// Of a table's segment, all of which belongs to it.
[[nodiscard]] inline memory_use use_of(const segment& s) {
    return {s.info().total_bytes, s.info().total_bytes, s.pages().huge_bytes};
}

/// Ours, in shared memory (a memfd), 90 % full when it holds what it was made for.
template <class Value>
class own_table {
 public:
    using value = Value;
    static constexpr std::string_view name = "holdfast";
    static constexpr bool concurrent_readers = true;
    static std::string version() { return own_version(); }

    explicit own_table(const table_request& request)
        : table_(table::create("memfd:", table_options_for(request.entries, request.pages))),
          reader_(table_.make_reader()) {}

    [[gnu::always_inline]] bool find(std::uint64_t key, Value& out) const { return reader_.find(key, out); }
    std::uint64_t find_many(std::span<const std::uint64_t> keys, std::span<std::optional<Value>> out) const {
        return reader_.find_many(keys, out);
    }
    bool insert(std::uint64_t key, const Value& v) { return static_cast<bool>(table_.try_insert(key, v)); }
    std::uint64_t insert_many(std::span<const std::uint64_t> keys, std::span<const Value> values) {
        return table_.try_insert_many(keys, values);
    }
    bool update(std::uint64_t key, const Value& v) { return static_cast<bool>(table_.update(key, v)); }
    bool erase(std::uint64_t key) { return static_cast<bool>(table_.erase(key)); }
    [[nodiscard]] std::uint64_t size() const { return reader_.size(); }
    [[nodiscard]] memory_use memory() const { return use_of(reader_.segment()); }

 private:
    using table = hash_table<std::uint64_t, Value>;

    table table_;
    hash_table_reader<std::uint64_t, Value> reader_;
};

/// std::unordered_map, buckets reserved, nodes from a pool that lays them side by side.
template <class Value>
class standard_table {
 public:
    using value = Value;
    static constexpr std::string_view name = "std::unordered_map";
    static std::string version() { return standard_library_version(); }

    explicit standard_table(const table_request& request)
        : pool_(request.pages), map_(0, std::hash<std::uint64_t>{}, std::equal_to<>{}, allocator(pool_)) {
        map_.reserve(request.entries);
    }
    bool find(std::uint64_t key, Value& out) const {
        const auto it = map_.find(key);
        if (it == map_.end()) return false;
        out = it->second;
        return true;
    }
    bool insert(std::uint64_t key, const Value& v) { return map_.emplace(key, v).second; }
    bool update(std::uint64_t key, const Value& v) {
        const auto it = map_.find(key);
        if (it == map_.end()) return false;
        it->second = v;
        return true;
    }
    bool erase(std::uint64_t key) { return map_.erase(key) != 0; }
    void clear() { map_.clear(); }
    [[nodiscard]] std::uint64_t size() const { return map_.size(); }
    [[nodiscard]] memory_use memory() const { return pool_.use(); }

 private:
    using allocator = pool_allocator<std::pair<const std::uint64_t, Value>>;
    memory_pool pool_;
    std::unordered_map<std::uint64_t, Value, std::hash<std::uint64_t>, std::equal_to<>, allocator> map_;
};

}  // namespace holdfast::workload
