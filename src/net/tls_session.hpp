// SPDX-License-Identifier: Apache-2.0
// tls_session.hpp - one connection's TLS, bytes in and bytes out, blind to sockets. tls_openssl.cpp makes it of
// OpenSSL, tls.cpp of it a server's side and tls_trust.cpp a client's.
//
// (T1) No call waits. Input is consumed from the front of the span that is given; what belongs to a record that is not
//      whole is kept inside.
// (T2) What is to be sent is appended to `output`, whatever the answer: also alerts, and answers to key updates.
// (T3) After `failed` no call does anything; after `ended` writing goes on.
// (T4) Between calls a session that has shaken hands keeps a record that is not whole (17 KiB at most) and no other
//      buffer; a server's that has not, a handshake message of client_message_bytes_max at most.
// (T5) A server's session that has shaken hands fails where more than tls_silent_records_max records in a row bring
//      nothing to read: key updates, each of which costs new keys and perhaps an answer, and which OpenSSL does not
//      bound. As many are what BoringSSL bears.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/net/tls.hpp"
#include "holdfast/net/tls_trust.hpp"

namespace holdfast::net {

inline constexpr std::uint32_t tls_silent_records_max = 32;

enum class tls_status : std::uint8_t {
    more,    ///< all input is consumed, and more is needed
    done,    ///< the handshake is made; or bytes were read
    ended,   ///< the peer said close_notify: nothing of what follows is read
    failed,  ///< the peer broke the rules, or does not agree with us; `output` says so to it
};

/// What a client has of a server for the next handshakes with it: tickets, the newest kept_max of them. Each is used
/// once, as TLS 1.3 wants it; one of TLS 1.2 until there is another. One origin's and one trust's: a session that is
/// resumed was verified as these say.
/// Threads: one at a time.
class tls_memory {
 public:
    static constexpr std::size_t kept_max = 4;
    /// A certificate is looked at again at least so often: a ticket counts from the handshake that showed one, however
    /// many were resumed since.
    static constexpr std::int64_t kept_s = 24 * 3600;

    using clock = std::int64_t (*)();  ///< seconds

    virtual ~tls_memory() = default;
    [[nodiscard]] virtual std::size_t size() const noexcept = 0;
};

class tls_session {
 public:
    struct got {
        tls_status status = tls_status::more;
        std::size_t bytes = 0;  ///< with `done` alone
    };

    /// A server's side of a new connection. Returns: nothing where memory lacks.
    [[nodiscard]] static std::unique_ptr<tls_session> begin(const tls_listener& listener);
    /// A client's side, towards `host`, a name or a literal address, which the certificate has to be for. `memory` is
    /// of remember() or none. Returns: nothing where memory lacks.
    [[nodiscard]] static std::unique_ptr<tls_session> connect(const tls_trust& trust, const std::string& host,
                                                              std::shared_ptr<tls_memory> memory);
    /// `now_s` tells the time for kept_s; none: the time of day. Returns: nothing in a build without TLS.
    [[nodiscard]] static std::shared_ptr<tls_memory> remember(tls_memory::clock now_s = nullptr);
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
    /// Nothing of a record has come whose rest is to come, and nothing is left of one that was read in part.
    [[nodiscard]] virtual bool is_between_records() const noexcept = 0;

    /// A client's side, behind `failed`: why, in words for a log; and whether it is the certificate.
    [[nodiscard]] virtual std::string reason() const { return {}; }
    [[nodiscard]] virtual bool distrusts() const noexcept { return false; }
};

}  // namespace holdfast::net
