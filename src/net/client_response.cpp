// SPDX-License-Identifier: Apache-2.0
// client_response.cpp - looking into an answer. Its head has passed the reader: each line is whole, each name a token.
#include "characters.hpp"
#include "holdfast/net/client_message.hpp"

namespace holdfast::net {

namespace {

// Takes the next field off lines that each end with CRLF.
header_field take_client_field(std::string_view& lines) {
    const std::size_t end = lines.find("\r\n");
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end + 2);
    const std::size_t colon = line.find(':');
    return {line.substr(0, colon), detail::trim_blanks(line.substr(colon + 1))};
}

std::string_view behind_status_line(std::string_view head) {
    const std::size_t end = head.find("\r\n");
    return end == std::string_view::npos ? std::string_view{} : head.substr(end + 2);
}

std::optional<std::string_view> find_client_field(std::string_view lines, std::string_view name) {
    while (!lines.empty())
        if (const header_field field = take_client_field(lines); equal_ignoring_case(field.name, name))
            return field.value;
    return std::nullopt;
}

}  // namespace

std::string_view client_response::reason() const noexcept {
    constexpr std::size_t begin = 13;  // "HTTP/1.1 200 "
    const std::string_view head = head_;
    return head.empty() ? head : head.substr(begin, head.find("\r\n") - begin);
}

bool client_response::is_redirect() const noexcept {
    const bool moved = (status_ >= 301 && status_ <= 303) || status_ == 307 || status_ == 308;
    return moved && header("Location").has_value();
}

std::optional<std::string_view> client_response::header(std::string_view name) const noexcept {
    return find_client_field(behind_status_line(head_), name);
}

std::size_t client_response::header_count(std::string_view name) const noexcept {
    std::size_t count = 0;
    for (std::string_view lines = behind_status_line(head_); !lines.empty();)
        count += equal_ignoring_case(take_client_field(lines).name, name) ? 1 : 0;
    return count;
}

std::vector<header_field> client_response::headers() const {
    std::vector<header_field> all;
    for (std::string_view lines = behind_status_line(head_); !lines.empty();) all.push_back(take_client_field(lines));
    return all;
}

std::optional<std::string_view> client_response::trailer(std::string_view name) const noexcept {
    return find_client_field(trailers_, name);
}

std::string_view client_error_name(client_error error) noexcept {
    switch (error) {
        case client_error::none: return "none";
        case client_error::invalid_request: return "invalid_request";
        case client_error::overloaded: return "overloaded";
        case client_error::not_resolved: return "not_resolved";
        case client_error::not_connected: return "not_connected";
        case client_error::connect_timeout: return "connect_timeout";
        case client_error::not_trusted: return "not_trusted";
        case client_error::tls_failed: return "tls_failed";
        case client_error::first_byte_timeout: return "first_byte_timeout";
        case client_error::silence_timeout: return "silence_timeout";
        case client_error::whole_timeout: return "whole_timeout";
        case client_error::closed_unanswered: return "closed_unanswered";
        case client_error::truncated: return "truncated";
        case client_error::malformed: return "malformed";
        case client_error::head_too_large: return "head_too_large";
        case client_error::body_too_large: return "body_too_large";
        case client_error::upload_failed: return "upload_failed";
        case client_error::cancelled: return "cancelled";
        case client_error::client_ended: return "client_ended";
    }
    return "unknown";
}

}  // namespace holdfast::net
