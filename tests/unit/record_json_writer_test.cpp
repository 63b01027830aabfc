// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/record.hpp"

namespace {

using holdfast::container_schema;
using holdfast::errc;
using holdfast::json_writer;
using holdfast::record_schema;
using holdfast::schema_of;

enum class color : std::uint8_t { red, green };

struct sample {
    std::int64_t big;
    double real, none, most;
    bool flag;
    color known, unknown;
    char text[8];
    std::byte raw[2];
    holdfast::ipv4 host;
    holdfast::timestamp when;
    std::int32_t list[3];
    color colors[2];
    struct {
        std::uint8_t x;
    } at;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
    return std::as_bytes(std::span(&value, 1));
}

sample make_sample() {
    sample s{};
    s.big = std::numeric_limits<std::int64_t>::min();
    s.real = 0.1;
    s.none = std::numeric_limits<double>::quiet_NaN();
    s.most = -std::numeric_limits<double>::infinity();
    s.flag = true;
    s.known = color::green;
    s.unknown = static_cast<color>(9);
    EXPECT_TRUE(holdfast::set_text(s.text, "a\"\\\n\x01\xff"));
    s.raw[1] = std::byte{0xab};
    s.host = {0x01020304};
    s.list[1] = -5;
    s.colors[1] = static_cast<color>(7);
    s.at.x = 3;
    return s;
}

TEST(JsonWriter, EveryTypeHasItsForm) {
    std::string out;
    holdfast::append_json(out, schema_of<sample>(), bytes_of(make_sample()));
    EXPECT_EQ(out,
              "{\"big\":-9223372036854775808,\"real\":0.1,\"none\":\"NaN\",\"most\":\"-Infinity\",\"flag\":true,"
              "\"known\":\"green\",\"unknown\":9,\"text\":\"a\\\"\\\\\\n\\u0001\\\\xff\",\"raw\":\"00ab\","
              "\"host\":\"1.2.3.4\",\"when\":\"1970-01-01T00:00:00Z\",\"list\":[0,-5,0],\"colors\":[\"red\",7],"
              "\"at.x\":3}");
}

TEST(JsonWriter, ProjectionTakesTheNamedFieldsInTheirOrder) {
    std::string out;
    const std::string_view fields[] = {"host", "big"};
    holdfast::append_json(out, schema_of<sample>(), bytes_of(make_sample()), fields);
    EXPECT_EQ(out, "{\"host\":\"1.2.3.4\",\"big\":-9223372036854775808}");
}

TEST(JsonWriter, ProjectionOfAnUnknownOrRepeatedFieldIsRefusedByName) {
    const record_schema schema = record_schema::parse_list("a:u8,b:u8");
    const auto refusal = [&](std::vector<std::string_view> fields) -> std::string {
        try {
            const json_writer writer(schema, fields);
            return "accepted";
        } catch (const holdfast::error& e) {
            EXPECT_EQ(e.reason(), errc::invalid_argument);
            return e.what();
        }
    };
    EXPECT_EQ(refusal({"c"}), "field 'c': is not in the record; there are a, b (invalid argument)");
    EXPECT_EQ(refusal({"a", "a"}), "field 'a': is asked for twice (invalid argument)");
    EXPECT_EQ(refusal({""}), "field '': is not in the record; there are a, b (invalid argument)");
}

TEST(JsonWriter, EntryIsOneFlatObjectOfKeyAndValue) {
    const container_schema schema{schema_of<holdfast::ipv4>("key"), record_schema::parse_list("hits:u32,to:char[2]")};
    const holdfast::ipv4 key{0x7f000001};
    const struct {
        std::uint32_t hits = 4;
        char to[4] = {'U', 'S', 0, 0};
    } value;
    std::string out = "x";
    const json_writer writer(schema);
    writer.append(out, bytes_of(key), bytes_of(value));
    EXPECT_EQ(out, "x{\"key\":\"127.0.0.1\",\"hits\":4,\"to\":\"US\"}");
    out.clear();
    const std::string_view fields[] = {"to"};
    holdfast::append_json(out, schema, bytes_of(key), bytes_of(value), fields);
    EXPECT_EQ(out, "{\"to\":\"US\"}");
    out.clear();
    const container_schema values{std::nullopt, schema.value};
    holdfast::append_json(out, values, {}, bytes_of(value), fields);
    EXPECT_EQ(out, "{\"to\":\"US\"}");
}

TEST(JsonWriter, TooFewBytesAreAnErrorNotARead) {
    const json_writer writer(schema_of<std::uint64_t>());
    const std::byte few[7]{};
    std::string out;
    EXPECT_THROW(writer.append(out, few), holdfast::error);
}

TEST(JsonWriter, NamesInBothPartsAreRefused) {
    const record_schema part = record_schema::parse_list("id:u32");
    const container_schema both{part, part};
    EXPECT_THROW(json_writer{both}, holdfast::error);
    try {
        static_cast<void>(both.text());
        FAIL();
    } catch (const holdfast::error& e) {
        EXPECT_STREQ(e.what(),
                     "schema: field id is in the key and in the value; rename one, since an entry shows both "
                     "(invalid argument)");
    }
}

TEST(JsonWriter, FloatsThatAreNumbersAreWrittenAsJsonNumbers) {
    for (const auto& [value, text] : {std::pair{1e22, "1e+22"},
                                      {-0.0, "-0"},
                                      {5e-324, "5e-324"},
                                      {1.0, "1"},
                                      {9007199254740993.0, "9007199254740992"},
                                      {-80704505322479288320.0, "-8.070450532247929e+19"}}) {
        std::string out;
        holdfast::append_json(out, schema_of<double>("d"), bytes_of(value));
        EXPECT_EQ(out, std::string("{\"d\":") + text + "}");
    }
}

}  // namespace
