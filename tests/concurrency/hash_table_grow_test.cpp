// SPDX-License-Identifier: Apache-2.0
// A writer grows and shrinks its table without end beside readers that follow: nothing missing, torn or older than what
// was published. And how long the writer's operations take meanwhile. Handles map each generation by themselves, which
// thread sanitizer does not relate: so once more of many writers with both generations on one mapping.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/hash_table/growing.hpp"
#include "holdfast/hash_table/many.hpp"
#include "support/capability.hpp"
#include "support/failure_note.hpp"
#include "support/hash_table_many_image.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/segment_tools.hpp"
#include "support/table_answer.hpp"
#include "support/writer_roll.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;
using status = holdfast::test::table_answer;

class HashTableGrowth : public segment_test {
 protected:
    unique_posix_name name_{"growth"};
};

/// A value that shows whether it is whole, whose it is and which version it is.
struct marked {
    std::array<u64, 4> words;
    static marked make(u64 key, u64 version) { return {{key, version, version * 0x9e3779b97f4a7c15U + key, ~version}}; }
    [[nodiscard]] bool whole(u64 key) const { return words == make(key, words[1]).words; }
};

constexpr u64 stable_keys = 50;  // never erased, updated all the time
constexpr u64 smallest = 800;    // capacity beside two writers, who keep half of that

struct stage {
    std::atomic<bool> done{false};
    std::array<std::atomic<u64>, stable_keys> published{};
    std::atomic<u64> followed{0}, finds{0};
    failure_note failure;

    static constexpr u64 followed_least = 6;
    /// Whether it is long enough: on a busy machine readers may sleep through that many generations.
    [[nodiscard]] bool enough(u64 grown, u64 wanted) const {
        return grown >= wanted && (followed.load(std::memory_order_relaxed) >= followed_least || grown >= 50 * wanted);
    }

    void write(growing_hash_table<u64, marked>& table, u64 seed, u64 generations) {
        const u64 least = table.capacity();
        u64 newest = 1000, oldest = 1000, i = 0;
        for (u64 g = 0; !enough(g, generations) && failure.get() == nullptr; ++g) {
            table.grow(least + random_at(seed, 0, g) % (4 * least));
            while (table.growing() && failure.get() == nullptr) {
                const u64 key = random_at(seed, 1, ++i) % stable_keys;
                if (!(table.update(key, marked::make(key, i)) == status::updated)) failure.set("an update was refused");
                // Release, pairs with the readers' acquire: who sees the number must see the update.
                published[key].store(i, std::memory_order_release);
                if (!(table.try_insert(newest, marked::make(newest, i)) == status::inserted))
                    failure.set("an insert was refused");
                if (++newest - oldest > least / 2 && table.erase(oldest++) != status::erased)
                    failure.set("an erase was refused");
            }
            if (table.growth_failure()) failure.set("a growth was given up");
        }
        done.store(true, std::memory_order_release);
    }

    // One of two: each has its share of the stable keys and of those that come and go, and either may begin a growth.
    void write_as_one_of_two(u64 share, const std::string& uri, u64 seed, u64 generations) {
        auto table = hash_table<u64, marked, writers::many>::attach(uri);
        u64 newest = (share + 1) * 1'000'000, oldest = newest, i = 0;
        while (!enough(generations_.load(std::memory_order_relaxed), generations) &&
               failure.get() == nullptr) {  // counts
            if (!table.growing()) begin(table, smallest + random_at(seed, 0, i) % (4 * smallest));
            const u64 key = 2 * (random_at(seed, 1, ++i) % (stable_keys / 2)) + share;
            if (!(table.update(key, marked::make(key, i)) == status::updated)) failure.set("an update was refused");
            // Release, pairs with the readers' acquire: who sees the number must see the update.
            published[key].store(i, std::memory_order_release);
            if (!(table.try_insert(newest, marked::make(newest, i)) == status::inserted))
                failure.set("an insert was refused");
            if (++newest - oldest > smallest / 4 && table.erase(oldest++) != status::erased)
                failure.set("an erase was refused");
            if (table.growth_failure()) failure.set("a growth was given up");
        }
        done.store(true, std::memory_order_release);
    }
    void begin(hash_table<u64, marked, writers::many>& table, u64 capacity) {
        try {
            table.grow(capacity);
            generations_.fetch_add(1, std::memory_order_relaxed);  // a count
        } catch (const error& refused) {
            if (refused.reason() == errc::contended) return;
            std::printf("%s\n", refused.what());
            failure.set("a growth was refused");
        }
    }
    std::atomic<u64> generations_{0};

