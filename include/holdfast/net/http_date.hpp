// SPDX-License-Identifier: Apache-2.0
// http_date.hpp - the dates of HTTP, read strictly and written.
//
// Read are the three forms of RFC 9110 section 5.6.7, to the byte: names as the grammar spells them, a day of the week
// that is that of the date, a day that the month has, second 60 at the end of a day alone. Anything else is no date,
// which a condition that rests on it has to ignore.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::net {

/// Reads a date.
///
/// A year of two digits (RFC 850) is the latest with these digits that is not more than 50 years after `now_s`.
/// Units: seconds since 1970, leap seconds not counted. Returns: nothing for what is no date. Cost: no allocation.
/// Source: RFC 9110 section 5.6.7.
[[nodiscard]] std::optional<std::int64_t> parse_http_date(std::string_view text, std::int64_t now_s) noexcept;
/// The same, with the time of CLOCK_REALTIME for now.
[[nodiscard]] std::optional<std::int64_t> parse_http_date(std::string_view text) noexcept;

/// Appends the date in the form to be sent, "Sun, 06 Nov 1994 08:49:37 GMT". Years outside 0 to 9999, which the form
/// cannot say, become its first or last second.
void append_http_date(std::string& out, std::int64_t seconds);

}  // namespace holdfast::net
