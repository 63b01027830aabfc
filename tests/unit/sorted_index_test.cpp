// SPDX-License-Identifier: Apache-2.0
// Building and searching sorted indexes in private memory: every key type against std::map, ranges against a linear
// search, refusals by record, and the agreement of the typed with the run-time typed view.
#include "holdfast/sorted_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::container_schema;
using holdfast::dynamic_sorted_index_view;
using holdfast::errc;
using holdfast::index_shape;
using holdfast::ipv4;
using holdfast::ipv6;
using holdfast::schema_of;
using holdfast::sorted_index;
using holdfast::sorted_index_error;
using holdfast::layout::findings;
using holdfast::test::scaled;
using holdfast::test::seeded_random;

enum class color : std::uint16_t { red = 0, green = 3, blue = 700 };
struct pair_key {
    std::int32_t group;
    std::uint32_t member;
    friend auto operator<=>(const pair_key&, const pair_key&) = default;
};
struct payload {
    std::uint64_t number;
    std::uint16_t small;
    char text[5];
};

template <class K>
struct draw {
    static K key(seeded_random& random) { return static_cast<K>(random()); }
};
template <>
struct draw<bool> {
    static bool key(seeded_random& random) { return random.below(2) == 0; }
};
template <>
struct draw<float> {
    static float key(seeded_random& random) { return static_cast<float>(static_cast<std::int64_t>(random())) / 1e9F; }
};
template <>
struct draw<double> {
    static double key(seeded_random& random) { return static_cast<double>(static_cast<std::int64_t>(random())) / 3; }
};
template <>
struct draw<color> {
    static color key(seeded_random& random) {
        constexpr color all[] = {color::red, color::green, color::blue};
        return all[random.below(3)];
    }
};
template <>
struct draw<ipv4> {
    static ipv4 key(seeded_random& random) { return {static_cast<std::uint32_t>(random())}; }
};
template <>
struct draw<holdfast::timestamp> {
    static holdfast::timestamp key(seeded_random& random) { return {static_cast<std::int64_t>(random())}; }
};
template <>
struct draw<ipv6> {
    static ipv6 key(seeded_random& random) {
        ipv6 out;
        for (auto& byte : out.bytes) byte = static_cast<std::uint8_t>(random.below(random.below(4) == 0 ? 256 : 2));
        return out;
    }
};
template <std::size_t N>
struct draw<holdfast::fixed_text<N>> {
    static holdfast::fixed_text<N> key(seeded_random& random) {
        holdfast::fixed_text<N> out;
        for (auto& c : out.bytes) c = static_cast<char>(random.below(random.below(4) == 0 ? 256 : 3));
        return out;
    }
};
template <>
struct draw<pair_key> {
    static pair_key key(seeded_random& random) {
        return {static_cast<std::int32_t>(random.below(7)) - 3, static_cast<std::uint32_t>(random.below(50))};
    }
};

payload value_of(std::uint64_t i) {
    payload out{};  // zeroed to its last padding byte by the aggregate's own fields below
    std::memset(&out, 0, sizeof out);
    out.number = i;
    out.small = static_cast<std::uint16_t>(i * 7);
    std::memcpy(out.text, "abcde", 5);
    return out;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
    return {reinterpret_cast<const std::byte*>(&value), sizeof(T)};
}

template <class V>
std::uint64_t count_findings(std::span<const std::byte> image, const V& shape) {
    findings found;
    holdfast::layout::verify_sorted_index(image, &shape.key, found);
    return found.count();
}

template <class K>
class SortedIndexOf : public ::testing::Test {};
using key_types =
    ::testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::int8_t, std::int16_t, std::int32_t,
                     std::int64_t, bool, float, double, color, ipv4, ipv6, holdfast::timestamp, holdfast::fixed_text<3>,
                     holdfast::fixed_text<8>, holdfast::fixed_text<16>, holdfast::fixed_text<21>, pair_key>;
TYPED_TEST_SUITE(SortedIndexOf, key_types);

