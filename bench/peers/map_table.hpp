// SPDX-License-Identifier: Apache-2.0
// map_table.hpp - the adapter of every peer with the interface of std::unordered_map.
#pragma once

#include <cstdint>
#include <utility>

#include "workload/hash_table_subject.hpp"

namespace holdfast::bench {

template <class Map, class Value>
class map_table {
 public:
    using value = Value;

    bool find(std::uint64_t key, Value& out) const {
        const auto it = map_.find(key);
        if (it == map_.end()) return false;
        out = it->second;
        return true;
    }
    bool insert(std::uint64_t key, const Value& v) { return map_.try_emplace(key, v).second; }
    bool update(std::uint64_t key, const Value& v) {
        const auto it = map_.find(key);
        if (it == map_.end()) return false;
        mapped(it) = v;
        return true;
    }
    bool erase(std::uint64_t key) { return map_.erase(key) != 0; }
    void clear() {
        map_.clear();
        map_.reserve(entries_);  // some give their memory back; the pool keeps it
    }
    [[nodiscard]] std::uint64_t size() const { return map_.size(); }
    [[nodiscard]] workload::memory_use memory() const { return pool_.use(); }

 protected:
    explicit map_table(const workload::table_request& request)
        : entries_(request.entries), pool_(request.pages), map_(typename Map::allocator_type(pool_)) {
        map_.reserve(entries_);
    }

 private:
    template <class Iterator>
    static Value& mapped(const Iterator& it) {
        if constexpr (requires { it.value(); })  // tsl: what an iterator points to is constant
            return const_cast<Value&>(it.value());
        else
            return it->second;
    }

    std::uint64_t entries_;
    workload::memory_pool pool_;
    Map map_;
};

}  // namespace holdfast::bench
