// SPDX-License-Identifier: Apache-2.0
// engine.hpp - the seam between the HTTP server and the kernel: what io_uring or epoll must be able to do.
//
// The server never sees a readiness event nor a descriptor of a connection. It is handed connections and bytes, hands
// bytes back, and asks to be spared more input; when and by which system calls is the engine's business.
// (I1) After on_end with an error, a send() that answered an error, or remove(), nothing is reported for that token:
//      its generation keeps late events from reaching a successor in the same place.
// (I2) Bytes passed to on_bytes are the server's to change until the call returns, and gone afterwards.
// (I3) Every call back happens inside wait(); the server may call anything but wait() from it. on_end(0) comes at most
//      once, and only an error may follow it: a break, which is noticed though nothing is read or sent any more.
// (I4) Of a paused connection neither bytes nor the end of input are reported, only that it is broken. After resume()
//      nothing is lost, and it is reported by a later wait(), never inside resume().
// (I5) Bytes leave in the order of the sends. While some have not left, on_sent follows, or I1 applies. They wait when
//      the kernel had no room for them; before that they are on their way to it, for a turn at most.
// (I6) An idle connection costs no buffer; unsent output a few times its size at most.
// (I7) No connection and no listener can keep a turn to itself.
// Threads: all from the thread of the first wait(), before which another may call listen() and watch(); wake() from
//          any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/net/peer.hpp"
#include "wake_event.hpp"

namespace holdfast::net {

/// Names a connection to the engine: its place in the server's table and how often that place has been used.
struct connection_token {
    std::uint32_t index = 0;
    std::uint32_t generation = 0;
};

/// A connection that was accepted and belongs to nobody yet. Valid inside on_accept.
struct accepted {
    int listener = -1;
    int socket = -1;           ///< for the engine alone: a descriptor, or a place in a table of the kernel's
    bool only_refuse = false;  ///< the process is out of descriptors: this one was the reserve, and is needed back
};

/// What TLS makes of a connection of a listener that has it (tls_engine.hpp).
enum class tls_event : std::uint8_t {
    secured,    ///< the handshake is made: bytes may follow
    resumed,    ///< likewise, by a ticket
    cut,        ///< the peer left in the middle of the handshake; on_end follows
    truncated,  ///< the peer has closed without saying so by TLS: somebody else may have; on_end follows
    plain,      ///< what came first is a request without TLS: nothing of it is read; to be shut
    refused,    ///< the handshake failed, and the peer has been told; to be shut
    broken,     ///< what came later is not what the peer encrypted, or says nothing without end, and nothing can be
                ///< sent; to be shut
};

class engine_sink {
 public:
    /// wait() came back from the kernel; reports follow. The time to read clocks.
    virtual void on_wake() = 0;
    /// To take() or to refuse() before it returns; a connection left alone is closed.
    virtual void on_accept(accepted arrival) = 0;
    /// Accepting stopped for a moment for lack of something (descriptors, memory); it goes on by itself.
    virtual void on_accept_paused() = 0;
    /// A drain() is over: what waited has been reported. The engine holds nothing of the listener; it may be closed.
    virtual void on_drained(int listener) = 0;
    virtual void on_bytes(connection_token connection, std::span<char> bytes) = 0;
    /// error 0: the peer will send nothing more, but may still read. Else the connection is broken.
    virtual void on_end(connection_token connection, int error) = 0;
    /// `unsent` bytes of the output wait for room in the kernel: some of it has left, or it has just begun to wait.
    virtual void on_sent(connection_token connection, std::size_t unsent) = 0;
    /// A watched descriptor is readable or hung up.
    virtual void on_watched(int fd) = 0;
    /// More of a paused connection is kept here: held() has grown.
    virtual void on_held(connection_token /*connection*/) {}
    /// Of an engine with TLS alone.
    virtual void on_tls(connection_token /*connection*/, tls_event /*what*/) {}

 protected:
    ~engine_sink() = default;
};

/// What has cost an engine time for lack of room. Plain numbers, of the engine's thread; epoll knows neither.
struct engine_shortages {
    std::uint64_t buffers = 0;      ///< receives that found no buffer of the ring, and began anew a turn later
    std::uint64_t completions = 0;  ///< turns that brought more than the completion queue holds
};

class engine {
 public:
    struct sent {
        std::size_t unsent = 0;    ///< bytes of this connection that have not left, of this send and of those before
        std::size_t waiting = 0;   ///< of these, what the kernel had no room for: all, or none so far (I5)
        int error = 0;             ///< the connection is broken, and what was unsent is lost: remove() it
        std::size_t overhead = 0;  ///< bytes that this send took beyond those it was given: TLS
    };

