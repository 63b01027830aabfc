// SPDX-License-Identifier: Apache-2.0
#include "response_reader.hpp"

#include <algorithm>
#include <charconv>

#include "characters.hpp"
#include "holdfast/net/request.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t body_bytes_max = std::size_t{1} << 30U;

message_limits generous() {
    message_limits limits;
    limits.body_bytes_max = body_bytes_max;
    return limits;
}

}  // namespace

response_reader::response_reader() : chunks_(generous()) {}

void response_reader::drop() {
    // A body that ends with the connection leaves nothing behind it; a chunked one ends where decoding stopped.
    buffer_.erase(0, framing_ == framing::chunked ? read_ : body_end_);
    scanned_ = body_begin_ = body_end_ = read_ = 0;
    framing_ = framing::unknown;
    code_ = 0;
    closes_ = false;
}

void response_reader::clear() {
    buffer_.clear();
    body_end_ = read_ = 0;
    framing_ = framing::unknown;
    drop();
}

bool response_reader::read_field(std::string_view name, std::string_view value) {
    if (equal_ignoring_case(name, "content-length")) {
        std::size_t length = 0;
        const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), length);
        if (code != std::errc{} || end != value.data() + value.size() || length > body_bytes_max) return false;
        if (framing_ == framing::fixed || framing_ == framing::chunked) return false;
        framing_ = framing::fixed;
        body_end_ = length;
    } else if (equal_ignoring_case(name, "transfer-encoding")) {
        if (framing_ != framing::until_end || !equal_ignoring_case(value, "chunked")) return false;
        framing_ = framing::chunked;
    } else if (equal_ignoring_case(name, "connection")) {
        closes_ |= equal_ignoring_case(value, "close");
    }
    return true;
}

// The head is buffer_[0, body_begin_).
bool response_reader::read_head(bool to_head) {
    std::string_view rest(buffer_.data(), body_begin_ - 2);  // each line with its CRLF, without the empty one
    const std::size_t line = rest.find("\r\n");
    const std::string_view first = rest.substr(0, line);
    if (first.size() < 13 || !first.starts_with("HTTP/1.") || first[8] != ' ' || first[12] != ' ') return false;
    code_ = 0;
    for (std::size_t i = 9; i < 12; ++i) {
        if (!detail::is_digit(first[i])) return false;
        code_ = code_ * 10 + (first[i] - '0');
    }
    framing_ = framing::until_end;
    body_end_ = 0;
    for (rest.remove_prefix(line + 2); !rest.empty();) {
        const std::size_t end = rest.find("\r\n");
        const std::string_view field = rest.substr(0, end);
        const std::size_t colon = field.find(':');
        if (colon == std::string_view::npos || colon == 0 || !detail::all(field.substr(0, colon), detail::token_char))
            return false;
        if (!read_field(field.substr(0, colon), detail::trim_blanks(field.substr(colon + 1)))) return false;
        rest.remove_prefix(end + 2);
    }
    if (to_head || code_ < 200 || code_ == 204 || code_ == 304) {
        framing_ = framing::fixed;
        body_end_ = 0;
    }
    body_end_ += body_begin_;
    read_ = body_begin_;
    chunks_.reset();
    closes_ |= framing_ == framing::until_end;
    return true;
}

response_reader::status response_reader::next(bool to_head, bool ended) {
    while (true) {
        if (body_begin_ == 0) {
            const std::size_t found = buffer_.find("\r\n\r\n", scanned_);
            if (found == std::string::npos) {
                scanned_ = buffer_.size() > 3 ? buffer_.size() - 3 : 0;
                return buffer_.size() > (std::size_t{64} << 10U) ? status::malformed : status::need_more;
            }
            body_begin_ = found + 4;
            if (!read_head(to_head)) return status::malformed;
        }
        if (framing_ == framing::until_end) {
            body_end_ = buffer_.size();
            return ended ? status::complete : status::need_more;
        }
        if (framing_ == framing::chunked) {
            switch (chunks_.decode(buffer_, read_, body_end_)) {
                case chunked_decoder::status::complete: return status::complete;
                case chunked_decoder::status::refused: return status::malformed;
                default:
                    buffer_.resize(body_end_);
                    read_ = body_end_;
                    return status::need_more;
            }
        }
        if (buffer_.size() < body_end_) return status::need_more;
        if (code_ >= 200) return status::complete;
        drop();
    }
}

}  // namespace holdfast::net
