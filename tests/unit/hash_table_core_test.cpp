// SPDX-License-Identifier: Apache-2.0
// The algorithms of include/holdfast/hash_table/ over plain bytes.
#include "holdfast/hash_table/core.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <vector>

#include "support/hash_table_image.hpp"
#include "support/prefetch_count.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using test::capacity_for_slots;
using test::geometry_for;
using test::hash_table_image;
using u64 = std::uint64_t;
using status = holdfast::test::table_answer;

struct wide_value {
    u64 words[4];
    friend bool operator==(const wide_value&, const wide_value&) = default;
};
wide_value wide(u64 x) { return {{x, ~x, x * 3, x + 7}}; }

struct odd_key {
    std::array<unsigned char, 13> bytes;
};
struct odd_value {
    std::array<unsigned char, 11> bytes;
    friend bool operator==(const odd_value&, const odd_value&) = default;
};

template <class T>
T make(u64 x) {
    T value{};
    if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(x);
    } else {
        auto* bytes = reinterpret_cast<unsigned char*>(&value);
        for (std::size_t i = 0; i < sizeof value; ++i)
            bytes[i] = static_cast<unsigned char>(i < 8 ? x >> (8 * i) : x * 31 + i);
    }
    return value;
}

TEST(HashTableCore, EmptyTableFindsNothing) {
    hash_table_image<u64, u64> table(geometry_for<u64, u64>(100));
    u64 value = 0;
    for (u64 key = 0; key < 1000; ++key) EXPECT_FALSE(table.find(key, value));
    EXPECT_EQ(table.writer().size(), 0U);
    EXPECT_EQ(table.damage(), "");
}

// A look says what a find says, or nothing; and it says something of nearly all keys, except where a value is on its
// way.
TEST(HashTableCore, ALookAtTheHomeBucketTellsTheTruthOrNothing) {
    using finder = detail::hash_table_finder<detail::fixed_node<u64, wide_value>, detail::tag_match::scalar>;
    using seen = finder::glance;
    hash_table_image<u64, wide_value, detail::tag_match::scalar> table(geometry_for<u64, wide_value>(5000));
    for (u64 key = 0; key < 4800; ++key) ASSERT_EQ(table.try_insert(key, wide(key)), status::inserted);
    const auto look = [&](u64 key, wide_value& value) {
        return table.reader().find_at_home(reinterpret_cast<const std::byte*>(&key),
                                           reinterpret_cast<std::byte*>(&value));
    };
    u64 hits = 0, misses = 0;
    for (u64 key = 0; key < 9600; ++key) {
        wide_value value{};
        const seen what = look(key, value);
        ASSERT_NE(what, key < 4800 ? seen::miss : seen::hit) << key;
        if (what == seen::hit) {
            ASSERT_EQ(value, wide(key));
        }
        hits += what == seen::hit ? 1 : 0;
        misses += what == seen::miss ? 1 : 0;
    }
    EXPECT_GT(hits, 4800U * 3 / 4);
    EXPECT_GT(misses, 4800U * 3 / 4);
    wide_value value{};
    u64 key = 0;
    while (look(key, value) != seen::hit) ++key;
    table.arm_update(key, wide(key + 1));
    const auto bucket = table.view().hash(reinterpret_cast<const std::byte*>(&key)).home(table.view().buckets);
    std::byte* line = table.view().line(bucket);
    detail::store_release<std::uint32_t>(line, detail::version_of(line) | 1U);
    EXPECT_EQ(look(key, value), seen::unsure) << "the old value was given while the new one is in the journal";
    EXPECT_TRUE(table.find(key, value));
    EXPECT_EQ(value, wide(key + 1));
}

