// SPDX-License-Identifier: Apache-2.0
// Many keys at once say what as many single lookups say: every order of keys, sizes of index and of batch around the
// groups that are searched together, typed and by schema, in a segment of its own and through a snapshot.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/sorted_index.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::dynamic_sorted_index_view;
using holdfast::index_shape;
using holdfast::ipv4;
using holdfast::ipv6;
using holdfast::outcome;
using holdfast::sorted_index;
using holdfast::sorted_index_entry;
using holdfast::sorted_index_many;
using holdfast::test::scaled;
using holdfast::test::seeded_random;

struct two_parts {
    std::int32_t group;
    std::uint32_t member;
};

// The number's key; keys ascend as numbers do.
template <class K>
K key_of(std::uint64_t number) {
    if constexpr (std::is_same_v<K, ipv4>) {
        return {static_cast<std::uint32_t>(number)};
    } else if constexpr (std::is_same_v<K, two_parts>) {
        return {static_cast<std::int32_t>(number / 7) - 20, static_cast<std::uint32_t>(number % 7)};
    } else if constexpr (std::is_arithmetic_v<K>) {
        return static_cast<K>(number);
    } else {
        K out{};
        for (std::size_t i = 0; i < 4; ++i) {
            const auto byte = static_cast<unsigned char>(number >> (24 - 8 * i));
            std::memcpy(reinterpret_cast<std::byte*>(&out) + sizeof(K) - 4 + i, &byte, 1);
        }
        return out;
    }
}

template <class K>
struct range_to {
    K last;
    std::uint32_t number;
};
template <class K>
using ranges = sorted_index<K, range_to<K>, &range_to<K>::last>;

template <class K>
class SortedIndexManyOf : public ::testing::Test {};
using key_types = ::testing::Types<std::uint16_t, std::uint32_t, std::uint64_t, std::int64_t, float, double, ipv4, ipv6,
                                   holdfast::fixed_text<7>, holdfast::fixed_text<21>>;
TYPED_TEST_SUITE(SortedIndexManyOf, key_types);

// One type for all keys: the view compiles its search for each order and each type that it is called with.
using called_with = std::function<void(std::size_t, const std::optional<std::uint64_t>&)>;

// Compares batches of all lengths about a group's with single lookups, and both with what the numbers say.
template <class View, class K>
void compare(const View& view, const dynamic_sorted_index_view& dynamic, const std::vector<K>& asked,
             const std::vector<bool>& present) {
    for (std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{17},
                               std::size_t{33}, asked.size()}) {
        const std::span<const K> keys(asked.data(), std::min(length, asked.size()));
        std::size_t exact = 0, covered = 0;
        view.find_many(keys, [&](std::size_t i, const auto& it) {
            ASSERT_EQ(i, exact++);
            ASSERT_EQ(it.index(), view.find(keys[i]).index());
            ASSERT_EQ(it != view.end(), present[i]);
        });
        view.find_covering_many(keys, [&](std::size_t i, const auto& it) {
            ASSERT_EQ(i, covered++);
            ASSERT_EQ(it.index(), view.find_covering(keys[i]).index());
        });
        ASSERT_EQ(exact, keys.size());
        ASSERT_EQ(covered, keys.size());
        const auto raw = std::as_bytes(keys);
        dynamic.find_many(raw, called_with([&](std::size_t i, const auto& position) {
                              ASSERT_EQ(position.value_or(view.size()), view.find(keys[i]).index());
                              ++exact;
                          }));
        dynamic.find_covering_many(raw, called_with([&](std::size_t i, const auto& position) {
                                       ASSERT_EQ(position.value_or(view.size()), view.find_covering(keys[i]).index());
                                       ++covered;
                                   }));
        ASSERT_EQ(exact + covered, 4 * keys.size());
    }
}

TYPED_TEST(SortedIndexManyOf, AgreesWithSingleLookups) {
    using K = TypeParam;
    using index = ranges<K>;
    const auto shape =
        std::make_shared<const index_shape>(holdfast::detail::shape_of<K, range_to<K>, &range_to<K>::last>());
    seeded_random random;
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3},
                                     std::uint64_t{31}, std::uint64_t{32}, std::uint64_t{33}, scaled(1000)}) {
        typename index::builder builder;
        const std::uint64_t records = std::min<std::uint64_t>(size, 6000);  // 16 bits hold ten times as many numbers
        for (std::uint64_t i = 0; i < records; ++i)
            builder.add(key_of<K>(10 * i + 5), {key_of<K>(10 * i + 8), static_cast<std::uint32_t>(i)});
        const auto image = builder.build();
        std::vector<K> asked;
        std::vector<bool> present;
        for (int i = 0; i < 300; ++i) {
            const std::uint64_t number = random.below(10 * records + 20);
            asked.push_back(key_of<K>(number));
            present.push_back(number % 10 == 5 && number / 10 < records);
        }
        compare(index::view::over(image), dynamic_sorted_index_view::over(image, shape), asked, present);
    }
}

