// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/http_parser.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "http_mutation.hpp"
#include "http_requests.hpp"
#include "support/http_trace.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace std::string_literals;
using test::http_trace;
using test::request_case;
using test::trace_cut_at;
using test::trace_in_steps;
using test::trace_whole;

// Calls check(case) for each row of the table; a failure names its row.
template <class Check>
void for_each_case(Check&& check) {
    for (const request_case& c : test::request_cases) {
        SCOPED_TRACE(std::string(c.name));
        check(c);
        if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(HttpParserTable, AnswersAsTheGrammarSays) {
    for_each_case([](const request_case& c) {
        http_trace trace;
        trace.feed(c.bytes);
        if (c.expected > 0) {
            EXPECT_EQ(trace.refusal(), c.expected) << trace.text();
            EXPECT_EQ(trace.requests(), 0);
            EXPECT_FALSE(trace.reason().empty());
        } else {
            EXPECT_EQ(trace.refusal(), 0) << trace.text();
            EXPECT_EQ(trace.requests(), c.expected == 0 ? 1 : 0) << trace.text();
            EXPECT_EQ(trace.held() == 0, c.expected == 0);
        }
    });
}

TEST(HttpParserTable, AnswersAlikeHoweverTheBytesAreCut) {
    for_each_case([](const request_case& c) {
        const std::string whole = trace_whole(c.bytes);
        for (std::size_t cut = 1; cut < c.bytes.size(); ++cut)
            ASSERT_EQ(trace_cut_at(c.bytes, cut), whole) << "cut at " << cut;
        for (const std::size_t step : {1U, 2U, 3U, 7U})
            ASSERT_EQ(trace_in_steps(c.bytes, step), whole) << "steps of " << step;
    });
}

// A request that is understood must be understood behind others, and leave those behind it alone.
TEST(HttpParserTable, AnswersAlikeInAPipeline) {
    for_each_case([](const request_case& c) {
        if (c.expected < 0) return;  // what follows would become part of it
        const std::string before = "GET /before HTTP/1.1\r\nHost: x\r\n\r\n";
        const std::string after = "PUT /after HTTP/1.1\r\nHost: y\r\nContent-Length: 1\r\n\r\nz";
        const std::string stream = before + std::string(c.bytes) + after;
        std::string expected = trace_whole(before) + trace_whole(c.bytes);
        if (c.expected == 0) expected += trace_whole(after);
        EXPECT_EQ(trace_whole(stream), expected);
        for (const std::size_t step : {1U, 5U, 64U})
            ASSERT_EQ(trace_in_steps(stream, step), expected) << "steps of " << step;
    });
}

// The request of a stream that must hold exactly one; parsed in place so that its views stay valid.
struct parsed {
    explicit parsed(std::string text) : bytes(std::move(text)) { status = parser.parse(bytes); }
    std::string bytes;
    net::request_parser parser;
    net::parse_status status;
    const net::request& operator*() const { return parser.message(); }
    const net::request* operator->() const { return &parser.message(); }
};

// A parser remembers the last authority it found well formed, and judges every other one.
TEST(HttpParser, AnAuthorityLikeTheLastVouchesForNoOther) {
    const auto asking = [](const std::string& host) { return "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"; };
    for (const std::string& last : {"x:80"s, std::string(61, 'x'), std::string(62, 'x'), std::string(63, 'x')})
        for (const std::string& bad : {last + " y", last + "\"", "\"" + last.substr(1), last + "%", last + ":y"}) {
            http_trace trace;
            trace.feed(asking(last) + asking(last) + asking(last.substr(0, 1)) + asking(last) + asking(bad));
            EXPECT_EQ(trace.requests(), 4) << last;
            EXPECT_EQ(trace.refusal(), 400) << bad;
        }
}

// (I5) A parser remembers the fields of the last head: what comes behind it has to be read as by itself.
TEST(HttpParser, FieldsLikeTheLastOnesSayWhatTheySayByThemselves) {
    const std::array rests{"Host: a\r\n\r\n"s,
                           "Host: a\r\nAccept: application/json\r\nCookie:  k=v; l=w \r\n\r\n"s,
                           "Connection: close\r\nhost:a\r\n\r\n"s,
                           "Host: a\r\nConnection: keep-alive\r\n\r\n"s,
                           "Host: a\r\nExpect: 100-continue\r\n\r\n"s,
                           "Host: a\r\nContent-Length: 2\r\n\r\nGE"s,
                           "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nG\r\n0\r\n\r\n"s,
                           "Host: a\r\nX: " + std::string(2000, 'x') + "\r\n\r\n"};
    const std::array lines{"GET / HTTP/1.1\r\n"s,          "GET /long/er?q=%41&? HTTP/1.1\r\n"s,
                           "HEAD / HTTP/1.1\r\n"s,         "GET / HTTP/1.0\r\n"s,
                           "GET http://a/b HTTP/1.1\r\n"s, "GET /? HTTP/1.1\r\n"s,
                           "GET http://b/ HTTP/1.1\r\n"s,  "OPTIONS * HTTP/1.1\r\n"s};
    for (const std::string& rest : rests)
        for (const std::string& line : lines) {
            const std::string first = line + rest, alone = trace_whole(first);
            const bool taken = !alone.starts_with("refused");
            const auto check_behind = [&](const std::string& next) {
                ASSERT_EQ(trace_whole(first + next), alone + (taken ? trace_whole(next) : ""))
                    << testing::PrintToString(next);
            };
            const std::string other_head =
                "PUT / HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nz";
            for (const std::string& again : lines) {
                check_behind(again + rest);
                check_behind(other_head + again + rest);
            }
            for (std::size_t at = 0; at < std::min<std::size_t>(rest.size(), 200); ++at) {
                check_behind(lines[0] + rest.substr(0, at));
                for (const char other : {'\r', '\n', ' ', 'b', '\x01'}) {
                    std::string changed = lines[0] + rest;
                    changed[lines[0].size() + at] = other;
                    check_behind(changed);
                }
            }
        }
}

TEST(HttpParser, RequestOffersItsParts) {
    const parsed r(
        "PUT /v1/t/k%2F1?x=1&y HTTP/1.1\r\nHost: example.org:81\r\nX-One: 1\r\nx-two:  2 \r\nX-ONE: 3\r\n"
        "Content-Length: 4\r\n\r\nbody");
    ASSERT_EQ(r.status, net::parse_status::complete);
    EXPECT_EQ(r->method(), net::method::put);
    EXPECT_EQ(r->target(), "/v1/t/k%2F1?x=1&y");
    EXPECT_EQ(r->path(), "/v1/t/k%2F1");
    EXPECT_EQ(r->query(), "x=1&y");
    EXPECT_EQ(r->host(), "example.org:81");
    EXPECT_EQ(r->header("x-one"), "1");
    EXPECT_EQ(r->header("X-Two"), "2");
    EXPECT_EQ(r->header("x-three"), std::nullopt);
    EXPECT_EQ(r->header_count("X-one"), 2U);
    EXPECT_EQ(r->body(), "body");
    EXPECT_EQ(r->wire_bytes(), r.bytes.size());
    EXPECT_TRUE(r->keep_alive());
}

TEST(HttpParser, AbsoluteTargetGivesHostAndPath) {
    const parsed r("GET http://Example.org:81?q HTTP/1.1\r\nHost: example.org:81\r\n\r\n");
    ASSERT_EQ(r.status, net::parse_status::complete);
    EXPECT_EQ(r->form(), net::target_form::absolute);
    EXPECT_EQ(r->host(), "Example.org:81");
    EXPECT_EQ(r->path(), "/");
    EXPECT_EQ(r->query(), "q");
}

TEST(HttpParser, PersistenceFollowsVersionAndConnection) {
    const auto keeps = [](std::string version, std::string connection) {
        const parsed r("GET / HTTP/" + version + "\r\nHost: a\r\n" +
                       (connection.empty() ? "" : "Connection: " + connection + "\r\n") + "\r\n");
        EXPECT_EQ(r.status, net::parse_status::complete);
        return r->keep_alive();
    };
    EXPECT_TRUE(keeps("1.1", ""));
    EXPECT_FALSE(keeps("1.1", "close"));
    EXPECT_FALSE(keeps("1.1", "Keep-Alive, CLOSE"));
    EXPECT_FALSE(keeps("1.0", ""));
    EXPECT_TRUE(keeps("1.0", "keep-alive"));
    EXPECT_FALSE(keeps("1.0", "keep-alive, close"));
}

TEST(HttpParser, ChunkedBodyIsJoinedInPlace) {
    const parsed r(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n1;x\r\n \r\n5\r\nworld\r\n0\r\nT: u\r\n\r\n");
    ASSERT_EQ(r.status, net::parse_status::complete);
    EXPECT_EQ(r->body(), "hello world");
    EXPECT_EQ(r->wire_bytes(), r.bytes.size());
    EXPECT_EQ(r->header("T"), std::nullopt);
}

// I4: tiny chunks cost five bytes of framing each; none of it may be held.
TEST(HttpParser, ChunkFramingIsNotHeld) {
    http_trace trace;
    trace.feed("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::size_t head = trace.held();
    for (int i = 0; i < 1000; ++i) trace.feed("1\r\nx\r\n");
    EXPECT_EQ(trace.held(), head + 1000);
    trace.feed("0\r\n\r\n");
    EXPECT_EQ(trace.requests(), 1);
    EXPECT_NE(trace.text().find("wire=" + std::to_string(head + 6000 + 5)), std::string::npos) << trace.text();
}

std::string request_with(const std::string& target, const std::string& fields) {
    return "GET " + target + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}

TEST(HttpParser, LimitsHoldExactlyAtTheirByte) {
    net::message_limits limits;
    limits.target_bytes_max = 20;
    limits.header_bytes_max = 200;
    limits.headers_max = 3;
    limits.body_bytes_max = 10;
    limits.chunk_extension_bytes_max = 8;
    limits.trailer_bytes_max = 12;
    const auto refusal = [&](const std::string& bytes) {
        http_trace trace(limits);
        trace.feed(bytes);
        EXPECT_EQ(trace_in_steps(bytes, 1, limits), trace.text());
        return trace.refusal();
    };
    EXPECT_EQ(refusal(request_with("/" + std::string(19, 'a'), "")), 0);
    EXPECT_EQ(refusal(request_with("/" + std::string(20, 'a'), "")), 414);
    EXPECT_EQ(refusal(request_with("/", "A: 1\r\nB: 2\r\n")), 0);
    EXPECT_EQ(refusal(request_with("/", "A: 1\r\nB: 2\r\nC: 3\r\n")), 431);
    const std::size_t bare = request_with("/", "A: \r\n").size();
    EXPECT_EQ(refusal(request_with("/", "A: " + std::string(200 - bare, 'x') + "\r\n")), 0);
    EXPECT_EQ(refusal(request_with("/", "A: " + std::string(201 - bare, 'x') + "\r\n")), 431);
    const std::string known = "A: " + std::string(199 - bare, 'x') + "\r\n";  // fields of the request before, too
    EXPECT_EQ(refusal(request_with("/", known) + request_with("/a", known)), 0);
    EXPECT_EQ(refusal(request_with("/", known) + request_with("/aa", known)), 431);
    EXPECT_EQ(refusal(request_with("/", "Content-Length: 10\r\n") + std::string(10, 'x')), 0);
    EXPECT_EQ(refusal(request_with("/", "Content-Length: 11\r\n")), 413);
    const std::string chunked = request_with("/", "Transfer-Encoding: chunked\r\n");
    EXPECT_EQ(refusal(chunked + "a\r\n0123456789\r\n0\r\n\r\n"), 0);
    EXPECT_EQ(refusal(chunked + "a\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n"), 413);
    EXPECT_EQ(refusal(chunked + "0;abcdef\r\n\r\n"), 0);
    EXPECT_EQ(refusal(chunked + "0;abcdefg\r\n\r\n"), 413);
    EXPECT_EQ(refusal(chunked + "1;abc\r\nx\r\n0;abc\r\n\r\n"), 413);
    EXPECT_EQ(refusal(chunked + "0\r\nX: 12345\r\n\r\n"), 0);
    EXPECT_EQ(refusal(chunked + "0\r\nX: 123456\r\n\r\n"), 431);
}

TEST(HttpParser, EndlessLineIsRefusedAtTheLimit) {
    for (const std::string& start :
         {"GET /"s, "GET / HTTP/1.1\r\nHost: a\r\nX"s, "GET / HTTP/1.1\r\nHost: a\r\nX: "s}) {
        http_trace trace;
        trace.feed(start);
        std::size_t fed = start.size();
        for (; trace.refusal() == 0 && fed < 20000; ++fed) trace.feed("a");
        EXPECT_EQ(trace.refusal(), start == "GET /" ? 414 : 431);
        EXPECT_LE(fed, 16384U);
    }
}

TEST(HttpParser, StartedOnlyOnceARequestHasBegun) {
    net::request_parser parser;
    std::string bytes;
    for (const char c : {'\r', '\n'}) {
        bytes += c;
        EXPECT_EQ(parser.parse(bytes), net::parse_status::need_more);
        EXPECT_FALSE(parser.started());
    }
    bytes += "G";
    EXPECT_EQ(parser.parse(bytes), net::parse_status::need_more);
    EXPECT_TRUE(parser.started());
    EXPECT_FALSE(parser.head_complete());
}

// Attacks I1: whatever the bytes, every way to cut them must be answered alike.
TEST(HttpParser, MutatedRequestsAreAnsweredAlikeHoweverCut) {
    test::seeded_random random;
    net::message_limits small;
    small.target_bytes_max = 64;
    small.header_bytes_max = 300;
    small.headers_max = 6;
    small.body_bytes_max = 64;
    test::smuggling_shapes shape(random);
    for (std::uint64_t round = 0; round < test::scaled(20000); ++round) {
        const std::string stream = random.below(4) == 0 ? shape() : test::mutated_requests(random);
        const net::message_limits limits = random.below(2) == 0 ? small : net::message_limits{};
        const std::string whole = trace_whole(stream, limits);
        ASSERT_EQ(trace_in_steps(stream, 1, limits), whole) << testing::PrintToString(stream);
        ASSERT_EQ(trace_cut_at(stream, random.below(stream.size() + 1), limits), whole)
            << testing::PrintToString(stream);
        http_trace ragged(limits);
        for (std::size_t at = 0; at < stream.size();) {
            const std::size_t piece = 1 + random.below(17);
            ragged.feed(std::string_view(stream).substr(at, piece));
            at += piece;
        }
        ASSERT_EQ(ragged.text(), whole) << testing::PrintToString(stream);
    }
}

}  // namespace
