// SPDX-License-Identifier: Apache-2.0
// number_map.hpp - small numbers kept by large random ones: millions of them, looked up again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace holdfast::test {

/// Keys are random already, so their low bits say where they lie; a neighbour is taken when that is not free.
class number_map {
 public:
    static constexpr std::uint32_t none = ~std::uint32_t{0};

    /// What is kept by `key`; if nothing is, `value` from now on. Returns: that, and whether it is new.
    std::pair<std::uint32_t, bool> try_emplace(std::uint64_t key, std::uint32_t value) {
        if (2 * (size_ + 1) > slots_.size()) grow();
        slot& there = slots_[find(key)];
        if (there.value != none) return {there.value, false};
        there = {key, value};
        ++size_;
        return {value, true};
    }
    [[nodiscard]] std::uint32_t at(std::uint64_t key) const noexcept {
        return slots_.empty() ? none : slots_[find(key)].value;
    }

 private:
    struct slot {
        std::uint64_t key = 0;
        std::uint32_t value = none;
    };
    [[nodiscard]] std::size_t find(std::uint64_t key) const noexcept {
        std::size_t i = key & (slots_.size() - 1);
        while (slots_[i].value != none && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
        return i;
    }
    void grow() {
        std::vector<slot> old(slots_.empty() ? 1024 : 2 * slots_.size());
        old.swap(slots_);
        for (const slot& each : old)
            if (each.value != none) slots_[find(each.key)] = each;
    }

    std::vector<slot> slots_;
    std::size_t size_ = 0;
};

}  // namespace holdfast::test
