// SPDX-License-Identifier: Apache-2.0
// client_url.hpp - a URL taken apart, strictly, and the bytes of a request's head. Nothing here does more than look.
//
// (U1) What is made holds no byte of a caller's text that was not judged: a line break, a NUL or a blank in a URL, a
//      method or a name, or a control character in a value, is refused, never repaired.
// Source: RFC 3986; RFC 9110 sections 4.2 (http URIs), 5 (fields), 7.2 (Host); RFC 9112 section 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/net/client_message.hpp"

namespace holdfast::net {

struct client_url {
    std::string scheme;  // "http" or "https"
    std::string host;    // in lower case, an IPv6 address without brackets
    std::uint16_t port = 0;
    std::string target;  // path and query, beginning with '/'

    /// As the Host field says it: without the port where it is the scheme's.
    [[nodiscard]] std::string authority() const;
};

/// Returns: what is wrong, in words; empty where nothing is, and then `made` is whole.
[[nodiscard]] std::string_view parse_client_url(std::string_view text, client_url& made);

/// The head of a request, with its empty line. Returns: what is wrong; empty where nothing is.
[[nodiscard]] std::string_view make_request_head(const client_request& asked, const client_url& url, std::string& head);

/// RFC 9110 section 9.2.2.
[[nodiscard]] bool is_idempotent(std::string_view method) noexcept;

}  // namespace holdfast::net
