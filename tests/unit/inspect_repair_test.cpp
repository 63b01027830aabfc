// SPDX-License-Identifier: Apache-2.0
// repair, over segments of every kind whose bytes were damaged at every sort of place: it comes to an end, what it
// makes verifies, holds everything that the damage did not touch and nothing that was not there before; and the damaged
// one keeps its bytes under another name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/array.hpp"
#include "holdfast/block_store.hpp"
#include "holdfast/block_store/many.hpp"
#include "holdfast/broadcast.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/many.hpp"
#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/many.hpp"
#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index.hpp"
#include "inspect/repair.hpp"
#include "inspect/verification.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using inspect::repair_report;
using u64 = std::uint64_t;
using bytes = std::string;
using items = std::vector<std::string>;

[[nodiscard]] std::span<const std::byte> span_of(const std::string& text) { return std::as_bytes(std::span(text)); }
[[nodiscard]] std::string text_of(std::span<const std::byte> from) {
    return {reinterpret_cast<const char*>(from.data()), from.size()};
}
[[nodiscard]] std::string content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Where an image was damaged, and how far.
struct damaged_range {
    std::size_t at = 0;
    std::size_t length = 0;
    [[nodiscard]] std::string text() const { return std::to_string(length) + " bytes at " + std::to_string(at); }
};

/// Whether a run has so many rounds that its shares mean something: a sanitizer's has a tenth.
constexpr bool counts_shares = !sanitized;

class Repair : public segment_test {
 protected:
    [[nodiscard]] std::string uri(const std::string& name = "s") const { return folder.file_uri(name); }

    /// Keeps all files of the folder as they are now: the sound segment.
    void remember() {
        for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
            sound_[entry.path().filename()] = content_of(entry.path());
        data_ = sound_.at("s");
    }
    /// Puts the remembered files back, with other data.
    void put_back(const bytes& data) const {
        for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
            std::filesystem::remove(entry.path());
        for (const auto& [name, content] : sound_) {
            std::ofstream(folder.file(name), std::ios::binary) << (name == "s" ? data : content);
            std::filesystem::permissions(folder.file(name), std::filesystem::perms(0600));
        }
    }
    [[nodiscard]] const bytes& data() const { return data_; }

    /// Repairs the image and judges what comes of it, but for its contents. Returns: nothing where it was refused.
    [[nodiscard]] std::optional<repair_report> repaired(const bytes& image, const std::string& what,
                                                        const inspect::repair_options& options = {}) const {
        put_back(image);
        std::optional<repair_report> report;
        const auto refused = refusal_of([&] { report = inspect::repair(uri(), options); });
        if (refused) {
            EXPECT_TRUE(refused->code == errc::corrupt || refused->code == errc::no_space) << what << ": " << *refused;
            EXPECT_EQ(content_of(folder.file("s")), image) << what << ": refused, and yet changed";
            EXPECT_FALSE(std::filesystem::exists(folder.file("s.repairing"))) << what;
            return std::nullopt;
        }
        const inspect::verification found = inspect::verify(uri());
        EXPECT_TRUE(found.intact()) << what << ": " << (found.findings.empty() ? "" : found.findings[0].what);
        if (report->intact) return report;
        EXPECT_EQ(content_of(folder.file("s.damaged")), image) << what << ": the damaged one did not keep its bytes";
        EXPECT_FALSE(std::filesystem::exists(folder.file("s.repairing"))) << what;
        return report;
    }

    /// A kind under attack: `contents` gives each item of a segment as a text, `may_lose` how many may be missing after
    /// so many bytes of the body were damaged in one place.
    struct subject {
        std::function<items(const std::string&)> contents;
        std::function<std::size_t(const damaged_range&)> may_lose;
        /// Whether the damage itself may have brought an item back that was there once; empty: none ever.
        std::function<bool(const std::string& item, const damaged_range&)> may_return{};
    };
    void attack(const subject& kind, u64 rounds);
    /// Cuts the file short at places all over the body: nothing is invented, and what is missing is counted as lost.
    void cut_short(const std::function<items(const std::string&)>& contents, u64 rounds);

    unique_directory folder{"repair", "/dev/shm"};
    seeded_random random_{};

 private:
    [[nodiscard]] bytes damage(damaged_range& where, std::size_t from);
    std::map<std::string, bytes> sound_;
    bytes data_;
};

bytes Repair::damage(damaged_range& where, std::size_t from) {
    bytes image = data_;
    constexpr std::size_t lengths[] = {1, 1, 1, 1, 2, 8, 64, 512};
    where.length = std::min(lengths[random_.below(std::size(lengths))], image.size() - from);
    where.at = from + random_.below(image.size() - from - where.length + 1);
    const u64 how = random_.below(4);
    for (std::size_t i = 0; i < where.length; ++i) {
        char& byte = image[where.at + i];
        byte = how == 0 ? '\0' : how == 1 ? '\xff' : static_cast<char>(random_());
    }
    if (where.length == 1 && how > 1) image[where.at] = data_[where.at] ^ static_cast<char>(1U << random_.below(8));
    return image;
}

void Repair::attack(const subject& kind, u64 rounds) {
    remember();
    const items before = kind.contents(uri());
    const std::multiset<std::string> known(before.begin(), before.end());
    u64 mended = 0, refused = 0, complete = 0;
    for (u64 round = 0; round < scaled(rounds); ++round) {
        damaged_range where;
        const bytes image = damage(where, header_bytes);
        const std::string what = where.text();
        const auto report = repaired(image, what);
        if (!report) {
            ++refused;
            EXPECT_GE(kind.may_lose(where), before.size()) << what << ": all was given up";
            continue;
        }
        if (report->intact) continue;
        const items after = kind.contents(uri());
        for (const std::string& item : after) {
            if (kind.may_return && kind.may_return(item, where)) continue;
            ASSERT_GE(known.count(item), static_cast<std::size_t>(std::ranges::count(after, item)))
                << what << ": invented: " << ::testing::PrintToString(item);
        }
        const std::size_t missing = before.size() - std::min(before.size(), after.size());
        ASSERT_LE(missing, kind.may_lose(where)) << what << ", " << ::testing::PrintToString(report->sums.size());
        if (missing != 0) {
            EXPECT_GT(report->lost, 0U) << what << ": lost in silence";
        }
        ++mended;
        complete += missing == 0 ? 1 : 0;
    }
    std::printf("%llu repaired, %llu of them with all that was in it; %llu refused\n",
                static_cast<unsigned long long>(mended), static_cast<unsigned long long>(complete),
                static_cast<unsigned long long>(refused));
    if (counts_shares) {
        EXPECT_GT(mended, scaled(rounds) / 20);
    }

    // The header: any one byte of it, or two neighbours.
    for (u64 round = 0; round < scaled(rounds / 4); ++round) {
        bytes image = data_;
        const std::size_t at = random_.below(3144);
        image[at] ^= static_cast<char>(1 + random_.below(255));
        if (round % 3 == 0) image[at + 1] ^= static_cast<char>(1 + random_.below(255));
        const std::string what = "header byte " + std::to_string(at);
        const auto report = repaired(image, what);
        ASSERT_TRUE(report) << what;
        ASSERT_EQ(kind.contents(uri()), before) << what;
    }
    cut_short(kind.contents, rounds / 4);
}

