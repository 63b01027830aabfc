// SPDX-License-Identifier: Apache-2.0
// spare_buffers.hpp - strings whose memory is used again by the next connection that needs as much.
//
// malloc gives what is free at the end of its heap back to the kernel from 128 KiB on, so large buffers that come and
// go cost a fault for each of their pages, more than a copy of what they hold (docs/design/0028).
// (M1) At most all_bytes_max are kept, by a loop and not by a connection.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::net {

class spare_buffers {
 public:
    spare_buffers() { kept_.reserve(count_max); }

    /// An empty string: with room for `least` bytes and for `most` at most where one is spare, else without memory.
    [[nodiscard]] std::string take(std::size_t least, std::size_t most) noexcept {
        for (std::size_t i = kept_.size(); i-- != 0;) {  // the last one is the warmest
            if (kept_[i].capacity() < least || kept_[i].capacity() > most) continue;
            std::string found = std::move(kept_[i]);
            kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
            bytes_ -= found.capacity();
            return found;
        }
        return {};
    }

    /// The string has no memory afterwards.
    void give_back(std::string& one) noexcept {
        std::string gone;
        gone.swap(one);
        if (gone.capacity() > all_bytes_max - bytes_ || kept_.size() == count_max) return;
        bytes_ += gone.capacity();
        gone.clear();
        kept_.push_back(std::move(gone));
    }

 private:
    static constexpr std::size_t count_max = 64;
    static constexpr std::size_t all_bytes_max = 4U << 20U;

    std::vector<std::string> kept_;
    std::size_t bytes_ = 0;
};

}  // namespace holdfast::net
