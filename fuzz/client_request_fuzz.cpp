// SPDX-License-Identifier: Apache-2.0
// client_request_fuzz.cpp - any text as URL, field and value of a request, against the server's own parser.
//
// The input is split at its first two zero bytes. What the client would send has to be exactly one request to that
// parser, with these fields and no other; everything else has to be refused before.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/net/http_parser.hpp"
#include "net/client_url.hpp"
#include "require.hpp"

namespace {

using namespace holdfast;
using fuzz::require;

std::string take_part(std::string_view& rest) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    std::string part(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return part;
}

net::message_limits unlimited() {
    net::message_limits limits;
    limits.target_bytes_max = limits.header_bytes_max = std::size_t{1} << 30U;
    return limits;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    const std::string input(data, data + bytes);
    std::string_view rest = input;
    net::client_request asked;
    asked.method = "DELETE";
    asked.url = take_part(rest);
    const std::string name = take_part(rest);
    asked.headers = {{name, std::string(rest)}};

    net::client_url url;
    if (!parse_client_url(asked.url, url).empty()) return 0;
    std::string head;
    if (!make_request_head(asked, url, head).empty()) {
        asked.headers.clear();
        head.clear();
        require(make_request_head(asked, url, head).empty(), "the field alone was wrong");
    }

    net::request_parser parser(unlimited());
    require(parser.parse(std::span(head)) == net::parse_status::complete, "one whole request");
    const net::request& made = parser.message();
    require(made.wire_bytes() == head.size(), "and nothing behind it");
    require(made.method() == net::method::delete_ && made.target() == url.target, "with this method and target");
    require(made.host() == url.authority() && made.header_count("host") == 1, "of this host");
    require(made.body().empty() && made.headers_size() == 1 + asked.headers.size(), "without a body");
    if (!asked.headers.empty()) {
        const net::header_field last = made.header_at(made.headers_size() - 1);
        require(last.name == name && last.value == asked.headers[0].second, "and the field as given");
    }
    return 0;
}