    void read(growing_hash_table_reader<u64, marked> reader, u64 seed) {
        std::array<u64, stable_keys> last{};
        std::vector<u64> keys(stable_keys);
        std::vector<std::optional<marked>> values(stable_keys);
        for (u64 n = 0; n < stable_keys; ++n) keys[n] = n;
        std::array<u64, stable_keys> known{};
        u64 capacity = reader.capacity();
        for (u64 i = 0; !done.load(std::memory_order_acquire) && failure.get() == nullptr; ++i) {
            const u64 key = random_at(seed, 2, i) % stable_keys;
            known[key] = published[key].load(std::memory_order_acquire);
            check(key, reader.find(key), known[key], last);
            if (i % 32 == 0) {
                for (u64 n = 0; n < stable_keys; ++n) known[n] = published[n].load(std::memory_order_acquire);
                if (reader.find_many(keys, values) != stable_keys) failure.set("a batch misses a key that is there");
                for (u64 n = 0; n < stable_keys; ++n) check(n, values[n], known[n], last);
            }
            if (i % 1024 == 0) {
                u64 stable = 0;
                for (const auto& entry : reader.current()) {
                    if (!entry.value.whole(entry.key)) failure.set("a scan shows a torn entry");
                    stable += entry.key < stable_keys ? 1 : 0;
                }
                if (stable != stable_keys) failure.set("a scan missed or repeated an entry that was there");
            }
            const u64 now = reader.capacity();
            followed.fetch_add(now != capacity ? 1 : 0, std::memory_order_relaxed);  // a count
            capacity = now;
            finds.fetch_add(1, std::memory_order_relaxed);  // a count
        }
        if (reader.fault()) failure.set("a reader latched a fault");
    }
    void check(u64 key, const std::optional<marked>& value, u64 known, std::array<u64, stable_keys>& last) {
        if (!value) return failure.set("a key that is there was not found");
        if (!value->whole(key)) return failure.set("a torn value");
        if (value->words[1] < known) return failure.set("an update that was published is not visible");
        if (value->words[1] < last[key]) return failure.set("a value went back in time");
        last[key] = value->words[1];
    }
};

TEST_F(HashTableGrowth, ReadersNeverMissAKeyWhileItGrowsAndShrinks) {
    const u64 seed = choose_seed();
    SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(seed));
    auto table = growing_hash_table<u64, marked>::create(name_.uri(), {.capacity = 400});
    for (u64 n = 0; n < stable_keys; ++n) ASSERT_EQ(table.try_insert(n, marked::make(n, 0)), status::inserted);
    stage all;
    std::vector<std::thread> readers;
    for (u64 n = 0; n < 2; ++n)
        readers.emplace_back(
            [&, n] { all.read(growing_hash_table_reader<u64, marked>::attach(name_.uri()), seed + n); });
    all.write(table, seed, sanitized ? scaled(100) : scaled(800));
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(all.failure.get(), nullptr) << all.failure.get();
    EXPECT_GE(all.followed.load(), stage::followed_least);
    EXPECT_EQ(name_.entries().size(), 2U);
    std::printf("%llu finds, %llu generations followed\n", static_cast<unsigned long long>(all.finds.load()),
                static_cast<unsigned long long>(all.followed.load()));
}

