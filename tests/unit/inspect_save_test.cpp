// SPDX-License-Identifier: Apache-2.0
// save and restore: what was in a segment is in the restored one, whatever is done to the file in between is noticed,
// and nothing ever appears under the new name that is not all of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/many.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index.hpp"
#include "inspect/saver.hpp"
#include "inspect/verification.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;
using testing::HasSubstr;
using wide = std::array<u64, 9>;

struct country {
    std::uint32_t high;
    char code[2];
    std::uint16_t weight;
};

class Save : public segment_test {
 protected:
    [[nodiscard]] std::string save(const std::string& uri) const {
        std::string text;
        const inspect::save_report done = inspect::save(uri, [&](std::string_view part) { text.append(part); });
        EXPECT_EQ(done.bytes, text.size());
        EXPECT_EQ(text.size() % 8, 0U);
        return text;
    }
    [[nodiscard]] std::string written(const std::string& text) const {
        std::ofstream(folder.file("saved"), std::ios::binary | std::ios::trunc) << text;
        return folder.file("saved");
    }
    inspect::save_report restore(const std::string& text, const std::string& name, u64 capacity = 0) const {
        inspect::restore_options options;
        options.capacity = capacity;
        return inspect::restore(written(text), folder.file_uri(name), options);
    }
    /// Expects that the file is refused and that nothing is left of the attempt.
    void expect_refused(const std::string& text, const std::string& why) const {
        (void)written(text);
        const auto before = folder.entries();
        try {
            (void)restore(text, "refused");
            ADD_FAILURE() << why << ": restored";
        } catch (const error& e) {
            EXPECT_TRUE(e.reason() == errc::corrupt || e.reason() == errc::truncated || e.reason() == errc::bad_magic ||
                        e.reason() == errc::version_mismatch)
                << why << ": " << e.what();
            EXPECT_THAT(e.what(), HasSubstr("saved")) << why;
        }
        EXPECT_EQ(folder.entries().size(), before.size()) << why;
    }
    unique_directory folder{"save"};
};

TEST_F(Save, AHashTableComesBackEntryByEntry) {
    const std::string uri = folder.file_uri("t");
    constexpr u64 count = 40'000;  // several sections
    {
        auto table = hash_table<u64, wide>::create(uri, {.capacity = count});
        for (u64 key = 0; key < count; ++key) ASSERT_TRUE(table.try_insert(key, wide{key, 2 * key, 3 * key}));
    }
    const std::string text = save(uri);
    const inspect::save_report done = restore(text, "copy");
    EXPECT_EQ(done.items, count);
    EXPECT_EQ(done.kind, container_kind::hash_table);
    const auto copy = hash_table_reader<u64, wide>::attach(folder.file_uri("copy"));
    EXPECT_EQ(copy.size(), count);
    EXPECT_EQ(copy.capacity(), count);
    for (u64 key = 0; key < count; ++key) ASSERT_EQ(copy.find(key).value(), (wide{key, 2 * key, 3 * key}));
    EXPECT_TRUE(inspect::verify(folder.file_uri("copy")).intact());
    (void)restore(text, "larger", 2 * count);
    const auto larger = hash_table_reader<u64, wide>::attach(folder.file_uri("larger"));
    EXPECT_EQ(larger.capacity(), 2 * count);
    EXPECT_THROW(restore(text, "smaller", count / 2), error);
    EXPECT_THROW(restore(text, "copy"), error);  // never over one that is there
}

