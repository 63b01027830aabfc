// SPDX-License-Identifier: Apache-2.0
// Conditions and ranges, as functions of a request and of what is there: RFC 9110 sections 13 and 14.
#include "holdfast/net/conditional.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/http_parser.hpp"
#include "holdfast/net/range.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using net::condition;
using net::range_verdict;

struct asked {
    asked(std::string_view method, std::string_view fields)
        : bytes(std::string(method) + " / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n") {
        EXPECT_EQ(parser.parse(bytes), net::parse_status::complete) << bytes;
    }
    [[nodiscard]] const net::request& get() const { return parser.message(); }

    std::string bytes;
    net::request_parser parser;
};

const std::string date = "Sun, 06 Nov 1994 08:49:37 GMT", earlier = "Sun, 06 Nov 1994 08:49:36 GMT",
                  later = "Sun, 06 Nov 1994 08:49:38 GMT";
constexpr std::int64_t date_s = 784111777;
const net::validators strong{.tag = "\"x\"", .modified_s = date_s}, weak{.tag = "W/\"x\"", .modified_s = date_s},
    bare{}, none{.exists = false};

condition judged(std::string_view method, std::string_view fields, const net::validators& current) {
    return net::judge_conditions(asked(method, fields).get(), current);
}

TEST(EntityTag, IsReadToTheByte) {
    for (const char* text : {"\"\"", "\"x\"", "\"!~\xFF\"", "\"a,b\""}) {
        const auto tag = net::parse_entity_tag(text);
        ASSERT_TRUE(tag) << text;
        EXPECT_EQ(tag->opaque, text);
        EXPECT_FALSE(tag->weak);
        const std::string marked = std::string("W/") + text;
        const auto loose = net::parse_entity_tag(marked);
        ASSERT_TRUE(loose) << text;
        EXPECT_EQ(loose->opaque, text);
        EXPECT_TRUE(loose->weak);
    }
    for (const char* text : {"", "x", "\"", "\"x", "x\"", "W/", "W/\"", "w/\"x\"", "W\"x\"", "W/ \"x\"", " \"x\"",
                             "\"x\" ", "\"x\"\"y\"", "\"a b\"", "\"a\tb\"", "\"\x7F\"", "*", "'x'"})
        EXPECT_FALSE(net::parse_entity_tag(text)) << text;
}

// RFC 9110 section 8.8.3.2, its table.
TEST(EntityTag, ComparesStronglyAndWeakly) {
    const auto same = [](const char* a, const char* b, net::tag_comparison how) {
        return net::same_tag(*net::parse_entity_tag(a), *net::parse_entity_tag(b), how);
    };
    using enum net::tag_comparison;
    EXPECT_FALSE(same("W/\"1\"", "W/\"1\"", strong));
    EXPECT_TRUE(same("W/\"1\"", "W/\"1\"", weak));
    EXPECT_FALSE(same("W/\"1\"", "W/\"2\"", weak));
    EXPECT_FALSE(same("W/\"1\"", "\"1\"", strong));
    EXPECT_TRUE(same("W/\"1\"", "\"1\"", weak));
    EXPECT_TRUE(same("\"1\"", "\"1\"", strong));
    EXPECT_TRUE(same("\"1\"", "\"1\"", weak));
}

TEST(Conditions, WithoutFieldsEverythingHolds) {
    for (const auto& current : {strong, weak, bare, none})
        for (const char* method : {"GET", "HEAD", "PUT", "DELETE"})
            EXPECT_EQ(judged(method, "", current), condition::holds);
}

