// SPDX-License-Identifier: Apache-2.0
// A hash map from outside: how full it is, its entries by the text of their keys, where it is damaged, and saved and
// restored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/many.hpp"
#include "inspect/description.hpp"
#include "inspect/keyed_reader.hpp"
#include "inspect/map_reader.hpp"
#include "inspect/processes.hpp"
#include "inspect/repair.hpp"
#include "inspect/saved_map_entry.hpp"
#include "inspect/saver.hpp"
#include "inspect/verification.hpp"
#include "support/segment_tools.hpp"
#include "support/snapshot_bench.hpp"

namespace holdfast::inspect {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct point {
    std::int32_t x = 0;
    std::int32_t y = 0;
};

class InspectHashMap : public test::segment_test {
 protected:
    InspectHashMap() {
        EXPECT_TRUE(map_.set("user:7", "seven"));
        EXPECT_TRUE(map_.set("user:8", "a \"quoted\" text", {.ttl = std::chrono::seconds(1000), .flags = 3}));
        EXPECT_TRUE(map_.set(std::string("bin\0key", 7), test::whole_object(5, 20)));
        EXPECT_TRUE(map_.set("large", test::whole_object(6, 3000)));
        EXPECT_TRUE(map_.set("empty", ""));
    }
    // The body as its writer maps it.
    [[nodiscard]] std::byte* body() const { return const_cast<std::byte*>(map_.segment().bytes().data()); }
    [[nodiscard]] map_reader reader() const {
        return map_reader(std::make_shared<const segment>(segment::attach(name_.uri(), access::read_only)));
    }
    [[nodiscard]] std::string get(const std::string& key) const {
        std::string text;
        return reader().get(key, text) ? text : "";
    }
    [[nodiscard]] std::string saved() const {
        std::string text;
        const save_report done = save(name_.uri(), [&](std::string_view part) { text.append(part); });
        EXPECT_EQ(done.items, map_.size());
        return text;
    }
    [[nodiscard]] std::string written(const std::string& text) const {
        std::ofstream(folder.file("saved"), std::ios::binary | std::ios::trunc) << text;
        return folder.file("saved");
    }

