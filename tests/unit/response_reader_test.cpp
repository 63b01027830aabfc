// SPDX-License-Identifier: Apache-2.0
// What a client takes for a response, and where it ends: RFC 9112 section 6.3, however the bytes are cut.
#include "net/response_reader.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace holdfast;
using net::response_fault;
using status = net::response_reader::status;

constexpr std::string_view ok = "HTTP/1.1 200 OK\r\n";

std::string fault_name(response_fault fault) {
    switch (fault) {
        case response_fault::malformed: return "malformed";
        case response_fault::head_too_large: return "head too large";
        case response_fault::body_too_large: return "body too large";
        default: return "no fault";
    }
}

struct way_to_read {
    bool to_head = false;
    bool dropping = false;  // take the body as it comes
    net::message_limits limits = net::response_reader::generous();
};

// All responses of a stream fed in pieces of `step` bytes, as text: "200![body]{trailers}", "!" for one that closes.
std::string read_in_steps(std::string_view stream, std::size_t step, const way_to_read& way = {}) {
    net::response_reader reader(way.limits);
    std::string text, body;
    for (std::size_t at = 0; at <= stream.size(); at += step) {
        const bool ended = at + step > stream.size();
        reader.buffer().append(stream.substr(at, step));
        while (true) {
            const auto now = reader.next(way.to_head, ended);
            if (now == status::malformed) return text + fault_name(reader.fault());
            if (way.dropping && reader.has_head()) {
                body += reader.body();
                reader.drop_body();
            }
            if (now == status::need_more) break;
            if (!way.dropping) body = reader.body();
            text += std::to_string(reader.code()) + (reader.closes() ? "!" : "") + "[" + body + "]";
            if (!reader.trailers().empty()) text += "{" + std::string(reader.trailers()) + "}";
            body.clear();
            reader.drop();
            if (reader.buffer().empty()) break;
        }
    }
    return text + (reader.has_head() || !reader.buffer().empty() ? "cut off" : "");
}

void expect_reading(std::string_view stream, std::string_view expected, way_to_read way = {}) {
    for (const bool dropping : {false, true}) {
        way.dropping = dropping;
        for (std::size_t step = 1; step <= stream.size() + 1; ++step)
            ASSERT_EQ(read_in_steps(stream, step, way), expected) << stream << " in steps of " << step;
    }
}

std::string with(std::string_view fields, std::string_view behind = {}) {
    return std::string(ok).append(fields).append("\r\n").append(behind);
}

TEST(ResponseReader, ReadsEveryFramingHoweverCut) {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
         "200[hi]404[]"},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "204[]"},
        {"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "200[x]"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1\r\n!\r\n0\r\n\r\nHTTP/1.1 304 x\r\n\r\n",
         "200[hi!]304[]"},
        {"HTTP/1.1 200 OK\r\n\r\nto the end", "200![to the end]"},
        {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200[]"},
        {"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", "503![x]"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", "cut off"},
        {"HTTP/1.1 200 OK\r\nContent-Len", "cut off"},
    };
    for (const auto& [stream, expected] : cases) expect_reading(stream, expected);
}

TEST(ResponseReader, TakesNoOtherStatusOrVersion) {
    for (const std::string_view line :
         {"HTTP/1.1 000 x", "HTTP/1.1 099 x", "HTTP/1.1 600 x", "HTTP/1.1 999 x", "HTTP/1.1 20x x", "HTTP/1.1 2000 x",
          "HTTP/1.1 200", "HTTP/1.1  200 x", "HTTP/1.1 101 Switching Protocols", "HTTP/1.2 200 x", "HTTP/1.9 200 x",
          "HTTP/1.x 200 x", "HTTP/2.0 200 x", "http/1.1 200 x", "HTTP/1.1", "ICY 200 OK", "GET / HTTP/1.1", ""})
        expect_reading(std::string(line) + "\r\nContent-Length: 0\r\n\r\n", "malformed");
}

TEST(ResponseReader, RefusesWhatIsNoHttpAtItsFirstByte) {
    net::response_reader reader;
    reader.buffer() = "\x15\x03\x01";  // an alert of TLS
    EXPECT_EQ(reader.next(false, false), status::malformed);
    EXPECT_NE(reader.reason(), "");
}

