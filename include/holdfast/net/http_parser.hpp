// SPDX-License-Identifier: Apache-2.0
// http_parser.hpp - incremental, strict parser of HTTP/1.1 requests (RFC 9112, 9110). Needs no server and no socket.
//
// (I1) The answer depends on the bytes alone, never on how they were cut into calls: every decision is taken at the
//      first byte that settles it, by a state machine that never looks ahead.
// (I2) What is malformed or could be read in two ways is refused, never repaired: white space before a colon, folded
//      lines, bare CR or LF, control characters, missing or repeated Host, repeated or listed Content-Length,
//      Transfer-Encoding beside Content-Length or in HTTP/1.0, content in a CONNECT, a Host that contradicts an
//      absolute target, ...
// (I3) No byte after the end of a request is touched, no byte of its head is changed. A chunked body is decoded in
//      place, over its own framing.
// (I4) Memory: no more than header_bytes_max + body_bytes_max has to be kept, whatever the client sends.
// (I5) A head whose fields are byte by byte those of the last one is not judged anew: I1 says what would come of it.
// A refusal is final: the connection cannot be trusted to agree with us where the next request starts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "holdfast/net/chunked_decoder.hpp"
#include "holdfast/net/limits.hpp"
#include "holdfast/net/request.hpp"

namespace holdfast::net {

enum class parse_status : std::uint8_t { need_more, complete, refused };

class request_parser {
 public:
    explicit request_parser(const message_limits& limits = {});

    /// Begins a new request; keeps its memory.
    void reset() noexcept;

    /// Parses on. `bytes` starts with the first byte of the request each time and holds what earlier calls left of it,
    /// possibly at another address, plus what has arrived since.
    ///
    /// Returns: need_more: keep the first kept() bytes, append to exactly those, call again. complete: message() is
    /// valid as long as `bytes` is, the next request starts at consumed(). refused: answer refusal_status(), then
    /// close. Requires: after complete or refused, reset() before the next call. Throws: std::bad_alloc. Cost: each
    /// byte is looked at once over all calls.
    [[nodiscard]] parse_status parse(std::span<char> bytes);

    /// From now on parse() answers `complete` already at the end of a head that a body follows. message() says so by
    /// body_follows(), its body begins at consumed(), and no limit of a body has been looked at. Then either the caller
    /// reads the body and goes on with reset(), or has it collected.
    void stop_at_body(bool wanted) noexcept { stops_at_body_ = wanted; }
    /// After such a stop: reads the body after all, as parse() does by itself. The same `bytes` again.
    [[nodiscard]] parse_status collect_body(std::span<char> bytes);

    [[nodiscard]] const request& message() const noexcept { return message_; }
    /// What message().peer() answers from now on.
    void set_peer(const peer* who) noexcept { message_.peer_ = who; }
    [[nodiscard]] std::size_t consumed() const noexcept { return position_; }
    [[nodiscard]] std::size_t kept() const noexcept { return kept_; }

    /// Whether a byte of a request has been seen (a leading empty line is not one).
    [[nodiscard]] bool started() const noexcept {
        return state_ > state::method || (state_ == state::method && position_ > mark_);
    }
    /// Whether the head is complete and only body bytes are missing. message() has its head fields then, until the
    /// bytes move.
    [[nodiscard]] bool head_complete() const noexcept { return state_ >= state::fixed_body; }
    /// Behind need_more: whether bytes of a body have come.
    [[nodiscard]] bool body_begun() const noexcept {
        return state_ == state::fixed_body ? kept_ > position_
                                           : state_ == state::chunked_body && message_.body_.size != 0;
    }

    [[nodiscard]] int refusal_status() const noexcept { return refusal_status_; }
    /// Why, in words fit for the client: fixed text, nothing of what was sent.
    [[nodiscard]] std::string_view refusal_reason() const noexcept { return refusal_reason_; }

 private:
    enum class state : std::uint8_t {
        start,
        empty_line_feed,
        method,
        target,
        version,
        request_line_feed,
        field_start,
        name,
        value_start,
        value,
        value_line_feed,
        head_line_feed,
        fixed_body,
        chunked_body,
        done,
        refused
    };
    enum class step : std::uint8_t { again, more, stop };

    // Each takes the state machine over one syntactic unit of the bytes [position_, end).
    step in_start(std::span<const char> head);
    step in_method(std::span<const char> head);
    step in_target(std::span<const char> head);
    step in_version(std::span<const char> head);
    step in_line_feed(std::span<const char> head);
    step in_field_start(std::span<const char> head);
    bool take_whole_request_line(std::span<const char> head);
    void take_known_fields(std::span<const char> head);
    void take_whole_fields(std::span<const char> head);
    step in_name(std::span<const char> head);
    step in_value(std::span<const char> head);
    step in_fixed_body(std::span<char> bytes);
    step in_chunked_body(std::span<char> bytes);
    step parse_head(std::span<const char> bytes);

    // http_head.cpp: the meaning of a complete target and a complete head.
    bool accept_target();
    bool accept_absolute_target(std::string_view text);
    void accept_path(std::string_view text, std::uint32_t offset);
    bool accept_head();
    bool accept_field(std::string_view name, std::string_view value, struct head_facts& facts);
    bool accept_framing(const struct head_facts& facts);
    bool accept_host(const struct head_facts& facts);
    bool accept_authority(std::string_view text);
    void remember_fields(const struct head_facts& facts);

    step refuse(int status, std::string_view reason) noexcept;
    bool deny(int status, std::string_view reason) noexcept { return refuse(status, reason), false; }

    /// The fields of a head, from the first one to the empty line, and what they were found to say.
    struct known_fields {
        std::vector<char> bytes;                    // none: nothing is known
        std::vector<request::field_slices> fields;  // offsets in `bytes`, as is the next
        request::slice host;
        bool keep_alive = false;
    };

    message_limits limits_;
    chunked_decoder chunks_;
    known_fields known_;  // of the last head that said no more than that
    request message_;
    std::size_t position_ = 0;  // everything before it has been judged
    std::size_t mark_ = 0;      // start of the unit being read
    std::size_t fields_begin_ = 0;
    std::size_t value_end_ = 0;
    std::size_t body_end_ = 0;  // fixed body: where it ends; chunked: where decoded data ends
    std::size_t kept_ = 0;
    std::string_view refusal_reason_;
    int refusal_status_ = 0;
    std::array<char, 62> authority_{};  // the last one that was well formed: most requests name the same
    std::uint8_t authority_size_ = 0;
    std::uint8_t version_digits_[2] = {0, 0};
    bool known_method_ = false;
    bool stops_at_body_ = false;
    state state_ = state::start;
};

}  // namespace holdfast::net