TEST(Conditions, IfMatchWantsTheVeryBytes) {
    for (const char* method : {"GET", "HEAD", "PUT"}) {
        EXPECT_EQ(judged(method, "If-Match: \"x\"\r\n", strong), condition::holds);
        EXPECT_EQ(judged(method, "If-Match: \"y\", \"x\"\r\n", strong), condition::holds);
        EXPECT_EQ(judged(method, "If-Match: \"y\"\r\nif-match: \"x\"\r\n", strong), condition::holds) << "one list";
        EXPECT_EQ(judged(method, "If-Match: , \"x\" ,,\r\n", strong), condition::holds) << "empty members";
        EXPECT_EQ(judged(method, "If-Match: *\r\n", strong), condition::holds);
        EXPECT_EQ(judged(method, "If-Match: *\r\n", bare), condition::holds);
        EXPECT_EQ(judged(method, "If-Match: \"y\"\r\n", strong), condition::failed);
        EXPECT_EQ(judged(method, "If-Match: W/\"x\"\r\n", strong), condition::failed);
        EXPECT_EQ(judged(method, "If-Match: \"x\"\r\n", weak), condition::failed);
        EXPECT_EQ(judged(method, "If-Match: \"x\"\r\n", bare), condition::failed);
        EXPECT_EQ(judged(method, "If-Match: \"x\"\r\n", none), condition::failed);
        EXPECT_EQ(judged(method, "If-Match: *\r\n", none), condition::failed);
    }
}

// Attacks I2 of conditional.hpp.
TEST(Conditions, WhatIsNoListOfTagsChangesNothingAndHidesNothing) {
    for (const char* list :
         {"", ",", "x", "\"x", "\"x\" \"x\"", "\"x\";", "*, \"x\"", "\"x\", *", "w/\"x\"", "**", "\"x\",y"}) {
        const std::string text(list);
        EXPECT_EQ(judged("PUT", "If-Match: " + text + "\r\n", strong), condition::failed) << list;
        EXPECT_EQ(judged("GET", "If-Match: " + text + "\r\n", strong), condition::failed) << list;
        EXPECT_EQ(judged("PUT", "If-None-Match: " + text + "\r\n", none), condition::failed) << list;
        EXPECT_EQ(judged("GET", "If-None-Match: " + text + "\r\n", strong), condition::holds) << list;
    }
    EXPECT_EQ(judged("PUT", "If-Match: *\r\nIf-Match: \"x\"\r\n", strong), condition::failed);
    EXPECT_EQ(judged("PUT", "If-Match: \"x\"\r\nIf-Match: *\r\n", strong), condition::failed);
    EXPECT_EQ(judged("PUT", "If-Match: *\r\nIf-Match: *\r\n", strong), condition::failed);
}

TEST(Conditions, IfNoneMatchIsWeakAndMeans304OrFailure) {
    for (const auto& current : {strong, weak})
        for (const char* list : {"\"x\"", "W/\"x\"", "\"y\", W/\"x\"", "*"}) {
            const std::string field = "If-None-Match: " + std::string(list) + "\r\n";
            EXPECT_EQ(judged("GET", field, current), condition::not_modified) << list;
            EXPECT_EQ(judged("HEAD", field, current), condition::not_modified) << list;
            EXPECT_EQ(judged("PUT", field, current), condition::failed) << list;
            EXPECT_EQ(judged("PUT", field, none), condition::holds) << list;
            EXPECT_EQ(judged("GET", field, none), condition::holds) << list;
        }
    EXPECT_EQ(judged("GET", "If-None-Match: \"y\"\r\n", strong), condition::holds);
    EXPECT_EQ(judged("PUT", "If-None-Match: \"y\"\r\n", strong), condition::holds);
    EXPECT_EQ(judged("GET", "If-None-Match: \"a,\\\"\r\n", strong), condition::holds)
        << "a comma and \\ are of the tag";
    EXPECT_EQ(judged("GET", "If-None-Match: *\r\n", bare), condition::not_modified);
}

