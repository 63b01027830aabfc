// SPDX-License-Identifier: Apache-2.0
// http_conditions_fuzz.cpp - any bytes as a date, a tag, a range, and as the fields of a conditional request.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/net/conditional.hpp"
#include "holdfast/net/http_date.hpp"
#include "holdfast/net/http_parser.hpp"
#include "holdfast/net/range.hpp"
#include "require.hpp"

namespace {

using namespace holdfast::net;
using holdfast::fuzz::require;

void date(std::string_view text) {
    const auto read = parse_http_date(text, 1'795'392'000);
    if (!read) return;
    std::string again;
    append_http_date(again, *read);
    require(parse_http_date(again) == read, "what was read is written and read again");
}

void ranges(std::string_view field, std::uint64_t size) {
    const range_selection found = select_ranges(field, size);
    require(found.ranges.empty() == (found.verdict != range_verdict::partial), "206 has ranges, others have none");
    require(found.ranges.size() <= ranges_max_by_default, "the number of ranges is bounded");
    std::uint64_t sum = 0;
    for (const byte_range& each : found.ranges) {
        require(each.first <= each.last && each.last < size, "a range lies inside");
        sum += each.bytes();
        for (const byte_range& other : found.ranges)
            require(&each == &other || each.last < other.first || other.last < each.first, "ranges do not overlap");
    }
    require(sum <= size, "no more is sent than there is");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    const std::string text(data, data + bytes);
    date(text);
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{10000}, ~std::uint64_t{0}})
        ranges(text, size);
    const auto tag = parse_entity_tag(text);
    if (tag) require(text == (tag->weak ? "W/" : "") + std::string(tag->opaque), "a tag is all of its text");

    for (const char* name : {"GET", "PUT"}) {
        std::string whole = std::string(name) + " / HTTP/1.1\r\nHost: a\r\n" + text + "\r\n\r\n";
        request_parser parser;
        if (parser.parse(whole) != parse_status::complete) continue;
        const validators current{.tag = "\"a\"", .modified_s = 784111777, .modified_is_strong = true};
        const condition verdict = judge_conditions(parser.message(), current);
        require(verdict != condition::not_modified || whole.starts_with("GET"), "304 is for those who read");
        response answer;
        answer.body("0123456789");
        answer_representation(parser.message(), current, "text/plain", answer);
        require(whole.starts_with("GET") || answer.status() == 200, "what changes things judges by itself");
        require(answer.status() != 206 || answer.fields().find("Content-") != std::string_view::npos,
                "206 says of what");
    }
    return 0;
}
