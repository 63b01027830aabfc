// SPDX-License-Identifier: Apache-2.0
// uri.hpp - taking the path and query of a request apart, strictly.
//
// A path is split at '/' first and each segment decoded afterwards, so that %2F inside a segment stays data.
// Source: RFC 3986 sections 2.1, 3.3 and 3.4; '+' for a space in queries: the URL standard's form encoding.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::net {

/// Appends `text` with every %XX replaced by its byte. Bytes may be any, NUL included: the caller knows what it
/// expects. Returns: false, with `out` unspecified, when a '%' is not followed by two hexadecimal digits.
[[nodiscard]] bool percent_decode(std::string_view text, std::string& out);

/// Appends `text` with everything but unreserved characters as %XX: fit for one path segment or query value.
void percent_encode(std::string_view text, std::string& out);

/// The decoded segments of an absolute path: "/a/b%2Fc" is {"a", "b/c"}, "/" is {""}, "/a/" is {"a", ""}.
/// "." and ".." are segments like any other: nothing is resolved.
/// Returns: nothing when the path does not begin with '/' or an escape is malformed.
[[nodiscard]] std::optional<std::vector<std::string>> split_path(std::string_view path);
/// The same into `segments`, in the place and the memory of what they held. Returns: false, with anything in them,
/// where the other returns nothing.
[[nodiscard]] bool split_path(std::string_view path, std::vector<std::string>& segments);

/// Whether `text` is well-formed UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF).
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// The parameters of a query, "a=1&b=two+words".
class query_parameters {
 public:
    static constexpr std::size_t parameters_max = 64;
    /// Returns: nothing when an escape is malformed, a piece is empty or has no name, or a name comes twice (which of
    /// the two would count is a guess), or there are more than parameters_max. An empty query has no parameters.
    [[nodiscard]] static std::optional<query_parameters> parse(std::string_view query);

    /// The decoded value; empty for a name without '='; nothing when the name is absent.
    [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const noexcept;
    [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& items() const noexcept { return items_; }

 private:
    std::vector<std::pair<std::string, std::string>> items_;
};

}  // namespace holdfast::net
