// SPDX-License-Identifier: Apache-2.0
// Schema text from outside: what is refused and where, hostile texts, and which changes of a struct keep readers
// working.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/record.hpp"
#include "support/random_record.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::container_schema;
using holdfast::errc;
using holdfast::record_schema;
using holdfast::schema_relation;
using testing::HasSubstr;

std::string parsed(std::string_view text) {
    try {
        return record_schema::parse(text).text();
    } catch (const holdfast::error& e) {
        EXPECT_EQ(e.reason(), errc::schema_mismatch) << e.what();
        return e.what();
    }
}

std::string listed(std::string_view text) {
    try {
        return record_schema::parse_list(text).text();
    } catch (const holdfast::error& e) {
        EXPECT_EQ(e.reason(), errc::invalid_argument) << e.what();
        return e.what();
    }
}

TEST(SchemaParse, RefusalsNameThePlaceAndTheReason) {
    const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "at byte 0: expected '{', found the end"},
        {"{", "at byte 1: expected a name, found the end"},
        {"{}#1", "at byte 1: expected a name, found '}'"},
        {"{1a:u8@0}#1", "'1a' is no name"},
        {"{.a:u8@0}#1", "'.a' is no name"},
        {"{a b:u8@0}#1", "expected ':', found ' '"},
        {"{a:u8@0} #1", "expected '#', found ' '"},
        {"{a:u7@0}#1", "'u7' is no type; there are u8"},
        {"{a:char@0}#1", "type char needs its size: char[N]"},
        {"{a:bytes@0}#1", "type bytes needs its size: bytes[N]"},
        {"{a:char[0]@0}#1", "expected a number from 1 to 1073741824"},
        {"{a:char[-1]@0}#1", "expected a number from 1"},
        {"{a:u8[1]@0}#1", "an extent of 1 is not written"},
        {"{a:u8[02]@0}#2", "a number has no leading zeros"},
        {"{a:u8@00}#1", "a number has no leading zeros"},
        {"{a:u8@0}#01", "a number has no leading zeros"},
        {"{a:u8@0}#0", "expected a number from 1"},
        {"{a:u8@1}#1", "field a: reaches beyond the record's bytes"},
        {"{a:u64[99999999]@0}#8", "reaches beyond"},
        {"{a:u64[1073741824]@1073741824}#1073741824", "reaches beyond"},
        {"{a:u8@99999999999999999999}#1", "expected a number from 0"},
        {"{a:u8@0,a:u8@1}#2", "field a: occurs twice"},
        {"{b:u8@1,a:u8@0}#2", "field a overlaps the one before it or stands before it"},
        {"{a:u16@0,b:u8@1}#4", "field b overlaps the one before it"},
        {"{a:u8@0,}#1", "expected a name, found '}'"},
        {"{a:u8@0}#1x", "something follows the schema"},
        {"{a:u8@0}#1\n", "something follows the schema"},
        {"{a:u32@0}#6", "multiple of its alignment"},
        {"{a:u32@0}#4/4", "the fields' own alignment is not written"},
        {"{a:u32@0}#12/3", "power of two"},
        {"{a:u32@0}#4/0", "expected a number from 1 to 4096"},
        {"{a:u32@0}#8192/8192", "expected a number from 1 to 4096"},
        {"{a:f32<x=1>@0}#4", "only integer types have enumerators"},
        {"{a:u8<>@0}#1", "expected a name, found '>'"},
        {"{a:u8<x>@0}#1", "expected '=', found '>'"},
        {"{a:u8<x=256>@0}#1", "expected a number from 0 to 255"},
        {"{a:i8<x=-129>@0}#1", "expected a number from -128 to 127"},
        {"{a:i8<x=-0>@0}#1", "a number has no leading zeros"},
        {"{a:u8<x=1|y=1>@0}#1", "enumerators must ascend by value"},
        {"{a:u8<x=1|x=2>@0}#1", "enumerator x occurs twice"},
        {"{a:u8<x.y=1>@0}#1", "an enumerator's name must match"},
        {"{a:u8<x=1,y=2>@0}#1", "expected '>', found ','"},
        {"{\xff:u8@0}#1", "expected a name, found '\\xff'"},
        {"{a:char[2][3]@0}#6", "expected '@', found '['"},
    };
    for (const auto& c : cases) EXPECT_THAT(parsed(c.text), HasSubstr(c.reason)) << c.text;
    EXPECT_THAT(parsed(std::string_view("{a:u8@0}#1\0", 11)), HasSubstr("something follows"));
}

