// SPDX-License-Identifier: Apache-2.0
// An image of a sorted index that somebody scribbled on: lookups stay inside it and come back; verify finds the damage.
// Images are copied to memory of exactly their size, so that the address sanitizer sees the first byte beyond.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/sorted_index.hpp"
#include "support/image_corruption.hpp"
#include "support/scale.hpp"

namespace {

using holdfast::dynamic_sorted_index_view;
using holdfast::index_shape;
using holdfast::ipv4;
using holdfast::ipv6;
using holdfast::sorted_index;
using holdfast::layout::findings;
using holdfast::layout::sorted_index_header;
using holdfast::layout::sorted_index_image;
using holdfast::test::damage;
using holdfast::test::for_each_bit_flip;
using holdfast::test::for_each_truncation;
using holdfast::test::for_each_word_damage;
using holdfast::test::random_damage;
using holdfast::test::scaled;
using holdfast::test::seeded_random;

template <class K>
struct last_of {
    K last;
    char name[3];
};
template <class K>
using ranges = sorted_index<K, last_of<K>, &last_of<K>::last>;

struct three_parts {
    std::uint16_t a;
    std::int16_t b;
    std::uint32_t c;
};

template <class K>
K key_of(std::uint64_t number) {
    if constexpr (std::is_same_v<K, ipv4>) {
        return {static_cast<std::uint32_t>(number)};
    } else if constexpr (std::is_same_v<K, ipv6>) {
        ipv6 out;
        for (std::size_t i = 0; i < 8; ++i) out.bytes[8 + i] = static_cast<std::uint8_t>(number >> (56 - 8 * i));
        return out;
    } else if constexpr (std::is_same_v<K, three_parts>) {
        return {static_cast<std::uint16_t>(number / 100), static_cast<std::int16_t>(number / 10 % 10),
                static_cast<std::uint32_t>(number % 10)};
    } else if constexpr (std::is_same_v<K, holdfast::fixed_text<5>>) {
        holdfast::fixed_text<5> out;
        for (std::size_t i = 0; i < 5; ++i, number /= 26) out.bytes[4 - i] = static_cast<char>('a' + number % 26);
        return out;
    } else {
        return static_cast<K>(number);
    }
}

// One type for all keys: the view compiles its search for each order and each type that it is called with.
using called_with = std::function<void(std::size_t, const std::optional<std::uint64_t>&)>;

template <class K>
class SortedIndexHostile : public ::testing::Test {
 protected:
    using index = ranges<K>;

    SortedIndexHostile() {
        typename index::builder builder;
        for (std::uint64_t i = 0; i < 12; ++i) builder.add(key_of<K>(10 * i), {key_of<K>(10 * i + 6), {'x', 'y', 'z'}});
        sound_ = builder.build();
        shape_ = std::make_shared<const index_shape>(holdfast::detail::shape_of<K, last_of<K>, &last_of<K>::last>());
    }

    void use(std::span<const std::byte> damaged) {
        // Exactly as long as the image: what lies behind it is out of bounds to the sanitizer.
        const auto bytes = std::make_unique<std::byte[]>(damaged.size());
        std::memcpy(bytes.get(), damaged.data(), damaged.size());
        const std::span<const std::byte> image(bytes.get(), damaged.size());
        findings found;
        holdfast::layout::verify_sorted_index(image, &shape_->key, found);
        found_ = found.count();
        typename index::view view;
        dynamic_sorted_index_view dynamic(shape_);
        accepted_ = view.parse(image) == nullptr;
        const bool dynamic_accepted = dynamic.parse(image) == nullptr;
        for (std::uint64_t number = 0; number < 125; number += 3) {
            const K key = key_of<K>(number);
            const std::span<const std::byte> raw(reinterpret_cast<const std::byte*>(&key), sizeof key);
            if (accepted_) {
                for (const auto it :
                     {view.find(key), view.find_covering(key), view.lower_bound(key), view.upper_bound(key)}) {
                    ASSERT_LE(it.index(), view.size());
                    if (it != view.end()) sum_ += static_cast<unsigned char>(it->value.name[0]);
                }
            }
            if (dynamic_accepted) {
                ASSERT_LE(dynamic.lower_bound(raw), dynamic.size());
                if (const auto position = dynamic.find_covering(raw))
                    sum_ += static_cast<unsigned>(dynamic.value(*position).back());
            }
        }
        if (accepted_) use_many(view);
        if (dynamic_accepted) use_many(dynamic);
        if (accepted_)
            for (const auto& entry : view) sum_ += static_cast<unsigned char>(entry.value.name[1]);
    }

    // Batches of a damaged image say what single lookups of it say, record by record.
    void use_many(const typename index::view& view) {
        const std::vector<K> keys = many_keys();
        std::size_t calls = 0;
        view.find_many(keys, [&](std::size_t i, const auto& it) {
            ASSERT_EQ(i, calls++);
            ASSERT_EQ(it.index(), view.find(keys[i]).index());
            if (it != view.end()) sum_ += static_cast<unsigned char>(it->value.name[0]);
        });
        view.find_covering_many(keys, [&](std::size_t i, const auto& it) {
            ASSERT_EQ(it.index(), view.find_covering(keys[i]).index());
            ++calls;
        });
        ASSERT_EQ(calls, 2 * keys.size());
    }
    void use_many(const dynamic_sorted_index_view& dynamic) {
        const std::vector<K> keys = many_keys();
        const auto raw = std::as_bytes(std::span(keys));
        std::size_t calls = 0;
        dynamic.find_many(raw, called_with([&](std::size_t i, const auto& position) {
                              ASSERT_EQ(position, dynamic.find(raw.subspan(i * sizeof(K), sizeof(K))));
                              ++calls;
                          }));
        dynamic.find_covering_many(raw, called_with([&](std::size_t i, const auto& position) {
                                       ASSERT_EQ(position,
                                                 dynamic.find_covering(raw.subspan(i * sizeof(K), sizeof(K))));
                                       if (position) sum_ += static_cast<unsigned>(dynamic.value(*position).back());
                                       ++calls;
                                   }));
        ASSERT_EQ(calls, 2 * keys.size());
    }
    // A whole group and a piece of one.
    static std::vector<K> many_keys() {
        std::vector<K> keys;
        for (std::uint64_t number = 0; keys.size() < 21; number += 6) keys.push_back(key_of<K>(number));
        return keys;
    }

