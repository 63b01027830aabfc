// SPDX-License-Identifier: Apache-2.0
// websocket_trace.hpp - what the WebSocket reader makes of a stream of bytes, as text, however the stream is cut; and
// what a model, written rule by rule from RFC 6455 and given the whole stream at once, makes of it.
//
// The reader is driven by its contract alone: what kept() says goes to fresh memory of exactly its size with the next
// bytes behind it (a read past them or through a stale pointer shows under the address sanitizer).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/net/websocket_frame.hpp"
#include "holdfast/net/websocket_reader.hpp"
#include "support/inflate_model.hpp"

namespace holdfast::test {

/// One event as a line; long payloads by their size and hash.
[[nodiscard]] inline std::string websocket_line(std::string_view what, std::string_view payload) {
    std::string line(what);
    line.append(" ");
    if (payload.size() <= 200)
        line.append(payload);
    else
        line.append(std::to_string(payload.size()) + " bytes " +
                    std::to_string(std::hash<std::string_view>{}(payload)));
    return line + "\n";
}

class websocket_trace {
 public:
    explicit websocket_trace(net::websocket_role role, const net::websocket_limits& limits = {},
                             net::websocket_deflater* deflater = nullptr)
        : limits_(limits), reader_(role, limits, deflater) {}

    /// The next bytes of the stream, as one arrival.
    void feed(std::string_view bytes) {
        const std::size_t size = held_.size() + bytes.size();
        const auto exact = std::make_unique<char[]>(size);
        held_.copy(exact.get(), held_.size());
        bytes.copy(exact.get() + held_.size(), bytes.size());
        const std::span<char> all{exact.get(), size};
        using enum net::websocket_reader::event;
        while (true) {
            switch (reader_.next(all)) {
                case need_more: {
                    const std::span<char> kept = reader_.kept(all);
                    held_.assign(kept.data(), kept.size());
                    if (held_.size() > limits_.message_bytes_max + net::websocket_control_bytes_max) std::abort();
                    return;
                }
                case message:
                    text_ += websocket_line(reader_.is_text() ? "text" : "binary", reader_.payload(all));
                    break;
                case ping: text_ += websocket_line("ping", reader_.payload(all)); break;
                case pong: text_ += websocket_line("pong", reader_.payload(all)); break;
                case close:
                    text_ += websocket_line("close " + std::to_string(reader_.close_code()), reader_.payload(all));
                    break;
                case refused:
                    if (!refused_) text_ += "refused " + std::to_string(reader_.refusal_code()) + "\n";
                    refused_ = true;
                    held_.clear();
                    return;
            }
        }
    }

    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    [[nodiscard]] std::string_view reason() const noexcept { return reader_.refusal_reason(); }

