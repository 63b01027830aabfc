// SPDX-License-Identifier: Apache-2.0
// http_parser_fuzz.cpp - any bytes as a stream of requests: no cut may change the answer, and what is understood must
// be as request.hpp promises.
//
// The input is the stream itself, so that a corpus file is a request one can read. The cuts come from a hash of it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "../tests/support/http_trace.hpp"
#include "holdfast/net/http_parser.hpp"
#include "holdfast/net/uri.hpp"
#include "require.hpp"

namespace {

using namespace holdfast;
using fuzz::require;

void check_promises(std::string_view stream, const net::message_limits& limits) {
    net::request_parser parser(limits);
    std::string bytes(stream);
    if (parser.parse(bytes) != net::parse_status::complete) return;
    const net::request& r = parser.message();
    require(parser.consumed() <= bytes.size() && parser.consumed() == r.wire_bytes(), "consumed() is what it took");
    require(std::string_view(bytes).substr(parser.consumed()) == stream.substr(parser.consumed()),
            "I3: the rest is untouched");
    require(r.target().size() <= limits.target_bytes_max && r.body().size() <= limits.body_bytes_max, "limits hold");
    require(r.headers_size() <= limits.headers_max, "limits hold");
    require(r.minor_version() == 0 || r.header_count("host") == 1, "one Host in HTTP/1.1");
    require(r.header_count("content-length") + r.header_count("transfer-encoding") <= 1, "one framing");
    for (std::size_t i = 0; i < r.headers_size(); ++i)
        require(r.header_at(i).value.find_first_of(std::string_view("\0\r\n", 3)) == std::string_view::npos,
                "clean values");
    switch (r.form()) {
        case net::target_form::asterisk: return require(r.path() == "*", "path of the asterisk form");
        case net::target_form::authority: return require(r.method() == net::method::connect, "authority form");
        default: break;
    }
    require(net::split_path(r.path()).has_value(), "every path can be taken apart");
}

void check(std::string_view stream, const net::message_limits& limits) {
    check_promises(stream, limits);
    const std::string whole = test::trace_whole(stream, limits);
    require(test::trace_in_steps(stream, 1, limits) == whole, "I1: byte by byte");
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : stream) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    require(test::trace_cut_at(stream, stream.empty() ? 0 : hash % stream.size(), limits) == whole, "I1: one cut");
    require(test::trace_in_steps(stream, 2 + (hash >> 32U) % 13, limits) == whole, "I1: steps");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    const std::string stream(data, data + bytes);
    check(stream, {});
    check(stream, {.target_bytes_max = 24,
                   .header_bytes_max = 120,
                   .headers_max = 4,
                   .body_bytes_max = 16,
                   .chunk_extension_bytes_max = 12,
                   .trailer_bytes_max = 16});
    return 0;
}
