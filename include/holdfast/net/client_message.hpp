// SPDX-License-Identifier: Apache-2.0
// client_message.hpp - what a client sends and what it gets: a request, an answer, and how an exchange ended.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/net/request.hpp"
#include "holdfast/net/tls_trust.hpp"

namespace holdfast::net {

/// Names one request of one client; never used again for another.
struct request_id {
    std::uint64_t number = 0;  ///< 0: none

    friend auto operator<=>(const request_id&, const request_id&) = default;
};

/// How an exchange ended.
enum class client_error : std::uint8_t {
    none,                ///< a whole answer came, whatever its status
    invalid_request,     ///< URL, method, field or option that may not be sent; nothing left this process
    overloaded,          ///< waiting_max requests wait already, look_ups_max names are being looked up, or there are no
                         ///< descriptors; nothing was sent
    not_resolved,        ///< the name has no address
    not_connected,       ///< every address refused, or cannot be reached
    connect_timeout,     ///< no address by its name, no connection, or no handshake of TLS, in time
    not_trusted,         ///< the certificate is not believed: detail says whose, why, and what to do; nothing was sent
    tls_failed,          ///< the handshake of TLS was refused, cut or wrong; nothing was sent
    first_byte_timeout,  ///< the request was sent, and no answer began in time
    silence_timeout,     ///< the other side took no byte of the request, or sent none of the answer it began, in time
    whole_timeout,       ///< the whole did not end in time: client_result::stage says how far it was
    closed_unanswered,   ///< the connection ended before a byte of the answer: it may have been carried out, or not
    truncated,           ///< the connection ended inside the answer, or, by TLS, without an end of TLS at its end
    malformed,           ///< not HTTP, or an answer whose end is in doubt
    head_too_large,      ///< beyond client_limits::answer
    body_too_large,      ///< beyond body_bytes_max
    upload_failed,       ///< the source of the body gave up, or gave another number of bytes than was told
    cancelled,           ///< by cancel()
    client_ended,        ///< the client was stopped or destroyed
};

/// The enumerator's name, "closed_unanswered".
[[nodiscard]] std::string_view client_error_name(client_error error) noexcept;

/// How far an exchange has come.
enum class client_stage : std::uint8_t {
    waiting,     ///< for a connection to become free
    resolving,   ///< the name
    connecting,  ///<
    securing,    ///< the connection stands; the handshake of TLS is under way
    sending,     ///< the connection stands; some of the request may have been sent
    awaiting,    ///< all of the request was given to the kernel
    receiving,   ///< a byte of the answer has come
    done,        ///< all of it has
};

/// Each 0: that of client_options. The first that runs out ends the request.
struct client_timeouts {
    std::chrono::milliseconds connect{0};     ///< name, connection and what a transport begins with, all addresses
    std::chrono::milliseconds first_byte{0};  ///< from the request being sent to the first byte of the answer
    std::chrono::milliseconds silence{0};     ///< between bytes that are taken or come; a pause does not count
    std::chrono::milliseconds whole{0};       ///< from start() to the end, waiting and pauses included
};

/// What a source of a body says.
enum class upload_step : std::uint8_t {
    more,  ///< here is some, ask again when it has left
    wait,  ///< nothing now: client::continue_upload() says when
    end,   ///< that, if anything, was the last
    fail,  ///< there will be no rest: the request ends with upload_failed
};

/// A request. What it consists of is checked before a byte leaves: nothing in it can become another field or request.
struct client_request {
    std::string method = "GET";  ///< a token, case-sensitive; CONNECT is refused
    /// "https://host:port/path?query", or http; IPv6 addresses in brackets; what follows '#' is not sent. User
    /// information is refused, and so is what has to be percent-encoded and is not.
    std::string url{};
    /// Sent as they are. Host, Content-Length, Transfer-Encoding, Connection, Keep-Alive, Proxy-Connection, TE,
    /// Trailer, Upgrade and Expect are the client's own and refused here.
    std::vector<std::pair<std::string, std::string>> headers{};
    std::string
        body{};  ///< sent with a Content-Length; none is said for an empty one with GET, HEAD, DELETE, OPTIONS, TRACE

    /// Sends what this gives instead of `body`: appended to `piece`, as long as it says `more`. On the loop, each time
    /// what was given before has left, so what a slow server does not take is not asked for.
    std::function<upload_step(std::string& piece)> upload{};
    std::optional<std::uint64_t> upload_bytes{};  ///< sent as Content-Length, and held to; without it chunks are sent

    std::string unix_socket{};       ///< connects to this path; the URL still says Host and target
    std::optional<tls_trust> tls{};  ///< whom to believe with https; none: client_options::tls
    client_timeouts timeouts{};
    std::size_t body_bytes_max = 0;  ///< of the answer; 0: client_limits::answer's
    bool close = false;              ///< asks for the end of the connection behind this answer
    /// An idempotent request (GET, HEAD, PUT, DELETE, OPTIONS, TRACE) without `upload`, sent over a kept connection
    /// that ended before a byte of the answer, is sent once more, over a new one.
    bool retry = true;
};

/// An answer. Views die with it.
class client_response {
 public:
    /// 0: none came.
    [[nodiscard]] int status() const noexcept { return status_; }
    [[nodiscard]] std::string_view reason() const noexcept;
    /// 301, 302, 303, 307 or 308 with a Location: nothing is followed, that is for the caller to judge.
    [[nodiscard]] bool is_redirect() const noexcept;

    /// The first field of that name, compared without regard to case. Cost: linear in the head.
    [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const noexcept;
    /// How often a field of that name came.
    [[nodiscard]] std::size_t header_count(std::string_view name) const noexcept;
    /// All fields, in order.
    [[nodiscard]] std::vector<header_field> headers() const;
    /// The same of the fields behind a chunked body. They are apart: none of them was there when the body was judged.
    [[nodiscard]] std::optional<std::string_view> trailer(std::string_view name) const noexcept;

    /// Empty where on_body took it.
    [[nodiscard]] const std::string& body() const noexcept { return body_; }
    [[nodiscard]] std::string take_body() noexcept { return std::move(body_); }

 private:
    friend class client_core;

    std::string head_;  // status line and fields, each with its CRLF
    std::string trailers_;
    std::string body_;
    int status_ = 0;
};

/// How an exchange ended, and what came of it. An answer that was cut off is there as far as it came.
struct client_result {
    request_id id{};
    client_error error = client_error::none;
    client_stage stage = client_stage::waiting;  ///< how far it was
    std::string detail{};                        ///< in words, for a log; empty where nothing went wrong
    client_response response{};
    unsigned attempts = 0;  ///< connections the request was given to
    bool reused = false;    ///< the last of them had served another request before
    bool sent = false;      ///< a byte of the request was given to the kernel: it may have been carried out

    [[nodiscard]] bool ok() const noexcept { return error == client_error::none; }
};

/// All on the loop, and never inside a call of the client. What they throw is counted and costs nobody else anything.
struct client_callbacks {
    std::function<void(client_result&&)> on_done{};  ///< once for each request; nothing is called for it afterwards
    std::function<void(const client_response&)> on_head{};  ///< status and fields are there
    /// A piece of the body, decoded, as long as the call lasts; the result then has none. client::pause() within it
    /// lets no more come before client::resume().
    std::function<void(std::string_view)> on_body{};
};

}  // namespace holdfast::net