void Repair::cut_short(const std::function<items(const std::string&)>& contents, u64 rounds) {
    put_back(data_);
    items before = contents(uri());
    std::ranges::sort(before);
    const std::size_t body = data_.size() - header_bytes;
    std::vector<std::size_t> kept{0, 64, body / 2, body - 100, body - 1};
    for (u64 round = 0; round < scaled(rounds); ++round) kept.push_back(random_.below(body));
    for (const bool keep_doubtful : {false, true})
        for (const std::size_t length : kept) {
            inspect::repair_options options;
            options.keep_doubtful = keep_doubtful;
            const std::string what = "cut behind " + std::to_string(length) + " bytes of the body" +
                                     (keep_doubtful ? ", doubtful ones kept" : "");
            const auto report = repaired(data_.substr(0, header_bytes + length), what, options);
            if (!report) continue;
            items after = contents(uri());
            std::ranges::sort(after);
            EXPECT_TRUE(std::ranges::includes(before, after)) << what << ": invented";
            if (after.size() < before.size()) {
                EXPECT_GT(report->lost, 0U) << what << ": lost in silence";
            }
        }
}

/// The repair that a caller gets who wants to keep what is in doubt.
[[nodiscard]] inspect::repair_options generous() {
    inspect::repair_options options;
    options.keep_doubtful = true;
    return options;
}

/// What damage of more than a byte may take away: up to 8 bytes so many items; more may hit all checksums.
[[nodiscard]] std::size_t limit(const damaged_range& where, std::size_t most) {
    return where.length <= 8 ? most : ~std::size_t{0};
}

[[nodiscard]] items contents_of_table(const std::string& name) {
    items all;
    for (const auto& entry : hash_table_reader<u64, std::array<u64, 2>>::attach(name))
        all.push_back(std::to_string(entry.key) + "=" + std::to_string(entry.value[0]) + "," +
                      std::to_string(entry.value[1]));
    std::ranges::sort(all);
    return all;
}

TEST_F(Repair, AHashTableKeepsWhatItsChecksumsVouchFor) {
    using table = hash_table<u64, std::array<u64, 2>>;
    {
        auto made = table::create(uri(), {.capacity = 3000});
        for (u64 n = 0; n < 2500; ++n) (void)made.try_insert(n * n, {n, ~n});
        for (u64 n = 0; n < 2500; n += 7) (void)made.erase(n * n);
    }
    // A single byte is found and put right, wherever it lies; more cost their regions of 416 slots at worst.
    attack({contents_of_table, [](const damaged_range& d) { return d.length <= 1 ? 0 : limit(d, 2 * 416); }}, 160);
}

// Three regions, of which the first two have checksums of 5a5a5a5a5a5a5a5a.
TEST_F(Repair, AHashTableWithoutEntriesHasNoneToLose) {
    (void)hash_table<u64, u64>::create(uri(), {.capacity = 1000});
    remember();
    const auto g = hash_table_reader<u64, u64>::attach(uri()).geometry();
    bytes image = data();
    std::memset(&image[header_bytes + g.digests_offset], 0x5a, 16);
    const auto report = repaired(image, "checksums");
    ASSERT_TRUE(report && !report->intact);
    EXPECT_EQ(report->kept, 0U);
    EXPECT_EQ(report->lost, 0U);
}

TEST_F(Repair, AHashTableRegionWhoseTagsBecameZerosIsNotTakenForAnEmptyOne) {
    {
        auto made = hash_table<u64, u64>::create(uri(), {.capacity = 1000});
        for (u64 n = 0; n < 900; ++n) (void)made.try_insert(n, n);
    }
    remember();
    const auto g = hash_table_reader<u64, u64>::attach(uri()).geometry();
    bytes image = data();
    std::memset(&image[header_bytes + g.lines_offset], 0, layout::buckets_per_region * layout::line_bytes);
    const auto report = repaired(image, "tags");
    ASSERT_TRUE(report && !report->intact);
    EXPECT_LT(report->kept, 900U);
    EXPECT_GT(report->lost, 0U);
}

[[nodiscard]] items contents_of_map(const std::string& name) {
    const auto map = hash_map_reader<std::string_view>::attach(name);
    items all;
    hash_map_entry entry;
    u64 cursor = 0;
    while (map.next_entry(cursor, entry) == outcome::ok) all.push_back(text_of(entry.key) + "=" + text_of(entry.value));
    std::ranges::sort(all);
    return all;
}

TEST_F(Repair, AHashMapKeepsEveryEntryWhoseChecksumHolds) {
    {
        auto made = hash_map<std::string_view>::create(uri(), {.capacity = 400, .entry_bytes = 40});
        for (u64 n = 0; n < 300; ++n)
            (void)made.set("key number " + std::to_string(n), span_of(std::string(n % 150, static_cast<char>(n))));
        for (u64 n = 0; n < 300; n += 5) (void)made.erase("key number " + std::to_string(n));
        for (u64 n = 1; n < 300; n += 5)
            (void)made.set("key number " + std::to_string(n), span_of(std::string(90, 'u')));
    }
    attack({contents_of_map, [](const damaged_range& d) { return limit(d, d.length <= 1 ? 1 : 3); }}, 200);
}

/// A freed value lies there until its units are used again, and but for one bit of its word nothing says that it is
/// none: where just that bit is damaged it comes back, whole.
[[nodiscard]] auto freed_values_return(const std::string& name) {
    const auto g = block_store_reader::attach(name).geometry();
    return [bits = g.index_bits()](const std::string& item, const damaged_range& d) {
        const u64 unit = std::stoull(item) & ((u64{1} << bits) - 1);
        const std::size_t live_byte = header_bytes + layout::block_words_offset + 8 * unit + 7;
        return d.at <= live_byte && live_byte < d.at + d.length;
    };
}

TEST_F(Repair, ABlockStoreKeepsValuesUnderTheirHandles) {
    std::vector<u64> handles;
    {
        auto made = block_store::create(uri(), {.bytes = 64 << 10, .unit_bytes = 64});
        for (u64 n = 0; n < 200; ++n)
            handles.push_back(made.allocate(span_of(std::string(random_.below(300), static_cast<char>(n)))).handle);
        for (u64 n = 0; n < 200; n += 3) (void)made.free(handles[n]);
        for (u64 n = 0; n < 40; ++n)
            handles.push_back(made.allocate(span_of(std::string(random_.below(500), static_cast<char>(n)))).handle);
    }
    const auto contents = [&](const std::string& name) {
        const auto store = block_store_reader::attach(name);
        items all;
        std::vector<std::byte> value;
        for (const u64 handle : handles)
            if (store.read(handle, value)) all.push_back(std::to_string(handle) + "=" + text_of(value));
        return all;
    };
    attack(
        {contents, [](const damaged_range& d) { return limit(d, d.length <= 1 ? 1 : 3); }, freed_values_return(uri())},
        200);
    // What comes next gets a handle that nobody had.
    put_back(data());
    bytes image = data();
    image[header_bytes] ^= 1;
    ASSERT_TRUE(repaired(image, "selector"));
    const u64 fresh = block_store::attach(uri()).allocate(span_of("new")).handle;
    EXPECT_FALSE(std::ranges::count(handles, fresh));
}

