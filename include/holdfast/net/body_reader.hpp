// SPDX-License-Identifier: Apache-2.0
// body_reader.hpp - a request's body, handed over in pieces as it comes, with back-pressure to the client.
//
// A server is told by server_options::body_in_pieces which requests are answered before their body is there. Their
// handler asks for the body by response::receive_body(), and leaves the answer for later (defer) or begins a stream.
// (I1) Pieces come in order, each byte once, and on_end once behind them; nothing comes after it. None are empty.
// (I2) While it is paused no piece comes, the client is not read from, and its time stands still: what is left of it
//      goes on with resume(). Between two calls of on_piece no more is held than what one receive brought.
// (I3) A client that waits for "100 Continue" is told so when the body is first wanted: by receive_body(), or by
//      resume() where it began paused.
// (I4) An answer that goes out ends the body: what has not come by then is not handed over. It is read over where it is
// short and of
//      known length; else the connection closes behind the answer (RFC 9112 section 9.3).
// (I5) A body that breaks a rule, is too long, too slow or cut short ends the exchange: with 400, 413 or 408 where its
//      answer has not begun, else with the connection. on_end and the channel's on_close both say so.
// (I6) A handle of any age, in any thread, is safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "holdfast/net/request.hpp"

namespace holdfast::net {

class body_reader;
class body_state;

/// Why no more comes.
enum class body_end : std::uint8_t {
    complete,      ///< that was all of it
    answered,      ///< the request was answered before its body had come
    client_away,   ///< the client closed or reset the connection
    timed_out,     ///< too little came in limits::body_timeout_ms
    too_long,      ///< beyond bytes_max, or the framing of chunks beyond its limits
    malformed,     ///< the chunks are none
    cut,           ///< this side gave it up: on_piece or the handler threw, a limit, or an earlier answer closes
    server_ended,  ///< run() returned
};

/// How a body ended.
struct body_result {
    body_end why = body_end::complete;
    std::uint64_t bytes = 0;                   ///< handed over
    std::span<const header_field> trailers{};  ///< of a complete, chunked one, as sent; valid during the call
};

struct body_options {
    std::uint64_t bytes_max = 0;  ///< 0: message_limits::body_bytes_max. Beyond it: 413
    bool paused = false;          ///< it begins paused
    /// A piece came, of 64 KiB at most. On the loop, which serves nobody else meanwhile; the bytes are gone when it
    /// returns. What it throws is counted, and ends the exchange with 500.
    std::function<void(const body_reader&, std::string_view)> on_piece{};
    std::function<void(const body_result&)> on_end{};  ///< on the loop; what it throws is counted
};

/// A handle. Copies are of the same body; one made by default has ended.
///
/// Threads: any, also several at a time on one body; to assign to a handle, one at a time.
class body_reader {
 public:
    body_reader() noexcept = default;

    /// No piece comes after this, called on the loop; called elsewhere, at most those of the event under way.
    void pause() const noexcept;
    /// Goes on, in the next turn of the loop.
    void resume() const;
    [[nodiscard]] bool is_open() const noexcept;

 private:
    friend class server_core;
    explicit body_reader(std::shared_ptr<body_state> state) noexcept : state_(std::move(state)) {}

    std::shared_ptr<body_state> state_;
};

}  // namespace holdfast::net
