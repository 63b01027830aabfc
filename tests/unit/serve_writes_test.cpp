// SPDX-License-Identifier: Apache-2.0
// Writes by a worker's routes, asked in process, to a name that leads to another segment than the worker knows: its
// catalog is refreshed when the test says so.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/broadcast/writer.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/net/http_parser.hpp"
#include "holdfast/net/response.hpp"
#include "holdfast/segment.hpp"
#include "holdfast/snapshot.hpp"
#include "serve/api.hpp"
#include "serve/entry_tags.hpp"
#include "serve/shared_counts.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;

// The segments of these tests are registered beside nobody else's.
const test::unique_directory registry("registry");
const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());

constexpr std::string_view token = "a-token-of-these-tests";

class ServedWrites : public ::testing::Test {
 protected:
    struct answer {
        int status;
        std::string body;
    };
    answer ask(std::string_view method, const std::string& target, std::string_view body = {},
               std::string_view fields = {}) {
        std::string text(method);
        text.append(" ").append(target).append(" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ").append(token);
        text.append("\r\nContent-Length: ").append(std::to_string(body.size())).append("\r\n");
        text.append(fields).append("\r\n").append(body);
        net::request_parser parser;
        EXPECT_EQ(parser.parse(std::span(text)), net::parse_status::complete) << text;
        net::response response;
        routes_.answer(parser.message(), response);
        return {response.status(), response.body()};
    }
    dynamic_hash_table make_table(std::string_view fields) const {
        const container_schema schema{record_schema::parse_list("id:u64"), record_schema::parse_list(fields)};
        return dynamic_hash_table::create(name_.uri(), schema, {.capacity = 8});
    }
    void make_ring(std::string_view fields) const {
        const container_schema schema{std::nullopt, record_schema::parse_list(fields)};
        (void)broadcast_writer::create(name_.uri(), {.capacity_bytes = 4096, .schema = schema.text()});
    }
    void make_snapshot(std::string_view fields, std::uint64_t slot_bytes) const {
        const container_schema schema{std::nullopt, record_schema::parse_list(fields)};
        snapshot_payload payload;
        payload.schema = schema.text();
        (void)snapshot_writer::create(name_.uri(), {.slot_bytes = slot_bytes, .slots = 2}, payload);
    }
    [[nodiscard]] std::string logged() const {
        std::ifstream in(folder_.file("log"));
        return {std::istreambuf_iterator<char>(in), {}};
    }

    test::unique_directory folder_{"writes"};
    test::unique_posix_name name_{"written"}, counts_name_{"counts"};
    serve::shared_counts counts_ = serve::shared_counts::open_or_create(counts_name_.uri(), 1);
    serve::api routes_{options(), 0, counts_};

 private:
    [[nodiscard]] serve::serve_options options() const {
        const std::string token_file = folder_.file("token");
        std::ofstream(token_file) << token << '\n';
        ::chmod(token_file.c_str(), 0600);
        serve::serve_options options;
        options.segments = {name_.uri()};
        options.write = true;
        options.token_file = token_file;
        options.audit_log = folder_.file("log");
        return options;
    }
};

// The other way round an answer made by the old fields would fail behind the change, and say that there was none.
TEST_F(ServedWrites, AnIncrementIsAnsweredByTheFieldsOfTheTableThatWasChanged) {
    const std::string target = "/v1/tables/" + name_.token() + "/1";
    {
        (void)make_table("a:u64,b:u64");
    }
    EXPECT_EQ(ask("GET", target).status, 404) << "the worker knows the first table now";
    segment::remove(name_.uri());
    {
        const std::uint64_t key = 1, value = 5;
        EXPECT_TRUE(
            make_table("c:u64").try_insert(std::as_bytes(std::span(&key, 1)), std::as_bytes(std::span(&value, 1))));
    }
    const answer counted = ask("POST", target + ":increment", R"({"field":"c","by":1})");
    EXPECT_EQ(counted.status, 200) << counted.body;
    EXPECT_EQ(counted.body, R"({"id":1,"c":6})");
    EXPECT_EQ(logged().find("refused"), std::string::npos) << logged();
    routes_.refresh();
    EXPECT_EQ(ask("GET", target).body, counted.body);
}

TEST_F(ServedWrites, ABatchIsBoundedByWhatItIsAnsweredWith) {
    constexpr std::size_t value_bytes = 60'000;
    {
        const std::uint64_t key = 1;
        const std::string value(value_bytes, 'v');
        EXPECT_TRUE(
            make_table("v:char[60000]").try_insert(std::as_bytes(std::span(&key, 1)), std::as_bytes(std::span(value))));
    }
    const auto batch = [&](std::size_t keys) {
        std::string list = "{\"keys\":[1";
        for (std::size_t i = 1; i < keys; ++i) list += ",1";
        return ask("POST", "/v1/tables/" + name_.token() + ":batchGet", list + "]}");
    };
    const answer whole = batch(200);
    EXPECT_EQ(whole.status, 200) << whole.body.substr(0, 200);
    EXPECT_GT(whole.body.size(), 200 * value_bytes);
    const answer refused = batch(1000);
    EXPECT_EQ(refused.status, 413);
    EXPECT_NE(refused.body.find("16 MiB"), std::string::npos) << refused.body.substr(0, 300);
}