using many_blocks = basic_block_store<writers::many>;

/// A store of ten units with ten values, of which one is freed. Returns: all handles.
template <class Store>
[[nodiscard]] std::vector<u64> fill_and_free(Store made, std::size_t which) {
    std::vector<u64> handles;
    for (u64 n = 0; n < 10; ++n) handles.push_back(made.allocate(span_of("value")).handle);
    EXPECT_EQ(made.free(handles[which]), outcome::ok);
    return handles;
}

/// Puts values into the one free unit and frees them: none gets a handle that was given out, and the freed one is
/// stale.
template <class Store>
void expect_fresh_handles(Store store, const std::vector<u64>& handles, std::size_t freed) {
    std::vector<std::byte> value;
    for (u64 n = 0; n < 30; ++n) {
        const u64 fresh = store.allocate(span_of("new")).handle;
        EXPECT_FALSE(std::ranges::count(handles, fresh)) << n << ": given out again";
        EXPECT_FALSE(store.read(handles[freed], value)) << n << ": another's value";
        EXPECT_EQ(store.free(fresh), outcome::ok);
    }
}

// Zeros are what the journal of a store is that nobody has written.
TEST_F(Repair, ABlockStoreWhoseJournalBecameZerosGivesNoHandleOutAgain) {
    const std::vector<u64> handles = fill_and_free(block_store::create(uri(), {.bytes = 640, .unit_bytes = 64}), 1);
    remember();
    bytes image = data();
    std::memset(&image[header_bytes], 0, layout::block_words_offset);
    const auto report = repaired(image, "control page");
    ASSERT_TRUE(report && !report->intact);
    EXPECT_EQ(report->kept, 9U);
    EXPECT_EQ(report->lost, 0U);
    expect_fresh_handles(block_store::attach(uri()), handles, 1);
}

TEST_F(Repair, ABlockStoreOfManyWritersWhoseJournalBecameZerosGivesNoHandleOutAgain) {
    auto made = many_blocks::create(uri(), {.bytes = 640, .unit_bytes = 64, .writer_slots = 3});
    const std::uint32_t slot = made.writer_slot();
    const std::vector<u64> handles = fill_and_free(std::move(made), 2);  // a free takes a number, too
    remember();
    const auto g = block_store_reader::attach(uri()).geometry();
    bytes image = data();
    std::memset(&image[header_bytes + g.journals_offset() + slot * layout::block_journal_bytes], 0,
                layout::block_journal_bytes);
    const auto report = repaired(image, "journal");
    ASSERT_TRUE(report && !report->intact);
    EXPECT_EQ(report->kept, 9U);
    EXPECT_EQ(report->lost, 0U);
    auto next = many_blocks::attach(uri());
    ASSERT_EQ(next.writer_slot(), slot);
    expect_fresh_handles(std::move(next), handles, 2);
}

/// Makes each unit the first of a value that has all units behind it, too, under a checksum that holds. Requires: each
/// unit has a value of its own.
void nest_values(const std::string& name) {
    segment memory = segment::attach(name, access::read_write);
    const detail::block_view<std::byte> view(memory.body(), detail::block_store_geometry_of(memory));
    for (u64 unit = view.units(); unit-- > 0;) {  // from the last on: those in front have its head among their bytes
        const u64 units = view.units() - unit, size = view.bytes_of(units) - layout::block_head_bytes;
        detail::shared_store<u64>(view.unit(unit), size);
        detail::shared_store<u64>(view.unit(unit) + layout::block_head_run_offset,
                                  layout::block_run_word(units, layout::block_no_run));
        u64 sum = detail::block_sum_begin(view.word(unit), size);
        (void)view.for_each_run(unit, [&](const auto& run) { sum = detail::block_sum_run(sum, run); });
        detail::shared_store<u64>(view.unit(unit) + layout::block_head_checksum_offset, sum);
    }
}

// What is read of values is bounded by the size of the store, also where every checksum holds: of 2000 nested ones,
// each of which is nearly as long as the store, those that 64 turns through it reach.
TEST_F(Repair, OfNestedValuesNoMoreAreReadThanByTheSizeOfTheStore) {
    constexpr u64 units = 2000;
    {
        auto made = block_store::create(uri(), {.bytes = units * 64, .unit_bytes = 64});
        for (u64 n = 0; n < units; ++n) ASSERT_TRUE(made.allocate(span_of("value")));
        ASSERT_EQ(made.usage().units_free(), 0U);
    }
    nest_values(uri());
    remember();
    const auto report = repaired(data(), "nested values");
    ASSERT_TRUE(report && !report->intact);
    EXPECT_EQ(report->kept, 1U);
    EXPECT_EQ(report->lost, units - 1);
    std::map<std::string, u64, std::less<>> lost;
    for (const inspect::salvage_sum& sum : report->sums)
        if (sum.what == inspect::fate::lost) lost[std::string(sum.reason)] += sum.items;
    EXPECT_GT(lost["another value has its units"], 60U) << "read whole";
    EXPECT_LT(lost["another value has its units"], 70U);
    EXPECT_GT(lost["the checksum of the value does not hold"], 1900U) << "not read";
}

TEST_F(Repair, AnArrayKeepsElementsWhoseGroupsHold) {
    struct wide {
        u64 a, b, c;
    };
    {
        auto made = array<wide>::create(uri(), {.size = 1000});
        for (u64 n = 0; n < 1000; ++n) made.store(n, {n + 1, n * n, ~n});
    }
    const auto contents = [](const std::string& name) {
        const auto elements = array_reader<wide>::attach(name);
        items all;
        for (u64 n = 0; n < elements.size(); ++n)
            if (const wide e = elements[n]; e.a != 0)
                all.push_back(std::to_string(n) + ":" + std::to_string(e.a) + "," + std::to_string(e.b) + "," +
                              std::to_string(e.c));
        return all;
    };
    attack({contents, [](const damaged_range& d) { return d.length <= 1 ? 0 : limit(d, 2 * 42); }}, 120);
}

TEST_F(Repair, NarrowElementsToo) {
    {
        auto made = array<std::uint16_t>::create(uri(), {.size = 3000});
        for (u64 n = 0; n < 3000; ++n) made.store(n, static_cast<std::uint16_t>(n + 1));
    }
    const auto contents = [](const std::string& name) {
        const auto elements = array_reader<std::uint16_t>::attach(name);
        items all;
        for (u64 n = 0; n < elements.size(); ++n)
            if (elements[n] != 0) all.push_back(std::to_string(n) + ":" + std::to_string(elements[n]));
        return all;
    };
    attack({contents, [](const damaged_range& d) { return d.length <= 1 ? 0 : limit(d, 2 * 512); }}, 60);
}

