// SPDX-License-Identifier: Apache-2.0
// request.hpp - a parsed HTTP request, as a view over the bytes it came in.
//
// Everything is a slice of the connection's buffer: nothing is copied, and every view dies when the handler returns.
// What is here has passed the whole grammar (http_parser.hpp): the target is percent-encoded correctly, field names
// are tokens, values hold no control characters, the framing is unambiguous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace holdfast::net {

struct peer;
class request_copy;

/// The methods this server knows; a request with any other is answered 501 before a handler sees it.
enum class method : std::uint8_t { get, head, post, put, delete_, options, patch, trace, connect };

/// The method as it stands in a request line, "GET". Methods are case-sensitive.
[[nodiscard]] std::string_view method_name(method m) noexcept;

/// Which of the forms of RFC 9112 section 3.2 the target had. `authority` comes with CONNECT alone.
enum class target_form : std::uint8_t { origin, absolute, authority, asterisk };

struct header_field {
    std::string_view name;   ///< as sent; compare without regard to case
    std::string_view value;  ///< without the white space around it
};

/// One request, valid until the handler it was passed to returns.
///
/// Threads: immutable while the handler runs; it may be read from several threads until the handler returns.
class request {
 public:
    [[nodiscard]] net::method method() const noexcept { return method_; }
    /// The whole request target as sent.
    [[nodiscard]] std::string_view target() const noexcept { return at(target_); }
    [[nodiscard]] target_form form() const noexcept { return form_; }
    /// The path as sent, percent-encoded, beginning with '/' ("*" for the asterisk form). Split it first, decode each
    /// segment afterwards (uri.hpp): an encoded '/' is part of a segment.
    [[nodiscard]] std::string_view path() const noexcept { return at(path_); }
    /// What follows the first '?', as sent; empty when there is none. parse with query_parameters (uri.hpp).
    [[nodiscard]] std::string_view query() const noexcept { return at(query_); }
    /// Host and port the client asked for: the target's authority, else the Host field; empty in HTTP/1.0 without one.
    [[nodiscard]] std::string_view host() const noexcept { return at(host_); }
    /// 0 or 1: HTTP/1.0 or HTTP/1.1.
    [[nodiscard]] int minor_version() const noexcept { return minor_version_; }
    /// Whether the client wants the connection kept after this exchange.
    [[nodiscard]] bool keep_alive() const noexcept { return keep_alive_; }
    /// Whether the client waits for "100 Continue" before it sends the body.
    [[nodiscard]] bool expects_continue() const noexcept { return expects_continue_; }
    /// Whether a body follows that is not here: the handler was called for its head (server_options::body_in_pieces).
    [[nodiscard]] bool body_follows() const noexcept { return body_follows_; }
    /// What Content-Length says; nothing without one, as in a chunked request.
    [[nodiscard]] std::optional<std::uint64_t> content_length() const noexcept { return content_length_; }
    /// The decoded body; empty when there is none. Trailer fields of a chunked body are checked and dropped.
    [[nodiscard]] std::string_view body() const noexcept { return at(body_); }
    /// Bytes this request took on the wire, framing included.
    [[nodiscard]] std::size_t wire_bytes() const noexcept { return wire_bytes_; }
    /// Who sent it (peer.hpp); nothing unless server_options::identify_peers is set.
    [[nodiscard]] const net::peer* peer() const noexcept { return peer_; }

    /// The first field of that name, compared without regard to case.
    /// Cost: linear in the number of fields; no allocation.
    [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const noexcept;
    /// How often a field of that name came. A handler that decides by a field meant to be single checks this.
    [[nodiscard]] std::size_t header_count(std::string_view name) const noexcept;
    /// All fields, in order.
    [[nodiscard]] std::size_t headers_size() const noexcept { return fields_.size(); }
    [[nodiscard]] header_field header_at(std::size_t index) const noexcept {
        return {at(fields_[index].name), at(fields_[index].value)};
    }

 private:
    friend class request_parser;
    friend class request_copy;

    // Offsets into the buffer rather than pointers: the buffer may move while the rest of the request arrives.
    struct slice {
        std::uint32_t offset = 0;
        std::uint32_t size = 0;
    };
    struct field_slices {
        slice name;
        slice value;
    };

    [[nodiscard]] std::string_view at(slice s) const noexcept { return {base_ + s.offset, s.size}; }

    const char* base_ = "";
    slice target_, path_, query_, host_, body_;
    std::vector<field_slices> fields_;
    std::size_t wire_bytes_ = 0;
    const net::peer* peer_ = nullptr;
    net::method method_ = net::method::get;
    target_form form_ = target_form::origin;
    std::uint8_t minor_version_ = 1;
    bool keep_alive_ = true;
    bool expects_continue_ = false;
    bool body_follows_ = false;
    std::optional<std::uint64_t> content_length_;
};

/// Compares ASCII text without regard to case, as field names and connection options are compared.
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept;

}  // namespace holdfast::net
