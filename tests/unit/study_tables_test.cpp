// SPDX-License-Identifier: Apache-2.0
// The hash tables that studies are about: each is a whole table, or its counts would say nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <unordered_map>
#include <vector>

#include "../../studies/bucket_shape/shaped_table.hpp"
#include "../../studies/flat_buckets/yard_table.hpp"
#include "../../studies/multilevel_hash/level_table.hpp"
#include "../../studies/two_choice_hash/bucket_table.hpp"
#include "../../studies/two_choice_hash/chain_table.hpp"
#include "../../studies/two_choice_hash/product_table.hpp"
#include "holdfast/segment.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::test::seeded_random;
using u64 = std::uint64_t;
using study::level_result;
using level_table = study::level_table<u64>;
using level_reader = study::level_view<u64>;

/// A table of levels over words of its own.
struct levels {
    explicit levels(const std::vector<u64>& lengths)
        : words(level_table::bytes_for(lengths) / 8),
          table(level_table::format(std::as_writable_bytes(std::span(words)), lengths)) {}
    std::vector<u64> words;
    level_table table;

    bool insert(u64 key, u64 value) { return table.insert(key, value) == level_result::inserted; }
    bool erase(u64 key) { return table.erase(key); }
    const u64* find(u64 key) const { return table.find(key); }
    [[nodiscard]] u64 size() const { return table.size(); }
    template <class Visit>
    void visit(Visit each) const {
        for (const auto& entry : table) each(entry.key, entry.value);
    }
};

/// Random changes to a table and to a map of the standard library; the table may refuse what is new, and nothing else.
template <class Table>
void agrees_with_a_map(Table& table, u64 keys, int steps, seeded_random& random) {
    std::unordered_map<u64, u64> model;
    u64 refused = 0;
    for (int step = 0; step < steps; ++step) {
        const u64 key = 1 + random() % keys, value = random();
        if (random() % 3 == 0) {
            ASSERT_EQ(table.erase(key), model.erase(key) == 1) << step;
        } else if (model.contains(key)) {
            ASSERT_FALSE(table.insert(key, value)) << step;
        } else if (table.insert(key, value)) {
            model.emplace(key, value);
        } else {
            ++refused;
        }
        ASSERT_EQ(table.size(), model.size()) << step;
    }
    EXPECT_LT(refused, static_cast<u64>(steps) / 2);
    for (u64 key = 1; key <= keys; ++key) {
        const auto wanted = model.find(key);
        const auto found = table.find(key);
        ASSERT_EQ(found != nullptr, wanted != model.end()) << key;
        if (found) {
            ASSERT_EQ(*found, wanted->second) << key;
        }
    }
    u64 visited = 0;
    table.visit([&](u64 key, u64 value) {
        ++visited;
        const auto wanted = model.find(key);
        ASSERT_NE(wanted, model.end()) << key;
        ASSERT_EQ(value, wanted->second) << key;
    });
    EXPECT_EQ(visited, model.size());
}

