// SPDX-License-Identifier: Apache-2.0
// response_reader.hpp - takes responses off a stream of bytes: what a checking client needs of RFC 9112, strictly.
//
// Understands Content-Length, chunked, bodiless statuses and bodies that end with the connection. Interim (1xx)
// responses are passed over. Anything else is malformed, since a checking client that guesses checks nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/net/chunked_decoder.hpp"

namespace holdfast::net {

class response_reader {
 public:
    enum class status : std::uint8_t { need_more, complete, malformed };

    response_reader();

    /// Where received bytes are appended.
    [[nodiscard]] std::string& buffer() noexcept { return buffer_; }

    /// Looks for the next whole response. `to_head`: it answers a HEAD request. `ended`: no more bytes will come.
    [[nodiscard]] status next(bool to_head, bool ended);

    /// Of a complete response, valid until drop().
    [[nodiscard]] int code() const noexcept { return code_; }
    [[nodiscard]] bool closes() const noexcept { return closes_; }
    [[nodiscard]] std::string_view head() const noexcept { return {buffer_.data(), body_begin_}; }
    [[nodiscard]] std::string_view body() const noexcept {
        return {buffer_.data() + body_begin_, body_end_ - body_begin_};
    }
    /// Removes the complete response from the buffer.
    void drop();
    /// Forgets everything, for a new connection.
    void clear();

 private:
    enum class framing : std::uint8_t { unknown, fixed, chunked, until_end };

    bool read_head(bool to_head);
    bool read_field(std::string_view name, std::string_view value);

    std::string buffer_;
    std::size_t scanned_ = 0;     // no empty line before here
    std::size_t body_begin_ = 0;  // 0: no whole head yet
    std::size_t body_end_ = 0;    // fixed: where it must end; chunked: where decoded data ends
    std::size_t read_ = 0;        // chunked: undecoded bytes begin here
    chunked_decoder chunks_;
    int code_ = 0;
    framing framing_ = framing::unknown;
    bool closes_ = false;
};

}  // namespace holdfast::net
