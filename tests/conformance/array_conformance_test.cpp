// SPDX-License-Identifier: Apache-2.0
// The array over every kind of memory: the same behaviour, from the same process and from others.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/array.hpp"
#include "holdfast/array/dynamic.hpp"
#include "support/memory_kinds.hpp"
#include "support/process.hpp"
#include "support/seed.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using test::refusal_of;
using u64 = std::uint64_t;

struct reading {
    u64 number;
    double value;
    u64 check;
    friend bool operator==(const reading&, const reading&) = default;
};
reading made(u64 x) { return {x, static_cast<double>(x) / 2, ~x}; }

/// A description of its own of the same memory; nothing for kinds without descriptors.
memory::descriptor reopen(int fd) {
    return memory::descriptor(fd < 0 ? -1
                                     : ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
}

class ArrayOnEveryKind : public ::testing::TestWithParam<std::string> {
 protected:
    test::memory_place place{GetParam()};

    template <class T>
    [[nodiscard]] array_reader<T> attach_reader(const array<T>& to) const {
        return to.segment().name().is_memfd() ? array_reader<T>::attach(to.segment().descriptors())
                                              : array_reader<T>::attach(place.uri());
    }
};
class ArrayOnShareableKind : public ArrayOnEveryKind {};

TEST_P(ArrayOnEveryKind, RandomStoresEqualAModel) {
    test::seeded_random random;
    auto readings = array<reading>::create(place.uri(), {.size = 400});
    const auto reader = readings.make_reader();
    std::vector<reading> model(400, reading{});
    for (int i = 0; i < 3000; ++i) {
        const u64 at = random.below(400);
        const u64 count = 1 + random.below(std::min<u64>(400 - at, readings.range_max()));
        switch (random.below(4)) {
            case 0:
                readings.store(at, made(random()));
                model[at] = readings[at];
                break;
            case 1:
                readings.modify(at, [](reading& r) { ++r.number; });
                ++model[at].number;
                break;
            case 2: {
                std::vector<reading> values;
                for (u64 j = 0; j < count; ++j) values.push_back(made(random()));
                readings.store_range(at, values);
                std::copy(values.begin(), values.end(), model.begin() + static_cast<std::ptrdiff_t>(at));
                break;
            }
            default: {
                std::vector<reading> seen(count);
                reader.load_range(at, seen);
                ASSERT_TRUE(std::equal(seen.begin(), seen.end(), model.begin() + static_cast<std::ptrdiff_t>(at)));
            }
        }
        ASSERT_EQ(reader[at], model[at]);
    }
    EXPECT_TRUE(std::ranges::equal(reader, model));
    EXPECT_TRUE(reader.verify([](const array_finding&) { return true; }).intact());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(readings.span().data()) % 64, 0U);
}

TEST_P(ArrayOnEveryKind, TheReaderKeepsTheMappingAliveWithoutTheWriter) {
    auto counts = std::make_unique<array<u64>>(array<u64>::create(place.uri(), {.size = 100}));
    counts->fill(7);
    const auto reader = counts->make_reader();
    counts.reset();
    EXPECT_EQ(reader[99], 7U);
}

TEST_P(ArrayOnShareableKind, ReadersOfAnotherMappingSeeWhatIsStored) {
    auto readings = array<reading>::create(place.uri(), {.size = 100});
    const auto reader = attach_reader(readings);
    for (u64 i = 0; i < 100; ++i) {
        EXPECT_EQ(reader[i], reading{});
        readings.store(i, made(i));
        EXPECT_EQ(reader[i], made(i));
    }
}

TEST_P(ArrayOnShareableKind, AnotherProcessReadsInPlace) {
    auto counts = array<std::uint32_t>::create(place.uri(), {.size = 1000});
    for (u64 i = 0; i < 1000; ++i) counts.store(i, static_cast<std::uint32_t>(i));
    test::child_process child([&]() -> int {
        const auto reader = attach_reader(counts);
        const auto words = reader.words();
        for (u64 i = 0; i < 1000; ++i)
            if (reader[i] != i || words[i].load() != i) return 1;
        return 0;
    });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
}

