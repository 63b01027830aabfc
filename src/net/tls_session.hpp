// SPDX-License-Identifier: Apache-2.0
// tls_session.hpp - one connection's TLS, bytes in and bytes out, blind to sockets. tls.cpp makes it of OpenSSL.
//
// (T1) No call waits. Input is consumed from the front of the span that is given; what belongs to a record that is not
//      whole is kept inside.
// (T2) What is to be sent is appended to `output`, whatever the answer: also alerts, and answers to key updates.
// (T3) After `failed` no call does anything; after `ended` writing goes on.
// (T4) Between calls a session that has shaken hands keeps a record that is not whole (17 KiB at most) and no other
//      buffer; one that has not, a handshake message of client_message_bytes_max at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/net/tls.hpp"

namespace holdfast::net {

enum class tls_status : std::uint8_t {
    more,    ///< all input is consumed, and more is needed
    done,    ///< the handshake is made; or bytes were read
    ended,   ///< the peer said close_notify: nothing of what follows is read
    failed,  ///< the peer broke the rules, or does not agree with us; `output` says so to it
};

class tls_session {
 public:
    struct got {
        tls_status status = tls_status::more;
        std::size_t bytes = 0;  ///< with `done` alone
    };

    /// A server's side of a new connection. Returns: nothing where memory lacks.
    [[nodiscard]] static std::unique_ptr<tls_session> begin(const tls_credentials& credentials);
    virtual ~tls_session() = default;

    /// Goes on with the handshake.
    [[nodiscard]] virtual tls_status shake(std::span<const char>& input, std::string& output) noexcept = 0;
    /// The handshake was an abbreviated one, by a ticket.
    [[nodiscard]] virtual bool resumed() const noexcept = 0;
    /// Reads from one record, as much as `into` holds.
    [[nodiscard]] virtual got read(std::span<const char>& input, std::span<char> into,
                                   std::string& output) noexcept = 0;
    /// Returns: false when this session has failed.
    [[nodiscard]] virtual bool write(std::string_view plain, std::string& output) noexcept = 0;
    /// Says close_notify; nothing is written afterwards.
    virtual void close(std::string& output) noexcept = 0;
};

}  // namespace holdfast::net