TEST(SchemaParse, LimitsHoldAtTheLimitAndNotBeyond) {
    const auto fields = [](int n) {
        std::string text = "{";
        for (int i = 0; i < n; ++i) text += holdfast::detail::concat("f", i, ":u8@", i, ",");
        text.back() = '}';
        return holdfast::detail::concat(text, "#", n);
    };
    EXPECT_EQ(parsed(fields(64)), fields(64));
    EXPECT_THAT(parsed(fields(65)), HasSubstr("more than 64 fields"));
    const std::string name(128, 'n');
    EXPECT_EQ(parsed("{" + name + ":u8@0}#1"), "{" + name + ":u8@0}#1");
    EXPECT_THAT(parsed("{" + name + "n:u8@0}#1"), HasSubstr("is no name"));
    EXPECT_THAT(parsed("{" + std::string(3000, 'n')), HasSubstr("longer than 2560 bytes"));
    EXPECT_EQ(parsed("{a:u8[1073741824]@0}#1073741824"), "{a:u8[1073741824]@0}#1073741824");
    std::string enumerators = "{a:u16<";
    for (int i = 0; i < 500; ++i) enumerators += holdfast::detail::concat("e", i, "=", i, "|");
    enumerators.back() = '>';
    EXPECT_THAT(parsed(enumerators + "@0}#2"), HasSubstr("longer than 2560 bytes"));
}

TEST(SchemaParse, ListIsLaidOutAsCxxDoes) {
    EXPECT_EQ(listed("low:ipv4,high:ipv4,country:char[2]"), "{low:ipv4@0,high:ipv4@4,country:char[2]@8}#12");
    EXPECT_EQ(listed(" a : u8 , b\t:u64, c:u16[3] ,d:bool "), "{a:u8@0,b:u64@8,c:u16[3]@16,d:bool@22}#24");
    EXPECT_EQ(listed("six:ipv6,t:timestamp"), "{six:ipv6@0,t:timestamp@16}#24");
    EXPECT_EQ(listed("a:u8[1]"), "{a:u8@0}#1");
    EXPECT_EQ(listed("s:u8<on=1|off=2>"), "{s:u8<on=1|off=2>@0}#1");
    EXPECT_EQ(listed("{a:u8@3}#8/8"), "{a:u8@3}#8/8") << "a canonical text is taken as it is";
    EXPECT_THAT(listed(""), HasSubstr("at byte 0: expected a name, found the end"));
    EXPECT_THAT(listed("a"), HasSubstr("expected ':', found the end"));
    EXPECT_THAT(listed("a:u8;b:u8"), HasSubstr("at byte 4: expected ',' or the end, found ';'"));
    EXPECT_THAT(listed("a:u8 b:u8"), HasSubstr("at byte 5: expected ',' or the end, found 'b'"));
    EXPECT_THAT(listed("a:u8,a:u8"), HasSubstr("occurs twice; rename one"));
    EXPECT_THAT(listed("a:string"), HasSubstr("'string' is no type; there are"));
    EXPECT_THAT(listed("a:u64[1073741824]"), HasSubstr("larger than 1 GiB"));
    EXPECT_THAT(listed("{a:u8@3}#2"), HasSubstr("reaches beyond"));
}