TYPED_TEST(SortedIndexOf, AgreesWithAMapTypedAndByShape) {
    using K = TypeParam;
    using index = sorted_index<K, payload>;
    seeded_random random;
    for (const std::uint64_t wanted :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{17}, scaled(1000)}) {
        std::map<K, payload> model;
        typename index::builder builder;
        for (std::uint64_t i = 0; i < wanted; ++i) {
            const K key = draw<K>::key(random);
            if (model.emplace(key, value_of(i)).second) builder.add(key, value_of(i));
        }
        const auto image = builder.build();
        const auto view = index::view::over(image);
        const container_schema schema{schema_of<K>("key"), schema_of<payload>()};
        const auto shape = std::make_shared<const index_shape>(index_shape::of(schema));
        const auto dynamic = dynamic_sorted_index_view::over(image, shape);
        ASSERT_EQ(view.size(), model.size());
        ASSERT_EQ(dynamic.size(), model.size());
        EXPECT_EQ(count_findings(image, *shape), 0U);
        auto it = view.begin();
        for (const auto& [key, value] : model) {
            ASSERT_TRUE(it->key == key);
            ASSERT_EQ(it->value.number, value.number);
            ++it;
        }
        ASSERT_TRUE(it == view.end());
        for (std::uint64_t i = 0; i < 2 * wanted + 20; ++i) {
            K key = draw<K>::key(random);
            if (i % 2 == 0 && !model.empty()) {
                auto known = model.begin();
                std::advance(known, static_cast<long>(random.below(model.size())));
                key = known->first;
            }
            const auto expected = model.find(key);
            const auto found = view.find(key);
            ASSERT_EQ(found != view.end(), expected != model.end());
            ASSERT_EQ(view.contains(key), expected != model.end());
            if (found != view.end()) {
                ASSERT_EQ(found->value.number, expected->second.number);
            }
            const auto place = [&](auto bound) {
                return static_cast<std::uint64_t>(std::distance(model.begin(), bound));
            };
            ASSERT_EQ(view.lower_bound(key).index(), place(model.lower_bound(key)));
            ASSERT_EQ(view.upper_bound(key).index(), place(model.upper_bound(key)));
            ASSERT_EQ(view.find_covering(key) == found, true) << "without ranges covering is exact";
            ASSERT_EQ(dynamic.find(bytes_of(key)).value_or(view.size()), found.index());
            ASSERT_EQ(dynamic.lower_bound(bytes_of(key)), view.lower_bound(key).index());
            ASSERT_EQ(dynamic.upper_bound(bytes_of(key)), view.upper_bound(key).index());
        }
    }
}

TYPED_TEST(SortedIndexOf, OrderOfAddingDoesNotMatter) {
    using K = TypeParam;
    using index = sorted_index<K, payload>;
    seeded_random random;
    std::map<K, payload> model;
    for (int i = 0; i < 200; ++i) {
        const K key = draw<K>::key(random);
        std::uint64_t digest = 0;
        std::memcpy(&digest, &key, std::min<std::size_t>(sizeof key, 8));
        model.emplace(key, value_of(digest));
    }
    typename index::builder sorted, shuffled;
    std::vector<std::pair<K, payload>> entries(model.begin(), model.end());
    for (const auto& [key, value] : entries) sorted.add(key, value);
    std::shuffle(entries.begin(), entries.end(), random);
    for (const auto& [key, value] : entries) shuffled.add(key, value);
    EXPECT_EQ(sorted.build(), shuffled.build());
}

struct range_value {
    std::uint16_t last;
    char name[3];
};
using ranges = sorted_index<std::uint16_t, range_value, &range_value::last>;

TEST(SortedIndexRanges, CoveringAgreesWithALinearSearch) {
    seeded_random random;
    for (std::uint64_t round = 0; round < scaled(40); ++round) {
        ranges::builder builder;
        std::vector<std::pair<std::uint16_t, std::uint16_t>> all;
        std::uint32_t next = static_cast<std::uint32_t>(random.below(40));
        while (next <= 0xFFFF && all.size() < 300) {
            const std::uint32_t last =
                std::min<std::uint32_t>(0xFFFF, next + static_cast<std::uint32_t>(random.below(9)));
            all.emplace_back(static_cast<std::uint16_t>(next), static_cast<std::uint16_t>(last));
            next = last + 1 + static_cast<std::uint32_t>(random.below(3) == 0 ? random.below(2000) : random.below(3));
        }
        if (round % 2 == 0) std::shuffle(all.begin(), all.end(), random);
        for (const auto& [first, last] : all) builder.add(first, {last, {}});
        const auto image = builder.build();
        const auto view = ranges::view::over(image);
        const container_schema schema{schema_of<std::uint16_t>("first"), schema_of<range_value>()};
        const auto dynamic = dynamic_sorted_index_view::over(
            image, std::make_shared<const index_shape>(index_shape::of(schema, "last")));
        for (std::uint32_t key = 0; key <= 0xFFFF; key += 1 + static_cast<std::uint32_t>(random.below(40))) {
            const auto wanted = static_cast<std::uint16_t>(key);
            const auto expected = std::ranges::find_if(
                all, [&](const auto& range) { return range.first <= wanted && wanted <= range.second; });
            const auto found = view.find_covering(wanted);
            ASSERT_EQ(found != view.end(), expected != all.end()) << key;
            ASSERT_EQ(dynamic.find_covering(bytes_of(wanted)).value_or(view.size()), found.index());
            if (found == view.end()) continue;
            ASSERT_EQ(found->key, expected->first);
            ASSERT_EQ(found->value.last, expected->second);
        }
        for (const auto& [first, last] : all) {  // both edges, and one beyond each
            ASSERT_EQ(view.find_covering(first)->key, first);
            ASSERT_EQ(view.find_covering(last)->key, first);
        }
    }
}

