// SPDX-License-Identifier: Apache-2.0
// websocket_client.hpp - a blocking client for tests that speaks WebSocket frames on its own, apart from the code under
// test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/net/websocket_frame.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"

namespace holdfast::test {

inline constexpr std::string_view upgrade_fields =
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    "dGhlIHNhbXBsZSBub25jZQ==\r\n";
inline constexpr net::websocket_key client_key{0x37, 0xfa, 0x21, 0x3d};

[[nodiscard]] inline std::string frame(net::websocket_opcode opcode, std::string_view payload, bool last = true) {
    std::string bytes;
    net::append_websocket_frame(bytes, opcode, last, payload, &client_key);
    return bytes;
}
[[nodiscard]] inline std::string text(std::string_view payload) { return frame(net::websocket_opcode::text, payload); }
[[nodiscard]] inline std::string close_frame(std::uint16_t code, std::string_view reason = {}) {
    std::string body{static_cast<char>(code >> 8U), static_cast<char>(code & 0xFFU)};
    return frame(net::websocket_opcode::close, body.append(reason));
}

struct received_frame {
    unsigned first = 0;  // the byte with FIN and opcode
    std::string payload;
    [[nodiscard]] std::uint16_t code() const {
        return payload.size() < 2 ? 0
                                  : static_cast<std::uint16_t>(static_cast<unsigned char>(payload[0]) << 8U |
                                                               static_cast<unsigned char>(payload[1]));
    }
};

/// A client that has asked for a WebSocket; it reads frames on its own, apart from the code under test.
class websocket_client : public http_client {
 public:
    explicit websocket_client(std::uint16_t port, std::string_view more = {}, options wanted = {},
                              std::string_view fields = {}, std::string_view target = "/")
        : http_client(port, wanted) {
        send(test::get(target, std::string(upgrade_fields).append(fields)).append(more));
        opened();
    }
    void opened() {
        answer = reply();
        EXPECT_EQ(answer.status, 101) << answer.body;
        EXPECT_EQ(answer.field("Sec-WebSocket-Accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
    http_reply answer;  // of the handshake
    received_frame next() {
        received_frame got;
        std::string head = take(2);
        got.first = static_cast<unsigned char>(head[0]);
        std::uint64_t size = static_cast<unsigned char>(head[1]);
        EXPECT_LT(size, 128U) << "a server masked a frame";
        if (size >= 126) {
            head = take(size == 126 ? 2 : 8);
            size = 0;
            for (const char c : head) size = size << 8U | static_cast<unsigned char>(c);
        }
        got.payload = take(static_cast<std::size_t>(size));
        return got;
    }
    void expect(unsigned first, std::string_view payload) {
        const received_frame got = next();
        EXPECT_EQ(got.first, first);
        ASSERT_EQ(got.payload.size(), payload.size());
        EXPECT_TRUE(got.payload == payload);
    }
};

inline constexpr unsigned final_text = 0x81, final_binary = 0x82, final_close = 0x88, final_ping = 0x89,
                          final_pong = 0x8A;

}  // namespace holdfast::test
