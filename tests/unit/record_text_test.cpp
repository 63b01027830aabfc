// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/record.hpp"
#include "support/random_record.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::field;
using holdfast::record_schema;

field field_of(std::string_view type) { return record_schema::parse_list("f:" + std::string(type)).fields().front(); }

/// What a text becomes when it is read and written again, or "! reason".
std::string through(std::string_view type, std::string_view text) {
    const field f = field_of(type);
    std::vector<std::byte> record(f.total_bytes(), std::byte{0xee});
    if (const auto why = holdfast::parse_text(f, text, record.data())) return "! " + *why;
    std::string out;
    holdfast::append_text(out, f, record.data());
    return out;
}

std::string shown(std::string_view type, std::string_view bytes) {
    const field f = field_of(type);
    EXPECT_EQ(bytes.size(), f.total_bytes());
    std::string out;
    holdfast::append_text(out, f, reinterpret_cast<const std::byte*>(bytes.data()));
    return out;
}

TEST(RecordText, IntegersReachTheirBoundsAndNoFurther) {
    const struct {
        const char *type, *low, *high, *below, *above;
    } cases[] = {
        {"u8", "0", "255", "-1", "256"},
        {"u16", "0", "65535", "-1", "65536"},
        {"u32", "0", "4294967295", "-1", "4294967296"},
        {"u64", "0", "18446744073709551615", "-1", "18446744073709551616"},
        {"i8", "-128", "127", "-129", "128"},
        {"i16", "-32768", "32767", "-32769", "32768"},
        {"i32", "-2147483648", "2147483647", "-2147483649", "2147483648"},
        {"i64", "-9223372036854775808", "9223372036854775807", "-9223372036854775809", "9223372036854775808"},
    };
    for (const auto& c : cases) {
        EXPECT_EQ(through(c.type, c.low), c.low);
        EXPECT_EQ(through(c.type, c.high), c.high);
        const std::string range = std::string(" is outside ") + c.low + " to " + c.high;
        EXPECT_EQ(through(c.type, c.below), std::string("! '") + c.below + "'" + range);
        EXPECT_EQ(through(c.type, c.above), std::string("! '") + c.above + "'" + range);
    }
}

TEST(RecordText, WhatIsNoIntegerIsSaidToBeNone) {
    for (const char* text : {"", " 1", "1 ", "+1", "1.0", "1e3", "0x10", "one", "-", "--1", "1,2", "\x01"}) {
        EXPECT_THAT(through("i32", text), testing::StartsWith("! ")) << text;
        EXPECT_THAT(through("i32", text), testing::EndsWith("is not an integer")) << text;
    }
    EXPECT_EQ(through("u8", "\xff\n"), "! '\\xff\\x0a' is not an integer");
    EXPECT_EQ(through("u8", std::string(100, 'y')), "! '" + std::string(32, 'y') + "...' is not an integer");
}

TEST(RecordText, FloatsRoundTripByTheShortestDecimal) {
    EXPECT_EQ(through("f64", "0.1"), "0.1");
    EXPECT_EQ(through("f32", "0.1"), "0.1");
    EXPECT_EQ(through("f32", "0.100000001490116119384765625"), "0.1");
    EXPECT_EQ(through("f32", "16777217"), "16777216");
    EXPECT_EQ(through("f64", "1.7976931348623157e+308"), "1.7976931348623157e+308");
    EXPECT_EQ(through("f64", "5e-324"), "5e-324");
    EXPECT_EQ(through("f32", "1e-45"), "1e-45");
    EXPECT_EQ(through("f64", "-0"), "-0");
    EXPECT_EQ(through("f64", "nan"), "NaN");
    EXPECT_EQ(through("f64", "-NaN"), "NaN");
    EXPECT_EQ(through("f32", "INF"), "Infinity");
    EXPECT_EQ(through("f32", "-infinity"), "-Infinity");
}

TEST(RecordText, FloatsOutOfRangeAndNonsenseAreRefused) {
    EXPECT_EQ(through("f64", "1e309"), "! '1e309' is too large or too small for f64");
    EXPECT_EQ(through("f32", "1e39"), "! '1e39' is too large or too small for f32");
    EXPECT_EQ(through("f64", "1e-400"), "! '1e-400' is too large or too small for f64");
    for (const char* text : {"", "x", "1.0x", "0x1p3", "1,5", "nan(1)", "+1", " 1"})
        EXPECT_THAT(through("f64", text), testing::EndsWith("is not a number")) << text;
}