// Elements of which the memory has no bytes are not in doubt: they are gone.
TEST_F(Repair, OfAnArrayThatWasCutShortOnlyElementsThatAreThereAreInDoubt) {
    constexpr u64 size = 10'000, there = 5000;
    {
        auto made = array<u64>::create(uri(), {.size = size});
        for (u64 n = 0; n < size; ++n) made.store(n, n + 1);
    }
    remember();
    const auto g = array_reader<u64>::attach(uri()).geometry();
    const bytes cut = data().substr(0, header_bytes + g.elements_offset + there * sizeof(u64) + 3);
    const u64 whole = there / g.group_elements * g.group_elements;
    const auto strict = repaired(cut, "strict");
    ASSERT_TRUE(strict);
    EXPECT_EQ(strict->kept, whole);
    EXPECT_EQ(strict->lost, size - whole);
    const auto all = repaired(cut, "generous", generous());
    ASSERT_TRUE(all);
    EXPECT_EQ(all->kept, there);
    EXPECT_EQ(all->doubtful, there - whole);
    EXPECT_EQ(all->lost, size - there);
    const auto elements = array_reader<u64>::attach(uri());
    for (u64 n = 0; n < size; ++n) EXPECT_EQ(elements[n], n < there ? n + 1 : 0) << n;
}

TEST_F(Repair, ASnapshotKeepsItsNewestSoundObject) {
    {
        auto made = snapshot_writer::create(uri(), {.slot_bytes = 5000, .pinned_readers = 1});
        for (char c = 'a'; c < 'j'; ++c) (void)made.publish(span_of(std::string(4000 + static_cast<u64>(c), c)));
    }
    std::vector<std::byte> object;
    const auto contents = [&](const std::string& name) {
        (void)snapshot_reader::attach(name).read(object);
        return items{text_of(object)};
    };
    const std::string newest = contents(uri()).front();
    remember();
    u64 older = 0, made = 0;
    for (u64 round = 0; round < scaled(120); ++round) {
        bytes image = data();
        const std::size_t at = header_bytes + random_.below(round % 2 == 0 ? 600 : image.size() - header_bytes - 64);
        const std::size_t length = round % 3 == 0 ? 64 : 1;
        for (std::size_t i = 0; i < length; ++i) image[at + i] ^= static_cast<char>(1 + random_.below(255));
        const auto report = repaired(image, std::to_string(at));
        ASSERT_TRUE(report);
        if (report->intact) continue;
        ++made;
        const std::string now = contents(uri()).front();
        ASSERT_GE(now.size(), 4000U);
        ASSERT_EQ(now, std::string(4000 + static_cast<u64>(now[0]), now[0])) << "an object that nobody published";
        if (now == newest) continue;
        ++older;
        EXPECT_GT(report->lost, 0U);
        EXPECT_GT(snapshot_reader::attach(uri()).version(), 9U)
            << "an older object under a number that others had seen";
    }
    if (!counts_shares) return;
    EXPECT_GT(older, 0U);
    EXPECT_GT(made, older);
}

TEST_F(Repair, ASortedIndexIsPutRightByItsChecksum) {
    {
        sorted_index_builder<u64, u64> records;
        for (u64 n = 0; n < 700; ++n) (void)records.add(n * 3, n);
        (void)create_sorted_index(uri(), records);
    }
    const auto contents = [](const std::string& name) {
        auto index = sorted_index_reader<u64, u64>::attach(name);
        items all;
        for (u64 n = 0; n < 700; ++n)
            if (const auto found = index.find(n * 3))
                all.push_back(std::to_string(n) + "=" + std::to_string(found.entry.value));
        return all;
    };
    // Of two neighbours either may be the damaged one, where the order of keys does not tell.
    attack({contents, [](const damaged_range& d) { return limit(d, 700); }}, 100);
}

TEST_F(Repair, AQueueKeepsMessagesWhoseRecordsHold) {
    {
        auto producer = queue_producer::create(uri(), {.capacity_bytes = 8192});
        auto consumer = queue_consumer::attach(uri());
        for (u64 n = 0; n < 400; ++n) {
            while (!producer.try_push(span_of(std::to_string(n) + std::string(random_.below(60), 'm')),
                                      static_cast<std::uint16_t>(n))) {
                ASSERT_TRUE(consumer.front());
                ASSERT_TRUE(consumer.pop());
            }
        }
    }
    const auto contents = [](const std::string& name) {
        auto consumer = queue_consumer::attach(name);
        items all;
        for (queue_message m = consumer.front(); m; m = consumer.front()) {
            all.push_back(std::to_string(m.type) + ":" + std::to_string(m.bytes.size()));  // bytes have no checksum
            (void)consumer.pop();
        }
        return all;
    };
    remember();
    const items before = contents(uri());
    u64 made = 0, complete = 0;
    for (u64 round = 0; round < scaled(300); ++round) {
        bytes image = data();
        const std::size_t at =
            round % 3 == 0 ? header_bytes + random_.below(64) : header_bytes + 4096 + random_.below(8192);
        image[at] =
            round % 2 == 0 ? static_cast<char>(random_()) : image[at] ^ static_cast<char>(1U << random_.below(8));
        const auto report = repaired(image, std::to_string(at));
        ASSERT_TRUE(report);
        if (report->intact) continue;
        ++made;
        const items after = contents(uri());
        auto from = before.begin();
        for (const std::string& message : after) {  // in order, and of those that were there
            from = std::find(from, before.end(), message);
            ASSERT_NE(from, before.end()) << at << ": invented " << message;
            ++from;
        }
        complete += after == before ? 1 : 0;
        if (after != before) {
            EXPECT_GT(report->lost, 0U) << at;
        }
    }
    std::printf("%llu repaired, %llu with all messages\n", static_cast<unsigned long long>(made),
                static_cast<unsigned long long>(complete));
    if (!counts_shares) return;
    EXPECT_GT(made, scaled(300) / 10);
    EXPECT_GT(complete, made / 2);
}

[[nodiscard]] items messages_in(const std::string& name) {
    auto consumer = queue_consumer::attach(name);
    items all;
    for (queue_message m = consumer.front(); m; m = consumer.front()) {
        all.push_back(std::to_string(m.type) + ":" + text_of(m.bytes));
        (void)consumer.pop();
    }
    return all;
}

/// A queue in which 60 messages wait, behind so many that were taken.
void make_queue(const std::string& name, u64 taken, seeded_random& random) {
    auto producer = queue_producer::create(name, {.capacity_bytes = 8192});
    auto consumer = queue_consumer::attach(name);
    for (u64 n = 0; n < 60 + taken; ++n) {
        ASSERT_TRUE(producer.try_push(span_of(std::to_string(n) + std::string(random.below(120), 'm'))));
        if (n < 60) continue;
        ASSERT_TRUE(consumer.front());
        ASSERT_TRUE(consumer.pop());
    }
}

TEST_F(Repair, OfAQueueThatWasCutShortWholeMessagesAreKept) {
    make_queue(uri(), 0, random_);
    remember();
    cut_short(messages_in, 200);
}

TEST_F(Repair, OfAQueueWhoseRingWentRoundToo) {
    make_queue(uri(), 150, random_);
    remember();
    cut_short(messages_in, 200);
}

