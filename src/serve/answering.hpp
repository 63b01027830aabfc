// SPDX-License-Identifier: Apache-2.0
// answering.hpp - what all routes do alike.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "holdfast/net/response.hpp"
#include "holdfast/net/uri.hpp"

namespace holdfast::serve {

inline constexpr std::string_view json_type = "application/json";

/// 200 with a body that is true now and may be kept by nobody.
void answer_json(net::response& to, std::string&& text);

/// Refuses parameters that mean nothing here: a misspelt one would silently change nothing. Throws: failure 400.
void check_parameters(const net::query_parameters& query, std::initializer_list<std::string_view> known);

}  // namespace holdfast::serve
