// SPDX-License-Identifier: Apache-2.0
#include "holdfast/metrics/metric_name.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using holdfast::metric_label;
using holdfast::metric_label_value;
using holdfast::valid_metric_family;
using holdfast::valid_metric_labels;

TEST(MetricName, FamilyTakesLettersDigitsUnderscoreAndColon) {
    for (const char* good : {"a", "_", ":", "http_requests_total", "job:rate5m", "A9"})
        EXPECT_TRUE(valid_metric_family(good)) << good;
    for (const char* bad : {"", "9a", "a b", "a-b", "a.b", "a\n", "\xC3\xA9", "a{"})
        EXPECT_FALSE(valid_metric_family(bad)) << bad;
}

TEST(MetricName, LabelsTakeEscapesAndUtf8) {
    for (const char* good : {"", R"(a="")", R"(a="b",c="d")", R"(a="\\\"\n")",
                             "a=\"Z\xC3\xBCrich \xE2\x82\xAC \xF0\x9F\x8C\x8D\"", R"(a="}{,=")"})
        EXPECT_TRUE(valid_metric_labels(good)) << good;
}

TEST(MetricName, LabelsRefuseWhatAReaderCouldMisread) {
    for (const char* bad : {"a", "a=", "a=b", R"(a="b)", R"(a="b",)", R"(,a="b")", R"(a="b" ,c="d")", R"(a="b"c="d")",
                            R"(9="b")", R"(a="\t")", "a=\"\n\"", "a=\"\x01\"", "a=\"\x7F\"", R"(a="b",a="c")",
                            R"(a="1",b="2",a="3")", R"(a="\)", R"(a="b\")", R"(a:b="c")"})
        EXPECT_FALSE(valid_metric_labels(bad)) << bad;
}

TEST(MetricName, LabelsRefuseBytesThatAreNoUtf8) {
    // Stray continuation, cut characters, overlong forms, a surrogate, beyond U+10FFFF, a C1 control character.
    for (const char* bad : {"\x80", "\xC3", "\xE2\x82", "\xC0\xAF", "\xC1\x81", "\xE0\x80\x80", "\xED\xA0\x80",
                            "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC2\x85"})
        EXPECT_FALSE(valid_metric_labels("a=\"" + std::string(bad) + "\"")) << bad;
}

TEST(MetricName, AnyValueMakesAValidLabelThatReadsBack) {
    std::string every;
    for (int c = 0x20; c < 0x7F; ++c) every += static_cast<char>(c);
    for (const std::string& value :
         {std::string("US"), std::string(), std::string("a\"b\\c\nd"), every, std::string("Z\xC3\xBCrich")}) {
        const std::string label = metric_label("country", value);
        EXPECT_TRUE(valid_metric_labels(label)) << label;
        EXPECT_EQ(metric_label_value(label, "country"), value);
    }
    EXPECT_EQ(metric_label("a", "\x01\xFF"), "a=\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(MetricName, ValueIsFoundByItsOwnNameOnly) {
    const std::string labels = R"(segment="geo4",country="\"US\"",x="1")";
    EXPECT_EQ(metric_label_value(labels, "country"), "\"US\"");
    EXPECT_EQ(metric_label_value(labels, "segment"), "geo4");
    EXPECT_EQ(metric_label_value(labels, "x"), "1");
    EXPECT_EQ(metric_label_value(labels, "geo4"), std::nullopt);
    EXPECT_EQ(metric_label_value("", "x"), std::nullopt);
}

}  // namespace
