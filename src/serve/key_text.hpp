// SPDX-License-Identifier: Apache-2.0
// key_text.hpp - the bytes of a key from its text in a URL.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/record.hpp"

namespace holdfast::serve {

/// Reads a key: the text of its field; of several fields, their texts joined by commas. `out` becomes the record's
/// bytes. Returns: what is wrong, if anything is.
[[nodiscard]] std::optional<std::string> parse_key(const record_schema& schema, std::string_view text,
                                                   std::vector<std::byte>& out);

}  // namespace holdfast::serve