TEST(HashTableCore, EachOperationSaysWhatItDid) {
    hash_table_image<u64, u64> table(geometry_for<u64, u64>(100));
    u64 value = 0;
    EXPECT_EQ(table.update(5, 50), status::not_found);
    EXPECT_EQ(table.erase(5), status::not_found);
    EXPECT_EQ(table.try_insert(5, 50), status::inserted);
    EXPECT_EQ(table.try_insert(5, 51), status::exists);
    ASSERT_TRUE(table.find(5, value));
    EXPECT_EQ(value, 50U);
    EXPECT_EQ(table.update(5, 52), status::updated);
    ASSERT_TRUE(table.find(5, value));
    EXPECT_EQ(value, 52U);
    EXPECT_EQ(table.insert_or_assign(5, 53), status::updated);
    EXPECT_EQ(table.insert_or_assign(6, 60), status::inserted);
    ASSERT_TRUE(table.find(5, value));
    EXPECT_EQ(value, 53U);
    EXPECT_EQ(table.writer().size(), 2U);
    EXPECT_EQ(table.erase(5), status::erased);
    EXPECT_FALSE(table.find(5, value));
    EXPECT_EQ(table.writer().size(), 1U);
    EXPECT_EQ(table.damage(), "");
}

TEST(HashTableCore, ZeroAndAllOnesAreOrdinaryKeys) {
    hash_table_image<u64, u64> table(geometry_for<u64, u64>(10));
    u64 value = 1;
    for (u64 key : {u64{0}, ~u64{0}}) {
        EXPECT_FALSE(table.find(key, value));
        EXPECT_EQ(table.try_insert(key, key + 9), status::inserted);
        ASSERT_TRUE(table.find(key, value));
        EXPECT_EQ(value, key + 9);
    }
}

// Every key and value shape that lays nodes out differently: inside one word, across words, with and without padding.
template <class Shape>
class HashTableModel : public ::testing::Test {};

template <class Key, class Value, detail::tag_match Match>
struct shape {
    using key = Key;
    using value = Value;
    static constexpr detail::tag_match match = Match;
};
using shapes = ::testing::Types<
    shape<u64, u64, detail::tag_match::best>, shape<u64, u64, detail::tag_match::scalar>,
    shape<std::uint32_t, std::uint32_t, detail::tag_match::best>, shape<std::uint16_t, u64, detail::tag_match::best>,
    shape<u64, wide_value, detail::tag_match::best>, shape<u64, wide_value, detail::tag_match::scalar>,
    shape<odd_key, odd_value, detail::tag_match::best>, shape<odd_key, std::uint8_t, detail::tag_match::scalar>,
    shape<std::uint32_t, odd_value, detail::tag_match::best>>;
TYPED_TEST_SUITE(HashTableModel, shapes);

