// SPDX-License-Identifier: Apache-2.0
// json_keys.hpp - a list of keys as a client sends it: {"keys": ["10.0.0.1", 7, ...]}. Untrusted: any bytes at all end
// in a list or in a reason.
//
// Implemented in record_json.cpp, the one file that knows the JSON parser.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::inspect {

/// The keys as text, in order: strings without their escapes, integers of 64 bits as they are written ("-0" is 0),
/// other numbers in a short form of the same double. Returns: nothing, with `why` set, for any other shape, other
/// members, "keys" twice, or more than `keys_max` keys. Cost: linear in the text.
[[nodiscard]] std::optional<std::vector<std::string>> parse_json_keys(std::string_view json, std::size_t keys_max,
                                                                      std::string& why);

}  // namespace holdfast::inspect