TEST(SortedIndexRanges, TheWholeSpaceAndItsEnds) {
    ranges::builder builder;
    builder.add(0, {0, {}});
    builder.add(1, {0xFFFE, {}});
    builder.add(0xFFFF, {0xFFFF, {}});
    const auto image = builder.build();
    const auto view = ranges::view::over(image);
    EXPECT_EQ(view.find_covering(0).index(), 0U);
    EXPECT_EQ(view.find_covering(1).index(), 1U);
    EXPECT_EQ(view.find_covering(0xFFFE).index(), 1U);
    EXPECT_EQ(view.find_covering(0xFFFF).index(), 2U);
}

// Which records a refusal names: the later of the two, in the order of adding, and the earlier as its other.
struct expected_refusal {
    std::vector<std::pair<std::uint16_t, std::uint16_t>> records;
    std::uint64_t record;
    std::optional<std::uint64_t> other;
    std::string says;
};

TEST(SortedIndexRefusals, NameTheRecord) {
    const std::vector<expected_refusal> cases{
        {{{5, 9}, {20, 30}, {5, 7}}, 2, 0, "same key"},
        {{{20, 30}, {5, 4}}, 1, std::nullopt, "ends before it begins"},
        {{{5, 9}, {9, 30}}, 1, 0, "overlaps"},
        {{{9, 30}, {50, 60}, {5, 9}}, 2, 0, "overlaps"},
        {{{5, 900}, {100, 200}, {2000, 3000}}, 1, 0, "overlaps"},
        {{{0, 0}, {1, 1}, {2, 2}, {1, 1}}, 3, 1, "same key"},
    };
    for (const auto& c : cases) {
        ranges::builder builder;
        for (const auto& [first, last] : c.records) builder.add(first, {last, {}});
        try {
            builder.finish();
            ADD_FAILURE() << "accepted what " << c.says;
        } catch (const sorted_index_error& e) {
            EXPECT_EQ(e.reason(), errc::invalid_argument);
            EXPECT_EQ(e.record(), c.record) << e.what();
            EXPECT_EQ(e.other(), c.other) << e.what();
            EXPECT_NE(std::string(e.what()).find(c.says), std::string::npos) << e.what();
        }
    }
}

TEST(SortedIndexRefusals, AKeyThatIsNoNumber) {
    sorted_index<double, payload>::builder builder;
    builder.add(1.0, value_of(1));
    builder.add(std::nan(""), value_of(2));
    try {
        builder.finish();
        ADD_FAILURE() << "accepted a NaN";
    } catch (const sorted_index_error& e) {
        EXPECT_EQ(e.record(), 1U);
    }
}

// Keys of several fields with a float among them: records known by their schema alone.
struct measured {
    double x;
    std::uint32_t y;
};
std::shared_ptr<const index_shape> shape_of_measured() {
    using holdfast::record_schema;
    static const auto shape = std::make_shared<const index_shape>(
        index_shape::of({record_schema::parse_list("x:f64,y:u32"), record_schema::parse_list("v:u32")}));
    return shape;
}
std::vector<std::byte> key_of(const measured& key) {
    std::vector<std::byte> bytes(shape_of_measured()->key.key_bytes);
    std::memcpy(bytes.data(), &key.x, sizeof key.x);
    std::memcpy(bytes.data() + sizeof key.x, &key.y, sizeof key.y);
    return bytes;
}
holdfast::dynamic_sorted_index_builder builder_of(const std::vector<measured>& keys) {
    holdfast::dynamic_sorted_index_builder builder(*shape_of_measured());
    for (std::uint32_t value = 10; const measured& key : keys) builder.add(key_of(key), bytes_of(value++));
    return builder;
}

