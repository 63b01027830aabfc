// SPDX-License-Identifier: Apache-2.0
// http_head.cpp - the meaning of a syntactically complete request head: target forms, host, framing, persistence.
//
// Source: RFC 9112 sections 3 (request line, Host), 6 (framing), 9.3 (persistence); RFC 9110 10.1.1 (Expect).
#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>

#include "characters.hpp"
#include "holdfast/net/http_parser.hpp"

namespace holdfast::net {

// What the fields that bear on framing and persistence said.
struct head_facts {
    std::optional<std::string_view> host, content_length, transfer_encoding, expect;
    bool close = false;
    bool keep_alive = false;
};

namespace {

using detail::all;
using detail::escapes_are_whole;

// Whether a token is this one, given in lower case, apart from case. Letters and '-' of a token differ from what the
// bit makes of any other token character.
bool is_name(std::string_view token, std::string_view lower_case) noexcept {
    for (std::size_t i = 0; i < lower_case.size(); ++i)
        if (static_cast<char>(token[i] | 0x20) != lower_case[i]) return false;
    return true;
}

bool is_port(std::string_view text) noexcept {
    unsigned value = 0;
    for (const char c : text) {
        if (!detail::is_digit(c)) return false;
        value = value * 10 + static_cast<unsigned>(c - '0');
        if (value > 65535) return false;
    }
    return true;
}

bool is_ipv6(std::string_view text) noexcept {
    char buffer[INET6_ADDRSTRLEN + 1] = {};
    if (text.empty() || text.size() >= sizeof buffer) return false;
    std::copy(text.begin(), text.end(), buffer);
    in6_addr address;
    return inet_pton(AF_INET6, buffer, &address) == 1;
}

// uri-host [":" port], not empty, no user information.
bool is_authority(std::string_view text) noexcept {
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == std::string_view::npos || !is_ipv6(text.substr(1, close - 1))) return false;
        const std::string_view rest = text.substr(close + 1);
        if (!rest.empty() && rest.front() != ':') return false;
        return is_port(rest.empty() ? rest : rest.substr(1));
    }
    const std::size_t end = detail::skip(text.data(), 0, text.size(), detail::host_char);
    if (end == 0 || !escapes_are_whole(text.substr(0, end))) return false;
    return end == text.size() || (text[end] == ':' && is_port(text.substr(end + 1)));
}

bool is_query(std::string_view text) noexcept {
    for (const char c : text)
        if (!detail::is(c, detail::path_char) && c != '?') return false;
    return true;
}

// Calls f with each member of a comma-separated list of tokens; false when a member is not a token.
template <class F>
bool for_each_token(std::string_view list, F&& f) {
    while (true) {
        const std::size_t comma = list.find(',');
        const std::string_view member = detail::trim_blanks(list.substr(0, comma));
        // RFC 9110 section 5.6.1.2: empty members are read over.
        if (!member.empty() && !all(member, detail::token_char)) return false;
        if (!member.empty()) f(member);
        if (comma == std::string_view::npos) return true;
        list.remove_prefix(comma + 1);
    }
}

}  // namespace

void request_parser::accept_path(std::string_view text, std::uint32_t offset) {
    const std::size_t mark = text.find('?');
    const auto path_size = static_cast<std::uint32_t>(std::min(mark, text.size()));
    message_.path_ = {offset, path_size};
    message_.query_ = {offset + path_size, 0};
    if (mark != std::string_view::npos)
        message_.query_ = {offset + path_size + 1, static_cast<std::uint32_t>(text.size() - mark - 1)};
}

