// SPDX-License-Identifier: Apache-2.0
// A block store whose bytes somebody scribbled on, before or meanwhile: nothing crashes, hangs, reads outside or
// allocates by a number it found; what matters is found.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/block_store.hpp"
#include "support/block_bench.hpp"
#include "support/image_corruption.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

constexpr std::uint64_t units = 64;

class BlockStoreHostile : public ::testing::Test {
 protected:
    // Values of one unit, of several, in several runs, one that was freed, one that was replaced.
    BlockStoreHostile() : bench_(units) {
        block_writer writer = bench_.writer();
        std::vector<std::uint64_t> handles;
        for (std::uint64_t i = 0; i < units; ++i) handles.push_back(put(writer, {i, 40}).handle);
        for (std::uint64_t i = 0; i < units; ++i)
            if (i % 3 == 0 || (i > 10 && i < 20)) {
                EXPECT_EQ(writer.free(handles[i]), outcome::ok);
            }
        keep(put(writer, {100, 400}), {100, 400});
        keep(put(writer, {101, 800}), {101, 800});
        keep(put(writer, {102, 0}), {102, 0});
        const block_result old = put(writer, {103, 50});
        keep(put(writer, {104, 51}, old.handle), {104, 51});
        for (std::uint64_t i = 0; i < units; ++i)
            if (bench_.reader().contains(handles[i])) model_[handles[i]] = {i, 40};
        EXPECT_EQ(difference(bench_.reader(), model_), "");
        EXPECT_EQ(damage_of(bench_.view().as_const()), "");
        sound_.assign(bench_.body().begin(), bench_.body().end());
    }

    void keep(const block_result& kept, block_content what) {
        EXPECT_TRUE(kept);
        model_[kept.handle] = what;
    }

    static void in_bounds(std::span<const std::byte> piece, std::span<const std::byte> image) {
        ASSERT_GE(piece.data(), image.data());
        ASSERT_LE(piece.data() + piece.size(), image.data() + image.size());
    }

    // Everything that any role does with an image. The answers may be anything but impossible.
    void use(std::span<std::byte> image) {
        const writable_blocks view(image, bench_.geometry());
        const block_reader reader(view.as_const());
        std::vector<std::byte> out(bench_.body().size());
        bool corrupt = !reader.usage();
        std::vector<std::uint64_t> handles = handles_of(reader);
        ASSERT_LE(handles.size(), units);
        for (const auto& [handle, what] : model_) handles.push_back(handle);
        for (const std::uint64_t handle : handles) {
            const result got = reader.read(handle, out);
            ASSERT_TRUE(got.status == outcome::ok || got.status == outcome::stale || got.status == outcome::corrupt);
            ASSERT_LE(got.count, units * 64);
            corrupt = corrupt || got.status == outcome::corrupt;
            std::uint64_t seen = 0;
            const auto visited =
                reader.visit(handle, [&](std::span<const std::byte> piece, std::uint64_t from, std::uint64_t) {
                    in_bounds(piece, image);
                    EXPECT_EQ(from, seen);
                    seen += piece.size();
                });
            ASSERT_EQ(visited.status, got.status);
            ASSERT_EQ(reader.size_of(handle).status, got.status);
        }
        found_ = 0;
        const block_store_verification report =
            holdfast::detail::verify_blocks(view.as_const(), [&](const block_finding& f) {
                EXPECT_LT(f.unit, units);
                ++found_;
                return true;
            });
        ASSERT_EQ(report.findings, found_);
        ASSERT_FALSE(report.busy);
        if (corrupt) {
            ASSERT_GT(found_, 0U) << "a reader refuses what verify finds sound";
        }
        block_writer writer(view);
        if (writer.recovery().counts_rebuilt) {
            ASSERT_GT(found_, 0U) << "a writer calls damaged what verify finds sound";
        }
        for (std::uint64_t i = 0; i < 3; ++i) {
            const block_content next{i, static_cast<std::size_t>(i * 90)};
            if (const block_result kept = put(writer, next)) {
                ASSERT_TRUE(holds(reader, kept.handle, next));
                ASSERT_EQ(writer.free(kept.handle), outcome::ok);
            }
        }
        for (const std::uint64_t handle : handles) (void)writer.free(handle);
        (void)put(writer, {7, 1000});
        (void)reader.usage();
    }

