// SPDX-License-Identifier: Apache-2.0
// Schemas of C++ types. The texts below are the public format: a test that fails here after a change of the library
// means that segments written before are no longer readable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "holdfast/record.hpp"

namespace {

using holdfast::errc;
using holdfast::field_type;
using holdfast::record_schema;
using holdfast::schema_of;

struct point {
    std::int32_t x, y;
};

enum class color : std::uint8_t { red, green = 3, last = 127 };
enum signed_level : std::int16_t { below = -2, zero = 0, above = 5 };
enum class http_status : std::uint16_t { ok = 200, not_found = 404 };

struct every_type {
    std::uint8_t a;
    std::uint16_t b;
    std::uint32_t c;
    std::uint64_t d;
    std::int8_t e;
    std::int16_t f;
    std::int32_t g;
    std::int64_t h;
    float i;
    double j;
    bool k;
    char l[3];
    char m;
    std::byte n[5];
    unsigned char o[2];
    std::byte p;
    holdfast::ipv4 q;
    holdfast::ipv6 r;
    holdfast::timestamp s;
    color t;
    signed_level u;
    std::array<char, 4> v;
    std::array<std::byte, 2> w;
    std::array<std::uint8_t, 2> x;
    holdfast::fixed_text<6> y;
    long long z;
};

struct arrays {
    std::int32_t ints[4];
    std::array<double, 2> doubles;
    bool flags[3];
    color colors[2];
    holdfast::ipv4 hosts[2];
    holdfast::timestamp times[1];
};

struct nested {
    std::uint8_t tag;
    struct {
        point from, to;
        char name[8];
    } line;
    point origin;
};

struct alignas(64) cache_line {
    std::uint64_t hits;
};

class account {
 public:
    explicit account(std::uint64_t id) : id_(id) {}
    HOLDFAST_RECORD(account, id_, cents_)

 private:
    std::uint64_t id_;
    std::int64_t cents_ = 0;
};

struct either {
    std::uint8_t kind;
    union {
        std::uint32_t number;
        float real;
    };
};
HOLDFAST_RECORD(either, number, kind)

struct forty {
    std::uint8_t a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9;
    std::uint8_t c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9;
};
HOLDFAST_RECORD(forty, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1, c2, c3,
                c4, c5, c6, c7, c8, c9, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9)

struct thirty_two {
    std::uint8_t a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9;
    std::uint8_t c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, d0, d1;
};

template <class A, class B>
struct pair_of {
    A first;
    B second;
};

}  // namespace

template <>
struct holdfast::enum_range<http_status> {
    static constexpr std::int64_t min = 200, max = 599;
};

