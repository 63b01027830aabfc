// SPDX-License-Identifier: Apache-2.0
// hash_table_kinds.hpp - what every adapter of the hash table suite has to do, whichever table is behind it.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "workload/background_writer.hpp"
#include "workload/hash_table_subject.hpp"
#include "workload/keys.hpp"

namespace holdfast::test {

struct hash_table_parameter {
    workload::hash_table_kind kind;
    std::size_t entry_bytes;
    bool refuses_under_churn;
    friend void PrintTo(const hash_table_parameter& p, std::ostream* out) {
        *out << p.kind.name << ", " << p.entry_bytes;
    }
};

/// Each kind for entries of 16 and of 64 bytes. A table that refuses inserts although it holds no more than it was made
/// for is right otherwise.
[[nodiscard]] inline std::vector<hash_table_parameter> parameters_of(
    const std::vector<workload::hash_table_kind>& kinds, bool refuses_under_churn = false) {
    std::vector<hash_table_parameter> all;
    for (const workload::hash_table_kind& kind : kinds)
        for (const std::size_t bytes : {std::size_t{16}, std::size_t{64}})
            all.push_back({kind, bytes, refuses_under_churn});
    return all;
}

[[nodiscard]] inline std::string text_of(const testing::TestParamInfo<hash_table_parameter>& info) {
    std::string name = info.param.kind.name + "_" + std::to_string(info.param.entry_bytes);
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    return name;
}

class HashTableKinds : public testing::TestWithParam<hash_table_parameter> {
 protected:
    static constexpr std::uint64_t entries = 5000;
    std::vector<std::uint64_t> present = workload::make_keys(0, entries);
    std::vector<std::uint64_t> absent = workload::make_keys(2 * entries, entries);
    std::unique_ptr<workload::hash_table_subject> table =
        GetParam().kind.make(GetParam().entry_bytes, {entries, workload::page_choice::small});
};

TEST_P(HashTableKinds, FindsWhatWasInsertedAndNothingElse) {
    EXPECT_EQ(table->insert(present), entries);
    table->check(present, absent);
    EXPECT_EQ(table->size(), entries);
    EXPECT_EQ(table->insert(present), 0U) << "a key that is there is not inserted again";
    for (const auto loop : {&workload::hash_table_subject::find, &workload::hash_table_subject::find_chained,
                            &workload::hash_table_subject::find_batched, &workload::hash_table_subject::find_shared}) {
        EXPECT_EQ((table.get()->*loop)(present), entries);
        EXPECT_EQ((table.get()->*loop)(absent), 0U);
    }
}

TEST_P(HashTableKinds, LoadFillsAsInsertDoes) {
    table->load(present);
    table->check(present, absent);
}

TEST_P(HashTableKinds, InsertsManyAtOnceAsOneByOne) {
    EXPECT_EQ(table->insert_batched(present), entries);
    table->check(present, absent);
    EXPECT_EQ(table->insert_batched(present), 0U) << "a key that is there is not inserted again";
}

TEST_P(HashTableKinds, EraseAndUpdateTouchOnlyTheirKeys) {
    table->load(present);
    const std::span<const std::uint64_t> all(present);
    EXPECT_EQ(table->erase(all.first(1000)), 1000U);
    EXPECT_EQ(table->erase(absent), 0U);
    EXPECT_EQ(table->update(all.first(1000)), 0U) << "an erased key is not updated";
    EXPECT_EQ(table->update(all.subspan(1000)), entries - 1000);
    table->check(all.subspan(1000), all.first(1000));
    EXPECT_EQ(table->size(), entries - 1000);
}

TEST_P(HashTableKinds, ClearedTakesAllKeysAgain) {
    table->load(present);
    table->clear(present);
    EXPECT_EQ(table->size(), 0U);
    table->check({}, present);
    EXPECT_EQ(table->insert(present), entries);
    table->check(present, absent);
}

TEST_P(HashTableKinds, ChurnReplacesOldKeysByNewOnes) {
    table->load(present);
    const std::uint64_t refused = table->churn(present, absent);
    EXPECT_TRUE(refused == 0 || GetParam().refuses_under_churn) << refused;
    EXPECT_EQ(table->size(), entries - refused);
    EXPECT_EQ(table->find(present), 0U);
    EXPECT_EQ(table->find(absent), entries - refused);
}

TEST_P(HashTableKinds, ReadersFindStableKeysBesideAWriter) {
    table->load(present);
    const std::span<const std::uint64_t> stable = std::span(present).first(entries / 2);
    const std::span<const std::uint64_t> changed = std::span(present).subspan(entries / 2);
    const workload::background_writer::job job = [&] { table->change_shared(changed.first(64)); };
    workload::background_writer writer;
    for (int i = 0; i < 20; ++i) {
        writer.work_on(job);
        EXPECT_EQ(table->find_shared(stable), stable.size());
    }
    writer.rest();
    table->check(present, absent);
}

TEST_P(HashTableKinds, MemoryCoversTheEntries) {
    table->load(present);
    EXPECT_GE(table->memory().bytes, entries * GetParam().entry_bytes);
    EXPECT_LE(table->memory().bytes, entries * (GetParam().entry_bytes + 200));
}

}  // namespace holdfast::test