// Saved beside its writers, it comes back as what it was: one that many may write.
TEST_F(Save, ATableOfManyWritersComesBackWithItsWriterSlots) {
    using many = hash_table<u64, u64, writers::many>;
    const std::string uri = folder.file_uri("t");
    auto first = many::create(uri, {.capacity = 1000, .writer_slots = 3});
    auto second = many::attach(uri);
    for (u64 key = 0; key < 900; ++key) ASSERT_TRUE((key % 2 == 0 ? first : second).try_insert(key, 2 * key));
    const std::string text = save(uri);
    EXPECT_EQ(restore(text, "copy").items, 900U);
    EXPECT_TRUE(inspect::verify(folder.file_uri("copy")).intact());
    auto one = many::attach(folder.file_uri("copy")), two = many::attach(folder.file_uri("copy"));
    EXPECT_EQ(one.geometry().writer_slots, 3U);
    EXPECT_EQ(one.size(), 900U);
    for (u64 key = 0; key < 900; ++key) ASSERT_EQ((key % 2 == 0 ? one : two).fetch_add(key, u64{1}), 2 * key);
    EXPECT_TRUE(two.erase(1));
    EXPECT_EQ(one.size(), 899U);
    (void)restore(text, "larger", 5000);
    EXPECT_EQ(many::attach(folder.file_uri("larger")).capacity(), 5000U);
    std::string hostile = text;  // a number of slots that none has, under a checksum that does not hold
    hostile[64 + 1] = 9;
    expect_refused(hostile, "writer slots");
}

// Those at work meanwhile change what is there, not that it is whole.
TEST_F(Save, ATableOfManyWritersIsSavedWhileTheyWrite) {
    using many = hash_table<u64, std::array<u64, 3>, writers::many>;
    const std::string uri = folder.file_uri("t");
    auto first = many::create(uri, {.capacity = 2000});
    for (u64 key = 0; key < 1000; ++key) ASSERT_TRUE(first.try_insert(key, {key, key, key}));
    std::atomic<bool> stop{false};
    std::thread other([&] {
        auto mine = many::attach(uri);
        for (u64 n = 0; !stop; ++n) {
            const u64 key = n % 500, stamp = key + 1000 * n;
            (void)mine.insert_or_assign(key, {stamp, stamp, stamp});
            (void)mine.insert_or_assign(1000 + n % 200, {n, n, n});
            (void)mine.erase(1000 + (n + 100) % 200);
        }
    });
    for (u64 round = 0; round < scaled(10); ++round) {
        std::string text;
        try {
            text = save(uri);
        } catch (const error& busy) {
            EXPECT_EQ(busy.reason(), errc::contended) << busy.what();
            continue;
        }
        const std::string name = "copy" + std::to_string(round);
        (void)restore(text, name);
        const auto copy = hash_table_reader<u64, std::array<u64, 3>>::attach(folder.file_uri(name));
        for (u64 key = 0; key < 1000; ++key) {
            const auto value = copy.find(key);
            ASSERT_TRUE(value && (*value)[0] == (*value)[1] && (*value)[1] == (*value)[2]) << key;
            ASSERT_TRUE(key < 500 ? (*value)[0] % 500 == key : (*value)[0] == key) << key;
        }
        EXPECT_TRUE(inspect::verify(folder.file_uri(name)).intact());
    }
    stop = true;
    other.join();
}

TEST_F(Save, EmptyOnesComeBackEmpty) {
    (void)hash_table<u64, u64>::create(folder.file_uri("t"), {.capacity = 10});
    (void)snapshot_writer::create(folder.file_uri("s"), {.slot_bytes = 100});
    EXPECT_EQ(restore(save(folder.file_uri("t")), "t2").items, 0U);
    EXPECT_EQ(restore(save(folder.file_uri("s")), "s2").items, 0U);
    EXPECT_TRUE((hash_table_reader<u64, u64>::attach(folder.file_uri("t2")).empty()));
    std::vector<std::byte> object;
    EXPECT_EQ(snapshot_reader::attach(folder.file_uri("s2")).read(object).status, outcome::empty);
}

