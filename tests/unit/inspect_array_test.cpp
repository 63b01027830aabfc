// SPDX-License-Identifier: Apache-2.0
// An array from outside: how large it is, its elements by index, where it is damaged, and saved and restored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "holdfast/array.hpp"
#include "inspect/description.hpp"
#include "inspect/dumper.hpp"
#include "inspect/keyed_reader.hpp"
#include "inspect/saver.hpp"
#include "inspect/verification.hpp"
#include "support/array_model.hpp"
#include "support/segment_tools.hpp"

namespace holdfast::inspect {
namespace {

using ::testing::HasSubstr;
using u64 = std::uint64_t;

struct quote {
    double bid;
    double ask;
    std::uint32_t updates;
    char venue[4];
    friend bool operator==(const quote&, const quote&) = default;
};
quote made(u64 i) { return {static_cast<double>(i) + 0.5, 100, static_cast<std::uint32_t>(i), {'a', 'b'}}; }

class InspectArray : public test::segment_test {
 protected:
    InspectArray() {
        for (u64 i = 0; i < quotes_.size(); ++i) quotes_.store(i, made(i));
    }
    // The body as its writer maps it.
    [[nodiscard]] std::span<std::byte> body() const {
        const auto bytes = quotes_.segment().bytes();
        return {const_cast<std::byte*>(bytes.data()), bytes.size()};
    }
    [[nodiscard]] std::string saved() const {
        std::string text;
        const save_report done = save(name_.uri(), [&](std::string_view part) { text.append(part); });
        EXPECT_EQ(done.items, quotes_.size());
        return text;
    }
    [[nodiscard]] save_report restored(const std::string& text, const std::string& uri) const {
        std::ofstream(folder_.file("saved"), std::ios::binary | std::ios::trunc) << text;
        return restore(folder_.file("saved"), uri, {});
    }