bool request_parser::accept_absolute_target(std::string_view text) {
    const std::size_t colon = text.find("://");
    if (colon == std::string_view::npos) return deny(400, "malformed request target");
    const std::string_view scheme = text.substr(0, colon);
    if (!equal_ignoring_case(scheme, "http") && !equal_ignoring_case(scheme, "https"))
        return deny(400, "request target of a foreign scheme");
    const std::size_t begin = colon + 3;
    const std::size_t end = std::min(text.find_first_of("/?", begin), text.size());
    if (!is_authority(text.substr(begin, end - begin))) return deny(400, "malformed authority in the request target");
    message_.form_ = target_form::absolute;
    message_.host_ = {message_.target_.offset + static_cast<std::uint32_t>(begin),
                      static_cast<std::uint32_t>(end - begin)};
    accept_path(text.substr(end), message_.target_.offset + static_cast<std::uint32_t>(end));
    if (!all(message_.path(), detail::path_char) || !is_query(message_.query()))
        return deny(400, "malformed request target");
    if (message_.path_.size == 0) message_.path_ = {message_.host_.offset - 1, 1};  // the second '/' of "://"
    return true;
}

bool request_parser::accept_target() {
    const std::string_view text = message_.target();
    message_.host_ = {};
    message_.query_ = {};
    message_.path_ = message_.target_;
    if (!escapes_are_whole(text)) return deny(400, "malformed escape in the request target");
    if (message_.method_ == method::connect) {
        message_.form_ = target_form::authority;
        message_.host_ = message_.target_;
        if (!is_authority(text) || text.rfind(':') == std::string_view::npos)
            return deny(400, "malformed CONNECT target");
        return true;
    }
    if (text == "*") {
        message_.form_ = target_form::asterisk;
        // With a method we do not know the form may be right: that verdict is for later.
        return message_.method_ == method::options || !known_method_ || deny(400, "'*' is a target for OPTIONS alone");
    }
    if (text.front() != '/') return accept_absolute_target(text);
    message_.form_ = target_form::origin;
    accept_path(text, message_.target_.offset);
    return (all(message_.path(), detail::path_char) && is_query(message_.query())) ||
           deny(400, "malformed request target");
}

bool request_parser::accept_field(std::string_view name, std::string_view value, head_facts& facts) {
    const auto once = [&](std::optional<std::string_view>& place, std::string_view complaint) {
        if (place) return deny(400, complaint);
        place = value;
        return true;
    };
    switch (name.size()) {
        case 4:
            if (is_name(name, "host")) return once(facts.host, "more than one Host field");
            break;
        case 6:
            if (is_name(name, "expect")) return once(facts.expect, "more than one Expect field");
            break;
        case 10:
            if (is_name(name, "connection"))
                return for_each_token(value,
                                      [&](std::string_view option) {
                                          facts.close |= equal_ignoring_case(option, "close");
                                          facts.keep_alive |= equal_ignoring_case(option, "keep-alive");
                                      }) ||
                       deny(400, "malformed Connection field");
            break;
        case 14:
            if (is_name(name, "content-length"))
                return once(facts.content_length, "more than one Content-Length field");
            break;
        case 17:
            if (is_name(name, "transfer-encoding"))
                return once(facts.transfer_encoding, "more than one Transfer-Encoding field");
            break;
        default: break;
    }
    return true;
}

bool request_parser::accept_authority(std::string_view text) {
    if (authority_size_ != 0 && text == std::string_view(authority_.data(), authority_size_)) return true;
    if (!is_authority(text)) return false;
    if (text.size() <= authority_.size()) {
        std::ranges::copy(text, authority_.begin());
        authority_size_ = static_cast<std::uint8_t>(text.size());
    }
    return true;
}

bool request_parser::accept_host(const head_facts& facts) {
    if (!facts.host) return message_.minor_version_ == 0 || deny(400, "no Host field");
    if (!accept_authority(*facts.host)) return deny(400, "malformed Host field");
    if (message_.host_.size == 0)
        message_.host_ = {static_cast<std::uint32_t>(facts.host->data() - message_.base_),
                          static_cast<std::uint32_t>(facts.host->size())};
    if (message_.form_ != target_form::absolute && message_.form_ != target_form::authority) return true;
    // RFC 9112 section 3.2 has the client send both alike. One that does not may be talking past a proxy that routed
    // by the other of the two.
    return equal_ignoring_case(message_.host(), *facts.host) || deny(400, "Host contradicts the request target");
}

