// SPDX-License-Identifier: Apache-2.0
// One writer and several readers of a small table, as threads on one mapping: keys that stay are never missed, numbers
// never go back, nothing torn, and no false alarm of the full check.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "holdfast/small_table.hpp"
#include "support/failure_note.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/small_table_model.hpp"

namespace {

using namespace holdfast;
using test::small_value;
using test::small_value_of;
using u64 = std::uint64_t;
using table_type = small_table<u64, small_value>;
using reader_type = small_table_reader<u64, small_value>;

// Keys below `staying` are there all the time; the others come and go.
struct stage {
    static constexpr u64 staying = 20, all = 40;

    table_type table = table_type::create("heap:", {.capacity = 32});
    test::failure_note failure;
    std::array<std::atomic<u64>, all> newest{};  // that must be seen
    std::atomic<u64> finds{0}, checks{0};
    std::atomic<bool> done{false};

    void write(u64 seed, u64 operations, u64 changes_one_in) {
        std::array<bool, all> there{};
        for (u64 key = 0; key < staying; ++key) there[key] = true;
        // Relaxed: counts. Until the others had their part, on a machine that is busy.
        const auto busy = [this] {
            return finds.load(std::memory_order_relaxed) < 10'000 || checks.load(std::memory_order_relaxed) == 0;
        };
        for (u64 i = 1; (i <= operations || busy()) && failure.get() == nullptr; ++i) {
            const u64 key = test::random_at(seed, 1, i) % all;
            outcome got = outcome::ok;
            if (key < staying) {
                got = table.update(key, small_value_of(key, i));
                // Release, pairs with the reader's acquire: who sees the number must see the store.
                newest[key].store(i, std::memory_order_release);
            } else if (i % changes_one_in == 0) {
                got = there[key] ? table.erase(key) : table.try_insert(key, small_value_of(key, i));
                if (got == outcome::ok) there[key] = !there[key];
                if (got == outcome::full) got = outcome::ok;
            }
            if (got != outcome::ok) failure.set("a change was refused");
        }
        done.store(true, std::memory_order_release);
    }
    void read(reader_type reader, u64 seed) {
        std::array<u64, all> last{};
        for (u64 i = 0; !done.load(std::memory_order_acquire) && failure.get() == nullptr; ++i) {
            const u64 key = test::random_at(seed, 2, i) % all;
            const u64 known = newest[key].load(std::memory_order_acquire);
            small_value value{};
            const outcome got = reader.find(key, value);
            if (got == outcome::not_found && key >= staying) continue;
            if (got == outcome::not_found) return failure.set("a key that is there was missed");
            if (got != outcome::ok) return failure.set("a find ended without an answer");
            if (value != small_value_of(key, value.number)) return failure.set("a torn value, or another key's");
            if (value.number < known) return failure.set("a store that was published is not visible");
            if (value.number < last[key]) return failure.set("a value went back in time");
            last[key] = value.number;
            finds.fetch_add(1, std::memory_order_relaxed);  // a count
        }
    }
    void check(const reader_type& reader) {
        while (!done.load(std::memory_order_acquire) && failure.get() == nullptr) {
            if (!reader.verify([](const small_table_finding&) { return true; }).intact())
                failure.set("a working writer looks like damage");
            checks.fetch_add(1, std::memory_order_relaxed);  // a count
        }
    }
};

TEST(SmallTableConcurrency, ReadersMissNothingAndNeverGoBack) {
    test::seeded_random random;
    for (const u64 changes_one_in : {2U, 100U}) {
        stage s;
        for (u64 key = 0; key < stage::staying; ++key)
            ASSERT_EQ(s.table.try_insert(key, small_value_of(key, 0)), outcome::ok);
        const u64 seed = random();
        std::vector<std::thread> threads;
        for (u64 i = 0; i < 2; ++i) threads.emplace_back([&, i] { s.read(s.table.make_reader(), seed + i); });
        threads.emplace_back([&] { s.check(s.table.make_reader()); });
        s.write(seed, test::scaled(300'000), changes_one_in);
        for (std::thread& t : threads) t.join();
        EXPECT_EQ(s.failure.get(), nullptr) << s.failure.get();
        EXPECT_TRUE(s.table.make_reader().verify([](const small_table_finding&) { return true; }).intact());
    }
}

}  // namespace
