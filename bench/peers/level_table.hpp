// SPDX-License-Identifier: Apache-2.0
// level_table.hpp - the two many-level hash tables that were published for containers in shared memory, as peers. The
// tables, and what they do and do not keep of what was published of them: studies/multilevel_hash.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../studies/multilevel_hash/level_table.hpp"
#include "workload/hash_table_subject.hpp"

namespace holdfast::bench {

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
    bool insert(std::uint64_t key, const Value& v) { return table_.insert(key, v) == study::level_result::inserted; }
    bool update(std::uint64_t key, const Value& v) {
        Value* const found = table_.find(key);
        if (found == nullptr) return false;
        *found = v;
        return true;
    }
    bool erase(std::uint64_t key) { return table_.erase(key); }
    void clear() { table_.clear(); }
    [[nodiscard]] std::uint64_t size() const { return table_.size(); }
    [[nodiscard]] workload::memory_use memory() const { return pool_.use(); }

 protected:
    level_adapter(const std::vector<std::uint64_t>& lengths, workload::page_choice pages)
        : pool_(pages), table_(study::level_table<Value>::format(region_for(lengths), lengths)) {}

 private:
    [[nodiscard]] std::span<std::byte> region_for(const std::vector<std::uint64_t>& lengths) {
        const std::size_t bytes = study::level_table<Value>::bytes_for(lengths);
        return {static_cast<std::byte*>(pool_.allocate(bytes)), bytes};
    }

    workload::memory_pool pool_;
    study::level_table<Value> table_;
};

/// 50 rows, 90 % full: "more than 90 % usage".
template <class Value>
class classic_table : public level_adapter<Value> {
 public:
    static constexpr std::string_view name = "classic table, 50 levels";
    explicit classic_table(const workload::table_request& request)
        : level_adapter<Value>(study::row_lengths(request.entries * 10 / 9, 50, 1.0), request.pages) {}
};

/// Rows that shrink by 0.6, 80 % full: the load that its author advises, below the 85 % and more that it reaches.
template <class Value>
class geometric_table : public level_adapter<Value> {
 public:
    static constexpr std::string_view name = "geometric table, ratio 0.6";
    explicit geometric_table(const workload::table_request& request)
        : level_adapter<Value>(study::geometric_lengths(request.entries * 10 / 8), request.pages) {}
};

}  // namespace holdfast::bench
