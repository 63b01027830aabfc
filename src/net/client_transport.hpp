// SPDX-License-Identifier: Apache-2.0
// client_transport.hpp - what carries a client's bytes once a connection stands: plain, or by TLS (client_tls.cpp).
//
// The client owns the socket and waits for it; a transport moves bytes and says what to wait for. A call that cannot go
// on answers EAGAIN, and wants() then says for which event: TLS may have to write before it can read.
// (T1) ended means that the other side said in order that nothing more comes. A transport that can tell an attacker's
//      end from the peer's (close_notify) answers an error for the first: a body up to the end of the connection would
//      be cut otherwise.
// (T2) is_quiet() looks for what has come unasked, in the transport's own buffers too.
// (T3) What send() took has left: bytes that a transport still holds are not counted, and are offered to it again.
#pragma once

#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace holdfast::net {

class tls_session;

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
    /// Behind EAGAIN the next call begins with the same bytes.
    [[nodiscard]] virtual moved send(std::span<const iovec> bytes) noexcept = 0;
    /// Sends what the transport itself has to say. Returns: an errno; 0: nothing is left.
    [[nodiscard]] virtual int flush() noexcept { return 0; }
    /// Behind a call that answered EAGAIN: EPOLLIN or EPOLLOUT, where that is not the one that suggests itself; else 0.
    [[nodiscard]] virtual std::uint32_t wants() const noexcept { return 0; }
    /// Whether receive() has something of which the socket tells nothing any more.
    [[nodiscard]] virtual bool holds_input() const noexcept { return false; }
    /// Whether the connection still stands and nothing has come on it: fit for another request.
    [[nodiscard]] virtual bool is_quiet() noexcept = 0;
    /// Behind a call that answered another errno: why, in words, where the errno does not say it.
    [[nodiscard]] virtual std::string reason() const { return {}; }
    /// begin() was a short one, since both sides remembered an earlier connection.
    [[nodiscard]] virtual bool resumed() const noexcept { return false; }
};

// What TLS answers beside the errnos of sockets.
inline constexpr int tls_distrusted = EKEYREJECTED;  // the certificate is not believed
inline constexpr int tls_broken = EPROTO;            // the other side refused TLS, or broke its rules
inline constexpr int tls_cut = ECONNABORTED;         // the connection ended without close_notify

/// Plain bytes over a connected socket, which stays the caller's.
[[nodiscard]] std::unique_ptr<client_transport> make_plain_transport(int socket);
/// TLS over a connected socket, which stays the caller's, by a client's session. Says close_notify when it goes.
[[nodiscard]] std::unique_ptr<client_transport> make_tls_transport(int socket, std::unique_ptr<tls_session> session);

}  // namespace holdfast::net