namespace {

TEST(RecordSchema, TextOfEveryTypeIsThePublicFormat) {
    EXPECT_EQ(schema_of<every_type>().text(),
              "{a:u8@0,b:u16@2,c:u32@4,d:u64@8,e:i8@16,f:i16@18,g:i32@20,h:i64@24,i:f32@32,j:f64@40,k:bool@48,"
              "l:char[3]@49,m:char[1]@52,n:bytes[5]@53,o:bytes[2]@58,p:bytes[1]@60,q:ipv4@64,r:ipv6@68,s:timestamp@88,"
              "t:u8<red=0|green=3|last=127>@96,u:i16<below=-2|zero=0|above=5>@98,v:char[4]@100,w:bytes[2]@104,"
              "x:bytes[2]@106,y:char[6]@108,z:i64@120}#128");
}

TEST(RecordSchema, TextOfArraysIsThePublicFormat) {
    EXPECT_EQ(schema_of<arrays>().text(),
              "{ints:i32[4]@0,doubles:f64[2]@16,flags:bool[3]@32,colors:u8<red=0|green=3|last=127>[2]@35,"
              "hosts:ipv4[2]@40,times:timestamp@48}#56");
}

TEST(RecordSchema, NestedRecordsAreFlattenedWithDottedNames) {
    EXPECT_EQ(schema_of<nested>().text(),
              "{tag:u8@0,line.from.x:i32@4,line.from.y:i32@8,line.to.x:i32@12,line.to.y:i32@16,line.name:char[8]@20,"
              "origin.x:i32@28,origin.y:i32@32}#36");
}

TEST(RecordSchema, OveralignmentIsWrittenAndReadBack) {
    const record_schema schema = schema_of<cache_line>();
    EXPECT_EQ(schema.text(), "{hits:u64@0}#64/64");
    EXPECT_EQ(schema.alignment(), 64U);
    EXPECT_EQ(record_schema::parse(schema.text()).alignment(), 64U);
}

TEST(RecordSchema, MacroDescribesPrivateMembersAndNonDefaultConstructibleTypes) {
    static_assert(!std::is_default_constructible_v<account>);
    EXPECT_EQ(schema_of<account>().text(), "{id_:u64@0,cents_:i64@8}#16");
}

TEST(RecordSchema, MacroBesideTheTypeReachesIntoAnAnonymousUnionAndSortsByOffset) {
    EXPECT_EQ(schema_of<either>().text(), "{kind:u8@0,number:u32@4}#8");
}

TEST(RecordSchema, MacroTakesMoreThanThirtyTwoFields) {
    const record_schema schema = schema_of<forty>();
    ASSERT_EQ(schema.fields().size(), 40U);
    EXPECT_EQ(schema.fields().back().name, "d9");
    EXPECT_EQ(schema.fields().back().offset, 39U);
}

TEST(RecordSchema, ThirtyTwoFieldsNeedNoMacro) {
    const record_schema schema = schema_of<thirty_two>();
    ASSERT_EQ(schema.fields().size(), 32U);
    for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(schema.fields()[i].offset, i);
    EXPECT_EQ(schema.fields()[31].name, "d1");
}

TEST(RecordSchema, LocalAndTemplateTypesAreRecords) {
    struct local {
        double value;
        bool valid;
    };
    EXPECT_EQ(schema_of<local>().text(), "{value:f64@0,valid:bool@8}#16");
    EXPECT_EQ((schema_of<pair_of<std::array<std::int16_t, 3>, point>>().text()),
              "{first:i16[3]@0,second.x:i32@8,second.y:i32@12}#16");
    EXPECT_EQ((schema_of<pair_of<pair_of<char, int>, pair_of<int, char>>>().text()),
              "{first.first:char[1]@0,first.second:i32@4,second.first:i32@8,second.second:char[1]@12}#16");
}

TEST(RecordSchema, ScalarsAreRecordsOfOneField) {
    EXPECT_EQ(schema_of<std::uint64_t>().text(), "{value:u64@0}#8");
    EXPECT_EQ(schema_of<holdfast::ipv6>("low").text(), "{low:ipv6@0}#16");
    EXPECT_EQ((schema_of<std::array<char, 16>>("name").text()), "{name:char[16]@0}#16");
    EXPECT_EQ(schema_of<holdfast::fixed_text<3>>("name").text(), "{name:char[3]@0}#3");
    EXPECT_EQ(schema_of<color>("c").text(), "{c:u8<red=0|green=3|last=127>@0}#1");
    EXPECT_TRUE(schema_of<double>().scalar());
    EXPECT_TRUE((schema_of<std::array<int, 2>>().scalar()));
    EXPECT_FALSE(schema_of<point>().scalar());
}

TEST(RecordSchema, EnumRangeChoosesWhichValuesHaveNames) {
    EXPECT_EQ(schema_of<http_status>("s").text(), "{s:u16<ok=200|not_found=404>@0}#2");
}

TEST(RecordSchema, HashIsThatOfTheTextAndFixedForever) {
    EXPECT_EQ(schema_of<std::uint64_t>().hash(), holdfast::detail::fnv1a("{value:u64@0}#8"));
    EXPECT_EQ(holdfast::detail::fnv1a(""), 0xcbf29ce484222325ULL);
    EXPECT_EQ(holdfast::detail::fnv1a("foobar"), 0x85944171f73967e8ULL);
}

TEST(RecordSchema, FindAndFieldsAgree) {
    const record_schema schema = schema_of<arrays>();
    ASSERT_NE(schema.find("doubles"), nullptr);
    EXPECT_EQ(schema.find("doubles")->type, field_type::f64);
    EXPECT_EQ(schema.find("doubles")->count, 2U);
    EXPECT_EQ(schema.find("doubles")->bytes, 8U);
    EXPECT_EQ(schema.find("absent"), nullptr);
}

TEST(RecordSchema, ConceptsAdmitRecordsAndOnlyPaddingFreeKeys) {
    static_assert(holdfast::record<every_type> && holdfast::record<account> && holdfast::record<int>);
    static_assert(!holdfast::record<int*> && !holdfast::record<std::string> && !holdfast::record<void>);
    static_assert(!holdfast::record<point[2]> && !holdfast::record<int[2][2]> && !holdfast::record<long double>);
    static_assert(!holdfast::record<wchar_t> && !holdfast::record<int&> && !holdfast::record<const int>);
    static_assert(holdfast::record_key<point> && holdfast::record_key<holdfast::ipv4> && holdfast::record_key<color>);
    static_assert(holdfast::record_key<holdfast::ipv6> && holdfast::record_key<holdfast::fixed_text<9>>);
    static_assert(!holdfast::record_key<nested> && !holdfast::record_key<double> &&
                  !holdfast::record_key<pair_of<char, int>>);
    SUCCEED();
}

TEST(RecordSchema, TooManyNestedFieldsAreRefusedWithTheLimit) {
    struct two {
        forty a, b;
    };
    try {
        static_cast<void>(schema_of<two>());
        FAIL() << "80 fields were accepted";
    } catch (const holdfast::error& e) {
        EXPECT_EQ(e.reason(), errc::invalid_argument);
        EXPECT_STREQ(e.what(), "schema: more than 64 fields; split the record (invalid argument)");
    }
}

TEST(RecordSchema, ConstructorRefusesWhatBreaksI1) {
    using holdfast::field;
    const auto refusal = [](std::vector<field> fields, std::uint32_t bytes, std::uint32_t alignment = 0) {
        try {
            const record_schema schema(std::move(fields), bytes, alignment);
            return "accepted " + schema.text();
        } catch (const holdfast::error& e) {
            return std::string(e.what());
        }
    };
    const field u32{"a", field_type::u32, 0, 4, 1, {}};
    EXPECT_THAT(refusal({}, 4), testing::HasSubstr("at least one field"));
    EXPECT_THAT(refusal({u32}, 3), testing::HasSubstr("field a: reaches beyond the record's bytes"));
    EXPECT_THAT(refusal({u32, u32}, 8), testing::HasSubstr("overlaps"));
    EXPECT_THAT(refusal({u32, {"a", field_type::u32, 4, 4, 1, {}}}, 8), testing::HasSubstr("occurs twice"));
    EXPECT_THAT(refusal({{"1a", field_type::u32, 0, 4, 1, {}}}, 8), testing::HasSubstr("name must match"));
    EXPECT_THAT(refusal({{"a", field_type::u32, 0, 3, 1, {}}}, 8), testing::HasSubstr("does not suit type u32"));
    EXPECT_THAT(refusal({{"a", field_type::u32, 0, 4, 0, {}}}, 8), testing::HasSubstr("does not suit type u32"));
    EXPECT_THAT(refusal({{"a", static_cast<field_type>(99), 0, 4, 1, {}}}, 8), testing::HasSubstr("unknown type"));
    EXPECT_THAT(refusal({{"a", field_type::f32, 0, 4, 1, {{"x", 1}}}}, 8), testing::HasSubstr("only integer types"));
    EXPECT_THAT(refusal({{"a", field_type::u8, 0, 1, 1, {{"x", 256}}}}, 1),
                testing::HasSubstr("does not fit its type"));
    EXPECT_THAT(refusal({{"a", field_type::u8, 0, 1, 1, {{"x", 2}, {"y", 1}}}}, 1), testing::HasSubstr("must ascend"));
    EXPECT_THAT(refusal({{"a", field_type::u8, 0, 1, 1, {{"x", 1}, {"x", 2}}}}, 1), testing::HasSubstr("occurs twice"));
    EXPECT_THAT(refusal({u32}, 6), testing::HasSubstr("multiple of its alignment"));
    EXPECT_THAT(refusal({u32}, 12, 3), testing::HasSubstr("power of two"));
    EXPECT_THAT(refusal({u32}, 8192, 8192), testing::HasSubstr("power of two up to 4096"));
    EXPECT_THAT(refusal({{"a", field_type::u64, 0xfffffff8U, 8, 0xffffffffU, {}}}, 8), testing::HasSubstr("beyond"));
}

TEST(FixedText, SetAndViewRoundTripAndRefuseWhatDoesNotFit) {
    char country[2];
    EXPECT_TRUE(holdfast::set_text(country, "US"));
    EXPECT_EQ(holdfast::view_text(country), "US");
    EXPECT_TRUE(holdfast::set_text(country, "x"));
    EXPECT_EQ(country[1], '\0');
    EXPECT_EQ(holdfast::view_text(country), "x");
    EXPECT_FALSE(holdfast::set_text(country, "USA"));
    EXPECT_EQ(holdfast::view_text(country), "x");
    holdfast::fixed_text<4> a, b;
    EXPECT_EQ(a.view(), "");
    EXPECT_TRUE(a.assign("ab"));
    EXPECT_TRUE(b.assign("b"));
    EXPECT_LT(a, b);
    EXPECT_NE(a, b);
}

}  // namespace