TEST(Conditions, DatesAreComparedAndIgnoredWhereTheyAreNone) {
    EXPECT_EQ(judged("GET", "If-Modified-Since: " + date + "\r\n", strong), condition::not_modified);
    EXPECT_EQ(judged("GET", "If-Modified-Since: " + later + "\r\n", strong), condition::not_modified);
    EXPECT_EQ(judged("HEAD", "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n", strong), condition::not_modified);
    EXPECT_EQ(judged("GET", "If-Modified-Since: " + earlier + "\r\n", strong), condition::holds);
    EXPECT_EQ(judged("PUT", "If-Modified-Since: " + date + "\r\n", strong), condition::holds) << "GET and HEAD alone";
    EXPECT_EQ(judged("GET", "If-Modified-Since: " + date + "\r\n", bare), condition::holds);
    EXPECT_EQ(judged("GET", "If-Modified-Since: yesterday\r\n", strong), condition::holds);
    EXPECT_EQ(judged("GET", "If-Modified-Since: " + date + "\r\nIf-Modified-Since: " + date + "\r\n", strong),
              condition::holds);
    for (const char* method : {"GET", "PUT"}) {
        EXPECT_EQ(judged(method, "If-Unmodified-Since: " + date + "\r\n", strong), condition::holds);
        EXPECT_EQ(judged(method, "If-Unmodified-Since: " + earlier + "\r\n", strong), condition::failed);
        EXPECT_EQ(judged(method, "If-Unmodified-Since: " + earlier + "\r\n", bare), condition::holds);
        EXPECT_EQ(judged(method, "If-Unmodified-Since: " + earlier + " \r\n", none), condition::holds);
        EXPECT_EQ(judged(method, "If-Unmodified-Since: never\r\n", strong), condition::holds);
    }
}

// Attacks I1 of conditional.hpp: RFC 9110 section 13.2.2.
TEST(Conditions, AreJudgedInTheirOrder) {
    const std::string match = "If-Match: \"x\"\r\n", no_match = "If-Match: \"y\"\r\n",
                      none_x = "If-None-Match: \"x\"\r\n", none_y = "If-None-Match: \"y\"\r\n",
                      since = "If-Modified-Since: " + date + "\r\n",
                      since_earlier = "If-Modified-Since: " + earlier + "\r\n",
                      unless = "If-Unmodified-Since: " + earlier + "\r\n";
    EXPECT_EQ(judged("GET", match + unless, strong), condition::holds) << "If-Match hides If-Unmodified-Since";
    EXPECT_EQ(judged("GET", none_y + since, strong), condition::holds) << "If-None-Match hides If-Modified-Since";
    EXPECT_EQ(judged("GET", none_x + since_earlier, strong), condition::not_modified);
    EXPECT_EQ(judged("GET", none_x + no_match, strong), condition::failed) << "If-Match comes first";
    EXPECT_EQ(judged("GET", since + unless, strong), condition::failed);
    EXPECT_EQ(judged("GET", match + none_x, strong), condition::not_modified);
    EXPECT_EQ(judged("PUT", match + none_x, strong), condition::failed);
    EXPECT_EQ(judged("GET", "If-None-Match: junk\r\n" + since, strong), condition::holds) << "still hides it";
}

TEST(Conditions, SomeMethodsHaveNone) {
    for (const char* method : {"OPTIONS", "TRACE"})
        EXPECT_EQ(judged(method, "If-Match: \"y\"\r\n", strong), condition::holds) << method;
}

TEST(IfRange, CountsByAStrongTagOrAStrongDateAlone) {
    const auto counts = [](const std::string& value, const net::validators& current) {
        return net::range_is_current(asked("GET", value.empty() ? "" : "If-Range: " + value + "\r\n").get(), current);
    };
    EXPECT_TRUE(counts("", strong));
    EXPECT_TRUE(counts("\"x\"", strong));
    EXPECT_FALSE(counts("\"y\"", strong));
    EXPECT_FALSE(counts("W/\"x\"", strong));
    EXPECT_FALSE(counts("\"x\"", weak));
    EXPECT_FALSE(counts("\"x\", \"x\"", strong)) << "it is no list";
    EXPECT_FALSE(counts("*", strong));
    EXPECT_FALSE(counts(date, strong)) << "a date is weak unless somebody knows better";
    net::validators dated = strong;
    dated.modified_is_strong = true;
    EXPECT_TRUE(counts(date, dated));
    EXPECT_FALSE(counts(later, dated)) << "exactly this date";
    EXPECT_FALSE(counts(earlier, dated));
    EXPECT_FALSE(net::range_is_current(asked("GET", "If-Range: \"x\"\r\nIf-Range: \"x\"\r\n").get(), strong));
}

// --- ranges

