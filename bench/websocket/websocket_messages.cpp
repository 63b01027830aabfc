// SPDX-License-Identifier: Apache-2.0
#include "websocket/websocket_messages.hpp"

#include <cstdint>

#include "holdfast/net/websocket_frame.hpp"

namespace holdfast::bench::websocket {

using workload::http::answer;
using workload::http::scan_status;

std::string opening_of(std::string_view path) {
    return "GET " + std::string(path) +
           " HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
}

http::load_protocol protocol_of(std::string_view path) { return {.opening = opening_of(path), .scan = scan_frame}; }

std::vector<http::exchange> make_messages(std::size_t bytes) {
    constexpr std::size_t count = 8;
    std::vector<http::exchange> messages(count);
    std::uint64_t state = bytes + 1;
    const auto random = [&state] {
        state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
        return state >> 33U;
    };
    for (http::exchange& one : messages) {
        one.body.resize(bytes);
        for (char& byte : one.body) byte = static_cast<char>(random());
        net::websocket_key key{};
        for (std::uint8_t& byte : key) byte = static_cast<std::uint8_t>(random());
        net::append_websocket_frame(one.request, net::websocket_opcode::binary, true, one.body, &key);
    }
    return messages;
}

scan_status scan_frame(std::string_view bytes, answer& out) noexcept {
    const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); };
    if (bytes.size() < 2) return scan_status::need_more;
    if (byte(0) != 0x82 || byte(1) > 127) return scan_status::malformed;
    std::size_t header = 2, size = byte(1);
    if (size > 125) {
        const std::size_t more = size == 126 ? 2 : 8;
        header += more;
        if (bytes.size() < header) return scan_status::need_more;
        size = 0;
        for (std::size_t i = 2; i < header; ++i) size = size << 8U | byte(i);
        if (size < (more == 2 ? 126U : 0x10000U) || size > (1U << 20U)) return scan_status::malformed;
    }
    if (bytes.size() - header < size) return scan_status::need_more;
    out.status = 200;
    out.body = bytes.substr(header, size);
    out.bytes = header + size;
    out.closes = false;
    return scan_status::complete;
}

}  // namespace holdfast::bench::websocket