TEST_F(HashTableGrowth, ReadersNeverMissAKeyBesideTwoWritersWhileItGrowsAndShrinks) {
    const u64 seed = choose_seed();
    SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(seed));
    auto table = hash_table<u64, marked, writers::many>::create(name_.uri(), {.capacity = smallest});
    for (u64 n = 0; n < stable_keys; ++n) ASSERT_EQ(table.try_insert(n, marked::make(n, 0)), status::inserted);
    stage all;
    std::vector<std::thread> threads;
    for (u64 n = 0; n < 2; ++n) {
        threads.emplace_back(
            [&, n] { all.read(growing_hash_table_reader<u64, marked>::attach(name_.uri()), seed + n); });
        threads.emplace_back(
            [&, n] { all.write_as_one_of_two(n, name_.uri(), seed + n, sanitized ? scaled(400) : scaled(500)); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(all.failure.get(), nullptr) << all.failure.get();
    EXPECT_GE(all.followed.load(), stage::followed_least);
    while (table.advance()) {
    }
    std::string damage;
    (void)table.verify([&](const hash_table_finding& f) {
        damage += describe(f.what);
        return true;
    });
    EXPECT_EQ(damage, "");
    EXPECT_EQ(name_.entries().size(), 2U);
    std::printf("%llu finds, %llu generations followed\n", static_cast<unsigned long long>(all.finds.load()),
                static_cast<unsigned long long>(all.followed.load()));
}

// A leader opens, carries and closes beside two writers that mirror, and a reader of both generations, on one mapping.
// Each writer updates a key of its own, and inserts and erases another, which takes a stripe of the other's.
class one_mapping {
 public:
    static constexpr unsigned writers = 2;

    explicit one_mapping(u64 next_capacity)
        : where_{many_stage<wide_shape>::geometry(),
                 many_geometry_for<wide_shape::key, wide_shape::value>(next_capacity, writer_roll::processes, 3)},
          bytes_(where_.bytes()),
          maker_(bytes_.bytes(), where_, roll_, 3),
          stage_(maker_.old()) {
        roll_.give_way = [] { std::this_thread::yield(); };
    }
    /// From the first operation to the last closed stripe. Returns: what was wrong, or nothing.
    std::string run() {
        std::vector<std::thread> threads;
        threads.emplace_back([this] { lead(); });
        threads.emplace_back([this] { read(); });
        for (unsigned w = 0; w < writers; ++w) threads.emplace_back([this, w] { write(w); });
        for (std::thread& thread : threads) thread.join();
        if (failure_.get() != nullptr) return failure_.get();
        for (unsigned w = 0; w < writers; ++w)
            if (stamp_in<wide_shape>(maker_.next().reader(), stage_.fillers[w]) != last_[w])
                return "the next generation lacks an update";
        if (mirrored_ == 0) return "nothing was mirrored";
        return maker_.differences();
    }

 private:
    using pair = growing_many_writer<wide_shape>;
    using growth = pair::growth;
    static constexpr unsigned leader = 0, first_writer = 1;  // their slots

    void write(unsigned w) {
        pair mine(bytes_.bytes(), where_, roll_, first_writer + w);
        for (u64 i = 0; failure_.get() == nullptr; ++i) {
            const bool updates = i % 2 == 0;
            const table_operation what = updates      ? table_operation::update
                                         : i % 4 == 1 ? table_operation::insert_or_assign
                                                      : table_operation::erase;
            const u64 n = updates ? stage_.fillers[w] : stage_.far[w], stamp = i + 2;
            const table_answer done = apply<wide_shape>(mine.old(), what, n, stamp);
            if (done == status::contended && mine.old().core().met().what() == growth::closed) break;
            if (done.refused()) failure_.set("a writer was refused");
            if (updates) last_[w] = stamp;
            operations_[w].fetch_add(1, std::memory_order_relaxed);  // a count
        }
        mirrored_ += mine.old().core().mirrored();
    }
    void lead() {
        pair mine(bytes_.bytes(), where_, roll_, leader);
        let_others_work();
        turn_all(mine, growth::mirrors);
        let_others_work();
        carry_all(mine);
        let_others_work();
        turn_all(mine, growth::closed);
        closed_.store(true, std::memory_order_release);
    }
    // Relaxed: a count, which is to order nothing.
    void let_others_work() {
        for (const std::atomic<u64>& done : operations_)
            for (const u64 from = done.load(std::memory_order_relaxed);
                 done.load(std::memory_order_relaxed) < from + 40 && failure_.get() == nullptr;)
                std::this_thread::yield();
    }
    void turn_all(pair& mine, growth::phase to) {
        for (u64 stripe = 0; stripe <= mine.old().bytes().stripe_mask; ++stripe)
            if (mine.turn(stripe, to) != outcome::ok) failure_.set("a stripe could not be turned");
    }
    void carry_all(pair& mine) {
        const auto& finder = mine.old().reader();
        for (u64 slot = 0; slot < mine.old().bytes().slots() && failure_.get() == nullptr;) {
            wide_shape::key key;
            wide_shape::value value;
            auto* const at = reinterpret_cast<std::byte*>(&key);
            const bool there = finder.read_entry(slot, at, reinterpret_cast<std::byte*>(&value));
            if (!there && finder.clear_contended()) continue;  // again
            const outcome done = there ? mine.old().core().carry(at) : outcome::not_found;
            if (done != outcome::ok && done != outcome::not_found) failure_.set("an entry could not be carried");
            ++slot;
        }
        if (mine.old().core().mirror_failure()) failure_.set("an entry could not be stored in the next generation");
    }
    // In the old generation until all is closed, once more in the next one then, and in that never what is torn.
    void read() {
        const auto old = maker_.old().reader(), next = maker_.next().reader();
        std::array<u64, writers> newest{1, 1};
        bool over = false;
        do {
            over = closed_.load(std::memory_order_acquire);
            for (unsigned w = 0; w < writers; ++w) {
                const auto stamp = stamp_in<wide_shape>(over ? next : old, stage_.fillers[w]);
                if (!stamp || *stamp < newest[w]) failure_.set("a reader saw a torn, missing or older value");
                newest[w] = stamp.value_or(0);
                for (const u64 n : {stage_.fillers[w], stage_.far[w]})
                    if (!stamp_in<wide_shape>(old, n) || !stamp_in<wide_shape>(next, n))
                        failure_.set("a reader saw a torn value");
            }
            if (old.fault() || next.fault()) failure_.set("a reader latched a fault");
            std::this_thread::yield();  // the leader waits for writers
        } while (!over && failure_.get() == nullptr);
    }

    pair::room where_;
    aligned_bytes bytes_;
    writer_roll roll_;
    pair maker_;
    many_stage<wide_shape> stage_;
    failure_note failure_;
    std::array<std::atomic<u64>, writers> operations_{};
    std::array<u64, writers> last_{1, 1};
    std::atomic<u64> mirrored_{0};
    std::atomic<bool> closed_{false};
};

TEST(HashTableManyGrowth, ALeaderBesideWritersAndAReaderOnOneMapping) {
    const u64 rounds = sanitized ? scaled(100) : scaled(30);
    for (u64 round = 0; round < rounds; ++round) {
        one_mapping both(round % 2 == 0 ? 1900 : 400);
        ASSERT_EQ(both.run(), "") << "round " << round;
    }
}

u64 now_in_ns() {
    return static_cast<u64>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

/// What tells that somebody else had this processor: our involuntary switches, and the steal of all processors.
struct taken_away {
    long switches = 0;
    u64 steal = 0;
    [[nodiscard]] static taken_away now() {
        taken_away seen;
        rusage usage{};
        if (::getrusage(RUSAGE_THREAD, &usage) == 0) seen.switches = usage.ru_nivcsw;
        std::ifstream stat("/proc/stat");
        std::string word;
        stat >> word;
        for (int column = 0; column < 8; ++column)
            stat >> seen.steal;  // user nice system idle iowait irq softirq steal
        return seen;
    }
    friend bool operator==(const taken_away&, const taken_away&) = default;
};

struct quantiles {
    std::vector<u64> ns;
    [[nodiscard]] double at(double q) {
        if (ns.empty()) return 0;
        const auto n = static_cast<std::size_t>(q * static_cast<double>(ns.size() - 1));
        std::nth_element(ns.begin(), ns.begin() + static_cast<std::ptrdiff_t>(n), ns.end());
        return static_cast<double>(ns[n]) / 1000;
    }
};

// The promise: p99.9 of a writer's operations during growth, of those that nobody else disturbed, is 200 us at most.
TEST_F(HashTableGrowth, PausesOfTheWriterAreBounded) {
    if (sanitized) GTEST_SKIP() << "needs: a build without sanitizers";
    constexpr u64 entries = 300'000, batch = 500;
    auto table = growing_hash_table<u64, u64>::create(name_.uri(), {.capacity = entries});
    for (u64 n = 0; n < entries; ++n) ASSERT_EQ(table.try_insert(n, n), status::inserted);
    const u64 seed = choose_seed();
    quantiles all, quiet, begins;
    std::vector<u64> pending;
    u64 i = 0;
    for (const u64 capacity : {2 * entries, 4 * entries, entries, 2 * entries}) {
        const u64 begin = now_in_ns();
        table.grow(capacity);
        begins.ns.push_back(now_in_ns() - begin);
        while (table.growing()) {
            const taken_away before = taken_away::now();
            pending.clear();
            for (u64 n = 0; n < batch && table.growing(); ++n) {
                const u64 key = random_at(seed, 0, ++i) % entries, start = now_in_ns();
                const hash_table_result done = table.update(key, i);
                pending.push_back(now_in_ns() - start);
                ASSERT_EQ(done, status::updated);
            }
            all.ns.insert(all.ns.end(), pending.begin(), pending.end());
            if (taken_away::now() == before) quiet.ns.insert(quiet.ns.end(), pending.begin(), pending.end());
        }
        ASSERT_FALSE(table.growth_failure().has_value()) << table.growth_failure()->what();
        ASSERT_EQ(table.capacity(), capacity);
    }
    std::printf("%zu operations during growth and shrinking, us: p50 %.2f, p99 %.2f, p99.9 %.2f, most %.0f\n",
                all.ns.size(), all.at(0.5), all.at(0.99), all.at(0.999), all.at(1));
    std::printf("%zu of them undisturbed: p50 %.2f, p99 %.2f, p99.9 %.2f, most %.0f; grow() took %.0f at most\n",
                quiet.ns.size(), quiet.at(0.5), quiet.at(0.99), quiet.at(0.999), quiet.at(1), begins.at(1));
    if (quiet.ns.size() < 10'000) GTEST_SKIP() << "needs: a machine that leaves a process alone for milliseconds";
    EXPECT_LE(quiet.at(0.999), 200);
}

}  // namespace