 private:
    net::websocket_limits limits_;
    net::websocket_reader reader_;
    std::string held_;
    std::string text_;
    bool refused_ = false;
};

[[nodiscard]] inline std::string websocket_trace_in_steps(std::string_view stream, std::size_t step,
                                                          net::websocket_role role,
                                                          const net::websocket_limits& limits = {},
                                                          net::websocket_deflater* deflater = nullptr) {
    websocket_trace trace(role, limits, deflater);
    for (std::size_t at = 0; at < stream.size(); at += step) trace.feed(stream.substr(at, step));
    return trace.text();
}

/// Whether a well-formed text can begin with these bytes: `ended` asks for a whole text. (The Unicode Standard, table
/// 3-7, row by row.)
[[nodiscard]] inline bool model_utf8(std::string_view text, bool ended) {
    struct range {
        unsigned low, high;
    };
    constexpr range any{0x80, 0xBF};
    struct row {
        std::size_t size;
        std::array<range, 4> bytes;
    };
    static constexpr row rows[] = {{1, {{{0x00, 0x7F}}}},
                                   {2, {{{0xC2, 0xDF}, any}}},
                                   {3, {{{0xE0, 0xE0}, {0xA0, 0xBF}, any}}},
                                   {3, {{{0xE1, 0xEC}, any, any}}},
                                   {3, {{{0xED, 0xED}, {0x80, 0x9F}, any}}},
                                   {3, {{{0xEE, 0xEF}, any, any}}},
                                   {4, {{{0xF0, 0xF0}, {0x90, 0xBF}, any, any}}},
                                   {4, {{{0xF1, 0xF3}, any, any, any}}},
                                   {4, {{{0xF4, 0xF4}, {0x80, 0x8F}, any, any}}}};
    while (!text.empty()) {
        std::size_t taken = 0;
        for (const row& r : rows) {
            std::size_t fits = 0;
            while (fits < r.size && fits < text.size()) {
                const auto byte = static_cast<unsigned char>(text[fits]);
                if (byte < r.bytes[fits].low || byte > r.bytes[fits].high) break;
                ++fits;
            }
            if (fits == r.size) taken = fits;
            if (fits < r.size && fits == text.size()) return !ended;
        }
        if (taken == 0) return false;
        text.remove_prefix(taken);
    }
    return true;
}

/// The trace that a stream must give. `deflate`: was agreed on.
[[nodiscard]] inline std::string websocket_model(std::string_view rest, net::websocket_role role,
                                                 const net::websocket_limits& limits = {}, bool deflate = false) {
    std::string out, message, kind;
    bool deflated = false;
    const auto refused = [&out](int code) { return out + "refused " + std::to_string(code) + "\n"; };
    const auto byte = [&rest](std::size_t at) {
        return static_cast<std::uint64_t>(static_cast<unsigned char>(rest[at]));
    };
    const auto big_endian = [&](std::size_t at, std::size_t size) {
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < size; ++i) value = value * 256 + byte(at + i);
        return value;
    };
    while (!rest.empty()) {
        const bool last = byte(0) >= 128, control = byte(0) % 16 >= 8;
        const auto opcode = byte(0) % 16;
        const auto reserved = byte(0) / 16 % 8;
        if (reserved != 0 && !(deflate && reserved == 4 && (opcode == 1 || opcode == 2))) return refused(1002);
        if (opcode != 0 && opcode != 1 && opcode != 2 && opcode != 8 && opcode != 9 && opcode != 10)
            return refused(1002);
        if (control && !last) return refused(1002);
        if (!control && (opcode == 0) != !kind.empty()) return refused(1002);
        if (rest.size() < 2) return out;
        if ((byte(1) >= 128) != (role == net::websocket_role::server)) return refused(1002);
        std::uint64_t size = byte(1) % 128;
        if (control && (size > 125 || (opcode == 8 && size == 1))) return refused(1002);
        std::size_t at = 2;
        if (size > 125) {
            const std::size_t bytes = size == 126 ? 2 : 8;
            if (bytes == 8 && rest.size() > 2 && byte(2) >= 128) return refused(1002);
            if (rest.size() < 2 + bytes) return out;
            size = big_endian(2, bytes);
            if (size < (bytes == 2 ? 126U : 65536U)) return refused(1002);
            at += bytes;
        }
        if (!control && (size > limits.frame_bytes_max || message.size() + size > limits.message_bytes_max))
            return refused(1009);
        std::string key(4, '\0');
        if (role == net::websocket_role::server) {
            if (rest.size() < at + 4) return out;
            key = rest.substr(at, 4);
            at += 4;
        }
        std::string payload(rest.substr(at, static_cast<std::size_t>(size)));
        const bool whole = payload.size() == size;
        for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(payload[i] ^ key[i % 4]);
        rest.remove_prefix(at + payload.size());
        if (!control) {
            if (opcode != 0) {
                kind = opcode == 1 ? "text" : "binary";
                deflated = reserved != 0;
            }
            message += payload;
            if (kind == "text" && !deflated && !model_utf8(message, whole && last)) return refused(1007);
            if (!whole) return out;
            if (!last) continue;
            if (deflated) {
                const inflated_message says = inflate_model::of(message, limits.message_bytes_max);
                if (says.verdict == inflated::too_big) return refused(1009);
                if (says.verdict == inflated::corrupt) return refused(1007);
                message = says.message;
                if (kind == "text" && !model_utf8(message, true)) return refused(1007);
            }
            out += websocket_line(kind, message);
            message.clear();
            kind.clear();
        } else if (!whole) {
            return out;
        } else if (opcode == 8) {
            if (payload.empty()) return out + websocket_line("close 1005", "");
            const unsigned code =
                static_cast<unsigned char>(payload[0]) * 256U + static_cast<unsigned char>(payload[1]);
            const bool known = code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006;
            if (!known && (code < 3000 || code > 4999)) return refused(1002);
            if (!model_utf8(payload.substr(2), true)) return refused(1007);
            return out + websocket_line("close " + std::to_string(code), payload.substr(2));
        } else {
            out += websocket_line(opcode == 9 ? "ping" : "pong", payload);
        }
    }
    return out;
}

/// A frame byte by byte, also such as nobody may send. `first`: its first byte. `length_form`: 0, 2 or 8 bytes of
/// length behind the second byte; -1: the shortest.
[[nodiscard]] inline std::string raw_frame(unsigned first, std::string_view payload, bool masked, int length_form = -1,
                                           std::string_view key = "\x37\xFA\x21\x3D") {
    if (length_form < 0) length_form = payload.size() <= 125 ? 0 : payload.size() <= 0xFFFF ? 2 : 8;
    std::string frame(1, static_cast<char>(first));
    const std::size_t seven = length_form == 0 ? payload.size() : length_form == 2 ? 126 : 127;
    frame.push_back(static_cast<char>(seven | (masked ? 0x80U : 0U)));
    for (int i = length_form - 1; i >= 0; --i)
        frame.push_back(static_cast<char>(std::uint64_t{payload.size()} >> (8 * i) & 0xFFU));
    if (masked) frame.append(key);
    for (std::size_t i = 0; i < payload.size(); ++i)
        frame.push_back(masked ? static_cast<char>(payload[i] ^ key[i % 4]) : payload[i]);
    return frame;
}

}  // namespace holdfast::test