std::string selected(std::string_view field, std::uint64_t size, std::size_t most = 16) {
    const auto found = net::select_ranges(field, size, most);
    if (found.verdict == range_verdict::whole) return "whole";
    if (found.verdict == range_verdict::unsatisfiable) return "416";
    std::string text;
    for (const auto& each : found.ranges) {
        if (!text.empty()) text += ' ';
        text += std::to_string(each.first) + '-' + std::to_string(each.last);
    }
    return text;
}

// The examples of RFC 9110 section 14.1.2, of a representation of 10000 bytes.
TEST(Ranges, AreThoseOfTheRfc) {
    EXPECT_EQ(selected("bytes=0-499", 10000), "0-499");
    EXPECT_EQ(selected("bytes=500-999", 10000), "500-999");
    EXPECT_EQ(selected("bytes=-500", 10000), "9500-9999");
    EXPECT_EQ(selected("bytes=9500-", 10000), "9500-9999");
    EXPECT_EQ(selected("bytes=0-0,-1", 10000), "0-0 9999-9999");
    EXPECT_EQ(selected("bytes= 0-999, 4500-5499, -1000", 10000), "0-999 4500-5499 9000-9999");
    EXPECT_EQ(selected("bytes=500-600,601-999", 10000), "500-999");
    EXPECT_EQ(selected("bytes=500-700,601-999", 10000), "500-999");
}

TEST(Ranges, AreCutToWhatIsThere) {
    EXPECT_EQ(selected("bytes=0-", 10), "0-9");
    EXPECT_EQ(selected("bytes=9-9", 10), "9-9");
    EXPECT_EQ(selected("bytes=5-100", 10), "5-9");
    EXPECT_EQ(selected("bytes=-100", 10), "0-9");
    EXPECT_EQ(selected("bytes=10-", 10), "416");
    EXPECT_EQ(selected("bytes=10-20,30-", 10), "416");
    EXPECT_EQ(selected("bytes=-0", 10), "416");
    EXPECT_EQ(selected("bytes=10-,0-1", 10), "0-1") << "who reaches nothing is left out";
    EXPECT_EQ(selected("bytes=0-", 0), "416");
    EXPECT_EQ(selected("bytes=-1", 0), "whole") << "satisfiable, but no Content-Range can say what it is";
}

TEST(Ranges, OfAnyLengthDoNotOverflow) {
    const std::string huge(400, '9');
    const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    EXPECT_EQ(selected("bytes=5-" + huge, 10), "5-9");
    EXPECT_EQ(selected("bytes=-" + huge, 10), "0-9");
    EXPECT_EQ(selected("bytes=" + huge + "-" + huge, 10), "416");
    EXPECT_EQ(selected("bytes=" + huge + "-", most), "416");
    EXPECT_EQ(selected("bytes=18446744073709551614-18446744073709551615", most),
              "18446744073709551614-18446744073709551614");
    EXPECT_EQ(selected("bytes=" + std::string(400, '0') + "3-4", 10), "3-4");
    EXPECT_EQ(selected("bytes=0-1,18446744073709551000-", most), "0-1 18446744073709551000-18446744073709551614");
}

TEST(Ranges, WhatIsMalformedOrUnknownIsIgnored) {
    for (const char* field :
         {"",           "bytes",       "bytes=",        "bytes=,",     "bytes=-",      "bytes=a-b",
          "bytes=1",    "bytes=2-1",   "bytes=1-2-3",   "bytes=--1",   "bytes=1 -2",   "bytes=1- 2",
          "bytes=+1-2", "bytes=0x1-2", "bytes=1-2;3-4", "bytes:1-2",   "byte=1-2",     "lines=1-2",
          "bytes =1-2", " bytes=1-2",  "bytes=1-2, x",  "bytes=99-98", "bytes=\xB9-2", "bytes=1.5-2",
          "=1-2"})
        EXPECT_EQ(selected(field, 10), "whole") << field;
    EXPECT_EQ(selected("BYTES=1-2", 10), "1-2") << "a unit is compared without regard to case";
    EXPECT_EQ(selected("bytes=,1-2 ,\t", 10), "1-2");
}