TEST(SortedIndexMany, KeysOfSeveralFields) {
    using index = sorted_index<two_parts, std::uint32_t>;
    const auto shape =
        std::make_shared<const index_shape>(holdfast::detail::shape_of<two_parts, std::uint32_t, nullptr>());
    index::builder builder;
    for (std::uint32_t i = 0; i < 200; ++i) builder.add(key_of<two_parts>(2 * i), i);
    const auto image = builder.build();
    std::vector<two_parts> asked;
    std::vector<bool> present;
    for (std::uint64_t number = 0; number < 410; number += 3) {
        asked.push_back(key_of<two_parts>(number));
        present.push_back(number % 2 == 0 && number < 400);
    }
    compare(index::view::over(image), dynamic_sorted_index_view::over(image, shape), asked, present);
}

TEST(SortedIndexMany, NoNumberAmongNumbersIsAbsent) {
    using index = ranges<double>;
    index::builder builder;
    for (std::uint32_t i = 0; i < 40; ++i) builder.add(i, {i + 0.5, i});
    const auto image = builder.build();
    const auto view = index::view::over(image);
    std::vector<double> keys(20, 3.0);
    keys[7] = std::nan("");
    const auto check = [&](std::size_t i, const auto& it) { EXPECT_EQ(it.index(), i == 7 ? view.size() : 3U) << i; };
    view.find_many(keys, check);
    view.find_covering_many(keys, check);
}

TEST(SortedIndexMany, AViewOfNothingFindsNothing) {
    const ranges<std::uint32_t>::view view;
    const std::vector<std::uint32_t> keys{0, 1, 2};
    std::size_t calls = 0;
    const auto check = [&](std::size_t, const auto& it) { calls += it == view.end() ? 1 : 0; };
    view.find_many(keys, check);
    view.find_covering_many(keys, check);
    EXPECT_EQ(calls, 6U);
}

using index32 = ranges<std::uint32_t>;
using values = std::vector<std::optional<range_to<std::uint32_t>>>;
using entries = std::vector<std::optional<sorted_index_entry<std::uint32_t, range_to<std::uint32_t>>>>;

void fill(index32::builder& out, std::uint32_t records, std::uint32_t stamp) {
    for (std::uint32_t i = 0; i < records; ++i) out.add(10 * i, {10 * i + 4, stamp + i});
}

// Every key below 10 * records + 10 at once.
void expect_all(index32::reader& reader, std::uint32_t records, std::uint32_t stamp, std::uint64_t version) {
    std::vector<std::uint32_t> keys;
    for (std::uint32_t key = 0; key < 10 * records + 10; ++key) keys.push_back(key);
    values exact(keys.size());
    const sorted_index_many found = reader.find_many(keys, exact);
    EXPECT_EQ(found.status, outcome::ok);
    EXPECT_EQ(found.version, version);
    EXPECT_EQ(found.found, records);
    entries covering(keys.size());
    EXPECT_EQ(reader.find_covering_many(keys, covering).found, 5 * records);
    for (const std::uint32_t key : keys) {
        const bool inside = key / 10 < records;
        ASSERT_EQ(exact[key].has_value(), inside && key % 10 == 0) << key;
        if (exact[key]) {
            ASSERT_EQ(exact[key]->number, stamp + key / 10);
        }
        ASSERT_EQ(covering[key].has_value(), inside && key % 10 < 5) << key;
        if (!covering[key]) continue;
        ASSERT_EQ(covering[key]->key, key / 10 * 10);
        ASSERT_EQ(covering[key]->value.number, stamp + key / 10);
    }
}

TEST(SortedIndexManyReader, ASegmentOfItsOwn) {
    index32::builder builder;
    fill(builder, 100, 7);
    index32::reader reader(std::make_shared<const holdfast::segment>(create_sorted_index("heap:", builder)));
    expect_all(reader, 100, 7, 1);
    const std::vector<std::uint32_t> absent(20, 9);
    values out(20, range_to<std::uint32_t>{});
    const sorted_index_many none = reader.find_many(absent, out);
    EXPECT_EQ(none.status, outcome::not_found);
    EXPECT_EQ(none.found, 0U);
    for (const auto& value : out) EXPECT_FALSE(value.has_value()) << "what stood there before is gone";
}

TEST(SortedIndexManyReader, ThroughASnapshotValidatedAndPinned) {
    auto publisher = index32::publisher::create("anon:", {.records_max = 200, .pinned_readers = 1, .segment = {}});
    for (const bool pinned : {false, true}) {
        auto reader = publisher.make_reader(pinned);
        if (!pinned) {
            values out(3, range_to<std::uint32_t>{});
            const std::vector<std::uint32_t> keys{0, 10, 20};
            const sorted_index_many got = reader.find_many(keys, out);
            EXPECT_EQ(got.status, outcome::empty);
            EXPECT_EQ(got.found, 0U);
            for (const auto& value : out) EXPECT_FALSE(value.has_value());
        }
        for (std::uint32_t round = 1; round <= 9; ++round) {
            index32::builder builder;
            fill(builder, 20 * round, 1000 * round);
            const auto published = publisher.publish(builder);
            ASSERT_TRUE(published);
            expect_all(reader, 20 * round, 1000 * round, published.version);
        }
    }
}

}  // namespace