TEST_F(Repair, OfAQueueThatWasCutShortBehindItsMessagesAllAreKept) {
    const std::string message = "a message";
    {
        auto producer = queue_producer::create(uri(), {.capacity_bytes = 8192});
        for (u64 n = 0; n < 10; ++n) ASSERT_TRUE(producer.try_push(span_of(message)));
    }
    remember();
    const std::size_t end = header_bytes + layout::queue_ring_offset + 10 * layout::ring_record_bytes(message.size());
    const auto report = repaired(data().substr(0, end), "behind the last message");
    ASSERT_TRUE(report);
    EXPECT_EQ(report->kept, 10U);
    EXPECT_EQ(report->lost, 0U);
    // Its padding is none of it.
    ASSERT_LT(message.size() + layout::ring_word_bytes, layout::ring_record_bytes(message.size()));
    EXPECT_EQ(repaired(data().substr(0, end - 1), "in its padding")->lost, 0U);
    const auto cut = repaired(data().substr(0, end - layout::ring_record_bytes(message.size()) + 16), "in the last");
    ASSERT_TRUE(cut);
    EXPECT_EQ(cut->kept, 9U);
    EXPECT_EQ(cut->lost, 1U);
    // The counts tell its word, and it is lost all the same.
    const auto word =
        repaired(data().substr(0, end - layout::ring_record_bytes(message.size())), "in front of the last");
    ASSERT_TRUE(word);
    EXPECT_EQ(word->kept, 9U);
    EXPECT_EQ(word->mended, 0U);
    EXPECT_EQ(word->lost, 1U);
}

/// A queue in which ten messages wait, whose records have one size: nine of 9 bytes, and one of 16.
void make_queue_of_ten(const std::string& name) {
    auto producer = queue_producer::create(name, {.capacity_bytes = 8192});
    for (u64 n = 0; n < 10; ++n)
        ASSERT_TRUE(producer.try_push(span_of(std::string(n < 9 ? 9U : 16U, static_cast<char>('a' + n))),
                                      static_cast<std::uint16_t>(n)));
}
/// Where things of it lie in the file: the word of message n, the producer's side, and the counts of its position.
[[nodiscard]] constexpr std::size_t word_of_ten(u64 n) {
    return header_bytes + layout::queue_ring_offset + n * layout::ring_record_bytes(9);
}
constexpr std::size_t side_of_ten = header_bytes + layout::queue_producer_offset;
constexpr std::size_t counts_of_ten = side_of_ten + offsetof(layout::queue_side, ledgers);

TEST_F(Repair, OfAQueueOneDamagedWordIsPutRight) {
    make_queue_of_ten(uri());
    remember();
    const items before = messages_in(uri());
    bytes image = data();
    image[word_of_ten(4)] ^= 0x40;
    const auto report = repaired(image, "a length");
    ASSERT_TRUE(report);
    EXPECT_EQ(report->kept, 10U);
    EXPECT_EQ(report->mended, 1U);
    EXPECT_EQ(report->lost, 0U);
    EXPECT_EQ(messages_in(uri()), before);
}

// Within its record's padding a length moves no other, so that only the counts of bytes tell, and not whose it was.
TEST_F(Repair, OfAQueueMessagesWhoseLengthsAreInDoubtAreKeptOnRequest) {
    make_queue_of_ten(uri());
    remember();
    const items before = messages_in(uri());
    bytes length = data(), count = data();
    length[word_of_ten(4)] ^= 0x07;  // 3 bytes more; the last message may have had 3 more, too
    count[counts_of_ten + offsetof(layout::queue_ledger, bytes)] ^= 1;  // one byte less: the last may have one too many
    items without_last = before;
    without_last.pop_back();
    items without_both = without_last;
    without_both.erase(without_both.begin() + 4);
    for (const auto& [image, expected] : {std::pair(length, without_both), std::pair(count, without_last)}) {
        const std::string what = std::to_string(expected.size()) + " beyond doubt";
        const auto strict = repaired(image, what);
        ASSERT_TRUE(strict);
        EXPECT_EQ(strict->lost, 10 - expected.size()) << what;
        EXPECT_EQ(messages_in(uri()), expected) << what;
        const auto all = repaired(image, what, generous());
        ASSERT_TRUE(all);
        EXPECT_EQ(all->kept, 10U) << what;
        EXPECT_EQ(all->doubtful, 10 - expected.size()) << what;
        EXPECT_EQ(all->lost, 0U) << what;
    }
}

TEST_F(Repair, OfAQueueWhosePositionOrCountsAreDamagedAllMessagesAreKept) {
    make_queue_of_ten(uri());
    remember();
    const items before = messages_in(uri());
    for (const std::size_t at : {side_of_ten + offsetof(layout::queue_side, position),
                                 counts_of_ten + offsetof(layout::queue_ledger, position),
                                 counts_of_ten + offsetof(layout::queue_ledger, messages)}) {
        bytes image = data();
        image[at] ^= 0x40;
        const std::string what = "byte " + std::to_string(at - side_of_ten) + " of the producer's side";
        const auto report = repaired(image, what);
        ASSERT_TRUE(report);
        EXPECT_EQ(report->kept, 10U) << what;
        EXPECT_EQ(report->lost, 0U) << what;
        ASSERT_EQ(report->sums.size(), 1U) << what;
        EXPECT_EQ(report->sums[0].what, inspect::fate::mended) << what;
        EXPECT_EQ(messages_in(uri()), before) << what;
    }
}

