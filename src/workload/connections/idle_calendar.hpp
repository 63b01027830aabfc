// SPDX-License-Identifier: Apache-2.0
// idle_calendar.hpp - which connection asks again when: one 32-bit word for each, and one for each slot of time.
//
//   slot t holds a list of all that are due at begin + t * slot_ns; slots are reused once they are past
// (I1) What is put in comes out once, at its slot and not before.
// Requires: nothing is put in further ahead than the calendar reaches; nobody stands in it twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace holdfast::workload::connections {

class idle_calendar {
 public:
    /// Reaches at least `reach_ns` ahead.
    idle_calendar(std::size_t connections, std::uint64_t begin_ns, std::uint64_t slot_ns, std::uint64_t reach_ns)
        : begin_ns_(begin_ns), slot_ns_(slot_ns), next_(connections, none), heads_(reach_ns / slot_ns + 2, none) {}

    /// Due at the first slot that does not begin before `at_ns`, nor is past.
    void add(std::uint32_t connection, std::uint64_t at_ns) noexcept {
        std::uint64_t slot = at_ns <= begin_ns_ ? 0 : (at_ns - begin_ns_ + slot_ns_ - 1) / slot_ns_;
        if (slot < slot_) slot = slot_;
        if (slot - slot_ >= heads_.size()) slot = slot_ + heads_.size() - 1;
        std::uint32_t& head = heads_[slot % heads_.size()];
        next_[connection] = head;
        head = connection;
        ++count_;
    }

    /// Calls due(connection, its slot's time) for all that are due by `now_ns`. They may be added again.
    template <class Due>
    void advance(std::uint64_t now_ns, Due&& due) {
        while (begin_ns_ + slot_ * slot_ns_ <= now_ns) {
            const std::uint64_t at_ns = begin_ns_ + slot_ * slot_ns_;
            std::uint32_t one = heads_[slot_ % heads_.size()];
            heads_[slot_ % heads_.size()] = none;
            ++slot_;  // before anybody is added again: this slot's place now stands for one far ahead
            while (one != none) {
                const std::uint32_t after = next_[one];
                --count_;
                due(one, at_ns);
                one = after;
            }
        }
    }

    /// When the next slot that is not empty begins, or `otherwise` when that is later or nobody is in.
    [[nodiscard]] std::uint64_t next_ns(std::uint64_t otherwise) const noexcept {
        if (count_ == 0) return otherwise;
        for (std::uint64_t slot = slot_; slot < slot_ + heads_.size(); ++slot) {
            const std::uint64_t at_ns = begin_ns_ + slot * slot_ns_;
            if (at_ns >= otherwise) return otherwise;
            if (heads_[slot % heads_.size()] != none) return at_ns;
        }
        return otherwise;
    }

 private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    std::uint64_t begin_ns_, slot_ns_;
    std::uint64_t slot_ = 0;  // everything before it is past
    std::size_t count_ = 0;
    std::vector<std::uint32_t> next_, heads_;
};

}  // namespace holdfast::workload::connections