TEST_F(ServedWrites, AnEmptyIfNoneMatchIsNoPermissionToReplace) {
    (void)make_table("c:u64");
    const std::string target = "/v1/tables/" + name_.token() + "/1";
    EXPECT_EQ(ask("PUT", target, R"({"c":1})").status, 201);
    EXPECT_EQ(ask("PUT", target, R"({"c":2})", "If-None-Match: \r\n").status, 400);
    EXPECT_EQ(ask("PUT", target, R"({"c":2})", "If-None-Match: *\r\n").status, 412);
    EXPECT_EQ(ask("PUT", target, R"({"c":2})", "If-Match: \"a,*,b\"\r\n").status, 412);
    EXPECT_EQ(ask("GET", target).body, R"({"id":1,"c":1})");
    EXPECT_EQ(ask("PUT", target, R"({"c":2})", "If-Match: *\r\n").status, 204);
}

TEST_F(ServedWrites, ATagNamesNoValueOfOtherFieldsThoughItsBytesAreTheSame) {
    const std::string target = "/v1/tables/" + name_.token() + "/1";
    const std::uint64_t key = 1, value = 5;
    const auto key_bytes = std::as_bytes(std::span(&key, 1)), value_bytes = std::as_bytes(std::span(&value, 1));
    EXPECT_TRUE(make_table("a:u64").try_insert(key_bytes, value_bytes));
    const container_schema schema{record_schema::parse_list("id:u64"), record_schema::parse_list("a:u64")};
    const std::string tag(serve::entry_tags(schema).of(value_bytes).text());
    EXPECT_EQ(ask("GET", target, {}, "If-None-Match: " + tag + "\r\n").status, 304);
    segment::remove(name_.uri());
    EXPECT_TRUE(make_table("b:u64").try_insert(key_bytes, value_bytes));
    const std::string as_before = "If-Match: " + tag + "\r\n";
    EXPECT_EQ(ask("PUT", target, R"({"b":6})", as_before).status, 412);
    EXPECT_EQ(ask("DELETE", target, {}, as_before).status, 412);
    EXPECT_EQ(ask("POST", target + ":increment", R"({"field":"b","by":1})", as_before).status, 412);
    routes_.refresh();
    const answer now = ask("GET", target, {}, "If-None-Match: " + tag + "\r\n");
    EXPECT_EQ(now.status, 200);
    EXPECT_EQ(now.body, R"({"id":1,"b":5})");
}

TEST_F(ServedWrites, AMessageMadeForAnotherRingIsNotPublished) {
    const std::string target = "/v1/rings/" + name_.token();
    make_ring("a:u32,b:u32");
    EXPECT_EQ(ask("GET", target).status, 200) << "the worker knows the first ring now";
    segment::remove(name_.uri());
    make_ring("b:u32,a:u32");
    const std::string_view message = R"({"a":1,"b":2})";
    const answer early = ask("POST", target, message);
    EXPECT_EQ(early.status, 503) << early.body;
    EXPECT_EQ(logged(), "") << "nothing was to be changed";
    routes_.refresh();
    EXPECT_EQ(ask("POST", target, message).status, 201);
    const std::string page = ask("GET", target).body;
    EXPECT_NE(page.find(R"({"sequence":1,"type":0,"record":{"b":2,"a":1}})"), std::string::npos) << page;
}

// Else each request that describes a record would allocate as much as the schema says, in a segment of a few pages.
TEST_F(ServedWrites, ARingThatTakesNoRecordOfItsSchemaIsRefused) {
    const std::string target = "/v1/rings/" + name_.token();
    for (const char* const bytes : {"1000000000", "1017"}) {
        make_ring("t:char[" + std::string(bytes) + "]");
        for (const char* const method : {"GET", "POST"}) {
            const answer refused = ask(method, target, method[0] == 'P' ? R"({"t":"x"})" : "");
            EXPECT_EQ(refused.status, 500) << method << ' ' << refused.body;
            EXPECT_NE(refused.body.find(std::string(bytes) + " bytes"), std::string::npos) << refused.body;
            EXPECT_NE(refused.body.find("1016 at most"), std::string::npos) << refused.body;
            if (refused.status != 500) break;  // a POST would ask for all that memory
        }
        segment::remove(name_.uri());
        routes_.refresh();
    }
    make_ring("t:char[1016]");
    EXPECT_EQ(ask("POST", target, R"({"t":"x"})").status, 201) << "the longest message there can be";
}

TEST_F(ServedWrites, ASnapshotThatTakesNoRecordOfItsSchemaIsRefused) {
    const std::string target = "/v1/snapshots/" + name_.token();
    for (const char* const bytes : {"1000000000", "65"}) {
        make_snapshot("t:char[" + std::string(bytes) + "]", 64);
        for (const char* const method : {"GET", "PUT"}) {
            const answer refused = ask(method, target, method[0] == 'P' ? R"({"t":"x"})" : "");
            EXPECT_EQ(refused.status, 500) << method << ' ' << refused.body;
            EXPECT_NE(refused.body.find(std::string(bytes) + " bytes"), std::string::npos) << refused.body;
            EXPECT_NE(refused.body.find("64 at most"), std::string::npos) << refused.body;
            if (refused.status != 500) break;
        }
        segment::remove(name_.uri());
        routes_.refresh();
    }
    make_snapshot("t:char[64]", 64);
    EXPECT_EQ(ask("PUT", target, R"({"t":"x"})").status, 201) << "the longest object there can be";
}

TEST_F(ServedWrites, ARecordLongerThanWhatIsServedIsNotMade) {
    constexpr std::uint64_t bytes = (std::uint64_t{16} << 20U) + 1;
    make_snapshot("t:char[" + std::to_string(bytes) + "]", bytes);
    const answer refused = ask("PUT", "/v1/snapshots/" + name_.token(), R"({"t":"x"})");
    EXPECT_EQ(refused.status, 501) << refused.body;
    EXPECT_NE(refused.body.find("16 MiB"), std::string::npos) << refused.body;
    EXPECT_EQ(logged(), "") << "nothing was to be changed";
}

}  // namespace