// By whoever ignores the lease: right when the damaged word is told, the first record's is none any more.
TEST_F(Repair, OfAQueueThatIsStoredToMeanwhileComesToAnEnd) {
    make_queue_of_ten(uri());
    remember();
    bytes image = data();
    image[word_of_ten(4)] ^= 0x40;
    put_back(image);
    inspect::repair_options options;
    options.each = [&](const inspect::salvage_note&) {
        std::fstream file(folder.file("s"), std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(static_cast<std::streamoff>(word_of_ten(0)));
        file << std::string(layout::ring_word_bytes, '\0');
    };
    const repair_report report = inspect::repair(uri(), options);
    EXPECT_EQ(report.kept + report.lost, 10U);
    EXPECT_TRUE(inspect::verify(uri()).intact());
}

// Messages of which the memory has no bytes are not in doubt: they are gone.
TEST_F(Repair, OfAQueueThatWasCutShortOnlyMessagesThatAreThereAreInDoubt) {
    const std::string message = "a message";
    {
        auto producer = queue_producer::create(uri(), {.capacity_bytes = 8192});
        for (u64 n = 0; n < 60; ++n) ASSERT_TRUE(producer.try_push(span_of(message)));
    }
    remember();
    const std::size_t behind_30 =
        header_bytes + layout::queue_ring_offset + 30 * layout::ring_record_bytes(message.size());
    for (const std::size_t more : {0U, 1U, 4U, 8U, 12U}) {
        const std::string what = std::to_string(more) + " bytes behind 30 messages";
        const bytes cut = data().substr(0, behind_30 + more);
        const auto strict = repaired(cut, what);
        ASSERT_TRUE(strict);
        EXPECT_EQ(strict->kept, 0U) << what;
        EXPECT_EQ(strict->lost, 60U) << what;
        const auto all = repaired(cut, what, generous());
        ASSERT_TRUE(all);
        EXPECT_EQ(all->kept, 30U) << what;
        EXPECT_EQ(all->doubtful, 30U) << what;
        EXPECT_EQ(all->lost, 30U) << what;
        EXPECT_EQ(messages_in(uri()).size(), 30U) << what;
    }
}

TEST_F(Repair, OfAQueueOfElementsThatWasCutShortThoseThatAreThereAreKept) {
    {
        auto producer = queue<u64>::producer::create(uri(), {.capacity = 1024});
        for (u64 n = 0; n < 1024; ++n) ASSERT_TRUE(producer.try_push(n + 1));
    }
    remember();
    cut_short(
        [](const std::string& name) {
            auto consumer = queue<u64>::consumer::attach(name);
            items all;
            for (auto got = consumer.try_pop(); got; got = consumer.try_pop()) all.push_back(std::to_string(got.value));
            return all;
        },
        50);
    const std::size_t half = header_bytes + layout::queue_ring_offset + 512 * sizeof(u64);
    const auto report = repaired(data().substr(0, half), "half of the ring");
    ASSERT_TRUE(report);
    EXPECT_EQ(report->kept, 512U);
    EXPECT_EQ(report->lost, 512U);
}

// As a repair that was killed between data and peers leaves it: the consumer's side is of the segment that was there
// before.
TEST_F(Repair, AnotherQueuesConsumerTellsNothingOfThisOne) {
    bytes peers_of_another;
    {
        auto producer = queue<u64>::producer::create(uri("other"), {.capacity = 8});
        auto consumer = queue<u64>::consumer::attach(uri("other"));
        for (u64 n = 0; n < 3; ++n) ASSERT_TRUE(producer.try_push(n));
        for (u64 n = 0; n < 3; ++n) ASSERT_TRUE(consumer.try_pop());
        consumer.acknowledge();
        peers_of_another = content_of(folder.file("other.peers"));
    }
    segment::remove(uri("other"));
    {
        auto producer = queue<u64>::producer::create(uri(), {.capacity = 8});
        for (u64 n = 0; n < 5; ++n) ASSERT_TRUE(producer.try_push(n));
    }
    remember();
    bytes image = data();
    image[33] ^= 1;  // of the header: nothing else is damaged
    put_back(image);
    std::ofstream(folder.file("s.peers"), std::ios::binary | std::ios::trunc) << peers_of_another;
    const repair_report report = inspect::repair(uri(), {});
    EXPECT_TRUE(report.header_rebuilt);
    EXPECT_EQ(report.kept, 5U);
    EXPECT_EQ(report.lost, 0U);
    auto consumer = queue<u64>::consumer::attach(uri());
    for (u64 n = 0; n < 5; ++n) EXPECT_EQ(consumer.try_pop().value, n);
}

TEST_F(Repair, ABroadcastKeepsTheNewestStretchUnderItsNumbers) {
    constexpr u64 last = 1000;
    {
        auto ring = broadcast_writer::create(uri(), {.capacity_bytes = 16384});
        for (u64 n = 1; n <= last; ++n) (void)ring.publish(span_of(std::to_string(n) + std::string(n % 40, 'm')));
    }
    const auto contents = [](const std::string& name) {
        auto reader = broadcast_reader::attach(name);
        items all;
        std::vector<std::byte> message;
        for (u64 number = reader.sequence(); reader.read(message).status == outcome::ok; number = reader.sequence())
            all.push_back(std::to_string(number) + "=" + text_of(message));
        return all;
    };
    remember();
    const items before = contents(uri());
    ASSERT_GT(before.size(), 300U);
    u64 made = 0, to_the_end = 0;
    for (u64 round = 0; round < scaled(300); ++round) {
        bytes image = data();
        const std::size_t ring = image.size() - 16384;
        const std::size_t at =
            round % 2 == 0 ? header_bytes + random_.below(ring - header_bytes) : ring + random_.below(16384);
        image[at] ^= static_cast<char>(1 + random_.below(255));
        const auto report = repaired(image, std::to_string(at));
        ASSERT_TRUE(report);
        if (report->intact) continue;
        ++made;
        const items after = contents(uri());
        if (!after.empty()) {
            // A stretch of what there was, but for the one message whose bytes may be those that were damaged.
            const auto number = [](const std::string& item) { return item.substr(0, item.find('=')); };
            const auto from = std::ranges::find(before, number(after.front()), number);
            ASSERT_NE(from, before.end()) << at << ": " << after.front();
            ASSERT_LE(after.size(), static_cast<std::size_t>(before.end() - from)) << at;
            u64 other = 0;
            for (std::size_t i = 0; i < after.size(); ++i)
                other += after[i] != from[static_cast<std::ptrdiff_t>(i)] ? 1 : 0;
            ASSERT_LE(other, 1U) << at << ": invented";
            to_the_end += number(after.back()) == std::to_string(last) ? 1 : 0;
        }
        if (after.size() + 40 < before.size()) {
            EXPECT_GT(report->lost, 0U) << at;
        }
    }
    std::printf("%llu repaired, %llu up to the newest message\n", static_cast<unsigned long long>(made),
                static_cast<unsigned long long>(to_the_end));
    if (counts_shares) {
        EXPECT_GT(made, scaled(300) / 10);
        EXPECT_GT(to_the_end, made * 3 / 4);
    }
    cut_short(contents, 200);
}

TEST_F(Repair, ACounterSetKeepsCountersWhoseNamesHold) {
    {
        const auto set = counter_set::create(uri(), {.capacity = 64});
        for (u64 n = 0; n < 40; ++n) set.get("requests_total", "path=\"" + std::to_string(n) + "\"").add(n + 1);
    }
    const auto contents = [](const std::string& name) {
        items all;
        counter_set_reader::attach(name).for_each([&](std::string_view family, std::string_view labels, u64 value) {
            all.push_back(std::string(family).append(labels).append("=").append(std::to_string(value)));
        });
        std::ranges::sort(all);
        return all;
    };
    remember();
    const items before = contents(uri());
    u64 made = 0;
    for (u64 round = 0; round < scaled(200); ++round) {
        bytes image = data();
        const std::size_t slot = random_.below(40), at = header_bytes + slot * 256 + 64 + random_.below(48);
        image[at] = round % 2 == 0 ? '\0' : static_cast<char>(random_());
        const auto report = repaired(image, std::to_string(at));
        ASSERT_TRUE(report);
        if (report->intact) continue;
        ++made;
        const items after = contents(uri());
        EXPECT_GE(after.size() + 1, before.size());
        EXPECT_TRUE(std::ranges::includes(before, after)) << at << ": invented";
    }
    if (counts_shares) {
        EXPECT_GT(made, scaled(200) / 10);
    }
    cut_short(contents, 60);
}

TEST_F(Repair, AHistogramKeepsItsCounts) {
    {
        auto all = latency_histogram::create(uri(), {.shards = 3});
        latency_recorder recorder = all.make_recorder();
        for (u64 n = 0; n < 1000; ++n) recorder.record(n * 17);
    }
    remember();
    bytes image = data();
    image[header_bytes] = 7;                          // an owner that is none
    image[header_bytes + 9216 + 128 + 4 * 2271] = 1;  // a count behind the last bucket
    const auto report = repaired(image, "shards");
    ASSERT_TRUE(report && !report->intact);
    EXPECT_EQ(report->kept, 1000U);
    EXPECT_EQ(latency_histogram_reader::attach(uri()).merged().total(), 1000U);
    const auto samples = [](const std::string& name) {
        const histogram_counts merged = latency_histogram_reader::attach(name).merged();
        items all;
        for (std::size_t bucket = 0; bucket < merged.counts().size(); ++bucket)
            all.insert(all.end(), static_cast<std::size_t>(merged.counts()[bucket]), std::to_string(bucket));
        return all;
    };
    cut_short(samples, 60);
}

// Nobody but its program knows what raw bytes mean: they are as they were as far as there are any.
TEST_F(Repair, OfARawSegmentThatWasCutShortTheEndIsCountedAsLost) {
    (void)create_pattern(uri(), 5, {}, 10'000);
    remember();
    const auto report = repaired(data().substr(0, header_bytes + 6000), "cut");
    ASSERT_TRUE(report);
    EXPECT_GT(report->lost, 0U);
    const bytes whole = content_of(folder.file("s"));
    EXPECT_EQ(whole.substr(header_bytes), data().substr(header_bytes, 6000) + std::string(4000, '\0'));
}

TEST_F(Repair, ASnapshotThatWasCutShortIsNotTakenForAnEmptyOne) {
    (void)snapshot_writer::create(uri(), {.slot_bytes = 5000}).publish(span_of(std::string(4000, 'x')));
    remember();
    cut_short(
        [](const std::string& name) {
            std::vector<std::byte> object;
            return snapshot_reader::attach(name).read(object) ? items{text_of(object)} : items{};
        },
        40);
}

// A writer that was killed leaves no damage: nothing is done, and damage beside it does not take its work away.
TEST_F(Repair, WhatIsSoundIsLeftAlone) {
    (void)hash_table<u64, u64>::create(uri(), {.capacity = 10}).try_insert(1, 2);
    const bytes image = content_of(folder.file("s"));
    remember();
    const auto report = repaired(image, "sound");
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->intact);
    EXPECT_EQ(content_of(folder.file("s")), image);
    EXPECT_FALSE(std::filesystem::exists(folder.file("s.damaged")));
}

using many_table = hash_table<u64, std::array<u64, 2>, writers::many>;

/// Three writers that change 2500 entries, some of them killed inside an operation with their stripes held.
void write_as_many(const std::string& name) {
    auto first = many_table::create(name, {.capacity = 3000, .writer_slots = 8});
    auto second = many_table::attach(name);
    for (u64 n = 0; n < 2500; ++n) (void)(n % 2 == 0 ? first : second).try_insert(n * n, {n, ~n});
    for (u64 n = 0; n < 2500; n += 7) (void)(n % 2 == 0 ? second : first).erase(n * n);
    for (const u64 n : {1U, 2U}) {
        child_process dies([&] {
            auto mine = many_table::attach(name);
            (void)mine.modify(n * n, [](std::array<u64, 2>&) { ::raise(SIGKILL); });
        });
        (void)dies.wait();
    }
}

TEST_F(Repair, ATableOfManyWritersKeepsWhatItsChecksumsVouchFor) {
    write_as_many(uri());
    attack({contents_of_table, [](const damaged_range& d) { return d.length <= 1 ? 0 : limit(d, 2 * 416); }}, 120);
}

// Whatever stands in journals and stripes, the entries are under other checksums; and the repaired table has its slots.
TEST_F(Repair, ATableOfManyWritersIsWrittenByManyAfterIt) {
    write_as_many(uri());
    remember();
    const items before = contents_of_table(uri());
    const auto table = hash_table_reader<u64, std::array<u64, 2>>::attach(uri());
    const auto g = table.geometry();
    const std::size_t ends = header_bytes + g.digests_offset, from = header_bytes + g.journal_offset;
    for (u64 round = 0; round < 8; ++round) {
        bytes image = data();
        for (std::size_t at = from; at < ends; ++at) image[at] = round == 0 ? '\xff' : static_cast<char>(random_());
        const auto report = repaired(image, "journals and stripes");
        ASSERT_TRUE(report && !report->intact);
        EXPECT_EQ(contents_of_table(uri()), before);
    }
    auto one = many_table::attach(uri()), two = many_table::attach(uri());
    EXPECT_EQ(one.size(), before.size());
    EXPECT_EQ(one.geometry().writer_slots, 8U);
    EXPECT_TRUE(one.insert_or_assign(1, {5, 6}) && two.erase(4));
    EXPECT_EQ(two.find(1), (std::array<u64, 2>{5, 6}));
    EXPECT_EQ(one.size(), before.size() - 1);
    // Beside living writers nothing is repaired.
    const auto refused = refusal_of([&] { (void)inspect::repair(uri(), {}); });
    ASSERT_TRUE(refused);
    EXPECT_EQ(*refused, errc::writer_alive);
}

/// Three writers that put and free each other's values, and one killed with a claim. Returns: all handles there were.
[[nodiscard]] std::vector<u64> put_as_many(const std::string& name, seeded_random& random) {
    std::vector<u64> handles;
    std::vector<many_blocks> writers;
    writers.push_back(many_blocks::create(name, {.bytes = 64 << 10, .unit_bytes = 64, .writer_slots = 5}));
    for (int i = 0; i < 2; ++i) writers.push_back(many_blocks::attach(name));
    const auto put = [&](u64 n, u64 most) {
        const std::string text(random.below(most), static_cast<char>(n));
        handles.push_back(writers[n % 3].allocate(span_of(text)).handle);
    };
    for (u64 n = 0; n < 200; ++n) put(n, 300);
    for (u64 n = 0; n < 200; n += 3) (void)writers[(n + 1) % 3].free(handles[n]);
    child_process dies([&] {
        auto mine = many_blocks::attach(name);
        (void)mine.prepare(1000);
        ::raise(SIGKILL);
    });
    (void)dies.wait();
    for (u64 n = 0; n < 40; ++n) put(n, 500);
    return handles;
}

[[nodiscard]] items values_of(const std::string& name, const std::vector<u64>& handles) {
    const auto store = block_store_reader::attach(name);
    items all;
    std::vector<std::byte> value;
    for (const u64 handle : handles)
        if (store.read(handle, value)) all.push_back(std::to_string(handle) + "=" + text_of(value));
    return all;
}

TEST_F(Repair, ABlockStoreOfManyWritersKeepsValuesUnderTheirHandles) {
    const std::vector<u64> handles = put_as_many(uri(), random_);
    attack({[&](const std::string& name) { return values_of(name, handles); },
            [](const damaged_range& d) { return limit(d, d.length <= 1 ? 1 : 3); }, freed_values_return(uri())},
           200);
}

// Whatever stands in journals, the values are under their own checksums; and the repaired store has its writer slots.
TEST_F(Repair, ABlockStoreOfManyWritersIsWrittenByManyAfterIt) {
    const std::vector<u64> handles = put_as_many(uri(), random_);
    remember();
    const items before = values_of(uri(), handles);
    const auto g = block_store_reader::attach(uri()).geometry();
    const std::size_t from = header_bytes + g.journals_offset(), to = header_bytes + g.units_offset();
    for (u64 round = 0; round < 8; ++round) {
        bytes image = data();
        for (std::size_t at = from; at < to; ++at) image[at] = round == 0 ? '\xff' : static_cast<char>(random_());
        const auto report = repaired(image, "journals");
        ASSERT_TRUE(report && !report->intact);
        EXPECT_EQ(report->kept, before.size());
        EXPECT_EQ(values_of(uri(), handles), before);
    }
    std::vector<many_blocks> writers;
    for (int i = 0; i < 5; ++i) writers.push_back(many_blocks::attach(uri()));
    for (many_blocks& each : writers) {
        EXPECT_FALSE(each.recovery().counts_rebuilt);
        const block_result made = each.allocate(span_of("new"));
        EXPECT_TRUE(made);
        EXPECT_FALSE(std::ranges::count(handles, made.handle));
    }
    EXPECT_EQ(writers[0].usage().values, before.size() + 5);
    EXPECT_EQ(values_of(uri(), handles), before);
    // Beside living writers nothing is repaired.
    EXPECT_EQ(refusal_of([&] { (void)inspect::repair(uri(), {}); }), errc::writer_alive);
}

using many_map = hash_map<std::string_view, writers::many>;

/// As a writer leaves it that is killed between the table's commit of an erase and the end of the entry.
void die_in_an_erase(const std::string& name, std::uint32_t slot, std::string_view key) {
    segment memory = segment::attach(name, access::read_write);
    const detail::map_view<std::byte> view(memory.body(), detail::hash_map_geometry_of(memory));
    const detail::map_slots<std::byte> slots(view);
    const detail::map_digest digest = view.digest(std::as_bytes(std::span(key)));
    const detail::map_reader_core reader(view.as_const(), {});
    detail::map_record record;
    record.word[detail::map_record::kind] = static_cast<u64>(entry_change::erased);
    record.word[detail::map_record::digest] = digest.word[0];
    record.word[detail::map_record::digest_high] = digest.word[1];
    record.word[detail::map_record::take] = reader.handle_under(digest);
    ASSERT_NE(record.word[detail::map_record::take], 0U);
    detail::begin_operation(slots, slot, slots.look(slot).operation() + 1, record);
    detail::hash_table_mutator<detail::map_node, detail::tag_match::best, detail::sharing::by_stripes> table(
        view.table.as_writer(slot));
    ASSERT_EQ(table.erase(digest.bytes()).status, outcome::ok);
}

/// Three writers that set, erase and replace each other's entries, and two who died in an erase.
void set_as_many(const std::string& name) {
    {
        std::vector<many_map> writers;
        writers.push_back(many_map::create(name, {.capacity = 400, .entry_bytes = 40, .writer_slots = 5}));
        for (int i = 0; i < 2; ++i) writers.push_back(many_map::attach(name));
        const auto key = [](u64 n) { return "key number " + std::to_string(n); };
        for (u64 n = 0; n < 300; ++n)
            (void)writers[n % 3].set(key(n), span_of(std::string(n % 150, static_cast<char>(n))));
        for (u64 n = 0; n < 300; n += 5) (void)writers[(n + 1) % 3].erase(key(n));
        for (u64 n = 1; n < 300; n += 5) (void)writers[(n + 2) % 3].set(key(n), span_of(std::string(90, 'u')));
    }
    die_in_an_erase(name, 1, "key number 2");
    die_in_an_erase(name, 4, "key number 3");
}

TEST_F(Repair, AHashMapOfManyWritersKeepsEveryEntryWhoseChecksumHolds) {
    set_as_many(uri());
    ASSERT_TRUE(inspect::verify(uri()).intact()) << "the dead leave no damage";
    attack({contents_of_map, [](const damaged_range& d) { return limit(d, d.length <= 1 ? 1 : 3); }}, 200);
}

// Whatever stands in the journals of table, map and store, entries are under their own checksums; what the dead had let
// go stays gone where their records, or the table, still tell; and the repaired map has its writer slots.
TEST_F(Repair, AHashMapOfManyWritersIsWrittenByManyAfterIt) {
    set_as_many(uri());
    remember();
    const items before = contents_of_map(uri());
    const auto g = hash_map_reader<std::string_view>::attach(uri()).geometry();
    const std::size_t journals = header_bytes + g.journals_offset(),
                      store = header_bytes + g.store_offset() + g.store.journals_offset();
    for (u64 round = 0; round < 8; ++round) {
        bytes image = data();
        const auto scribble = [&](std::size_t from, std::size_t to) {
            for (std::size_t at = from; at < to; ++at) image[at] = round == 0 ? '\xff' : static_cast<char>(random_());
        };
        if (round < 4) scribble(journals, header_bytes + g.store_offset());
        if (round >= 4) scribble(store, header_bytes + g.store_offset() + g.store.units_offset());
        if (round % 2 == 1) scribble(header_bytes + g.table.lines_offset, header_bytes + g.table.nodes_offset);
        const auto report = repaired(image, "journals");
        ASSERT_TRUE(report && !report->intact);
        items after = contents_of_map(uri());
        if (round == 1 || round == 3) {  // neither table nor records: an entry let go is as good as any
            EXPECT_EQ(after.size(), before.size() + 2);
            std::erase_if(after, [&](const std::string& item) { return !std::ranges::count(before, item); });
        }
        EXPECT_EQ(after, before) << round;
    }
    std::vector<many_map> writers;
    for (int i = 0; i < 5; ++i) writers.push_back(many_map::attach(uri()));
    for (many_map& each : writers) {
        EXPECT_FALSE(each.recovery().record_rebuilt || each.recovery().operation_finished);
        EXPECT_TRUE(each.set("slot " + std::to_string(each.writer_slot()), "new"));
    }
    EXPECT_EQ(writers[0].size(), before.size() + 5);
    EXPECT_TRUE(inspect::verify(uri()).intact());
    // Beside living writers nothing is repaired.
    EXPECT_EQ(refusal_of([&] { (void)inspect::repair(uri(), {}); }), errc::writer_alive);
}

// What only a checksum that they share speaks against goes over when it is asked for, and is counted as such.
TEST_F(Repair, DoubtfulEntriesAreKeptWhenTheCallerWantsThem) {
    {
        auto made = hash_table<u64, u64>::create(uri(), {.capacity = 300});
        for (u64 n = 0; n < 300; ++n) (void)made.try_insert(n, n);
    }
    remember();
    bytes image = data();
    u64 hit = 0;  // both words of one entry: no single word explains the checksum
    for (std::size_t at = header_bytes; at + 16 <= image.size() && hit == 0; at += 8) {
        u64 pair[2];
        std::memcpy(pair, &image[at], 16);
        if (pair[0] != pair[1] || pair[0] < 10 || pair[0] >= 300) continue;
        std::memset(&image[at + 8], 0x5a, 8);
        hit = pair[0];
    }
    ASSERT_NE(hit, 0U);
    const auto strict = repaired(image, "strict");
    ASSERT_TRUE(strict);
    EXPECT_EQ(strict->kept, 0U);
    EXPECT_EQ(strict->lost, 300U);
    inspect::repair_options options = generous();
    u64 noted = 0;
    options.each = [&](const inspect::salvage_note&) { ++noted; };
    const auto all = repaired(image, "generous", options);
    ASSERT_TRUE(all);
    EXPECT_EQ(all->kept, 300U);
    EXPECT_EQ(all->doubtful, 300U);
    EXPECT_EQ(noted, 300U);
    EXPECT_EQ(all->notes.size(), inspect::salvage_log::notes_max);
    const auto table = hash_table_reader<u64, u64>::attach(uri());
    for (u64 n = 0; n < 300; ++n) EXPECT_EQ(table.find(n) == n, n != hit);
}

}  // namespace
