// SPDX-License-Identifier: Apache-2.0
// answering.hpp - what all routes do alike.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "holdfast/error.hpp"
#include "holdfast/net/request.hpp"
#include "holdfast/net/response.hpp"
#include "holdfast/net/uri.hpp"
#include "inspect/lookup.hpp"

namespace holdfast::serve {

inline constexpr std::string_view json_type = "application/json";

/// 200 with a body that is true now and may be kept by nobody.
void answer_json(net::response& to, std::string&& text);

/// Runs `work`, which answers. A failure or an error that it throws becomes a problem. Throws: std::bad_alloc.
/// Returns: whether there was none.
bool answer_or_refuse(net::response& to, const std::function<void()>& work);

/// Refuses a part of something, and what would have to be decoded first. Throws: failure 400, 415.
void require_whole_content(const net::request& from);

/// Whether no page makes a browser ask this, or one of ours does. `tls`: whether TCP connections speak TLS.
[[nodiscard]] bool is_of_own_page(const net::request& from, bool tls);

/// The status that an error is answered with.
[[nodiscard]] int status_of(errc code) noexcept;

/// What the body is said to be, without parameters; empty where nothing is said, or what says nothing.
[[nodiscard]] std::string_view media_type_of(const net::request& from);

/// The number that a parameter gives. Throws: failure 400.
[[nodiscard]] std::uint64_t number_of(const net::query_parameters& query, std::string_view name,
                                      std::uint64_t otherwise);

/// Refuses what is no answer. Throws: failure.
void check_lookup(inspect::lookup result, const std::string& segment);

/// Refuses parameters that mean nothing here: a misspelt one would silently change nothing. Throws: failure 400.
void check_parameters(const net::query_parameters& query, std::initializer_list<std::string_view> known);

}  // namespace holdfast::serve