TEST(RecordText, BoolIsTrueOrFalseAndADamagedByteIsShown) {
    EXPECT_EQ(through("bool", "true"), "true");
    EXPECT_EQ(through("bool", "1"), "true");
    EXPECT_EQ(through("bool", "false"), "false");
    EXPECT_EQ(through("bool", "0"), "false");
    EXPECT_EQ(through("bool", "yes"), "! 'yes' is neither true nor false");
    EXPECT_EQ(shown("bool", "\x02"), "2");
    EXPECT_EQ(shown("bool", "\xff"), "255");
}

TEST(RecordText, EnumsAreNamesOrNumbers) {
    const char* const type = "i8<low=-1|high=7>";
    EXPECT_EQ(through(type, "low"), "low");
    EXPECT_EQ(through(type, "-1"), "low");
    EXPECT_EQ(through(type, "7"), "high");
    EXPECT_EQ(through(type, "5"), "5");
    EXPECT_EQ(through(type, "Low"), "! 'Low' is not an integer, nor a name of i8<low=-1|high=7>");
    EXPECT_EQ(through(type, "200"), "! '200' is outside -128 to 127, nor a name of i8<low=-1|high=7>");
    EXPECT_EQ(through("u64<a=9223372036854775807>", "18446744073709551615"), "18446744073709551615");
}

TEST(RecordText, FixedTextFillsAllItsBytesAndNoMore) {
    EXPECT_EQ(through("char[2]", "US"), "US");
    EXPECT_EQ(through("char[2]", ""), "");
    EXPECT_EQ(through("char[2]", "\xc3\xa4"), "\xc3\xa4");
    EXPECT_EQ(through("char[2]", "USA"), "! text of 3 bytes does not fit char[2]");
    EXPECT_EQ(through("char[1]", "\xc3\xa4"), "! text of 2 bytes does not fit char[1]");
}

TEST(RecordText, BytesThatAreNoTextAreEscapedAndComeBack) {
    using namespace std::string_view_literals;
    EXPECT_EQ(shown("char[4]", "a\xff\x62\0"sv), "a\\xffb");
    EXPECT_EQ(shown("char[4]", "a\0b\0"sv), "a\\x00b");
    EXPECT_EQ(shown("char[4]", "\x1b[2J"sv), "\\x1b[2J") << "a terminal must not obey what a segment holds";
    EXPECT_EQ(shown("char[4]", "\xc2\x9b\x7f\n"sv), "\\xc2\\x9b\\x7f\\x0a");
    EXPECT_EQ(shown("char[4]", "\xf0\x9f\x98\x80"sv), "\xf0\x9f\x98\x80");
    EXPECT_EQ(shown("char[3]", "\xf0\x9f\x98"sv), "\\xf0\\x9f\\x98") << "a character cut off";
    EXPECT_EQ(shown("char[3]", "\xed\xa0\x80"sv), "\\xed\\xa0\\x80") << "a surrogate";
    EXPECT_EQ(shown("char[2]", "\xc0\x80"sv), "\\xc0\\x80") << "an overlong form";
    EXPECT_EQ(shown("char[4]", "\xf4\x90\x80\x80"sv), "\\xf4\\x90\\x80\\x80") << "beyond U+10FFFF";
    EXPECT_EQ(through("char[2]", "\\xff"), "\\xff");
    EXPECT_EQ(through("char[1]", "\\x41"), "A");
    EXPECT_EQ(through("char[2]", "\\x41\\x42\\x43"), "! text of 3 bytes does not fit char[2]");
}

TEST(RecordText, BackslashesStandForThemselvesUnlessTheyWouldBeAnEscape) {
    EXPECT_EQ(through("char[6]", "C:\\new"), "C:\\new");
    EXPECT_EQ(through("char[6]", "\\\\host"), "\\\\host");
    EXPECT_EQ(through("char[4]", "\\xAB"), "\\xAB") << "upper case is no escape";
    EXPECT_EQ(shown("char[4]", "\\x41"), "\\x5cx41");
    EXPECT_EQ(through("char[4]", "\\x5cx41"), "\\x5cx41");
    EXPECT_EQ(through("char[4]", "\\x4"), "\\x4");
}

TEST(RecordText, BytesAreHexadecimal) {
    EXPECT_EQ(through("bytes[3]", "00FFa0"), "00ffa0");
    EXPECT_EQ(through("bytes[3]", "00ff"), "! needs 6 hexadecimal digits, has 4 characters");
    EXPECT_EQ(through("bytes[1]", "g0"), "! 'g' is not a hexadecimal digit");
}

