// SPDX-License-Identifier: Apache-2.0
// consumed_range.hpp - what a consumer finds in front of its queue, as a range.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace holdfast::detail {

/// What a queue holds now, oldest first. An input range: one pass, and it consumes. It shows what front() gives, or the
/// `value` in that.
template <class Consumer, class Value>
class consumed_range {
 public:
    class iterator {
     public:
        using value_type = Value;
        using difference_type = std::ptrdiff_t;
        using iterator_concept = std::input_iterator_tag;

        iterator() = default;
        explicit iterator(Consumer& from) noexcept : from_(&from), now_(from.front()) {}
        [[nodiscard]] const Value& operator*() const noexcept {
            if constexpr (std::is_same_v<front, Value>)
                return now_;
            else
                return now_.value;
        }
        [[nodiscard]] const Value* operator->() const noexcept { return &**this; }
        iterator& operator++() noexcept {
            from_->pop();
            now_ = from_->front();
            return *this;
        }
        void operator++(int) noexcept { ++*this; }
        [[nodiscard]] friend bool operator==(const iterator& at, std::default_sentinel_t) noexcept { return !at.now_; }

     private:
        using front = decltype(std::declval<Consumer&>().front());
        Consumer* from_ = nullptr;
        front now_;
    };

    explicit consumed_range(Consumer& from) noexcept : from_(&from) {}
    [[nodiscard]] iterator begin() const noexcept { return iterator(*from_); }
    [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

 private:
    Consumer* from_;
};

}  // namespace holdfast::detail