bool request_parser::accept_framing(const head_facts& facts) {
    body_end_ = position_;
    message_.body_ = {static_cast<std::uint32_t>(position_), 0};
    if (const auto& coding = facts.transfer_encoding) {
        if (message_.minor_version_ == 0) return deny(400, "Transfer-Encoding in HTTP/1.0");
        if (facts.content_length) return deny(400, "both Transfer-Encoding and Content-Length");
        if (!equal_ignoring_case(*coding, "chunked")) {
            int members = 0;
            std::string_view last;
            bool chunked_before = false;
            const bool list = for_each_token(*coding, [&](std::string_view member) {
                chunked_before |= equal_ignoring_case(last, "chunked");
                last = member;
                ++members;
            });
            const bool framed = list && members > 1 && !chunked_before && equal_ignoring_case(last, "chunked");
            return framed ? deny(501, "unknown transfer coding") : deny(400, "Transfer-Encoding other than chunked");
        }
        if (message_.method_ == method::connect) return deny(400, "content in a CONNECT request");
        chunks_.reset();
        message_.wire_bytes_ = 0;
        state_ = state::chunked_body;
        return true;
    }
    state_ = state::fixed_body;
    if (!facts.content_length) return true;
    const std::string_view digits = *facts.content_length;
    if (digits.empty() || !std::all_of(digits.begin(), digits.end(), detail::is_digit))
        return deny(400, "malformed Content-Length");
    // RFC 9110 section 9.3.6: it has none. What is in front of us may take what follows the head for the tunnel's.
    if (message_.method_ == method::connect && digits.find_first_not_of('0') != std::string_view::npos)
        return deny(400, "content in a CONNECT request");
    constexpr std::uint64_t most_in_pieces = std::uint64_t{1} << 62U;
    const std::uint64_t most = stops_at_body_ ? most_in_pieces : limits_.body_bytes_max;
    std::uint64_t length = 0;
    for (const char c : digits) {
        length = length * 10 + static_cast<std::uint64_t>(c - '0');
        if (length > most) return deny(413, "body too long");
    }
    message_.content_length_ = length;
    if (stops_at_body_) return true;  // body_end_ is the head's until somebody collects it
    body_end_ = position_ + static_cast<std::size_t>(length);
    message_.body_.size = static_cast<std::uint32_t>(length);
    return true;
}

// Order of the verdicts: what makes the head ambiguous first (400), then what we do not do (501, 417). accept_framing
// comes last because it sets the state.
bool request_parser::accept_head() {
    head_facts facts;
    for (const auto& field : message_.fields_)
        if (!accept_field(message_.at(field.name), message_.at(field.value), facts)) return false;
    if (!accept_host(facts)) return false;
    if (!known_method_) return deny(501, "unknown method");
    const bool http_1_1 = message_.minor_version_ == 1;
    message_.keep_alive_ = !facts.close && (http_1_1 || facts.keep_alive);
    if (!accept_framing(facts)) return false;
    message_.expects_continue_ = http_1_1 && facts.expect.has_value();
    if (message_.expects_continue_ && !equal_ignoring_case(*facts.expect, "100-continue"))
        return deny(417, "unknown expectation");
    if (http_1_1 && message_.form_ == target_form::origin && state_ == state::fixed_body) remember_fields(facts);
    return true;
}

// For take_known_fields().
void request_parser::remember_fields(const head_facts& facts) {
    constexpr std::size_t bytes_max = 1024;  // an unusual head costs no more than that to remember
    const std::size_t bytes = position_ - fields_begin_;
    if (facts.content_length || facts.expect || bytes > bytes_max) return;
    const auto begin = static_cast<std::uint32_t>(fields_begin_);
    known_.bytes.clear();  // nothing is known until all is there
    known_.fields = message_.fields_;
    for (auto& field : known_.fields) {
        field.name.offset -= begin;
        field.value.offset -= begin;
    }
    known_.host = {message_.host_.offset - begin, message_.host_.size};
    known_.keep_alive = message_.keep_alive_;
    known_.bytes.assign(message_.base_ + fields_begin_, message_.base_ + position_);
}

}  // namespace holdfast::net
