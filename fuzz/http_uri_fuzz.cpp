// SPDX-License-Identifier: Apache-2.0
// http_uri_fuzz.cpp - any bytes as a path, a query and text to encode.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/net/response.hpp"
#include "holdfast/net/uri.hpp"
#include "require.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    using namespace holdfast::net;
    using holdfast::fuzz::require;
    const std::string text(data, data + bytes);

    std::string encoded;
    percent_encode(text, encoded);
    std::string decoded;
    require(percent_decode(encoded, decoded) && decoded == text, "encoding is undone by decoding");
    require(encoded.find_first_of("/?#[]@!$&'()*+,;=: \r\n\"") == std::string::npos, "encoded text is one segment");

    if (const auto segments = split_path(text)) {
        require(!text.empty() && text[0] == '/', "only absolute paths are split");
        std::string joined;
        for (const auto& segment : *segments) percent_encode(segment, joined.append("/"));
        auto again = split_path(joined);
        require(again && *again == *segments, "splitting loses nothing");
        again->insert(again->begin(), "left from before");
        require(split_path(text, *again) && *again == *segments, "what was there before changes nothing");
    }
    if (const auto query = query_parameters::parse(text)) {
        std::string joined;
        for (const auto& [name, value] : query->items()) {
            require(query->get(name) == value, "each name has its value");
            if (!joined.empty()) joined += '&';
            percent_encode(name, joined);
            percent_encode(value, joined.append("="));
        }
        const auto again = query_parameters::parse(joined);
        require(again && again->items() == query->items(), "parsing loses nothing");
    }
    std::string json;
    append_json_string(json, text);
    require(is_utf8(json), "JSON text is UTF-8");
    require(!is_utf8(text) || json.find("\xEF\xBF\xBD") == std::string::npos ||
                text.find("\xEF\xBF\xBD") != std::string::npos,
            "well-formed text is not replaced");
    for (const char c : json) require(static_cast<unsigned char>(c) >= 0x20, "control characters are escaped");
    return 0;
}
