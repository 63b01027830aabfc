// SPDX-License-Identifier: Apache-2.0
// One writer and several readers of an array, as threads on one mapping: nothing torn, nothing going back in time, wide
// ranges all at once, and no false alarm of the full check.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "holdfast/array.hpp"
#include "support/array_model.hpp"
#include "support/failure_note.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using namespace holdfast;
using holdfast::test::failure_note;
using u64 = std::uint64_t;

template <class Shape>
struct stage {
    using value = typename Shape::value;
    static constexpr u64 ranged = 12;  // elements that are only ever stored together, at the end

    explicit stage(u64 size) : numbers(array<value>::create("heap:", {.size = size})), published(size) {}

    [[nodiscard]] u64 together() const { return std::min<u64>(ranged, numbers.range_max()); }

    void write(u64 seed, u64 stores) {
        const u64 singles = numbers.size() - ranged;
        std::vector<value> values(together());
        for (u64 i = 1; i <= stores && failure.get() == nullptr; ++i) {
            const u64 stamp = std::min<u64>(i, Shape::stamp_max - 1);
            const u64 at = test::random_at(seed, 1, i) % singles;
            numbers.store(at, test::stamped_element<value>(at, stamp));
            // Release, pairs with the reader's acquire: who sees the number must see the store.
            published[at].store(stamp, std::memory_order_release);
            if (i % 3 != 0) continue;
            for (u64 j = 0; j < values.size(); ++j)
                values[j] = test::stamped_element<value>(numbers.size() - values.size() + j, stamp);
            numbers.store_range(numbers.size() - values.size(), values);
        }
        done.store(true, std::memory_order_release);
    }

    void read_singles(const array_reader<value>& reader, u64 seed) {
        std::vector<u64> last(reader.size(), 0);
        for (u64 i = 0; !done.load(std::memory_order_acquire) && failure.get() == nullptr; ++i) {
            const u64 at = test::random_at(seed, 2, i) % reader.size();
            const u64 known = published[at].load(std::memory_order_acquire);
            const auto stamp = test::stamp_of_element<value>(at, reader[at]);
            if (!stamp) return failure.set("a torn element");
            if (*stamp < known) return failure.set("a store that was published is not visible");
            if (*stamp < last[at]) return failure.set("an element went back in time");
            last[at] = *stamp;
            reads.fetch_add(1, std::memory_order_relaxed);  // a count
        }
    }

    void read_ranges(const array_reader<value>& reader) {
        std::vector<value> values(together());
        const u64 first = reader.size() - values.size();
        std::vector<u64> last(values.size(), 0);
        while (!done.load(std::memory_order_acquire) && failure.get() == nullptr) {
            reader.load_range(first, values);
            for (u64 j = 0; j < values.size(); ++j) {
                const auto stamp = test::stamp_of_element<value>(first + j, values[j]);
                if (!stamp) return failure.set("a torn element in a range");
                if (*stamp < last[j]) return failure.set("an element of a range went back in time");
                if (sizeof(value) > 8 && *stamp != test::stamp_of_element<value>(first, values[0]))
                    return failure.set("a range of two stores");
                last[j] = *stamp;
            }
            for (u64 j = 0; j < values.size(); ++j) {
                const auto stamp = test::stamp_of_element<value>(first + j, reader[first + j]);
                if (!stamp || *stamp < last[j]) return failure.set("load() went back behind load_range()");
                last[j] = *stamp;
            }
            ranges.fetch_add(1, std::memory_order_relaxed);  // a count
        }
    }

    void check(const array_reader<value>& reader) {
        while (!done.load(std::memory_order_acquire) && failure.get() == nullptr)
            if (!reader.verify([](const array_finding&) { return true; }).intact())
                failure.set("a working writer looks like damage");
    }

    array<value> numbers;
    failure_note failure;
    std::vector<std::atomic<u64>> published;
    std::atomic<u64> reads{0}, ranges{0};
    std::atomic<bool> done{false};
};

template <class Shape>
class ArrayConcurrency : public ::testing::Test {};
using shapes = ::testing::Types<test::narrow_elements, test::crumb_elements, test::wide_elements,
                                test::crooked_elements, test::large_elements>;
TYPED_TEST_SUITE(ArrayConcurrency, shapes);

