// SPDX-License-Identifier: Apache-2.0
// channel.hpp - an exchange that goes on after its handler has returned: a late answer, a long poll, a stream, a
// WebSocket.
//
// A handler gets one from response::defer(), stream() or websocket(), keeps copies of it wherever it likes, and
// returns. Answers still leave in the order of the requests: what is done too early waits.
// (I1) Each channel ends once, and on_close is called once, within the turn of the loop in which it ended; nothing is
//      called after it. With channel_options::on_pool it is handed to the strand in that turn, behind what was before.
// (I2) A handle of any age, in any thread, is safe: after the end, also that of the server, calls answer `closed`.
// (I3) queued_bytes() never exceeds queue_bytes_max. Messages are sent whole or not at all, in the order of the sends.
// (I4) No lock is held while a callback runs: it may call anything, also on its own channel.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::net {

class channel;
class channel_state;
class response;

/// What came of a call. Only `ok` took what it was given.
enum class channel_status : std::uint8_t {
    ok,
    full,       ///< when_full::refuse: the message is the caller's still; on_drain follows
    dropped,    ///< when_full::drop_newest: the message is gone
    too_large,  ///< it alone exceeds queue_bytes_max
    closed,     ///< the channel has ended, or was answered or closed before
    misused,    ///< answer() to a stream, send() to what expects one answer, a close code that must not be sent
    not_utf8,   ///< of a WebSocket: text, or the reason of a close, that is not UTF-8
};

/// Why a channel ended.
enum class channel_end : std::uint8_t {
    finished,       ///< answered, or closed by close(), and handed to the connection
    client_away,    ///< the client closed or reset the connection, or is silent: a WebSocket's without a close frame
    client_closed,  ///< the client closed its WebSocket in order
    timed_out,      ///< nobody answered in time; the client got 504
    overflow,       ///< when_full::close; the connection was reset
    cut,            ///< this side ended the connection, or the handler threw: the exchange could not go on
    drained,        ///< a drain ended the stream or WebSocket, in order
    server_ended,   ///< run() returned
};

/// What a stream or WebSocket does with a message for which its queue has no room.
enum class when_full : std::uint8_t { refuse, drop_oldest, drop_newest, close };

/// The bytes of a message that goes to many: each channel holds a reference. To deflate it for each would cost as much
/// again each time, so WebSockets send it as it is.
using shared_bytes = std::shared_ptr<const std::string>;

/// What a message of a WebSocket says it is. Text is UTF-8. A stream knows no kinds.
enum class message_kind : std::uint8_t { text, binary };

/// A message that a WebSocket's client sent, as long as the call lasts that hands it over.
struct received_message {
    std::string_view payload;
    message_kind kind = message_kind::text;
};

struct channel_options {
    std::chrono::milliseconds answer_timeout{0};  ///< of a late answer; 0: limits::answer_timeout_ms
    bool answers_half_closed = false;  ///< still serve a client that has shut its sending side; else it counts as away
    std::size_t queue_bytes_max =
        256U << 10U;  ///< of a stream or WebSocket: what may wait behind the bytes the kernel was given
    net::when_full when_full = net::when_full::refuse;
    std::function<void(channel_end)> on_close{};  ///< on the loop; what it throws is counted
    std::function<void(channel)> on_drain{};      ///< on the loop, once the queue is empty after a send() was `full`
    /// Of a WebSocket: a message came. On the loop, which serves nobody else meanwhile; none come once the channel was
    /// closed. What it throws is counted, and closes the WebSocket with 1011.
    std::function<void(channel, received_message)> on_receive{};
    /// Calls all of these in server_options::pool instead of on the loop: those of one connection in order and never
    /// two at a time, so one that takes its time keeps nobody else waiting. Messages are copied for it. What a client
    /// sent before it closed its WebSocket in order is handed over before on_close; of one that is lost, what has not
    /// begun is dropped.
    bool on_pool = false;
};

/// A handle. Copies are the same channel; one made by default is closed.
///
/// Threads: any, also several at a time on one channel; to assign to a handle, one at a time.
class channel {
 public:
    channel() noexcept = default;

    /// Answers the request. Taken as it is where a handler's response would be: HEAD, 204 and close() included.
    channel_status answer(response&& late) const;

    /// Sends one message: of a stream one chunk, and an empty one is nothing; of a WebSocket one frame. Sends of one
    /// turn leave together. Throws: std::bad_alloc.
    channel_status send(std::string message, message_kind kind = message_kind::text) const;
    channel_status send(shared_bytes message, message_kind kind = message_kind::text) const;

    /// Ends a stream behind what is queued, and a WebSocket with 1000. A request that waits for its answer is answered
    /// 500.
    channel_status close() const;
    /// Ends a WebSocket behind what is queued, with a code for the client (RFC 6455 section 7.4) and up to 123 bytes of
    /// reason. It is over, and on_close due, once the client has answered, or has not for websocket_close_ms.
    channel_status close(std::uint16_t code, std::string_view reason = {}) const;

    /// How a WebSocket ended: the client's code, 1005 if it told none, ours if the client broke a rule or we closed it
    /// and it answered with the same, 1006 if the connection went without a close frame. 0 as long as it has not ended.
    [[nodiscard]] std::uint16_t close_code() const noexcept;
    /// The reason that the client's close frame told.
    [[nodiscard]] std::string close_reason() const;
    /// The subprotocol that a WebSocket speaks; empty: none.
    [[nodiscard]] std::string_view protocol() const noexcept;

    [[nodiscard]] bool is_open() const noexcept;
    /// Bytes of messages that the connection has not been given yet.
    [[nodiscard]] std::size_t queued_bytes() const noexcept;
    /// Messages that drop_oldest or drop_newest gave up.
    [[nodiscard]] std::uint64_t dropped() const noexcept;

 private:
    friend class server_core;
    explicit channel(std::shared_ptr<channel_state> state) noexcept : state_(std::move(state)) {}

    std::shared_ptr<channel_state> state_;
};

}  // namespace holdfast::net