// Attacks I1 and I3 of range.hpp.
TEST(Ranges, ThatOverlapAreMergedAndTheirNumberIsBounded) {
    EXPECT_EQ(selected("bytes=5000-5999,0-999,5500-6999", 10000), "5000-6999 0-999") << "in the order asked for";
    EXPECT_EQ(selected("bytes=0-9,100-109", 10000), "0-109") << "the gap is shorter than a part's frame";
    EXPECT_EQ(selected("bytes=0-9,1000-1009", 10000), "0-9 1000-1009");
    EXPECT_EQ(selected("bytes=0-,0-,0-,0-", 10000), "0-9999");
    std::string many = "bytes=0-0";
    for (int i = 1; i < 16; ++i) many += "," + std::to_string(i * 500) + "-" + std::to_string(i * 500);
    EXPECT_NE(selected(many, 10000), "whole");
    EXPECT_EQ(selected(many + ",9000-9000", 10000), "whole");
    EXPECT_EQ(selected(many + ",20000-", 10000), "whole") << "those that reach nothing count, too";
    EXPECT_EQ(selected("bytes=0-1,5000-", 10000, 1), "whole");
}

// Every byte that was asked for is sent, none twice, and of others no more than gaps.
TEST(Ranges, OfRandomSetsHoldWhatWasAskedForOnce) {
    const std::uint64_t seed = test::choose_seed();
    SCOPED_TRACE(seed);
    for (std::uint64_t round = 0; round < 2000; ++round) {
        const std::uint64_t size = 1 + test::random_at(seed, round, 0) % 3000;
        std::vector<int> wanted(size, 0), sent(size, 0);
        std::string field = "bytes=";
        const std::uint64_t count = 1 + test::random_at(seed, round, 1) % 8;
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint64_t first = test::random_at(seed, round, 2 * i + 2) % 3000;
            const std::uint64_t last = first + test::random_at(seed, round, 2 * i + 3) % 400;
            field += (i == 0 ? "" : ",") + std::to_string(first) + "-" + std::to_string(last);
            for (std::uint64_t at = first; at <= last && at < size; ++at) wanted[at] = 1;
        }
        const auto found = net::select_ranges(field, size);
        const bool any = std::ranges::count(wanted, 1) != 0;
        ASSERT_EQ(found.verdict, any ? range_verdict::partial : range_verdict::unsatisfiable) << field;
        for (const auto& each : found.ranges) {
            ASSERT_LE(each.first, each.last);
            ASSERT_LT(each.last, size);
            for (std::uint64_t at = each.first; at <= each.last; ++at) ++sent[at];
        }
        for (std::uint64_t at = 0; at < size; ++at) {
            ASSERT_LE(sent[at], 1) << field;
            ASSERT_TRUE(sent[at] == 1 || wanted[at] == 0) << field << " at " << at;
        }
    }
}

// --- a representation in memory

net::response answered(std::string_view method, std::string_view fields, const net::validators& current = strong,
                       std::string_view body = "0123456789", int status = 200) {
    net::response to;
    to.status(status).body(body);
    net::answer_representation(asked(method, fields).get(), current, "text/plain", to);
    return to;
}

std::string field_of(const net::response& answer, std::string_view name) {
    const std::string wanted = std::string(name) + ": ", fields = "\r\n" + std::string(answer.fields());
    const std::size_t at = fields.find("\r\n" + wanted);
    if (at == std::string::npos) return {};
    const std::size_t begin = at + 2 + wanted.size();
    return fields.substr(begin, fields.find("\r\n", begin) - begin);
}

TEST(Representation, IsAnsweredWholeWithItsValidators) {
    for (const char* method : {"GET", "HEAD"}) {
        const auto whole = answered(method, "");
        EXPECT_EQ(whole.status(), 200);
        EXPECT_EQ(whole.body(), "0123456789");
        EXPECT_EQ(field_of(whole, "ETag"), "\"x\"");
        EXPECT_EQ(field_of(whole, "Last-Modified"), date);
        EXPECT_EQ(field_of(whole, "Accept-Ranges"), "bytes");
        EXPECT_EQ(field_of(whole, "Content-Type"), "text/plain");
    }
}

