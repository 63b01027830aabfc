// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/uri.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace holdfast::net;
using namespace std::string_literals;
using namespace std::string_view_literals;
using testing::ElementsAre;
using testing::Optional;

std::optional<std::string> decoded(std::string_view text) {
    std::string out;
    if (!percent_decode(text, out)) return std::nullopt;
    return out;
}

TEST(Uri, PercentDecodeTakesEitherCaseAndAnyByte) {
    EXPECT_EQ(decoded("a%2Fb%2fc"), "a/b/c");
    EXPECT_EQ(decoded("%00%ff"), "\0\xff"s);
    EXPECT_EQ(decoded("a+b"), "a+b");
    EXPECT_EQ(decoded(""), "");
}

TEST(Uri, PercentDecodeRefusesHalfEscapes) {
    for (const std::string_view bad : {"%", "%4", "a%", "%g0", "%0g", "%%41", "% 1"})
        EXPECT_EQ(decoded(bad), std::nullopt) << bad;
}

TEST(Uri, PercentEncodeIsUndoneByDecode) {
    std::string every;
    for (int c = 0; c < 256; ++c) every.push_back(static_cast<char>(c));
    std::string encoded;
    percent_encode(every, encoded);
    EXPECT_EQ(encoded.find_first_of("/?#&=+ \r\n"), std::string::npos);
    EXPECT_EQ(decoded(encoded), every);
}

TEST(Uri, SplitPathDecodesEachSegmentAfterSplitting) {
    EXPECT_THAT(split_path("/"), Optional(ElementsAre("")));
    EXPECT_THAT(split_path("/v1/a%2Fb/c%20d"), Optional(ElementsAre("v1", "a/b", "c d")));
    EXPECT_THAT(split_path("/a//b/"), Optional(ElementsAre("a", "", "b", "")));
    EXPECT_THAT(split_path("/../."), Optional(ElementsAre("..", ".")));
    EXPECT_EQ(split_path("a"), std::nullopt);
    EXPECT_EQ(split_path(""), std::nullopt);
    EXPECT_EQ(split_path("/%4"), std::nullopt);
}

TEST(Uri, SplitPathUsesTheSegmentsItIsGivenAgain) {
    std::vector<std::string> segments{"one", "two", "three"};
    EXPECT_TRUE(split_path("/a%2Fb/a segment that is longer than most", segments));
    EXPECT_THAT(segments, ElementsAre("a/b", "a segment that is longer than most"));
    for (const char* bad : {"", "a", "/x/%4", "/x/%4/y"}) EXPECT_FALSE(split_path(bad, segments)) << bad;
    EXPECT_TRUE(split_path("/", segments));
    EXPECT_THAT(segments, ElementsAre(""));
    EXPECT_TRUE(split_path("/1/2/3/4", segments));
    EXPECT_THAT(segments, ElementsAre("1", "2", "3", "4"));
}

TEST(Uri, AQueryHasSoManyParametersAtMost) {
    std::string query;
    for (std::size_t i = 0; i < query_parameters::parameters_max; ++i)
        query += (i == 0 ? "p" : "&p") + std::to_string(i) + "=x";
    ASSERT_TRUE(query_parameters::parse(query));
    EXPECT_EQ(query_parameters::parse(query)->items().size(), query_parameters::parameters_max);
    EXPECT_FALSE(query_parameters::parse(query + "&one=more"));
}

TEST(Uri, QueryOffersDecodedParameters) {
    const auto q = query_parameters::parse("a=1&b=two+words&c%3D=%26&d&e=");
    ASSERT_TRUE(q);
    EXPECT_EQ(q->get("a"), "1");
    EXPECT_EQ(q->get("b"), "two words");
    EXPECT_EQ(q->get("c="), "&");
    EXPECT_EQ(q->get("d"), "");
    EXPECT_EQ(q->get("e"), "");
    EXPECT_EQ(q->get("f"), std::nullopt);
    EXPECT_EQ(q->items().size(), 5U);
    EXPECT_TRUE(query_parameters::parse("")->items().empty());
}

TEST(Uri, QueryRefusesWhatCouldBeReadTwoWays) {
    for (const std::string_view bad : {"a=1&a=2", "a=1&%61=2", "&", "a&", "&a", "a&&b", "=1", "a=%", "%zz=1"})
        EXPECT_FALSE(query_parameters::parse(bad)) << bad;
}

TEST(Uri, Utf8IsCheckedStrictly) {
    for (const std::string_view good : {""sv, "a"sv, "\xc3\xa4"sv, "\xe2\x82\xac"sv, "\xf0\x9f\x98\x80"sv, "\0"sv,
                                        "\xf4\x8f\xbf\xbf"sv, "\xed\x9f\xbf"sv, "\xee\x80\x80"sv})
        EXPECT_TRUE(is_utf8(good)) << testing::PrintToString(good);
    for (const std::string_view bad :
         {"\x80"sv, "\xc3"sv, "\xc0\x80"sv, "\xc1\xbf"sv, "\xe0\x80\x80"sv, "\xe0\x9f\xbf"sv, "\xed\xa0\x80"sv,
          "\xf0\x80\x80\x80"sv, "\xf4\x90\x80\x80"sv, "\xf5\x80\x80\x80"sv, "\xff"sv, "\xe2\x82"sv, "a\xe2\x28\xa1"sv})
        EXPECT_FALSE(is_utf8(bad)) << testing::PrintToString(bad);
}

}  // namespace