TEST_P(ArrayOnShareableKind, SecondWriterIsRefusedAndTheNextOneGoesOn) {
    std::optional<array<reading>> first = array<reading>::create(place.uri(), {.size = 100});
    first->store(1, made(1));
    const bool by_descriptor = first->segment().name().is_memfd();
    const segment_descriptors lent = first->segment().descriptors();
    const auto attach = [&](const segment_descriptors& held) {
        return by_descriptor ? array<reading>::attach(held) : array<reading>::attach(place.uri());
    };
    EXPECT_EQ(refusal_of([&] { (void)attach(lent); }), errc::writer_alive);
    // Descriptors of our own, as a process keeps them that was handed the creator's: a mere duplicate would share the
    // creator's lock.
    const memory::descriptor data = reopen(lent.data), lease = reopen(lent.lease);
    first.reset();
    auto next = attach({data.get(), lease.get(), -1});
    EXPECT_FALSE(next.recovery().store_finished || next.recovery().store_dropped || next.recovery().journal_rejected);
    EXPECT_EQ(next[1], made(1));
    next.store(2, made(2));
    EXPECT_EQ(next[2], made(2));
}

TEST_P(ArrayOnShareableKind, AttachedAsSomethingElseIsRefused) {
    auto readings = array<reading>::create(place.uri(), {.size = 10});
    const bool by_descriptor = readings.segment().name().is_memfd();
    EXPECT_EQ(refusal_of([&] {
                  (void)(by_descriptor ? array_reader<u64>::attach(readings.segment().descriptors())
                                       : array_reader<u64>::attach(place.uri()));
              }),
              errc::schema_mismatch);
}

INSTANTIATE_TEST_SUITE_P(Memory, ArrayOnEveryKind, ::testing::ValuesIn(test::every_kind), test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(Memory, ArrayOnShareableKind, ::testing::ValuesIn(test::shareable_kinds),
                         test::kind_case_name);

// A segment of that kind, layout version, schema and geometry, made by somebody else.
std::shared_ptr<segment> forged(container_kind kind, std::uint32_t version, const std::string& schema,
                                const layout::array_geometry& g) {
    segment_spec spec;
    spec.kind = kind;
    spec.container_version = version;
    spec.schema = schema;
    spec.geometry = layout::geometry_words_of(g);
    spec.body_bytes = layout::plan_array(10, 24).body_bytes();
    return std::make_shared<segment>(segment::create("heap:", spec, {}, [](std::span<std::byte>) {}));
}

TEST(ArrayKind, WhatIsNoArrayOfItsSchemaIsRefused) {
    const std::string schema = container_schema{std::nullopt, schema_of<reading>()}.text();
    const auto g = layout::plan_array(10, sizeof(reading));
    const auto refused = [](const std::shared_ptr<segment>& s) {
        const auto typed = refusal_of([&] { const array_reader<reading> reader(s); });
        const auto dynamic = refusal_of([&] { const dynamic_array_reader reader(s); });
        EXPECT_EQ(typed.has_value(), dynamic.has_value());
        if (typed && dynamic) {
            EXPECT_EQ(typed->code, dynamic->code);
        }
        return typed;
    };
    EXPECT_FALSE(refused(forged(container_kind::array, layout::array_version, schema, g)));
    EXPECT_EQ(refused(forged(container_kind::hash_table, layout::array_version, schema, g)), errc::kind_mismatch);
    EXPECT_EQ(refused(forged(container_kind::array, layout::array_version + 1, schema, g)), errc::version_mismatch);
    EXPECT_EQ(refused(forged(container_kind::array, layout::array_version, "key {k:u64@0}#8\n" + schema, g)),
              errc::schema_mismatch);
    EXPECT_EQ(refused(forged(container_kind::array, layout::array_version, "nonsense", g)), errc::schema_mismatch);
    EXPECT_EQ(refused(forged(container_kind::array, layout::array_version, schema, layout::plan_array(10, 16))),
              errc::geometry_mismatch);
    EXPECT_EQ(refused(forged(container_kind::array, layout::array_version, schema, layout::plan_array(11, 24))),
              errc::geometry_mismatch);
}

}  // namespace