    virtual ~engine() = default;
    [[nodiscard]] virtual std::string_view name() const noexcept = 0;
    [[nodiscard]] virtual engine_shortages shortages() const noexcept { return {}; }

    /// Starts accepting. The listener stays the caller's and must not block.
    virtual void listen(int listener) = 0;
    /// Stops accepting at once, and ends a drain. Afterwards the engine holds nothing of the listener.
    virtual void unlisten(int listener) noexcept = 0;
    /// Accepts what waits in the kernel's queue, some at each turn, then reports on_drained.
    virtual void drain(int listener) = 0;
    /// As drain(), where others accept from the same listener: what waits may be left to them, if they know of it.
    virtual void leave(int listener) { drain(listener); }

    /// Whether connections of this listener begin with a handshake: nothing is sent on one before on_tls(secured).
    [[nodiscard]] virtual bool secures(int /*listener*/) const noexcept { return false; }
    /// Who has connected.
    [[nodiscard]] virtual peer peer_of(const accepted& arrival) const = 0;
    /// Starts reading from an accepted connection. Returns: an errno, 0 for success; after an errno it may be refused.
    [[nodiscard]] virtual int take(const accepted& arrival, connection_token connection) = 0;
    /// Says `reply` and closes. What the peer has sent by now is read, so that closing does not reset the reply away.
    virtual void refuse(const accepted& arrival, std::string_view reply) noexcept = 0;

    /// Closes the connection, with a reset when `reset` is set. What is unsent is lost.
    virtual void remove(connection_token connection, bool reset = false) noexcept = 0;
    /// Tells the peer that nothing more comes; reading goes on. Requires: nothing unsent.
    virtual void shutdown_send(connection_token connection) noexcept = 0;

    virtual void pause(connection_token connection) = 0;
    virtual void resume(connection_token connection) = 0;
    /// What has come of a paused connection, and is kept here until it is resumed, in bytes.
    [[nodiscard]] virtual std::size_t held(connection_token /*connection*/) const noexcept { return 0; }
    /// Takes the bytes; the string is empty afterwards, whatever the answer, and may be another one's memory.
    [[nodiscard]] virtual sent send(connection_token connection, std::string& bytes) = 0;

    /// Reports on_watched for as long as the descriptor is readable or hung up (level-triggered).
    virtual void watch(int fd) = 0;
    virtual void unwatch(int fd) noexcept = 0;

    /// Returns when every removed connection is closed; until then, or the next wait(), the end of one may be delayed.
    virtual void finish() noexcept = 0;

    /// Waits for at most timeout_ms (-1: for ever) and reports what happened.
    virtual void wait(int timeout_ms) = 0;
    /// What makes the wait() under way, or the next one, return. Who shares it may signal it after the engine's end.
    [[nodiscard]] virtual const std::shared_ptr<const wake_event>& waker() const noexcept = 0;
    /// Threads: any; async-signal-safe.
    void wake() const noexcept { waker()->signal(); }
};

/// The engine for every kernel: epoll, edge-triggered, reports to `sink`. Throws: error(io).
[[nodiscard]] std::unique_ptr<engine> make_epoll_engine(engine_sink& sink);

/// Of one ring; powers of two.
struct uring_sizes {
    unsigned submissions = 1024;
    unsigned completions = 8192;  ///< not less than submissions
    std::uint16_t buffers = 1024;
    std::uint32_t buffer_bytes = 4096;
    std::uint32_t direct = ~std::uint32_t{0};  ///< at most so many connections in the ring's table (uring_files.hpp)
    int direct_from = -1;                      ///< those whose descriptor is not below; -1: the upper quarter
};

/// The engine for kernels from 6.1 on that allow io_uring: one system call a turn. Throws: error(unsupported) that says
/// in words why there is none here.
[[nodiscard]] std::unique_ptr<engine> make_uring_engine(engine_sink& sink, const uring_sizes& sizes = {});

/// Why no connection of io_uring can be kept in a table of the ring here, in words; empty where it can.
[[nodiscard]] std::string direct_lack();

}  // namespace holdfast::net