TYPED_TEST(HashTableModel, RandomOperationsEqualAnUnorderedMap) {
    using K = typename TypeParam::key;
    using V = typename TypeParam::value;
    test::seeded_random random;
    for (u64 slots : {78U, 200U, 3000U}) {
        hash_table_image<K, V, TypeParam::match> table(geometry_for<K, V>(capacity_for_slots(slots), random()));
        std::unordered_map<u64, V> model;
        const u64 keys = table.geometry().slots() + 20;  // more than fit, so that full happens
        u64 full = 0;
        for (u64 i = 0; i < test::scaled(60'000); ++i) {
            const u64 x = random.below(keys);
            const K key = make<K>(x);
            const V value = make<V>(random());
            const bool known = model.contains(x);
            // Phases: mostly filling, mostly draining, so that both ends are reached.
            const u64 choice = random.below(100);
            const bool filling = (i / 5000) % 2 == 0;
            if (choice < (filling ? 50U : 15U)) {
                const status s = table.insert_or_assign(key, value);
                if (s == status::full) {
                    ++full;
                    ASSERT_FALSE(known);
                } else {
                    ASSERT_EQ(s, known ? status::updated : status::inserted);
                    model[x] = value;
                }
            } else if (choice < (filling ? 60U : 20U)) {
                const status s = table.try_insert(key, value);
                if (s == status::inserted) model[x] = value;
                ASSERT_TRUE(known ? s == status::exists : s == status::inserted || s == status::full);
            } else if (choice < (filling ? 65U : 60U)) {
                ASSERT_EQ(table.erase(key), known ? status::erased : status::not_found);
                model.erase(x);
            } else if (choice < 80) {
                ASSERT_EQ(table.update(key, value), known ? status::updated : status::not_found);
                if (known) model[x] = value;
            } else {
                V found{};
                ASSERT_EQ(table.find(key, found), known);
                if (known) {
                    ASSERT_EQ(found, model[x]);
                }
            }
            ASSERT_EQ(table.writer().size(), model.size());
        }
        if (slots == 78 && !test::sanitized) {
            EXPECT_GT(full, 0U);
        }
        hash_table_verification report;
        EXPECT_EQ(table.damage(&report), "");
        EXPECT_EQ(report.entries, model.size());
        EXPECT_EQ(table.writer().finder().fault(), std::nullopt);
        for (u64 x = 0; x < keys; ++x) {
            V found{};
            ASSERT_EQ(table.find(make<K>(x), found), model.contains(x));
            if (model.contains(x)) {
                EXPECT_EQ(found, model[x]);
            }
        }
    }
}

TEST(HashTableCore, RunTimeSizesReadAndWriteTheSameTable) {
    const auto g = geometry_for<odd_key, odd_value>(500, 99);
    hash_table_image<odd_key, odd_value> table(g);
    const detail::runtime_node node{sizeof(odd_key), sizeof(odd_value)};
    const detail::table_view<std::byte, detail::runtime_node> view(table.bytes(), g, node);
    detail::hash_table_mutator<detail::runtime_node> dynamic(view);
    for (u64 i = 0; i < 500; ++i) {
        const odd_key key = make<odd_key>(i);
        const odd_value value = make<odd_value>(i + 1);
        if (i % 2 == 0)
            EXPECT_EQ(table.try_insert(key, value), status::inserted);
        else
            EXPECT_EQ(dynamic.try_insert(table.as_bytes(key), table.as_bytes(value)), status::inserted);
    }
    // Two writers in turns count each for itself; the table's own count is the last one's.
    for (u64 i = 0; i < 500; ++i) {
        const odd_key key = make<odd_key>(i);
        odd_value a{}, b{};
        EXPECT_TRUE(table.find(key, a));
        EXPECT_NE(dynamic.finder().find(table.as_bytes(key), reinterpret_cast<std::byte*>(&b)), detail::no_slot);
        EXPECT_EQ(a, make<odd_value>(i + 1));
        EXPECT_EQ(a, b);
    }
}

TEST(HashTableCore, AnOldReaderFindsThePrefixOfALongerValue) {
    struct grown {
        u64 a;
        std::uint32_t b;
        std::uint32_t added;
    };
    struct old {
        u64 a;
        std::uint32_t b;
    };
    const auto g = geometry_for<u64, grown>(100);
    hash_table_image<u64, grown> table(g);
    for (u64 key = 0; key < 100; ++key)
        ASSERT_EQ(table.try_insert(key, {key, static_cast<std::uint32_t>(key), 7}), status::inserted);
    const detail::table_view<const std::byte, detail::fixed_node<u64, old>> view(table.bytes(), g, {});
    const detail::hash_table_finder<detail::fixed_node<u64, old>> reader(view);
    for (u64 key = 0; key < 100; ++key) {
        old value{};
        ASSERT_NE(reader.find(table.as_bytes(key), reinterpret_cast<std::byte*>(&value)), detail::no_slot);
        EXPECT_EQ(value.a, key);
        EXPECT_EQ(value.b, key);
    }
}

TEST(HashTableCore, VectorAndScalarMatchAgreeOnAnyLine) {
    test::seeded_random random;
    test::aligned_bytes line(64);
    for (u64 round = 0; round < test::scaled(200'000); ++round) {
        std::uint16_t lanes[32];
        const std::uint16_t wanted = static_cast<std::uint16_t>(random());
        for (std::uint16_t& lane : lanes) {
            // Near misses are where a carry between lanes would show.
            const u64 kind = random.below(6);
            lane = kind == 0   ? wanted
                   : kind == 1 ? static_cast<std::uint16_t>(wanted ^ (1U << random.below(16)))
                   : kind == 2 ? static_cast<std::uint16_t>(wanted + 1)
                   : kind == 3 ? std::uint16_t{0}
                               : static_cast<std::uint16_t>(random());
        }
        std::memcpy(line.bytes().data(), lanes, 64);
        std::uint32_t expected = 0;
        for (unsigned i = 0; i < 26; ++i) expected |= (lanes[6 + i] == wanted ? 1U : 0U) << i;
        ASSERT_EQ(detail::match_tags<detail::tag_match::scalar>(line.bytes().data(), wanted), expected);
        for (unsigned unit = 0; unit <= static_cast<unsigned>(detail::widest_vector_unit()); ++unit)
            ASSERT_EQ(detail::match_tags<detail::tag_match::best>(line.bytes().data(), wanted,
                                                                  static_cast<detail::vector_unit>(unit)),
                      expected)
                << "vector unit " << unit;
    }
}

#if defined(HOLDFAST_HASH_TABLE_WIDER)
alignas(64) std::byte any_line[64];

// A user's own function for AVX2 in a program for the baseline: the compiler inlines ours, and keeps whole registers.
__attribute__((target("avx2"), noinline)) int sum_beside_matches(const int* numbers, int count, std::uint32_t& places) {
    __m256i sum = _mm256_setzero_si256();
    const __m256i one = _mm256_set1_epi32(1);
    for (int i = 0; i < count; i += 8) {
        const __m256i next = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers + i));
        sum = _mm256_add_epi32(sum, _mm256_add_epi32(one, next));
        places |= detail::match_tags<detail::tag_match::best>(any_line, 0x1234, detail::vector_unit::avx2);
    }
    alignas(32) int parts[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(parts), sum);
    int total = 0;
    for (int part : parts) total += part;
    return total;
}