    [[nodiscard]] std::uint64_t findings_in(std::span<const std::byte> image) const {
        std::uint64_t found = 0;
        (void)holdfast::detail::verify_blocks(readable_blocks(image, bench_.geometry()),
                                              [&](const block_finding&) { return ++found < 5; });
        return found;
    }

    block_bench bench_;
    block_model model_;
    std::vector<std::byte> sound_;
    std::uint64_t found_ = 0;
};

TEST_F(BlockStoreHostile, EveryFlippedBitOfWhatCountsIsFound) {
    const writable_blocks view = bench_.view();
    const std::uint64_t operation = view.state().operation();
    std::vector<image_part> parts{{"selector", layout::block_selector_offset, 8},
                                  {"record", layout::block_records_offset + operation % 2 * layout::block_record_bytes,
                                   layout::block_record_bytes}};
    const auto place = [&](const std::byte* at) { return static_cast<std::size_t>(at - bench_.body().data()); };
    for (const auto& [handle, what] : model_) {
        std::uint64_t left = what.bytes;
        std::size_t header = layout::block_head_bytes;
        view.for_each_run(view.index_of(handle), [&](const auto& run) {
            parts.push_back({"header", place(view.unit(run.first)), header});
            parts.push_back({"value", place(run.payload.data()), run.payload.size()});
            parts.push_back({"words", place(view.word_at(run.first)), static_cast<std::size_t>(run.units * 8)});
            header = layout::block_run_bytes;
            left -= run.payload.size();
        });
        ASSERT_EQ(left, 0U);
    }
    std::uint64_t flips = 0;
    for (const image_part& part : parts)
        flips += for_each_bit_flip(sound_, part, [&](const damage& d, std::span<std::byte> image) {
            // Complete or not: with everything done, the words say the same.
            if (d.offset == layout::block_selector_offset && d.value == 0) {
                EXPECT_EQ(miscounted(readable_blocks(image, bench_.geometry())), "");
            } else {
                EXPECT_GT(findings_in(image), 0U) << d.text();
            }
        });
    EXPECT_GT(flips, 20'000U);
}

// The words of free units: a flip is found, or changes nothing for anybody.
TEST_F(BlockStoreHostile, AFlippedBitOfAFreeUnitsWordIsFoundOrMeansNothing) {
    const writable_blocks view = bench_.view();
    for (std::uint64_t i = 0; i < units; ++i) {
        if (view.in_use(i)) continue;
        for_each_bit_flip(sound_, {"free word", layout::block_words_offset + 8 * i, 8},
                          [&](const damage& d, std::span<std::byte> image) {
                              const writable_blocks flipped(image, bench_.geometry());
                              if (findings_in(image) != 0) return;
                              EXPECT_EQ(difference(block_reader(flipped.as_const()), model_), "") << d.text();
                              EXPECT_EQ(miscounted(flipped.as_const()), "") << d.text();
                              EXPECT_EQ(leaks(flipped), "") << d.text();
                          });
    }
}

TEST_F(BlockStoreHostile, DamagedWordsAreHarmless) {
    const std::size_t words = layout::block_words_offset;
    std::uint64_t shown = 0;
    for (const image_part& part : {image_part{"control", 0, 192},
                                   {"words", words, units * 8},
                                   {"units", static_cast<std::size_t>(bench_.geometry().units_offset()), units * 64}})
        shown += for_each_word_damage(sound_, part, [&](const damage& d, std::span<std::byte> image) {
            if (sanitized && d.offset % 24 != 0) return;  // a sample
            SCOPED_TRACE(d.text());
            use(image);
        });
    EXPECT_GT(shown, 10'000U);
}

TEST_F(BlockStoreHostile, RandomDamageAndGarbageAreHarmless) {
    seeded_random random;
    const auto visit = [&](const damage& d, std::span<std::byte> image) {
        SCOPED_TRACE(d.text());
        use(image);
    };
    random_damage(sound_, {"words", layout::block_words_offset, units * 8}, random, scaled(2000), visit);
    random_damage(sound_, {"anything", 0, sound_.size()}, random, scaled(2000), visit);
    std::vector<std::byte> garbage(sound_.size());
    shared_image work(sound_.size());
    for (std::uint64_t round = 0; round < scaled(100); ++round) {
        for (std::size_t at = 0; at < garbage.size(); at += 8) {
            // Half of the words look like handles, so that garbage gets past the first check.
            std::uint64_t word = random();
            if (round % 2 == 0)
                word = bench_.view().handle(word % units, 1 + random.below(3)) &
                       ~(word % 3 == 0 ? layout::block_live_bit : 0);
            std::memcpy(garbage.data() + at, &word, 8);
        }
        work.assign(garbage);
        use(work.bytes());
    }
}

// Sizes that no value has: refused before anything is copied or allocated, also where the word still stands.
TEST_F(BlockStoreHostile, ASizeBeyondTheRunsIsNeverFollowed) {
    std::uint64_t handle = 0;
    for (const auto& [each, what] : model_)
        if (what.bytes == 40) handle = each;  // one unit
    std::byte* const head = bench_.view().unit(bench_.view().index_of(handle));
    for (const std::uint64_t bytes :
         {std::uint64_t{41}, std::uint64_t{4096}, std::uint64_t{3} << 30, ~std::uint64_t{0}}) {
        std::memcpy(head, &bytes, 8);
        std::vector<std::byte> out(8192, std::byte{0x33});
        EXPECT_EQ(bench_.reader().read(handle, out).status, outcome::corrupt);
        EXPECT_EQ(bench_.reader().size_of(handle).count, 0U);
    }
}

// Runs that lead round in a circle: as long as the size claims, and no longer.
TEST_F(BlockStoreHostile, RunsInACircleEnd) {
    std::uint64_t handle = 0;
    for (const auto& [each, what] : model_)
        if (what.bytes == 800) handle = each;
    const std::uint64_t index = bench_.view().index_of(handle);
    const std::uint64_t bytes = bench_.geometry().value_bytes_max();
    // Through another unit of the value, and through one of another.
    for (const bool own : {true, false}) {
        bench_.image().assign(sound_);
        std::uint64_t unit = 0;
        while (unit == index || (bench_.view().word(unit) == handle) != own) ++unit;
        const std::uint64_t circle = layout::block_run_word(1, unit);
        std::memcpy(bench_.view().unit(index), &bytes, 8);
        std::memcpy(bench_.view().unit(index) + layout::block_head_run_offset, &circle, 8);
        std::memcpy(bench_.view().unit(unit), &circle, 8);
        std::uint64_t runs = 0;
        EXPECT_EQ(bench_.reader()
                      .visit(handle, [&](std::span<const std::byte>, std::uint64_t, std::uint64_t) { ++runs; })
                      .status,
                  outcome::corrupt);
        EXPECT_EQ(runs, bench_.geometry().units_for_at_worst(bytes)) << "the circle was not followed";
        use(bench_.body());
        EXPECT_GT(found_, 0U);
    }
}

// Millions of bytes made to keep verify busy: every value claims the whole store, and its runs lead round, through a
// unit of its own or of nobody.
TEST(BlockStoreHostileWork, VerifyTakesTimeByTheSizeOfTheStoreOnly) {
    constexpr std::uint64_t many = 64 * 1024;
    for (const bool own : {false, true}) {
        block_bench bench(many);
        const writable_blocks view = bench.view();
        for (std::uint64_t i = 0; i < many; i += 2) {
            const std::uint64_t word = view.handle(i, 1 + i), run = layout::block_run_word(1, i + 1);
            std::memcpy(view.word_at(i), &word, 8);
            if (own) std::memcpy(view.word_at(i + 1), &word, 8);
            const std::uint64_t bytes = bench.geometry().value_bytes_max();
            std::memcpy(view.unit(i), &bytes, 8);
            std::memcpy(view.unit(i) + layout::block_head_run_offset, &run, 8);
            std::memcpy(view.unit(i + 1), &run, 8);
        }
        std::uint64_t foreign = 0, overlap = 0;
        const auto from = std::chrono::steady_clock::now();
        const block_store_verification report =
            holdfast::detail::verify_blocks(view.as_const(), [&](const block_finding& f) {
                foreign += f.what == block_damage::foreign_unit ? 1 : 0;
                overlap += f.what == block_damage::overlap ? 1 : 0;
                return true;
            });
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
        EXPECT_FALSE(report.busy);
        EXPECT_EQ(foreign, own ? 0U : many / 2);
        EXPECT_EQ(overlap, own ? 1U : 0U);
        EXPECT_LT(took.count(), 2.0);  // some 10 ms, against minutes when each value's runs are followed to the end
        // Nor is a value freed whose runs cover more than the store counts.
        block_writer writer = bench.writer();
        EXPECT_EQ(writer.free(view.handle(0, 1)), outcome::corrupt);
    }
}

// Damage to one value does not spread: it cannot be freed, and the others stay.
TEST_F(BlockStoreHostile, AValueWhoseUnitsCannotBeToldIsLeftAlone) {
    block_writer writer = bench_.writer();
    std::uint64_t large = 0;
    for (const auto& [handle, what] : model_)
        if (what.bytes == 800) large = handle;
    const std::uint64_t other = model_.begin()->first == large ? model_.rbegin()->first : model_.begin()->first;
    const std::uint64_t word = layout::block_run_word(2, bench_.view().index_of(other));
    std::byte* const head = bench_.view().unit(bench_.view().index_of(large));
    std::memcpy(head + layout::block_head_run_offset, &word, 8);
    EXPECT_EQ(writer.free(large), outcome::corrupt);
    EXPECT_EQ(writer.reader().fault().get(), errc::corrupt);
    model_.erase(large);
    for (const auto& [handle, what] : model_) EXPECT_TRUE(holds(bench_.reader(), handle, what));
    ASSERT_EQ(writer.prepare(10), outcome::ok);
    EXPECT_EQ(writer.commit(large).status, outcome::corrupt);
}

TEST_F(BlockStoreHostile, ADamagedRecordIsRebuiltAndNotForgotten) {
    bench_.body()[layout::block_records_offset + bench_.view().state().operation() % 2 * 64 + 16] ^= std::byte{1};
    EXPECT_EQ(bench_.reader().usage().status, outcome::corrupt);
    {
        block_writer writer = bench_.writer();
        EXPECT_TRUE(writer.recovery().counts_rebuilt);
        EXPECT_EQ(writer.values(), model_.size());
        const block_result kept = put(writer, {1, 10});
        ASSERT_TRUE(kept);
        model_[kept.handle] = {1, 10};
    }
    EXPECT_EQ(difference(bench_.reader(), model_), "");
    EXPECT_EQ(miscounted(bench_.view().as_const()), "");
    EXPECT_NE(damage_of(bench_.view().as_const()).find("rebuilt"), std::string::npos);
    const block_writer next = bench_.writer();
    EXPECT_FALSE(next.recovery().counts_rebuilt);
}

// Whichever operation a damaged selector names: once rebuilt, and once something was stored, the store is sound.
TEST_F(BlockStoreHostile, ARebuiltStoreStaysSoundWhateverTheSelectorSaid) {
    {
        block_writer writer = bench_.writer();
        // So that the operation two back is named when one bit is lost.
        while ((bench_.view().selector() & 4) == 0) {
            const block_result kept = put(writer, {1, 10});
            ASSERT_TRUE(kept);
            model_[kept.handle] = {1, 10};
        }
    }
    sound_.assign(bench_.body().begin(), bench_.body().end());
    std::uint64_t rebuilt = 0;
    for_each_bit_flip(sound_, {"selector", layout::block_selector_offset, 8},
                      [&](const damage& d, std::span<std::byte> image) {
                          SCOPED_TRACE(d.text());
                          const writable_blocks view(image, bench_.geometry());
                          block_writer writer(view);
                          if (!writer.recovery().counts_rebuilt) return;
                          ++rebuilt;
                          block_model model = model_;
                          const block_result kept = put(writer, {1, 10});
                          ASSERT_TRUE(kept);
                          model[kept.handle] = {1, 10};
                          EXPECT_EQ(miscounted(view.as_const()), "");
                          EXPECT_EQ(findings_in(image), 1U) << "that the counts were rebuilt";
                          const block_writer next(view);
                          EXPECT_FALSE(next.recovery().counts_rebuilt);
                          EXPECT_EQ(next.values(), model.size());
                          EXPECT_EQ(difference(next.reader(), model), "");
                      });
    EXPECT_EQ(rebuilt, 63U) << "every bit but the lowest";
}

// Rebuilt, and gone again before the first operation: the next one rebuilds, also where a blank record would say that
// nothing was ever stored.
TEST(BlockStoreRebuilt, AWriterThatDoesNothingLeavesTheStoreToTheNext) {
    block_bench bench(16);
    block_model model;
    {
        block_writer writer = bench.writer();
        const block_result kept = put(writer, {1, 10});
        ASSERT_TRUE(kept);
        model[kept.handle] = {1, 10};
    }
    std::memset(bench.view().selector_at(), 0, 8);
    for (unsigned round = 0; round < 3; ++round) {
        const block_writer writer = bench.writer();
        EXPECT_TRUE(writer.recovery().counts_rebuilt);
        EXPECT_EQ(writer.values(), 1U);
        EXPECT_EQ(bench.reader().usage().status, outcome::corrupt);
    }
    {
        block_writer writer = bench.writer();
        const block_result kept = put(writer, {2, 100});
        ASSERT_TRUE(kept);
        model[kept.handle] = {2, 100};
    }
    EXPECT_EQ(difference(bench.reader(), model), "");
    EXPECT_EQ(miscounted(bench.view().as_const()), "");
    EXPECT_FALSE(block_writer(bench.view()).recovery().counts_rebuilt);
}

// The last of all numbers: what is begun behind it must not be numbered anew from nothing.
TEST(BlockStoreRebuilt, AJournalWhoseNumbersAreUsedUpIsGoneOnFromAllTheSame) {
    block_bench bench(16);
    block_model model;
    {
        block_writer writer = bench.writer();
        const block_result kept = put(writer, {1, 10});
        ASSERT_TRUE(kept);
        model[kept.handle] = {1, 10};
    }
    std::memset(bench.view().selector_at(), 0xFF, 8);
    {
        block_writer writer = bench.writer();
        EXPECT_TRUE(writer.recovery().counts_rebuilt);
        for (std::uint64_t i = 2; i < 5; ++i) {
            const block_result kept = put(writer, {i, 10});
            ASSERT_TRUE(kept);
            model[kept.handle] = {i, 10};
            EXPECT_EQ(miscounted(bench.view().as_const()), "");
        }
    }
    EXPECT_EQ(difference(bench.reader(), model), "");
    const block_writer next(bench.view());
    EXPECT_FALSE(next.recovery().counts_rebuilt);
    EXPECT_EQ(next.values(), model.size());
}

// A record with a sum that fits, of a replacement still open, whose old value is larger than all there is: not
// believed.
TEST(BlockStoreForged, AReplacementThatTakesMoreThanThereIsIsNotFinished) {
    using record = holdfast::detail::block_record;
    for (const std::uint64_t taken : {std::uint64_t{3}, std::uint64_t{0xffffffff}}) {
        block_bench bench(16);
        const writable_blocks view = bench.view();
        std::uint64_t old = 0, kept = 0;
        {
            block_writer writer = bench.writer();
            old = put(writer, {1, 10}).handle;
            kept = put(writer, {2, 10}, old).handle;
        }
        // As if killed before the old value went.
        const std::uint64_t operation = view.state().operation(), open = 2 * operation;
        std::memcpy(view.word_at(view.index_of(old)), &old, 8);
        std::memcpy(view.selector_at(), &open, 8);
        record forged = view.record_of(operation);
        forged.word[record::counts] = 1 | taken << 32;
        forged.word[record::sum] = forged.sum_as(operation);
        std::memcpy(view.record_at(operation), forged.word, sizeof forged.word);
        block_writer writer = bench.writer();
        EXPECT_TRUE(writer.recovery().counts_rebuilt);
        EXPECT_FALSE(writer.recovery().replacement_finished);
        EXPECT_EQ(writer.units_used(), 2U);
        EXPECT_EQ(writer.values(), 2U);
        EXPECT_TRUE(holds(bench.reader(), old, {1, 10}) && holds(bench.reader(), kept, {2, 10}));
        EXPECT_EQ(writer.free(old), outcome::ok);
        EXPECT_EQ(miscounted(view.as_const()), "");
    }
}

// A thread that writes at random over the whole body while every role works: answers of any kind, but they come, and
// nothing leaves the body (address sanitizer watches).
TEST_F(BlockStoreHostile, AScribblerIsSurvived) {
    seeded_random random;
    std::atomic<bool> stop{false};
    std::vector<std::uint64_t> words(4096);
    for (std::uint64_t& word : words) word = random();
    std::thread scribbler([&] {
        // Relaxed throughout: noise.
        const std::size_t body_words = bench_.body().size() / 8;
        for (std::size_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
            const std::uint64_t word = words[i % words.size()];
            const std::size_t at = words[(i * 7 + 3) % words.size()] % body_words;
            const std::uint64_t handle = bench_.view().handle(word % units, 1 + (word >> 8) % 200) &
                                         ~(word % 4 == 0 ? layout::block_live_bit : 0);
            const std::uint64_t value = i % 3 == 0 ? word : i % 3 == 1 ? handle : word % 1024;
            holdfast::detail::shared_store<std::uint64_t>(bench_.body().data() + 8 * at, value);
        }
    });
    std::vector<std::byte> out(units * 64);
    for (std::uint64_t round = 0; round < scaled(2000); ++round) {
        const block_reader reader = bench_.reader();
        for (const std::uint64_t handle : handles_of(reader)) {
            const auto got = reader.visit(handle, [&](std::span<const std::byte> piece, std::uint64_t, std::uint64_t) {
                in_bounds(piece, bench_.body());
                holdfast::detail::copy_from_shared(out.data(), piece.data(), std::min(piece.size(), out.size()));
            });
            EXPECT_LE(got.count, units * 64);
            (void)reader.read(handle, out);
        }
        (void)reader.usage();
        (void)findings_in(bench_.body());
        block_writer writer = bench_.writer();
        for (std::uint64_t i = 0; i < 8; ++i) {
            const block_result kept = put(writer, {i, static_cast<std::size_t>(random.below(900))});
            if (kept && i % 2 == 0) (void)writer.free(kept.handle);
            if (kept && i % 2 == 1) (void)put(writer, {i, 30}, kept.handle);
        }
    }
    stop.store(true, std::memory_order_relaxed);
    scribbler.join();
}

// Heads that each say the whole store is theirs: copies of all values end, by the size of the store.
TEST(BlockStoreLies, ValuesAreCopiedInTimeByTheSizeOfTheStore) {
    namespace d = holdfast::detail;
    constexpr std::uint64_t many = 4000;
    block_bench bench(many);
    const auto store = bench.view();
    for (std::uint64_t unit = 0; unit < many; ++unit) {
        const std::uint64_t next = unit + 1 < many ? unit + 1 : 0;
        d::shared_store<std::uint64_t>(store.unit(unit), (many - unit) * 64 - layout::block_head_bytes);
        d::shared_store<std::uint64_t>(
            store.unit(unit) + layout::block_head_run_offset,
            layout::block_run_word(static_cast<std::uint32_t>(many - unit), layout::block_no_run));
        d::store_release<std::uint64_t>(store.word_at(unit), store.handle(unit, 5 + next % 2));
    }
    const block_reader reader = bench.reader();
    std::uint64_t bytes = 0, values = 0;
    for (const block_value& value : d::block_values(reader)) bytes += value.bytes.size(), ++values;
    EXPECT_GE(values, d::scan_turns_max);
    EXPECT_LE(bytes, d::scan_turns_max * many * 64);
    EXPECT_EQ(reader.fault().get(), errc::corrupt);
}

}  // namespace
