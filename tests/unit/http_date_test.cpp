// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/http_date.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "support/seed.hpp"

namespace {

using namespace holdfast;

constexpr std::int64_t example = 784111777;  // RFC 9110 section 5.6.7
constexpr std::int64_t now_2026 = 1795392000;

std::string written(std::int64_t seconds) {
    std::string text;
    net::append_http_date(text, seconds);
    return text;
}

TEST(HttpDate, ReadsTheThreeFormsOfTheRfc) {
    for (const char* text :
         {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"})
        EXPECT_EQ(net::parse_http_date(text, now_2026), example) << text;
    EXPECT_EQ(net::parse_http_date("Wed Nov 16 08:49:37 1994", now_2026), example + 10 * 86400);
    EXPECT_EQ(net::parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
    EXPECT_EQ(net::parse_http_date("Wed, 31 Dec 1969 23:59:59 GMT"), -1);
    EXPECT_EQ(net::parse_http_date("Tue, 29 Feb 2000 00:00:00 GMT"), 951782400);
}

TEST(HttpDate, WhatIsNotExactlyADateIsNone) {
    for (const char* text : {"",
                             "0",
                             "Sun",
                             "Sun,",
                             "Sun, 06 Nov 1994 08:49:37",
                             "Sun, 06 Nov 1994 08:49:37 UTC",
                             "Sun, 06 Nov 1994 08:49:37 gmt",
                             "sun, 06 Nov 1994 08:49:37 GMT",
                             "SUN, 06 NOV 1994 08:49:37 GMT",
                             "Sun, 6 Nov 1994 08:49:37 GMT",
                             "Sun, 06 Nov 94 08:49:37 GMT",
                             "Sun,06 Nov 1994 08:49:37 GMT",
                             "Sun, 06  Nov 1994 08:49:37 GMT",
                             "Sun, 06 Nov 1994 8:49:37 GMT",
                             "Sun, 06 Nov 1994 08:49 GMT",
                             "Sun, 06 Nov 1994 08:49:37 GMT ",
                             " Sun, 06 Nov 1994 08:49:37 GMT",
                             "Sun, 06 Nov 1994 08:49:37 +0000",
                             "Mon, 06 Nov 1994 08:49:37 GMT",  // it was a Sunday
                             "Sun, 00 Nov 1994 08:49:37 GMT",
                             "Thu, 31 Nov 1994 08:49:37 GMT",
                             "Wed, 29 Feb 2023 00:00:00 GMT",
                             "Sun, 06 Nov 1994 24:00:00 GMT",
                             "Sun, 06 Nov 1994 08:60:37 GMT",
                             "Sun, 06 Nov 1994 08:49:61 GMT",
                             "Sun, 06 Nov 1994 08:49:60 GMT",  // no leap second is there
                             "Sun, 06 Nov -994 08:49:37 GMT",
                             "Sun, 06 Nov +994 08:49:37 GMT",
                             "Sun, 06 Nov 1994 08:49:3\xB9 GMT",
                             "Sun, 06-Nov-94 08:49:37 GMT",
                             "Sunday, 06 Nov 1994 08:49:37 GMT",
                             "Sunday, 06-Nov-1994 08:49:37 GMT",
                             "Monday, 06-Nov-94 08:49:37 GMT",
                             "Sunday, 6-Nov-94 08:49:37 GMT",
                             "Sundays, 06-Nov-94 08:49:37 GMT",
                             "Sun Nov 6 08:49:37 1994",
                             "Sun Nov 06 08:49:37 1994 ",
                             "Sun Nov  6 08:49:37 94",
                             "Sun Nov  6 08:49:37 1994 GMT",
                             "Sun Nov  16 08:49:37 1994",
                             "Sun, 06 Nov 1994 08:49:37 GMT, x"})
        EXPECT_EQ(net::parse_http_date(text, now_2026), std::nullopt) << text;
    EXPECT_EQ(net::parse_http_date("Sun Nov 06 08:49:37 1994", now_2026), example) << "2DIGIT, as the grammar says";
}

TEST(HttpDate, ALeapSecondIsTheOneBehindItsDay) {
    EXPECT_EQ(net::parse_http_date("Sat, 31 Dec 2016 23:59:60 GMT"), 1483228800);
    EXPECT_EQ(net::parse_http_date("Sat, 31 Dec 2016 22:59:60 GMT"), std::nullopt);
}

// RFC 9110 section 5.6.7: what seems more than 50 years ahead is of the past.
TEST(HttpDate, AYearOfTwoDigitsIsTheLatestThatIsNotTooFarAhead) {
    EXPECT_EQ(written(*net::parse_http_date("Friday, 01-Jan-71 00:00:00 GMT", 0)), "Fri, 01 Jan 1971 00:00:00 GMT");
    EXPECT_EQ(written(*net::parse_http_date("Wednesday, 01-Jan-70 00:00:00 GMT", now_2026)),
              "Wed, 01 Jan 2070 00:00:00 GMT");
    EXPECT_EQ(written(*net::parse_http_date("Saturday, 01-Jan-77 00:00:00 GMT", now_2026)),
              "Sat, 01 Jan 1977 00:00:00 GMT");
    // A day of the week of the other century gives it away.
    EXPECT_EQ(net::parse_http_date("Thursday, 01-Jan-70 00:00:00 GMT", now_2026), std::nullopt);
    for (const std::int64_t now : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}, std::int64_t{0},
                                   std::numeric_limits<std::int64_t>::max()})
        for (const char* day : {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"})
            (void)net::parse_http_date(std::string(day) + ", 29-Feb-00 23:59:60 GMT", now);
}

TEST(HttpDate, WhatIsWrittenIsReadAgain) {
    const std::uint64_t seed = test::choose_seed();
    SCOPED_TRACE(seed);
    for (std::uint64_t i = 0; i < 20000; ++i) {
        const auto seconds = static_cast<std::int64_t>(test::random_at(seed, 1, i) % 315'569'519'999U) - 62'167'219'200;
        EXPECT_EQ(net::parse_http_date(written(seconds)), seconds) << written(seconds);
    }
    EXPECT_EQ(written(example), "Sun, 06 Nov 1994 08:49:37 GMT");
    EXPECT_EQ(written(std::numeric_limits<std::int64_t>::max()), "Fri, 31 Dec 9999 23:59:59 GMT");
    EXPECT_EQ(written(std::numeric_limits<std::int64_t>::min()), "Sat, 01 Jan 0000 00:00:00 GMT");
}

}  // namespace