TEST(HashTableCore, MatchLeavesTheRegistersOfWiderTargetsAlone) {
    if (detail::widest_vector_unit() == detail::vector_unit::compiled) GTEST_SKIP() << "this processor has no AVX2";
    int numbers[64];
    for (int i = 0; i < 64; ++i) numbers[i] = i;
    std::uint32_t places = 0;
    EXPECT_EQ(sum_beside_matches(numbers, 64, places), 63 * 64 / 2 + 64);
    EXPECT_EQ(places, 0U);
}
#endif

/// What a finder with these vector instructions sees of keys [0, count), one by one and in batches.
template <class K, class V>
std::vector<std::optional<V>> found_with(const hash_table_image<K, V>& table, detail::vector_unit unit, bool prefetches,
                                         u64 count) {
    auto view = table.view().as_const();
    view.vectors = unit;
    view.prefetches = prefetches;
    const typename hash_table_image<K, V>::finder finder(view);
    std::vector<K> keys;
    for (u64 key = 0; key < count; ++key) keys.push_back(make<K>(key));
    std::vector<std::optional<V>> single, batched(keys.size());
    V value;
    std::byte* const bytes = reinterpret_cast<std::byte*>(&value);
    for (const K& key : keys) {
        const bool there = finder.find(table.as_bytes(key), bytes) != detail::no_slot;
        EXPECT_EQ(finder.find(table.as_bytes(key), nullptr) != detail::no_slot, there);
        single.push_back(there ? std::optional(value) : std::nullopt);
    }
    detail::optional_answers<V> answers{batched};
    detail::find_batch(finder, table.as_bytes(keys.front()), keys.size(), answers);
    EXPECT_EQ(single, batched);
    EXPECT_FALSE(finder.fault());
    return single;
}

template <class K, class V>
void compare_vector_units() {
    constexpr u64 count = 5000;
    hash_table_image<K, V> table(geometry_for<K, V>(capacity_for_slots(count * 100 / 97)));
    std::vector<std::optional<V>> expected(2 * count);
    for (u64 key = 0; key < count; ++key)
        if (table.try_insert(make<K>(key), make<V>(key * 7)) == status::inserted) expected[key] = make<V>(key * 7);
    table.arm_update(make<K>(3), make<V>(99));  // and one value that only the journal holds
    expected[3] = make<V>(99);
    EXPECT_EQ(table.view().vectors, detail::widest_vector_unit()) << "what a handle takes by itself";
    for (unsigned unit = 0; unit <= static_cast<unsigned>(detail::widest_vector_unit()); ++unit)
        for (const bool prefetches : {false, true})
            EXPECT_EQ(found_with(table, static_cast<detail::vector_unit>(unit), prefetches, 2 * count), expected)
                << "vector unit " << unit << (prefetches ? ", prefetching" : "");
}