TYPED_TEST(ArrayConcurrency, ReadersSeeWholeElementsAndNeverGoBack) {
    test::seeded_random random;
    // A few elements, where every read meets a store; and an array of some size.
    for (const u64 size : {20U, 3000U}) {
        stage<TypeParam> s(size);
        const u64 seed = random();
        const auto reader = s.numbers.make_reader();
        std::vector<std::thread> threads;
        threads.emplace_back([&] { s.read_singles(reader, seed); });
        threads.emplace_back([&] { s.read_ranges(reader); });
        threads.emplace_back([&] { s.check(reader); });
        s.write(seed, test::scaled(200'000) / (1 + sizeof(typename TypeParam::value) / 64));
        for (std::thread& t : threads) t.join();
        EXPECT_EQ(s.failure.get(), nullptr) << s.failure.get();
        const auto at_rest = reader.verify([](const array_finding&) { return true; });
        EXPECT_TRUE(at_rest.intact());
        EXPECT_EQ(at_rest.busy, 0U);
    }
}

// Narrow elements in place, as atomic words; and a counter that only grows.
TEST(ArrayConcurrencyWords, CountersOnlyGrow) {
    auto counts = array<u64>::create("heap:", {.size = 10});
    const auto reader = counts.make_reader();
    std::atomic<bool> done{false}, wrong{false};
    std::thread thread([&] {
        u64 last = 0;
        while (!done.load(std::memory_order_acquire)) {
            const u64 here = reader.words()[4].load(std::memory_order_acquire);
            const u64 there = reader[4];
            if (here < last || there < here) wrong = true;
            last = there;
        }
    });
    for (u64 i = 0; i < test::scaled(1'000'000); ++i) ASSERT_EQ(counts.fetch_add(4, 1), i);
    done.store(true, std::memory_order_release);
    thread.join();
    EXPECT_FALSE(wrong);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), u64{0}), test::scaled(1'000'000));
}

// Real damage is found beside a writer that rests now and then, as every server does.
TEST(ArrayConcurrencyVerify, DamageIsFoundBesideAWorkingWriter) {
    using value = test::wide_elements::value;
    test::array_image<value> array(layout::plan_array(3000, sizeof(value)));
    const auto view = array.bytes_view();
    const u64 hurt = 7;
    std::byte* const word = view.element_at(hurt) + 16;
    detail::store_release<u64>(word, detail::load_acquire<u64>(word) ^ 0x100);
    std::atomic<bool> done{false};
    u64 found = 0, others = 0;
    std::thread thread([&] {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (found == 0 && std::chrono::steady_clock::now() < until)
            (void)detail::verify(view.as_const(), [&](const array_finding& f) {
                ++(f.what == array_damage::checksum && f.first == 0 ? found : others);
                return true;
            });
        done.store(true, std::memory_order_release);
    });
    test::seeded_random random;
    for (u64 stamp = 1; !done.load(std::memory_order_acquire);) {
        for (u64 i = 0; i < 1000; ++i) array.store(8 + random.below(2992), 1, ++stamp);
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    thread.join();
    EXPECT_GT(found, 0U);
    EXPECT_EQ(others, 0U);
}

// A group that never comes to rest is no damage: its reader says `contended`, and reads again when it rests.
TEST(ArrayConcurrencyContended, AStarvedReaderSaysSoAndGoesOn) {
    using large = std::array<u64, 8192>;  // long enough to copy for the change to come in between
    const layout::array_geometry g = layout::plan_array(4, sizeof(large));
    test::aligned_bytes body(g.body_bytes());
    const detail::array_view<std::byte, detail::fixed_element<large>> view(body.bytes(), g, {});
    // Few attempts: on a busy machine the changer sleeps now and then, and a patient reader gets through.
    using hasty = detail::array_loader<detail::fixed_element<large>, detail::copy_by::best, 10>;
    const hasty reader(view.as_const());
    std::byte* const version = view.version_of(1);
    std::atomic<bool> done{false};
    std::thread changer([&] {
        for (u64 now = 2; !done.load(std::memory_order_acquire); now += 2) detail::store_release<u64>(version, now);
    });
    std::vector<std::byte> room(sizeof(large));
    std::byte* const out = room.data();
    // A moment in which the changer does not run lets the read succeed; so it is tried for a while.
    outcome got = outcome::ok;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (got == outcome::ok && std::chrono::steady_clock::now() < until) got = reader.load(1, out);
    done.store(true, std::memory_order_release);
    changer.join();
    EXPECT_EQ(reader.load(1, out), outcome::ok);
    EXPECT_EQ(reader.load(0, out), outcome::ok);
    if (got == outcome::ok) GTEST_SKIP() << "needs: a second processor of its own for the thread that changes";
    EXPECT_EQ(got, outcome::contended);
}

}  // namespace
