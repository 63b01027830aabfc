// SPDX-License-Identifier: Apache-2.0
// One writer at full speed against readers of every sort, as threads on one mapping: no object is ever seen mixed, and
// versions never run backwards.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "support/scale.hpp"
#include "support/snapshot_bench.hpp"

namespace {

using holdfast::outcome;
using holdfast::layout::snapshot_pin_core;
using holdfast::test::hazard_bench;
using holdfast::test::scaled;
using holdfast::test::snapshot_bench;

constexpr std::size_t object_bytes = 1024;

// Every word of object v is v, but the first: how many words there are. A mix of two versions shows in the words.
void fill(std::vector<std::uint64_t>& words, std::uint64_t version) {
    const std::size_t size = 1 + version % (object_bytes / 8 - 1);
    words.assign(size + 1, version);
    words[0] = size;
}

bool whole(const std::uint64_t* words, std::size_t bytes, std::uint64_t version) {
    if (bytes < 8 || bytes != 8 * (words[0] + 1)) return false;
    for (std::size_t i = 1; i <= words[0]; ++i)
        if (words[i] != version) return false;
    return true;
}

struct tally {
    std::atomic<std::uint64_t> read{0}, wrong{0}, contended{0};
};

// Relaxed throughout: totals that are looked at after the threads were joined.
void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

template <class Read>
void read_until(const std::atomic<bool>& stop, tally& totals, Read read) {
    std::uint64_t last = 0;
    while (!stop.load(std::memory_order_relaxed)) {
        std::uint64_t version = 0;
        switch (read(version)) {
            case outcome::ok:
                count(totals.read);
                if (version < last) count(totals.wrong);
                last = version;
                break;
            case outcome::empty: break;
            case outcome::contended: count(totals.contended); break;
            default: count(totals.wrong);
        }
    }
}

TEST(SnapshotConcurrency, CopyingReadersNeverSeeAMix) {
    snapshot_bench bench(4, object_bytes);
    std::atomic<bool> stop{false};
    tally totals;
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i)
        readers.emplace_back([&] {
            const auto reader = bench.reader();
            std::vector<std::uint64_t> words(object_bytes / 8);
            read_until(stop, totals, [&](std::uint64_t& version) {
                const auto got = reader.read(std::as_writable_bytes(std::span(words)));
                version = got.version;
                if (got && !whole(words.data(), static_cast<std::size_t>(got.bytes), version)) count(totals.wrong);
                return got.status;
            });
        });
    auto writer = bench.writer();
    holdfast::layout::no_hazards nobody;
    std::vector<std::uint64_t> words;
    // Here and below: beside readers that have begun, however long that takes.
    for (std::uint64_t i = 1; i <= scaled(200000) || totals.read == 0; ++i) {
        fill(words, i);
        ASSERT_TRUE(writer.publish(std::as_bytes(std::span(words)), nobody, 0));
    }
    stop = true;
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(totals.wrong, 0U);
    EXPECT_GT(totals.read, 0U);
    RecordProperty("contended", std::to_string(totals.contended));
}

// Pinned readers look at the slot itself with plain loads, and keep looking while the writer goes on: under thread
// sanitizer this proves that hazards order the reuse of a slot.
TEST(SnapshotConcurrency, PinnedReadersSeeTheirObjectUntouched) {
    constexpr std::uint32_t pinned = 3;
    snapshot_bench bench(pinned + 2, object_bytes);
    hazard_bench hazards(pinned);
    std::atomic<bool> stop{false};
    tally totals;
    std::vector<std::thread> readers;
    for (std::uint32_t i = 0; i < pinned; ++i)
        readers.emplace_back([&, i] {
            snapshot_pin_core pin(bench.reader(), hazards.cell(i));
            std::uint64_t rounds = 0;
            read_until(stop, totals, [&](std::uint64_t& version) {
                const auto held = pin.pin();
                version = held.version();
                if (held.status != outcome::ok) return held.status;
                const auto* words = reinterpret_cast<const std::uint64_t*>(pin.core().payload(held.word));
                for (int look = 0; look < 2; ++look)
                    if (!whole(words, static_cast<std::size_t>(held.bytes), version)) count(totals.wrong);
                if (++rounds % 64 == 0) pin.release();
                return held.status;
            });
            pin.release();
        });
    auto writer = bench.writer();
    std::vector<std::uint64_t> words;
    for (std::uint64_t i = 1; i <= scaled(200000) || totals.read == 0; ++i) {
        fill(words, i);
        const auto room = writer.prepare(8 * words.size(), hazards);
        ASSERT_TRUE(room) << "readers + 2 slots always suffice";
        std::memcpy(room.bytes.data(), words.data(), room.bytes.size());  // plain stores
        ASSERT_TRUE(writer.commit(room.bytes.size(), 0));
    }
    stop = true;
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(totals.wrong, 0U);
    EXPECT_GT(totals.read, 0U);
}

