// SPDX-License-Identifier: Apache-2.0
// finding.hpp - one thing that a check of stored bytes found wrong, and where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::layout {

/// Damage, with the offset (in the checked bytes) at which it shows.
struct finding {
    std::uint64_t offset = 0;
    std::string what;
};

/// Findings of one check. Bounded: a wholly garbled image must not cost memory in proportion to its garbage.
class findings {
 public:
    static constexpr std::size_t kept_max = 100;

    void add(std::uint64_t offset, std::string what) {
        ++count_;
        if (list_.size() < kept_max) list_.push_back({offset, std::move(what)});
    }
    /// How many there were, of which the first kept_max are in list().
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
    [[nodiscard]] const std::vector<finding>& list() const noexcept { return list_; }

 private:
    std::uint64_t count_ = 0;
    std::vector<finding> list_;
};

}  // namespace holdfast::layout
