// SPDX-License-Identifier: Apache-2.0
// The small table over every kind of memory: the same behaviour, from the same process and from others.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "holdfast/small_table.hpp"
#include "support/memory_kinds.hpp"
#include "support/process.hpp"
#include "support/seed.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using test::refusal_of;
using u64 = std::uint64_t;

struct weight {
    double value;
    u64 uses;
    friend bool operator==(const weight&, const weight&) = default;
};
using table = small_table<std::uint32_t, weight>;
using table_reader = small_table_reader<std::uint32_t, weight>;

class SmallTableOnEveryKind : public ::testing::TestWithParam<std::string> {
 protected:
    test::memory_place place{GetParam()};

    [[nodiscard]] table_reader attach_reader(const table& to) const {
        return to.segment().name().is_memfd() ? table_reader::attach(to.segment().descriptors())
                                              : table_reader::attach(place.uri());
    }
};
class SmallTableOnShareableKind : public SmallTableOnEveryKind {};

TEST_P(SmallTableOnEveryKind, RandomChangesEqualAMap) {
    test::seeded_random random;
    auto weights = table::create(place.uri(), {.capacity = 100});
    auto reader = weights.make_reader();
    std::map<std::uint32_t, weight> model;
    for (u64 i = 0; i < 2000; ++i) {
        const auto key = static_cast<std::uint32_t>(random.below(120));
        if (random.below(3) == 0) {
            EXPECT_EQ(weights.erase(key) == outcome::ok, model.erase(key) == 1);
        } else if (weights.insert_or_assign(key, {1.5, i}) == outcome::ok) {
            model[key] = {1.5, i};
        } else {
            ASSERT_EQ(model.size(), 100U);
        }
        const auto at = model.find(key);
        ASSERT_EQ(reader.find(key), at == model.end() ? std::nullopt : std::optional(at->second));
    }
    std::map<std::uint32_t, weight> seen;
    EXPECT_EQ(reader.visit([&](std::uint32_t key, const weight& value) { seen[key] = value; }), outcome::ok);
    EXPECT_EQ(seen, model);
    EXPECT_TRUE(reader.verify([](const small_table_finding&) { return true; }).intact());
}

TEST_P(SmallTableOnShareableKind, AnotherProcessFindsWhatIsStored) {
    auto weights = table::create(place.uri(), {.capacity = 10});
    auto reader = attach_reader(weights);
    EXPECT_EQ(reader.find(1), std::nullopt);
    ASSERT_EQ(weights.try_insert(1, {2.5, 0}), outcome::ok);
    EXPECT_EQ(reader.find(1), (weight{2.5, 0}));
    test::child_process child([&]() -> int {
        auto own = attach_reader(weights);
        return own.find(1) == weight{2.5, 0} && !own.contains(2) && reader.find(1) == own.find(1) ? 0 : 1;
    });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
}

TEST_P(SmallTableOnShareableKind, SecondWriterIsRefusedAndTheNextOneGoesOn) {
    std::optional<table> first = table::create(place.uri(), {.capacity = 10});
    ASSERT_EQ(first->try_insert(1, {1, 1}), outcome::ok);
    if (first->segment().name().is_memfd()) {
        const segment_descriptors lent = first->segment().descriptors();
        EXPECT_EQ(refusal_of([&] { (void)table::attach(lent); }), errc::writer_alive);
        return;
    }
    EXPECT_EQ(refusal_of([&] { (void)table::attach(place.uri()); }), errc::writer_alive);
    auto reader = attach_reader(*first);
    EXPECT_TRUE(reader.contains(1));
    first.reset();
    auto next = table::attach(place.uri());
    EXPECT_FALSE(next.recovery().change_ended);
    EXPECT_EQ(next.find(1), (weight{1, 1}));
    ASSERT_EQ(next.try_insert(2, {2, 2}), outcome::ok);
    EXPECT_EQ(reader.find(2), (weight{2, 2}));
}

INSTANTIATE_TEST_SUITE_P(Memory, SmallTableOnEveryKind, ::testing::ValuesIn(test::every_kind), test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(Memory, SmallTableOnShareableKind, ::testing::ValuesIn(test::shareable_kinds),
                         test::kind_case_name);

}  // namespace