TEST(SortedIndexRefusals, AKeyOfWhichAFieldIsNoNumber) {
    // In this order each is above the one before, as far as y decides.
    for (const std::vector<measured>& keys : {std::vector<measured>{{1, 5}, {std::nan(""), 6}, {0, 7}},
                                              std::vector<measured>{{1, 5}, {std::nanf(""), 4}}}) {
        auto builder = builder_of(keys);
        try {
            builder.finish();
            ADD_FAILURE() << "accepted a NaN";
        } catch (const sorted_index_error& e) {
            EXPECT_EQ(e.record(), 1U);
        }
    }
}

TEST(SortedIndex, SearchingForAKeyOfWhichAFieldIsNoNumberFindsNothing) {
    const auto image = builder_of({{1, 5}}).build();
    const auto view = dynamic_sorted_index_view::over(image, shape_of_measured());
    EXPECT_EQ(view.find(key_of({1, 5})), 0U);
    const std::vector<std::byte> nowhere = key_of({std::nan(""), 5});
    EXPECT_EQ(view.find(nowhere), std::nullopt);
    EXPECT_EQ(view.find_covering(nowhere), std::nullopt);
    view.find_many(nowhere, [](std::size_t, const auto& position) { EXPECT_EQ(position, std::nullopt); });
    EXPECT_LE(view.lower_bound(nowhere), view.size());
}

TEST(SortedIndex, VerifyFindsAKeyOfWhichAFieldIsNoNumber) {
    const auto sound = builder_of({{1, 5}, {2, 6}, {3, 7}}).build();
    EXPECT_EQ(count_findings(sound, *shape_of_measured()), 0U);
    for (std::uint64_t record = 0; record < 3; ++record) {
        auto image = sound;
        holdfast::layout::sorted_index_image parsed;
        ASSERT_EQ(holdfast::layout::sorted_index_image::parse(image, parsed), nullptr);
        const double none = std::nan("");
        std::memcpy(image.data() + parsed.header().keys_offset + record * shape_of_measured()->key.key_bytes, &none,
                    sizeof none);
        const std::uint64_t sum = parsed.computed_checksum();
        std::memcpy(image.data() + offsetof(holdfast::layout::sorted_index_header, checksum), &sum, sizeof sum);
        findings found;
        holdfast::layout::verify_sorted_index(image, &shape_of_measured()->key, found);
        ASSERT_EQ(found.count(), 1U) << record;
        EXPECT_NE(found.list()[0].what.find("key " + std::to_string(record) + " is not a number"), std::string::npos);
    }
}

struct span_of_time {
    double until;
};

TEST(SortedIndexRefusals, ARangeEndThatIsNoNumber) {
    sorted_index<double, span_of_time, &span_of_time::until>::builder builder;
    builder.add(1.0, {std::nan("")});
    EXPECT_THROW(builder.finish(), sorted_index_error);
}

TEST(SortedIndexRanges, VerifyFindsAnEndThatIsNoNumber) {
    using times = sorted_index<double, span_of_time, &span_of_time::until>;
    times::builder builder;
    builder.add(1.0, {2.0});
    auto image = builder.build();
    const double none = std::nan("");
    std::memcpy(image.data() + times::view::over(image).image().header().values_offset, &none, sizeof none);
    findings found;
    holdfast::layout::verify_sorted_index(image, nullptr, found);
    EXPECT_EQ(found.count(), 2U) << "the end, and the sum";
}

TEST(SortedIndexRefusals, NegativeZeroIsZeroTwice) {
    sorted_index<double, payload>::builder builder;
    builder.add(0.0, value_of(1));
    builder.add(-0.0, value_of(2));
    EXPECT_THROW(builder.finish(), sorted_index_error);
}

TEST(SortedIndexRefusals, ABuilderGoesOnAfterARefusal) {
    sorted_index<std::uint32_t, payload>::builder builder;
    builder.add(1, value_of(1));
    builder.add(1, value_of(2));
    EXPECT_THROW(builder.finish(), sorted_index_error);
    EXPECT_THROW((void)builder.build(), sorted_index_error);
    EXPECT_EQ(builder.size(), 2U);
}

TEST(SortedIndex, SearchingForNoNumberFindsNothing) {
    using index = sorted_index<double, payload>;
    index::builder builder;
    for (int i = 0; i < 10; ++i) builder.add(i, value_of(static_cast<std::uint64_t>(i)));
    const auto image = builder.build();
    const auto view = index::view::over(image);
    EXPECT_LE(view.lower_bound(std::nan("")).index(), view.size());
    EXPECT_EQ(view.find(std::numeric_limits<double>::infinity()), view.end());
    EXPECT_EQ(view.find(std::nan("")), view.end());
    EXPECT_EQ(view.find_covering(std::nan("")), view.end());
}