TEST(HashTableCore, EveryVectorUnitFindsTheSame) {
    compare_vector_units<u64, u64>();
    compare_vector_units<u64, wide_value>();
    compare_vector_units<std::uint32_t, odd_value>();
}

#if defined(__x86_64__)
TEST(HashTableCore, FindAsksForTheEntrysPlaceWithEveryVectorUnit) {
    if (test::sanitized) GTEST_SKIP() << "needs: a build without sanitizers, whose code is stepped through";
    hash_table_image<u64, u64> table(geometry_for<u64, u64>(capacity_for_slots(1000)));
    ASSERT_EQ(table.try_insert(7, 8), status::inserted);
    auto view = table.view().as_const();
    for (unsigned unit = 0; unit <= static_cast<unsigned>(detail::widest_vector_unit()); ++unit)
        for (const bool prefetches : {false, true}) {
            view.vectors = static_cast<detail::vector_unit>(unit);
            view.prefetches = prefetches;
            const hash_table_image<u64, u64>::finder finder(view);
            u64 slot = detail::no_slot;
            EXPECT_EQ(test::count_prefetches([&] { slot = finder.find(table.as_bytes(u64{7}), nullptr); }),
                      prefetches ? 1U : 0U)
                << "vector unit " << unit;
            EXPECT_NE(slot, detail::no_slot);
        }
}
#endif

