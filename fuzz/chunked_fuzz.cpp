// SPDX-License-Identifier: Apache-2.0
// chunked_fuzz.cpp - any bytes as a chunked body, against a second decoder written straight from the grammar.
//
// The reference takes the whole input at once and backtracks freely; the decoder sees single bytes. They must agree on
// whether the input begins with a whole body, where it ends and what it says.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/net/chunked_decoder.hpp"
#include "holdfast/net/request.hpp"
#include "require.hpp"

namespace {

using namespace holdfast;
using fuzz::require;

// RFC 9112 section 7.1, rule by rule. Each function eats what its rule matches, or returns false.
struct reference {
    std::string_view rest;
    std::string body;

    bool eat(std::string_view text) {
        if (!rest.starts_with(text)) return false;
        rest.remove_prefix(text.size());
        return true;
    }
    void blanks() {
        while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\t')) rest.remove_prefix(1);
    }
    bool token(std::string* into = nullptr) {
        constexpr std::string_view allowed =
            "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        std::size_t n = 0;
        while (n < rest.size() && allowed.find(rest[n]) != std::string_view::npos) ++n;
        if (into != nullptr) *into = rest.substr(0, n);
        rest.remove_prefix(n);
        return n != 0;
    }
    static bool text_char(char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f); }
    bool quoted() {
        if (!eat("\"")) return false;
        while (!rest.empty() && rest[0] != '"') {
            if (rest[0] == '\\') rest.remove_prefix(1);
            if (rest.empty() || !text_char(rest[0])) return false;
            rest.remove_prefix(1);
        }
        return eat("\"");
    }
    bool extensions() {
        while (true) {
            const std::string_view before = rest;
            blanks();
            if (!eat(";")) return rest = before, true;
            blanks();
            if (!token()) return false;
            const std::string_view after_name = rest;
            blanks();
            if (!eat("=")) {
                rest = after_name;
                continue;
            }
            blanks();
            if (!quoted() && !token()) return false;
        }
    }
    std::optional<std::uint64_t> size() {
        std::size_t n = 0;
        while (n < rest.size() && std::string_view("0123456789abcdefABCDEF").find(rest[n]) != std::string_view::npos)
            ++n;
        if (n == 0 || n > 16) return std::nullopt;
        const std::uint64_t value = std::strtoull(std::string(rest.substr(0, n)).c_str(), nullptr, 16);
        rest.remove_prefix(n);
        return value;
    }
    bool trailers() {
        while (!eat("\r\n")) {
            std::string name;
            if (!token(&name) || !eat(":")) return false;
            for (const char* framing : {"content-length", "transfer-encoding", "host", "trailer"})
                if (net::equal_ignoring_case(name, framing)) return false;
            while (!rest.empty() && text_char(rest[0])) rest.remove_prefix(1);
            if (!eat("\r\n")) return false;
        }
        return true;
    }
    bool decode() {
        while (true) {
            const auto bytes = size();
            if (!bytes || !extensions() || !eat("\r\n")) return false;
            if (*bytes == 0) return trailers();
            if (*bytes > rest.size()) return false;
            body += rest.substr(0, *bytes);
            rest.remove_prefix(*bytes);
            if (!eat("\r\n")) return false;
        }
    }
};

struct outcome {
    net::chunked_decoder::status status;
    std::size_t end;
    std::string body;
    int refusal;
    bool operator==(const outcome&) const = default;
};

outcome decode_in_steps(std::string_view input, std::size_t step, const net::message_limits& limits) {
    net::chunked_decoder decoder(limits);
    std::string bytes(input);
    std::size_t read = 0;
    std::size_t write = 0;
    auto status = net::chunked_decoder::status::need_more;
    for (std::size_t known = 0; status == net::chunked_decoder::status::need_more && known < bytes.size();) {
        known = std::min(bytes.size(), known + step);
        status = decoder.decode({bytes.data(), known}, read, write);
        require(write <= read && read <= known, "positions in order");
        require(status != net::chunked_decoder::status::need_more || read == known, "I2: all consumed");
    }
    return {status, read, bytes.substr(0, write), decoder.refusal_status()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    const std::string input(data, data + bytes);
    constexpr std::size_t unlimited = std::size_t{1} << 40U;
    const net::message_limits generous{
        .body_bytes_max = unlimited, .chunk_extension_bytes_max = unlimited, .trailer_bytes_max = unlimited};
    const outcome whole = decode_in_steps(input, input.size() + 1, generous);
    for (const std::size_t step : {1U, 2U, 5U}) require(decode_in_steps(input, step, generous) == whole, "I1: cuts");

    reference model{.rest = input, .body = {}};
    const bool complete = model.decode();
    require(complete == (whole.status == net::chunked_decoder::status::complete), "the grammar decides");
    if (complete) {
        require(whole.end == input.size() - model.rest.size(), "the same end");
        require(whole.body == model.body, "the same data");
    }

    const net::message_limits small{.body_bytes_max = 20, .chunk_extension_bytes_max = 10, .trailer_bytes_max = 20};
    const outcome bounded = decode_in_steps(input, input.size() + 1, small);
    require(decode_in_steps(input, 1, small) == bounded, "I1 under limits");
    require(bounded.body.size() <= small.body_bytes_max, "the body's limit");
    return 0;
}