TEST(ResponseReader, TakesNoBareLineEndsAndNoControlCharacters) {
    using namespace std::string_view_literals;
    for (const std::string_view head :
         {"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n"sv, "HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n"sv,
          "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 0\r\n\r\n"sv, "HTTP/1.1 200 OK\r\nA: b\r\r\nC: d\r\n\r\n"sv,
          "HTTP/1.1 200 OK\r\nA: b\rc\r\nContent-Length: 0\r\n\r\n"sv, "HTTP/1.1 200 O\0K\r\n\r\n"sv,
          "HTTP/1.1 200 OK\r\nA: b\0c\r\nContent-Length: 0\r\n\r\n"sv, "HTTP/1.1 200 OK\r\nA\0: b\r\n\r\n"sv,
          "HTTP/1.1 200 OK\r\nA: \x7f\r\n\r\n"sv, "HTTP/1.1 200 OK\n\n"sv, "HTTP/1.1 200 OK\r\nA: b\n\nbody"sv,
          "HTTP/1.1 200 OK\r\n folded\r\nA: b\r\n\r\n"sv, "HTTP/1.1 200 OK\r\nA : b\r\n\r\n"sv,
          "HTTP/1.1 200 OK\r\nA\r\n : b\r\n\r\n"sv, "HTTP/1.1 200 OK\r\nA: b\r\n c\x7f\r\n\r\n"sv,
          "HTTP/1.1 200 OK\r\nA: b\n c\r\n\r\n"sv, "HTTP/1.1 200 OK\r\nA: b\r c\r\n\r\n"sv,
          "HTTP/1.1 200 OK\r\n: b\r\n\r\n"sv, "HTTP/1.1 200 OK\r\nno colon\r\n\r\n"sv})
        expect_reading(head, "malformed");
}

// RFC 9112 section 5.2: a user agent must; a request with one stays refused (http_requests.hpp).
TEST(ResponseReader, UnfoldsValuesBeforeItJudgesThem) {
    net::response_reader reader;
    reader.buffer() = with("A: b \r\n\tc\r\n \t d\r\nB:\r\n", "\r\n x");
    ASSERT_EQ(reader.next(false, true), status::complete);
    EXPECT_EQ(reader.head(), with("A: b    c     d\r\nB:\r\n"));
    EXPECT_EQ(reader.body(), "\r\n x");

    expect_reading(with("Content-Length:\r\n 1\r\n", "x"), "200[x]");
    expect_reading(with("Content-Length: 1\r\n \t\r\n \r\n", "x"), "200[x]");
    expect_reading(with("Content-Length: 1\r\n 1\r\n", "x"), "malformed");
    expect_reading(with("Transfer-Encoding:\r\n\tchunked\r\n", "1\r\nx\r\n0\r\n\r\n"), "200[x]");
    expect_reading(with("Content-Length: 0\r\nConnection: keep-alive,\r\n close\r\n"), "200![]");
    expect_reading(with("A: b\r\n Content-Length: 1\r\nContent-Length: 0\r\n"), "200[]");
}

