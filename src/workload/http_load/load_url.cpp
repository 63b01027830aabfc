// SPDX-License-Identifier: Apache-2.0
#include "workload/http_load/load_url.hpp"

#include <algorithm>
#include <optional>

#include "workload/command.hpp"

namespace holdfast::workload::http {

namespace {

[[noreturn]] void refuse(std::string_view url, const std::string& why) {
    throw usage_error(std::string(url) + ": " + why);
}

/// Whether a port stands behind the host; the colons of an address in brackets are none of it.
bool has_port(std::string_view authority) {
    return authority.substr(authority.starts_with('[') ? std::min(authority.find(']'), authority.size()) : 0)
               .find(':') != std::string_view::npos;
}

}  // namespace

std::string load_url::request() const {
    return "GET " + target + " HTTP/1.1\r\nHost: " + authority +
           "\r\nUser-Agent: holdfast-bench\r\nAccept: */*\r\n\r\n";
}

load_url parse_load_url(std::string_view text) {
    constexpr std::string_view scheme = "http://";
    if (text.starts_with("https://"))
        refuse(text, "https cannot be asked yet; name a listener without TLS, as http://127.0.0.1:8080/");
    if (!text.starts_with(scheme)) refuse(text, "is no URL to load; write one as http://127.0.0.1:8080/path");
    // Everything behind goes into the request as it is: nothing in it may end a line or a field.
    if (std::ranges::any_of(text, [](char c) { return c <= ' ' || c == '\x7f'; }))
        refuse(text, "a URL has no blanks and no control characters; write a blank as %20");
    std::string_view rest = text.substr(scheme.size());
    rest = rest.substr(0, rest.find('#'));
    const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
    load_url made;
    made.authority = rest.substr(0, end);
    if (end == rest.size() || rest[end] != '/') made.target = '/';
    made.target += rest.substr(end);
    if (made.authority.find('@') != std::string::npos)
        refuse(text, "users and passwords are not sent; leave out what stands before the @");
    const std::optional<net::socket_address> server =
        net::parse_address(has_port(made.authority) ? made.authority : made.authority + ":80");
    if (!server)
        refuse(text, "\"" + made.authority +
                         "\" is no address with a port; names are not looked up: write the address, as 127.0.0.1:8080 "
                         "or [::1]:8080");
    made.server = *server;
    return made;
}

}  // namespace holdfast::workload::http