TEST_F(Save, ASnapshotComesBackWithItsCurrentObject) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{3'000'001}}) {
        const std::string name = "s" + std::to_string(bytes);
        auto writer = snapshot_writer::create(folder.file_uri(name), {.slot_bytes = 3'000'001, .pinned_readers = 2});
        std::vector<std::byte> object(bytes, std::byte{7});
        if (bytes > 1) object[bytes / 2] = std::byte{9};
        ASSERT_TRUE(writer.publish(std::vector<std::byte>(5)));
        ASSERT_TRUE(writer.publish(object));
        (void)restore(save(folder.file_uri(name)), name + "-copy");
        auto copy = snapshot_reader::attach(folder.file_uri(name + "-copy"));
        std::vector<std::byte> seen;
        ASSERT_EQ(copy.read(seen).status, outcome::ok);
        EXPECT_EQ(seen, object);
        EXPECT_EQ(copy.slot_bytes(), 3'000'001U);
        auto next = snapshot_writer::attach(folder.file_uri(name + "-copy"));
        EXPECT_TRUE(next.publish(object));
        EXPECT_EQ(next.segment().info().peer_slots, 2U);
    }
}

TEST_F(Save, SortedIndexesComeBackAloneAndPublished) {
    const auto fill = [](auto& builder) {
        for (std::uint32_t i = 0; i < 50'000; ++i) builder.add(i * 10, country{i * 10 + 5, {'D', 'E'}, 1});
    };
    sorted_index_builder<std::uint32_t, country, &country::high> alone;
    fill(alone);
    (void)create_sorted_index(folder.file_uri("alone"), alone);
    auto publisher = sorted_index_publisher<std::uint32_t, country, &country::high>::create(
        folder.file_uri("published"), {.records_max = 60'000});
    sorted_index_builder<std::uint32_t, country, &country::high> again;
    fill(again);
    ASSERT_TRUE(publisher.publish(again));
    for (const char* name : {"alone", "published"}) {
        const inspect::save_report done = restore(save(folder.file_uri(name)), std::string(name) + "-copy");
        EXPECT_EQ(done.items, std::string(name) == "alone" ? 50'000U : 1U);
        auto reader = sorted_index_reader<std::uint32_t, country, &country::high>::attach(
            folder.file_uri(std::string(name) + "-copy"));
        const auto seen = reader.find_covering(4203);
        ASSERT_TRUE(seen);
        EXPECT_EQ(seen->value.high, 4205U);
        EXPECT_EQ(reader.find_covering(4206).status, outcome::not_found);
        EXPECT_TRUE(inspect::verify(folder.file_uri(std::string(name) + "-copy")).intact());
    }
}

// Every bit, every length: noticed, and nothing left behind.
TEST_F(Save, AnyDamageToTheFileIsNoticed) {
    {
        auto table = hash_table<u64, std::uint32_t>::create(folder.file_uri("t"), {.capacity = 20});
        for (u64 key = 0; key < 20; ++key) ASSERT_TRUE(table.try_insert(key, 5));
    }
    const std::string text = save(folder.file_uri("t"));
    const std::size_t step = sanitized ? 31 : 5;  // prime to 8: every bit of a byte has its turn
    for (std::size_t bit = 0; bit < text.size() * 8; bit += step) {
        std::string hurt = text;
        hurt[bit / 8] = static_cast<char>(hurt[bit / 8] ^ (1 << bit % 8));
        expect_refused(hurt, "bit " + std::to_string(bit));
    }
    for (std::size_t length = 0; length < text.size(); length += step)
        expect_refused(text.substr(0, length), "cut to " + std::to_string(length));
    expect_refused(text + std::string(8, '\0'), "something behind the end");
    EXPECT_EQ(restore(text, "sound").items, 20U);
}

// Whole sections left out, doubled or exchanged are right in themselves.
TEST_F(Save, SectionsKeepTheirOrder) {
    constexpr u64 count = 60'000;
    {
        auto table = hash_table<u64, wide>::create(folder.file_uri("t"), {.capacity = count});
        for (u64 key = 0; key < count; ++key) ASSERT_TRUE(table.try_insert(key, wide{key}));
    }
    const std::string text = save(folder.file_uri("t"));
    std::vector<std::pair<std::size_t, std::size_t>> sections;  // begin, bytes
    std::size_t at = sizeof(inspect::saved_header);
    std::uint32_t schema_bytes = 0;
    std::memcpy(&schema_bytes, text.data() + 20, 4);
    at += (schema_bytes + 7) / 8 * 8 + 8;
    while (at < text.size()) {
        u64 bytes = 0;
        std::memcpy(&bytes, text.data() + at, 8);
        sections.emplace_back(at, 16 + (bytes + 7) / 8 * 8 + 8);
        at += sections.back().second;
    }
    ASSERT_GE(sections.size(), 5U);
    const auto part = [&](std::size_t i) { return text.substr(sections[i].first, sections[i].second); };
    const std::string head = text.substr(0, sections[0].first);
    const std::string rest = text.substr(sections[2].first);
    expect_refused(head + part(1) + rest, "first section left out");
    expect_refused(head + part(0) + part(0) + part(1) + rest, "first section doubled");
    expect_refused(head + part(1) + part(0) + rest, "two sections exchanged");
    expect_refused(head + part(sections.size() - 1), "all but the end left out");
}

TEST_F(Save, ADamagedSegmentIsNotSaved) {
    {
        auto table = hash_table<u64, u64>::create(folder.file_uri("t"), {.capacity = 20});
        for (u64 key = 0; key < 20; ++key) ASSERT_TRUE(table.try_insert(key, key));
    }
    std::fstream file(folder.file("t"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(0, std::ios::end);
    const auto size = static_cast<std::size_t>(file.tellg());
    std::string bytes(size, '\0');
    file.seekg(0);
    file.read(bytes.data(), static_cast<std::streamsize>(size));
    const auto reader = hash_table_reader<u64, u64>::attach(folder.file_uri("t"));
    const auto slot = static_cast<u64>(reader.slot_of(7).value());
    const auto offset = header_bytes + reader.geometry().nodes_offset + slot * reader.geometry().node_bytes + 9;
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(bytes[offset] ^ 4));
    file.close();
    try {
        (void)save(folder.file_uri("t"));
        FAIL() << "saved";
    } catch (const error& e) {
        EXPECT_EQ(e.reason(), errc::corrupt);
        EXPECT_THAT(e.what(), HasSubstr("holdfast verify"));
    }
}

// Entries that stay are in every file, whole, whatever the writer does to the others meanwhile.
TEST_F(Save, BesideAWorkingWriterTheEntriesThatStayAreAllThere) {
    constexpr u64 stay = 2000, come_and_go = 1000;
    auto table = hash_table<u64, wide>::create(folder.file_uri("t"), {.capacity = stay + come_and_go});
    for (u64 key = 0; key < stay; ++key)
        ASSERT_TRUE(table.try_insert(key, wide{key, key, key, key, key, key, key, key, key}));
    std::atomic<bool> done{false};
    std::thread writer([&] {
        for (u64 i = 0; !done.load(std::memory_order_acquire); ++i) {
            const u64 other = stay + i % come_and_go;
            if (i / come_and_go % 2 == 0)
                (void)table.try_insert(other, wide{});
            else
                (void)table.erase(other);
            wide value;
            value.fill(i);
            (void)table.insert_or_assign(i % stay, value);
            if (i % 64 == 0) std::this_thread::yield();
        }
    });
    for (u64 round = 0; round < scaled(10); ++round) {
        const std::string name = "copy" + std::to_string(round);
        (void)restore(save(folder.file_uri("t")), name, 2 * (stay + come_and_go));
        const auto copy = hash_table_reader<u64, wide>::attach(folder.file_uri(name));
        for (u64 key = 0; key < stay; ++key) {
            const auto value = copy.find(key);
            ASSERT_TRUE(value) << key;
            for (const u64 word : *value) ASSERT_EQ(word, (*value)[0]) << "torn";
        }
    }
    done.store(true, std::memory_order_release);
    writer.join();
}

}  // namespace
