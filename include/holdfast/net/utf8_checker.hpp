// SPDX-License-Identifier: Apache-2.0
// utf8_checker.hpp - whether bytes that come in pieces are UTF-8, told at the first byte that settles it.
//
// (I1) The verdict after some bytes is a function of those bytes, never of how they were cut into calls.
// (I2) It is false exactly from the first byte on with which no well-formed text can go on: a byte that begins nothing,
//      a second byte that would make an overlong form, a surrogate or more than U+10FFFF, a character cut short.
// Source: RFC 3629 section 4; the Unicode Standard, table 3-7.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast::net {

class utf8_checker {
 public:
    /// Takes the next bytes. Returns: whether all so far can begin a well-formed text; once false, false until reset().
    /// Cost: one pass, sixteen bytes at a time over ASCII where the machine can.
    [[nodiscard]] bool take(std::string_view bytes) noexcept;

    /// Whether what was taken ends between two characters. Requires: take() never answered false.
    [[nodiscard]] bool whole() const noexcept { return more_ == 0; }

    /// Begins a new text.
    void reset() noexcept { *this = {}; }

 private:
    std::uint8_t more_ = 0;     // bytes the character under way still needs
    std::uint8_t low_ = 0x80;   // what the next of them may be; low_ > high_ after a false
    std::uint8_t high_ = 0xBF;  //
};

}  // namespace holdfast::net
