// SPDX-License-Identifier: Apache-2.0
// response_reader.hpp - takes responses off a stream of bytes, strictly: the client's half of RFC 9112.
//
// Where a message ends is decided by section 6.3 and by nothing else: no body behind a HEAD, 1xx, 204 and 304; chunked;
// Content-Length; else all up to the end of the connection. Interim (1xx) responses are passed over.
// (I1) What is answered depends on the bytes alone, never on how they were cut into calls.
// (I2) What would leave a doubt where the message ends is malformed: two lengths, a coding other than chunked, a coding
//      in HTTP/1.0, a body where there is none, bare CR or LF, a control character. So is a status outside 100-599, a
//      version other than 1.0 and 1.1, and 101, since nobody here asks for another protocol. A folded value leaves no
//      doubt: it is made one line before it is judged. Among trailers, which the server's decoder reads, it is refused.
// (I3) What is buffered is bounded by the limits: a head, and as much of a body as body_bytes_max; where body() is
//      taken as it comes (drop_body), a head and what was appended since.
// (I4) closes() holds unless the peer said in order that the connection goes on and the message had an end of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/net/chunked_decoder.hpp"
#include "holdfast/net/limits.hpp"

namespace holdfast::net {

/// Why a stream is read no further.
enum class response_fault : std::uint8_t { none, malformed, head_too_large, body_too_large };

class response_reader {
 public:
    enum class status : std::uint8_t { need_more, complete, malformed };
    static constexpr unsigned interim_max = 16;  ///< interim responses in front of one response

    /// Of `limits` all but target_bytes_max holds.
    explicit response_reader(const message_limits& limits = generous());

    /// For a client that loads and checks: nothing that a server should answer is too large.
    [[nodiscard]] static message_limits generous() noexcept;

    /// Where received bytes are appended.
    [[nodiscard]] std::string& buffer() noexcept { return buffer_; }

    /// Looks for the next whole response. `to_head`: it answers a HEAD request. `ended`: no more bytes will come; what
    /// then needs more was cut off. After `malformed` only clear() is of use; fault() and reason() say what it was.
    [[nodiscard]] status next(bool to_head, bool ended);

    [[nodiscard]] response_fault fault() const noexcept { return fault_; }
    [[nodiscard]] std::string_view reason() const noexcept { return reason_; }

    /// Whether the head of the response is there; what follows is of it until drop().
    [[nodiscard]] bool has_head() const noexcept { return body_begin_ != 0; }
    [[nodiscard]] int code() const noexcept { return code_; }
    [[nodiscard]] bool closes() const noexcept { return closes_; }
    /// From the status line to the empty line; folded values unfolded.
    [[nodiscard]] std::string_view head() const noexcept { return {buffer_.data(), body_begin_}; }
    /// As much of the body, decoded, as has come and was not dropped.
    [[nodiscard]] std::string_view body() const noexcept {
        return {buffer_.data() + body_begin_, body_end_ - body_begin_};
    }
    /// Of a complete response with a chunked body: its trailer fields, each with its CRLF.
    [[nodiscard]] std::string_view trailers() const noexcept;

    /// Bounds the bodies of the responses that begin from here on.
    void limit_body(std::size_t bytes) noexcept;
    /// Forgets body(), so that a long one needs no memory.
    void drop_body();
    /// Removes the complete response from the buffer; what is left was sent behind it.
    void drop();
    /// Forgets everything, for a new connection.
    void clear();

 private:
    enum class framing : std::uint8_t { fixed, chunked, until_end };

    [[nodiscard]] status find_head();
    [[nodiscard]] bool read_head(bool to_head);
    [[nodiscard]] std::size_t unfold_value(std::size_t from, std::size_t end) noexcept;
    [[nodiscard]] status read_body(bool ended);
    [[nodiscard]] status read_chunks();
    status refuse(response_fault fault, std::string_view reason) noexcept;
    void forget_message() noexcept;

    std::string buffer_;
    message_limits limits_;
    std::size_t scanned_ = 0;       // no empty line before here
    std::size_t body_begin_ = 0;    // 0: no whole head yet
    std::size_t body_end_ = 0;      // where decoded data ends
    std::size_t read_ = 0;          // where what was looked at ends; of a complete response: its end
    std::uint64_t left_ = 0;        // fixed: bytes of the body that have not come
    std::uint64_t body_bytes_ = 0;  // until_end: all so far, dropped ones too
    chunked_decoder chunks_;
    std::string_view reason_;
    unsigned interim_ = 0;
    int code_ = 0;
    framing framing_ = framing::fixed;
    response_fault fault_ = response_fault::none;
    bool closes_ = false;
    bool complete_ = false;
};

}  // namespace holdfast::net
