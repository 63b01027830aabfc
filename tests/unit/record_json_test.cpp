// SPDX-License-Identifier: Apache-2.0
#include "inspect/record_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/record.hpp"
#include "support/random_record.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::container_schema;
using holdfast::record_schema;
using holdfast::inspect::record_json_reader;
using testing::HasSubstr;

/// What JSON becomes when it is read and written again, or "! message".
std::string through(std::string_view list, std::string_view json) {
    const record_schema schema = record_schema::parse_list(list);
    record_json_reader reader(schema);
    std::vector<std::byte> record(schema.bytes(), std::byte{0xee});
    if (const auto failure = reader.read(json, record)) return "! " + failure->message();
    std::string out;
    holdfast::append_json(out, schema, record);
    return out;
}

TEST(RecordJson, EveryTypeIsRead) {
    EXPECT_EQ(through("a:u64,b:i64", R"({"a":18446744073709551615,"b":-9223372036854775808})"),
              R"({"a":18446744073709551615,"b":-9223372036854775808})");
    EXPECT_EQ(through("a:f32,b:f64", R"({"a":0.1,"b":1E2})"), R"({"a":0.1,"b":100})");
    EXPECT_EQ(through("a:f32,b:f64", R"({"a":"NaN","b":"-Infinity"})"), R"({"a":"NaN","b":"-Infinity"})");
    EXPECT_EQ(through("a:bool,b:bool", R"({"a":true,"b":false})"), R"({"a":true,"b":false})");
    EXPECT_EQ(through("a:u8<x=1>,b:u8<x=1>,c:u8<x=1>", R"({"a":"x","b":1,"c":2})"), R"({"a":"x","b":"x","c":2})");
    EXPECT_EQ(through("a:char[4]", R"({"a":"\u00e4\n"})"), "{\"a\":\"\xc3\xa4\\n\"}");
    EXPECT_EQ(through("a:char[4]", R"({"a":"\\xff"})"), R"({"a":"\\xff"})");
    EXPECT_EQ(through("a:char[8]", R"({"a":"\u007f\u0080\u009f\u00a0"})"), "{\"a\":\"\\u007f\\u0080\\u009f\xc2\xa0\"}")
        << "what a terminal obeys";
    EXPECT_EQ(through("a:char[4]", R"({"a":"\ud83d\ude00"})"), "{\"a\":\"\xf0\x9f\x98\x80\"}");
    EXPECT_EQ(through("a:bytes[2]", R"({"a":"00FF"})"), R"({"a":"00ff"})");
    EXPECT_EQ(through("a:ipv4,b:ipv4", R"({"a":"1.2.3.4","b":16909060})"), R"({"a":"1.2.3.4","b":"1.2.3.4"})");
    EXPECT_EQ(through("a:ipv6", R"({"a":"2001:DB8::"})"), R"({"a":"2001:db8::"})");
    EXPECT_EQ(through("a:timestamp", R"({"a":"2026-11-21T09:00:00+01:00"})"), R"({"a":"2026-11-21T08:00:00Z"})");
    EXPECT_EQ(through("a:i16[3]", R"({"a":[1,-2,3]})"), R"({"a":[1,-2,3]})");
}

TEST(RecordJson, OrderAndWhiteSpaceAreFree) {
    EXPECT_EQ(through("a:u8,b:u8,c.x:u8", " \n{ \"c.x\" : 3 ,\t\"a\":1, \"\\u0062\" : 2 } \r\n"),
              R"({"a":1,"b":2,"c.x":3})");
}

