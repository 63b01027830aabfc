// SPDX-License-Identifier: Apache-2.0
// The core of a block store over plain bytes: sizes, handles, scattered values, claims, replacement, successors, and
// random histories against a model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "support/block_bench.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

TEST(BlockStore, ZeroedBytesAreAnEmptyStore) {
    block_bench bench(100);
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    EXPECT_EQ(miscounted(bench.view().as_const()), "");
    const block_store_usage usage = bench.reader().usage();
    EXPECT_EQ(usage.units, 100U);
    EXPECT_EQ(usage.units_used, 0U);
    EXPECT_EQ(usage.values, 0U);
    EXPECT_EQ(usage.unit_bytes, 64U);
    EXPECT_EQ(bench.reader().next_value(0), 0U);
}

TEST(BlockStore, ValuesOfEverySizeComeBack) {
    block_bench bench(2000);
    block_writer writer = bench.writer();
    block_model model;
    std::uint64_t units = 0;
    for (std::size_t bytes = 0; bytes < 300; ++bytes) {
        const block_result kept = put(writer, {bytes, bytes});
        ASSERT_TRUE(kept) << bytes;
        model[kept.handle] = {bytes, bytes};
        units += bench.geometry().units_for(bytes);
    }
    EXPECT_EQ(difference(bench.reader(), model), "");
    EXPECT_EQ(writer.units_used(), units) << "an empty store has room in one run for each";
    EXPECT_EQ(miscounted(bench.view().as_const()), "");
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
    EXPECT_EQ(leaks(bench.view()), "");
}

