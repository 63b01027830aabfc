// SPDX-License-Identifier: Apache-2.0
// http_mutation.hpp - streams of requests that nobody wrote: the table's, changed at random, and requests put together
// from the parts that smuggling is made of.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "http_requests.hpp"
#include "support/seed.hpp"

namespace holdfast::test {

/// One to three requests of the table with up to four changes.
[[nodiscard]] inline std::string mutated_requests(seeded_random& random) {
    constexpr std::string_view interesting = "\r\n\t :;,=%/?#[]@\"\\0159afAFgGxX-+_\x00\x01\x7f\x80\xff";
    std::string stream;
    for (std::uint64_t i = 0; i <= random.below(3); ++i)
        stream += request_cases[random.below(std::size(request_cases))].bytes;
    for (std::uint64_t i = random.below(5); i > 0 && !stream.empty(); --i) {
        const std::size_t at = random.below(stream.size());
        const char with = interesting[random.below(interesting.size())];
        switch (random.below(4)) {
            case 0: stream[at] = with; break;
            case 1: stream.insert(at, 1, with); break;
            case 2: stream.erase(at, 1 + random.below(4)); break;
            default: stream.insert(at, stream.substr(at, random.below(40))); break;
        }
    }
    return stream;
}

/// A request whose length two readers may see differently, and another one in what follows its head. Each part is as
/// it should be, or, with a chance of one in `tame`, one of the spellings that some server once took for it.
class smuggling_shapes {
 public:
    explicit smuggling_shapes(seeded_random& random, std::uint64_t tame = 12) : random_(random), tame_(tame) {}

    [[nodiscard]] std::string operator()() {
        static constexpr std::array methods{"POST", "POST", "PUT", "GET", "HEAD", "DELETE", "OPTIONS", "TRACE"};
        const std::string body = smuggled_body();
        const bool tunnel = random_.below(tame_ * 2) == 0;
        std::string out = tunnel ? "CONNECT a:80" : one_of(methods) + " /";
        out += " HTTP/" + odd("1.1", std::array{"1.0", "1.1", "2.0", "1.1 "}) + end_of_line();
        out += field("Host", tunnel ? "a:80" : "a");
        // CL.TE, TE.CL, TE.TE, CL.CL, one of them or none.
        switch (random_.below(tame_ / 2)) {
            case 0: out += length(body.size()) + coding(); break;
            case 1: out += coding() + length(random_.below(2) == 0 ? body.size() : random_.below(12)); break;
            case 2: out += coding() + coding(); break;
            case 3: out += length(body.size()) + length(random_.below(2) == 0 ? body.size() : 0); break;
            default: out += random_.below(2) == 0 ? coding() : length(body.size());
        }
        if (random_.below(tame_) == 0)
            out += field("Connection",
                         one_of(std::array{"close", "keep-alive", "x, close", "upgrade", "close, keep-alive"}));
        if (random_.below(tame_) == 0) out += field("Upgrade", "websocket");
        return out + end_of_line() + body + "GET /after HTTP/1.1\r\nHost: b\r\n\r\n";
    }

 private:
    template <std::size_t N>
    std::string one_of(const std::array<const char*, N>& from) {
        return from[random_.below(N)];
    }
    template <std::size_t N>
    std::string odd(std::string_view usual, const std::array<const char*, N>& odd_ones) {
        return random_.below(tame_) == 0 ? one_of(odd_ones) : std::string(usual);
    }
    std::string end_of_line() {
        return odd("\r\n", std::array{"\n", "\r", "\r\r\n", "\n\r", " \r\n", "\r\n ", "\r\n\t"});
    }

    std::string field(std::string_view name, std::string_view value) {
        std::string spelled(name);
        if (random_.below(tame_) == 0)
            for (char& c : spelled)
                if (c >= 'A' && c <= 'z' && random_.below(2) == 0) c = static_cast<char>(c ^ 0x20);
        if (random_.below(tame_) == 0)
            spelled.insert(random_.below(spelled.size() + 1), 1, " \t_-\x0b\r\n\x80"[random_.below(8)]);
        const std::string colon = odd(": ", std::array{" : ", "\t: ", ":", ":\t", ": \t ", "", ":\r\n ", ":\n ", "::"});
        std::string text(value);
        if (random_.below(tame_) == 0)
            text.insert(random_.below(text.size() + 1), 1, " \t,;\"\x0b\x0c\r\n+-"[random_.below(11)]);
        return spelled + colon + text + odd("", std::array{" ", "\t", " \t ", ","}) + end_of_line();
    }
    std::string coding() {
        return field(
            "Transfer-Encoding",
            odd("chunked", std::array{"Chunked", "CHUNKED", "xchunked", "chunkedx", "identity", "", "gzip, chunked",
                                      "chunked, gzip", "chunked, chunked", ",chunked", "chunked,", "chunked;q=1",
                                      "\"chunked\"", "gzip", "identity, chunked", "chunked, identity"}));
    }
    std::string length(std::size_t bytes) {
        const std::string digits = std::to_string(bytes);
        switch (random_.below(tame_ * 2)) {
            case 0: return field("Content-Length", "+" + digits);
            case 1: return field("Content-Length", "0" + digits);
            case 2: return field("Content-Length", digits + "," + digits);
            case 3: return field("Content-Length", digits + " " + digits);
            case 4: return field("Content-Length", "0x" + digits);
            case 5: return field("Content-Length", "18446744073709551616" + digits);
            case 6: return field("Content-Length", "");
            default: return field("Content-Length", digits);
        }
    }

    // Chunks, as a rule, that hold a request, or one behind them.
    std::string smuggled_body() {
        static constexpr std::string_view hidden = "GET /hidden HTTP/1.1\r\nHost: c\r\n\r\n";
        std::string out;
        for (std::uint64_t chunks = random_.below(3); chunks > 0; --chunks) {
            const std::string data = random_.below(3) == 0 ? std::string(hidden) : std::string(random_.below(20), 'x');
            if (!data.empty())
                out += chunk_size(data.size()) + data + odd("\r\n", std::array{"\n", "\r", "", "x", "\r\n\r\n"});
        }
        if (random_.below(tame_) != 0) out += chunk_size(0);
        while (random_.below(tame_ / 2) == 0)
            out += field(one_of(std::array{"X", "X-Y", "Content-Length", "Transfer-Encoding", "Host", "Expires"}), "1");
        out += end_of_line();
        if (random_.below(tame_ / 2) == 0) out += hidden;
        return out;
    }
    std::string chunk_size(std::size_t bytes) {
        static constexpr std::string_view digits = "0123456789abcdef";
        std::string hex;
        for (std::size_t left = bytes; left != 0 || hex.empty(); left /= 16) hex.insert(0, 1, digits[left % 16]);
        hex.insert(0, odd("", std::array{"0", "000", "0x", "+", "-", " ", "0000000000000000", "1000000000000000"}));
        return hex + odd("", std::array{";a", ";a=b", ";a=\"b\"",    ";a=\"\\\"\"", ";",     ";=",    ";a=",
                                        " ",  "\t",   " ;a",         "; a",         ";a =b", ";a= b", ";a;b=c",
                                        "\r", ";\n",  ";a=\"\r\n\"", ";a=\"b\"c",   "h",     ",",     ";a\rb"}) +
               end_of_line();
    }

    seeded_random& random_;
    std::uint64_t tame_;
};

}  // namespace holdfast::test