template <class Shaped>
void shaped_agrees_with_a_map(seeded_random& random) {
    for (const u64 slots : {u64{60}, u64{1000}}) {
        Shaped table(slots, random());
        agrees_with_a_map(table, table.slots() + 20, 20'000, random);
        u64 wanted = 0;
        std::vector<u64> keys;
        table.visit([&](u64 key, u64 value) {
            keys.push_back(key);
            wanted += value;
        });
        keys.insert(keys.end(), {u64{1} << 60, u64{1} << 61});
        for (const auto asked : {study::lines_asked::none, study::lines_asked::one, study::lines_asked::two}) {
            table.ask_ahead(asked);
            EXPECT_EQ(table.find_all(keys), wanted);
            EXPECT_EQ(table.find_in_turn(keys), wanted);
        }
    }
}

TEST(StudyShapedTable, AgreesWithAMapWhateverItsShape) {
    seeded_random random;
    shaped_agrees_with_a_map<study::shape_26_of_16>(random);
    shaped_agrees_with_a_map<study::shape_28_of_16>(random);
    shaped_agrees_with_a_map<study::shape_12_of_16>(random);
    shaped_agrees_with_a_map<study::shape_58_of_16>(random);
    shaped_agrees_with_a_map<study::shape_52_of_8>(random);
    shaped_agrees_with_a_map<study::shape_26_of_power>(random);
}

// A find that asks for two lines asks for those where inserts put what finds room in either, in this order.
TEST(StudyShapedTable, TheSecondLineAskedForIsTheOneThatAnInsertTriesNext) {
    seeded_random random;
    study::shape_26_of_16 table(100'000, random());
    u64 in_line = 0, in_two = 0, in_pair_only = 0;
    std::vector<u64> keys(table.slots() * 9 / 10);
    for (u64& key : keys) {
        key = random();
        table.insert(key, 0);
        const study::entry_distance at = table.distance_of(key);
        in_line += at.in_line ? 1 : 0;
        in_two += at.in_two ? 1 : 0;
        in_pair_only += at.in_pair && !at.in_two ? 1 : 0;
        ASSERT_TRUE(at.in_two || !at.in_line);
    }
    const auto part = [&](u64 count) { return static_cast<double>(count) / static_cast<double>(keys.size()); };
    EXPECT_GT(part(in_line), 0.75);
    EXPECT_GT(part(in_two), part(in_line) + 0.05) << "half of what finds no room in its line finds some in the next";
    EXPECT_LT(part(in_pair_only), 0.01) << "the line before is tried only where there is none behind";
}

TEST(StudyLevelTable, AgreesWithAMap) {
    seeded_random random;
    for (const auto& lengths : {study::row_lengths(1000, 50, 1), study::geometric_lengths(1000), std::vector<u64>{2}}) {
        levels table(lengths);
        const u64 places = table.table.places();
        agrees_with_a_map(table, places, 20'000, random);
    }
}

TEST(StudyLevelTable, ZeroIsNoKey) {
    levels table(study::row_lengths(100, 5, 1));
    EXPECT_EQ(table.table.insert(0, 1), level_result::reserved_key);
    EXPECT_EQ(table.table.find(0), nullptr) << "free places have that key";
    EXPECT_FALSE(table.table.erase(0));
    EXPECT_EQ(table.table.size(), 0U);
}

TEST(StudyLevelTable, LooksAtEveryRowForAMissAndAtTheFirstOnesForAHit) {
    levels table(study::row_lengths(1000, 10, 0.6));
    ASSERT_TRUE(table.insert(7, 70));
    u64 looked_at = 0;
    EXPECT_NE(std::as_const(table.table).find(7, looked_at), nullptr);
    EXPECT_EQ(looked_at, 1U) << "the first key of a table lies in its first row";
    EXPECT_EQ(std::as_const(table.table).find(8, looked_at), nullptr);
    EXPECT_EQ(looked_at, 11U);
    EXPECT_EQ(table.table.row_size(0), 1U);
}

TEST(StudyLevelTable, LiesInASharedSegmentAndIsReadByWhoeverAttaches) {
    const std::vector<u64> lengths = study::geometric_lengths(2000);
    holdfast::segment_spec spec;
    spec.body_bytes = level_table::bytes_for(lengths);
    auto segment = holdfast::segment::create(
        "memfd:", spec, {}, [&](std::span<std::byte> body) { (void)level_table::format(body, lengths); });
    level_table writer = level_table::attach(segment.body());
    for (u64 key = 1; key <= 1000; ++key) ASSERT_EQ(writer.insert(key, 3 * key), level_result::inserted);

    // Another mapping of the same memory, which cannot be written.
    const auto other = holdfast::segment::attach(segment.descriptors(), holdfast::access::read_only);
    ASSERT_NE(other.bytes().data(), segment.bytes().data());
    const level_reader reader = level_reader::attach(other.bytes());
    EXPECT_EQ(reader.size(), 1000U);
    for (u64 key = 1; key <= 1000; ++key) {
        ASSERT_NE(reader.find(key), nullptr) << key;
        ASSERT_EQ(*reader.find(key), 3 * key);
    }
    EXPECT_TRUE(writer.erase(1));
    EXPECT_EQ(reader.find(1), nullptr);
    u64 sum = 0;
    for (const auto& entry : reader) sum += entry.key;
    EXPECT_EQ(sum, 1000U * 1001 / 2 - 1);
}

TEST(StudyLevelTable, DamagedHeadersAreRefused) {
    const std::vector<u64> lengths = study::geometric_lengths(500);
    levels whole(lengths);
    const auto refused = [&](std::size_t word, u64 value) {
        std::vector<u64> damaged = whole.words;
        damaged[word] = value;
        EXPECT_THROW((void)level_reader::attach(std::as_bytes(std::span(damaged))), std::invalid_argument) << word;
    };
    refused(0, 0);  // no table
    refused(1, 0);  // rows
    refused(1, study::level_rows_max + 1);
    refused(2, 24);  // bytes of a node
    refused(8, 1);   // a length
    refused(8, ~u64{0});
    refused(8 + lengths.size() - 1, lengths.back() + 1);  // the last row, one place behind the end
    const std::span<const u64> cut(whole.words.data(), whole.words.size() - 1);
    EXPECT_THROW((void)level_reader::attach(std::as_bytes(cut)), std::invalid_argument);
    EXPECT_THROW((void)level_reader::attach(std::as_bytes(cut.first(100))), std::invalid_argument);
}

/// A table of chains over words of its own.
struct chains {
    using table_type = study::chain_table<u64>;
    explicit chains(const study::chain_shape& shape)
        : words(table_type::bytes_for(shape) / 8),
          table(table_type::format(std::as_writable_bytes(std::span(words)), shape)) {}
    std::vector<u64> words;
    table_type table;

    bool insert(u64 key, u64 value) { return table.insert(key, value) == table_type::result::inserted; }
    bool erase(u64 key) { return table.erase(key); }
    const u64* find(u64 key) const { return table.find(key); }
    [[nodiscard]] u64 size() const { return table.size(); }
    template <class Visit>
    void visit(Visit each) const {
        table.visit(each);
    }
};

TEST(StudyChainTable, AgreesWithAMap) {
    seeded_random random;
    for (const u64 functions : {1U, 2U})
        for (const u64 buckets : {1U, 7U, 500U}) {
            chains table({buckets, 400, functions});
            agrees_with_a_map(table, 500, 20'000, random);
        }
}

TEST(StudyChainTable, TakesAsManyAsItsCapacityAndUsesFreedNodesAgain) {
    chains table({10, 100, 2});
    for (u64 key = 0; key < 100; ++key) ASSERT_TRUE(table.insert(key, key));
    EXPECT_EQ(table.table.insert(100, 0), chains::table_type::result::full);
    EXPECT_EQ(table.table.insert(7, 0), chains::table_type::result::exists);
    ASSERT_TRUE(table.erase(7));
    EXPECT_TRUE(table.insert(100, 0));
    EXPECT_FALSE(table.insert(101, 0));
}

TEST(StudyChainTable, CountsWhatAFindLooksAt) {
    chains one({1, 10, 1});  // a single chain, the latest key in front
    for (u64 key = 1; key <= 5; ++key) ASSERT_TRUE(one.insert(key, key));
    EXPECT_EQ(one.table.probes_of(5).position, 1U);
    EXPECT_EQ(one.table.probes_of(1).position, 5U);
    EXPECT_EQ(one.table.probes_of(1).nodes_in_turn, 5U);
    EXPECT_EQ(one.table.probes_of(9).position, 0U);
    EXPECT_EQ(one.table.probes_of(9).nodes_in_turn, 5U);
    EXPECT_EQ(one.table.probes_of(9).heads_in_turn, 1U);
    chains two({2, 10, 2});  // a key with both chains finds them balanced
    u64 both = 0;
    for (u64 key = 1; both < 6; ++key)
        if (two.table.probes_of(key).heads_in_turn == 2) both += two.insert(key, key) ? 1 : 0;
    const auto miss = [&] {
        for (u64 key = 1000;; ++key)
            if (two.table.probes_of(key).heads_in_turn == 2) return two.table.probes_of(key);
    }();
    EXPECT_EQ(miss.nodes_in_turn, 6U);
    two.table.visit([&](u64 key, u64) { EXPECT_LE(two.table.probes_of(key).position, 3U) << key; });
}

TEST(StudyChainTable, LinksThatLieLeadNowhere) {
    seeded_random random;
    for (int round = 0; round < 200; ++round) {
        chains table({50, 100, 2});
        for (u64 key = 0; key < 90; ++key) ASSERT_TRUE(table.insert(key, key));
        for (int i = 0; i < 20; ++i) table.words[8 + random() % (table.words.size() - 8)] = random() >> random() % 64;
        for (u64 key = 0; key < 120; ++key) (void)table.find(key);
        for (u64 key = 0; key < 120; ++key) (void)(key % 2 == 0 ? table.erase(key) : table.insert(key, key));
        table.visit([](u64, u64) {});
    }
    chains whole({50, 100, 2});
    for (const std::size_t word : {0U, 1U, 2U, 3U}) {  // magic, buckets, capacity, functions
        std::vector<u64> damaged = whole.words;
        damaged[word] = ~u64{0} >> 8;
        EXPECT_THROW((void)chains::table_type::attach(std::as_writable_bytes(std::span(damaged))),
                     std::invalid_argument)
            << word;
    }
}

TEST(StudyBucketTable, AgreesWithAMap) {
    seeded_random random;
    for (const auto& [first, next] : {std::pair(1U, 1U), std::pair(1U, 2U), std::pair(2U, 2U)})
        for (const u64 buckets : {3U, 23U}) {
            study::bucket_table table({buckets, first, next, 129, random()});
            agrees_with_a_map(table, table.slots(), 20'000, random);
        }
}

// What is counted in the model is what the product does: the same keys need the same lines, before and after churn.
TEST(StudyBucketTable, PairsLookAtTheLinesThatTheProductLooksAt) {
    seeded_random random;
    const u64 seed = random(), keys_from = random() >> 1;
    study::product_table product(10'000, seed);
    const auto& g = product.geometry();
    study::bucket_table model({g.buckets, 1, 2, static_cast<std::uint32_t>(1 + 2 * g.pairs_max), seed});
    ASSERT_EQ(model.slots(), product.slots());
    const u64 live = product.slots() * 95 / 100;
    const auto same_lines = [&](u64 from, u64 to) {
        for (u64 key = from; key < to; ++key) ASSERT_EQ(model.lines_of(key), product.lines_of(key)) << key - keys_from;
    };
    for (u64 i = 0; i < live; ++i) {
        ASSERT_TRUE(model.insert_new(keys_from + i, i));
        ASSERT_TRUE(product.insert_new(keys_from + i, i));
    }
    same_lines(keys_from, keys_from + 2 * live);
    for (u64 i = 0; i < 2 * live; ++i) {
        ASSERT_TRUE(model.erase(keys_from + i));
        ASSERT_TRUE(product.erase(keys_from + i));
        ASSERT_EQ(model.insert_new(keys_from + live + i, i), product.insert_new(keys_from + live + i, i));
    }
    same_lines(keys_from + live, keys_from + 4 * live);
}

TEST(StudyYardTable, AgreesWithAMap) {
    seeded_random random;
    const std::vector<std::vector<study::yard_shape>> shapes{study::iceberg_yards(720),
                                                             study::funnel_yards(720, 26, 0.25),
                                                             study::funnel_yards(720, 8, 0.75),
                                                             {{10, 26, 2}},
                                                             {{1, 64, 2}},
                                                             {{1, 1, 1}, {1, 1, 1}}};
    for (const auto& shape : shapes) {
        study::yard_table table(shape, random());
        agrees_with_a_map(table, table.slots(), 20'000, random);
    }
}

TEST(StudyYardTable, YardsAddUpToTheSlotsAskedFor) {
    for (const u64 slots : {10'000U, 100'000U, 1'000'000U}) {
        const auto near = [&](const std::vector<study::yard_shape>& shape) {
            const auto got = static_cast<double>(study::yard_table(shape).slots()), asked = static_cast<double>(slots);
            EXPECT_NEAR(got / asked, 1, 0.01);
        };
        near(study::iceberg_yards(slots));
        near(study::funnel_yards(slots, 26, 0.25));
        near(study::funnel_yards(slots, 8, 0.75));
    }
}

}  // namespace
