// SPDX-License-Identifier: Apache-2.0
// One writer and several readers, as threads on one mapping: nothing torn, nothing missing, nothing going back in time.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "support/failure_note.hpp"
#include "support/hash_table_image.hpp"
#include "support/hash_table_many_image.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/table_answer.hpp"

namespace {

using namespace holdfast;
using holdfast::test::failure_note;
using u64 = std::uint64_t;
using status = holdfast::test::table_answer;

/// A value that shows whether it is whole, whose it is and which version it is.
template <std::size_t Words>
struct marked {
    u64 owner;
    std::array<u64, Words> words;

    static marked make(u64 key, u64 version) {
        marked value{key, {}};
        value.words[0] = version;
        for (std::size_t i = 1; i < Words; ++i) value.words[i] = version * 0x9e3779b97f4a7c15U + key + i;
        return value;
    }
    [[nodiscard]] bool whole(u64 wanted_key) const { return *this == make(wanted_key, words[0]); }
    friend bool operator==(const marked&, const marked&) = default;
};

constexpr u64 stable_keys = 40;  // never erased, updated all the time
constexpr u64 churn_base = 1000;

template <class Value>
struct stage {
    using table_type = hash_table<u64, Value>;
    using reader_type = hash_table_reader<u64, Value>;

    explicit stage(u64 capacity) : table(table_type::create("heap:", {.capacity = capacity})) {
        for (u64 key = 0; key < stable_keys; ++key) (void)table.try_insert(key, Value::make(key, 0));
    }

    /// Updates stable keys, and keeps `live` churning keys in a table that is nearly full: oldest out, newest in.
    void write(u64 seed, u64 operations) {
        const u64 live = table.slots() * 93 / 100 - stable_keys;
        u64 oldest = churn_base, newest = churn_base;
        for (u64 i = 0; i < operations && failure.get() == nullptr; ++i) {
            const u64 key = test::random_at(seed, 1, i) % stable_keys;
            if (table.update(key, Value::make(key, i)) != status::updated) failure.set("an update was refused");
            // Release, pairs with the reader's acquire: who sees the number must see the update.
            published[key].store(i, std::memory_order_release);
            if (newest - oldest < live || i % 2 == 0) {
                if (table.try_insert(newest, Value::make(newest, i)) != status::inserted) failure.set("insert refused");
                ++newest;
            }
            if (newest - oldest > live) {
                if (table.erase(oldest) != status::erased) failure.set("erase refused");
                ++oldest;
            }
            churn_low.store(oldest, std::memory_order_relaxed);   // a hint where to look
            churn_high.store(newest, std::memory_order_relaxed);  // likewise
        }
        done.store(true, std::memory_order_release);
    }

    void read_stable(const reader_type& reader, u64 seed) {
        std::array<u64, stable_keys> last{};
        std::vector<u64> keys(33);
        std::vector<std::optional<Value>> values(keys.size());
        for (u64 i = 0; !done.load(std::memory_order_acquire) && failure.get() == nullptr; ++i) {
            const u64 key = test::random_at(seed, 2, i) % stable_keys;
            const u64 known = published[key].load(std::memory_order_acquire);
            const std::optional<Value> value = reader.find(key);
            check(key, value, known, last);
            if (i % 16 != 0) continue;
            for (std::size_t j = 0; j < keys.size(); ++j) keys[j] = (key + j) % stable_keys;
            if (reader.find_many(keys, values) != keys.size()) failure.set("a batch missed a key that is there");
            for (std::size_t j = 0; j < keys.size(); ++j) check(keys[j], values[j], 0, last);
            finds.fetch_add(16 + keys.size(), std::memory_order_relaxed);  // a count
        }
    }
    void check(u64 key, const std::optional<Value>& value, u64 known, std::array<u64, stable_keys>& last) {
        if (!value) return failure.set("a key that is there was not found");
        if (!value->whole(key)) return failure.set("a torn value");
        if (value->words[0] < known) return failure.set("an update that was published is not visible");
        if (value->words[0] < last[key]) return failure.set("a value went back in time");
        last[key] = value->words[0];
    }

    void read_churn(const reader_type& reader, u64 seed) {
        for (u64 i = 0; !done.load(std::memory_order_acquire) && failure.get() == nullptr; ++i) {
            const u64 low = churn_low.load(std::memory_order_relaxed),
                      high = churn_high.load(std::memory_order_relaxed);
            const u64 key = low + test::random_at(seed, 3, i) % (high - low + 10);
            const auto slot = reader.slot_of(key);
            const std::optional<Value> value = reader.find(key);
            if (value && !value->whole(key)) failure.set("a torn value of a key that comes and goes");
            if (slot) {
                const auto entry = reader.entry_at(*slot);
                if (entry && !entry->value.whole(entry->key)) failure.set("a slot with key and value of two entries");
            }
            hits.fetch_add(value ? 1 : 0, std::memory_order_relaxed);  // a count
        }
    }