TEST(BlockStore, LargeValuesComeBack) {
    for (const std::uint64_t unit_bytes : {64U, 512U, 65536U}) {
        block_bench bench((4U << 20) / unit_bytes, unit_bytes);
        block_writer writer = bench.writer();
        block_model model;
        for (const std::size_t bytes : {300'000U, 700'001U, 1U << 20, 65'536U})
            model[put(writer, {bytes, bytes}).handle] = {bytes, bytes};
        EXPECT_EQ(model.size(), 4U);
        EXPECT_EQ(difference(bench.reader(), model), "");
        EXPECT_EQ(damage_of(bench.view().as_const()), "");
    }
}

// What reads look at instead of walking, for sizes and words that a writer stores and for such as none does.
TEST(BlockStore, OneRunIsToldAsTheWalkTellsIt) {
    for (const std::uint64_t unit_bytes : {64U, 4096U, 65536U}) {
        block_bench bench(50, unit_bytes);
        const auto view = bench.view().as_const();
        std::vector<std::uint64_t> sizes = {0, 1, unit_bytes << 32, (unit_bytes << 32) - 24, ~std::uint64_t{0}};
        for (const unsigned bit : {46U, 61U, 62U, 63U})
            for (const std::uint64_t less : {0U, 1U, 24U, 25U}) sizes.push_back((std::uint64_t{1} << bit) - less);
        for (std::uint64_t units = 1; units < 53; ++units)
            for (const std::uint64_t more : {0U, 1U, 2U}) sizes.push_back(units * unit_bytes - 25 + more);
        std::size_t told = 0;
        for (const std::uint64_t bytes : sizes)
            for (std::uint64_t head = 0; head < 50; ++head)
                for (const std::uint64_t off : {0U, 1U, 2U})
                    for (const std::uint64_t upper : {layout::block_no_run, std::uint64_t{0}, std::uint64_t{3}}) {
                        // Also what comes out where the sum of the upper half carries.
                        const std::uint64_t word = ((bytes + 23 + unit_bytes) / unit_bytes + off - 1) + (upper << 32);
                        unsigned runs = 0;
                        const bool whole =
                            view.for_each_run(head, bytes, word, [&](const auto&) { return ++runs < 2; });
                        const bool one = view.is_one_run(head, bytes, word);
                        ASSERT_EQ(one, whole && runs == 1) << bytes << " bytes at " << head << ", run word " << word;
                        told += one ? 1U : 0U;
                    }
        EXPECT_GT(told, 1000U);
    }
}

TEST(BlockStore, OneValueCanFillTheStore) {
    block_bench bench(64);
    block_writer writer = bench.writer();
    const block_content all{1, static_cast<std::size_t>(bench.geometry().value_bytes_max())};
    EXPECT_EQ(put(writer, {1, all.bytes + 1}).status, outcome::too_large);
    const block_result kept = put(writer, all);
    ASSERT_TRUE(kept);
    EXPECT_TRUE(holds(bench.reader(), kept.handle, all));
    EXPECT_EQ(writer.units_used(), 64U);
    EXPECT_EQ(put(writer, {2, 0}).status, outcome::full);
    EXPECT_TRUE(holds(bench.reader(), kept.handle, all));
    EXPECT_EQ(writer.free(kept.handle), outcome::ok);
    EXPECT_EQ(leaks(bench.view()), "");
}

TEST(BlockStore, FreedAndForeignHandlesAreStale) {
    block_bench bench(16);
    block_writer writer = bench.writer();
    const block_result first = put(writer, {1, 100}), second = put(writer, {2, 30});
    ASSERT_EQ(writer.free(first.handle), outcome::ok);
    const std::vector<std::byte> before(bench.body().begin(), bench.body().end());
    std::vector<std::byte> out(200);
    std::vector<std::uint64_t> none{0, 1, first.handle, ~std::uint64_t{0}, second.handle + 1, second.handle ^ 1U};
    for (unsigned bit = 0; bit < 64; ++bit) none.push_back(second.handle ^ std::uint64_t{1} << bit);
    for (const std::uint64_t handle : none) {
        EXPECT_EQ(writer.free(handle), outcome::stale) << handle;
        EXPECT_EQ(bench.reader().read(handle, out).status, outcome::stale) << handle;
        EXPECT_EQ(bench.reader().size_of(handle).status, outcome::stale);
        EXPECT_FALSE(bench.reader().contains(handle));
        ASSERT_EQ(writer.prepare(1), outcome::ok);
        EXPECT_EQ(writer.commit(handle == 0 ? 1 : handle).status, outcome::stale);
        writer.discard();
    }
    EXPECT_EQ(bench.reader().fault().get(), std::nullopt);
    EXPECT_EQ(difference(bench.reader(), {{second.handle, {2, 30}}}), "");
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
}

TEST(BlockStore, AHandleNeverComesBackWithItsUnits) {
    block_bench bench(6);
    block_writer writer = bench.writer();
    std::set<std::uint64_t> seen;
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < 5000; ++i) {
        const block_result kept = put(writer, {i, i % 150});
        ASSERT_TRUE(kept);
        ASSERT_TRUE(seen.insert(kept.handle).second);
        ASSERT_EQ(writer.free(last), last == 0 ? outcome::stale : outcome::ok);
        ASSERT_FALSE(bench.reader().contains(last));
        if (i % 3 == 0) {
            ASSERT_EQ(writer.free(kept.handle), outcome::ok);
            last = 0;
        } else {
            last = kept.handle;
        }
        if (i % 100 == 0) writer = bench.writer();  // a successor goes on counting
    }
    EXPECT_EQ(miscounted(bench.view().as_const()), "");
}

TEST(BlockStore, SerialsGoRoundWithoutZero) {
    block_bench bench(16);
    // As if as many values had been stored as there are serials, but two.
    writable_blocks view = bench.view();
    detail::block_record record{};
    record.word[detail::block_record::serial] = view.serial_max() - 2;
    record.word[detail::block_record::sum] = record.sum_as(1);
    std::memcpy(view.record_at(1), record.word, sizeof record.word);
    const std::uint64_t selector = 2;
    std::memcpy(view.selector_at(), &selector, sizeof selector);
    ASSERT_EQ(damage_of(view.as_const()), "");
    block_writer writer = bench.writer();
    std::vector<std::uint64_t> serials;
    for (int i = 0; i < 4; ++i) serials.push_back(view.serial_of(put(writer, {1, 20}).handle));
    EXPECT_EQ(serials, (std::vector<std::uint64_t>{view.serial_max() - 1, view.serial_max(), 1, 2}));
    EXPECT_EQ(damage_of(view.as_const()), "");
}

TEST(BlockStore, ATooSmallBufferIsToldTheSize) {
    block_bench bench(16);
    block_writer writer = bench.writer();
    const block_result kept = put(writer, {1, 100});
    std::vector<std::byte> out(99, std::byte{0x55});
    const result got = bench.reader().read(kept.handle, out);
    EXPECT_EQ(got.status, outcome::too_small);
    EXPECT_EQ(got.count, 100U);
    EXPECT_TRUE(std::ranges::all_of(out, [](std::byte b) { return b == std::byte{0x55}; })) << "nothing is copied";
    EXPECT_EQ(bench.reader().size_of(kept.handle).count, 100U);
}

// Pieces of any size in any order, over many runs: each lands where it belongs.
TEST(BlockStore, AScatteredClaimIsWrittenInAnyOrder) {
    seeded_random random;
    block_bench bench(200);
    block_writer writer = bench.writer();
    std::vector<std::uint64_t> handles;
    for (std::uint64_t i = 0; i < 200; ++i) handles.push_back(put(writer, {i, 40}).handle);
    for (std::size_t i = 0; i < 200; i += 2) ASSERT_EQ(writer.free(handles[i]), outcome::ok);
    constexpr std::size_t bytes = 40 + 99 * 56;
    for (unsigned round = 0; round < 20; ++round) {
        ASSERT_EQ(writer.prepare(bytes), outcome::ok);
        std::vector<std::byte> expected = whole_object(round, bytes);
        ASSERT_EQ(writer.write(0, expected), outcome::ok);
        for (unsigned i = 0; i < 100; ++i) {
            const auto at = static_cast<std::size_t>(random.below(bytes));
            const auto piece = whole_object(random(), static_cast<std::size_t>(random.below(bytes - at + 1)));
            std::ranges::copy(piece, expected.begin() + static_cast<std::ptrdiff_t>(at));
            ASSERT_EQ(writer.write(at, piece), outcome::ok);
        }
        const block_result kept = writer.commit();
        std::vector<std::byte> out(bytes);
        ASSERT_TRUE(bench.reader().read(kept.handle, out));
        ASSERT_EQ(out, expected);
        ASSERT_EQ(writer.free(kept.handle), outcome::ok);
    }
}

// Every other unit is taken: a larger value goes into the scattered rest, up to its last byte.
TEST(BlockStore, AScatteredValueTakesWhateverIsFree) {
    constexpr std::uint64_t units = 200;
    for (const bool fits : {true, false}) {
        block_bench bench(units);
        block_writer writer = bench.writer();
        std::vector<std::uint64_t> handles;
        for (std::uint64_t i = 0; i < units; ++i) handles.push_back(put(writer, {i, 40}).handle);
        block_model model;
        for (std::uint64_t i = 0; i < units; ++i) {
            if (i % 2 == 0)
                ASSERT_EQ(writer.free(handles[i]), outcome::ok);
            else
                model[handles[i]] = {i, 40};
        }
        const std::size_t room = 40 + (units / 2 - 1) * 56;
        const block_content large{999, fits ? room : room + 1};
        const block_result kept = put(writer, large);
        if (fits) {
            ASSERT_TRUE(kept);
            model[kept.handle] = large;
            EXPECT_EQ(writer.units_used(), units);
        } else {
            EXPECT_EQ(kept.status, outcome::full);
            EXPECT_EQ(writer.units_used(), units / 2);
        }
        EXPECT_EQ(difference(bench.reader(), model), "");
        block_store_verification report;
        EXPECT_EQ(damage_of(bench.view().as_const(), &report), "");
        EXPECT_EQ(report.scattered, fits ? 1U : 0U);
        EXPECT_EQ(report.free_runs, fits ? 0U : units / 2);
        EXPECT_EQ(report.longest_free_run, fits ? 0U : 1U);
        EXPECT_EQ(miscounted(bench.view().as_const()), "");
        EXPECT_EQ(leaks(bench.view()), "");
    }
}

TEST(BlockStore, FreeUnitsInOneRunArePreferred) {
    block_bench bench(20);
    block_writer writer = bench.writer();
    std::vector<std::uint64_t> handles;
    for (std::uint64_t i = 0; i < 20; ++i) handles.push_back(put(writer, {i, 40}).handle);
    for (const std::size_t i : {1U, 3U, 10U, 11U, 12U}) ASSERT_EQ(writer.free(handles[i]), outcome::ok);
    const block_result kept = put(writer, {1, 40 + 2 * 64});
    ASSERT_TRUE(kept);
    EXPECT_EQ(bench.view().index_of(kept.handle), 10U);
    block_store_verification report;
    EXPECT_EQ(damage_of(bench.view().as_const(), &report), "");
    EXPECT_EQ(report.scattered, 0U);
}

TEST(BlockStore, AClaimShowsNowhereUntilItIsCommitted) {
    block_bench bench(16);
    block_writer writer = bench.writer();
    const block_result kept = put(writer, {1, 100});
    const auto control = [&] {
        return std::vector<std::byte>(
            bench.body().begin(), bench.body().begin() + static_cast<std::ptrdiff_t>(bench.geometry().units_offset()));
    };
    const auto before = control();
    ASSERT_EQ(writer.prepare(500), outcome::ok);
    EXPECT_EQ(writer.write(0, whole_object(2, 500)), outcome::ok);
    EXPECT_EQ(control(), before);
    EXPECT_EQ(difference(bench.reader(), {{kept.handle, {1, 100}}}), "");
    ASSERT_EQ(writer.prepare(600), outcome::ok) << "a second claim drops the first";
    EXPECT_EQ(control(), before);
    writer.discard();
    EXPECT_EQ(control(), before);
    EXPECT_EQ(writer.commit().status, outcome::not_claimed);
    EXPECT_EQ(writer.write(0, {}), outcome::not_claimed);
    EXPECT_EQ(writer.fill([](std::span<std::byte>, std::uint64_t) {}), outcome::not_claimed);
    const block_content rest{3, static_cast<std::size_t>(14 * 64 - 24)};
    EXPECT_TRUE(put(writer, rest)) << "everything dropped is free again";
}

TEST(BlockStore, ThePendingHandleIsTheOneThatCommitGives) {
    block_bench bench(16);
    block_writer writer = bench.writer();
    EXPECT_EQ(writer.pending(), 0U);
    const block_result first = put(writer, {1, 100}), second = put(writer, {2, 100});
    EXPECT_EQ(writer.pending(), 0U) << "committed";
    ASSERT_EQ(writer.prepare(200), outcome::ok);
    const std::uint64_t pending = writer.pending();
    EXPECT_NE(pending, 0U);
    EXPECT_FALSE(bench.reader().contains(pending));
    EXPECT_EQ(writer.free(pending), outcome::stale);
    EXPECT_EQ(writer.free(first.handle), outcome::ok);
    EXPECT_EQ(writer.pending(), pending) << "what is freed meanwhile changes nothing";
    EXPECT_EQ(writer.commit(first.handle).status, outcome::stale);
    EXPECT_EQ(writer.pending(), pending) << "a refused commit neither";
    EXPECT_EQ(writer.commit(second.handle).handle, pending);
    EXPECT_TRUE(bench.reader().contains(pending));
    ASSERT_EQ(writer.prepare(10), outcome::ok);
    EXPECT_NE(writer.pending(), pending);
    writer.discard();
    EXPECT_EQ(writer.pending(), 0U);
    EXPECT_EQ(writer.prepare(5000), outcome::too_large);
    EXPECT_EQ(writer.pending(), 0U);
}

// Over the end of the serials, and in every history.
TEST(BlockStore, ThePendingHandleHoldsWhenSerialsGoRound) {
    block_bench bench(16);
    writable_blocks view = bench.view();
    detail::block_record record{};
    record.word[detail::block_record::serial] = view.serial_max() - 1;
    record.word[detail::block_record::sum] = record.sum_as(1);
    std::memcpy(view.record_at(1), record.word, sizeof record.word);
    const std::uint64_t selector = 2;
    std::memcpy(view.selector_at(), &selector, sizeof selector);
    block_writer writer = bench.writer();
    for (int i = 0; i < 4; ++i) {
        ASSERT_EQ(writer.prepare(20), outcome::ok);
        const std::uint64_t pending = writer.pending();
        EXPECT_TRUE(view.is_handle(pending));
        EXPECT_EQ(writer.commit().handle, pending);
    }
}

TEST(BlockStore, WritesBeyondTheClaimAreRefused) {
    block_bench bench(16);
    block_writer writer = bench.writer();
    ASSERT_EQ(writer.prepare(100), outcome::ok);
    const auto object = whole_object(5, 100);
    EXPECT_EQ(writer.write(1, object), outcome::not_claimed);
    EXPECT_EQ(writer.write(101, {}), outcome::not_claimed);
    EXPECT_EQ(writer.write(~std::uint64_t{0}, object), outcome::not_claimed);
    EXPECT_EQ(writer.write(100, {}), outcome::ok);
    for (std::size_t at = 0; at < 100; at += 7)
        EXPECT_EQ(writer.write(at, std::span(object).subspan(at, std::min<std::size_t>(7, 100 - at))), outcome::ok);
    const block_result kept = writer.commit();
    EXPECT_TRUE(holds(bench.reader(), kept.handle, {5, 100}));
    EXPECT_EQ(damage_of(bench.view().as_const()), "");
}

TEST(BlockStore, FillShowsTheClaimPieceByPiece) {
    block_bench bench(8);
    block_writer writer = bench.writer();
    std::vector<std::uint64_t> handles;
    for (std::uint64_t i = 0; i < 8; ++i) handles.push_back(put(writer, {i, 1}).handle);
    for (const std::size_t i : {0U, 1U, 4U, 7U}) ASSERT_EQ(writer.free(handles[i]), outcome::ok);
    const std::size_t bytes = (128 - 24) + (64 - 8) + 10;
    const auto object = whole_object(6, bytes);
    ASSERT_EQ(writer.prepare(bytes), outcome::ok);
    std::vector<std::size_t> sizes;
    std::uint64_t expected = 0;
    ASSERT_EQ(writer.fill([&](std::span<std::byte> piece, std::uint64_t offset) {
        EXPECT_EQ(offset, expected);
        std::memcpy(piece.data(), object.data() + offset, piece.size());
        sizes.push_back(piece.size());
        expected += piece.size();
    }),
              outcome::ok);
    EXPECT_EQ(sizes, (std::vector<std::size_t>{104, 56, 10}));
    const block_result kept = writer.commit();
    EXPECT_TRUE(holds(bench.reader(), kept.handle, {6, bytes}));
    std::vector<std::size_t> seen;
    EXPECT_TRUE(
        bench.reader().visit(kept.handle, [&](std::span<const std::byte> piece, std::uint64_t, std::uint64_t all) {
            EXPECT_EQ(all, bytes);
            seen.push_back(piece.size());
        }));
    EXPECT_EQ(seen, sizes);
}

TEST(BlockStore, AReplacementTakesTheOldValueOut) {
    block_bench bench(16);
    block_writer writer = bench.writer();
    const block_result first = put(writer, {1, 100});
    const block_result second = put(writer, {2, 300}, first.handle);
    ASSERT_TRUE(second);
    EXPECT_FALSE(bench.reader().contains(first.handle));
    EXPECT_EQ(difference(bench.reader(), {{second.handle, {2, 300}}}), "");
    EXPECT_EQ(put(writer, {3, 10}, first.handle).status, outcome::stale);
    EXPECT_EQ(put(writer, {3, 800}, second.handle).status, outcome::full) << "no room for both";
    EXPECT_EQ(difference(bench.reader(), {{second.handle, {2, 300}}}), "");
    EXPECT_EQ(miscounted(bench.view().as_const()), "");
    EXPECT_EQ(leaks(bench.view()), "");
}

TEST(BlockStore, ValuesAreMetOnceInTheOrderOfTheirUnits) {
    block_bench bench(64);
    block_writer writer = bench.writer();
    std::set<std::uint64_t> kept;
    for (std::uint64_t i = 0; i < 20; ++i) kept.insert(put(writer, {i, i * 5}).handle);
    const std::vector<std::uint64_t> met = handles_of(bench.reader());
    EXPECT_EQ(std::set(met.begin(), met.end()), kept);
    EXPECT_EQ(met.size(), kept.size());
    EXPECT_TRUE(std::ranges::is_sorted(met, {}, [&](std::uint64_t h) { return bench.view().index_of(h); }));
    EXPECT_EQ(bench.reader().next_value(~std::uint64_t{0}), 0U);
}

// Random histories, with successors in between, over several sizes of units and stores.
TEST(BlockStore, RandomHistoriesAgreeWithAModel) {
    seeded_random random;
    for (std::uint64_t round = 0; round < scaled(60); ++round) {
        const std::uint64_t unit_bytes = std::uint64_t{64} << random.below(4);
        block_bench bench(1 + random.below(round % 4 == 0 ? 10000 : 200), unit_bytes);
        block_writer writer = bench.writer();
        block_model model;
        const std::uint64_t sizes = 1 + random.below(unit_bytes * 12);
        for (std::uint64_t i = 0; i < 400; ++i) {
            const block_content next{random(), static_cast<std::size_t>(random.below(sizes))};
            const std::uint64_t choice = random.below(20);
            auto at = model.begin();
            if (!model.empty()) std::advance(at, static_cast<std::ptrdiff_t>(random.below(model.size())));
            if (choice < 10 || model.empty()) {
                const block_result kept = put(writer, next);
                if (kept) model[kept.handle] = next;
                const std::uint64_t free = bench.geometry().units - writer.units_used();
                if (!kept) {
                    ASSERT_LT(free, bench.geometry().units_for_at_worst(next.bytes)) << "refused what certainly fits";
                }
            } else if (choice < 15) {
                ASSERT_EQ(writer.free(at->first), outcome::ok);
                model.erase(at);
            } else if (choice < 18) {
                const block_result kept = put(writer, next, at->first);
                if (kept) {
                    model.erase(at);
                    model[kept.handle] = next;
                }
            } else if (choice == 18) {
                if (writer.prepare(next.bytes) == outcome::ok) (void)writer.write(0, whole_object(1, next.bytes));
            } else {
                writer = bench.writer();
            }
            if (i % 50 == 49) {
                ASSERT_EQ(difference(bench.reader(), model), "") << "after operation " << i;
            }
        }
        ASSERT_EQ(difference(bench.reader(), model), "");
        ASSERT_EQ(damage_of(bench.view().as_const()), "");
        ASSERT_EQ(miscounted(bench.view().as_const()), "");
        ASSERT_EQ(leaks(bench.view()), "");
    }
}

}  // namespace