TEST(SortedIndex, WorksWithStandardAlgorithms) {
    using index = sorted_index<std::uint32_t, payload>;
    static_assert(std::random_access_iterator<index::view::iterator>);
    std::vector<index::entry> source;
    for (std::uint32_t i = 0; i < 100; ++i) source.push_back({(i * 37) % 100, value_of(i)});
    index::builder builder;
    std::copy(source.begin(), source.end(), std::back_inserter(builder));
    const auto image = builder.build();
    const auto view = index::view::over(image);
    EXPECT_TRUE(std::ranges::is_sorted(view, {}, [](const index::entry& e) { return e.key; }));
    EXPECT_EQ(std::ranges::distance(view.lower_bound(10), view.upper_bound(19)), 10);
    EXPECT_EQ(view.begin()[42].key, 42U);
    EXPECT_EQ((view.end() - 1)->key, 99U);
}

TEST(SortedIndex, LongerStoredValuesServeOldReaders) {
    struct longer {
        std::uint64_t number;
        std::uint16_t small;
        char text[5];
        std::uint32_t added;
    };
    static_assert(sizeof(longer) > sizeof(payload));
    sorted_index<std::uint32_t, longer>::builder builder;
    for (std::uint32_t i = 0; i < 50; ++i) builder.add(i, {i + 1000, 5, {'x'}, i});
    const auto image = builder.build();
    const auto view = sorted_index<std::uint32_t, payload>::view::over(image);
    for (std::uint32_t i = 0; i < 50; ++i) EXPECT_EQ(view.find(i)->value.number, i + 1000);
    using fewer = sorted_index<std::uint32_t, longer>;
    sorted_index<std::uint32_t, payload>::builder small;
    const auto short_image = small.build();
    EXPECT_THROW((void)fewer::view::over(short_image), holdfast::error);
}

TEST(SortedIndex, AnotherIndexIsRefused) {
    sorted_index<std::uint32_t, payload>::builder builder;
    builder.add(1, value_of(1));
    const auto image = builder.build();
    EXPECT_THROW((void)(sorted_index<std::int32_t, payload>::view::over(image)), holdfast::error);
    EXPECT_THROW((void)(sorted_index<std::uint64_t, payload>::view::over(image)), holdfast::error);
    EXPECT_THROW((void)ranges::view::over(image), holdfast::error);
    EXPECT_THROW((void)(sorted_index<std::uint32_t, payload>::view::over(std::span(image).subspan(8))),
                 holdfast::error);
}

TEST(SortedIndexShape, ImpossibleShapesAreRefusedWithTheReason) {
    const auto key = schema_of<ipv4>("low");
    const auto refusal = [](const container_schema& schema, std::string_view end) -> std::string {
        try {
            (void)index_shape::of(schema, end);
        } catch (const holdfast::error& e) {
            return e.what();
        }
        return "accepted";
    };
    const auto value = holdfast::record_schema::parse_list("high:ipv4,number:u32,country:char[2]");
    EXPECT_EQ(index_shape::of({key, value}, "high").range_end_offset, 0U);
    EXPECT_NE(refusal({key, value}, "number").find("one and the same type"), std::string::npos);
    EXPECT_NE(refusal({key, value}, "none").find("no field none"), std::string::npos);
    EXPECT_NE(refusal({std::nullopt, value}, "").find("no key"), std::string::npos);
    EXPECT_NE(refusal({schema_of<pair_key>(), value}, "high").find("one and the same type"), std::string::npos);
    EXPECT_EQ(index_shape::of({key, std::nullopt}).value_bytes, 0U);
}

TEST(SortedIndexShape, RoundTripsThroughASegmentsWords) {
    const container_schema schema{schema_of<ipv4>("low"),
                                  holdfast::record_schema::parse_list("country:char[2],high:ipv4")};
    const auto shape = index_shape::of(schema, "high");
    const auto words = shape.words();
    const auto parsed = index_shape::parse(words, schema.text(), "x");
    EXPECT_EQ(parsed.words(), words);
    EXPECT_EQ(parsed.range_end(schema), "high");
    for (std::size_t i = 0; i < words.size(); ++i)
        for (const std::uint64_t value : {std::uint64_t{77}, ~std::uint64_t{0}, std::uint64_t{1} << 32}) {
            auto bad = words;
            bad[i] = value;
            EXPECT_THROW((void)index_shape::parse(bad, schema.text(), "x"), holdfast::error) << i << " = " << value;
        }
}

}  // namespace
