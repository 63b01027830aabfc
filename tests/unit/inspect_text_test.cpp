// SPDX-License-Identifier: Apache-2.0
// Text into records: lines across buffer borders, quoted fields, schemas as people spell them, keys and values by text.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "inspect/delimited_text.hpp"
#include "inspect/entry_codec.hpp"
#include "inspect/input.hpp"
#include "inspect/table_schema.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace holdfast::inspect {
namespace {

/// A file without a name that holds the text.
class memory_file {
 public:
    explicit memory_file(std::string_view text) : file_(::memfd_create("text", MFD_CLOEXEC)) {
        EXPECT_EQ(::write(file_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }
    memory_file(const memory_file&) = delete;
    memory_file& operator=(const memory_file&) = delete;
    ~memory_file() { ::close(file_); }
    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
    int file_;
};

std::vector<std::string> lines_of(std::string_view text) {
    const memory_file file(text);
    line_input input(file.path());
    std::vector<std::string> lines;
    while (const auto line = input.next()) {
        EXPECT_EQ(input.line(), lines.size() + 1);
        lines.emplace_back(*line);
    }
    EXPECT_FALSE(input.next().has_value());
    return lines;
}

TEST(ReadRecord, TakesOneFieldsTextOrSeveralByOrderOrName) {
    std::vector<std::byte> key(8);
    const record_schema one = record_schema::parse_list("name:char[8]");
    EXPECT_EQ(read_record(one, "a,b", key), std::nullopt) << "a single field may hold a comma";
    const record_schema two = record_schema::parse_list("user:u32,day:u32");
    for (const char* good : {"7,20", "day=20,user=7", R"({"user":7,"day":20})"}) {
        EXPECT_EQ(read_record(two, good, key), std::nullopt) << good;
        EXPECT_EQ(key[0], std::byte{7});
        EXPECT_EQ(key[4], std::byte{20});
    }
    for (const char* bad : {"7", "7,", ",7", "7,8,9", "", "x,1", "user=7", "{}"})
        EXPECT_NE(read_record(two, bad, key), std::nullopt) << bad;
}

// The short way of digits for one integer reads what the general way of a field reads, and nothing else.
TEST(ReadRecord, DigitsOfOneIntegerAreReadAsTheFieldReadsThem) {
    for (const char* list : {"n:u64", "n:i64", "n:u32", "n:u8", "n:f64", "n:char[8]", "n:u64[1]", "n:timestamp"}) {
        const record_schema schema = record_schema::parse_list(list);
        for (const char* text : {"0",
                                 "7",
                                 "007",
                                 "123456789012345678",
                                 "1234567890123456789",
                                 "18446744073709551615",
                                 "18446744073709551616",
                                 "000000000000000000000001",
                                 "",
                                 "-1",
                                 "+1",
                                 " 1",
                                 "1 ",
                                 "1x",
                                 "x1",
                                 "0x1",
                                 "1/2",
                                 "1:2",
                                 "n=5",
                                 "[5]",
                                 "{\"n\":5}",
                                 "1e3",
                                 "1.5"}) {
            std::vector<std::byte> read(schema.bytes(), std::byte{0xee}), wanted(schema.bytes());
            const std::string_view plain(text);
            // As read_record() does it where a text is no object and names no field.
            const bool general = !plain.starts_with('{') && !plain.starts_with("n=");
            const bool taken = !read_record(schema, text, read);
            if (!general) continue;
            EXPECT_EQ(taken, !parse_text(schema.fields().front(), text, wanted.data())) << list << ' ' << text;
            if (taken) {
                EXPECT_EQ(read, wanted) << list << ' ' << text;
            }
        }
    }
}

TEST(LineInput, TakesEveryKindOfLineEndAndAByteOrderMark) {
    using list = std::vector<std::string>;
    EXPECT_EQ(lines_of(""), list{});
    EXPECT_EQ(lines_of("\n"), list{""});
    EXPECT_EQ(lines_of("a"), list{"a"});
    EXPECT_EQ(lines_of("a\nb\r\n\r\nc"), (list{"a", "b", "", "c"}));
    EXPECT_EQ(lines_of("\xef\xbb\xbfx\n\xef\xbb\xbfy\n"), (list{"x", "\xef\xbb\xbfy"}));
    EXPECT_EQ(lines_of("\r"), list{""});
}

TEST(LineInput, LinesAcrossTheBordersOfItsBufferStayWhole) {
    std::string text;
    std::vector<std::string> wanted;
    for (std::size_t bytes : {1U, 1U << 20U, 1U << 20U, (1U << 20U) - 1, (1U << 20U) + 1, 3U << 20U, 0U, 5U}) {
        wanted.emplace_back(bytes, static_cast<char>('a' + wanted.size()));
        text += wanted.back() + "\n";
    }
    EXPECT_EQ(lines_of(text), wanted);
}

TEST(LineInput, ShortenGivesBackTheLinesThatExtendTook) {
    const memory_file file("one\ntwo\nthree\n");
    line_input input(file.path());
    EXPECT_EQ(input.next(), "one");
    EXPECT_EQ(input.extend(), "one\ntwo");
    EXPECT_EQ(input.extend(), "one\ntwo\nthree");
    EXPECT_FALSE(input.extend().has_value());
    EXPECT_EQ(input.line(), 1U);
    input.shorten();
    EXPECT_EQ(input.next(), "two");
    EXPECT_EQ(input.line(), 2U);
    EXPECT_EQ(input.extend(), "two\nthree");
    EXPECT_FALSE(input.next().has_value());
}

TEST(LineInput, RefusesDirectoriesAndWhatIsNotThere) {
    try {
        line_input input("/proc/self");
        FAIL();
    } catch (const error& failure) {
        EXPECT_EQ(failure.reason(), errc::invalid_argument);
    }
    try {
        line_input input("/proc/self/nothing");
        FAIL();
    } catch (const error& failure) {
        EXPECT_EQ(failure.reason(), errc::not_found);
    }
}

TEST(DelimitedRows, ReadsBackWhateverItsWriterWrote) {
    test::seeded_random random;
    constexpr std::string_view alphabet = "\",\n\r#ab \t;\\";
    for (std::uint64_t round = 0; round < test::scaled(2000); ++round) {
        std::vector<std::vector<std::string>> rows(1 + random.below(5));
        const std::uint64_t columns = 1 + random.below(4);
        std::string text;
        for (auto& row : rows) {
            for (std::uint64_t i = 0; i < columns; ++i) {
                std::string cell;
                for (std::uint64_t n = random.below(6); n > 0; --n) cell += alphabet[random.below(alphabet.size())];
                if (i > 0) text += ',';
                append_csv_field(text, cell, i == 0);
                row.push_back(std::move(cell));
            }
            text += '\n';
        }
        const memory_file file(text);
        line_input input(file.path());
        delimited_rows reader(input, delimited_rows::dialect::csv);
        for (const auto& row : rows) {
            ASSERT_EQ(reader.next(), delimited_rows::outcome::row) << text;
            ASSERT_EQ(reader.fields().size(), row.size()) << text;
            for (std::size_t i = 0; i < row.size(); ++i) EXPECT_EQ(reader.fields()[i].text, row[i]) << text;
        }
        EXPECT_EQ(reader.next(), delimited_rows::outcome::end) << text;
    }
}

TEST(DelimitedRows, AQuoteNeverClosedCostsItsLineAlone) {
    std::string text = "\"open,1\n";
    for (int i = 0; i < 3000; ++i) text += "a,b\n";
    const memory_file file(text);
    line_input input(file.path());
    delimited_rows reader(input, delimited_rows::dialect::csv);
    ASSERT_EQ(reader.next(), delimited_rows::outcome::malformed);
    EXPECT_EQ(reader.fault().column, 1U);
    for (int i = 0; i < 3000; ++i) ASSERT_EQ(reader.next(), delimited_rows::outcome::row);
    EXPECT_EQ(input.line(), 3001U);
    EXPECT_EQ(reader.next(), delimited_rows::outcome::end);
}

TEST(TableSchema, TextReadsBackToTheSameSchema) {
    for (const char* text : {"low:ipv4:key,high:ipv4:end,country:char[2]", "a:u8", "a:u8,b:u64",
                             "b:u64:key,a:u8:key,c:char[3]", "key {id:u32@4}#8 value {a:u8@3,b:u16@6}#16/8",
                             "key {k:u16@2}#4 value {e:u16@2}#4 end=e", "e:u8<red=0|green=3>:key,v:u16[3]"}) {
        const table_schema schema = table_schema::parse(text);
        const table_schema again = table_schema::parse(schema.text());
        EXPECT_EQ(again.schema.text(), schema.schema.text()) << text;
        EXPECT_EQ(again.range_end, schema.range_end) << text;
        EXPECT_EQ(again.text(), schema.text()) << text;
    }
    EXPECT_EQ(table_schema::parse("a : u8 : key , b:u8").schema.key->text(), "{a:u8@0}#1");
}

TEST(TableSchema, RefusesWhatMakesNoSense) {
    for (const char* text :
         {"", ",", "a", "a:u8:", "a:u8:key:end", "a:nothing", "a:u8:end", "a:u8:key,b:u16:end",
          "a:u8:key,b:u8:end,c:u8:end", "a:u8:key,b:u8:key,c:u8:end", "a:u8,a:u8", "a:char", "key {a:u8@0}#1 end=b",
          "key ", "key {", "value {a:u8@0}#1", "a:bytes[5000]:key,b:u8", "a:u8,b:bytes[99999999]"}) {
        EXPECT_THROW((void)table_schema::parse(text), error) << text;
    }
}

class EntryCodec : public ::testing::Test {
 protected:
    [[nodiscard]] static std::string put(const entry_codec& codec, std::string_view key, std::string_view value) {
        std::vector<std::byte> k(codec.key_bytes());
        std::vector<std::byte> v(codec.value_bytes(), std::byte{0x55});
        if (const auto reason = codec.read_key(key, k)) return "key: " + *reason;
        if (const auto reason = codec.read_value(value, v)) return "value: " + *reason;
        std::string out;
        codec.append_json(out, k, v);
        return out;
    }
};

TEST_F(EntryCodec, TakesEverySpellingOfAValue) {
    const entry_codec codec(table_schema::parse("a:u16:key,b:char[4]:key,x:i32,y:u8[2],t:char[3]").schema);
    const std::string wanted = R"({"a":1,"b":"k=","x":-5,"y":[1,2],"t":"{}"})";
    for (const char* key : {"1,k=", "a=1,b=k=", "b=k=,a=1", R"({"a":1,"b":"k="})"})
        for (const char* value :
             {"-5,[1,2],{}", "x=-5,y=[1,2],t={}", "t={},y=[1,2],x=-5", R"({"x":-5,"y":[1,2],"t":"{}"})"})
            EXPECT_EQ(put(codec, key, value), wanted) << key << " " << value;
}

TEST_F(EntryCodec, AKeyOfOneFieldIsItsTextCommasAndAll) {
    const entry_codec codec(table_schema::parse("t:char[8]:key,n:u8").schema);
    EXPECT_EQ(put(codec, "a,b={", "7"), R"({"t":"a,b={","n":7})");
    EXPECT_EQ(put(codec, "t=x", "n=7"), R"({"t":"x","n":7})");
    EXPECT_EQ(put(codec, "", "7"), R"({"t":"","n":7})");
}

TEST_F(EntryCodec, SaysWhatIsWrong) {
    const entry_codec codec(table_schema::parse("a:u16:key,x:i32,y:u8").schema);
    EXPECT_EQ(put(codec, "70000", "1,2").substr(0, 12), "key: field a");
    EXPECT_EQ(put(codec, "1", "1"), "value: fewer fields than 2; give x,y");
    EXPECT_EQ(put(codec, "1", "1,2,3"), "value: more fields than 2; give x,y");
    EXPECT_EQ(put(codec, "1", "x=1"), "value: field y is missing");
    EXPECT_EQ(put(codec, "1", "x=1,x=2"), "value: field x is given twice");
    EXPECT_EQ(put(codec, "1", "x=1,z=2"), "value: 'z=2' is not FIELD=TEXT; the fields are x,y");
    EXPECT_EQ(put(codec, "1", "{\"x\":1").substr(0, 6), "value:");
}

TEST_F(EntryCodec, ChangeKeepsFieldsThatAreNotNamed) {
    const entry_codec codec(table_schema::parse("a:u16:key,x:i32,y:u8").schema);
    std::vector<std::byte> value(codec.value_bytes());
    ASSERT_FALSE(codec.read_value("7,8", value));
    ASSERT_FALSE(codec.change_value("y=9", value));
    std::string out;
    codec.append_json(out, std::vector<std::byte>(2), value);
    EXPECT_EQ(out, R"({"a":0,"x":7,"y":9})");
}

}  // namespace
}  // namespace holdfast::inspect
