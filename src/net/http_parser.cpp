// SPDX-License-Identifier: Apache-2.0
// http_parser.cpp - the syntax: from bytes to slices. What the slices mean is judged in http_head.cpp.
#include "holdfast/net/http_parser.hpp"

#include <algorithm>

#include "characters.hpp"
#include "holdfast/detail/same_secret.hpp"

namespace holdfast::net {

namespace {

using detail::is;
using detail::token_char;

// Longer than any method we know, so that a longer one is unknown before it ends.
constexpr std::size_t method_bytes_max = 32;

std::optional<method> known_method(std::string_view text) noexcept {
    for (int m = 0; m <= static_cast<int>(method::connect); ++m)
        if (text == method_name(static_cast<method>(m))) return static_cast<method>(m);
    return std::nullopt;
}

std::size_t skip(std::span<const char> bytes, std::size_t from, unsigned classes) noexcept {
    return detail::skip(bytes.data(), from, bytes.size(), classes);
}

}  // namespace

request_parser::request_parser(const message_limits& limits) : limits_(limits), chunks_(limits) {
    // Slices are 32-bit: no limit may let a message outgrow them.
    constexpr std::size_t ceiling = 1U << 30U;
    limits_.header_bytes_max = std::min(limits_.header_bytes_max, ceiling);
    limits_.body_bytes_max = std::min(limits_.body_bytes_max, ceiling);
    message_.fields_.reserve(16);
}

void request_parser::reset() noexcept {
    position_ = mark_ = value_end_ = body_end_ = kept_ = 0;
    refusal_status_ = 0;
    refusal_reason_ = {};
    state_ = state::start;
    message_.method_ = method::get;
    message_.fields_.clear();
    message_.base_ = "";
    message_.host_ = message_.body_ = {};
    message_.body_follows_ = false;
    message_.content_length_.reset();
}

request_parser::step request_parser::refuse(int status, std::string_view reason) noexcept {
    refusal_status_ = status;
    refusal_reason_ = reason;
    state_ = state::refused;
    return step::stop;
}

parse_status request_parser::parse(std::span<char> bytes) {
    message_.base_ = bytes.data();
    kept_ = bytes.size();
    step next = step::again;
    if (state_ < state::fixed_body) {
        next = parse_head(bytes);
        const bool body = state_ == state::chunked_body || message_.content_length_.value_or(0) != 0;
        if (next == step::again && stops_at_body_ && body) {
            message_.body_follows_ = true;
            message_.wire_bytes_ = position_;
            return parse_status::complete;
        }
    }
    if (next == step::again && state_ == state::fixed_body) next = in_fixed_body(bytes);
    if (next == step::again && state_ == state::chunked_body) next = in_chunked_body(bytes);
    if (state_ == state::refused) return parse_status::refused;
    return state_ == state::done ? parse_status::complete : parse_status::need_more;
}

parse_status request_parser::collect_body(std::span<char> bytes) {
    message_.base_ = bytes.data();
    message_.body_follows_ = false;
    message_.wire_bytes_ = 0;
    if (const auto length = message_.content_length_) {
        if (*length > limits_.body_bytes_max) {
            static_cast<void>(refuse(413, "body too long"));
            return parse_status::refused;
        }
        body_end_ = position_ + static_cast<std::size_t>(*length);
        message_.body_.size = static_cast<std::uint32_t>(*length);
    }
    return parse(bytes);
}

request_parser::step request_parser::parse_head(std::span<const char> bytes) {
    // Nothing past the limit is looked at, so the verdict falls on the same byte however the bytes come.
    const auto head = bytes.first(std::min(bytes.size(), limits_.header_bytes_max));
    step next = step::again;
    while (next == step::again && state_ < state::fixed_body) {
        if (position_ == head.size()) {
            if (position_ < limits_.header_bytes_max) return step::more;
            return state_ == state::target ? refuse(414, "request target too long")
                                           : refuse(431, "request head too long");
        }
        switch (state_) {
            case state::start:
            case state::empty_line_feed: next = in_start(head); break;
            case state::method: next = in_method(head); break;
            case state::target: next = in_target(head); break;
            case state::version: next = in_version(head); break;
            case state::field_start: next = in_field_start(head); break;
            case state::name: next = in_name(head); break;
            case state::value_start:
            case state::value: next = in_value(head); break;
            default: next = in_line_feed(head); break;
        }
    }
    return next;
}

// Takes a whole request line of the shape that most have at once. Any other is left untouched for the state machine: so
// this can change the cost of a verdict, never the verdict.
bool request_parser::take_whole_request_line(std::span<const char> head) {
    constexpr std::string_view begin = "GET /", end = " HTTP/1.1\r\n";
    const std::string_view text(head.data(), head.size());
    if (!text.starts_with(begin)) return false;
    constexpr auto offset = static_cast<std::uint32_t>(begin.size() - 1);
    const std::size_t path_end = detail::skip_path(head.data(), begin.size(), head.size());
    std::size_t target_end = path_end;
    while (target_end < head.size() && head[target_end] == '?')
        target_end = detail::skip_path(head.data(), target_end + 1, head.size());
    const std::string_view target = text.substr(offset, target_end - offset);
    if (target.size() > limits_.target_bytes_max || !text.substr(target_end).starts_with(end) ||
        !detail::escapes_are_whole(target))
        return false;
    message_.method_ = method::get;
    known_method_ = true;
    message_.form_ = target_form::origin;
    message_.target_ = {offset, static_cast<std::uint32_t>(target.size())};
    message_.host_ = {};
    const auto path_size = static_cast<std::uint32_t>(path_end - offset);
    const std::uint32_t mark_size = path_end == target_end ? 0 : 1;  // of the '?'
    message_.path_ = {offset, path_size};
    message_.query_ = {offset + path_size + mark_size, static_cast<std::uint32_t>(target_end - path_end) - mark_size};
    message_.minor_version_ = 1;
    fields_begin_ = mark_ = position_ = target_end + end.size();
    state_ = state::field_start;
    return true;
}

// Takes the whole rest of a head whose fields are those of the last one (I5): most clients repeat themselves. What is
// known frames no body and expects nothing, and the request line is one that take_whole_request_line() has taken; so
// nothing else is left to be judged. Another connection's fields may be secret: how far these are like them must not
// show.
void request_parser::take_known_fields(std::span<const char> head) {
    const std::string_view known(known_.bytes.data(), known_.bytes.size());
    const std::string_view fields = std::string_view(head.data(), head.size()).substr(position_, known.size());
    if (known.empty() || !holdfast::detail::is_same_secret(fields, known)) return;
    const auto begin = static_cast<std::uint32_t>(position_);
    message_.fields_ = known_.fields;
    for (auto& field : message_.fields_) {
        field.name.offset += begin;
        field.value.offset += begin;
    }
    message_.host_ = {known_.host.offset + begin, known_.host.size};
    message_.keep_alive_ = known_.keep_alive;
    message_.expects_continue_ = false;
    position_ += known.size();
    message_.body_ = {static_cast<std::uint32_t>(position_), 0};
    body_end_ = position_;
    state_ = state::fixed_body;
}

// RFC 9112 section 2.2: an empty line before the request line is ignored. One; more is not a client we know.
request_parser::step request_parser::in_start(std::span<const char> head) {
    const char c = head[position_];
    if (state_ == state::empty_line_feed) {
        if (c != '\n') return refuse(400, "bare CR before the request line");
        mark_ = ++position_;
        state_ = state::method;
    } else if (c == '\r') {
        ++position_;
        state_ = state::empty_line_feed;
    } else if (take_whole_request_line(head)) {
        take_known_fields(head);
    } else {
        state_ = state::method;
    }
    return step::again;
}

request_parser::step request_parser::in_method(std::span<const char> head) {
    const std::size_t longest = std::min(head.size(), mark_ + method_bytes_max + 1);
    position_ = skip(head.first(longest), position_, token_char);
    if (position_ - mark_ > method_bytes_max) return refuse(501, "unknown method");
    if (position_ == head.size()) return step::again;
    if (head[position_] != ' ' || position_ == mark_) return refuse(400, "malformed request line");
    // An unknown method is answered once the rest of the head proved well-formed: 400 outranks 501.
    const auto found = known_method({head.data() + mark_, position_ - mark_});
    known_method_ = found.has_value();
    message_.method_ = found.value_or(method::get);
    mark_ = ++position_;
    state_ = state::target;
    return step::again;
}

request_parser::step request_parser::in_target(std::span<const char> head) {
    const std::size_t longest = std::min(head.size(), mark_ + limits_.target_bytes_max + 1);
    position_ = skip(head.first(longest), position_, detail::target_char);
    if (position_ - mark_ > limits_.target_bytes_max) return refuse(414, "request target too long");
    if (position_ == head.size()) return step::again;
    if (head[position_] != ' ' || position_ == mark_) return refuse(400, "malformed request target");
    message_.target_ = {static_cast<std::uint32_t>(mark_), static_cast<std::uint32_t>(position_ - mark_)};
    if (!accept_target()) return step::stop;
    mark_ = ++position_;
    state_ = state::version;
    return step::again;
}

request_parser::step request_parser::in_version(std::span<const char> head) {
    constexpr std::string_view form = "HTTP/1.1\r";  // digits at 5 and 7
    for (; position_ < head.size(); ++position_) {
        const std::size_t at = position_ - mark_;
        const char c = head[position_];
        const bool digit = at == 5 || at == 7;
        if (digit ? !detail::is_digit(c) : c != form[at]) return refuse(400, "malformed HTTP version");
        if (digit) version_digits_[at == 7] = static_cast<std::uint8_t>(c - '0');
        if (at + 1 == form.size()) {
            ++position_;
            state_ = state::request_line_feed;
            return step::again;
        }
    }
    return step::again;
}

request_parser::step request_parser::in_line_feed(std::span<const char> head) {
    if (head[position_] != '\n') return refuse(400, "bare CR in the head");
    ++position_;
    if (state_ == state::head_line_feed) return accept_head() ? step::again : step::stop;
    if (state_ == state::request_line_feed) {
        if (version_digits_[0] != 1 || version_digits_[1] > 1)
            return refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
        message_.minor_version_ = version_digits_[1];
        fields_begin_ = position_;
    }
    mark_ = position_;
    state_ = state::field_start;
    return step::again;
}

// Takes whole, well-formed field lines at once. The first line that is not is left untouched for the state machine,
// which then waits or refuses: so this can change the cost of a verdict, never the verdict. Tried once a line.
void request_parser::take_whole_fields(std::span<const char> head) {
    const char* const data = head.data();
    const std::size_t end = head.size();
    while (message_.fields_.size() < limits_.headers_max) {
        const std::size_t name_end = detail::skip_token(data, position_, end);
        if (name_end == position_ || name_end == end || data[name_end] != ':') break;
        std::size_t value = name_end + 1;
        while (value < end && detail::is_blank(data[value])) ++value;
        const std::size_t line_end = detail::skip_value(data, value, end);
        if (end - line_end < 2 || data[line_end] != '\r' || data[line_end + 1] != '\n') break;
        std::size_t value_end = line_end;
        while (value_end > value && detail::is_blank(data[value_end - 1])) --value_end;
        message_.fields_.push_back(
            {{static_cast<std::uint32_t>(position_), static_cast<std::uint32_t>(name_end - position_)},
             {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value_end - value)}});
        position_ = line_end + 2;
    }
    mark_ = position_;
}