TEST(SchemaParse, RandomSchemasRoundTrip) {
    holdfast::test::seeded_random random;
    for (std::uint64_t round = holdfast::test::scaled(2000); round > 0; --round) {
        const record_schema schema = holdfast::test::random_schema(random, "f");
        const record_schema again = record_schema::parse(schema.text());
        ASSERT_EQ(again.text(), schema.text());
        ASSERT_EQ(again.fields(), schema.fields());
        ASSERT_EQ(again.bytes(), schema.bytes());
        ASSERT_EQ(again.alignment(), schema.alignment());
        ASSERT_EQ(again.hash(), schema.hash());
    }
}

/// Whatever is accepted is canonical (I2) and safe to use (I1); whatever is not is refused as schema_mismatch.
void expect_refused_or_canonical(const std::string& text) {
    try {
        const container_schema schema = container_schema::parse(text);
        ASSERT_EQ(schema.text(), text);
        for (const auto* part : {&schema.key, &schema.value}) {
            if (!*part) continue;
            for (const holdfast::field& f : (*part)->fields()) ASSERT_LE(f.offset + f.total_bytes(), (*part)->bytes());
        }
    } catch (const holdfast::error& e) {
        ASSERT_EQ(e.reason(), errc::schema_mismatch) << e.what();
        for (const char c : std::string_view(e.what())) ASSERT_TRUE(c >= 0x20 && c < 0x7f) << "unprintable: " << text;
    }
}

TEST(SchemaParse, EveryPrefixAndEveryChangedByteIsRefusedOrCanonical) {
    const std::string text =
        "key {low:ipv4@0,n:u8<a=1|b=7>[3]@4}#8\nvalue {line.x:f64@8,t:char[5]@16,r:bytes[3]@21,i:i16@24}#64/64";
    EXPECT_EQ(container_schema::parse(text).text(), text);
    for (std::size_t n = 0; n < text.size(); ++n) {
        const std::string prefix = text.substr(0, n);
        if (n == text.find('\n') || n == text.size() - 3) {  // "key ..." alone and "...#64" are schemas, of course
            EXPECT_EQ(container_schema::parse(prefix).text(), prefix);
        } else {
            EXPECT_THROW(static_cast<void>(container_schema::parse(prefix)), holdfast::error) << prefix;
        }
        expect_refused_or_canonical(prefix);
    }
    for (std::size_t at = 0; at < text.size(); ++at) {
        for (int value = 0; value < 256; ++value) {
            std::string changed = text;
            changed[at] = static_cast<char>(value);
            expect_refused_or_canonical(changed);
        }
        for (const char* number : {"99999999999999999999", "4294967296", "-1", "0", "{", ","})
            expect_refused_or_canonical(text.substr(0, at) + number + text.substr(at));
    }
}

TEST(SchemaParse, RandomDamageIsRefusedOrCanonical) {
    holdfast::test::seeded_random random;
    for (std::uint64_t round = holdfast::test::scaled(5000); round > 0; --round) {
        std::string text = "key " + holdfast::test::random_schema(random, "k").text() + "\nvalue " +
                           holdfast::test::random_schema(random, "v").text();
        expect_refused_or_canonical(text);
        for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
            const std::size_t at = random.below(text.size());
            const std::size_t from = random.below(text.size());
            switch (random.below(4)) {
                case 0: text[at] = static_cast<char>(random()); break;
                case 1: text.erase(at, random.below(8)); break;
                case 2: text.insert(at, text.substr(from, random.below(20))); break;
                default: text[at] = text[from]; break;
            }
            if (text.empty()) break;
        }
        expect_refused_or_canonical(text);
    }
}