TEST(Representation, OneRangeIsAPartAndSeveralAreMultipart) {
    const auto one = answered("GET", "Range: bytes=2-4\r\n");
    EXPECT_EQ(one.status(), 206);
    EXPECT_EQ(one.body(), "234");
    EXPECT_EQ(field_of(one, "Content-Range"), "bytes 2-4/10");
    EXPECT_EQ(field_of(one, "Content-Type"), "text/plain");

    const std::string large(1000, 'x');
    const auto two = answered("GET", "Range: bytes=990-,0-1\r\n", strong, large);
    EXPECT_EQ(two.status(), 206);
    EXPECT_EQ(field_of(two, "Content-Range"), "");
    const std::string type = field_of(two, "Content-Type");
    ASSERT_TRUE(type.starts_with("multipart/byteranges; boundary=")) << type;
    const std::string boundary = type.substr(type.find('=') + 1);
    EXPECT_EQ(two.body(), "--" + boundary +
                              "\r\nContent-Type: text/plain\r\nContent-Range: bytes 990-999/1000\r\n\r\n" +
                              std::string(10, 'x') + "\r\n--" + boundary +
                              "\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/1000\r\n\r\nxx\r\n--" +
                              boundary + "--\r\n");
    EXPECT_NE(answered("GET", "Range: bytes=990-,0-1\r\n", strong, large).fields(), two.fields()) << "a fresh boundary";
}

TEST(Representation, RangesAreOfAGetOf200Alone) {
    EXPECT_EQ(answered("HEAD", "Range: bytes=2-4\r\n").status(), 200);
    EXPECT_EQ(answered("POST", "Range: bytes=2-4\r\n").status(), 200);
    EXPECT_EQ(answered("GET", "Range: bytes=2-4\r\n", strong, "0123456789", 404).status(), 404);
    EXPECT_EQ(answered("GET", "If-None-Match: *\r\n", strong, "0123456789", 404).status(), 404);
    EXPECT_EQ(answered("GET", "Range: bytes=2-4\r\nRange: bytes=5-6\r\n").status(), 200);
    EXPECT_EQ(answered("GET", "Range: bytes=2-4\r\nIf-Range: \"y\"\r\n").status(), 200);
    EXPECT_EQ(answered("GET", "Range: bytes=2-4\r\nIf-Range: \"x\"\r\n").status(), 206);
}

TEST(Representation, ConditionsComeBeforeRanges) {
    const auto unchanged = answered("GET", "If-None-Match: \"x\"\r\nRange: bytes=2-4\r\n");
    EXPECT_EQ(unchanged.status(), 304);
    EXPECT_EQ(unchanged.body(), "");
    EXPECT_EQ(unchanged.fields(), "ETag: \"x\"\r\n") << "what a cache needs, and nothing besides";
    EXPECT_EQ(field_of(answered("GET", "If-Modified-Since: " + date + "\r\n", {.modified_s = date_s}), "Last-Modified"),
              date);
    const auto failed = answered("GET", "If-Match: \"y\"\r\nRange: bytes=2-4\r\n");
    EXPECT_EQ(failed.status(), 412);
    EXPECT_EQ(failed.body().find("0123"), std::string::npos);
}

TEST(Representation, UnsatisfiableSaysHowMuchThereIs) {
    const auto beyond = answered("GET", "Range: bytes=10-\r\n");
    EXPECT_EQ(beyond.status(), 416);
    EXPECT_EQ(field_of(beyond, "Content-Range"), "bytes */10");
    const auto empty = answered("GET", "Range: bytes=0-\r\n", strong, "");
    EXPECT_EQ(empty.status(), 416);
    EXPECT_EQ(field_of(empty, "Content-Range"), "bytes */0");
    EXPECT_EQ(answered("GET", "", strong, "").status(), 200);
}

TEST(Representation, WrongValidatorsAndTypesAreOurMistake) {
    EXPECT_THROW((void)answered("GET", "", {.tag = "x"}), error);
    net::response to;
    EXPECT_THROW(net::answer_representation(asked("GET", "Range: bytes=0-0\r\n").get(), {}, "a\r\nb", to), error);
}

}  // namespace
