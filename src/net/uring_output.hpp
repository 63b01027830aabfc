// SPDX-License-Identifier: Apache-2.0
// uring_output.hpp - the output of one connection: what a send that is under way reads, and what has gathered behind.
//
// (O1) The bytes of to_send() stay where they are until took(): whatever is appended goes behind them.
// (O2) What is kept for output has not many times the room of what has not left (buffer_room.hpp).
// (O3) The output waits from the first send on for which the kernel had no room, until nothing is unsent.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "buffer_room.hpp"

namespace holdfast::net {

class uring_output {
 public:
    /// Takes the bytes, with their memory where that is not far too large for them (O2); the string is empty
    /// afterwards. Requires: nothing unsent.
    void begin(std::string& bytes) {
        if (has_room_to_spare(bytes, bytes.size())) {
            give_up_room(leaving_, bytes.size());
            leaving_ = bytes;
        } else {
            leaving_.swap(bytes);
        }
        bytes.clear();
        give_up_room(behind_, leaving_.size());
    }
    void append(std::string_view bytes) { behind_.append(bytes); }

    [[nodiscard]] std::size_t unsent() const noexcept { return leaving_.size() - left_ + behind_.size(); }
    /// What is kept for it, in bytes (O2).
    [[nodiscard]] std::size_t capacity() const noexcept { return leaving_.capacity() + behind_.capacity(); }
    /// What the next send reads, or the one under way.
    [[nodiscard]] std::string_view to_send() const noexcept { return std::string_view(leaving_).substr(left_); }

    /// That many bytes of to_send() have left.
    void took(std::size_t bytes) {
        left_ += bytes;
        if (left_ == leaving_.size()) {
            leaving_.clear();
            left_ = 0;
            leaving_.swap(behind_);
            if (behind_.capacity() > spare_bytes_max) std::string().swap(behind_);
            if (leaving_.empty()) return;
            give_up_room(behind_, leaving_.size());
        } else {
            waits_ = true;
        }
        // What has gone is dropped once it is the larger part: each byte is moved at most once on average.
        if (left_ > leaving_.size() / 2 || has_room_to_spare(leaving_, leaving_.size() - left_)) {
            leaving_ = std::string(leaving_, left_);
            left_ = 0;
        }
    }

    [[nodiscard]] bool waits() const noexcept { return waits_; }
    /// A send was not taken when the kernel saw it.
    void wait() noexcept { waits_ = true; }

    /// As new, but for its memory. Returns: false where that is too much to keep.
    [[nodiscard]] bool renew() noexcept {
        if (leaving_.capacity() > spare_bytes_max || behind_.capacity() > spare_bytes_max) return false;
        leaving_.clear();
        behind_.clear();
        left_ = 0;
        waits_ = offered = false;
        return true;
    }

    bool offered = false;  ///< for its owner: the kernel has seen the send that is under way

 private:
    static constexpr std::size_t spare_bytes_max = 64U << 10U;

    static void give_up_room(std::string& buffer, std::size_t bytes) noexcept {
        if (has_room_to_spare(buffer, bytes)) std::string().swap(buffer);
    }

    std::string leaving_;   // the kernel reads it from `left_` on
    std::size_t left_ = 0;  // of it
    std::string behind_;
    bool waits_ = false;
};

/// Outputs whose memory is used again.
class uring_outputs {
 public:
    uring_outputs() { spare_.reserve(spare_max); }

    [[nodiscard]] std::unique_ptr<uring_output> take() {
        if (spare_.empty()) return std::make_unique<uring_output>();
        auto one = std::move(spare_.back());
        spare_.pop_back();
        return one;
    }
    void give_back(std::unique_ptr<uring_output> one) noexcept {
        if (spare_.size() < spare_max && one->renew()) spare_.push_back(std::move(one));
    }

 private:
    static constexpr std::size_t spare_max = 64;
    std::vector<std::unique_ptr<uring_output>> spare_;
};

}  // namespace holdfast::net
