// SPDX-License-Identifier: Apache-2.0
#include "client_url.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "characters.hpp"
#include "holdfast/net/request.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t url_bytes_max = 64U << 10U;
constexpr std::size_t name_bytes_max = 253;

char lower_letter(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

bool is_address(int family, const std::string& text) noexcept {
    std::array<char, sizeof(in6_addr)> bytes{};
    return ::inet_pton(family, text.c_str(), bytes.data()) == 1;
}

// "10", "010", "0x7f": what the system's resolver would read as (a part of) an IPv4 address.
bool is_numeric_label(std::string_view label) noexcept {
    if (label.starts_with("0x")) return detail::all(label.substr(2), detail::hex_char);
    return std::all_of(label.begin(), label.end(), detail::is_digit);
}

std::string_view judge_name(const std::string& name) {
    if (name.empty()) return "the URL has no host";
    if (name.size() > name_bytes_max) return "the host of the URL is too long";
    for (const char c : name)
        if (!detail::is(c, detail::unreserved) || c == '~') return "the host of the URL is no name";
    // DNS has no empty label, and who verifies a certificate takes a dot in front for any name below.
    if (name.starts_with('.') || name.find("..") != std::string::npos) return "the host of the URL has an empty label";
    std::string_view last = name;
    if (last.ends_with('.')) last.remove_suffix(1);
    last.remove_prefix(last.rfind('.') + 1);  // npos + 1 is 0
    if (is_numeric_label(last) && !is_address(AF_INET, name)) return "the host of the URL is half an IPv4 address";
    return {};
}

std::string_view parse_authority(std::string_view text, client_url& made) {
    if (text.find('@') != std::string_view::npos)
        return "the URL holds user information; send an Authorization field instead";
    std::string_view port;
    bool port_follows = false;
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == std::string_view::npos) return "the host of the URL is no IPv6 address";
        made.host = text.substr(1, close - 1);
        if (made.host.find('\0') != std::string::npos || !is_address(AF_INET6, made.host))
            return "the host of the URL is no IPv6 address";
        text.remove_prefix(close + 1);
        port_follows = text.starts_with(':');
        if (!text.empty() && !port_follows) return "the URL has something between address and port";
        if (port_follows) port = text.substr(1);
    } else {
        const std::size_t colon = text.find(':');
        made.host = text.substr(0, colon);
        std::transform(made.host.begin(), made.host.end(), made.host.begin(), lower_letter);
        if (const std::string_view wrong = judge_name(made.host); !wrong.empty()) return wrong;
        port_follows = colon != std::string_view::npos;
        if (port_follows) port = text.substr(colon + 1);
    }
    made.port = made.scheme == "https" ? 443 : 80;
    if (port.empty()) return {};  // RFC 3986 section 3.2.3: also behind a colon
    const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), made.port);
    if (code != std::errc{} || end != port.data() + port.size() || made.port == 0) return "the port of the URL is none";
    return {};
}

bool is_framing_field(std::string_view name) noexcept {
    constexpr std::string_view ours[] = {
        "host", "content-length",   "transfer-encoding", "connection", "keep-alive", "trailer",
        "te",   "proxy-connection", "upgrade",           "expect"};
    return std::any_of(std::begin(ours), std::end(ours),
                       [name](std::string_view our) { return equal_ignoring_case(name, our); });
}

// RFC 9110 section 8.6: with these an empty body is what everybody expects.
bool says_no_length(std::string_view method) noexcept {
    constexpr std::string_view plain[] = {"GET", "HEAD", "DELETE", "OPTIONS", "TRACE"};
    return std::find(std::begin(plain), std::end(plain), method) != std::end(plain);
}

}  // namespace

std::string client_url::authority() const {
    const bool bracketed = host.find(':') != std::string::npos;
    std::string made;
    if (bracketed) made.push_back('[');
    made.append(host);
    if (bracketed) made.push_back(']');
    if (port != (scheme == "https" ? 443 : 80)) made.append(":").append(std::to_string(port));
    return made;
}

std::string_view parse_client_url(std::string_view text, client_url& made) {
    if (text.size() > url_bytes_max) return "the URL is too long";
    for (const std::string_view scheme : {"http://", "https://"})
        if (text.size() >= scheme.size() && equal_ignoring_case(text.substr(0, scheme.size()), scheme)) {
            made.scheme = scheme.substr(0, scheme.size() - 3);
            text.remove_prefix(scheme.size());
            break;
        }
    if (made.scheme.empty()) return "the URL begins with neither http:// nor https://";
    text = text.substr(0, text.find('#'));
    const std::size_t authority_end = std::min(text.find_first_of("/?"), text.size());
    if (const std::string_view wrong = parse_authority(text.substr(0, authority_end), made); !wrong.empty())
        return wrong;
    text.remove_prefix(authority_end);
    made.target.clear();
    if (!text.starts_with('/')) made.target.push_back('/');
    made.target.append(text);
    const std::size_t path_end = std::min(made.target.find('?'), made.target.size());
    for (std::size_t i = 0; i < made.target.size(); ++i)
        if (!detail::is(made.target[i], detail::path_char) && (i < path_end || made.target[i] != '?'))
            return "the URL holds a character that has to be percent-encoded";
    if (!detail::escapes_are_whole(made.target)) return "a '%' of the URL has no two hexadecimal digits behind it";
    return {};
}

std::string_view make_request_head(const client_request& asked, const client_url& url, std::string& head) {
    if (asked.method.empty() || !detail::all(asked.method, detail::token_char)) return "the method is no token";
    if (asked.method == "CONNECT") return "CONNECT makes a tunnel, which this client is not";
    if (asked.upload && !asked.body.empty()) return "the request has both a body and an upload";
    if (asked.upload_bytes && !asked.upload) return "upload_bytes without an upload";
    const bool has_body = asked.upload || !asked.body.empty();
    if (asked.method == "TRACE" && has_body) return "a TRACE has no body";  // RFC 9110 section 9.3.8

    head.append(asked.method).append(" ").append(url.target).append(" HTTP/1.1\r\nHost: ").append(url.authority());
    head.append("\r\n");
    for (const auto& [name, value] : asked.headers) {
        if (name.empty() || !detail::all(name, detail::token_char)) return "the name of a field is no token";
        if (!detail::all(value, detail::value_char)) return "a field holds a line break or another control character";
        if (detail::trim_blanks(value) != value) return "a field's value begins or ends with a blank";
        if (is_framing_field(name)) return "a field that the client itself sends, or cannot keep to";
        head.append(name).append(": ").append(value).append("\r\n");
    }
    if (asked.upload && !asked.upload_bytes)
        head.append("Transfer-Encoding: chunked\r\n");
    else if (has_body || !says_no_length(asked.method))
        head.append("Content-Length: ")
            .append(std::to_string(asked.upload ? *asked.upload_bytes : asked.body.size()))
            .append("\r\n");
    if (asked.close) head.append("Connection: close\r\n");
    head.append("\r\n");
    return {};
}

bool is_idempotent(std::string_view method) noexcept {
    constexpr std::string_view those[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"};
    return std::find(std::begin(those), std::end(those), method) != std::end(those);
}

}  // namespace holdfast::net
