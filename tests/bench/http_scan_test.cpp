// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "http/exchange.hpp"
#include "http/load_tools.hpp"
#include "http/rounds.hpp"
#include "workload/http_load/answer_scanner.hpp"
#include "workload/http_load/rate_schedule.hpp"

namespace {

using namespace holdfast::bench::http;
using namespace holdfast::workload::http;

const std::string whole = "HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";

TEST(AnswerScanner, TakesOneAnswerAndLeavesTheNext) {
    const std::string bytes = whole + "HTTP/1.1 404 Not Found\r\ncontent-length:0\r\n\r\n";
    answer first, second;
    ASSERT_EQ(scan_answer(bytes, first), scan_status::complete);
    EXPECT_EQ(first.status, 200);
    EXPECT_EQ(first.body, "hi");
    EXPECT_EQ(first.bytes, whole.size());
    EXPECT_TRUE(first.closes);
    ASSERT_EQ(scan_answer(std::string_view(bytes).substr(first.bytes), second), scan_status::complete);
    EXPECT_EQ(second.status, 404);
    EXPECT_EQ(second.body, "");
    EXPECT_FALSE(second.closes);
}

TEST(AnswerScanner, NeedsMoreOfEveryBeginning) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
        answer got;
        EXPECT_EQ(scan_answer(std::string_view(whole).substr(0, length), got), scan_status::need_more) << length;
    }
}

// A head that is known is not looked at again: whatever came before, the answer is that of scan_answer().
TEST(AnswerScanner, FindsTheSameWhereTheHeadIsThatOfTheLastAnswer) {
    const std::string other = "HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhi!";
    const std::string none = "HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n";
    const std::string long_head = "HTTP/1.1 200 OK\r\nX: " + std::string(600, 'x') + "\r\nContent-Length: 2\r\n\r\nyo";
    const std::vector<std::string> all{whole,  whole, other,     whole,     none, none,
                                       "junk", none,  long_head, long_head, whole};
    answer_heads heads;
    for (const std::string& bytes : all)
        for (std::size_t length = 0; length <= bytes.size(); ++length) {
            const std::string_view part = std::string_view(bytes).substr(0, length);
            answer expected, got;
            const scan_status status = scan_answer(part, expected);
            ASSERT_EQ(heads.scan(part, got), status) << part;
            if (status != scan_status::complete) continue;
            EXPECT_EQ(got.status, expected.status);
            EXPECT_EQ(got.body, expected.body);
            EXPECT_EQ(got.bytes, expected.bytes);
            EXPECT_EQ(got.closes, expected.closes);
        }
}

TEST(AnswerScanner, KnowsAnswersThatHaveNoBody) {
    for (const std::string& head : {std::string("HTTP/1.1 204 No Content\r\n"),
                                    std::string("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n")}) {
        answer got;
        ASSERT_EQ(scan_answer(head + "\r\nHTTP/1.1", got), scan_status::complete) << head;
        EXPECT_EQ(got.body, "");
        EXPECT_EQ(got.bytes, head.size() + 2);
    }
}

// Attacks I1: each of these would make subjects answer differently, or leave the end of an answer in doubt.
TEST(AnswerScanner, RefusesWhatItDoesNotKnow) {
    const std::vector<std::string> all{
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "SSH-2.0-x\r\n",
        "HTTP/1.1 200 OK\r\n" + std::string(20'000, 'a'),
    };
    for (const std::string& bytes : all) {
        answer got;
        EXPECT_EQ(scan_answer(bytes, got), scan_status::malformed) << bytes.substr(0, 60);
    }
}

TEST(RateSchedule, StartsAreMultiplesOfTheIntervalAndDoNotDrift) {
    const rate_schedule schedule(1'000'000'000, 30'000, 100);  // an interval that is no whole number of nanoseconds
    EXPECT_EQ(schedule.count(), 3'000'000U);
    EXPECT_EQ(schedule.start_ns(0), 1'000'000'000U);
    EXPECT_EQ(schedule.start_ns(3), 1'000'100'000U);
    EXPECT_NEAR(static_cast<double>(schedule.start_ns(3'000'000)), 101e9, 1.0);
}

TEST(RateSchedule, CountsWholeIntervalsOnce) {
    EXPECT_EQ(rate_schedule(0, 1000, 0.1).count(), 100U);
    EXPECT_EQ(rate_schedule(0, 3, 1).count(), 3U);
    EXPECT_EQ(rate_schedule(0, 10, 0.25).count(), 3U);
}

TEST(Exchanges, AskForEachRecordAndExpectItsJson) {
    const std::vector<record> records = make_records(500);
    const std::vector<exchange> exchanges = make_exchanges("t", records, true);
    ASSERT_EQ(exchanges.size(), 500U);
    EXPECT_EQ(
        exchanges[6].request,
        "GET /v1/tables/t/7 HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(exchanges[6].body,
              "{\"id\":7,\"user\":" + std::to_string(records[6].user) + ",\"name\":\"" + records[6].name + "\"}");
    for (const record& r : records) {
        EXPECT_GE(r.name.size(), 1U);
        EXPECT_LE(r.name.size(), 8U);
    }
    EXPECT_EQ(csv_of(make_records(500)), csv_of(records));
}

TEST(WrkOutput, GivesItsRateOrSaysWhyNot) {
    EXPECT_EQ(wrk_rate("  100 requests in 1.00s\nRequests/sec:  12345.50\nTransfer/sec: 1MB\n"), 12345.5);
    EXPECT_THROW((void)wrk_rate("unable to connect"), child_failed);
    EXPECT_THROW((void)wrk_rate("Non-2xx or 3xx responses: 3\nRequests/sec: 5\n"), child_failed);
}

TEST(H2loadOutput, GivesItsRateOrSaysWhyNot) {
    const std::string good =
        "finished in 1.00s, 12345.50 req/s, 2.30MB/s\nrequests: 12345 total, 12409 started, 12345 done, 12345 "
        "succeeded, "
        "0 failed, 0 errored, 0 timeout\n";
    EXPECT_EQ(h2load_rate(good), 12345.5);
    EXPECT_THROW((void)h2load_rate("requests: 5 total, 2 failed, 0 errored, 0 timeout, 9 req/s"), child_failed);
    EXPECT_THROW((void)h2load_rate(" 0 failed, 0 errored, 0 timeout"), child_failed);
    EXPECT_THROW((void)h2load_rate(" 0 failed, 0 errored, 0 timeout, req/s"), child_failed);
    EXPECT_THROW((void)h2load_rate(" req/s 0 failed, 0 errored, 0 timeout"), child_failed);
}

}  // namespace
