// SPDX-License-Identifier: Apache-2.0
// client_transport.hpp - what carries a client's bytes once a connection stands: the seam at which TLS is put in.
//
// The client owns the socket and waits for it; a transport moves bytes and says what to wait for. A call that cannot go
// on answers EAGAIN, and wants() then says for which event: TLS may have to write before it can read.
// (T1) ended means that the other side said in order that nothing more comes. A transport that can tell an attacker's
//      end from the peer's (close_notify) answers an error for the first: a body up to the end of the connection would
//      be cut otherwise.
// (T2) is_quiet() looks for what has come unasked, in the transport's own buffers too.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace holdfast::net {

class client_transport {
 public:
    struct moved {
        std::size_t bytes = 0;
        int error = 0;  // an errno; EAGAIN: nothing now
        bool ended = false;
    };

    virtual ~client_transport() = default;
    /// Called when the connection stands, and again for as long as it answers EAGAIN. Returns: an errno; 0: bytes may
    /// go.
    [[nodiscard]] virtual int begin() noexcept = 0;
    [[nodiscard]] virtual moved receive(std::span<char> into) noexcept = 0;
    [[nodiscard]] virtual moved send(std::span<const iovec> bytes) noexcept = 0;
    /// Behind a call that answered EAGAIN: EPOLLIN or EPOLLOUT, where that is not the one that suggests itself; else 0.
    [[nodiscard]] virtual std::uint32_t wants() const noexcept { return 0; }
    /// Whether receive() has something of which the socket tells nothing any more.
    [[nodiscard]] virtual bool holds_input() const noexcept { return false; }
    /// Whether the connection still stands and nothing has come on it: fit for another request.
    [[nodiscard]] virtual bool is_quiet() noexcept = 0;
};

/// Plain bytes over a connected socket, which stays the caller's.
[[nodiscard]] std::unique_ptr<client_transport> make_plain_transport(int socket);

}  // namespace holdfast::net
