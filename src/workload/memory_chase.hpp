// SPDX-License-Identifier: Apache-2.0
// memory_chase.hpp - what one dependent access to memory costs: the floor under every lookup that waits for the last.
//
// Every cache line of a region holds the number of the next one, in a random order that visits all of them once.
#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "workload/keep.hpp"
#include "workload/keys.hpp"
#include "workload/memory_pool.hpp"

namespace holdfast::workload {

class memory_chase {
 public:
    /// As a subject. It is measured whoever else was asked for (runner.cpp).
    static constexpr const char* name = "one memory access";

    /// Requires: bytes is at least two cache lines. Throws: std::bad_alloc.
    memory_chase(std::uint64_t bytes, page_choice pages) : pool_(pages), lines_(bytes / line_bytes) {
        data_ = static_cast<std::byte*>(pool_.allocate(lines_ * line_bytes));
        std::vector<std::uint64_t> order(lines_);
        std::iota(order.begin(), order.end(), std::uint64_t{0});
        chooser choose(lines_);
        // A shuffle that leaves one cycle through all (Sattolo, Information Processing Letters 22, 1986).
        for (std::uint64_t i = lines_ - 1; i > 0; --i) std::swap(order[i], order[choose.below(i)]);
        for (std::uint64_t i = 0; i < lines_; ++i) std::memcpy(data_ + i * line_bytes, &order[i], sizeof order[i]);
    }

    /// Goes on for that many steps.
    void run(std::uint64_t steps) noexcept {
        std::uint64_t at = at_;
        for (; steps > 0; --steps) std::memcpy(&at, data_ + at * line_bytes, sizeof at);
        keep(at);
        at_ = at;
    }
    [[nodiscard]] std::uint64_t lines() const noexcept { return lines_; }
    [[nodiscard]] std::uint64_t at() const noexcept { return at_; }

 private:
    static constexpr std::uint64_t line_bytes = 64;
    memory_pool pool_;
    std::uint64_t lines_;
    std::byte* data_ = nullptr;
    std::uint64_t at_ = 0;
};

}  // namespace holdfast::workload