    test::unique_posix_name name_{"quotes"};
    test::unique_directory folder_{"quotes"};
    array<quote> quotes_ = array<quote>::create(name_.uri(), {.size = 200});
};

TEST_F(InspectArray, StatTellsItsSizeAndFields) {
    const description d = describe(name_.uri());
    EXPECT_FALSE(d.problem);
    EXPECT_EQ(d.contents.size, 200U);
    EXPECT_EQ(d.contents.capacity, 200U);
    ASSERT_TRUE(d.schema && d.schema->value);
    EXPECT_EQ(d.schema->value->fields().size(), 4U);
}

TEST_F(InspectArray, ElementsAreFoundByIndex) {
    const auto reader = keyed_reader::open(name_.uri());
    EXPECT_EQ(reader->size(), 200U);
    std::string text;
    ASSERT_TRUE(reader->get("7", match::exact, text));
    EXPECT_EQ(text, R"({"index":7,"bid":7.5,"ask":100,"updates":7,"venue":"ab"})");
    EXPECT_EQ(reader->get("200", match::exact, text).status, lookup::absent);
    EXPECT_EQ(reader->get("18446744073709551615", match::exact, text).status, lookup::absent);
    EXPECT_EQ(reader->get("seven", match::exact, text).status, lookup::bad_key);
    EXPECT_EQ(reader->get("-1", match::exact, text).status, lookup::bad_key);
}

TEST_F(InspectArray, ScanAndDumpShowEveryElementInOrder) {
    const auto reader = keyed_reader::open(name_.uri());
    u64 next = 0;
    reader->scan([&](std::span<const std::byte> key, std::span<const std::byte> value) {
        u64 index = 0;
        quote q{};
        std::memcpy(&index, key.data(), sizeof index);
        std::memcpy(&q, value.data(), sizeof q);
        EXPECT_EQ(index, next);
        EXPECT_EQ(q, made(next));
        return ++next < 150;
    });
    EXPECT_EQ(next, 150U);
    std::string text;
    EXPECT_EQ(dump(*reader, {}, [&](std::string_view part) { text.append(part); }), 200U);
    EXPECT_TRUE(text.starts_with("index:u64:key,bid:f64,ask:f64,updates:u32,venue:char[4]\n0,0.5,100,0,ab\n")) << text;
    EXPECT_TRUE(text.ends_with("\n199,199.5,100,199,ab\n"));
    EXPECT_FALSE(reader->fault());
}

struct indexed {
    u64 index;
    u64 index_;
};

TEST_F(InspectArray, AFieldCalledIndexKeepsItsName) {
    const test::unique_posix_name other("indexed");
    auto array_of = array<indexed>::create(other.uri(), {.size = 3});
    array_of.store(1, {8, 9});
    std::string text;
    ASSERT_TRUE(keyed_reader::open(other.uri())->get("1", match::exact, text));
    EXPECT_EQ(text, R"({"index__":1,"index":8,"index_":9})");
}

TEST_F(InspectArray, AFlippedBitIsFoundWithItsElements) {
    EXPECT_TRUE(verify(name_.uri()).findings.empty());
    EXPECT_EQ(verify(name_.uri()).elements, 200U);
    const auto& g = quotes_.geometry();
    for (u64 at = 0; at < 200 * g.stride; at += 37) {
        std::byte& hurt = body()[g.elements_offset + at];
        hurt ^= std::byte{16};
        const verification found = verify(name_.uri());
        hurt ^= std::byte{16};
        ASSERT_EQ(found.damages, 1U);
        const u64 first = at / g.stride / g.group_elements * g.group_elements;
        const u64 last = std::min<u64>(first + g.group_elements, 200) - 1;
        EXPECT_EQ(found.findings[0].place, "elements " + std::to_string(first) + ".." + std::to_string(last));
        EXPECT_EQ(found.findings[0].offset, header_bytes + g.elements_offset + first * g.stride);
        EXPECT_EQ(found.findings[0].what, "the checksum does not match the elements");
    }
}

TEST_F(InspectArray, AnOddVersionAndAForeignRecordAreFoundWhereTheyLie) {
    const auto& g = quotes_.geometry();
    body()[g.versions_offset + 8] ^= std::byte{1};
    verification found = verify(name_.uri());
    ASSERT_EQ(found.damages, 1U);
    EXPECT_EQ(found.findings[0].offset, header_bytes + g.versions_offset + 8);
    body()[g.versions_offset + 8] ^= std::byte{1};
    body()[g.journal_offset] ^= std::byte{1};
    found = verify(name_.uri());
    ASSERT_EQ(found.damages, 1U);
    EXPECT_EQ(found.findings[0].place, "journal");
    EXPECT_EQ(found.findings[0].offset, header_bytes + g.journal_offset);
}

// Killed in a committed store: no damage, and the store is what is shown, saved and restored.
TEST_F(InspectArray, AnOpenStoreIsANoteAndIsShown) {
    {
        test::array_image<quote> image(body(), quotes_.geometry());
        const std::vector<std::byte> before(body().begin(), body().end());
        const quote q = made(1000);
        image.put(5, std::span(&q, 1));
        const std::size_t end = quotes_.geometry().journal_offset + quotes_.geometry().journal_bytes();
        std::memcpy(body().data() + end, before.data() + end, before.size() - end);
        detail::versions_odd(image.bytes_view(), {5, 1});
        detail::set_sequence(image.bytes_view(), detail::load_relaxed<u64>(image.bytes_view().journal) - 1);
    }
    const verification found = verify(name_.uri());
    EXPECT_TRUE(found.intact());
    ASSERT_EQ(found.findings.size(), 1U);
    EXPECT_EQ(found.findings[0].how, severity::note);
    EXPECT_THAT(found.findings[0].what, HasSubstr("the next writer finishes it"));
    std::string text;
    ASSERT_TRUE(keyed_reader::open(name_.uri())->get("5", match::exact, text));
    EXPECT_THAT(text, HasSubstr("\"updates\":1000"));
    (void)restored(saved(), folder_.file_uri("copy"));
    EXPECT_EQ(array_reader<quote>::attach(folder_.file_uri("copy"))[5], made(1000));
}

TEST_F(InspectArray, ComesBackElementByElement) {
    const save_report done = restored(saved(), folder_.file_uri("copy"));
    EXPECT_EQ(done.kind, container_kind::array);
    EXPECT_EQ(done.items, 200U);
    auto copy = array<quote>::attach(folder_.file_uri("copy"));
    EXPECT_TRUE(std::ranges::equal(copy, quotes_));
    EXPECT_TRUE(verify(folder_.file_uri("copy")).intact());
    copy.store(3, made(4));
    EXPECT_TRUE(verify(folder_.file_uri("copy")).intact());

    const test::unique_posix_name large("bytes");
    {
        auto bytes = array<std::uint8_t>::create(large.uri(), {.size = 3'000'000});  // several sections
        for (u64 i = 0; i < bytes.size(); i += 1009) bytes.store(i, static_cast<std::uint8_t>(i));
    }
    std::string text;
    (void)save(large.uri(), [&](std::string_view part) { text.append(part); });
    EXPECT_EQ(restored(text, folder_.file_uri("bytes")).items, 3'000'000U);
    EXPECT_TRUE(std::ranges::equal(array_reader<std::uint8_t>::attach(folder_.file_uri("bytes")),
                                   array_reader<std::uint8_t>::attach(large.uri())));
}

TEST_F(InspectArray, WhatIsNotAllOfItIsNotRestored) {
    const std::string text = saved();
    for (std::size_t cut = 0; cut < text.size(); cut += 56) {
        EXPECT_TRUE(test::refusal_of([&] { (void)restored(text.substr(0, cut), folder_.file_uri("cut")); })) << cut;
        std::string hurt = text;
        hurt[cut] = static_cast<char>(hurt[cut] ^ 4);
        EXPECT_TRUE(test::refusal_of([&] { (void)restored(hurt, folder_.file_uri("cut")); })) << cut;
    }
    EXPECT_EQ(test::refusal_of([&] { (void)array_reader<quote>::attach(folder_.file_uri("cut")); }), errc::not_found);
}

}  // namespace
}  // namespace holdfast::inspect
