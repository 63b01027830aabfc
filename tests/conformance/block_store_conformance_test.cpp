// SPDX-License-Identifier: Apache-2.0
// What a block store must do alike in every kind of memory: one writer, readers on read-only mappings, successors,
// refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstring>
#include <map>
#include <memory>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/block_store.hpp"
#include "holdfast/block_store/many.hpp"
#include "support/memory_kinds.hpp"
#include "support/process.hpp"
#include "support/segment_tools.hpp"
#include "support/snapshot_bench.hpp"

namespace {

using namespace holdfast;
using holdfast::test::child_process;
using holdfast::test::is_whole;
using holdfast::test::memory_place;
using holdfast::test::refusal_of;
using holdfast::test::whole_object;

class BlockStoreEverywhere : public ::testing::TestWithParam<std::string> {
 protected:
    [[nodiscard]] block_store make(std::uint64_t bytes = 100'000) const {
        return block_store::create(place.uri(), {.bytes = bytes, .value_bytes = 100});
    }
    memory_place place{GetParam()};
};
// What writers of either policy say, operation by operation.
template <class Store>
void speak(Store& store) {
    const auto text = [](std::size_t bytes) { return whole_object(bytes, bytes); };
    const block_store_reader reader = store.make_reader();
    const block_result kept = store.allocate(text(300));
    ASSERT_TRUE(kept);
    std::vector<std::byte> out;
    ASSERT_TRUE(reader.read(kept.handle, out));
    EXPECT_EQ(out, text(300));
    const block_result next = store.replace(kept.handle, text(20));
    ASSERT_TRUE(next);
    EXPECT_EQ(reader.read(kept.handle, out).status, outcome::stale);
    EXPECT_EQ(store.replace(kept.handle, text(20)).status, outcome::stale);
    EXPECT_EQ(store.free(kept.handle), outcome::stale);
    EXPECT_EQ(store.commit().status, outcome::not_claimed);
    ASSERT_EQ(store.prepare(1000), outcome::ok);
    const std::uint64_t pending = store.pending();
    EXPECT_EQ(store.commit(kept.handle).status, outcome::stale);
    EXPECT_EQ(store.pending(), pending) << "the claim stays";
    EXPECT_EQ(store.write(990, text(20)), outcome::not_claimed);
    EXPECT_EQ(store.write(0, text(1000)), outcome::ok);
    EXPECT_EQ(store.free(next.handle), outcome::ok);
    EXPECT_FALSE(reader.contains(pending));
    EXPECT_EQ(store.commit().handle, pending);
    ASSERT_TRUE(reader.read(pending, out));
    EXPECT_EQ(out, text(1000));
    EXPECT_EQ(store.prepare(store.geometry().value_bytes_max() + 1), outcome::too_large);
    EXPECT_EQ(store.prepare(store.geometry().value_bytes_max()), outcome::full);
    EXPECT_EQ(store.usage().values, 1U);
    EXPECT_EQ(store.free(pending), outcome::ok);
    const block_result whole = store.allocate(text(store.geometry().value_bytes_max()));
    ASSERT_TRUE(whole) << "every unit is free";
    EXPECT_EQ(store.usage().units_free(), 0U);
    EXPECT_EQ(store.free(whole.handle), outcome::ok);
    EXPECT_EQ(store.usage().units_used, 0U);
    EXPECT_TRUE(store.verify([](const block_finding&) { return true; }).intact());
}

TEST_P(BlockStoreEverywhere, BothPoliciesSpeakAlike) {
    {
        block_store one = make(10'000);
        speak(one);
    }
    memory_place other{GetParam()};
    auto many = basic_block_store<writers::many>::create(other.uri(), {.bytes = 10'000, .value_bytes = 100});
    speak(many);
}

class BlockStoreShareable : public BlockStoreEverywhere {
 protected:
    [[nodiscard]] block_store_reader again(const block_store& store) const {
        return block_store_reader(
            std::make_shared<const segment>(place.attach_again(store.segment(), access::read_only)));
    }
};

TEST_P(BlockStoreEverywhere, ValuesComeBackByTheirHandles) {
    block_store store = make();
    const block_store_reader reader = store.make_reader();
    std::map<std::uint64_t, std::size_t> kept;
    for (std::size_t bytes = 0; bytes < 3000; bytes = bytes * 2 + 1) {
        const block_result result = store.allocate(whole_object(bytes, bytes));
        ASSERT_TRUE(result);
        kept[result.handle] = bytes;
    }
    std::vector<std::byte> out;
    for (const auto& [handle, bytes] : kept) {
        ASSERT_TRUE(reader.read(handle, out));
        EXPECT_EQ(out.size(), bytes);
        EXPECT_TRUE(is_whole(out, bytes));
        EXPECT_EQ(reader.size_of(handle).count, bytes);
    }
    std::uint64_t cursor = 0, met = 0;
    while (const auto handle = reader.next_value(cursor)) {
        EXPECT_TRUE(kept.contains(*handle));
        ++met;
    }
    EXPECT_EQ(met, kept.size());
    EXPECT_EQ(reader.usage().values, kept.size());
    EXPECT_TRUE(reader.verify([](const block_finding&) { return true; }).intact());
    EXPECT_EQ(reader.fault(), std::nullopt);
    for (const auto& [handle, bytes] : kept) EXPECT_EQ(store.free(handle), outcome::ok);
    for (const auto& [handle, bytes] : kept) {
        EXPECT_EQ(store.free(handle), outcome::stale);
        EXPECT_EQ(reader.read(handle, out).status, outcome::stale);
    }
    EXPECT_EQ(reader.usage().units_used, 0U);
}

using values_of_store = decltype(std::declval<const block_store_reader&>().values());
static_assert(std::ranges::input_range<values_of_store>);
static_assert(std::same_as<std::ranges::range_value_t<values_of_store>, block_value>);

TEST_P(BlockStoreEverywhere, ItsValuesAreARange) {
    block_store store = make();
    const block_store_reader reader = store.make_reader();
    EXPECT_EQ(std::ranges::distance(reader.values()), 0) << "an empty store is an empty range";
    std::map<std::uint64_t, std::vector<std::byte>> kept;
    for (std::size_t i = 0; i < 40; ++i) {
        const auto object = whole_object(i, i * i);  // none, of one unit, and of runs of them
        const block_result result = store.allocate(object);
        ASSERT_TRUE(result);
        kept[result.handle] = object;
        if (i % 3 != 0) continue;
        ASSERT_EQ(store.free(result.handle), outcome::ok);
        kept.erase(result.handle);
    }
    std::map<std::uint64_t, std::vector<std::byte>> met;
    for (const auto& [handle, bytes] : reader.values()) EXPECT_TRUE(met.emplace(handle, bytes).second) << "met twice";
    EXPECT_EQ(met, kept);
    // What goes while the range is passed is left out, and ends nothing.
    std::size_t seen = 0;
    for (const block_value& value : store.values()) {
        EXPECT_EQ(value.bytes, kept.at(value.handle));
        ++seen;
        for (const auto& [handle, bytes] : kept) {
            if (handle == value.handle) continue;
            EXPECT_EQ(store.free(handle), outcome::ok);
        }
    }
    EXPECT_EQ(seen, 1U);
    EXPECT_EQ(reader.fault(), std::nullopt);
}

TEST_P(BlockStoreEverywhere, AValueIsReplacedAndFilledInPlace) {
    block_store store = make();
    const block_result first = store.allocate(whole_object(1, 500));
    const block_result second = store.replace(first.handle, whole_object(2, 20));
    ASSERT_TRUE(second);
    EXPECT_FALSE(store.contains(first.handle));
    EXPECT_EQ(store.replace(first.handle, whole_object(3, 20)).status, outcome::stale);
    const auto object = whole_object(4, 5000);
    ASSERT_EQ(store.prepare(5000), outcome::ok);
    ASSERT_EQ(store.fill([&](std::span<std::byte> piece, std::uint64_t offset) {
        std::memcpy(piece.data(), object.data() + offset, piece.size());
    }),
              outcome::ok);
    const block_result third = store.commit(second.handle);
    ASSERT_TRUE(third);
    std::vector<std::byte> out;
    EXPECT_TRUE(store.read(third.handle, out));
    EXPECT_EQ(out, object);
    EXPECT_EQ(store.usage().values, 1U);
    EXPECT_EQ(store.write(0, {}), outcome::not_claimed);
    store.discard();
}

TEST_P(BlockStoreEverywhere, AFullStoreSaysSo) {
    block_store store = make(6400);
    std::vector<std::uint64_t> handles;
    for (;;) {
        const block_result kept = store.allocate(whole_object(1, 200));
        if (!kept) {
            EXPECT_EQ(kept.status, outcome::full);
            break;
        }
        handles.push_back(kept.handle);
    }
    EXPECT_EQ(handles.size(), 25U) << "4 units each";
    EXPECT_EQ(store.allocate(whole_object(1, 6400)).status, outcome::too_large);
    for (const std::uint64_t handle : handles) ASSERT_EQ(store.free(handle), outcome::ok);
    EXPECT_TRUE(store.allocate(whole_object(1, 6400 - 24)));
}

TEST_P(BlockStoreEverywhere, TheReaderKeepsTheMappingAliveWithoutTheWriter) {
    auto store = std::make_unique<block_store>(make());
    const block_result kept = store->allocate(whole_object(1, 100));
    const block_store_reader reader = store->make_reader();
    store.reset();
    std::vector<std::byte> out;
    ASSERT_TRUE(reader.read(kept.handle, out));
    EXPECT_TRUE(is_whole(out, 1));
}

TEST_P(BlockStoreEverywhere, AnotherKindOfContainerIsRefused) {
    segment_spec spec;
    spec.kind = container_kind::raw;
    spec.body_bytes = 100'000;
    const auto raw =
        std::make_shared<const segment>(segment::create(place.uri(), spec, {}, [](std::span<std::byte>) {}));
    EXPECT_EQ(refusal_of([&] { const block_store_reader reader(raw); }), errc::kind_mismatch);
}

TEST_P(BlockStoreEverywhere, AHeaderThatContradictsItsSizeIsRefused) {
    const auto g = layout::plan_block_store({.bytes = 10'000, .value_bytes = 0, .unit_bytes = 64});
    segment_spec spec;
    spec.kind = container_kind::block_store;
    spec.geometry = layout::geometry_words_of(g);
    spec.body_bytes = g.body_bytes() - 64;
    const auto bad =
        std::make_shared<const segment>(segment::create(place.uri(), spec, {}, [](std::span<std::byte>) {}));
    EXPECT_EQ(refusal_of([&] { const block_store_reader reader(bad); }), errc::geometry_mismatch);
}

TEST_P(BlockStoreEverywhere, RequestsThatCannotBeMetAreRefused) {
    for (const block_store_options& options :
         {block_store_options{.bytes = 0}, block_store_options{.bytes = 100, .unit_bytes = 100},
          block_store_options{.bytes = std::uint64_t{1} << 60, .unit_bytes = 64}})
        EXPECT_EQ(refusal_of([&] { (void)block_store::create(place.uri(), options); }), errc::invalid_argument);
}

TEST_P(BlockStoreEverywhere, AForkedChildCannotWrite) {
    block_store store = make();
    const block_result kept = store.allocate(whole_object(1, 100));
    child_process child([&]() -> std::string {
        if (store.allocate(whole_object(2, 10)).status != outcome::read_only) return "allocated";
        if (store.replace(kept.handle, whole_object(2, 10)).status != outcome::read_only) return "replaced";
        if (store.free(kept.handle) != outcome::read_only) return "freed";
        if (store.prepare(10) != outcome::read_only) return "prepared";
        if (store.write(0, {}) != outcome::read_only) return "wrote";
        if (store.commit().status != outcome::read_only) return "committed";
        std::vector<std::byte> out;
        return store.read(kept.handle, out) && is_whole(out, 1) ? "" : "cannot read";
    });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
    EXPECT_TRUE(store.allocate(whole_object(2, 10)));
}

TEST_P(BlockStoreShareable, ASecondMappingSeesEachValue) {
    block_store store = make();
    const block_store_reader reader = again(store);
    std::vector<std::byte> out;
    std::uint64_t last = 0;
    for (std::uint64_t i = 1; i <= 300; ++i) {
        const block_result kept =
            last == 0 ? store.allocate(whole_object(i, i * 7)) : store.replace(last, whole_object(i, i * 7));
        ASSERT_TRUE(kept);
        ASSERT_EQ(reader.read(last, out).status, outcome::stale);
        ASSERT_TRUE(reader.read(kept.handle, out));
        ASSERT_TRUE(is_whole(out, i));
        last = kept.handle;
    }
    EXPECT_EQ(reader.usage().values, 1U);
}

TEST_P(BlockStoreShareable, ASecondWriterIsRefusedWhileTheFirstLivesAndGoesOnAfterwards) {
    auto store = std::make_unique<block_store>(make());
    const block_result kept = store->allocate(whole_object(1, 1000));
    EXPECT_EQ(refusal_of([&] { (void)place.attach_again(store->segment(), access::read_write); }), errc::writer_alive);
    ASSERT_EQ(store->prepare(5000), outcome::ok);    // a claim that goes with its writer
    if (store->segment().name().is_memfd()) return;  // the descriptors go with the handle
    store.reset();
    block_store next = block_store::attach(place.uri());
    EXPECT_FALSE(next.recovery().replacement_finished);
    EXPECT_EQ(next.usage().values, 1U);
    EXPECT_EQ(next.free(kept.handle), outcome::ok);
    EXPECT_EQ(next.usage().units_used, 0U);
    EXPECT_TRUE(next.allocate(whole_object(2, next.geometry().value_bytes_max())));
}

INSTANTIATE_TEST_SUITE_P(BlockStore, BlockStoreEverywhere, ::testing::ValuesIn(holdfast::test::every_kind),
                         holdfast::test::kind_case_name);
INSTANTIATE_TEST_SUITE_P(BlockStore, BlockStoreShareable, ::testing::ValuesIn(holdfast::test::shareable_kinds),
                         holdfast::test::kind_case_name);

}  // namespace
