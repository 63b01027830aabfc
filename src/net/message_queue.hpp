// SPDX-License-Identifier: Apache-2.0
// message_queue.hpp - messages in their order, without memory before the first: a std::deque takes half a kilobyte from
// the moment it is made, and most channels have nothing in theirs most of the time.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "holdfast/net/channel.hpp"

namespace holdfast::net {

struct queued_message {
    shared_bytes bytes;
    message_kind kind = message_kind::text;
    bool shared = false;  // goes to others as well, perhaps: it is not deflated for this one
};

class message_queue {
 public:
    [[nodiscard]] std::size_t size() const noexcept { return items_.size() - first_; }
    [[nodiscard]] bool empty() const noexcept { return first_ == items_.size(); }
    /// The oldest first.
    [[nodiscard]] std::span<const queued_message> all() const noexcept { return std::span(items_).subspan(first_); }

    /// Strong guarantee.
    void push(queued_message&& newest) {
        if (items_.capacity() == 0) items_.reserve(room_at_first);
        items_.push_back(std::move(newest));
    }

    /// The oldest; there is one. Constant cost, amortized.
    [[nodiscard]] queued_message pop() noexcept {
        queued_message oldest = std::move(items_[first_++]);
        if (first_ > items_.size() / 2) {
            items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_));
            first_ = 0;
        }
        return oldest;
    }

    void swap(message_queue& other) noexcept {
        items_.swap(other.items_);
        std::swap(first_, other.first_);
    }

 private:
    static constexpr std::size_t room_at_first = 16;  // what waits in a turn, as a rule

    std::vector<queued_message> items_;
    std::size_t first_ = 0;  // those before it have been popped
};

}  // namespace holdfast::net