TEST(RecordJson, RefusalsNameTheFieldThePlaceAndTheReason) {
    const struct {
        const char *list, *json, *message;
    } cases[] = {
        {"a:u8", R"({"a":256})", "field a at byte 5: '256' is outside 0 to 255"},
        {"a:u8", R"({"a": -1})", "field a at byte 6: '-1' is outside 0 to 255"},
        {"a:i32", R"({"a":1.0})", "field a at byte 5: '1.0' is not an integer"},
        {"a:i32", R"({"a":1e3})", "'1e3' is not an integer"},
        {"a:i32", R"({"a":"1"})", "field a at byte 5: needs a number, not a string"},
        {"a:i32", R"({"a":true})", "needs a number, not true or false"},
        {"a:i32", R"({"a":null})", "needs a value, not null"},
        {"a:i32", R"({"a":[1]})", "needs one value, not an array"},
        {"a.x:i32", R"({"a.x":{"x":1}})", "needs a value, not an object; nested fields have dotted names"},
        {"a:u64", R"({"a":18446744073709551616})", "is outside 0 to 18446744073709551615"},
        {"a:f64", R"({"a":1e309})", "'1e309' is too large or too small for f64"},
        {"a:f64", R"({"a":"1.5"})", "needs a number, or \"NaN\", \"Infinity\" or \"-Infinity\", not '1.5'"},
        {"a:f64", R"({"a":"nan"})", "needs a number, or \"NaN\""},
        {"a:bool", R"({"a":1})", "needs true or false, not a number"},
        {"a:bool", R"({"a":"true"})", "needs true or false, not a string"},
        {"a:u8<x=1>", R"({"a":"y"})", "'y' is no name of u8<x=1>"},
        {"a:u8<x=1>", R"({"a":"1"})", "'1' is no name of u8<x=1>"},
        {"a:char[2]", R"({"a":"abc"})", "text of 3 bytes does not fit char[2]"},
        {"a:char[2]", R"({"a":1})", "needs a string, not a number"},
        {"a:bytes[2]", R"({"a":"00"})", "needs 4 hexadecimal digits, has 2 characters"},
        {"a:ipv4", R"({"a":"1.2.3"})", "'1.2.3' is not an IPv4 address"},
        {"a:ipv4", R"({"a":4294967296})", "'4294967296' is not an IPv4 address"},
        {"a:ipv4", R"({"a":1.5})", "'1.5' is not an IPv4 address"},
        {"a:ipv6", R"({"a":1})", "needs a string, not a number"},
        {"a:timestamp", R"({"a":"yesterday"})", "a timestamp is written like"},
        {"a:u8[2]", R"({"a":1})", "needs an array of 2"},
        {"a:u8[2]", R"({"a":[1]})", "has fewer elements than u8[2]"},
        {"a:u8[2]", R"({"a":[1,2,3]})", "has more elements than u8[2]"},
        {"a:u8[2]", R"({"a":[1,"x"]})", "field a at byte 5: element 2: needs a number, not a string"},
        {"a:u8[2]", R"({"a":[1,[2]]})", "element 2: needs one value, not an array"},
        {"a:u8", R"({"a":1,"a":1})", "field a at byte 7: is given twice"},
        {"a:u8", R"({"a":1,"b":1})", "at byte 7: has no field 'b'"},
        {"a:u8", R"({"b":1})", "at byte 1: has no field 'b'"},
        {"a:u8,b:u8,c:u8", R"({"b":1})", "lacks a, c"},
        {"a:u8", "{}", "lacks a"},
    };
    for (const auto& c : cases) EXPECT_THAT(through(c.list, c.json), HasSubstr(c.message)) << c.list << " " << c.json;
}

TEST(RecordJson, WhatIsNotJsonIsRefused) {
    for (const char* json : {"",
                             " ",
                             "null",
                             "1",
                             "[]",
                             "\"a\"",
                             "{",
                             "}",
                             "{\"a\"}",
                             "{\"a\":}",
                             "{\"a\":1",
                             "{\"a\":1,}",
                             "{\"a\":1}}",
                             "{\"a\":1} {\"a\":1}",
                             "{\"a\":1}x",
                             "{\"a\" 1}",
                             "{a:1}",
                             "{'a':1}",
                             "{\"a\":01}",
                             "{\"a\":1.}",
                             "{\"a\":.5}",
                             "{\"a\":+1}",
                             "{\"a\":1e}",
                             "{\"a\":--1}",
                             "{\"a\":1x}",
                             "{\"a\":1 2}",
                             "{\"a\":0x1}",
                             "{\"a\":NaN}",
                             "{\"a\":tru}",
                             "{\"a\":truex}",
                             "{\"a\":nul}",
                             "{,\"a\":1}",
                             "{\"a\":1,,}",
                             "{\"a\":1]",
                             "{\"a\":1}\x01",
                             "{\"a\":\"",
                             "{\"\\x\":1}",
                             "{\"a\xff\":1}",
                             "// c\n{\"a\":1}",
                             "{\"a\":-}",
                             "\xef\xbb\xbf{\"a\":1}",
                             "{\"a\":1}\n{\"a\":2}"})
        EXPECT_THAT(through("a:i32", json), testing::StartsWith("! ")) << json;
    for (const char* value : {R"("\ud800")", R"("\q")", "\"\n\"", "\"\xff\"", "\"\xc0\x80\"", "\"x", R"("\u12")"})
        EXPECT_THAT(through("a:char[8]", std::string("{\"a\":") + value + "}"), testing::StartsWith("! ")) << value;
    EXPECT_THAT(through("a:bool", "{\"a\":truex}"), testing::StartsWith("! "));
    EXPECT_THAT(through("a:u8", std::string("{\"a\":") + std::string(100000, '[')), testing::StartsWith("! "));
    EXPECT_THAT(through("a:u8", std::string_view("{\"a\":1}\0", 8)), testing::StartsWith("! "));
}

