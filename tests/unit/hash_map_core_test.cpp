// SPDX-License-Identifier: Apache-2.0
// The hash map over plain bytes: what is stored is what is found, whatever the sizes; conditions, counters, and every
// answer; random histories against a model, with successors in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/map_bench.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

TEST(HashMap, AZeroedBodyIsAnEmptyMap) {
    map_bench bench({});
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    EXPECT_EQ(difference(bench.reader(), {}), "");
    const hash_map_usage usage = bench.reader().usage();
    EXPECT_TRUE(usage);
    EXPECT_EQ(usage.entries, 0U);
    EXPECT_EQ(usage.units, 48U);
    EXPECT_EQ(usage.units_used, 0U);
    EXPECT_EQ(usage.capacity, 70U);
    const map_writer writer = bench.writer();
    EXPECT_FALSE(writer.recovery().operation_finished);
    EXPECT_FALSE(writer.recovery().record_rebuilt);
}

TEST(HashMap, KeysAndValuesOfEverySizeComeBack) {
    map_bench bench({.units = 4000, .capacity = 400});
    map_writer writer = bench.writer();
    map_model model;
    for (std::size_t i = 0; i < 300; ++i) {
        // All key sizes from none on, values from none on.
        const std::string key(i % 150, static_cast<char>('a' + i / 150));
        if (i == 150) continue;  // the empty key once
        const map_content what{i, i * 7 % 300};
        const hash_map_result kept = put(writer, key, what);
        ASSERT_TRUE(kept) << i;
        EXPECT_EQ(kept.what, entry_change::inserted);
        model[key] = what;
    }
    EXPECT_EQ(difference(bench.reader(), model), "");
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    for (auto& [key, what] : model) {
        what = {what.seed + 1000, (what.bytes + 50) % 300};
        const hash_map_result kept = put(writer, key, what);
        ASSERT_TRUE(kept);
        EXPECT_EQ(kept.what, entry_change::updated);
    }
    EXPECT_EQ(difference(bench.reader(), model), "");
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    EXPECT_EQ(miscounted(bench.view().store.as_const()), "");
    EXPECT_EQ(leaks(bench.view()), "");
}

