// SPDX-License-Identifier: Apache-2.0
// The hash table over every kind of memory: the same behaviour, from the same process and from others.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/hash_table/growing.hpp"
#include "holdfast/hash_table/many.hpp"
#include "support/memory_kinds.hpp"
#include "support/process.hpp"
#include "support/seed.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using u64 = std::uint64_t;
using status = holdfast::test::table_answer;

struct reading {
    u64 number;
    double value;
    u64 check;
    friend bool operator==(const reading&, const reading&) = default;
};
reading made(u64 x) { return {x, static_cast<double>(x) / 2, ~x}; }

using table_type = hash_table<u64, reading>;
using reader_type = hash_table_reader<u64, reading>;

std::optional<errc> reason_of(const auto& action) {
    try {
        action();
    } catch (const error& failure) {
        return failure.reason();
    }
    return std::nullopt;
}

/// A description of its own of the same memory; nothing for kinds without descriptors.
memory::descriptor reopen(int fd) {
    return memory::descriptor(fd < 0 ? -1
                                     : ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
}

class HashTableOnEveryKind : public ::testing::TestWithParam<std::string> {
 protected:
    test::memory_place place{GetParam()};

    [[nodiscard]] reader_type attach_reader(const table_type& table) const {
        return table.segment().name().is_memfd() ? reader_type::attach(table.segment().descriptors())
                                                 : reader_type::attach(place.uri());
    }
    [[nodiscard]] table_type attach_writer(const segment_descriptors& held, bool by_descriptor) const {
        return by_descriptor ? table_type::attach(held) : table_type::attach(place.uri());
    }
};
class HashTableOnShareableKind : public HashTableOnEveryKind {};

// Random operations against a model. Returns: what each of them answered.
template <class Table>
std::vector<u64> speak(Table& table, u64 seed) {
    std::vector<u64> answers;
    const reader_type reader = table.make_reader();
    std::unordered_map<u64, reading> model;
    for (u64 i = 0; i < 5000; ++i) {
        const u64 random = test::random_at(seed, 1, i), key = (random >> 8) % 380;
        const reading value = made(random);
        status answer;
        switch (random % 7) {
            case 0:
                answer = table.try_insert(key, value);
                if (answer == status::inserted) model.emplace(key, value);
                break;
            case 1:
                answer = table.insert_or_assign(key, value);
                if (answer == status::inserted || answer == status::updated) model[key] = value;
                break;
            case 2:
                answer = table.update(key, value);
                if (answer == status::updated) model.at(key) = value;
                break;
            case 3:
                answer = table.modify(key, [](reading& what) { ++what.number; });
                if (answer == status::updated) ++model.at(key).number;
                break;
            case 4: {
                const bool there = model.contains(key), right = i % 2 == 0;
                const reading seen = there && right ? model.at(key) : made(random + 1);
                answer = table.compare_and_set(key, seen, value);
                EXPECT_EQ(answer, !there ? status::not_found : right ? status::updated : status::stale);
                if (there && right) model.at(key) = value;
                break;
            }
            case 5: {
                const bool there = model.contains(key), right = i % 2 == 0;
                const reading seen = there && right ? model.at(key) : made(random + 1);
                answer = table.compare_and_erase(key, seen);
                EXPECT_EQ(answer, !there ? status::not_found : right ? status::erased : status::stale);
                if (there && right) model.erase(key);
                break;
            }
            default:
                answer = table.erase(key);
                EXPECT_EQ(answer, model.erase(key) == 1 ? status::erased : status::not_found);
        }
        answers.push_back(answer.number());
        const auto known = model.find(key);
        EXPECT_EQ(reader.find(key), known == model.end() ? std::nullopt : std::optional(known->second));
        if (::testing::Test::HasFailure()) return answers;
    }
    EXPECT_EQ(reader.size(), model.size());
    u64 seen = 0;
    for (const auto& entry : reader) {
        EXPECT_EQ(entry.value, model.at(entry.key));
        ++seen;
    }
    EXPECT_EQ(seen, model.size());
    EXPECT_EQ(table.fault(), std::nullopt);
    EXPECT_TRUE(table.verify([](const hash_table_finding&) { return true; }).intact());
    return answers;
}

// Many inserts at once do what they would one by one: those that are there, or twice among them, are refused.
template <class Table>
void insert_many_into(Table& table, u64 distinct) {
    std::vector<u64> keys;
    std::vector<reading> values;
    for (u64 i = 0; i < distinct * 6 / 5; ++i) {
        keys.push_back(i % distinct * 3);
        values.push_back(made(i));
    }
    ASSERT_TRUE(table.try_insert(30, made(9)));
    std::vector<hash_table_result> results(keys.size());
    const std::span<const u64> all(keys);
    EXPECT_EQ(table.try_insert_many({}, {}), 0U);
    EXPECT_EQ(table.try_insert_many(all.first(5), std::span(values).first(5), results), 5U);
    EXPECT_EQ(table.try_insert_many(all.subspan(5), std::span(values).subspan(5), std::span(results).subspan(5)),
              distinct - 6);
    for (u64 i = 0; i < keys.size(); ++i) {
        EXPECT_EQ(status(results[i]), i == 10 || i >= distinct ? status::exists : status::inserted) << i;
        EXPECT_EQ(results[i].slot, table.slot_of(keys[i]));
        EXPECT_EQ(table.find(keys[i]), i % distinct == 10 ? made(9) : made(i % distinct)) << i;
    }
    EXPECT_EQ(table.size(), distinct);
    // A table that gets full refuses the rest, and tells of each.
    u64 refused = 0;
    for (u64 i = 0; i < keys.size(); ++i) keys[i] = 1'000'000 + i;
    const u64 inserted = table.try_insert_many(keys, values, results);
    for (const hash_table_result& r : results) refused += r.status == outcome::full ? 1 : 0;
    EXPECT_EQ(inserted + refused, keys.size());
    EXPECT_GT(refused, 0U);
    EXPECT_EQ(table.size(), distinct + inserted);
    EXPECT_TRUE(table.verify([](const hash_table_finding&) { return true; }).intact());
}

TEST_P(HashTableOnEveryKind, ManyAreInsertedAtOnce) {
    table_type one = table_type::create(place.uri(), {.capacity = 4000});
    insert_many_into(one, 2500);
    test::memory_place other{GetParam()};
    auto many = hash_table<u64, reading, writers::many>::create(other.uri(), {.capacity = 4000});
    insert_many_into(many, 2500);
}

// Where the nodes are more than a core's near caches hold, their lines are asked for ahead.
TEST(HashTableBeyondTheCaches, ManyAreInsertedAtOnce) {
    const hash_table_options options{.capacity = 80'000};
    table_type one = table_type::create("heap:", options);
    insert_many_into(one, 50'000);
    auto growing = growing_hash_table<u64, reading>::create("heap:", options);
    insert_many_into(growing, 50'000);
    auto many = hash_table<u64, reading, writers::many>::create("heap:", options);
    insert_many_into(many, 50'000);
}

TEST_P(HashTableOnEveryKind, BothPoliciesSpeakAlike) {
    const u64 seed = test::choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    std::vector<u64> of_one;
    {
        table_type one = table_type::create(place.uri(), {.capacity = 400});
        of_one = speak(one, seed);
    }
    test::memory_place other{GetParam()};
    auto many = hash_table<u64, reading, writers::many>::create(other.uri(), {.capacity = 400});
    EXPECT_EQ(speak(many, seed), of_one);
}

TEST_P(HashTableOnShareableKind, ReadersOfAnotherMappingSeeWhatIsWritten) {
    table_type table = table_type::create(place.uri(), {.capacity = 100});
    const reader_type reader = attach_reader(table);
    for (u64 key = 0; key < 100; ++key) {
        EXPECT_FALSE(reader.contains(key));
        ASSERT_TRUE(table.try_insert(key, made(key)));
        EXPECT_EQ(reader.find(key), made(key));
        ASSERT_TRUE(table.update(key, made(key + 1)));
        EXPECT_EQ(reader.find(key), made(key + 1));
    }
    EXPECT_EQ(reader.size(), 100U);
    for (u64 key = 0; key < 100; ++key) {
        EXPECT_EQ(table.erase(key), status::erased);
        EXPECT_FALSE(reader.contains(key));
    }
}

TEST_P(HashTableOnShareableKind, AnotherProcessReadsAndDoesNotDisturb) {
    table_type table = table_type::create(place.uri(), {.capacity = 100});
    for (u64 key = 0; key < 100; ++key) ASSERT_TRUE(table.try_insert(key, made(key)));
    test::child_process child([&]() -> int {
        const reader_type reader = attach_reader(table);
        for (u64 key = 0; key < 100; ++key)
            if (reader.find(key) != made(key)) return 1;
        return reader.contains(100) ? 2 : 0;
    });
    EXPECT_TRUE(child.wait().success());
}

TEST_P(HashTableOnShareableKind, SecondWriterIsRefusedAndTheNextOneGoesOn) {
    std::optional<table_type> table = table_type::create(place.uri(), {.capacity = 100});
    ASSERT_TRUE(table->try_insert(1, made(1)));
    const bool by_descriptor = table->segment().name().is_memfd();
    const segment_descriptors lent = table->segment().descriptors();
    EXPECT_EQ(reason_of([&] { (void)attach_writer(lent, by_descriptor); }), errc::writer_alive);
    // Descriptors of our own, as a process keeps them that was handed the creator's: a mere duplicate would share the
    // creator's lock.
    const memory::descriptor data = reopen(lent.data), lease = reopen(lent.lease);
    table.reset();
    table_type next = attach_writer({data.get(), lease.get(), -1}, by_descriptor);
    EXPECT_FALSE(next.recovery().update_replayed);
    EXPECT_EQ(next.find(1), made(1));
    EXPECT_TRUE(next.try_insert(2, made(2)));
    EXPECT_EQ(next.size(), 2U);
}

TEST_P(HashTableOnShareableKind, AttachedAsSomethingElseIsRefused) {
    table_type table = table_type::create(place.uri(), {.capacity = 10});
    const bool by_descriptor = table.segment().name().is_memfd();
    using other = hash_table_reader<u64, u64>;
    EXPECT_EQ(reason_of([&] {
                  (void)(by_descriptor ? other::attach(table.segment().descriptors()) : other::attach(place.uri()));
              }),
              errc::schema_mismatch);
}

INSTANTIATE_TEST_SUITE_P(Memory, HashTableOnEveryKind, ::testing::ValuesIn(test::every_kind), test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(Memory, HashTableOnShareableKind, ::testing::ValuesIn(test::shareable_kinds),
                         test::kind_case_name);

TEST(HashTableKind, AnotherContainersSegmentIsRefused) {
    segment_spec spec;
    spec.kind = container_kind::array;
    spec.body_bytes = 4096;
    const auto other = std::make_shared<segment>(segment::create("heap:", spec, {}, [](std::span<std::byte>) {}));
    EXPECT_EQ(reason_of([&] { const reader_type reader(other); }), errc::kind_mismatch);
    EXPECT_EQ(reason_of([&] { const dynamic_hash_table_reader reader(other); }), errc::kind_mismatch);
}

}  // namespace
