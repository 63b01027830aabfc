// SPDX-License-Identifier: Apache-2.0
// The text of metrics, and which of its two forms a client gets. Foreign readers check whole answers:
// tests/e2e/metrics_test.py.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "serve/exposition.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::serve::choose_exposition;
using holdfast::serve::exposition;
using holdfast::serve::exposition_format;

std::string everything(exposition_format format) {
    exposition out(format);
    out.info("app_build_info", "Which build.", R"(version="1")");
    out.counters("app_requests_total", "Requests,\nby \"route\" and \\.");
    out.series(R"(route="/")", std::uint64_t{7});
    out.series("", std::numeric_limits<std::uint64_t>::max());
    out.gauges("app_size_bytes", "Size.", "bytes");
    out.series("", 1.5);
    out.series(R"(x="y")", 1e300);
    constexpr std::array<std::uint64_t, 2> bounds{1024, 1 << 20};
    constexpr std::array<std::uint64_t, 2> below{3, 4};
    out.histogram("app_duration_seconds", "Time.", bounds, below, 5, 2'500'000'000);
    return out.finish();
}

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
              "# HELP app_duration_seconds Time.\n"
              "# TYPE app_duration_seconds histogram\n"
              "app_duration_seconds_bucket{le=\"1.024e-06\"} 3\n"
              "app_duration_seconds_bucket{le=\"0.001048576\"} 4\n"
              "app_duration_seconds_bucket{le=\"+Inf\"} 5\n"
              "app_duration_seconds_count 5\n"
              "app_duration_seconds_sum 2.5\n");
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
              "# HELP app_duration_seconds Time.\n"
              "# TYPE app_duration_seconds histogram\n"
              "# UNIT app_duration_seconds seconds\n"
              "app_duration_seconds_bucket{le=\"1.024e-06\"} 3\n"
              "app_duration_seconds_bucket{le=\"0.001048576\"} 4\n"
              "app_duration_seconds_bucket{le=\"+Inf\"} 5\n"
              "app_duration_seconds_count 5\n"
              "app_duration_seconds_sum 2.5\n"
              "# EOF\n");
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