TEST(ResponseReader, LeavesNoDoubtAboutTheLength) {
    for (const std::string_view fields :
         {"Content-Length: x\r\n", "Content-Length: +1\r\n", "Content-Length: -1\r\n", "Content-Length:\r\n",
          "Content-Length: 1, 1\r\n", "Content-Length: 1 1\r\n", "Content-Length: 0x1\r\n",
          "Content-Length: 18446744073709551616\r\n", "Content-Length: 1\r\nContent-Length: 1\r\n",
          "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
          "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, gzip\r\n", "Transfer-Encoding: gzip\r\n",
          "Transfer-Encoding:\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
          "Transfer-Encoding: \"chunked\"\r\n", "Transfer-Encoding: chunked;q=1\r\n"})
        expect_reading(with(fields, "1\r\nx\r\n0\r\n\r\n"), "malformed");
    expect_reading("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "malformed");
    expect_reading(with("transfer-encoding:CHUNKED\r\n", "1\r\nx\r\n0\r\n\r\n"), "200[x]");
}

TEST(ResponseReader, HasNoBodyWhereThereIsNone) {
    const std::string next = with("Content-Length: 1\r\n", "x");
    expect_reading("HTTP/1.1 204 x\r\n\r\n" + next, "204[]200[x]");
    expect_reading("HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n" + next, "204[]200[x]");
    expect_reading("HTTP/1.1 304 x\r\nContent-Length: 7\r\n\r\n" + next, "304[]200[x]");
    // Section 6.1 allows it; who cannot be sure that no body follows does not use the connection again.
    expect_reading("HTTP/1.1 304 x\r\nTransfer-Encoding: chunked\r\n\r\n", "304![]");
    expect_reading("HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "malformed");
    expect_reading("HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\nHTTP/", "malformed");
    expect_reading("HTTP/1.1 100 x\r\nContent-Length: 5\r\n\r\nHTTP/", "malformed");
    expect_reading("HTTP/1.1 100 x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "malformed");

    const way_to_read head{.to_head = true};
    expect_reading(with("Content-Length: 7\r\n") + with("Transfer-Encoding: chunked\r\n") + with(""), "200[]200[]200[]",
                   head);
    way_to_read small = head;
    small.limits.body_bytes_max = 3;
    expect_reading(with("Content-Length: 7\r\n"), "200[]", small);
}

TEST(ResponseReader, JudgesWhetherTheConnectionGoesOn) {
    const auto ends = [](std::string_view version, std::string_view fields) {
        const std::string stream =
            "HTTP/1." + std::string(version) + " 200 OK\r\nContent-Length: 0\r\n" + std::string(fields) + "\r\n";
        return read_in_steps(stream, 1);
    };
    EXPECT_EQ(ends("1", ""), "200[]");
    EXPECT_EQ(ends("1", "Connection: keep-alive\r\n"), "200[]");
    EXPECT_EQ(ends("1", "Connection: Close\r\n"), "200![]");
    EXPECT_EQ(ends("1", "Connection: foo , close\r\n"), "200![]");
    EXPECT_EQ(ends("1", "Connection: foo\r\nConnection: ,close,\r\n"), "200![]");
    EXPECT_EQ(ends("1", "Connection: keep-alive, close\r\n"), "200![]");
    EXPECT_EQ(ends("1", "Connection: enclose\r\n"), "200[]");
    EXPECT_EQ(ends("1", "Connection: a b\r\n"), "malformed");
    EXPECT_EQ(ends("0", ""), "200![]");
    EXPECT_EQ(ends("0", "Connection: Keep-Alive\r\n"), "200[]");
    EXPECT_EQ(ends("0", "Connection: Keep-Alive, close\r\n"), "200![]");
}

TEST(ResponseReader, HandsOverTrailers) {
    const std::string chunked = with("Transfer-Encoding: chunked\r\n", "2;a=b\r\nhi\r\n0\r\n");
    expect_reading(chunked + "Digest: x\r\nB:\r\n\r\n" + with("Content-Length: 0\r\n"),
                   "200[hi]{Digest: x\r\nB:\r\n}200[]");
    expect_reading(chunked + "Content-Length: 1\r\n\r\n", "malformed");
    expect_reading(chunked + "A\r\n\r\n", "malformed");
    expect_reading(chunked + "A: b\r\n c\r\n\r\n", "malformed");
}

TEST(ResponseReader, KeepsToItsLimitsHoweverCut) {
    way_to_read small;
    small.limits.header_bytes_max = 60;
    small.limits.headers_max = 3;
    small.limits.body_bytes_max = 5;
    const std::string longest = with("Content-Length: 1\r\nA: " + std::string(60 - ok.size() - 26, 'a') + "\r\n", "x");
    ASSERT_EQ(longest.size(), 61U);
    expect_reading(longest, "200[x]", small);
    std::string longer = longest;
    longer.insert(longer.find(": a") + 2, "a");
    expect_reading(longer, "head too large", small);
    expect_reading(std::string(ok) + "A: " + std::string(200, 'a'), "head too large", small);
    std::string folded = longest;
    folded.replace(folded.find(": a") + 2, 4, "\r\n a");
    expect_reading(folded, "200[x]", small);
    folded.insert(folded.find("\r\n a") + 2, " ");
    expect_reading(folded, "head too large", small);
    std::string folds;
    for (int i = 0; i < 20; ++i) folds += "\r\n a";
    expect_reading(std::string(ok) + "A: " + folds, "head too large", small);
    expect_reading(with("A:1\r\nB:1\r\nContent-Length:0\r\n"), "200[]", small);
    expect_reading(with("A:1\r\nB:1\r\nC:1\r\nD:1\r\n"), "head too large", small);
    expect_reading(with("Content-Length: 5\r\n", "12345"), "200[12345]", small);
    expect_reading(with("Content-Length: 6\r\n", "123456"), "body too large", small);
    expect_reading(with("", "12345"), "200![12345]", small);
    expect_reading(with("", "123456"), "body too large", small);
    expect_reading(with("Transfer-Encoding: chunked\r\n", "3\r\n123\r\n3\r\n456\r\n0\r\n\r\n"), "body too large",
                   small);
}

TEST(ResponseReader, PassesOverABoundedNumberOfInterimResponses) {
    const std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
    std::string most;
    for (unsigned i = 0; i < net::response_reader::interim_max; ++i) most += interim;
    const std::string last = with("Content-Length: 0\r\n");
    EXPECT_EQ(read_in_steps(most + last + most + last, 7), "200[]200[]");
    EXPECT_EQ(read_in_steps(most + interim + last, 7), "malformed");
}

TEST(ResponseReader, HoldsNoMoreOfADroppedBodyThanCameSince) {
    net::response_reader reader;
    reader.buffer() = with("");
    std::size_t whole = 0;
    for (int i = 0; i < 1000; ++i) {
        reader.buffer().append(1000, 'x');
        ASSERT_EQ(reader.next(false, false), status::need_more);
        whole += reader.body().size();
        reader.drop_body();
        ASSERT_LT(reader.buffer().size(), 100U);
    }
    EXPECT_EQ(reader.next(false, true), status::complete);
    EXPECT_EQ(whole, 1'000'000U);
}

TEST(ResponseReader, StaysCompleteUntilItIsDropped) {
    net::response_reader reader;
    reader.buffer() = with("Transfer-Encoding: chunked\r\n", "1\r\nx\r\n0\r\n\r\nbehind");
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(reader.next(false, false), status::complete);
        EXPECT_EQ(reader.body(), "x");
    }
    reader.drop();
    EXPECT_EQ(reader.buffer(), "behind");
    EXPECT_EQ(reader.next(false, false), status::malformed);
    EXPECT_EQ(reader.next(false, false), status::malformed);
    reader.clear();
    reader.buffer() = with("Content-Length: 0\r\n");
    EXPECT_EQ(reader.next(false, false), status::complete);
}

}  // namespace