TEST(HashTableCore, MostEntriesLieWhereReadersGuess) {
    hash_table_image<u64, u64> table(geometry_for<u64, u64>(capacity_for_slots(30'000)));
    const auto view = table.view();
    const u64 count = view.slots() * 9 / 10;
    u64 in_line = 0, beside = 0;
    for (u64 key = 0; key < count; ++key) {
        ASSERT_EQ(table.try_insert(key, key), status::inserted);
        const u64 slot = table.reader().find(table.as_bytes(key), nullptr);
        const u64 guess = view.preferred_slot(view.hash(table.as_bytes(key)));
        EXPECT_EQ(guess / layout::tags_per_line, view.hash(table.as_bytes(key)).home(view.buckets));
        in_line += slot / 4 == guess / 4 ? 1 : 0;
        beside += slot / 8 == guess / 8 ? 1 : 0;
    }
    EXPECT_GT(in_line, count * 75 / 100);
    EXPECT_GT(beside, count * 85 / 100);
}

TEST(HashTableCore, ProbeSequenceNeverMeetsABucketTwice) {
    test::seeded_random random;
    for (u64 slots : {78U, 130U, 200U, 5000U})
        for (int i = 0; i < 1000; ++i) {
            const auto g = geometry_for<u64, u64>(capacity_for_slots(slots));
            const detail::hash_parts h{random()};
            std::vector<u64> met{h.home(g.buckets)};
            detail::probe_pairs pair(met[0], h, g.buckets);
            for (u64 p = 0; p < g.pairs_max; ++p) {
                pair.next();
                met.push_back(pair.first());
                met.push_back(pair.second());
            }
            ASSERT_LT(*std::max_element(met.begin(), met.end()), g.buckets);
            std::sort(met.begin(), met.end());
            ASSERT_EQ(std::unique(met.begin(), met.end()), met.end());
        }
}

TEST(HashTableCore, TagsAreNeverFreeNorReserved) {
    std::vector<unsigned> count(65536);
    for (u64 low = 0; low < 65536; ++low) ++count[detail::hash_parts{low}.tag()];
    for (u64 tag = 0; tag < 65536; ++tag) {
        EXPECT_EQ(detail::is_key_tag(static_cast<std::uint16_t>(tag)), tag != 0 && tag < 0xff00);
        if (!detail::is_key_tag(static_cast<std::uint16_t>(tag))) {
            EXPECT_EQ(count[tag], 0U);
        } else {
            EXPECT_LE(count[tag], 3U);
        }
    }
}

TEST(HashTableCore, FullTableRefusesNewKeysAndStillUpdatesOldOnes) {
    hash_table_image<u64, wide_value> table(geometry_for<u64, wide_value>(60));
    u64 count = 0;
    while (table.try_insert(count, wide(count)) == status::inserted) ++count;
    EXPECT_EQ(table.try_insert(count, wide(0)), status::full);
    EXPECT_EQ(table.insert_or_assign(count, wide(0)), status::full);
    EXPECT_EQ(table.writer().size(), count);
    EXPECT_EQ(count, table.geometry().slots());  // three buckets, one pair: every slot is reachable from everywhere
    for (u64 key = 0; key < count; ++key) EXPECT_EQ(table.insert_or_assign(key, wide(key + 1)), status::updated);
    EXPECT_EQ(table.erase(7), status::erased);
    EXPECT_EQ(table.try_insert(count, wide(5)), status::inserted);
    EXPECT_EQ(table.damage(), "");
}

TEST(HashTableCore, SlotsNeverMoveWhileTheirEntryLives) {
    hash_table_image<u64, u64> table(geometry_for<u64, u64>(900));
    auto& writer = table.writer();
    std::vector<u64> slots;
    for (u64 key = 0; key < 900; ++key)
        slots.push_back(writer.try_insert(table.as_bytes(key), table.as_bytes(key)).slot);
    for (u64 key = 0; key < 900; key += 3) ASSERT_EQ(table.erase(key), status::erased);
    for (u64 key = 2000; key < 2250; ++key) ASSERT_EQ(table.try_insert(key, key), status::inserted);
    for (u64 key = 0; key < 900; ++key) {
        if (key % 3 == 0) continue;
        EXPECT_EQ(writer.finder().find(table.as_bytes(key), nullptr), slots[key]);
        u64 stored = 0, value = 0;
        ASSERT_TRUE(writer.finder().read_slot(slots[key], reinterpret_cast<std::byte*>(&stored),
                                              reinterpret_cast<std::byte*>(&value)));
        EXPECT_EQ(stored, key);
    }
    EXPECT_FALSE(writer.finder().read_slot(table.geometry().slots(), nullptr, nullptr));
    EXPECT_FALSE(writer.finder().read_slot(~u64{0}, nullptr, nullptr));
}

TEST(HashTableCore, BatchFindsWhatSingleFindsFind) {
    test::seeded_random random;
    hash_table_image<u64, u64> table(geometry_for<u64, u64>(5000, random()));
    for (u64 key = 0; key < 5000; ++key) ASSERT_EQ(table.try_insert(key * 7, key), status::inserted);
    for (std::size_t count : {0U, 1U, 15U, 16U, 17U, 31U, 32U, 33U, 64U, 65U, 100U, 1000U, 2000U}) {
        auto view = table.view().as_const();
        EXPECT_FALSE(view.prefetches) << "a table this small is meant to be searched key by key";
        view.prefetches = count != 2000;
        const hash_table_image<u64, u64>::finder finder(view);
        std::vector<u64> keys(count), values(count);
        for (u64& key : keys) key = random.below(70000);
        std::vector<unsigned> told(count);
        detail::answers_in_place answers{[&](std::size_t i) { return reinterpret_cast<std::byte*>(&values[i]); },
                                         [&](std::size_t i, bool there) {
                                             ++told[i];
                                             u64 value = 0;
                                             EXPECT_EQ(table.find(keys[i], value), there);
                                             if (there) {
                                                 EXPECT_EQ(values[i], value);
                                             }
                                         }};
        detail::find_batch(finder, reinterpret_cast<const std::byte*>(keys.data()), count, answers);
        EXPECT_EQ(told, std::vector<unsigned>(count, 1)) << "each key is told of once";
    }
}

TEST(HashTableCore, BatchOfKeysThatAreAllFarFromHome) {
    // As full as it gets, so that most batches hold several keys of which a look at home does not tell: more than wait
    // at a time.
    hash_table_image<u64, u64> table(geometry_for<u64, u64>(3000));
    std::vector<u64> far;
    u64 key = 0;
    while (table.try_insert(key, key + 1) == status::inserted) ++key;
    for (u64 one = 0; one < 2 * key; ++one) {
        const auto& view = table.view();
        const std::uint64_t home = view.hash(table.as_bytes(one)).home(view.buckets);
        const std::uint64_t slot = table.reader().find(table.as_bytes(one), nullptr);
        if (slot == detail::no_slot ? one % 4 == 0 : slot / layout::tags_per_line != home) far.push_back(one);
    }
    ASSERT_GT(far.size(), 200U);
    for (const bool prefetches : {false, true}) {
        auto view = table.view().as_const();
        view.prefetches = prefetches;
        std::vector<std::optional<u64>> found(far.size(), 7);
        detail::optional_answers<u64> answers{found};
        detail::find_batch(hash_table_image<u64, u64>::finder(view), table.as_bytes(far.front()), far.size(), answers);
        u64 count = 0;
        for (std::size_t i = 0; i < far.size(); ++i) {
            EXPECT_EQ(found[i], far[i] < key ? std::optional(far[i] + 1) : std::nullopt);
            count += found[i].has_value() ? 1 : 0;
        }
        EXPECT_EQ(answers.count, count);
    }
}

#if defined(__x86_64__)
// The line of each key and the node that it shows; and where the last batch found its keys the entry's likely place,
// before the line is there.
TEST(HashTableCore, BatchAsksForPlacesWhereTheLastOneFoundItsKeys) {
    if (test::sanitized) GTEST_SKIP() << "needs: a build without sanitizers, whose code is stepped through";
    constexpr std::size_t n = detail::batch_group;
    hash_table_image<u64, u64> table(geometry_for<u64, u64>(capacity_for_slots(1000)));
    std::vector<u64> there(n), absent(n);
    std::iota(there.begin(), there.end(), u64{0});
    std::iota(absent.begin(), absent.end(), u64{n});
    for (const u64 key : there) ASSERT_EQ(table.try_insert(key, key), status::inserted);
    std::vector<std::optional<u64>> found(n);
    auto view = table.view().as_const();
    const auto asks_for = [&](const auto& finder, const std::vector<u64>& keys) {
        detail::optional_answers<u64> answers{found};
        return test::count_prefetches([&] { detail::find_batch(finder, table.as_bytes(keys[0]), n, answers); });
    };
    view.prefetches = true;
    const hash_table_image<u64, u64>::finder finder(view);
    EXPECT_EQ(asks_for(finder, there), 3 * n);
    EXPECT_EQ(asks_for(finder, absent), 2 * n);
    EXPECT_EQ(asks_for(finder, absent), n);
    const hash_table_image<u64, u64>::finder copy = finder;
    EXPECT_EQ(asks_for(finder, there), 2 * n);
    EXPECT_EQ(asks_for(finder, there), 3 * n);
    EXPECT_EQ(asks_for(copy, there), 2 * n) << "a handle has learned what the one did that it is a copy of";
    view.prefetches = false;
    EXPECT_EQ(asks_for(hash_table_image<u64, u64>::finder(view), there), 0U);
}
#endif

TEST(HashTableCore, RecountMakesCountersExact) {
    hash_table_image<u64, u64> table(geometry_for<u64, u64>(capacity_for_slots(3000)));
    u64 key = 0;
    while (table.try_insert(key, key) == status::inserted) ++key;
    for (u64 k = 0; k < key; k += 2) ASSERT_EQ(table.erase(k), status::erased);
    // What kills and sticky counters leave behind: some too high by a few, some at 15.
    u64 raised = 0;
    for (u64 bucket = 0; bucket < table.geometry().buckets; bucket += 3) {
        std::byte* line = table.view().line(bucket);
        const std::uint8_t old = detail::counter_of(line, bucket % 16);
        if (old > 12) continue;
        detail::set_counter(line, bucket % 16, bucket % 2 == 0 ? std::uint8_t{15} : static_cast<std::uint8_t>(old + 2));
        ++raised;
    }
    hash_table_verification report;
    ASSERT_EQ(table.damage(&report), "");
    ASSERT_GE(report.counters_too_high, raised);
    ASSERT_GT(raised, 10U);
    EXPECT_EQ(detail::recount(table.view()), report.counters_too_high);
    ASSERT_EQ(table.damage(&report), "");
    EXPECT_EQ(report.counters_too_high, 0U);
    EXPECT_EQ(detail::recount(table.view()), 0U);
    for (u64 k = 1; k < key; k += 2) {
        u64 value = 0;
        EXPECT_TRUE(table.find(k, value));
    }
}

}  // namespace
