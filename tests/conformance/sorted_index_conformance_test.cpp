// SPDX-License-Identifier: Apache-2.0
// A sorted index in every kind of memory, in a segment of its own and published through a snapshot: typed and by
// schema, validated and pinned.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "holdfast/sorted_index.hpp"
#include "support/memory_kinds.hpp"
#include "support/segment_tools.hpp"

namespace {

using holdfast::access;
using holdfast::container_schema;
using holdfast::dynamic_entry;
using holdfast::dynamic_sorted_index_publisher;
using holdfast::dynamic_sorted_index_reader;
using holdfast::errc;
using holdfast::ipv4;
using holdfast::outcome;
using holdfast::record_schema;
using holdfast::segment;
using holdfast::sorted_index;
using holdfast::test::memory_place;
using holdfast::test::refusal_of;

struct country_range {
    ipv4 high;
    char country[2];
};
using geo = sorted_index<ipv4, country_range, &country_range::high>;

// Records i*step .. i*step+step/2, whose country tells the generation.
geo::builder filled(std::uint32_t records, std::uint32_t step, char generation) {
    geo::builder out;
    for (std::uint32_t i = records; i-- > 0;) out.add({i * step}, {{i * step + step / 2}, {generation, 'X'}});
    return out;
}

std::span<const std::byte> bytes_of(const ipv4& key) { return std::as_bytes(std::span(&key, 1)); }

class Everywhere : public ::testing::TestWithParam<std::string> {
 protected:
    memory_place place{GetParam()};
};
class Shareable : public Everywhere {};

TEST_P(Everywhere, ASegmentOfItsOwnAnswersTypedAndBySchema) {
    auto records = filled(1000, 10, 'A');
    const auto made = std::make_shared<const segment>(create_sorted_index(place.uri(), records));
    geo::reader reader(made);
    dynamic_sorted_index_reader dynamic(made);
    EXPECT_EQ(reader.version(), 1U);
    EXPECT_TRUE(verify_sorted_index(*made).empty());
    EXPECT_EQ(dynamic.shape().range_end(dynamic.schema()), "high");
    dynamic_entry entry;
    for (std::uint32_t key = 0; key < 10'100; ++key) {
        const bool inside = key / 10 < 1000 && key % 10 <= 5;
        const auto hit = reader.find_covering({key});
        ASSERT_EQ(hit.status, inside ? outcome::ok : outcome::not_found) << key;
        ASSERT_EQ(dynamic.find_covering(bytes_of({key}), entry).status, hit.status);
        ASSERT_EQ(static_cast<bool>(reader.find({key})), inside && key % 10 == 0);
        if (!inside) continue;
        ASSERT_EQ(hit->key.value, key / 10 * 10);
        ASSERT_EQ(std::memcmp(entry.key.data(), &hit->key, 4), 0);
        ASSERT_EQ(std::memcmp(entry.value.data() + 4, "AX", 2), 0);
    }
    EXPECT_EQ(dynamic.find(bytes_of({0}).first(3), entry).status, outcome::not_found) << "a key of another size";
}

TEST_P(Everywhere, PublishingReplacesTheIndexUnderItsReaders) {
    auto publisher = geo::publisher::create(place.uri(), {.records_max = 2000, .segment = {}});
    auto reader = publisher.make_reader();
    EXPECT_EQ(reader.find({0}).status, outcome::empty);
    for (char generation = 'A'; generation <= 'J'; ++generation) {
        auto records = filled(100 + static_cast<std::uint32_t>(generation), 20, generation);
        const auto published = publisher.publish(records);
        ASSERT_EQ(published.status, outcome::ok);
        const auto hit = reader.find_covering({47});
        ASSERT_EQ(hit.status, outcome::ok);
        EXPECT_EQ(hit->value.country[0], generation);
        EXPECT_EQ(hit.version, published.version);
        std::uint64_t size = 0;
        ASSERT_EQ(reader.read([&](const geo::view& index) { size = index.size(); }).status, holdfast::outcome::ok);
        EXPECT_EQ(size, 100U + static_cast<std::uint32_t>(generation));
    }
    EXPECT_TRUE(verify_sorted_index(publisher.segment()).empty());
    auto large = filled(2001, 20, 'Z');
    EXPECT_EQ(publisher.publish(large).status, outcome::too_large);
    geo::builder bad = filled(3, 20, 'Z');
    bad.add({20}, {{25}, {}});
    EXPECT_THROW((void)publisher.publish(bad), holdfast::sorted_index_error);
    EXPECT_EQ(reader.find_covering({47})->value.country[0], 'J') << "a refused publish changes nothing";
}

TEST_P(Everywhere, BySchemaAloneFromARecordList) {
    const container_schema schema{record_schema::parse_list("low:ipv6"),
                                  record_schema::parse_list("high:ipv6,country:char[2]")};
    auto publisher =
        dynamic_sorted_index_publisher::create(place.uri(), schema, "high", {.records_max = 10, .segment = {}});
    auto builder = publisher.make_builder();
    std::vector<std::byte> key(16), value(18);
    for (unsigned char i = 5; i-- > 0;) {
        key[3] = value[3] = std::byte{i};
        value[15] = std::byte{9};
        value[16] = static_cast<std::byte>('a' + i);
        builder.add(key, value);
    }
    ASSERT_TRUE(publisher.publish(builder));
    auto reader = publisher.make_reader();
    dynamic_entry entry;
    for (unsigned char i = 0; i < 5; ++i) {
        key[3] = std::byte{i};
        key[15] = std::byte{9};
        ASSERT_TRUE(reader.find_covering(key, entry));
        EXPECT_EQ(entry.value[16], static_cast<std::byte>('a' + i));
        key[15] = std::byte{10};
        EXPECT_FALSE(reader.find_covering(key, entry));
        ASSERT_TRUE(reader.at(i, entry));
        EXPECT_EQ(entry.key[3], std::byte{i});
    }
    EXPECT_EQ(reader.at(5, entry).status, outcome::not_found);
}

TEST_P(Everywhere, OtherRecordsOrRangesAreRefused) {
    auto records = filled(3, 10, 'A');
    const auto made = std::make_shared<const segment>(create_sorted_index(place.uri(), records));
    using no_ranges = sorted_index<ipv4, country_range>;
    using other_key = sorted_index<std::uint32_t, country_range>;
    EXPECT_EQ(refusal_of([&] { const no_ranges::reader r(made); }), errc::schema_mismatch);
    EXPECT_EQ(refusal_of([&] { const other_key::reader r(made); }), errc::schema_mismatch);
    EXPECT_EQ(refusal_of([&] { const holdfast::snapshot_reader r(made); }), errc::kind_mismatch);
}

TEST_P(Everywhere, ASnapshotOfBytesIsNoIndex) {
    auto writer = holdfast::snapshot_writer::create(place.uri(), {.slot_bytes = 100, .segment = {}});
    const auto shared = writer.make_reader().shared();
    EXPECT_EQ(refusal_of([&] { const dynamic_sorted_index_reader r(shared); }), errc::kind_mismatch);
}

TEST_P(Shareable, PinnedReadersAnswerFromTheVersionTheyHold) {
    auto publisher = geo::publisher::create(place.uri(), {.records_max = 2000, .pinned_readers = 1, .segment = {}});
    geo::reader reader(std::make_shared<const segment>(place.attach_again(publisher.segment(), access::read_only)),
                       {.pinned = true, .attach = {}});
    EXPECT_EQ(reader.find({0}).status, outcome::empty);
    auto records = filled(1000, 20, 'A');
    ASSERT_TRUE(publisher.publish(records));
    std::uint64_t sum = 0;
    const auto got = reader.read([&](const geo::view& index) {
        for (char generation = 'B'; generation < 'K'; ++generation) {  // the index is replaced while it is read
            auto next = filled(900, 20, generation);
            ASSERT_TRUE(publisher.publish(next));
        }
        for (const auto& entry : index) sum += entry.value.country[0] == 'A';
    });
    EXPECT_EQ(got.version, 1U);
    EXPECT_EQ(sum, 1000U);
    EXPECT_EQ(reader.find_covering({47})->value.country[0], 'J');
}

INSTANTIATE_TEST_SUITE_P(SortedIndex, Everywhere, ::testing::ValuesIn(holdfast::test::every_kind),
                         holdfast::test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(SortedIndex, Shareable, ::testing::ValuesIn(holdfast::test::shareable_kinds),
                         holdfast::test::kind_case_name);

}  // namespace
