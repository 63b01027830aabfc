// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/response.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"

namespace {

using namespace holdfast;
using namespace std::string_view_literals;
using net::response;

std::string json(std::string_view text) {
    std::string out;
    net::append_json_string(out, text);
    return out;
}

// What stands for itself is copied many bytes at a time: what does not is found wherever it is.
TEST(JsonString, WhatHasToBeEscapedIsFoundAtEachPlace) {
    const std::vector<std::pair<std::string_view, std::string_view>> escaped = {
        {"\"", R"(\")"},          {"\\", R"(\\)"},
        {"\x1f", R"(\u001f)"},    {"\x7f", R"(\u007f)"},
        {"\0"sv, R"(\u0000)"},    {"\n", R"(\u000a)"},
        {"\xff", "\xEF\xBF\xBD"}, {"\xc3\xa4", "\xc3\xa4"},
        {"\x80", "\xEF\xBF\xBD"}, {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"}};
    for (const auto& [raw, told] : escaped)
        for (std::size_t before = 0; before < 40; ++before)
            for (const std::size_t after : {std::size_t{0}, std::size_t{1}, std::size_t{15}, 40 - before}) {
                const std::string front(before, '~');
                const std::string back(after, ' ');
                EXPECT_EQ(json(front + std::string(raw) + back), "\"" + front + std::string(told) + back + "\"");
            }
    EXPECT_EQ(json({}), "\"\"");
}

TEST(Response, CollectsFieldsInOrder) {
    response r;
    r.status(201).header("A", "1").header("B", "").header("A", "2\t3");
    EXPECT_EQ(r.status(), 201);
    EXPECT_EQ(r.fields(), "A: 1\r\nB: \r\nA: 2\t3\r\n");
}

// A handler that passes on what a client sent must not let it forge fields or a second response.
TEST(Response, RefusesFieldsThatWouldBreakTheMessage) {
    response r;
    for (const std::string_view value : {"a\r\nX: y"sv, "a\n"sv, "\r"sv, "a\0b"sv, "\x7f"sv, "\x01"sv})
        EXPECT_THROW(r.header("X", value), error);
    for (const std::string_view name : {""sv, "a b"sv, "a:"sv, "a\r\n"sv, "\xc3\xa4"sv})
        EXPECT_THROW(r.header(name, "v"), error);
    for (const std::string_view name : {"Content-Length", "content-length", "Transfer-Encoding", "CONNECTION", "Date"})
        EXPECT_THROW(r.header(name, "1"), error);
    EXPECT_EQ(r.fields(), "");
}

TEST(Response, AddsFieldsThatWerePreparedInOrder) {
    const net::prepared_header prepared("B", "2");
    response r;
    r.header("A", "1").header(prepared).header("C", "").header(prepared);
    EXPECT_EQ(r.fields(), "A: 1\r\nB: 2\r\nC: \r\nB: 2\r\n");
}

TEST(Response, AFieldThatIsPreparedIsLookedAtThen) {
    EXPECT_THROW(net::prepared_header("X", "a\r\nX: y"), error);
    EXPECT_THROW(net::prepared_header("", "v"), error);
    EXPECT_THROW(net::prepared_header("a b", "v"), error);
    EXPECT_THROW(net::prepared_header("Content-Length", "1"), error);
}

TEST(Response, RefusesStatusesThatAreNotFinal) {
    response r;
    for (const int code : {-1, 0, 99, 100, 199, 600, 1000}) EXPECT_THROW(r.status(code), error) << code;
    EXPECT_NO_THROW(r.status(599));
}

TEST(Response, ProblemReplacesWhatWasThere) {
    response r;
    r.header("X", "y").body("text").problem(404, "no such \"key\"");
    EXPECT_EQ(r.fields(), "Content-Type: application/problem+json\r\n");
    EXPECT_EQ(r.body(),
              "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,\"detail\":\"no such \\\"key\\\"\"}\n");
}

TEST(Response, ResetIsABare200) {
    response r;
    r.status(404).header("X", "y").route(3).close().body(std::string(1U << 20U, 'x'));
    r.reset();
    EXPECT_EQ(r.status(), 200);
    EXPECT_EQ(r.fields(), "");
    EXPECT_EQ(r.body(), "");
    EXPECT_EQ(r.route(), 0);
    EXPECT_FALSE(r.closes());
    EXPECT_LE(r.body_buffer().capacity(), 256U << 10U) << "a huge body is not kept";
}

TEST(Response, JsonTextIsEscapedAndAlwaysUtf8) {
    EXPECT_EQ(json("plain"), "\"plain\"");
    EXPECT_EQ(json("\"\\\n\x01\x7f"), R"("\"\\\u000a\u0001\u007f")");
    EXPECT_EQ(json("\xc3\xa4\xf0\x9f\x98\x80"), "\"\xc3\xa4\xf0\x9f\x98\x80\"");
    EXPECT_EQ(json("\xff|\xc3|\xed\xa0\x80"), "\"\xEF\xBF\xBD|\xEF\xBF\xBD|\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

}  // namespace
