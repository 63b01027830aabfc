// SPDX-License-Identifier: Apache-2.0
// response.hpp - what a handler answers.
//
// The server adds Date, Content-Length and Connection itself, and leaves the body out where HTTP forbids one (HEAD,
// 204, 304), so a handler answers HEAD as it answers GET.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::net {

/// One response in the making. Begins as 200 without fields or body. Reused from request to request by its loop.
///
/// Threads: one at a time.
class response {
 public:
    /// Sets the status code. Throws: error(invalid_argument) outside 200..599 (interim replies are the server's).
    response& status(int code);
    [[nodiscard]] int status() const noexcept { return status_; }

    /// Adds a header field; the same name twice makes two fields.
    /// Throws: error(invalid_argument) for a name that is not a token, a value with a control character (CR and LF
    /// would let a value forge fields), and the fields the server owns: Content-Length, Transfer-Encoding, Connection,
    /// Date.
    response& header(std::string_view name, std::string_view value);

    /// Replaces the body by a copy.
    response& body(std::string_view text);
    response& body(const char* text) { return body(std::string_view(text)); }
    /// Replaces the body by `text`, without a copy.
    response& body(std::string&& text) noexcept;
    /// The body itself, to append to. Keeps its memory from one response of the loop to the next.
    [[nodiscard]] std::string& body_buffer() noexcept { return body_; }
    [[nodiscard]] const std::string& body() const noexcept { return body_; }

    /// Makes this an RFC 9457 problem: status, Content-Type application/problem+json, and a body naming status, title
    /// and `detail`. Drops fields and body set before.
    response& problem(int code, std::string_view detail);

    /// Closes the connection after this response.
    response& close() noexcept { return close_ = true, *this; }
    [[nodiscard]] bool closes() const noexcept { return close_; }

    /// A number of the caller's that response_event hands back, so that routes can be counted apart.
    response& route(int label) noexcept { return route_ = label, *this; }
    [[nodiscard]] int route() const noexcept { return route_; }

    /// The header fields so far, in wire form.
    [[nodiscard]] std::string_view fields() const noexcept { return fields_; }

    /// Back to a bare 200; keeps its memory, up to a bound.
    void reset() noexcept;

 private:
    std::string fields_;  // "Name: value\r\n" each
    std::string body_;
    int status_ = 200;
    int route_ = 0;
    bool close_ = false;
};

/// The reason phrase of a status code; empty for one without a registered phrase.
[[nodiscard]] std::string_view reason_phrase(int status) noexcept;

/// Appends `text` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace holdfast::net