TEST(RecordJson, EveryPrefixOfAnObjectIsRefused) {
    const std::string json = R"({"a":"1.2.3.4","b":[1.5,"NaN"],"c":"x\u00e4","d":true})";
    const char* const list = "a:ipv4,b:f64[2],c:char[4],d:bool";
    EXPECT_THAT(through(list, json), testing::StartsWith("{"));
    for (std::size_t n = 0; n < json.size(); ++n)
        EXPECT_THAT(through(list, std::string_view(json).substr(0, n)), testing::StartsWith("! ")) << json.substr(0, n);
}

TEST(RecordJson, AReaderGoesOnAfterAFailureAndClearsWhatBelongsToNoField) {
    const record_schema schema = record_schema::parse_list("a:u8,b:u32");
    record_json_reader reader(schema);
    std::vector<std::byte> record(schema.bytes(), std::byte{0xee});
    EXPECT_TRUE(reader.read(R"({"a":1,"b":)", record));
    EXPECT_TRUE(reader.read(std::string(3, '\xff'), record));
    EXPECT_FALSE(reader.read(R"({"a":1,"b":2})", record));
    EXPECT_EQ(record, (std::vector<std::byte>{std::byte{1}, {}, {}, {}, std::byte{2}, {}, {}, {}}));
    EXPECT_THROW(static_cast<void>(reader.read("{}", std::span(record).first(7))), holdfast::error);
}

TEST(RecordJson, RandomEntriesSurviveJsonWhole) {
    holdfast::test::seeded_random random;
    for (std::uint64_t round = holdfast::test::scaled(3000); round > 0; --round) {
        const container_schema schema{holdfast::test::random_schema(random, "k"),
                                      holdfast::test::random_schema(random, "v")};
        const auto key = holdfast::test::random_record(random, *schema.key);
        const auto value = holdfast::test::random_record(random, *schema.value);
        std::string json, again;
        holdfast::append_json(json, schema, key, value);
        record_json_reader reader(schema);
        std::vector<std::byte> key_copy(key.size(), std::byte{0xee}), value_copy(value.size(), std::byte{0xee});
        const auto failure = reader.read(json, key_copy, value_copy);
        ASSERT_FALSE(failure) << failure->message() << "\n" << json;
        ASSERT_EQ(key_copy, key) << json;
        ASSERT_EQ(value_copy, value) << json;
        holdfast::append_json(again, schema, key_copy, value_copy);
        ASSERT_EQ(again, json);
    }
}

TEST(RecordJson, RandomDamageNeverGetsPastTheReader) {
    holdfast::test::seeded_random random;
    const container_schema schema{record_schema::parse_list("a:ipv4,n:u64"),
                                  record_schema::parse_list("b:f32[2],c:char[4],d:bool,e:u8<x=1>,t:timestamp")};
    record_json_reader reader(schema);
    std::vector<std::byte> key(schema.key->bytes()), value(schema.value->bytes());
    for (std::uint64_t round = holdfast::test::scaled(20000); round > 0; --round) {
        std::string json =
            R"({"a":"1.2.3.4","n":12345,"b":[1.5,"NaN"],"c":"x\u00e4","d":true,"e":"x","t":"2026-11-21T08:00:00Z"})";
        for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
            const std::size_t at = random.below(json.size());
            switch (random.below(3)) {
                case 0: json[at] = static_cast<char>(random()); break;
                case 1: json.erase(at, random.below(5)); break;
                default: json.insert(at, 1, "{}[]\",:0\\"[random.below(9)]);
            }
            if (json.empty()) json = " ";
        }
        const auto failure = reader.read(json, key, value);
        if (failure) {
            ASSERT_LE(failure->position, json.size());
            ASSERT_FALSE(failure->reason.empty());
            for (const char c : failure->message()) ASSERT_TRUE(c >= 0x20 && c < 0x7f) << json;
            continue;
        }
        std::string first, second;  // accepted: what was understood is stable
        holdfast::append_json(first, schema, key, value);
        ASSERT_FALSE(reader.read(first, key, value)) << json << "\n" << first;
        holdfast::append_json(second, schema, key, value);
        ASSERT_EQ(first, second);
    }
}

}  // namespace
