// SPDX-License-Identifier: Apache-2.0
// piece_writer.hpp - puts down pieces of text one behind the other, where there is known to be room: one look at the
// room for all of them instead of one for each.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace holdfast::net::detail {

inline constexpr std::size_t number_digits_max = 20;

class piece_writer {
 public:
    explicit piece_writer(char* at) noexcept : at_(at) {}

    piece_writer& put(std::string_view piece) noexcept {
        if (!piece.empty()) std::memcpy(at_, piece.data(), piece.size());
        at_ += piece.size();
        return *this;
    }
    piece_writer& put(std::uint64_t number) noexcept {
        at_ = std::to_chars(at_, at_ + number_digits_max, number).ptr;
        return *this;
    }
    [[nodiscard]] char* end() const noexcept { return at_; }

 private:
    char* at_;
};

}  // namespace holdfast::net::detail
