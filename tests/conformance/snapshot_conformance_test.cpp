// SPDX-License-Identifier: Apache-2.0
// What a snapshot must do alike in every kind of memory: one writer, readers of three sorts, recovery, refusals.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/snapshot.hpp"
#include "support/memory_kinds.hpp"
#include "support/process.hpp"
#include "support/segment_tools.hpp"
#include "support/snapshot_bench.hpp"

namespace {

using holdfast::access;
using holdfast::errc;
using holdfast::outcome;
using holdfast::segment;
using holdfast::snapshot;
using holdfast::snapshot_options;
using holdfast::snapshot_pinned_reader;
using holdfast::snapshot_reader;
using holdfast::snapshot_writer;
using holdfast::test::child_process;
using holdfast::test::is_whole;
using holdfast::test::memory_place;
using holdfast::test::refusal_of;
using holdfast::test::whole_object;

snapshot_options room_for(std::uint64_t bytes, std::uint32_t pinned = 0) {
    snapshot_options options;
    options.slot_bytes = bytes;
    options.pinned_readers = pinned;
    return options;
}

class Everywhere : public ::testing::TestWithParam<std::string> {
 protected:
    memory_place place{GetParam()};
};
class Shareable : public Everywhere {
 protected:
    std::shared_ptr<const segment> again(const snapshot_writer& writer) {
        return std::make_shared<const segment>(place.attach_again(writer.segment(), access::read_only));
    }
};

TEST_P(Everywhere, AReaderOnTheWritersMappingSeesEachVersion) {
    auto writer = snapshot_writer::create(place.uri(), room_for(10'000));
    snapshot_reader reader = writer.make_reader();
    std::vector<std::byte> out;
    EXPECT_EQ(reader.read(out).status, outcome::empty);
    for (std::uint64_t version = 1; version <= 9; ++version) {
        ASSERT_EQ(writer.publish(whole_object(version, 1000 * version)).version, version);
        const auto got = reader.read(out);
        ASSERT_EQ(got.status, outcome::ok);
        EXPECT_EQ(got.version, version);
        EXPECT_EQ(out.size(), 1000 * version);
        EXPECT_TRUE(is_whole(out, version));
    }
    EXPECT_EQ(writer.publish(whole_object(1, 10'001)).status, outcome::too_large);
    EXPECT_TRUE(reader.verify().empty());
    EXPECT_EQ(reader.fault(), std::nullopt);
}

TEST_P(Everywhere, TheReaderKeepsTheMappingAliveWithoutTheWriter) {
    auto writer = std::make_unique<snapshot_writer>(snapshot_writer::create(place.uri(), room_for(100)));
    ASSERT_TRUE(writer->publish(whole_object(1, 100)));
    snapshot_reader reader = writer->make_reader();
    writer.reset();
    std::vector<std::byte> out;
    ASSERT_TRUE(reader.read(out));
    EXPECT_TRUE(is_whole(out, 1));
}

TEST_P(Everywhere, AnotherKindOfContainerIsRefused) {
    holdfast::segment_spec spec;
    spec.kind = holdfast::container_kind::raw;
    spec.body_bytes = 100'000;
    const auto raw =
        std::make_shared<const segment>(segment::create(place.uri(), spec, {}, [](std::span<std::byte>) {}));
    EXPECT_EQ(refusal_of([&] { const snapshot_reader reader(raw); }), errc::kind_mismatch);
}

TEST_P(Everywhere, AHeaderThatContradictsItsSizeIsRefused) {
    holdfast::segment_spec spec;
    spec.kind = holdfast::container_kind::snapshot;
    const auto geometry = holdfast::layout::snapshot_geometry::make(4, 1000, 0, "x");
    std::ranges::copy(geometry.words(), spec.geometry.begin());
    spec.body_bytes = geometry.body_bytes() - 4096;
    const auto bad =
        std::make_shared<const segment>(segment::create(place.uri(), spec, {}, [](std::span<std::byte>) {}));
    EXPECT_EQ(refusal_of([&] { const snapshot_reader reader(bad); }), errc::geometry_mismatch);
}

TEST_P(Everywhere, AForkedChildCannotPublish) {
    auto writer = snapshot_writer::create(place.uri(), room_for(100));
    ASSERT_TRUE(writer.publish(whole_object(1, 100)));
    child_process child([&]() -> std::string {
        if (writer.publish(whole_object(2, 100)).status != outcome::read_only) return "published";
        if (writer.prepare(100).status != outcome::read_only) return "prepared";
        if (writer.commit(100).status != outcome::read_only) return "committed";
        return {};
    });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_EQ(writer.publish(whole_object(2, 100)).version, 2U);
}

TEST_P(Shareable, ASecondMappingSeesEachVersion) {
    auto writer = snapshot_writer::create(place.uri(), room_for(5000));
    snapshot_reader reader(again(writer));
    std::vector<std::byte> out;
    for (std::uint64_t version = 1; version <= 20; ++version) {
        ASSERT_TRUE(writer.publish(whole_object(version, 5000 - version)));
        ASSERT_EQ(reader.read(out).version, version);
        ASSERT_TRUE(is_whole(out, version));
    }
}

TEST_P(Shareable, ASecondWriterIsRefusedWhileTheFirstLives) {
    auto writer = std::make_unique<snapshot_writer>(snapshot_writer::create(place.uri(), room_for(100)));
    ASSERT_TRUE(writer->publish(whole_object(1, 100)));
    EXPECT_EQ(refusal_of([&] { (void)place.attach_again(writer->segment(), access::read_write); }), errc::writer_alive);
}

TEST_P(Shareable, PinnedReadersHoldTheirVersionAndGiveItBack) {
    auto writer = snapshot_writer::create(place.uri(), room_for(100, 2));
    snapshot_pinned_reader first(again(writer)), second(again(writer));
    EXPECT_EQ(refusal_of([&] { const snapshot_pinned_reader third(again(writer)); }), errc::no_space);
    EXPECT_EQ(first.pin().status(), outcome::empty);
    ASSERT_TRUE(writer.publish(whole_object(1, 100)));
    auto held = first.pin();
    ASSERT_TRUE(held);
    for (std::uint64_t version = 2; version < 30; ++version) {
        ASSERT_TRUE(writer.publish(whole_object(version, 100)));
        ASSERT_TRUE(is_whole(held.bytes(), 1)) << version;
        const auto other = second.pin();
        ASSERT_EQ(other.version(), version);
        ASSERT_TRUE(is_whole(other.bytes(), version));
    }
    EXPECT_EQ(first.pin().version(), 1U) << "one reader holds one version while a view of it lives";
    held = {};
    EXPECT_EQ(first.pin().version(), 29U);
}

TEST_P(Shareable, APinnedReaderThatWasMovedFromAnswersReadOnlyAndHoldsNothing) {
    auto writer = snapshot_writer::create(place.uri(), room_for(100, 1));
    ASSERT_TRUE(writer.publish(whole_object(1, 50)));
    snapshot_pinned_reader first(again(writer));
    snapshot_pinned_reader second = std::move(first);
    EXPECT_EQ(first.pin().status(), outcome::read_only);  // NOLINT: a moved-from handle says so
    first.release();
    EXPECT_TRUE(second.pin());
}

TEST_P(Shareable, APinnedReaderThatIsAssignedToGivesItsVersionAndItsPlaceBackAtOnce) {
    auto options = room_for(100, 2);
    options.slots = 2;
    auto writer = snapshot_writer::create(place.uri(), options);
    snapshot_pinned_reader first(again(writer)), second(again(writer));
    EXPECT_EQ(refusal_of([&] { const snapshot_pinned_reader third(again(writer)); }), errc::no_space);
    ASSERT_TRUE(writer.publish(whole_object(1, 100)));
    ASSERT_TRUE(first.pin());
    ASSERT_TRUE(writer.publish(whole_object(2, 100)));
    ASSERT_TRUE(second.pin());
    ASSERT_EQ(writer.publish(whole_object(3, 100)).status, outcome::full);
    first = std::move(second);
    EXPECT_TRUE(writer.publish(whole_object(3, 100))) << "nobody holds version 1";
    EXPECT_EQ(writer.publish(whole_object(4, 100)).status, outcome::full) << "the first holds version 2 now";
    EXPECT_EQ(first.pin().version(), 3U);
    EXPECT_TRUE(writer.publish(whole_object(4, 100)));
    EXPECT_EQ(second.pin().status(), outcome::read_only);  // NOLINT: a moved-from handle says so
    const snapshot_pinned_reader third(again(writer));
}

TEST_P(Shareable, APinnedReaderThatIsMovedToItselfHoldsWhatItHeld) {
    auto options = room_for(100, 1);
    options.slots = 2;
    auto writer = snapshot_writer::create(place.uri(), options);
    ASSERT_TRUE(writer.publish(whole_object(1, 100)));
    snapshot_pinned_reader reader(again(writer));
    ASSERT_TRUE(reader.pin());
    ASSERT_TRUE(writer.publish(whole_object(2, 100)));
    snapshot_pinned_reader& same = reader;
    reader = std::move(same);
    EXPECT_EQ(writer.publish(whole_object(3, 100)).status, outcome::full);
    EXPECT_EQ(reader.pin().version(), 2U);
}

TEST_P(Shareable, AViewThatIsAssignedToLetsGoOfItsVersionAtOnce) {
    auto writer = snapshot_writer::create(place.uri(), room_for(100, 2));
    snapshot_pinned_reader first(again(writer)), second(again(writer));
    ASSERT_TRUE(writer.publish(whole_object(1, 100)));
    auto held = first.pin();
    ASSERT_TRUE(writer.publish(whole_object(2, 100)));
    auto other = second.pin();
    held = std::move(other);
    EXPECT_EQ(first.pin().version(), 2U) << "no view of what it held lives";
    EXPECT_FALSE(other);  // NOLINT: a moved-from view says so
    EXPECT_EQ(other.version(), 0U);
    EXPECT_TRUE(other.bytes().empty());
    auto& same = held;
    held = std::move(same);
    EXPECT_TRUE(is_whole(held.bytes(), 2));
    ASSERT_TRUE(writer.publish(whole_object(3, 100)));
    EXPECT_EQ(second.pin().version(), 2U) << "the view of it lives";
    held = {};
    EXPECT_EQ(second.pin().version(), 3U);
}

TEST_P(Shareable, WithoutAFreeSlotThePublishIsRefusedUntilAPinEnds) {
    auto options = room_for(100, 1);
    options.slots = 2;
    auto writer = snapshot_writer::create(place.uri(), options);
    ASSERT_TRUE(writer.publish(whole_object(1, 100)));
    auto reader = std::make_unique<snapshot_pinned_reader>(again(writer));
    ASSERT_TRUE(reader->pin());
    ASSERT_TRUE(writer.publish(whole_object(2, 100)));
    EXPECT_EQ(writer.publish(whole_object(3, 100)).status, outcome::full);
    reader->release();
    EXPECT_TRUE(writer.publish(whole_object(3, 100)));
    ASSERT_TRUE(reader->pin());
    ASSERT_TRUE(writer.publish(whole_object(4, 100)));
    EXPECT_FALSE(writer.publish(whole_object(5, 100)));
    reader.reset();
    EXPECT_TRUE(writer.publish(whole_object(5, 100)));
}

TEST_P(Shareable, AForkedChildCannotUseItsParentsPin) {
    auto writer = snapshot_writer::create(place.uri(), room_for(100, 1));
    ASSERT_TRUE(writer.publish(whole_object(1, 100)));
    auto reader = std::make_unique<snapshot_pinned_reader>(again(writer));
    const auto held = reader->pin();
    ASSERT_TRUE(held);
    child_process child([&]() -> std::string {
        if (reader->pin().status() != outcome::read_only) return "the child may pin";
        reader->release();
        reader.reset();  // must leave the parent's slot and lock alone
        return {};
    });
    ASSERT_TRUE(child.wait().success()) << child.wait().text();
    for (std::uint64_t version = 2; version < 10; ++version) ASSERT_TRUE(writer.publish(whole_object(version, 100)));
    EXPECT_TRUE(is_whole(held.bytes(), 1));
}

struct settings {
    std::uint64_t generation;
    double ratio;
    char name[9];
};
struct longer_settings {
    std::uint64_t generation;
    double ratio;
    char name[9];
    std::uint32_t limit;
};
struct other_settings {
    std::uint64_t generation;
    float ratio;
};

TEST_P(Everywhere, ARecordIsReadWhole) {
    auto writer = snapshot<settings>::create(place.uri());
    auto reader = writer.make_reader();
    EXPECT_EQ(reader.read().status, outcome::empty);
    for (std::uint64_t i = 1; i < 50; ++i) {
        ASSERT_EQ(writer.publish({i, 0.5 * static_cast<double>(i), "nine let"}).version, i);
        const auto got = reader.read();
        ASSERT_TRUE(got);
        EXPECT_EQ(got.value.generation, i);
        EXPECT_EQ(got.value.ratio, 0.5 * static_cast<double>(i));
        EXPECT_STREQ(got.value.name, "nine let");
    }
}

TEST_P(Everywhere, ARecordWithMoreFieldsServesOldReaders) {
    auto writer = snapshot<longer_settings>::create(place.uri());
    ASSERT_TRUE(writer.publish({7, 0.25, "x", 9}));
    const auto shared = std::shared_ptr<const segment>(std::shared_ptr<void>(), &writer.segment());
    snapshot<settings>::reader old{snapshot_reader(shared)};
    EXPECT_EQ(old.read().value.ratio, 0.25);
    EXPECT_EQ(refusal_of([&] { const snapshot<other_settings>::reader no{snapshot_reader(shared)}; }),
              errc::schema_mismatch);
}

struct five_words {
    std::uint64_t words[5];
};
struct six_words {
    std::uint64_t words[6];
};

// The largest that lies beside `current`, and the next.
template <class T>
void read_each_version(const std::string& uri) {
    auto writer = snapshot<T>::create(uri);
    auto reader = writer.make_reader();
    for (std::uint64_t version = 1; version < 30; ++version) {
        T value{};
        for (std::uint64_t& word : value.words) word = version << 32 | static_cast<std::uint64_t>(&word - value.words);
        ASSERT_EQ(writer.publish(value).version, version);
        const auto got = reader.read();
        ASSERT_TRUE(got);
        EXPECT_EQ(got.version, version);
        EXPECT_EQ(std::memcmp(&got.value, &value, sizeof value), 0) << version;
    }
}
TEST_P(Everywhere, ARecordOfAFewWordsIsReadWhole) {
    read_each_version<five_words>(place.uri());
    read_each_version<six_words>("heap:");
}

// Its writer went by another schema's size: never read as if it were whole.
TEST_P(Everywhere, WhatIsShorterThanASmallRecordIsNotReadAsOne) {
    holdfast::snapshot_payload payload;
    payload.schema = holdfast::container_schema{std::nullopt, holdfast::schema_of<five_words>()}.text();
    auto writer = snapshot_writer::create(place.uri(), room_for(sizeof(five_words)), payload);
    snapshot<five_words>::reader reader{writer.make_reader()};
    ASSERT_TRUE(writer.publish(whole_object(1, sizeof(five_words))));
    EXPECT_EQ(reader.read().status, outcome::ok);
    ASSERT_TRUE(writer.publish(whole_object(2, sizeof(five_words) - 1)));
    EXPECT_EQ(reader.read().status, outcome::corrupt);
}

// Without holes and without a bool, which is never looked at in place.
struct sheet {
    std::uint64_t generation;
    std::uint64_t prices[500];
};
struct longer_sheet {
    std::uint64_t generation;
    std::uint64_t prices[500];
    std::uint64_t note;
};

// Its last word is not its own.
struct label {
    char text[13];
};

TEST_P(Everywhere, ARecordOfAnySizeIsReadWhole) {
    auto sheets = snapshot<sheet>::create(place.uri());
    auto reader = sheets.make_reader();
    for (std::uint64_t generation = 1; generation < 20; ++generation) {
        sheet next{generation, {}};
        for (std::uint64_t i = 0; i < std::size(next.prices); ++i) next.prices[i] = generation * 1000 + i;
        ASSERT_TRUE(sheets.publish(next));
        const auto got = reader.read();
        ASSERT_TRUE(got);
        EXPECT_EQ(std::memcmp(&got.value, &next, sizeof next), 0) << "generation " << generation;
    }
    auto labels = snapshot<label>::create("heap:");
    ASSERT_TRUE(labels.publish({"twelve chars"}));
    EXPECT_STREQ(labels.make_reader().read().value.text, "twelve chars");
}

TEST_P(Shareable, ARecordIsHeldInPlaceWhileItsWriterGoesOn) {
    auto writer = snapshot<longer_sheet>::create(place.uri(), {.pinned_readers = 2});
    const auto mapped = [&] {
        return snapshot_pinned_reader(
            std::make_shared<const segment>(place.attach_again(writer.segment(), access::read_only)));
    };
    const auto publish = [&](std::uint64_t generation) {
        longer_sheet next{generation, {}, 1};
        for (std::uint64_t i = 0; i < std::size(next.prices); ++i) next.prices[i] = generation * 1000 + i;
        return writer.publish(next);
    };
    const auto whole = [](const sheet& s) {
        for (std::uint64_t i = 0; i < std::size(s.prices); ++i)
            if (s.prices[i] != s.generation * 1000 + i) return false;
        return true;
    };
    // A program of yesterday, whose record has fewer fields at its end, reads what today's publishes.
    snapshot<sheet>::pinned_reader reader(mapped());
    EXPECT_EQ(reader.pin().status(), outcome::empty);
    ASSERT_TRUE(publish(1));
    auto held = reader.pin();
    ASSERT_TRUE(held);
    const sheet& in_place = *held;
    for (std::uint64_t generation = 2; generation <= 40; ++generation) {
        ASSERT_EQ(publish(generation).version, generation);
        ASSERT_EQ(in_place.generation, 1U);
        ASSERT_TRUE(whole(in_place)) << "after version " << generation;
    }
    EXPECT_EQ(&*reader.pin(), &in_place) << "one reader holds one version while a view of it lives";
    held = {};
    EXPECT_EQ(reader.pin()->generation, 40U);
    EXPECT_EQ(reader.pin().version(), 40U);
    EXPECT_TRUE(whole(*reader.pin()));
    EXPECT_EQ(reader.fault(), std::nullopt);
    EXPECT_EQ(refusal_of([&] { const snapshot<other_settings>::pinned_reader no(mapped()); }), errc::schema_mismatch);
}

TEST_P(Shareable, WhatIsShorterThanTheRecordIsNotHeldAsOne) {
    holdfast::snapshot_payload payload;
    payload.schema = holdfast::container_schema{std::nullopt, holdfast::schema_of<sheet>()}.text();
    auto writer = snapshot_writer::create(place.uri(), room_for(sizeof(sheet), 1), payload);
    snapshot<sheet>::pinned_reader reader{snapshot_pinned_reader(again(writer))};
    ASSERT_TRUE(writer.publish(whole_object(1, sizeof(sheet))));
    EXPECT_EQ(reader.pin().version(), 1U);
    ASSERT_TRUE(writer.publish(whole_object(2, sizeof(sheet) - 1)));
    const auto cut = reader.pin();
    EXPECT_FALSE(cut);
    EXPECT_EQ(cut.status(), outcome::corrupt);
    EXPECT_EQ(reader.fault(), errc::corrupt);
}

TEST_P(Shareable, BytesAreNotHeldAsARecord) {
    auto writer = snapshot_writer::create(place.uri(), room_for(sizeof(sheet), 1));
    EXPECT_EQ(refusal_of([&] { const snapshot<sheet>::pinned_reader no{snapshot_pinned_reader(again(writer))}; }),
              errc::schema_mismatch);
}

INSTANTIATE_TEST_SUITE_P(Snapshot, Everywhere, ::testing::ValuesIn(holdfast::test::every_kind),
                         holdfast::test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(Snapshot, Shareable, ::testing::ValuesIn(holdfast::test::shareable_kinds),
                         holdfast::test::kind_case_name);

}  // namespace
