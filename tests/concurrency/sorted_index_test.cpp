// SPDX-License-Identifier: Apache-2.0
// An index replaced without pause under readers of both sorts, as threads on one mapping: every answer comes from one
// version, and from the right one. The publisher writes into slots in place, so this also shows that its stores and the
// searches of overrun readers are data races to nobody.
#include "holdfast/sorted_index.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "support/scale.hpp"

namespace {

using holdfast::outcome;
using holdfast::sorted_index;
using holdfast::test::scaled;

struct stamped {
    std::uint64_t high;
    std::uint64_t version;
    std::uint64_t check;
};
using index_type = sorted_index<std::uint64_t, stamped, &stamped::high>;

// Version v holds 50 + v % 50 ranges of width 1 + v % 7, at multiples of 10.
std::uint64_t records_of(std::uint64_t version) { return 50 + version % 50; }

void fill(index_type::builder& out, std::uint64_t version) {
    for (std::uint64_t i = 0; i < records_of(version); ++i)
        out.add(10 * i, {10 * i + version % 7, version, (10 * i) ^ (version * 31)});
}

// Whether the answer is what version `v` says of the key.
bool right(const index_type::reader::result& got, std::uint64_t key) {
    const bool inside = key / 10 < records_of(got.version) && key % 10 <= got.version % 7;
    if (inside != (got.status == outcome::ok)) return false;
    return !inside || (got->key == key / 10 * 10 && got->value.version == got.version &&
                       got->value.check == (got->key ^ (got.version * 31)));
}

// Whether a batch of neighbouring keys is answered whole by the one version that it names.
bool right_many(index_type::reader& reader, std::uint64_t from, outcome& status, std::uint64_t& version) {
    std::array<std::uint64_t, 37> keys{};
    std::array<std::optional<index_type::entry>, 37> records{};
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = from + i;
    const holdfast::sorted_index_many got = reader.find_covering_many(keys, records);
    status = got.status;
    version = got.version;
    if (status != outcome::ok && status != outcome::not_found) return got.found == 0;
    std::uint64_t found = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        index_type::reader::result one;
        one.status = records[i] ? outcome::ok : outcome::not_found;
        one.version = got.version;
        if (records[i]) one.entry = *records[i];
        if (!right(one, keys[i])) return false;
        found += records[i] ? 1 : 0;
    }
    return found == got.found && (found > 0) == (status == outcome::ok);
}

void run(bool pinned, std::uint32_t slots) {
    constexpr std::uint32_t readers = 3;
    auto publisher = index_type::publisher::create(
        "anon:", {.records_max = 200, .pinned_readers = pinned ? readers : 0, .slots = slots, .segment = {}});
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> answers{0}, wrong{0}, contended{0};
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < readers; ++i)
        threads.emplace_back([&, i, reader = publisher.make_reader(pinned)]() mutable {
            std::uint64_t last = 0, key = i;
            // Relaxed throughout: totals that are looked at after the threads were joined.
            while (!stop.load(std::memory_order_relaxed)) {
                key = (key * 6364136223846793005U + 1442695040888963407U);
                const std::uint64_t wanted = (key >> 33) % 1100;
                index_type::reader::result got;
                const bool batch = key >> 63 != 0;
                const bool fine = batch ? right_many(reader, wanted, got.status, got.version)
                                        : right(got = reader.find_covering(wanted), wanted);
                if (got.status == outcome::empty) continue;
                if (got.status == outcome::contended) {
                    contended.fetch_add(1, std::memory_order_relaxed);
                    continue;
                }
                answers.fetch_add(1, std::memory_order_relaxed);
                if (got.version < last || !fine) wrong.fetch_add(1, std::memory_order_relaxed);
                last = got.version;
            }
        });
    // On until a reader has begun, however long that takes.
    for (std::uint64_t version = 1; version <= scaled(20000) || answers == 0; ++version) {
        index_type::builder records;
        fill(records, version);
        const auto published = publisher.publish(records);
        if (published.version != version) {
            ADD_FAILURE() << "publish " << version << " refused";
            break;
        }
    }
    stop = true;
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0U);
    EXPECT_GT(answers, 0U);
    if (pinned) {
        EXPECT_EQ(contended, 0U);
    }
}

TEST(SortedIndexConcurrency, ValidatedReadersAnswerFromOneVersion) { run(false, 4); }
TEST(SortedIndexConcurrency, ValidatedReadersWithTwoSlotsOnly) { run(false, 2); }
TEST(SortedIndexConcurrency, PinnedReadersAnswerFromOneVersion) { run(true, 5); }

}  // namespace
