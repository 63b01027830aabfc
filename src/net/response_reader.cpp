// SPDX-License-Identifier: Apache-2.0
#include "response_reader.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "characters.hpp"
#include "holdfast/net/request.hpp"

namespace holdfast::net {

namespace {

constexpr std::string_view status_line_begin = "HTTP/1.";

// What the fields that bear on a response's end and on the connection's say.
struct response_framing {
    std::optional<std::uint64_t> length;
    bool chunked = false;
    bool close = false;
    bool keep_alive = false;
};

bool read_length(std::string_view value, response_framing& says) noexcept {
    std::uint64_t length = 0;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (value.empty() || code != std::errc{} || end != value.data() + value.size() || says.length) return false;
    says.length = length;
    return true;
}

// A list of tokens; empty members are read over (RFC 9110 section 5.6.1.2).
bool read_connection(std::string_view value, response_framing& says) noexcept {
    while (true) {
        const std::size_t comma = value.find(',');
        const std::string_view option = detail::trim_blanks(value.substr(0, comma));
        if (!detail::all(option, detail::token_char)) return false;
        says.close |= equal_ignoring_case(option, "close");
        says.keep_alive |= equal_ignoring_case(option, "keep-alive");
        if (comma == std::string_view::npos) return true;
        value.remove_prefix(comma + 1);
    }
}

// Returns: what is wrong with the field; nothing where nothing is.
std::string_view read_framing_field(std::string_view name, std::string_view value, response_framing& says) noexcept {
    switch (name.size()) {
        case 10:
            if (equal_ignoring_case(name, "connection") && !read_connection(value, says)) return "malformed Connection";
            return {};
        case 14:
            if (equal_ignoring_case(name, "content-length") && !read_length(value, says))
                return "Content-Length that is no number, or comes twice";
            return {};
        case 17:
            if (!equal_ignoring_case(name, "transfer-encoding")) return {};
            if (says.chunked || !equal_ignoring_case(value, "chunked")) return "a transfer coding other than chunked";
            says.chunked = true;
            return {};
        default: return {};
    }
}

// A bare CR or LF, or a NUL, in bytes[from, end): who waits for the end of such a head waits in vain. A CR at the end
// may still be followed by its LF.
bool holds_stray_control(std::string_view bytes, std::size_t from, std::size_t end) noexcept {
    for (std::size_t i = from; i < end; ++i) {
        const bool behind_return = i > 0 && bytes[i - 1] == '\r';
        if (bytes[i] == '\0' || (bytes[i] == '\n') != behind_return) return true;
    }
    return false;
}

}  // namespace

message_limits response_reader::generous() noexcept {
    message_limits limits;
    limits.header_bytes_max = std::size_t{64} << 10U;
    limits.headers_max = 1000;
    limits.body_bytes_max = std::size_t{1} << 30U;
    return limits;
}

response_reader::response_reader(const message_limits& limits) : limits_(limits), chunks_(limits) {}

response_reader::status response_reader::refuse(response_fault fault, std::string_view reason) noexcept {
    fault_ = fault;
    reason_ = reason;
    return status::malformed;
}

void response_reader::forget_message() noexcept {
    scanned_ = body_begin_ = body_end_ = read_ = 0;
    left_ = body_bytes_ = 0;
    code_ = 0;
    framing_ = framing::fixed;
    complete_ = closes_ = false;
}

void response_reader::limit_body(std::size_t bytes) noexcept {
    limits_.body_bytes_max = bytes;
    chunks_ = chunked_decoder(limits_);
}

void response_reader::drop_body() {
    const std::size_t bytes = body_end_ - body_begin_;
    buffer_.erase(body_begin_, bytes);
    body_end_ -= bytes;
    read_ -= bytes;
}

void response_reader::drop() {
    buffer_.erase(0, read_);
    forget_message();
    interim_ = 0;
}

void response_reader::clear() {
    buffer_.clear();
    forget_message();
    interim_ = 0;
    fault_ = response_fault::none;
    reason_ = {};
}

std::string_view response_reader::trailers() const noexcept {
    if (framing_ != framing::chunked || !complete_) return {};
    const std::size_t bytes = chunks_.trailer_bytes();
    return {buffer_.data() + read_ - bytes, bytes - 2};  // without the empty line
}

response_reader::status response_reader::next(bool to_head, bool ended) {
    if (fault_ != response_fault::none) return status::malformed;
    if (complete_) return status::complete;
    while (body_begin_ == 0) {
        const status found = find_head();
        if (found != status::complete) return found;
        if (!read_head(to_head)) return status::malformed;
        if (code_ >= 200) break;
        if (++interim_ > interim_max) return refuse(response_fault::malformed, "interim responses without end");
        buffer_.erase(0, body_begin_);
        forget_message();
    }
    const status now = read_body(ended);
    complete_ = now == status::complete;
    return now;
}

response_reader::status response_reader::find_head() {
    const std::size_t begun = std::min(buffer_.size(), status_line_begin.size());
    if (buffer_.compare(0, begun, status_line_begin, 0, begun) != 0)
        return refuse(response_fault::malformed, "not an answer in HTTP/1");
    const std::size_t found = buffer_.find("\r\n\r\n", scanned_);
    if (found != std::string::npos && found + 4 <= limits_.header_bytes_max) {
        body_begin_ = found + 4;
        return status::complete;
    }
    if (holds_stray_control(buffer_, scanned_, std::min(buffer_.size(), limits_.header_bytes_max)))
        return refuse(response_fault::malformed, "bare CR or LF, or NUL, in the head");
    // Where the empty line has not come by now the head is longer than this.
    if (buffer_.size() >= limits_.header_bytes_max) return refuse(response_fault::head_too_large, "head too long");
    scanned_ = buffer_.size() > 3 ? buffer_.size() - 3 : 0;
    return status::need_more;
}

// Where the value that begins here ends. A folded one is made one line on the way, in place: each fold becomes as many
// spaces as it was long, so the head stays as long as it came. Source: RFC 9112 section 5.2.
std::size_t response_reader::unfold_value(std::size_t from, std::size_t end) noexcept {
    char* const data = buffer_.data();
    std::size_t at = detail::skip_value(data, from, end);
    while (data[at] == '\r' && data[at + 1] == '\n' && detail::is_blank(data[at + 2])) {
        data[at] = data[at + 1] = ' ';
        for (at += 2; detail::is_blank(data[at]); ++at) data[at] = ' ';
        at = detail::skip_value(data, at, end);
    }
    return at;
}

// The head is buffer_[0, body_begin_). All of it is judged in one pass.
bool response_reader::read_head(bool to_head) {
    const auto malformed = [this](std::string_view why) {
        refuse(response_fault::malformed, why);
        return false;
    };
    const char* const data = buffer_.data();
    const std::size_t end = body_begin_ - 2;  // the last line ends here, with its CRLF
    const auto ends_line = [&](std::size_t at) { return data[at] == '\r' && data[at + 1] == '\n'; };
    constexpr std::size_t reason_begin = 13;  // "HTTP/1.1 200 "
    if (end < reason_begin + 2 || (data[7] != '0' && data[7] != '1') || data[8] != ' ' || data[12] != ' ')
        return malformed("malformed status line");
    for (std::size_t i = 9; i < 12; ++i) {
        if (!detail::is_digit(data[i])) return malformed("malformed status line");
        code_ = code_ * 10 + (data[i] - '0');
    }
    if (code_ < 100 || code_ > 599) return malformed("a status that is none");
    if (code_ == 101) return malformed("another protocol, which nobody asked for");
    std::size_t at = detail::skip_value(data, reason_begin, end);
    if (!ends_line(at)) return malformed("malformed status line");

    response_framing says;
    std::size_t fields = 0;
    for (at += 2; at < end; at += 2) {
        const std::size_t colon = detail::skip(data, at, end, detail::token_char);
        if (colon == at || data[colon] != ':') return malformed("malformed header field");
        const std::string_view name(data + at, colon - at);
        at = unfold_value(colon + 1, end);
        if (!ends_line(at)) return malformed("control character in a header field");
        const std::string_view value = detail::trim_blanks({data + colon + 1, at - colon - 1});
        if (const std::string_view wrong = read_framing_field(name, value, says); !wrong.empty())
            return malformed(wrong);
        if (++fields > limits_.headers_max) {
            refuse(response_fault::head_too_large, "more header fields than the limit");
            return false;
        }
    }

    const bool is_1_0 = data[7] == '0';
    if (says.chunked && is_1_0) return malformed("a transfer coding in HTTP/1.0");
    if (says.chunked && says.length) return malformed("both a transfer coding and a length");
    // RFC 9112 section 6.1 lets a HEAD and a 304 say what the body would have been, and these not.
    if ((code_ < 200 || code_ == 204) && (says.chunked || says.length.value_or(0) != 0))
        return malformed("a body where there can be none");
    closes_ = says.close || (is_1_0 && !says.keep_alive);
    body_end_ = read_ = body_begin_;
    if (to_head || code_ < 200 || code_ == 204 || code_ == 304) {
        // Allowed behind a 304, but so rare that a body may follow: the next response does not depend on it.
        closes_ |= says.chunked && !to_head;
    } else if (says.chunked) {
        framing_ = framing::chunked;
        chunks_.reset();
    } else if (says.length) {
        left_ = *says.length;
        if (left_ > limits_.body_bytes_max) {
            refuse(response_fault::body_too_large, "Content-Length beyond the limit");
            return false;
        }
    } else {
        framing_ = framing::until_end;
        closes_ = true;
    }
    return true;
}

response_reader::status response_reader::read_body(bool ended) {
    if (framing_ == framing::chunked) return read_chunks();
    const std::size_t come = buffer_.size() - body_end_;
    if (framing_ == framing::fixed) {
        const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(left_, come));
        left_ -= taken;
        body_end_ = read_ = body_end_ + taken;
        return left_ == 0 ? status::complete : status::need_more;
    }
    body_bytes_ += come;
    if (body_bytes_ > limits_.body_bytes_max) return refuse(response_fault::body_too_large, "body beyond the limit");
    body_end_ = read_ = buffer_.size();
    return ended ? status::complete : status::need_more;
}

response_reader::status response_reader::read_chunks() {
    switch (chunks_.decode(buffer_, read_, body_end_)) {
        case chunked_decoder::status::complete: return status::complete;
        case chunked_decoder::status::refused:
            return refuse(chunks_.refusal_status() == 413 ? response_fault::body_too_large : response_fault::malformed,
                          chunks_.refusal_reason());
        default: break;
    }
    // Everything has been read. Of it the data is kept, and what there is of trailers.
    const std::size_t trailing = chunks_.trailer_bytes();
    buffer_.erase(body_end_, read_ - trailing - body_end_);
    read_ = body_end_ + trailing;
    return status::need_more;
}

}  // namespace holdfast::net
