// SPDX-License-Identifier: Apache-2.0
// json_controls.hpp - JSON that is shown on terminals: what they obey beyond JSON's own escapes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "holdfast/record/fixed_text.hpp"

namespace holdfast::inspect {

/// Escapes DEL and the controls from U+0080 to U+009F as \u00HH in what was appended to `out` behind `from`. Requires:
/// JSON, where they stand in strings only.
inline void escape_controls(std::string& out, std::size_t from) {
    constexpr std::string_view first_bytes = "\x7f\xc2";
    std::size_t at = out.find_first_of(first_bytes, from);
    if (at == std::string::npos) return;  // nearly always
    const std::string json = out.substr(at);
    out.resize(at);
    for (std::string_view rest = json; !rest.empty();) {
        const std::size_t bytes = rest.front() == '\x7f' ? 1 : rest.front() == '\xc2' && rest.size() > 1 ? 2 : 0;
        if (bytes != 0 && detail::is_control(rest, bytes)) {  // of two bytes the second is the number
            out += "\\u00";
            detail::append_hex(out, static_cast<unsigned char>(rest[bytes - 1]));
            rest.remove_prefix(bytes);
        } else {
            out += rest.front();
            rest.remove_prefix(1);
        }
    }
}

}  // namespace holdfast::inspect
