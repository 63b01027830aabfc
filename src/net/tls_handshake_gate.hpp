// SPDX-License-Identifier: Apache-2.0
// tls_handshake_gate.hpp - looks at what a client sends before it encrypts, for handshake messages that are too long.
//
// OpenSSL makes room for a message, 128 KiB of a ClientHello, as soon as its first four bytes have claimed that length.
// Nine bytes for 128 KiB is too good a bargain for whoever opens many connections.
//   record   type (22 handshake, 20 change of cipher, 23 encrypted), version (2), length (2), payload
//   message  type, length (3), body; a message may span records, and a record may hold several
// Source: RFC 8446 sections 4 and 5.1, RFC 5246 sections 6.2.1 and 7.4.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace holdfast::net {

class tls_handshake_gate {
 public:
    static constexpr std::size_t client_message_bytes_max = 16U << 10U;  // a ClientHello of today has 0.3 to 2 KiB

    /// Looks at the next bytes of the stream. `stays_plain`: a change of cipher means nothing (TLS 1.3, where it is
    /// there for the sake of middleboxes and encrypted records have a type of their own). Returns: false for a message
    /// that is too long.
    [[nodiscard]] bool pass(std::span<const char> bytes, bool stays_plain) noexcept {
        while (!bytes.empty() && !over_) {
            if (payload_left_ == 0) {
                take_header(bytes, 5);
                if (header_bytes_ < 5) return true;
                header_bytes_ = 0;
                type_ = static_cast<std::uint8_t>(header_ >> 32U);
                payload_left_ = header_ & 0xFFFFU;
                header_ = 0;
                over_ = type_ == change_of_cipher && !stays_plain;
                continue;
            }
            const std::size_t here = std::min(payload_left_, bytes.size());
            if (type_ == handshake && !look(bytes.first(here))) return false;
            bytes = bytes.subspan(here);
            payload_left_ -= here;
        }
        return true;
    }

 private:
    static constexpr std::uint8_t change_of_cipher = 20;
    static constexpr std::uint8_t handshake = 22;

    void take_header(std::span<const char>& bytes, unsigned wanted) noexcept {
        while (header_bytes_ < wanted && !bytes.empty()) {
            header_ = header_ << 8U | static_cast<unsigned char>(bytes.front());
            ++header_bytes_;
            bytes = bytes.subspan(1);
        }
    }

    bool look(std::span<const char> payload) noexcept {
        while (!payload.empty()) {
            const std::size_t skipped = std::min(message_left_, payload.size());
            message_left_ -= skipped;
            payload = payload.subspan(skipped);
            for (; message_left_ == 0 && !payload.empty(); payload = payload.subspan(1)) {
                message_ = message_ << 8U | static_cast<unsigned char>(payload.front());
                if (++message_bytes_ < 4) continue;
                message_bytes_ = 0;
                message_left_ = message_ & 0xFFFFFFU;
                message_ = 0;
                if (message_left_ > client_message_bytes_max) return false;
            }
        }
        return true;
    }

    std::uint64_t header_ = 0;  // of a record, as far as it has come
    std::uint32_t message_ = 0;
    std::uint8_t header_bytes_ = 0;
    std::uint8_t message_bytes_ = 0;
    std::uint8_t type_ = 0;
    bool over_ = false;  // the client encrypts
    std::size_t payload_left_ = 0;
    std::size_t message_left_ = 0;
};

}  // namespace holdfast::net
