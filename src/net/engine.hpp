// SPDX-License-Identifier: Apache-2.0
// engine.hpp - the seam between the HTTP server and the kernel: what io_uring or epoll must be able to do.
//
// The server never sees a readiness event. It is handed connections and bytes, hands bytes back, and asks to be spared
// more input; when and by which system calls is the engine's business. A completion engine may therefore receive into
// its own buffer ring and submit sends in batches without the server noticing.
// (I1) Between on_end with an error, or remove(), and the next add() of that token nothing is reported for it: the
//      generation in the token keeps late events from reaching a successor in the same place.
// (I2) Bytes passed to on_bytes are the server's to change until the call returns, and gone afterwards.
// (I3) Every call back happens inside wait(); the server may call anything but wait() from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace holdfast::net {

/// Names a connection to the engine: its place in the server's table and how often that place has been used.
struct connection_token {
    std::uint32_t index = 0;
    std::uint32_t generation = 0;
};

class engine_sink {
 public:
    /// wait() came back from the kernel; reports follow. The time to read clocks.
    virtual void on_wake() = 0;
    /// A connection was accepted; the descriptor is the server's, to add() or to close.
    virtual void on_accept(int fd) = 0;
    /// accept failed for lack of something (EMFILE, ENFILE, ENOMEM, ...). A connection may still be waiting.
    virtual void on_accept_failed(int listener, int error) = 0;
    virtual void on_bytes(connection_token connection, std::span<char> bytes) = 0;
    /// error 0: the peer will send nothing more, but may still read. Else the connection is broken.
    virtual void on_end(connection_token connection, int error) = 0;
    /// A send that had taken less than all may be continued.
    virtual void on_sendable(connection_token connection) = 0;
    /// A watched descriptor is readable or hung up.
    virtual void on_watched(int fd) = 0;

 protected:
    ~engine_sink() = default;
};

class engine {
 public:
    struct sent {
        std::size_t taken = 0;  ///< bytes that are the engine's now, from the front
        int error = 0;          ///< the connection is broken; 0 with taken < size: wait for on_sendable
    };

    virtual ~engine() = default;
    [[nodiscard]] virtual std::string_view name() const noexcept = 0;

    /// Starts and stops accepting. Stopping does not close.
    virtual void listen(int listener) = 0;
    virtual void unlisten(int listener) noexcept = 0;

    /// Takes a connected descriptor and starts reading from it. Returns: an errno, 0 for success.
    [[nodiscard]] virtual int add(int fd, connection_token connection) = 0;
    /// Closes the connection, with a reset when `reset` is set.
    virtual void remove(connection_token connection, bool reset = false) noexcept = 0;
    /// Tells the peer that nothing more comes; reading goes on.
    virtual void shutdown_send(connection_token connection) noexcept = 0;

    virtual void pause(connection_token connection) noexcept = 0;
    virtual void resume(connection_token connection) = 0;
    [[nodiscard]] virtual sent send(connection_token connection, std::string_view bytes) noexcept = 0;

    virtual void watch(int fd) = 0;
    virtual void unwatch(int fd) noexcept = 0;

    /// Waits for at most timeout_ms (-1: for ever) and reports what happened.
    virtual void wait(int timeout_ms) = 0;
};

/// The engine for every kernel: epoll, edge-triggered, reports to `sink`. Throws: error(io).
[[nodiscard]] std::unique_ptr<engine> make_epoll_engine(engine_sink& sink);

}  // namespace holdfast::net
