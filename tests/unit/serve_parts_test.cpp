// SPDX-License-Identifier: Apache-2.0
// Parts of the server that need no socket: who may call us what, a worker's command line, keys from text, counts.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "holdfast/error.hpp"
#include "inspect/json_keys.hpp"
#include "serve/host_check.hpp"
#include "serve/shared_counts.hpp"
#include "serve/worker_arguments.hpp"
#include "support/unique_name.hpp"

namespace {

// The segments of these tests are registered beside nobody else's.
const holdfast::test::unique_directory registry("registry");
const holdfast::test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());

using namespace holdfast;

TEST(HostCheck, SplitsOffThePort) {
    EXPECT_EQ(serve::host_without_port("example.org:8080"), "example.org");
    EXPECT_EQ(serve::host_without_port("example.org"), "example.org");
    EXPECT_EQ(serve::host_without_port("example.org:"), "example.org");
    EXPECT_EQ(serve::host_without_port("[::1]:80"), "::1");
    for (const char* bad : {"[::1", "[::1]80", "a:b", "a:123456", "::1", "", ":80"})
        EXPECT_EQ(serve::host_without_port(bad), "") << bad;
}

TEST(HostCheck, TakesAddressesLocalhostAndWhatIsAllowed) {
    const serve::host_check check({"State.Example"});
    for (const char* good : {"127.0.0.1", "10.1.2.3:80", "[2001:db8::1]", "localhost", "LocalHost:1", "localhost.",
                             "a.localhost", "state.example", "STATE.EXAMPLE.:443"})
        EXPECT_TRUE(check.accepts(good)) << good;
    for (const char* bad : {"", "example", "evil.state.example", "state.example.evil", "127.0.0.1.nip.example",
                            "localhost.example", "1.2.3", "0x7f.1"})
        EXPECT_FALSE(check.accepts(bad)) << bad;
}

TEST(WorkerArguments, ReadBackWhatWasWritten) {
    serve::worker_arguments sent;
    sent.index = 3;
    sent.listener = 7;
    sent.lifeline = 8;
    sent.ready = 9;
    sent.options.listen = "[::1]:8080";
    sent.options.segments = {"geo4", "file:/srv/with=sign"};
    sent.options.allowed_hosts = {"state.example"};
    sent.options.counts = {{"file:/a=b", "country"}};
    sent.options.name = "counts";
    sent.options.limits = {.message = {1, 2, 3, 4, 5, 6},
                           .connections_max = 17,
                           .output_bytes_max = 18,
                           .held_bytes_max = 19,
                           .header_timeout_ms = 20,
                           .body_timeout_ms = 21,
                           .idle_timeout_ms = 22,
                           .write_timeout_ms = 23,
                           .linger_timeout_ms = 24,
                           .drain_idle_ms = 25,
                           .drain_timeout_ms = 26};
    const std::vector<std::string> words = sent.words();
    const std::vector<std::string_view> views(words.begin(), words.end());
    const serve::worker_arguments got = serve::worker_arguments::parse(views);
    EXPECT_EQ(got.words(), words);
    EXPECT_EQ(got.options.counts[0].segment, "file:/a=b");
    EXPECT_EQ(got.options.segments, sent.options.segments);
    EXPECT_EQ(got.options.limits, sent.options.limits);
}

TEST(WorkerArguments, RefuseWhatNoSupervisorSays) {
    using words = std::vector<std::string_view>;
    for (const words& bad : {words{}, words{"--index=1"}, words{"--nothing=1"}, words{"index=1"}, words{"--index=x"},
                             words{"--index="}, words{"--listener=1", "--lifeline=2", "--ready=3", "--count-by=geo4"}})
        EXPECT_THROW((void)serve::worker_arguments::parse(bad), error);
}

TEST(CountBy, NeedsASegmentAndAField) {
    EXPECT_EQ(serve::count_by::parse("geo4=country").field, "country");
    for (const char* bad : {"", "geo4", "=country", "geo4=", "="})
        EXPECT_THROW((void)serve::count_by::parse(bad), error) << bad;
}

TEST(JsonKeys, TakesStringsAndNumbers) {
    std::string why;
    EXPECT_EQ(inspect::parse_json_keys(R"({"keys":["a\u0041",7,-3,18446744073709551615]})", 10, why),
              (std::vector<std::string>{"aA", "7", "-3", "18446744073709551615"}));
    EXPECT_EQ(inspect::parse_json_keys(R"({"keys":[]})", 10, why), std::vector<std::string>{});
    for (const char* bad :
         {"", "x", "[]", "{}", R"({"keys":{}})", R"({"keys":[null]})", R"({"keys":[[1]]})", R"({"keys":[1,2,3]})",
          R"({"x":1,"keys":[1]})", R"({"keys":[1],"keys":[2]})", "{\"keys\":[\"\xFF\"]}"}) {
        why.clear();
        EXPECT_EQ(inspect::parse_json_keys(bad, 2, why), std::nullopt) << bad;
        EXPECT_NE(why, "") << bad;
    }
}

TEST(SharedCounts, AreMadeOnceAndJoinedEverAfter) {
    const test::unique_posix_name name("counts");
    const auto first = serve::shared_counts::open_or_create(name.uri(), 2);
    const auto second = serve::shared_counts::open_or_create(name.uri(), 2);
    serve::request_counters one(first.counters, 0);
    serve::request_counters two(second.counters, 0);
    one.count(serve::route::health, 200);
    two.count(serve::route::health, 204);
    two.count(serve::route::health, 404);
    two.count(serve::route::none, 999);
    const auto value = [&](const char* route, const char* status) {
        std::string labels = metric_label("route", route);
        append_metric_label(labels, "status", status);
        append_metric_label(labels, "worker", "0");
        return counter_set_reader::attach(name.uri()).value(serve::requests_family, labels);
    };
    EXPECT_EQ(value("/healthz", "2xx"), 2U);
    EXPECT_EQ(value("/healthz", "4xx"), 1U);
    EXPECT_EQ(value("none", "0xx"), 1U);
}

// Values come from data that a client chooses among: however many there are, the set does not fill up with them.
TEST(SharedCounts, ValuesBeyondTheLimitAreCountedTogether) {
    const counter_set set = counter_set::create("heap:", {.capacity = 4096});
    serve::lookup_counters counters(set, "geo4", "country");
    for (int i = 0; i < 3000; ++i) counters.value(std::string("v").append(std::to_string(i)));
    counters.value(std::string(100, 'x'));
    counters.value("v0");
    std::map<std::string, std::uint64_t> seen;
    set.for_each([&](std::string_view family, std::string_view labels, std::uint64_t count) {
        if (family == serve::values_family) seen[*metric_label_value(labels, "value")] += count;
    });
    EXPECT_EQ(seen.size(), serve::lookup_counters::values_max + 1);
    EXPECT_EQ(seen["v0"], 2U);
    EXPECT_EQ(seen["(other)"], 3001U - serve::lookup_counters::values_max);
}

TEST(SharedCounts, FullSetCostsCountsNotAnswers) {
    const counter_set set = counter_set::create("heap:", {.capacity = 1});
    (void)set.get("taken");
    serve::lookup_counters lookups(set, "geo4", "country");
    serve::request_counters requests(set, 0);
    lookups.hit();
    lookups.miss();
    lookups.value("US");
    lookups.value("US");
    requests.count(serve::route::index_get, 200);
    std::size_t seen = 0;
    set.for_each([&](auto, auto, auto) { ++seen; });
    EXPECT_EQ(seen, 1U);
}

}  // namespace
