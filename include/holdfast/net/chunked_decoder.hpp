// SPDX-License-Identifier: Apache-2.0
// chunked_decoder.hpp - the chunked transfer coding, decoded in place and strictly.
//
// The decoder is a state machine over single bytes: what it answers depends on the bytes alone, never on how they were
// cut into calls (I1). It consumes every byte it is given up to the end of the body (I2). Chunk data moves to the left,
// over the framing that preceded it, so a body needs no second buffer (I3).
// Refused: a size that is empty, longer than 16 digits or followed by anything but an extension; a bare CR or LF; data
// not followed by CRLF; white space other than the grammar's BWS around ';' and '='; framing fields among the trailers.
// Source:  RFC 9112 section 7.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/net/limits.hpp"

namespace holdfast::net {

class chunked_decoder {
 public:
    enum class status : std::uint8_t { need_more, complete, refused };

    explicit chunked_decoder(const message_limits& limits = {}) noexcept;

    /// Begins a new body.
    void reset() noexcept;

    /// Decodes bytes[read..] and appends the data at bytes[write..]; both positions advance.
    ///
    /// Requires: write <= read <= bytes.size(); the same data before `write` as after the previous call.
    /// Returns: complete with `read` behind the last byte of the body; need_more with read == bytes.size(); refused,
    /// after which only reset() is of use. Cost: one pass, no allocation.
    [[nodiscard]] status decode(std::span<char> bytes, std::size_t& read, std::size_t& write) noexcept;

    /// Appends the trailer section, as it comes, to `to` (line by line, the empty last one included), from now on.
    /// Requires: `to` lives as long as decode() is called, and is left alone meanwhile. Throws: std::bad_alloc.
    void keep_trailers(std::string* to);

    /// The status code that answers what was refused: 400, 413 (body or extensions too long) or 431 (trailers).
    [[nodiscard]] int refusal_status() const noexcept { return refusal_status_; }
    [[nodiscard]] std::string_view refusal_reason() const noexcept { return refusal_reason_; }
    /// Bytes of data decoded so far.
    [[nodiscard]] std::uint64_t decoded_bytes() const noexcept { return decoded_; }
    /// Bytes of the trailer section so far, its empty line included: the last ones that were read.
    [[nodiscard]] std::size_t trailer_bytes() const noexcept { return trailer_bytes_; }

 private:
    enum class state : std::uint8_t;

    bool step(char byte) noexcept;
    bool step_size(char byte) noexcept;
    bool step_extension(char byte) noexcept;
    bool step_trailer(char byte) noexcept;
    bool end_of_size_line() noexcept;
    bool refuse(int code, std::string_view reason) noexcept;

    message_limits limits_;
    std::uint64_t decoded_ = 0;
    std::uint64_t left_ = 0;  // of the current chunk's data; while a size is read, the size so far
    std::size_t extension_bytes_ = 0;
    std::size_t trailer_bytes_ = 0;
    std::string_view refusal_reason_;
    std::string* trailers_ = nullptr;
    int refusal_status_ = 0;
    std::uint8_t digits_ = 0;
    std::uint8_t name_bytes_ = 0;  // of a trailer name, capped; longer names than any forbidden one are not compared
    char name_[24] = {};
    state state_;
};

}  // namespace holdfast::net
