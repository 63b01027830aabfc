// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/response.hpp"

#include <string>
#include <utility>

#include "characters.hpp"
#include "holdfast/error.hpp"
#include "holdfast/net/request.hpp"
#include "holdfast/net/websocket_handshake.hpp"
#include "piece_writer.hpp"
#include "server_core.hpp"

namespace holdfast::net {

namespace {

// A response object lives as long as its loop: one huge body must not stay for ever.
constexpr std::size_t kept_bytes_max = 256U << 10U;

bool server_owns(std::string_view name) noexcept {
    switch (name.size()) {
        case 4: return equal_ignoring_case(name, "date");
        case 10: return equal_ignoring_case(name, "connection");
        case 14: return equal_ignoring_case(name, "content-length");
        case 17: return equal_ignoring_case(name, "transfer-encoding");
        default: return false;
    }
}

// Length of the well-formed UTF-8 sequence text begins with; 0 when it begins with none.
std::size_t utf8_sequence(std::string_view text) noexcept {
    const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = at(0);
    const std::size_t size = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
    if (size == 0 || text.size() < size) return 0;
    for (std::size_t i = 1; i < size; ++i)
        if ((at(i) & 0xC0U) != 0x80U) return 0;
    // Overlong forms, surrogates and what lies above U+10FFFF show in the second byte.
    if ((lead == 0xE0 && at(1) < 0xA0) || (lead == 0xED && at(1) > 0x9F) || (lead == 0xF0 && at(1) < 0x90) ||
        (lead == 0xF4 && at(1) > 0x8F))
        return 0;
    return size;
}

// Throws where the field may not be there.
void append_field(std::string& to, std::string_view name, std::string_view value) {
    if (name.empty() || !detail::all(name, detail::token_char))
        throw error(errc::invalid_argument, "response header", "the name is not a token of RFC 9110; mend the name");
    if (detail::skip_value(value.data(), 0, value.size()) != value.size())
        throw error(errc::invalid_argument, std::string(name),
                    "the value holds a control character; encode it before it goes into a header");
    if (server_owns(name))
        throw error(errc::invalid_argument, std::string(name), "the server sets this field itself; leave it out");
    const std::size_t begin = to.size();
    to.resize(begin + name.size() + value.size() + 4);
    detail::piece_writer(to.data() + begin).put(name).put(": ").put(value).put("\r\n");
}

}  // namespace

response& response::status(int code) {
    if (code < 200 || code > 599)
        throw error(errc::invalid_argument, "status " + std::to_string(code), "not a final status; use 200 to 599");
    status_ = code;
    return *this;
}

prepared_header::prepared_header(std::string_view name, std::string_view value) { append_field(line_, name, value); }

response& response::header(std::string_view name, std::string_view value) {
    append_field(fields_, name, value);
    return *this;
}

response& response::body(std::string_view text) {
    body_.assign(text);
    file_.reset();
    return *this;
}

response& response::body(std::string&& text) noexcept {
    body_ = std::move(text);
    file_.reset();
    return *this;
}

response& response::problem(int code, std::string_view detail) {
    status(code);
    file_.reset();
    fields_.assign("Content-Type: application/problem+json\r\n");
    body_.assign(R"({"type":"about:blank","title":)");
    append_json_string(body_, reason_phrase(code));
    body_.append(",\"status\":").append(std::to_string(code)).append(",\"detail\":");
    append_json_string(body_, detail);
    body_.append("}\n");
    return *this;
}

channel response::defer(channel_options options) {
    if (loop_.core == nullptr)
        throw error(errc::invalid_argument, "defer", "only the response passed to a handler, while it runs, can wait");
    return loop_.core->begin_channel(channel_kind::answer, std::move(options));
}

channel response::stream(channel_options options) {
    if (loop_.core == nullptr)
        throw error(errc::invalid_argument, "stream",
                    "only the response passed to a handler, while it runs, can go on");
    return loop_.core->begin_channel(channel_kind::stream, std::move(options));
}

body_reader response::receive_body(body_options options) {
    if (loop_.core == nullptr)
        throw error(errc::invalid_argument, "receive_body",
                    "only the response passed to a handler, while it runs, can have the body handed over");
    return loop_.core->begin_body(std::move(options));
}

channel response::websocket(const request& asked, channel_options options, const websocket_options& chosen) {
    if (loop_.core == nullptr)
        throw error(errc::invalid_argument, "websocket",
                    "only the response passed to a handler, while it runs, can become a WebSocket");
    if (asked.body_follows()) {  // what followed the head would be taken for frames
        problem(400, "a request to become a WebSocket has no content");
        return {};
    }
    const websocket_upgrade judged = judge_websocket_upgrade(asked, chosen.protocols, chosen.permessage_deflate);
    if (judged.status == 101) return loop_.core->begin_websocket(asked, judged, std::move(options), chosen);
    refuse_websocket(*this, judged);
    return {};
}

void response::reset() noexcept {
    if (body_.capacity() > kept_bytes_max) std::string().swap(body_);
    body_.clear();
    fields_.clear();
    file_.reset();
    status_ = 200;
    route_ = 0;
    close_ = false;
}

void append_json_string(std::string& out, std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    out.push_back('"');
    while (true) {
        const std::size_t plain = detail::skip_plain_json(text.data(), 0, text.size());
        out.append(text.data(), plain);
        text.remove_prefix(plain);
        if (text.empty()) break;
        const std::size_t size = utf8_sequence(text);
        const char c = text.front();
        if (size == 0) {
            out.append("\xEF\xBF\xBD");
        } else if (c == '"' || c == '\\') {
            out.push_back('\\');
            out.push_back(c);
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
            out.append("\\u00");
            out.push_back(digits[static_cast<unsigned char>(c) >> 4U]);
            out.push_back(digits[static_cast<unsigned char>(c) & 15U]);
        } else {
            out.append(text.substr(0, size));
        }
        text.remove_prefix(size == 0 ? 1 : size);
    }
    out.push_back('"');
}

std::string_view reason_phrase(int status) noexcept {
    switch (status) {
        case 200: return "OK";
        case 201: return "Created";
        case 202: return "Accepted";
        case 204: return "No Content";
        case 206: return "Partial Content";
        case 301: return "Moved Permanently";
        case 302: return "Found";
        case 303: return "See Other";
        case 304: return "Not Modified";
        case 307: return "Temporary Redirect";
        case 308: return "Permanent Redirect";
        case 400: return "Bad Request";
        case 401: return "Unauthorized";
        case 403: return "Forbidden";
        case 404: return "Not Found";
        case 405: return "Method Not Allowed";
        case 406: return "Not Acceptable";
        case 408: return "Request Timeout";
        case 409: return "Conflict";
        case 410: return "Gone";
        case 411: return "Length Required";
        case 412: return "Precondition Failed";
        case 413: return "Content Too Large";
        case 414: return "URI Too Long";
        case 415: return "Unsupported Media Type";
        case 416: return "Range Not Satisfiable";
        case 417: return "Expectation Failed";
        case 421: return "Misdirected Request";
        case 422: return "Unprocessable Content";
        case 426: return "Upgrade Required";
        case 428: return "Precondition Required";
        case 429: return "Too Many Requests";
        case 431: return "Request Header Fields Too Large";
        case 500: return "Internal Server Error";
        case 501: return "Not Implemented";
        case 502: return "Bad Gateway";
        case 503: return "Service Unavailable";
        case 504: return "Gateway Timeout";
        case 505: return "HTTP Version Not Supported";
        case 507: return "Insufficient Storage";
        default: return {};
    }
}

}  // namespace holdfast::net