TEST(HashMap, LargeValuesAndKeysComeBack) {
    for (const std::uint64_t unit_bytes : {64U, 1024U}) {
        map_bench bench({.units = (6U << 20) / unit_bytes, .capacity = 10, .unit_bytes = unit_bytes});
        map_writer writer = bench.writer();
        const std::string key(100'000, 'k');
        map_model model{{key, {1, 300'000}}, {"b", {2, 1'000'001}}, {key + "x", {3, 0}}};
        for (const auto& [k, what] : model) ASSERT_TRUE(put(writer, k, what));
        EXPECT_EQ(difference(bench.reader(), model), "");
        EXPECT_EQ(damage_of(bench.view().as_const()), "");
    }
}

// Keys that agree in their bytes but not in their size, or in all but one bit.
TEST(HashMap, NearlyTheSameKeyIsAnother) {
    map_bench bench({.units = 2000, .capacity = 1000});
    map_writer writer = bench.writer();
    std::set<std::string> keys;
    for (std::size_t bytes = 0; bytes < 20; ++bytes) keys.insert(std::string(bytes, '\0'));
    for (std::size_t bit = 0; bit < 8 * 12; ++bit) {
        std::string key(12, '\x55');
        key[bit / 8] = static_cast<char>(key[bit / 8] ^ (1 << bit % 8));
        keys.insert(key);
        keys.insert(key.substr(0, 8));
        keys.insert(key.substr(0, 7));
    }
    map_model model;
    for (const std::string& key : keys) {
        EXPECT_FALSE(is_there(bench.reader(), key));
        model[key] = {model.size(), 9};
        ASSERT_TRUE(put(writer, key, model[key]));
    }
    EXPECT_EQ(difference(bench.reader(), model), "");
}

TEST(HashMap, ConditionsDecideAndChangeNothingWhenTheyDoNotHold) {
    using when = holdfast::detail::map_condition;
    map_bench bench({});
    map_writer writer = bench.writer();
    const auto key = as_key("a long enough key");
    const auto one = whole_object(1, 10), two = whole_object(2, 20);
    EXPECT_EQ(writer.set(key, one, {}, {when::present}).status, outcome::not_found);
    EXPECT_EQ(writer.set(key, one, {}, {when::same, 77}).status, outcome::stale);
    const hash_map_result first = writer.set(key, one, {}, {when::absent});
    ASSERT_TRUE(first);
    const auto exists = writer.set(key, two, {}, {when::absent});
    EXPECT_EQ(exists.status, outcome::exists);
    EXPECT_EQ(exists.handle, first.handle);
    const auto stale = writer.set(key, two, {}, {when::same, 0});
    EXPECT_EQ(stale.status, outcome::stale);
    EXPECT_EQ(stale.handle, first.handle);
    EXPECT_TRUE(holds(bench.reader(), "a long enough key", {1, 10}));
    EXPECT_EQ(writer.changes(), 1U);
    const hash_map_result second = writer.set(key, two, {}, {when::same, first.handle});
    ASSERT_TRUE(second);
    EXPECT_NE(second.handle, first.handle);
    EXPECT_EQ(writer.set(key, one, {}, {when::same, first.handle}).status, outcome::stale);
    EXPECT_EQ(writer.erase(key, {when::same, first.handle}).status, outcome::stale);
    EXPECT_TRUE(holds(bench.reader(), "a long enough key", {2, 20}));
    ASSERT_TRUE(writer.set(key, one, {}, {when::present}));
    EXPECT_TRUE(writer.erase(key));
    EXPECT_EQ(writer.erase(key).status, outcome::not_found);
    EXPECT_TRUE(writer.set(key, one, {}, {when::same, 0}));
    EXPECT_EQ(writer.changes(), 5U);
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
}

TEST(HashMap, AnswersTellSizesHandlesAndFlags) {
    map_bench bench({});
    map_writer writer = bench.writer();
    const hash_map_result kept = put(writer, "k", {1, 100}, {.ttl = std::chrono::seconds(0), .flags = 0xdeadbeef});
    std::vector<std::byte> out(99, std::byte{0x55});
    hash_map_found got = bench.reader().find(as_key("k"), std::span(out));
    EXPECT_EQ(got.status, outcome::too_small);
    EXPECT_EQ(got.count, 100U);
    EXPECT_TRUE(std::ranges::all_of(out, [](std::byte b) { return b == std::byte{0x55}; })) << "nothing is copied";
    out.resize(100);
    got = bench.reader().find(as_key("k"), std::span(out));
    EXPECT_TRUE(got);
    EXPECT_EQ(got.handle, kept.handle);
    EXPECT_EQ(got.flags, 0xdeadbeefU);
    EXPECT_EQ(got.ttl.count(), 0);
    EXPECT_EQ(bench.reader().find(as_key("K"), std::span(out)).status, outcome::not_found);
    EXPECT_EQ(writer.reader().fault(), std::nullopt);
}

TEST(HashMap, AnEmptyValueIsShownOnce) {
    for (const std::size_t key_bytes : {std::size_t{0}, std::size_t{8}, std::size_t{24}, std::size_t{500}}) {
        map_bench bench({});
        map_writer writer = bench.writer();
        const std::string key(key_bytes, 'e');
        ASSERT_TRUE(put(writer, key, {1, 0}));
        unsigned shown = 0;
        EXPECT_TRUE(bench.reader().find(as_key(key),
                                        [&](std::span<const std::byte> piece, std::uint64_t at, std::uint64_t bytes) {
                                            ++shown;
                                            EXPECT_TRUE(piece.empty());
                                            EXPECT_EQ(at, 0U);
                                            EXPECT_EQ(bytes, 0U);
                                        }));
        EXPECT_EQ(shown, 1U);
    }
}

// Every second unit is taken: entries lie in many runs, with key and value cut anywhere.
TEST(HashMap, ScatteredEntriesAreWhole) {
    for (const std::size_t key_bytes : {std::size_t{5}, std::size_t{30}, std::size_t{200}}) {
        map_bench bench({.units = 120, .capacity = 200});
        map_writer writer = bench.writer();
        for (std::uint64_t i = 0; i < 120; ++i) ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
        map_model model;
        for (std::uint64_t i = 0; i < 120; ++i) {
            if (i % 2 == 0)
                ASSERT_TRUE(writer.erase(as_key(std::to_string(i))));
            else
                model[std::to_string(i)] = {i, 0};
        }
        const std::string key(key_bytes, 's');
        for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{500}, std::size_t{999}}) {
            ASSERT_TRUE(put(writer, key, {bytes, bytes})) << bytes;
            model[key] = {bytes, bytes};
            ASSERT_EQ(difference(bench.reader(), model), "") << key_bytes << " " << bytes;
            const auto added = writer.fetch_add<std::uint8_t>(as_key(key), bytes / 2, 1);
            EXPECT_EQ(added.status, bytes == 0 ? outcome::out_of_range : outcome::ok);
            if (bytes != 0) {
                EXPECT_EQ(added.before, static_cast<std::uint8_t>(whole_object(bytes, bytes)[bytes / 2]));
                (void)writer.fetch_add<std::uint8_t>(as_key(key), bytes / 2, 0xff);  // back again
            }
            ASSERT_EQ(difference(bench.reader(), model), "");
        }
        EXPECT_EQ(damage_of(bench.view().as_const()), "");
        EXPECT_EQ(leaks(bench.view()), "");
    }
}

// A copy walks the runs once, as a set does: with a walk for each piece it took hundreds of times as long.
TEST(HashMap, ATouchOfAScatteredValueCostsWhatASetOfItCosts) {
    constexpr std::uint64_t count = 60'000;
    map_bench bench({.units = count, .capacity = count});
    map_writer writer = bench.writer();
    for (std::uint64_t i = 0; i < count; ++i) ASSERT_TRUE(put(writer, std::to_string(i), {i, 0}));
    for (std::uint64_t i = 0; i < count; i += 2) ASSERT_TRUE(writer.erase(as_key(std::to_string(i))));
    const map_content large{1, count / 5 * 56};
    const auto object = whole_object(large.seed, large.bytes);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(writer.set(as_key("large"), object));
    const auto middle = std::chrono::steady_clock::now();
    ASSERT_TRUE(writer.touch(as_key("large"), std::chrono::seconds(0)));
    const auto end = std::chrono::steady_clock::now();
    EXPECT_LT(end - middle, 50 * (middle - begin));
    EXPECT_TRUE(holds(bench.reader(), "large", large));
}

template <class T>
class HashMapFetchAdd : public ::testing::Test {};
using numbers = ::testing::Types<std::uint8_t, std::int16_t, std::uint32_t, std::int64_t, std::uint64_t, double>;
TYPED_TEST_SUITE(HashMapFetchAdd, numbers);

TYPED_TEST(HashMapFetchAdd, ChangesTheFieldAndNothingElse) {
    using T = TypeParam;
    map_bench bench({});
    map_writer writer = bench.writer();
    for (const std::size_t offset : {std::size_t{0}, std::size_t{3}, std::size_t{61}, std::size_t{100 - sizeof(T)}}) {
        std::vector<std::byte> value(100, std::byte{0x11});
        T now = 100;
        std::memcpy(value.data() + offset, &now, sizeof(T));
        ASSERT_TRUE(writer.set(as_key("c"), value, {.ttl = std::chrono::seconds(1000), .flags = 9}));
        for (const T addend : {T{1}, T{27}, static_cast<T>(-5), T{100}, T{100}}) {
            const hash_map_added<T> got = writer.template fetch_add<T>(as_key("c"), offset, addend);
            ASSERT_TRUE(got);
            EXPECT_EQ(got.before, now);
            now = static_cast<T>(now + addend);
            std::memcpy(value.data() + offset, &now, sizeof(T));
            std::vector<std::byte> out(100);
            const hash_map_found found = bench.reader().find(as_key("c"), std::span(out));
            ASSERT_TRUE(found);
            EXPECT_EQ(found.handle, got.handle);
            EXPECT_EQ(found.flags, 9U);
            EXPECT_EQ(found.ttl.count(), 1000);
            EXPECT_EQ(out, value);
        }
    }
    EXPECT_EQ(writer.template fetch_add<T>(as_key("c"), 101 - sizeof(T), T{1}).status, outcome::out_of_range);
    EXPECT_EQ(writer.template fetch_add<T>(as_key("c"), ~std::uint64_t{0}, T{1}).status, outcome::out_of_range);
    EXPECT_EQ(writer.template fetch_add<T>(as_key("d"), 0, T{1}).status, outcome::not_found);
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    EXPECT_EQ(leaks(bench.view()), "");
}

TEST(HashMap, AFullMapRefusesAndStaysAsItWas) {
    map_bench bench({.units = 20, .capacity = 70});
    map_writer writer = bench.writer();
    map_model model;
    for (std::uint64_t i = 0;; ++i) {
        const hash_map_result kept = put(writer, std::to_string(i), {i, 100});
        if (!kept) {
            EXPECT_EQ(kept.status, outcome::full);
            break;
        }
        model[std::to_string(i)] = {i, 100};
    }
    EXPECT_EQ(model.size(), 6U) << "3 units each";
    EXPECT_EQ(put(writer, "0", {1, 500}).status, outcome::full) << "old and new need room at once";
    EXPECT_EQ(put(writer, "x", {1, 20 * 64}).status, outcome::too_large);
    EXPECT_EQ(writer.fetch_add<std::uint32_t>(as_key("0"), 0, 1).status, outcome::full);
    EXPECT_EQ(writer.fetch_add<std::uint32_t>(as_key("0"), 97, 1).status, outcome::out_of_range)
        << "room would not help";
    EXPECT_EQ(difference(bench.reader(), model), "");
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    EXPECT_EQ(leaks(bench.view()), "");
}

TEST(HashMap, AFullTableRefusesAndLeavesNothingBehind) {
    map_bench bench({.units = 400, .capacity = 1});
    map_writer writer = bench.writer();
    map_model model;
    for (std::uint64_t i = 0; i < 300; ++i) {
        const hash_map_result kept = put(writer, map_key(i), {i, 3});
        if (!kept) {
            EXPECT_EQ(kept.status, outcome::full);
            break;
        }
        model[map_key(i)] = {i, 3};
    }
    EXPECT_GE(model.size(), 70U);
    EXPECT_LE(model.size(), 78U);
    const std::uint64_t changes = writer.changes();
    EXPECT_EQ(changes, model.size());
    EXPECT_EQ(put(writer, map_key(300), {1, 3}).status, outcome::full);
    EXPECT_EQ(writer.changes(), changes);
    EXPECT_EQ(difference(bench.reader(), model), "");
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    EXPECT_EQ(bench.writer().changes(), changes) << "a successor counts on";
    EXPECT_EQ(leaks(bench.view()), "");
}

TEST(HashMap, AScanMeetsWhatStaysOnceWhateverIsWritten) {
    seeded_random random;
    map_bench bench({.units = 2000, .capacity = 500});
    map_writer writer = bench.writer();
    map_model stays;
    for (std::uint64_t i = 0; i < 200; ++i) {
        stays[map_key(i)] = {i, i % 90};
        ASSERT_TRUE(put(writer, map_key(i), stays[map_key(i)]));
    }
    for (unsigned round = 0; round < 20; ++round) {
        std::map<std::string, unsigned> met;
        hash_map_entry entry;
        std::uint64_t cursor = 0;
        while (bench.reader().next_entry(cursor, entry) == outcome::ok) {
            const std::string key(reinterpret_cast<const char*>(entry.key.data()), entry.key.size());
            ++met[key];
            if (stays.contains(key)) {
                EXPECT_TRUE(is_whole(entry.value, stays[key].seed));
            }
            for (unsigned i = 0; i < 3; ++i) {
                const std::string other = map_key(1000 + random.below(200));
                if (random.below(2) == 0)
                    (void)put(writer, other, {random(), static_cast<std::size_t>(random.below(90))});
                else
                    (void)writer.erase(as_key(other));
            }
            const std::string again = map_key(random.below(200));
            stays[again] = {random(), static_cast<std::size_t>(random.below(90))};
            ASSERT_TRUE(put(writer, again, stays[again]));
        }
        for (const auto& [key, what] : stays) EXPECT_EQ(met[key], 1U);
    }
}

// A foreign key under a key's digest: readers do not find it, a writer says so, and nothing is lost.
TEST(HashMap, ACollisionIsToldAndNothingIsLost) {
    map_bench bench({});
    map_writer writer = bench.writer();
    const std::string mine(20, 'm'), other(20, 'o');
    const hash_map_result kept = put(writer, mine, {1, 10});
    const auto digest = holdfast::detail::digest_of(as_key(other), bench.view().seed());
    holdfast::detail::hash_table_mutator<holdfast::detail::map_node> table(bench.view().table);
    (void)table.insert_or_assign(digest.bytes(), reinterpret_cast<const std::byte*>(&kept.handle));
    writer = bench.writer();
    EXPECT_FALSE(is_there(bench.reader(), other));
    EXPECT_EQ(put(writer, other, {2, 10}).status, outcome::collision);
    EXPECT_EQ(writer.erase(as_key(other)).status, outcome::collision);
    EXPECT_EQ(writer.fetch_add<std::uint8_t>(as_key(other), 0, 1).status, outcome::collision);
    EXPECT_TRUE(holds(bench.reader(), mine, {1, 10}));
    EXPECT_NE(damage_of(bench.view().as_const()).find("another key"), std::string::npos);
}

TEST(HashMap, DigestsHaveTheirValues) {
    using holdfast::detail::digest_of;
    EXPECT_EQ(digest_of(as_key(""), 1), (holdfast::detail::map_digest{{0, std::uint64_t{1} << 63}}));
    EXPECT_EQ(digest_of(as_key("abcdefgh"), 1),
              (holdfast::detail::map_digest{{0x6867666564636261U, (std::uint64_t{1} << 63) + 8}}));
    // Part of the layout: these never change.
    const auto long_one = digest_of(as_key("abcdefghi"), 1);
    EXPECT_EQ(long_one.word[1] >> 63, 0U);
    EXPECT_NE(long_one, digest_of(as_key("abcdefghi"), 2));
    EXPECT_NE(long_one, digest_of(as_key("abcdefghj"), 1));
    EXPECT_NE(digest_of(as_key(std::string(9, '\0')), 1), digest_of(as_key(std::string(10, '\0')), 1));
    using holdfast::detail::map_digest;
    EXPECT_EQ(long_one, (map_digest{{0x414853428e80f61dU, 0x65fc047826d5c5b3U}}));
    EXPECT_EQ(digest_of(as_key("the quick brown fox"), 1), (map_digest{{0x8847634bfff55583U, 0x38968c86098988f6U}}));
    EXPECT_EQ(digest_of(as_key("the quick brown fox jumps over the lazy dog"), 1),
              (map_digest{{0xacd9dd7f1bba2818U, 0x48ccd67b944e81a6U}}));
    // What the table makes of them.
    const std::uint64_t start = holdfast::detail::hash_start(1, sizeof(map_digest));
    EXPECT_EQ(holdfast::detail::hash_of_digest(long_one, start), long_one.word[0]);
    EXPECT_EQ(holdfast::detail::hash_of_digest(digest_of(as_key("abcdefgh"), 1), start), 0xb5e5491a522def8dU);
}

// In private memory as in the store, where the words come one by one.
TEST(HashMap, DigestsOfKeysOfEverySizeAreThoseOfTheirWords) {
    const holdfast::detail::map_secrets secrets(42);
    for (std::size_t bytes = 0; bytes < 200; ++bytes) {
        const auto key = whole_object(bytes, bytes);
        holdfast::detail::map_digester digester(secrets, bytes);
        for (std::size_t at = 0; at < bytes; at += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, key.data() + at, std::min<std::size_t>(8, bytes - at));
            digester.add(word);
        }
        EXPECT_EQ(holdfast::detail::digest_of(key, secrets), digester.digest()) << bytes;
    }
}

// A second reading of hash_map/digest.hpp for keys of more than 8 bytes, byte by byte.
std::uint64_t hash_by_definition(std::span<const std::byte> key, const std::uint64_t (&secret)[5]) {
    using uint128 = holdfast::detail::uint128;
    const auto word = [&](std::size_t number) {
        std::uint64_t w = 0;
        for (std::size_t i = 8 * number; i < key.size() && i < 8 * number + 8; ++i)
            w |= std::to_integer<std::uint64_t>(key[i]) << (8 * (i % 8));
        return w;
    };
    std::uint64_t hash = secret[4] ^ key.size();
    for (std::size_t block = 0; 32 * block < key.size(); ++block) {
        uint128 sum = 0;
        for (std::size_t at = 4 * block; at < 4 * block + 4 && 8 * at < key.size(); at += 2)
            sum += uint128{word(at) + secret[at % 4]} * (word(at + 1) + secret[at % 4 + 1]);
        const uint128 product = uint128{hash ^ static_cast<std::uint64_t>(sum)} * static_cast<std::uint64_t>(sum >> 64);
        hash = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    }
    return hash;
}

TEST(HashMap, DigestsEqualTheirDefinitionForAllSizes) {
    seeded_random random;
    for (std::size_t bytes = 9; bytes < 140; ++bytes) {
        const std::uint64_t seed = random();
        std::uint64_t state = seed, secret[2][5];
        for (auto& hash : secret)
            for (std::uint64_t& word : hash) {  // SplitMix64
                word = state += 0x9e3779b97f4a7c15U;
                word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9U;
                word = (word ^ word >> 27) * 0x94d049bb133111ebU;
                word ^= word >> 31;
            }
        const auto key = whole_object(random(), bytes);
        const auto digest = holdfast::detail::digest_of(key, seed);
        EXPECT_EQ(digest.word[0], hash_by_definition(key, secret[0])) << bytes;
        EXPECT_EQ(digest.word[1], hash_by_definition(key, secret[1]) & ~(std::uint64_t{1} << 63)) << bytes;
        EXPECT_EQ(holdfast::detail::hash_of_digest(digest, seed), digest.word[0]) << bytes;
    }
}

// Keys as programs have them: words that count up in steps, one of two to five, and numbers in texts. The table's
// buckets come from the top bits of their hash, its tags from the low ones: both must look random.
TEST(HashMap, StructuredKeysSpreadOverTopAndLowBits) {
    constexpr std::uint64_t count = 1U << 16, bins = 1U << 8;
    const auto lumps = [&](const std::vector<unsigned>& counts) {
        const double expected = static_cast<double>(count) / bins;
        double chi = 0;
        for (const unsigned c : counts) chi += (c - expected) * (c - expected) / expected;
        return chi;
    };
    const auto spread = [&](const std::string& what, std::uint64_t seed, const auto& key_of) {
        const holdfast::detail::map_secrets secrets(seed);
        const std::uint64_t start = holdfast::detail::hash_start(seed, sizeof(holdfast::detail::map_digest));
        std::vector<unsigned> top(bins), low(bins);
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto hash = holdfast::detail::hash_of_digest(digest_of(key_of(i), secrets), start);
            ++top[hash >> 56];
            ++low[hash % bins];
        }
        // 255 degrees of freedom: mean 255, deviation 22.6. More even than random is welcome, lumps are not.
        EXPECT_LT(lumps(top), 255 + 8 * 22.6) << what << ", top, seed " << seed;
        EXPECT_LT(lumps(low), 255 + 8 * 22.6) << what << ", low, seed " << seed;
    };
    for (const std::uint64_t seed : {0U, 1U, 77U}) {
        for (const unsigned shift : {0U, 3U, 12U, 20U, 32U, 46U})
            for (std::size_t words = 1; words <= 5; ++words)
                for (std::size_t counting = 0; counting < words; ++counting) {
                    std::uint64_t key[5] = {};
                    spread(std::to_string(words) + " words, shift " + std::to_string(shift), seed,
                           [&](std::uint64_t i) {
                               key[counting] = i << shift;
                               return std::as_bytes(std::span(key, words));
                           });
                }
        for (const std::size_t bytes : {5U, 8U, 9U, 12U, 17U, 30U, 33U, 70U}) {
            std::string key(bytes, 'k');
            spread("texts of " + std::to_string(bytes), seed, [&](std::uint64_t i) {
                const std::string digits = std::to_string(100'000 + i).substr(1);
                key.replace(bytes - 5, 5, digits);
                return as_key(key);
            });
        }
    }
}

// Random histories, with successors in between, over several shapes.
TEST(HashMap, RandomHistoriesAgreeWithAModel) {
    seeded_random random;
    for (std::uint64_t round = 0; round < scaled(40); ++round) {
        const map_shape shape{.units = 40 + random.below(300),
                              .capacity = 1 + random.below(200),
                              .unit_bytes = std::uint64_t{64} << random.below(3)};
        map_bench bench(shape);
        map_writer writer = bench.writer();
        map_model model;
        const std::uint64_t keys = 1 + random.below(60), sizes = 1 + random.below(400);
        for (std::uint64_t i = 0; i < 500; ++i) {
            const std::string key = map_key(random.below(keys));
            const map_content what{random(), static_cast<std::size_t>(random.below(sizes))};
            const std::uint64_t choice = random.below(20);
            if (choice < 12) {
                const hash_map_result kept = put(writer, key, what);
                if (kept) {
                    ASSERT_EQ(kept.what, model.contains(key) ? entry_change::updated : entry_change::inserted);
                    model[key] = what;
                } else {
                    ASSERT_TRUE(kept.status == outcome::full || kept.status == outcome::too_large);
                }
            } else if (choice < 18) {
                ASSERT_EQ(static_cast<bool>(writer.erase(as_key(key))), model.erase(key) != 0);
            } else {
                writer = bench.writer();
                ASSERT_FALSE(writer.recovery().operation_finished);
            }
            ASSERT_EQ(writer.reader().table().size(), model.size());
            if (i % 50 != 49) continue;
            ASSERT_EQ(difference(bench.reader(), model), "") << "after operation " << i;
            ASSERT_EQ(damage_of(bench.view().as_const()), "");
        }
        ASSERT_EQ(miscounted(bench.view().store.as_const()), "");
        ASSERT_EQ(leaks(bench.view()), "");
    }
}

}  // namespace