TEST(ContainerSchema, TextAndParseOfEitherPart) {
    const record_schema part = record_schema::parse_list("a:u8"), other = record_schema::parse_list("b:u8");
    EXPECT_EQ((container_schema{part, other}.text()), "key {a:u8@0}#1\nvalue {b:u8@0}#1");
    EXPECT_EQ((container_schema{part, std::nullopt}.text()), "key {a:u8@0}#1");
    EXPECT_EQ((container_schema{std::nullopt, part}.text()), "value {a:u8@0}#1");
    EXPECT_TRUE(container_schema::parse("key {a:u8@0}#1").key);
    EXPECT_FALSE(container_schema::parse("key {a:u8@0}#1").value);
    for (const char* text : {"", "key", "key {a:u8@0}#1\n", "value {a:u8@0}#1\nkey {b:u8@0}#1", "{a:u8@0}#1", "\n",
                             "key {a:u8@0}#1\nvalue {a:u8@0}#1", "key {a:u8@0}#1\nvalue {b:u8@0}#1\n"})
        EXPECT_THROW(static_cast<void>(container_schema::parse(text)), holdfast::error) << text;
    EXPECT_THROW(static_cast<void>(container_schema{}.text()), holdfast::error);
}

TEST(ContainerSchema, KeyAndValueTogetherMustFitASegment) {
    std::string list;
    for (int i = 0; i < 20; ++i) {
        list += i == 0 ? "" : ",";
        list += std::string(60, 'k') + std::to_string(i) + ":u8";
    }
    const record_schema key = record_schema::parse_list(list);
    for (char& c : list)
        if (c == 'k') c = 'v';
    const container_schema both{key, record_schema::parse_list(list)};
    EXPECT_THAT([&] { static_cast<void>(both.text()); },
                testing::ThrowsMessage<holdfast::error>(HasSubstr("bytes of at most 2560; shorten names")));
}

schema_relation related(std::string_view stored, std::string_view wanted, std::string& why) {
    return compare(record_schema::parse_list(stored), record_schema::parse_list(wanted), why);
}

TEST(SchemaCompare, AFieldAddedAtTheEndKeepsOldReadersWorking) {
    std::string why;
    EXPECT_EQ(related("a:u32,b:u8", "a:u32,b:u8", why), schema_relation::same);
    EXPECT_EQ(why, "");
    EXPECT_EQ(related("a:u32,b:u8,c:u64", "a:u32,b:u8", why), schema_relation::stored_has_more_fields_at_end);
    EXPECT_EQ(why,
              "the segment has fields the program does not know, from c:u64@8 on; the segment stores "
              "{a:u32@0,b:u8@4,c:u64@8}#16, the program wants {a:u32@0,b:u8@4}#8");
    EXPECT_EQ(related("a:u32,b:u8,c:u8", "a:u32,b:u8", why), schema_relation::stored_has_more_fields_at_end)
        << "in the padding, with the size unchanged";
}

TEST(SchemaCompare, AnyOtherChangeIsRefusedWithBothSchemas) {
    const struct {
        const char *stored, *wanted, *difference;
    } cases[] = {
        {"a:u32", "a:u32,b:u8", "the segment lacks field b:u8@4"},
        {"a:u32", "b:u32", "field 1 is a:u32@0 in the segment and b:u32@0 in the program"},
        {"a:u32", "a:i32", "field 1 is a:u32@0 in the segment and a:i32@0 in the program"},
        {"a:u32,b:u8", "b:u8,a:u32", "field 1 is a:u32@0"},
        {"x:u8,a:u32", "a:u32", "field 1 is x:u8@0"},
        {"a:char[2]", "a:char[3]", "field 1 is a:char[2]@0 in the segment and a:char[3]@0 in the program"},
        {"a:u8[2]", "a:u8[3]", "field 1 is a:u8[2]@0"},
        {"a:u8<x=1>", "a:u8<x=1|y=2>", "field 1 is a:u8<x=1>@0"},
        {"a:u8<x=1>", "a:u8", "field 1 is a:u8<x=1>@0"},
        {"{a:u32@0}#8", "{a:u32@4}#8", "field 1 is a:u32@0 in the segment and a:u32@4 in the program"},
        {"{a:u32@0}#8", "{a:u32@0}#4", "a record takes 8 bytes in the segment and 4 in the program"},
        {"{a:u32@0}#64", "{a:u32@0}#64/64", "the segment aligns records to 4 bytes, the program to 64"},
        {"{a:u32@0}#64/64", "{a:u32@0}#64", "the alignments differ"},
        {"{a:u32@0,b:u8@4}#8", "{a:u32@0}#16", "the segment's records are shorter"},
    };
    for (const auto& c : cases) {
        std::string why;
        EXPECT_EQ(related(c.stored, c.wanted, why), schema_relation::different) << c.stored << " / " << c.wanted;
        EXPECT_THAT(why, HasSubstr(c.difference));
        EXPECT_THAT(why, HasSubstr("the segment stores " + record_schema::parse_list(c.stored).text()));
        EXPECT_THAT(why, HasSubstr("the program wants " + record_schema::parse_list(c.wanted).text()));
    }
}

