// SPDX-License-Identifier: Apache-2.0
// json_out.hpp - the writer of JSON under the name that this folder uses, and foreign bytes as text.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/record/json_out.hpp"

namespace holdfast::inspect {

using detail::json_out;

/// Foreign bytes (names of commands, of files) made fit for a terminal and for JSON: whatever is not printable ASCII
/// becomes \xHH.
[[nodiscard]] inline std::string printable(std::string_view text) {
    constexpr std::string_view hex = "0123456789abcdef";
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f) {
            out += c;
        } else {
            out += "\\x";
            out += hex[byte >> 4U];
            out += hex[byte & 15U];
        }
    }
    return out;
}

}  // namespace holdfast::inspect