request_parser::step request_parser::in_field_start(std::span<const char> head) {
    take_whole_fields(head);
    if (position_ == head.size()) return step::again;
    if (head[position_] == '\r') {
        ++position_;
        state_ = state::head_line_feed;
        return step::again;
    }
    if (message_.fields_.size() >= limits_.headers_max) return refuse(431, "too many header fields");
    if (detail::is_blank(head[position_])) return refuse(400, "folded header line");
    state_ = state::name;
    return step::again;
}

request_parser::step request_parser::in_name(std::span<const char> head) {
    position_ = skip(head, position_, token_char);
    if (position_ == head.size()) return step::again;
    if (head[position_] != ':' || position_ == mark_) return refuse(400, "malformed header field name");
    message_.fields_.push_back(
        {{static_cast<std::uint32_t>(mark_), static_cast<std::uint32_t>(position_ - mark_)}, {}});
    ++position_;
    state_ = state::value_start;
    return step::again;
}

request_parser::step request_parser::in_value(std::span<const char> head) {
    if (state_ == state::value_start) {
        while (position_ < head.size() && detail::is_blank(head[position_])) ++position_;
        if (position_ == head.size()) return step::again;
        mark_ = position_;
        state_ = state::value;
    }
    position_ = detail::skip_value(head.data(), position_, head.size());
    if (position_ == head.size()) return step::again;
    if (head[position_] != '\r') return refuse(400, "control character in a header field");
    value_end_ = position_;
    while (value_end_ > mark_ && detail::is_blank(head[value_end_ - 1])) --value_end_;
    message_.fields_.back().value = {static_cast<std::uint32_t>(mark_), static_cast<std::uint32_t>(value_end_ - mark_)};
    ++position_;
    state_ = state::value_line_feed;
    return step::again;
}

request_parser::step request_parser::in_fixed_body(std::span<char> bytes) {
    if (bytes.size() < body_end_) return step::more;
    position_ = body_end_;
    message_.wire_bytes_ = position_;
    state_ = state::done;
    return step::stop;
}

request_parser::step request_parser::in_chunked_body(std::span<char> bytes) {
    const auto status = chunks_.decode(bytes, position_, body_end_);
    message_.wire_bytes_ += position_;  // squeezed framing is added below, before it vanishes
    if (status == chunked_decoder::status::refused) return refuse(chunks_.refusal_status(), chunks_.refusal_reason());
    message_.body_.size = static_cast<std::uint32_t>(body_end_ - message_.body_.offset);
    if (status == chunked_decoder::status::need_more) {
        message_.wire_bytes_ -= body_end_;  // these bytes stay and are counted with the next call's position
        position_ = kept_ = body_end_;
        return step::more;
    }
    state_ = state::done;
    return step::stop;
}

}  // namespace holdfast::net