struct version_1 {
    std::uint32_t a;
    char b[2];
};
struct version_2 {
    std::uint32_t a;
    char b[2];
    std::uint64_t added;
};

TEST(SchemaCompare, StructsThatGrowAreReadByOlderPrograms) {
    std::string why;
    const auto parse = [](const record_schema& s) { return record_schema::parse(s.text()); };
    EXPECT_EQ(compare(parse(holdfast::schema_of<version_2>()), holdfast::schema_of<version_1>(), why),
              schema_relation::stored_has_more_fields_at_end);
    EXPECT_EQ(compare(parse(holdfast::schema_of<version_1>()), holdfast::schema_of<version_2>(), why),
              schema_relation::different);
    EXPECT_THAT(why, HasSubstr("the segment lacks field added:u64@8"));
}

TEST(SchemaCompare, AScalarsNameIsFreeAndARecordsIsNot) {
    std::string why;
    const record_schema stored = record_schema::parse_list("low:ipv4");
    EXPECT_EQ(compare(stored, holdfast::schema_of<holdfast::ipv4>("key"), why), schema_relation::same);
    EXPECT_EQ(compare(stored, holdfast::schema_of<std::uint32_t>("low"), why), schema_relation::different);
    EXPECT_EQ(compare(stored, record_schema::parse_list("high:ipv4"), why), schema_relation::different);
    EXPECT_EQ(compare(record_schema::parse_list("a:ipv4,b:u8"), holdfast::schema_of<holdfast::ipv4>(), why),
              schema_relation::different);
    EXPECT_THAT(why, HasSubstr("the segment stores records, the program a single value"));
}

TEST(SchemaCompare, KeysMustBeTheSameAndValuesMayHaveGrown) {
    const auto relation = [](const char* stored, const char* wanted, std::string& why) {
        return compare(container_schema::parse(stored), container_schema::parse(wanted), why);
    };
    std::string why;
    EXPECT_EQ(relation("key {a:u8@0}#1\nvalue {b:u8@0}#1", "key {a:u8@0}#1\nvalue {b:u8@0}#1", why),
              schema_relation::same);
    EXPECT_EQ(relation("key {a:u8@0}#1\nvalue {b:u8@0,c:u8@1}#2", "key {a:u8@0}#1\nvalue {b:u8@0}#1", why),
              schema_relation::stored_has_more_fields_at_end);
    EXPECT_THAT(why, testing::StartsWith("value: the segment has fields the program does not know, from c:u8@1 on"));
    EXPECT_EQ(relation("key {a:u8@0,c:u8@1}#2\nvalue {b:u8@0}#1", "key {a:u8@0}#1\nvalue {b:u8@0}#1", why),
              schema_relation::different);
    EXPECT_THAT(why, testing::StartsWith("key: "));
    EXPECT_EQ(relation("key {a:u8@0}#1", "key {a:u8@0}#1\nvalue {b:u8@0}#1", why), schema_relation::different);
    EXPECT_THAT(why, HasSubstr("the segment has keys only, the program wants keys and values"));
}

}  // namespace
