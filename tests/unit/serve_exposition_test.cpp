// SPDX-License-Identifier: Apache-2.0
// The text of metrics, and which of its three forms a client gets. Foreign readers check whole answers:
// tests/e2e/metrics_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

#include "holdfast/detail/concat.hpp"
#include "holdfast/metrics/metric_name.hpp"
#include "serve/exposition.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::histogram_counts;
using holdfast::serve::choose_exposition;
using holdfast::serve::exposition;
using holdfast::serve::exposition_format;
using holdfast::serve::make_exposition;

/// Three samples below 1,024 ns, one of 1 s.
histogram_counts samples() {
    histogram_counts made;
    for (const std::uint64_t ns : {500U, 600U, 700U, 1'000'000'000U}) made.record(ns);
    return made;
}

std::string everything(exposition_format format) {
    const std::unique_ptr<exposition> writer = make_exposition(format);
    exposition& out = *writer;
    out.info("app_build_info", "Which build.", R"(version="1")");
    out.counters("app_requests_total", "Requests,\nby \"route\" and \\.");
    out.series(R"(route="/")", std::uint64_t{7});
    out.series("", std::numeric_limits<std::uint64_t>::max());
    out.gauges("app_size_bytes", "Size.", "bytes");
    out.series("", 1.5);
    out.series(R"(x="y")", 1e300);
    out.summaries("app_wait_seconds", "Wait.");
    out.series(R"(a="b")", samples());
    out.series("", histogram_counts());
    return out.finish();
}

constexpr std::string_view summary_text =
    "app_wait_seconds{a=\"b\",quantile=\"0.5\"} 6.04e-07\n"
    "app_wait_seconds{a=\"b\",quantile=\"0.9\"} 1.0\n"
    "app_wait_seconds{a=\"b\",quantile=\"0.99\"} 1.0\n"
    "app_wait_seconds{a=\"b\",quantile=\"0.999\"} 1.0\n"
    "app_wait_seconds_count{a=\"b\"} 4\n"
    "app_wait_seconds_sum{a=\"b\"} 1.0000018\n"
    "app_wait_seconds{quantile=\"0.5\"} NaN\n"
    "app_wait_seconds{quantile=\"0.9\"} NaN\n"
    "app_wait_seconds{quantile=\"0.99\"} NaN\n"
    "app_wait_seconds{quantile=\"0.999\"} NaN\n"
    "app_wait_seconds_count 0\n"
    "app_wait_seconds_sum 0.0\n";

TEST(Exposition, TextFormatNamesCountersAsTheirSeries) {
    EXPECT_EQ(everything(exposition_format::text),
              "# HELP app_build_info Which build.\n"
              "# TYPE app_build_info gauge\n"
              "app_build_info{version=\"1\"} 1\n"
              "# HELP app_requests_total Requests,\\nby \"route\" and \\\\.\n"
              "# TYPE app_requests_total counter\n"
              "app_requests_total{route=\"/\"} 7\n"
              "app_requests_total 18446744073709551615\n"
              "# HELP app_size_bytes Size.\n"
              "# TYPE app_size_bytes gauge\n"
              "app_size_bytes 1.5\n"
              "app_size_bytes{x=\"y\"} 1e+300\n"
              "# HELP app_wait_seconds Wait.\n"
              "# TYPE app_wait_seconds summary\n" +
                  std::string(summary_text));
}

TEST(Exposition, OpenMetricsNamesTheFamilyAndMarksTheEnd) {
    EXPECT_EQ(everything(exposition_format::openmetrics),
              "# HELP app_build Which build.\n"
              "# TYPE app_build info\n"
              "app_build_info{version=\"1\"} 1\n"
              "# HELP app_requests Requests,\\nby \\\"route\\\" and \\\\.\n"
              "# TYPE app_requests counter\n"
              "app_requests_total{route=\"/\"} 7\n"
              "app_requests_total 18446744073709551615\n"
              "# HELP app_size_bytes Size.\n"
              "# TYPE app_size_bytes gauge\n"
              "# UNIT app_size_bytes bytes\n"
              "app_size_bytes 1.5\n"
              "app_size_bytes{x=\"y\"} 1e+300\n"
              "# HELP app_wait_seconds Wait.\n"
              "# TYPE app_wait_seconds summary\n"
              "# UNIT app_wait_seconds seconds\n" +
                  std::string(summary_text) + "# EOF\n");
}

TEST(Exposition, ClassicHistogramIsCumulativeAndEndsWithAll) {
    const auto writer = make_exposition(exposition_format::text);
    writer->histograms("app_duration_seconds", "Time.");
    writer->series(R"(a="b")", samples());
    const std::string text = writer->finish();
    EXPECT_THAT(text, testing::StartsWith("# HELP app_duration_seconds Time.\n# TYPE app_duration_seconds histogram\n"
                                          "app_duration_seconds_bucket{a=\"b\",le=\"1.024e-06\"} 3\n"));
    EXPECT_THAT(text, testing::HasSubstr("app_duration_seconds_bucket{a=\"b\",le=\"1.073741824\"} 4\n"));
    EXPECT_THAT(text, testing::EndsWith("app_duration_seconds_bucket{a=\"b\",le=\"+Inf\"} 4\n"
                                        "app_duration_seconds_count{a=\"b\"} 4\n"
                                        "app_duration_seconds_sum{a=\"b\"} 1.0000018\n"));
}

/// The messages of a delimited stream.
std::vector<std::string> families(const std::string& bytes) {
    std::vector<std::string> found;
    const char* at = bytes.data();
    const char* const end = at + bytes.size();
    while (at != end) {
        const auto size = static_cast<std::size_t>(protozero::decode_varint(&at, end));
        EXPECT_LE(size, static_cast<std::size_t>(end - at));
        found.emplace_back(at, size);
        at += size;
    }
    return found;
}

/// A message as text, by the kinds of its fields alone: {4: {1: {1: "route" 2: "/"} 3: {1: 7}}}.
std::string shown(protozero::pbf_reader message) {
    std::string text = "{";
    while (message.next()) {
        text += holdfast::detail::concat(text.size() > 1 ? " " : "", message.tag(), ": ");
        const bool is_double = message.wire_type() == protozero::pbf_wire_type::fixed64;
        if (is_double) {
            text += std::to_string(message.get_double());
        } else if (message.wire_type() == protozero::pbf_wire_type::varint) {
            text += std::to_string(message.get_uint64());
        } else {
            const auto data = message.get_view();
            const std::string bytes(data.data(), data.size());
            const bool printable =
                std::ranges::all_of(bytes, [](char c) { return c == 0x0A || (c >= 0x20 && c < 0x7F); });
            text += printable ? holdfast::detail::concat('"', bytes, '"') : shown(protozero::pbf_reader(data));
        }
    }
    return text + "}";
}

TEST(Exposition, ProtobufIsOneMessageAFamily) {
    const auto messages = families(everything(exposition_format::protobuf));
    ASSERT_EQ(messages.size(), 4U);
    EXPECT_EQ(shown(protozero::pbf_reader(messages[0])),
              R"({1: "app_build_info" 2: "Which build." 3: 1 4: {1: {1: "version" 2: "1"} 2: {1: 1.000000}}})");
    EXPECT_THAT(shown(protozero::pbf_reader(messages[1])),
                testing::EndsWith(R"(3: 0 4: {1: {1: "route" 2: "/"} 3: {1: 7.000000}} )"
                                  R"(4: {3: {1: 18446744073709551616.000000}}})"));
    EXPECT_THAT(shown(protozero::pbf_reader(messages[3])),
                testing::HasSubstr(R"(3: 2 4: {1: {1: "a" 2: "b"} 4: {1: 4 2: 1.000002 3: {1: 0.500000 2: 0.000001})"));
}

// Values of labels arrive unescaped, and a family without series is not told of.
TEST(Exposition, ProtobufLabelsAreUnescaped) {
    const auto writer = make_exposition(exposition_format::protobuf);
    writer->gauges("empty", "Nothing.");
    writer->gauges("one", "One.");
    std::string labels;
    holdfast::append_metric_label(labels, "a", "x\"y\\z");
    holdfast::append_metric_label(labels, "b", "");
    writer->series(labels, 2.0);
    const auto messages = families(writer->finish());
    ASSERT_EQ(messages.size(), 1U);
    EXPECT_EQ(shown(protozero::pbf_reader(messages[0])),
              "{1: \"one\" 2: \"One.\" 3: 1 4: {1: {1: \"a\" 2: \"x\"y\\z\"} 1: {1: \"b\" 2: \"\"} 2: {1: 2.000000}}}");
    EXPECT_EQ(writer->finish(), "");
}

TEST(Exposition, ProtobufOnlyWhereItsMessageIsNamed) {
    constexpr const char* prometheus =
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
        "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    EXPECT_EQ(choose_exposition(prometheus), exposition_format::protobuf);
    EXPECT_EQ(choose_exposition("application/vnd.google.protobuf; proto=\"io.prometheus.client.MetricFamily\"; "
                                "encoding=\"delimited\""),
              exposition_format::protobuf);
    for (const char* accept :
         {"application/vnd.google.protobuf", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily",
          "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
          "application/vnd.google.protobuf;proto=other;encoding=delimited",
          "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0",
          "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.4,text/"
          "plain"})
        EXPECT_EQ(choose_exposition(accept), exposition_format::text) << accept;
}

TEST(Exposition, OpenMetricsOnlyWhereItIsNamedAndWeighsNoLess) {
    for (const char* accept :
         {"application/openmetrics-text", "application/openmetrics-text;version=1.0.0", "APPLICATION/openmetrics-TEXT",
          "text/plain, application/openmetrics-text", "application/openmetrics-text;q=0.001",
          "application/openmetrics-text; q=0.5, text/plain; q=0.5", "*/*;q=0.1, application/openmetrics-text;q=0.1",
          "application/openmetrics-text; version=\"1.0.0\"; x=\"a,b;q=0\""})
        EXPECT_EQ(choose_exposition(accept), exposition_format::openmetrics) << accept;
    for (const char* accept : {"", "*/*", "text/plain", "text/*", "text/html", "application/openmetrics-text;q=0",
                               "application/*", "application/openmetrics-text;q=0.4, text/plain;q=0.5",
                               "application/openmetrics-text;q=0.4, */*", "application/openmetrics-text;version=0.0.1",
                               "application/openmetrics-text;q=1.001", "application/openmetrics-text;q=-1",
                               "application/openmetrics-text;q=0.1234", "application/openmetrics-text2"})
        EXPECT_EQ(choose_exposition(accept), exposition_format::text) << accept;
}

// The field is input: any bytes end in one of the two formats.
TEST(Exposition, AnyAcceptFieldIsAnswered) {
    holdfast::test::seeded_random random;
    constexpr std::string_view pieces[] = {"application/openmetrics-text",
                                           "text/plain",
                                           "*/*",
                                           ";",
                                           ",",
                                           "q=",
                                           "0.5",
                                           "1",
                                           "\"",
                                           "\\",
                                           " ",
                                           "version=",
                                           "=",
                                           "\xFF",
                                           "1.0.0"};
    for (int round = 0; round < 20000; ++round) {
        std::string accept;
        for (std::uint64_t n = random.below(12); n > 0; --n) accept += pieces[random.below(std::size(pieces))];
        const exposition_format chosen = choose_exposition(accept);
        EXPECT_TRUE(chosen == exposition_format::text || accept.find("openmetrics") != std::string::npos) << accept;
    }
}

}  // namespace