// Objects of one to eight words, most of which also lie beside `current`: the copy there is rewritten under its readers
// all the time.
TEST(SnapshotConcurrency, ReadersOfSmallObjectsNeverSeeAMix) {
    snapshot_bench bench(3, 64);
    std::atomic<bool> stop{false};
    tally totals;
    const auto words_of = [](std::uint64_t version) { return version % 7 == 0 ? 8 : 1 + version % 5; };
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i)
        readers.emplace_back([&, i] {
            const auto reader = bench.reader();
            std::uint64_t words[8];
            read_until(stop, totals, [&](std::uint64_t& version) {
                if (i == 2) {  // as a record of one word reads
                    version = reader.read_front<8>(reinterpret_cast<std::byte*>(words), 8);
                    if (version != 0 && words[0] != version) count(totals.wrong);
                    return version == 0 ? outcome::contended : outcome::ok;
                }
                const auto got = reader.read(std::as_writable_bytes(std::span(words)));
                version = got.version;
                if (!got) return got.status;
                if (got.bytes != 8 * words_of(version)) count(totals.wrong);
                for (std::uint64_t w = 0; w < got.bytes / 8; ++w)
                    if (words[w] != version) count(totals.wrong);
                return got.status;
            });
        });
    auto writer = bench.writer();
    holdfast::layout::no_hazards nobody;
    for (std::uint64_t i = 1; i <= scaled(200000) || totals.read < 1000; ++i) {
        const std::vector<std::uint64_t> object(words_of(i), i);
        ASSERT_TRUE(writer.publish(std::as_bytes(std::span(object)), nobody, 0));
    }
    stop = true;
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(totals.wrong, 0U);
    EXPECT_GT(totals.read, 0U);
}

// Two slots and a writer that never rests: a reader without a hazard is overrun again and again. It may give up, it may
// not give a mix, and it must come back each time.
TEST(SnapshotConcurrency, AnOverrunReaderGivesUpHonestly) {
    snapshot_bench bench(2, object_bytes);
    std::atomic<bool> stop{false};
    tally totals;
    std::thread reader([&] {
        const auto core = bench.reader();
        std::vector<std::uint64_t> words(object_bytes / 8);
        read_until(stop, totals, [&](std::uint64_t& version) {
            std::size_t bytes = 0;
            const auto got = core.visit([&](std::span<const std::byte> object, std::uint64_t) {
                bytes = object.size();
                holdfast::detail::copy_from_shared(reinterpret_cast<std::byte*>(words.data()), object.data(),
                                                   bytes / 2);
                std::this_thread::yield();  // invites the writer in between
                holdfast::detail::copy_from_shared(reinterpret_cast<std::byte*>(words.data()) + bytes / 2,
                                                   object.data() + bytes / 2, bytes - bytes / 2);
            });
            version = got.version;
            if (got && !whole(words.data(), bytes, version)) count(totals.wrong);
            return got.status;
        });
    });
    auto writer = bench.writer();
    holdfast::layout::no_hazards nobody;
    std::vector<std::uint64_t> words;
    for (std::uint64_t i = 1; i <= scaled(100000); ++i) {
        fill(words, i);
        ASSERT_TRUE(writer.publish(std::as_bytes(std::span(words)), nobody, 0));
    }
    stop = true;
    reader.join();
    EXPECT_EQ(totals.wrong, 0U);
    EXPECT_GT(totals.read + totals.contended, 0U);
}

}  // namespace