TEST(RecordText, Ipv4IsDottedOrOneNumber) {
    EXPECT_EQ(through("ipv4", "0.0.0.0"), "0.0.0.0");
    EXPECT_EQ(through("ipv4", "255.255.255.255"), "255.255.255.255");
    EXPECT_EQ(through("ipv4", "16777216"), "1.0.0.0");
    EXPECT_EQ(through("ipv4", "4294967295"), "255.255.255.255");
    EXPECT_EQ(through("ipv4", "0"), "0.0.0.0");
    for (const char* text : {"", "1.2.3", "1.2.3.4.5", "256.0.0.1", "01.2.3.4", "1.2.3.4 ", "1..2.3", "4294967296",
                             "-1", "a.b.c.d", "1.2.3.", "00", "99999999999999999999999", "1.2.3.4\n"})
        EXPECT_EQ(through("ipv4", text), "! " + holdfast::detail::quoted(text) + " is not an IPv4 address");
    EXPECT_EQ(holdfast::parse_ipv4("192.0.2.1")->value, 0xC0000201U);
}

TEST(RecordText, Ipv6IsWrittenAsRfc5952Says) {
    const struct {
        const char *in, *out;
    } cases[] = {
        {"::", "::"},
        {"::1", "::1"},
        {"1::", "1::"},
        {"2001:db8:0:0:0:0:2:1", "2001:db8::2:1"},
        {"2001:DB8::0001", "2001:db8::1"},
        {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
        {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},
        {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
        {"::ffff:192.0.2.1", "::ffff:192.0.2.1"},
        {"::ffff:c000:201", "::ffff:192.0.2.1"},
        {"::ffff:0:0", "::ffff:0.0.0.0"},
        {"64:ff9b::192.0.2.33", "64:ff9b::c000:221"},
        {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
        {"::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
        {"1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"},
        {"0:0:0:0:0:0:0:0", "::"},
        {"1:0:0:0:0:0:0:0", "1::"},
    };
    for (const auto& c : cases) EXPECT_EQ(through("ipv6", c.in), c.out) << c.in;
    for (const char* text : {"",
                             ":",
                             ":::",
                             "1",
                             "1:2:3:4:5:6:7",
                             "1:2:3:4:5:6:7:8:9",
                             "1::2::3",
                             "12345::",
                             "g::",
                             "::1%eth0",
                             "1:2:3:4:5:6:7:8::",
                             "::1:2:3:4:5:6:7:8",
                             ":1:2:3:4:5:6:7",
                             "1:2:3:4:5:6:7:",
                             "::1.2.3",
                             "::1.2.3.256",
                             "1.2.3.4::",
                             "1:2:3:4:5:6:7:1.2.3.4",
                             "::ffff:1.2.3.4:5",
                             "1.2.3.4",
                             " ::"})
        EXPECT_EQ(through("ipv6", text), "! " + holdfast::detail::quoted(text) + " is not an IPv6 address");
}

TEST(RecordText, TimestampsAreRfc3339) {
    const struct {
        const char *in, *out;
    } cases[] = {
        {"1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"},
        {"1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999999Z"},
        {"2026-11-21T08:43:53.1Z", "2026-11-21T08:43:53.100Z"},
        {"2026-11-21T08:43:53.000001Z", "2026-11-21T08:43:53.000001Z"},
        {"2026-11-21t08:43:53.120000000z", "2026-11-21T08:43:53.120Z"},
        {"2026-11-21 08:43:53+01:30", "2026-11-21T07:13:53Z"},
        {"2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z"},
        {"2026-12-31T23:30:00-01:00", "2027-01-01T00:30:00Z"},
        {"2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
        {"2000-02-29T12:00:00-00:00", "2000-02-29T12:00:00Z"},
        {"1677-09-21T00:12:43.145224192Z", "1677-09-21T00:12:43.145224192Z"},
        {"2262-04-11T23:47:16.854775807Z", "2262-04-11T23:47:16.854775807Z"},
    };
    for (const auto& c : cases) EXPECT_EQ(through("timestamp", c.in), c.out) << c.in;
    holdfast::timestamp t;
    EXPECT_EQ(holdfast::parse_timestamp("2001-09-09T01:46:40Z", t), std::nullopt);
    EXPECT_EQ(t.ns, 1'000'000'000'000'000'000);
}

TEST(RecordText, WrongTimestampsAreRefusedWithTheReason) {
    const auto reason = [](const char* text) { return through("timestamp", text); };
    EXPECT_THAT(reason("2026-02-29T00:00:00Z"), testing::EndsWith("no such day"));
    EXPECT_THAT(reason("1900-02-29T00:00:00Z"), testing::EndsWith("no such day"));
    EXPECT_THAT(reason("2026-13-01T00:00:00Z"), testing::EndsWith("no such day"));
    EXPECT_THAT(reason("2026-00-01T00:00:00Z"), testing::EndsWith("no such day"));
    EXPECT_THAT(reason("2026-04-31T00:00:00Z"), testing::EndsWith("no such day"));
    EXPECT_THAT(reason("2026-01-01T24:00:00Z"), testing::EndsWith("no such time of day"));
    EXPECT_THAT(reason("2026-01-01T00:60:00Z"), testing::EndsWith("no such time of day"));
    EXPECT_THAT(reason("2016-12-31T23:59:60Z"), testing::HasSubstr("leap seconds"));
    EXPECT_THAT(reason("2026-01-01T00:00:00+24:00"), testing::HasSubstr("offset"));
    EXPECT_THAT(reason("1677-09-21T00:12:43.145224191Z"), testing::HasSubstr("lies between 1677"));
    EXPECT_THAT(reason("2262-04-11T23:47:16.854775808Z"), testing::HasSubstr("lies between 1677"));
    EXPECT_THAT(reason("9999-12-31T23:59:59Z"), testing::HasSubstr("lies between 1677"));
    for (const char* text : {"", "2026", "2026-1-1T00:00:00Z", "2026-01-01", "2026-01-01T00:00Z", "2026-01-01T00:00:00",
                             "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.1234567890Z", "2026-01-01T00:00:00Zx",
                             "2026-01-01T00:00:00+0100", "x026-01-01T00:00:00Z", "1763714633"})
        EXPECT_THAT(reason(text), testing::HasSubstr("is written like 2026-11-21T08:43:53.123456789Z")) << text;
}

TEST(RecordText, DaysAndDatesAgreeOverTheWholeRange) {
    // Every day from 1677 to 2262, against a calendar that is counted day by day.
    holdfast::detail::civil_date date{1677, 1, 1};
    std::int64_t day = holdfast::detail::days_from_civil(date);
    EXPECT_EQ(day, -107015);
    for (; date.year < 2263; ++day) {
        ASSERT_EQ(holdfast::detail::days_from_civil(date), day);
        const auto back = holdfast::detail::civil_from_days(day);
        ASSERT_EQ(back.year, date.year);
        ASSERT_EQ(back.month, date.month);
        ASSERT_EQ(back.day, date.day);
        const bool leap = (date.year % 4 == 0 && date.year % 100 != 0) || date.year % 400 == 0;
        const unsigned last = date.month == 2 ? (leap ? 29 : 28)
                              : date.month == 4 || date.month == 6 || date.month == 9 || date.month == 11 ? 30
                                                                                                          : 31;
        if (++date.day > last) date.day = 1, ++date.month;
        if (date.month > 12) date.month = 1, ++date.year;
    }
}

TEST(RecordText, ArraysHaveExactlyTheirElements) {
    EXPECT_EQ(through("i16[3]", "[1,-2,3]"), "[1,-2,3]");
    EXPECT_EQ(through("i16[3]", " [ 1 , 2,3 ] "), "[1,2,3]");
    EXPECT_EQ(through("bool[2]", "[true,0]"), "[true,false]");
    EXPECT_EQ(through("u8<a=1>[2]", "[a,2]"), "[a,2]");
    EXPECT_EQ(through("ipv6[2]", "[::1,::]"), "[::1,::]");
    EXPECT_EQ(through("i16[3]", "[1,2]"), "! has fewer elements than i16[3]");
    EXPECT_EQ(through("i16[3]", "[1,2,3,4]"), "! has more elements than i16[3]");
    EXPECT_EQ(through("i16[3]", "[]"), "! has fewer elements than i16[3]");
    EXPECT_EQ(through("i16[3]", "1,2,3"), "! an array is written [element,element,...]");
    EXPECT_EQ(through("i16[3]", "["), "! an array is written [element,element,...]");
    EXPECT_EQ(through("i16[3]", "[1,70000,3]"), "! element 2: '70000' is outside -32768 to 32767");
    EXPECT_EQ(through("i16[2]", "[1,]"), "! element 2: '' is not an integer");
}

TEST(RecordText, RandomRecordsSurviveTextWhole) {
    holdfast::test::seeded_random random;
    for (std::uint64_t round = holdfast::test::scaled(3000); round > 0; --round) {
        const record_schema schema = holdfast::test::random_schema(random, "f");
        const std::vector<std::byte> record = holdfast::test::random_record(random, schema);
        std::vector<std::byte> copy(schema.bytes());
        for (const field& f : schema.fields()) {
            std::string text, again;
            holdfast::append_text(text, f, record.data());
            const auto why = holdfast::parse_text(f, text, copy.data());
            ASSERT_EQ(why, std::nullopt) << holdfast::type_text(f) << " " << text;
            holdfast::append_text(again, f, copy.data());
            ASSERT_EQ(again, text);
        }
        ASSERT_EQ(copy, record) << schema.text();
    }
}

}  // namespace