    void iterate(const reader_type& reader) {
        do {
            u64 stable = 0;
            for (const auto& entry : reader) {
                if (!entry.value.whole(entry.key)) return failure.set("iteration shows a torn entry");
                if (entry.key < stable_keys) ++stable;
            }
            if (stable != stable_keys) return failure.set("iteration missed or repeated an entry that was there");
            scans.fetch_add(1, std::memory_order_relaxed);  // a count
        } while (!done.load(std::memory_order_acquire) && failure.get() == nullptr);
    }

    table_type table;
    failure_note failure;
    std::array<std::atomic<u64>, stable_keys> published{};
    std::atomic<u64> churn_low{churn_base}, churn_high{churn_base};
    std::atomic<u64> finds{0}, hits{0}, scans{0};
    std::atomic<bool> done{false};
};

template <class Value>
class HashTableConcurrency : public ::testing::Test {};
using values = ::testing::Types<marked<1>, marked<3>, marked<7>, marked<40>>;
TYPED_TEST_SUITE(HashTableConcurrency, values);

TYPED_TEST(HashTableConcurrency, ReadersSeeWholeValuesNeverMissAndNeverGoBack) {
    test::seeded_random random;
    // Three buckets, where everything collides and every read meets a write; and a table of some size.
    for (u64 capacity : {70U, 3000U}) {
        stage<TypeParam> s(capacity);
        const u64 seed = random();
        const auto reader = s.table.make_reader();
        std::vector<std::thread> threads;
        threads.emplace_back([&] { s.read_stable(reader, seed); });
        threads.emplace_back([&] { s.read_churn(reader, seed); });
        threads.emplace_back([&] { s.iterate(reader); });
        s.write(seed, test::scaled(300'000) / (1 + sizeof(TypeParam) / 64));
        for (std::thread& t : threads) t.join();
        EXPECT_EQ(s.failure.get(), nullptr) << s.failure.get();
        EXPECT_EQ(reader.fault(), std::nullopt);
        EXPECT_GT(s.scans.load(), 0U);
        EXPECT_TRUE(s.table.verify([](const hash_table_finding&) { return true; }).intact());
    }
}

// A one-word value is replaced by one store: readers of that field alone see it move forward, never a mixture.
TEST(HashTableConcurrencyOneWord, CounterOnlyGrows) {
    auto table = hash_table<u64, u64>::create("heap:", {.capacity = 10});
    ASSERT_TRUE(table.try_insert(1, 0));
    const auto reader = table.make_reader();
    std::atomic<bool> done{false};
    std::atomic<bool> wrong{false};
    std::thread thread([&] {
        u64 last = 0;
        while (!done.load(std::memory_order_acquire)) {
            const auto value = reader.find(1);
            if (!value || *value < last) wrong = true;
            if (value) last = *value;
        }
    });
    for (u64 i = 1; i <= test::scaled(1'000'000); ++i) ASSERT_EQ(table.update(1, i), status::updated);
    done.store(true, std::memory_order_release);
    thread.join();
    EXPECT_FALSE(wrong);
}

// Counters are made exact while readers follow them.
TEST(HashTableConcurrencyRecount, ReadersMissNothingMeanwhile) {
    auto table = hash_table<u64, u64>::create("heap:", {.capacity = 2000});
    u64 count = 0;
    while (table.try_insert(count, count)) ++count;
    const auto reader = table.make_reader();
    std::atomic<bool> done{false};
    std::atomic<bool> missed{false};
    std::thread thread([&] {
        for (u64 i = 0; !done.load(std::memory_order_acquire); ++i)
            if (!reader.contains(i % count)) missed = true;
    });
    for (u64 i = 0; i < test::scaled(300); ++i) {
        ASSERT_EQ(table.erase(count + i), status::not_found);
        table.recount();
    }
    done.store(true, std::memory_order_release);
    thread.join();
    EXPECT_FALSE(missed);
}

// The full check beside a writer that inserts, erases, and swings values to and fro: no false alarm.
template <class Value>
class HashTableConcurrencyVerify : public ::testing::Test {};
using verified = ::testing::Types<marked<1>, marked<7>>;
TYPED_TEST_SUITE(HashTableConcurrencyVerify, verified);

TYPED_TEST(HashTableConcurrencyVerify, AWorkingWriterNeverLooksLikeDamage) {
    for (u64 capacity : {70U, 3000U}) {
        auto table = hash_table<u64, TypeParam>::create("heap:", {.capacity = capacity});
        const TypeParam value{}, other = TypeParam::make(1, 1);
        for (u64 key = 0; key < capacity; ++key) ASSERT_TRUE(table.try_insert(key, value));
        const auto reader = table.make_reader();
        std::atomic<bool> done{false};
        u64 findings = 0;
        std::atomic<u64> rounds{0};
        std::thread thread([&] {
            while (!done.load(std::memory_order_acquire)) {
                const auto seen = reader.verify([](const hash_table_finding&) { return true; });
                findings += seen.findings;
                ++rounds;
            }
        });
        test::seeded_random random;
        for (u64 i = 0; i < test::scaled(400'000) || rounds == 0; ++i) {
            const u64 key = random.below(capacity);
            const u64 what = random.below(8);
            if (what == 0)
                (void)table.erase(key);
            else if (what == 1)
                (void)table.try_insert(key, value);
            else
                (void)table.update(key, what % 2 == 0 ? value : other);
        }
        done.store(true, std::memory_order_release);
        thread.join();
        EXPECT_GT(rounds, 0U);
        EXPECT_EQ(findings, 0U) << "in " << rounds << " rounds";
        const auto at_rest = reader.verify([](const hash_table_finding&) { return true; });
        EXPECT_TRUE(at_rest.intact());
        EXPECT_EQ(at_rest.busy, 0U);
    }
}

// And real damage is found beside a writer that rests now and then, as every server does.
TYPED_TEST(HashTableConcurrencyVerify, DamageIsFoundBesideAWorkingWriter) {
    constexpr u64 capacity = 3000;
    auto g = test::geometry_for<u64, TypeParam>(capacity);
    test::hash_table_image<u64, TypeParam> table(g);
    const TypeParam value{}, other = TypeParam::make(1, 1);
    for (u64 key = 0; key < capacity; ++key) ASSERT_EQ(table.try_insert(key, value), status::inserted);
    const u64 slot = table.reader().find(table.as_bytes(u64{7}), nullptr);
    std::byte* const hurt =
        table.view().node_at(slot / layout::tags_per_line, static_cast<unsigned>(slot % layout::tags_per_line)) +
        g.value_offset / 8 * 8;
    detail::store_release<u64>(hurt, detail::load_acquire<u64>(hurt) ^ 0x100);
    std::atomic<bool> done{false};
    u64 found = 0, others = 0;
    std::thread thread([&] {
        const auto view = table.view().as_const();
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (found == 0 && std::chrono::steady_clock::now() < until)
            (void)detail::verify(view, [&](const hash_table_finding& f) {
                const bool right = f.what == hash_table_damage::checksum && f.slot == slot / 416 * 416;
                ++(right ? found : others);
                return true;
            });
        done.store(true, std::memory_order_release);
    });
    test::seeded_random random;
    while (!done.load(std::memory_order_acquire)) {
        for (u64 i = 0; i < 1000; ++i) {
            const u64 key = 8 + random.below(capacity - 8);
            if (i % 8 == 0)
                (void)table.erase(key);
            else if (i % 8 == 1)
                (void)table.try_insert(key, value);
            else
                (void)table.update(key, i % 2 == 0 ? value : other);
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    thread.join();
    EXPECT_GT(found, 0U);
    EXPECT_EQ(others, 0U);
}

// A bucket that never comes to rest is no damage: its reader says `contended`, and reads again when it rests.
TEST(HashTableConcurrencyContended, AStarvedReaderSaysSoAndGoesOn) {
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "needs: a second processor";
    using large = std::array<u64, 8192>;  // copied so slowly that its line changes meanwhile
    auto g = test::geometry_for<u64, large>(10);
    test::hash_table_image<u64, large> table(g);
    ASSERT_EQ(table.try_insert(1, large{}), status::inserted);
    // A reader that gives up early: to starve one of the usual patience takes a writer that nothing ever interrupts.
    const detail::hash_table_finder<test::hash_table_image<u64, large>::node, detail::tag_match::best, 4> reader(
        table.view().as_const());
    std::byte* const line = table.view().line(reader.find(table.as_bytes(u64{1}), nullptr) / layout::tags_per_line);
    std::atomic<bool> done{false};
    std::thread changer([&] {
        for (std::uint32_t version = 2; !done.load(std::memory_order_acquire); version += 2)
            detail::store_release<std::uint32_t>(line, version);
    });
    large value{};
    // A moment in which the changer does not run lets the read succeed; so it is tried for a while.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!reader.fault() && std::chrono::steady_clock::now() < until)
        (void)reader.find(table.as_bytes(u64{1}), reinterpret_cast<std::byte*>(&value));
    done.store(true, std::memory_order_release);
    changer.join();
    EXPECT_EQ(reader.fault(), errc::contended);
    EXPECT_TRUE(reader.clear_contended());
    EXPECT_EQ(reader.fault(), std::nullopt);
    EXPECT_NE(reader.find(table.as_bytes(u64{1}), reinterpret_cast<std::byte*>(&value)), detail::no_slot);
}

// Two of many writers and a reader on one mapping: both add to the same entries, and insert and erase others beside
// them, in stripes of each other.
TEST(HashTableManyConcurrency, WritersAddExactlyAndReadersSeeNothingTornOrOlder) {
    using namespace holdfast::test;
    const layout::hash_table_geometry geometry = many_stage<wide_shape>::geometry();
    aligned_bytes bytes(geometry.body_bytes());
    writer_roll roll;
    roll.give_way = [] { std::this_thread::yield(); };
    many_writer<wide_shape> maker(bytes.bytes(), geometry, roll, 2);
    const many_stage<wide_shape> stage(maker);
    const std::array<u64, 2> counted = {stage.fillers[0], stage.near};
    (void)apply<wide_shape>(maker, table_operation::try_insert, stage.near, 1);
    const u64 turns = sanitized ? 3'000 : 10'000;
    failure_note failure;
    const auto write = [&](unsigned process) {
        many_writer<wide_shape> writer(bytes.bytes(), geometry, roll, process);
        for (u64 i = 0; i < turns && failure.get() == nullptr; ++i) {
            const u64 n = counted[i % counted.size()];
            const auto key = nth_key<wide_shape>(n);
            wide_shape::value value{};
            auto* const room = reinterpret_cast<std::byte*>(&value);
            const auto added = writer.core().decide(reinterpret_cast<const std::byte*>(&key), room, false, [&](bool) {
                const auto stamp = stamp_of<wide_shape>(n, value);
                if (!stamp) failure.set("a writer found a torn value");
                value = stamped_value<wide_shape>(n, stamp.value_or(0) + 1);
                return detail::table_change::store;
            });
            if (added != status::updated) failure.set("an addition was refused");
            if (apply<wide_shape>(writer, table_operation::insert_or_assign, stage.far[process], i + 1).refused())
                failure.set("an insert was refused");
            if (apply<wide_shape>(writer, table_operation::erase, stage.far[i % 2], 0).refused())
                failure.set("an erase was refused");
        }
    };
    std::atomic<bool> stop{false};
    std::thread reader([&] {
        const auto in = maker.reader();
        std::array<u64, 2> newest{};
        while (!stop.load() && failure.get() == nullptr)
            for (std::size_t i = 0; i < counted.size(); ++i) {
                const auto stamp = stamp_in<wide_shape>(in, counted[i]);
                if (!stamp || *stamp < newest[i]) failure.set("a reader saw a torn, missing or older value");
                newest[i] = stamp.value_or(0);
                if (!stamp_in<wide_shape>(in, stage.far[i])) failure.set("a reader saw a torn value");
                if (in.fault()) failure.set("a reader latched a fault");
            }
    });
    std::thread first(write, 0), second(write, 1);
    first.join();
    second.join();
    stop.store(true);
    reader.join();
    EXPECT_EQ(failure.get(), nullptr) << failure.get();
    for (const u64 n : counted) EXPECT_EQ(stamp_in<wide_shape>(maker.reader(), n), 1 + turns);
    EXPECT_EQ(maker.damage(), "");
}

// Overflow counters of two classes share a byte, and entries of any stripe pass them.
TEST(HashTableManyConcurrency, CountersThatShareAByteLoseNoChange) {
    alignas(64) std::array<std::byte, layout::line_bytes> line{};
    const unsigned rounds = test::sanitized ? 20'000 : 500'000;
    std::atomic<bool> sound{true};
    std::atomic<unsigned> ready{0};
    const auto count = [&](unsigned group) {
        for (ready.fetch_add(1); ready.load() < 2;) std::this_thread::yield();
        for (unsigned i = 0; i < rounds; ++i)
            for (const bool raise : {true, true, false, false})
                if (!holdfast::detail::change_shared_counter(line.data(), group, raise)) sound.store(false);
    };
    std::thread other(count, 1U);
    count(0);
    other.join();
    EXPECT_TRUE(sound.load()) << "a counter was 0 before all that raised it had lowered it";
    EXPECT_EQ(line, (std::array<std::byte, layout::line_bytes>{}));
}

}  // namespace