    std::vector<std::byte> sound_;
    std::shared_ptr<const index_shape> shape_;
    std::uint64_t found_ = 0;
    std::uint64_t sum_ = 0;
    bool accepted_ = false;
};

using hostile_keys = ::testing::Types<ipv4, ipv6, std::int64_t, float, holdfast::fixed_text<5>, three_parts>;
TYPED_TEST_SUITE(SortedIndexHostile, hostile_keys);

TYPED_TEST(SortedIndexHostile, TheSoundImageIsSound) {
    this->use(this->sound_);
    EXPECT_EQ(this->found_, 0U);
    EXPECT_TRUE(this->accepted_);
    EXPECT_GT(this->sum_, 0U);
}

TYPED_TEST(SortedIndexHostile, EveryFlippedBitIsFound) {
    for_each_bit_flip(this->sound_, {"image", 0, this->sound_.size()},
                      [&](const damage& d, std::span<std::byte> image) {
                          this->use(image);
                          EXPECT_GT(this->found_, 0U) << d.text();
                      });
}

TYPED_TEST(SortedIndexHostile, DamagedHeaderWordsNeverLeadOutOfBounds) {
    for_each_word_damage(this->sound_, {"header", 0, sizeof(sorted_index_header)},
                         [&](const damage& d, std::span<std::byte> image) {
                             SCOPED_TRACE(d.text());
                             this->use(image);
                             EXPECT_GT(this->found_, 0U);
                         });
}

TYPED_TEST(SortedIndexHostile, EveryTruncationIsRefused) {
    std::vector<std::size_t> lengths;
    for (std::size_t length = 0; length < this->sound_.size(); length += 3) lengths.push_back(length);
    for_each_truncation(this->sound_, lengths, [&](const damage& d, std::span<std::byte> image) {
        this->use(image);
        EXPECT_FALSE(this->accepted_) << d.text();
        EXPECT_GT(this->found_, 0U) << d.text();
    });
}

TYPED_TEST(SortedIndexHostile, RandomDamageIsHarmless) {
    seeded_random random;
    random_damage(this->sound_, {"image", 0, this->sound_.size()}, random, scaled(3000),
                  [&](const damage& d, std::span<std::byte> image) {
                      SCOPED_TRACE(d.text());
                      this->use(image);
                  });
}

// With the sum made to fit again, order and ranges must be found by themselves, at their place.
TEST(SortedIndexVerify, ReportsWhereOrderAndRangesBreak) {
    using index = ranges<ipv4>;
    index::builder builder;
    for (std::uint32_t i = 0; i < 10; ++i) builder.add({10 * i}, {{10 * i + 6}, {}});
    const auto sound = builder.build();
    const auto damaged = [&](std::uint64_t offset, std::uint32_t value) {
        auto image = sound;
        std::memcpy(image.data() + offset, &value, 4);
        sorted_index_image parsed;
        EXPECT_EQ(sorted_index_image::parse(image, parsed), nullptr);
        const std::uint64_t sum = parsed.computed_checksum();
        std::memcpy(image.data() + offsetof(sorted_index_header, checksum), &sum, 8);
        findings found;
        holdfast::layout::verify_sorted_index(image, nullptr, found);
        return found;
    };
    const auto keys = index::view::over(sound).image().header().keys_offset;
    const auto values = index::view::over(sound).image().header().values_offset;
    const auto unordered = damaged(keys + 4 * 3, 5);
    ASSERT_GE(unordered.count(), 1U);
    EXPECT_EQ(unordered.list()[0].offset, keys + 4 * 3);
    EXPECT_NE(unordered.list()[0].what.find("key 3"), std::string::npos);
    const auto reversed = damaged(values + 8 * 4, 39);
    ASSERT_EQ(reversed.count(), 1U);
    EXPECT_EQ(reversed.list()[0].offset, values + 8 * 4);
    EXPECT_NE(reversed.list()[0].what.find("range 4 ends before"), std::string::npos);
    const auto overlapping = damaged(values + 8 * 4, 50);
    ASSERT_EQ(overlapping.count(), 1U);
    EXPECT_NE(overlapping.list()[0].what.find("range 5 overlaps"), std::string::npos);
}

TEST(SortedIndexVerify, KeepsABoundedNumberOfFindings) {
    sorted_index<std::uint32_t, last_of<std::uint32_t>>::builder builder;
    for (std::uint32_t i = 0; i < 1000; ++i) builder.add(i, {});
    auto image = builder.build();
    std::memset(image.data() + sizeof(sorted_index_header), 0, 4000);
    findings found;
    holdfast::layout::verify_sorted_index(image, nullptr, found);
    EXPECT_EQ(found.count(), 1000U);  // 999 keys not above the one before, and the sum
    EXPECT_EQ(found.list().size(), findings::kept_max);
}

}  // namespace