    test::unique_directory folder;
    test::unique_posix_name name_{"map"};
    hash_map<std::string_view> map_ =
        hash_map<std::string_view>::create(name_.uri(), {.capacity = 50, .bytes = 12'800, .unit_bytes = 64});
};

TEST_F(InspectHashMap, StatTellsEntriesAndRoom) {
    const description d = describe(name_.uri());
    EXPECT_FALSE(d.problem);
    EXPECT_EQ(d.contents.size, 5U);
    EXPECT_EQ(d.contents.capacity, 50U);
    EXPECT_EQ(d.contents.used_bytes, map_.usage().units_used * 64);
    EXPECT_EQ(d.contents.room_bytes, 12'800U);
}

TEST_F(InspectHashMap, EntriesAreFoundByTheTextOfTheirKeys) {
    EXPECT_EQ(get("user:7"),
              "{\"key\":\"user:7\",\"value\":\"seven\",\"bytes\":5,\"ttl_s\":null,\"flags\":0,\"handle\":\"" +
                  std::to_string(map_.about("user:7").handle) + "\"}");
    EXPECT_THAT(get("user:8"), HasSubstr("\"value\":\"a \\\"quoted\\\" text\""));
    EXPECT_THAT(get("user:8"), HasSubstr("\"flags\":3"));
    EXPECT_THAT(get("empty"), HasSubstr("\"value\":\"\",\"bytes\":0"));
    std::string text;
    EXPECT_EQ(reader().get("user:9", text).status, lookup::absent);
    EXPECT_EQ(text, "");
}

TEST_F(InspectHashMap, AScanShowsEverythingOnceAndBytesAsDigits) {
    std::string json, lines;
    std::size_t met = 0;
    reader().scan([&](const hash_map_entry& entry) {
        reader().append_json(json, entry);
        reader().append_line(lines, entry);
        ++met;
        return true;
    });
    EXPECT_EQ(met, 5U);
    EXPECT_THAT(json, HasSubstr("\"key_hex\":\"62696e006b6579\",\"value_hex\":\""));
    EXPECT_THAT(lines, HasSubstr("user:7\t5\t-\tseven\n"));
    EXPECT_THAT(lines, HasSubstr("bin\\x00key\t20\t-\t"));
    EXPECT_EQ(std::ranges::count(lines, '\n'), 5);
    met = 0;
    reader().scan([&](const hash_map_entry&) { return ++met < 2; });
    EXPECT_EQ(met, 2U);
}

// What a terminal obeys reaches none, as JSON or as a line: C0, DEL, C1, and bytes that are no UTF-8.
TEST_F(InspectHashMap, ControlsAreEscaped) {
    ASSERT_TRUE(map_.set("c1\xc2\x9b", "\xc2\x80 \x7f \x1b[31m \xc2\xa0"));
    const std::string json = get("c1\xc2\x9b");
    EXPECT_NE(json.find("\"key\":\"c1\\u009b\""), std::string::npos) << json;
    EXPECT_NE(json.find("\"value\":\"\\u0080 \\u007f \\u001b[31m \xc2\xa0\""), std::string::npos) << json;
    ASSERT_TRUE(map_.set("no text", "\x9b"));
    EXPECT_NE(get("no text").find("\"value_hex\":\"9b\""), std::string::npos);
    const map_reader looked = reader();
    looked.scan([&](const hash_map_entry& entry) {
        std::string line;
        looked.append_line(line, entry);
        EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return (c >= ' ' && c < 0x7f) || c == '\t' || c == '\n'; }));
        return true;
    });
}

TEST_F(InspectHashMap, KeysThatAreRecordsAreSpelledByTheirFields) {
    const test::unique_posix_name name("points");
    auto map = hash_map<point>::create(name.uri(), {.capacity = 10});
    ASSERT_TRUE(map.set({3, -4}, "here"));
    const map_reader by_text(std::make_shared<const segment>(segment::attach(name.uri(), access::read_only)));
    std::string text;
    ASSERT_TRUE(by_text.get("3,-4", text));
    EXPECT_THAT(text, HasSubstr("\"key\":{\"x\":3,\"y\":-4},\"value\":\"here\""));
    EXPECT_EQ(by_text.get("3,4", text).status, lookup::absent);
    EXPECT_EQ(by_text.get("three", text).status, lookup::bad_key);
    by_text.scan([&](const hash_map_entry& entry) {
        EXPECT_EQ(by_text.key_text(entry), "3,-4");
        return true;
    });
}

TEST_F(InspectHashMap, ItIsNoTableOfFields) {
    EXPECT_EQ(test::refusal_of([&] { (void)keyed_reader::open(name_.uri()); }), errc::kind_mismatch);
}

TEST_F(InspectHashMap, ASoundMapHasNoFindings) {
    const verification found = verify(name_.uri());
    EXPECT_TRUE(found.intact());
    EXPECT_TRUE(found.findings.empty());
    EXPECT_EQ(found.elements, 5U);
}

TEST_F(InspectHashMap, DamageIsShownWhereItLies) {
    const auto& g = map_.geometry();
    const detail::block_view<const std::byte> store(
        map_.segment().bytes().subspan(static_cast<std::size_t>(g.store_offset())), g.store);
    const std::uint64_t handle = map_.about("large").handle;
    const std::uint64_t at = g.store_offset() + g.store.units_offset() + store.index_of(handle) * 64;
    body()[at + 100] ^= std::byte{4};
    {
        const verification found = verify(name_.uri());
        ASSERT_EQ(found.damages, 1U);
        EXPECT_EQ(found.findings[0].offset, header_bytes + at);
        EXPECT_THAT(found.findings[0].place, HasSubstr("handle " + std::to_string(handle)));
        EXPECT_THAT(found.findings[0].what, HasSubstr("checksum"));
    }
    body()[at + 100] ^= std::byte{4};
    body()[g.control_offset() + layout::map_records_offset + 1] ^= std::byte{1};
    body()[g.control_offset() + layout::map_records_offset + layout::map_record_bytes + 1] ^= std::byte{1};
    const verification found = verify(name_.uri());
    ASSERT_EQ(found.damages, 1U);
    EXPECT_EQ(found.findings[0].place, "record");
    EXPECT_EQ(found.findings[0].offset, header_bytes + g.control_offset());
}

// The writer died behind the table's word: no damage, and the next one finishes it.
TEST_F(InspectHashMap, AnOpenOperationIsANote) {
    const detail::map_view<std::byte> view({body(), map_.segment().bytes().size()}, map_.geometry());
    detail::store_release<std::uint64_t>(view.control(layout::map_selector_offset), view.selector() - 1);
    const verification found = verify(name_.uri());
    EXPECT_TRUE(found.intact());
    ASSERT_EQ(found.findings.size(), 1U);
    EXPECT_EQ(found.findings[0].how, severity::note);
}

TEST_F(InspectHashMap, SavedAndRestoredItIsTheSame) {
    const test::unique_posix_name other("restored");
    for (std::uint64_t i = 0; i < 20; ++i) {
        ASSERT_TRUE(map_.set("k" + std::to_string(i), test::whole_object(i, i * 10)));
    }
    const save_report done = restore(written(saved()), other.uri(), {});
    EXPECT_EQ(done.kind, container_kind::hash_map);
    EXPECT_EQ(done.items, map_.size());
    auto restored = hash_map<std::string_view>::attach(other.uri());
    EXPECT_EQ(restored.geometry().store, map_.geometry().store);
    EXPECT_EQ(restored.capacity(), 50U);
    EXPECT_EQ(restored.size(), map_.size());
    EXPECT_TRUE(restored.verify([](const hash_map_finding&) { return true; }).intact());
    std::vector<std::byte> want, got;
    for (const hash_map_entry& entry : map_) {
        const std::string_view key(reinterpret_cast<const char*>(entry.key.data()), entry.key.size());
        const hash_map_found found = restored.find(key, got);
        ASSERT_TRUE(found);
        EXPECT_EQ(got, entry.value);
        EXPECT_EQ(found.flags, entry.flags);
        EXPECT_LE(found.ttl, entry.ttl);
        EXPECT_EQ(found.ttl.count() == 0, entry.ttl.count() == 0);
    }
    EXPECT_TRUE(restored.set("and goes on", "x"));
}

// A map with eviction that is restored too small says so, instead of leaving entries out.
TEST_F(InspectHashMap, ACacheIsNotRestoredInPart) {
    const test::unique_posix_name cache("cache"), other("restored");
    auto map = hash_map<std::string_view>::create(
        cache.uri(), {.capacity = 400, .bytes = 128'000, .evict = true, .registered_readers = 3});
    for (std::uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(map.set("k" + std::to_string(i), "v"));
    std::string text;
    (void)save(cache.uri(), [&](std::string_view part) { text.append(part); });
    restore_options smaller;
    smaller.capacity = 20;
    EXPECT_EQ(test::refusal_of([&] { (void)restore(written(text), other.uri(), smaller); }), errc::no_space);
    EXPECT_EQ(restore(written(text), other.uri(), {}).items, 300U);
    const auto restored = hash_map<std::string_view>::attach(other.uri());
    EXPECT_EQ(restored.size(), 300U);
    EXPECT_EQ(restored.segment().info().peer_slots, 3U);
    EXPECT_TRUE(restored.geometry().evicting);
    EXPECT_EQ(restored.usage().evicted, 0U);
}

// Ten times the entries have ten times the room; what was a full map is none any more.
TEST_F(InspectHashMap, AGreaterCapacityHasTheRoomForItsEntries) {
    for (const bool evicts : {false, true}) {
        const test::unique_posix_name full("full"), other("restored");
        auto map = hash_map<std::string_view>::create(
            full.uri(), {.capacity = 300, .bytes = 300 * 192, .unit_bytes = 64, .evict = evicts});
        const std::vector<std::byte> value(100, std::byte{5});  // three units with its key
        std::uint64_t before = 0;
        while (map.set("k" + std::to_string(before), value) && map.usage().evicted == 0) ++before;
        ASSERT_GT(before, 250U);
        std::string text;
        (void)save(full.uri(), [&](std::string_view part) { text.append(part); });
        restore_options larger;
        larger.capacity = 3000;
        (void)restore(written(text), other.uri(), larger);
        auto restored = hash_map<std::string_view>::attach(other.uri());
        EXPECT_EQ(restored.size(), map.size());
        for (std::uint64_t i = 0; i < 2600; ++i) ASSERT_TRUE(restored.set("n" + std::to_string(i), value)) << i;
        EXPECT_EQ(restored.size(), map.size() + 2600);
        EXPECT_EQ(restored.usage().evicted, 0U);
        EXPECT_EQ(restored.geometry().evicting, evicts);
    }
}

// The file goes on for longer than the map has room: nothing of that is gathered for an entry that cannot be.
TEST_F(InspectHashMap, ALengthThatLiesIsToldByItsPlaceAndWaitedForByNobody) {
    saved_reader whole(written(saved()));
    std::vector<std::byte> contents;
    while (const auto section = whole.next()) contents.insert(contents.end(), section->begin(), section->end());
    const std::size_t first = contents.size();
    contents.resize(first + (std::size_t{8} << 20));
    for (const std::uint64_t lie : {std::uint64_t{16} << 20, ~std::uint64_t{0}})
        for (const std::size_t word : {std::size_t{0}, std::size_t{8}}) {
            std::vector<std::byte> bad = contents;
            std::memcpy(bad.data() + first + word, &lie, 8);
            std::string text;
            saved_writer to([&](std::string_view part) { text.append(part); }, whole.header(), whole.schema());
            to.add(bad, whole.items());
            to.finish();
            const test::unique_posix_name other("refused");
            const auto got = test::refusal_of([&] { (void)restore(written(text), other.uri(), {}); });
            ASSERT_EQ(got, errc::corrupt);
            const std::size_t at = sizeof(saved_header) + (whole.schema().size() + 7) / 8 * 8 + 8 + 16 + first;
            EXPECT_NE(got->text.find("at byte " + std::to_string(at) + ": an entry is longer"), std::string::npos)
                << got->text;
        }
}

TEST_F(InspectHashMap, ADamagedMapIsNotSavedAndADamagedFileNotRestored) {
    const std::string text = saved();
    const test::unique_posix_name other("refused");
    for (std::size_t at = 0; at < text.size(); at += 97) {
        std::string bad = text;
        bad[at] = static_cast<char>(bad[at] ^ 0x10);
        EXPECT_NE(test::refusal_of([&] { (void)restore(written(bad), other.uri(), {}); }), std::nullopt) << at;
        EXPECT_EQ(test::refusal_of([&] { (void)segment::attach(other.uri(), access::read_only); }), errc::not_found);
    }
    restore_options small;
    small.capacity = 1;
    EXPECT_EQ(restore(written(text), other.uri(), small).items, 5U) << "the table has a few slots more";
    body()[map_.geometry().control_offset() + layout::map_selector_offset + 3] ^= std::byte{1};
    EXPECT_EQ(test::refusal_of([&] { (void)saved(); }), errc::corrupt);
}

using map_of_many = hash_map<std::string_view, writers::many>;

/// What the refusal of something says; "" if it is done.
[[nodiscard]] std::string refused_as(errc code, const std::function<void()>& what) {
    try {
        what();
    } catch (const error& e) {
        EXPECT_EQ(e.code(), code) << e.what();
        return e.what();
    }
    return {};
}

// A map of many writers is looked at as any other, and says who writes it.
TEST(InspectHashMapOfMany, IsDescribedReadAndVerifiedWithItsWriters) {
    const test::unique_posix_name name{"many"};
    using map = map_of_many;
    auto mine = map::create(name.uri(), {.capacity = 100, .unit_bytes = 64});
    std::optional other = map::attach(name.uri());
    ASSERT_TRUE(mine.set("a", "one"));
    ASSERT_TRUE(other->set("b", "two"));
    const description seen = describe(name.uri());
    EXPECT_EQ(seen.contents.size, 2U);
    EXPECT_EQ(seen.contents.writer_slots, 16U);
    std::string text;
    const auto memory = std::make_shared<const segment>(segment::attach(name.uri(), access::read_only));
    EXPECT_TRUE(map_reader(memory).get("b", text));
    EXPECT_NE(text.find("two"), std::string::npos) << text;
    EXPECT_TRUE(verify(name.uri()).findings.empty());
    usage who = usage_of(name.uri());
    EXPECT_EQ(who.writer_slots, 16U);
    ASSERT_EQ(who.writers.size(), 2U);
    for (std::uint32_t slot = 0; slot < 2; ++slot) {
        EXPECT_EQ(who.writers[slot].slot, slot);
        EXPECT_EQ(who.writers[slot].pid, static_cast<std::uint64_t>(::getpid()));
    }
    const std::uint32_t slot = other->writer_slot();
    other.reset();
    who = usage_of(name.uri());
    ASSERT_EQ(who.writers.size(), 1U);
    EXPECT_EQ(who.writers[0].slot, mine.writer_slot());

    auto* const body = const_cast<std::byte*>(mine.segment().bytes().data());
    const std::uint64_t journal = mine.geometry().journals_offset() + slot * layout::map_journal_bytes;
    body[journal + layout::map_journal_records_offset + layout::map_record_bytes + 8] ^= std::byte{1};
    const verification found = verify(name.uri());
    ASSERT_EQ(found.damages, 1U);
    EXPECT_EQ(found.findings[0].place, "record of writer slot 1");
    EXPECT_EQ(found.findings[0].offset, header_bytes + journal);
}

// What is not done with such a map says so, and what to do instead; the map is as it was.
TEST(InspectHashMapOfMany, WhatIsNotDoneWithItSaysWhatToDo) {
    const test::unique_posix_name name{"many"}, other{"other"};
    auto mine = std::make_unique<map_of_many>(map_of_many::create(name.uri(), {.capacity = 100}));
    ASSERT_TRUE(mine->set("a", "one"));
    const std::uint64_t record = mine->geometry().journals_offset() + layout::map_journal_records_offset +
                                 layout::map_record_bytes;  // of the first operation
    const_cast<std::byte*>(mine->segment().bytes().data())[record + 8] ^= std::byte{1};
    mine.reset();
    using alone = hash_map<std::string_view>;
    EXPECT_THAT(refused_as(errc::geometry_mismatch, [&] { (void)alone::attach(name.uri()); }),
                HasSubstr("attach with hash_map<K, writers::many>, or read-only"));
    EXPECT_THAT(refused_as(errc::invalid_argument,
                           [&] { (void)map_of_many::create(other.uri(), {.capacity = 9, .evict = true}); }),
                HasSubstr("evict"));
    EXPECT_EQ(verify(name.uri()).damages, 1U) << "of those who were refused nobody mended it";
    EXPECT_EQ(map_of_many::attach(name.uri()).size(), 1U);
    EXPECT_TRUE(verify(name.uri()).findings.empty());
}

[[nodiscard]] std::string saved_text(const std::string& uri) {
    std::string text;
    (void)save(uri, [&](std::string_view part) { text.append(part); });
    return text;
}

class SavedMapOfMany : public ::testing::Test {
 protected:
    save_report restore_text(const std::string& text, const restore_options& options = {}) {
        std::ofstream(folder_.file("saved"), std::ios::binary | std::ios::trunc) << text;
        return restore(folder_.file("saved"), copy_.uri(), options);
    }
    /// The file with its header changed by `change`, and right checksums.
    template <class Change>
    std::string forged(const std::string& text, Change&& change, std::uint64_t ttl_of_the_first = 0) {
        std::ofstream(folder_.file("honest"), std::ios::binary | std::ios::trunc) << text;
        saved_reader from(folder_.file("honest"));
        saved_header header = from.header();
        change(header);
        std::string forgery;
        saved_writer to([&](std::string_view part) { forgery.append(part); }, header, from.schema());
        for (bool first = true; const auto section = from.next(); first = false) {
            std::vector<std::byte> contents(section->begin(), section->end());
            if (first && ttl_of_the_first != 0) std::memcpy(contents.data() + 16, &ttl_of_the_first, 8);
            to.add(contents, 0);
        }
        to.finish();
        return forgery;
    }

    test::unique_directory folder_{"saved-map-of-many"};
    test::unique_posix_name name_{"many"}, copy_{"copy"};
};

TEST_F(SavedMapOfMany, RestoredItIsTheSameAndGoesOnWithAsManyWriters) {
    auto mine = map_of_many::create(name_.uri(), {.capacity = 300, .entry_bytes = 700, .writer_slots = 3});
    auto other = map_of_many::attach(name_.uri());
    for (std::uint64_t i = 0; i < 200; ++i)
        ASSERT_TRUE((i % 2 == 0 ? mine : other)
                        .set("k" + std::to_string(i), test::whole_object(i, i * 3), static_cast<std::uint32_t>(i)));
    ASSERT_TRUE(other.erase("k7"));
    const save_report done = restore_text(saved_text(name_.uri()));
    EXPECT_EQ(done.kind, container_kind::hash_map);
    EXPECT_EQ(done.items, 199U);
    std::vector<map_of_many> writers;
    for (int i = 0; i < 3; ++i) writers.push_back(map_of_many::attach(copy_.uri()));
    EXPECT_EQ(test::refusal_of([&] { (void)map_of_many::attach(copy_.uri()); }), errc::writer_alive);
    EXPECT_EQ(writers[0].geometry().store, mine.geometry().store);
    EXPECT_EQ(writers[0].capacity(), 300U);
    EXPECT_EQ(writers[0].size(), 199U);
    EXPECT_TRUE(verify(copy_.uri()).findings.empty());
    std::vector<std::byte> got;
    for (const hash_map_entry& entry : mine) {
        const std::string_view key(reinterpret_cast<const char*>(entry.key.data()), entry.key.size());
        const hash_map_found found = writers[1].find(key, got);
        ASSERT_TRUE(found) << key;
        EXPECT_EQ(got, entry.value);
        EXPECT_EQ(found.flags, entry.flags);
    }
    for (map_of_many& writer : writers) EXPECT_TRUE(writer.set("goes on", "x"));
    EXPECT_EQ(writers[0].size(), 200U);
    EXPECT_TRUE(verify(copy_.uri()).findings.empty());
}

TEST_F(SavedMapOfMany, BesideItsWritersAllThatStaysIsSavedWhole) {
    auto mine = map_of_many::create(name_.uri(), {.capacity = 2000, .entry_bytes = 200});
    for (std::uint64_t i = 0; i < 300; ++i)
        ASSERT_TRUE(mine.set("stays" + std::to_string(i), test::whole_object(i, i % 97)));
    std::atomic<bool> stop{false};
    std::vector<std::thread> working;
    for (std::uint64_t w = 0; w < 2; ++w)
        working.emplace_back([&, w] {
            auto writer = map_of_many::attach(name_.uri());
            for (std::uint64_t i = 0; !stop; ++i) {
                const std::string key = "moves" + std::to_string(w) + "-" + std::to_string(i % 50);
                const bool done = i % 3 == 2 ? writer.erase(key).status != outcome::corrupt
                                             : static_cast<bool>(writer.set(key, test::whole_object(w, i % 101)));
                if (!done) ADD_FAILURE() << key;
            }
        });
    for (int copies = 0; copies < 5; ++copies) {
        restore_text(saved_text(name_.uri()));
        EXPECT_TRUE(verify(copy_.uri()).findings.empty());
        const auto copy = hash_map_reader<std::string_view>::attach(copy_.uri());
        std::vector<std::byte> got;
        for (std::uint64_t i = 0; i < 300; ++i) {
            ASSERT_TRUE(copy.find("stays" + std::to_string(i), got)) << i;
            EXPECT_EQ(got, test::whole_object(i, i % 97));
        }
        for (const hash_map_entry& entry : copy)
            if (entry.key.front() == std::byte{'m'}) {
                EXPECT_TRUE(test::is_whole(entry.value, static_cast<std::uint64_t>(entry.key[5]) - '0'));
            }
        segment::remove(copy_.uri());
    }
    stop = true;
    for (std::thread& each : working) each.join();
}

// What is saved of both is the same: only the number of slots says which of them it was.
TEST_F(SavedMapOfMany, WithoutSlotsItIsAMapOfOneWriter) {
    {
        auto mine = map_of_many::create(name_.uri(), {.capacity = 600, .writer_slots = 2});
        for (std::uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(mine.set("k" + std::to_string(i), "value"));
    }
    restore_text(forged(saved_text(name_.uri()), [](saved_header& h) { h.parameters[4] = 0; }));
    auto mine = hash_map<std::string_view>::attach(copy_.uri());
    EXPECT_TRUE(verify(copy_.uri()).findings.empty());
    EXPECT_EQ(mine.size(), 500U);
    EXPECT_TRUE(mine.set("one more", "value"));
}

// Right checksums over what no such map can be.
TEST_F(SavedMapOfMany, AFileThatContradictsItselfMakesNoMap) {
    {
        auto mine = map_of_many::create(name_.uri(), {.capacity = 600, .writer_slots = 2});
        for (std::uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(mine.set("k" + std::to_string(i), "value"));
    }
    const std::string text = saved_text(name_.uri());
    const auto refusal = [&](const std::string& forgery) {
        const auto got = test::refusal_of([&] { (void)restore_text(forgery); });
        EXPECT_EQ(test::refusal_of([&] { (void)segment::attach(copy_.uri(), access::read_only); }), errc::not_found);
        return got;
    };
    EXPECT_EQ(refusal(forged(text, [](saved_header& h) { h.parameters[4] = 1025; })), errc::corrupt);
    EXPECT_EQ(refusal(forged(text, [](saved_header& h) { h.parameters[4] = ~std::uint64_t{0}; })), errc::corrupt);
    EXPECT_EQ(refusal(forged(text, [](saved_header& h) { h.parameters[3] = 1; })), errc::corrupt);
    EXPECT_EQ(refusal(forged(text, [](saved_header& h) { h.peer_slots = 3; })), errc::corrupt);
    EXPECT_EQ(refusal(forged(text, [](saved_header&) {}, 60)), errc::corrupt) << "a time to live";
    restore_options small;
    small.capacity = 1;
    EXPECT_EQ(test::refusal_of([&] { (void)restore_text(text, small); }), errc::no_space);
    for (std::size_t at = 0; at < text.size(); at += 97) {
        std::string bad = text;
        bad[at] = static_cast<char>(bad[at] ^ 0x10);
        EXPECT_NE(refusal(bad), std::nullopt) << at;
    }
    EXPECT_EQ(restore_text(forged(text, [](saved_header&) {})).kind, container_kind::hash_map);
}

TEST(SavedMapItems, NumbersThatLieTakeNothing) {
    hash_map_entry entry;
    entry.key = test::whole_object(1, 5);
    entry.value = test::whole_object(2, 50);
    std::vector<std::byte> item;
    append_saved(item, entry);
    for (std::size_t cut = 0; cut <= item.size(); cut += 8) {
        saved_map_items items;
        items.append(std::span(item).first(cut));
        EXPECT_EQ(items.next().has_value(), cut == item.size());
        items.append(std::span(item).subspan(cut));
        const auto whole = cut == item.size() ? std::nullopt : items.next();
        EXPECT_EQ(whole.has_value(), cut != item.size());
        if (whole) {
            EXPECT_TRUE(std::ranges::equal(whole->key, entry.key));
            EXPECT_TRUE(std::ranges::equal(whole->value, entry.value));
        }
        EXPECT_TRUE(items.empty());
    }
    for (const std::size_t word : {std::size_t{0}, std::size_t{8}})
        for (const std::uint64_t lie :
             {~std::uint64_t{0}, ~std::uint64_t{7}, std::uint64_t{1} << 63, std::uint64_t{90}}) {
            std::vector<std::byte> bad = item;
            std::memcpy(bad.data() + word, &lie, 8);
            saved_map_items items;
            items.append(bad);
            EXPECT_FALSE(items.next()) << lie;
            EXPECT_FALSE(items.empty());
        }
}

}  // namespace
}  // namespace holdfast::inspect
