// SPDX-License-Identifier: Apache-2.0
// json_out.hpp - the writer of JSON under the name that this folder uses, and foreign bytes as text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/record/fixed_text.hpp"
#include "holdfast/record/json_out.hpp"

namespace holdfast::inspect {

using detail::json_out;

/// Bytes as characters.
[[nodiscard]] inline std::string_view characters_of(std::span<const std::byte> bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Appends two hexadecimal digits a byte.
inline void append_hex(std::string& out, std::string_view bytes) {
    for (const char c : bytes) detail::append_hex(out, static_cast<unsigned char>(c));
}

/// Foreign bytes (names of commands, of files) made fit for a terminal and for JSON: whatever is not printable ASCII
/// becomes \xHH.
[[nodiscard]] inline std::string printable(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f) {
            out += c;
        } else {
            out += "\\x";
            detail::append_hex(out, byte);
        }
    }
    return out;
}

}  // namespace holdfast::inspect
