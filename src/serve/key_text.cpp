// SPDX-License-Identifier: Apache-2.0
#include "serve/key_text.hpp"

namespace holdfast::serve {

std::optional<std::string> parse_key(const record_schema& schema, std::string_view text, std::vector<std::byte>& out) {
    out.assign(schema.bytes(), std::byte{0});
    const auto& fields = schema.fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const bool last = i + 1 == fields.size();
        const std::size_t comma = last ? text.size() : text.find(',');
        if (comma == std::string_view::npos)
            return "a key has " + std::to_string(fields.size()) + " fields; join them by commas";
        if (const auto reason = parse_text(fields[i], text.substr(0, comma), out.data()))
            return "key field " + fields[i].name + ": " + *reason;
        text.remove_prefix(last ? comma : comma + 1);
    }
    return std::nullopt;
}

}  // namespace holdfast::serve
