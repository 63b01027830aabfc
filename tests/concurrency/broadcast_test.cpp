// SPDX-License-Identifier: Apache-2.0
// One writer at full speed against readers of every sort, as threads on one mapping: no message is ever seen mixed,
// each number is given once, as a message or as one of a count, and who blocks loses nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "support/broadcast_bench.hpp"
#include "support/patient_sleeps.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

namespace {

using holdfast::broadcast_policy;
using holdfast::broadcast_read;
using holdfast::broadcast_start;
using holdfast::outcome;
using holdfast::result;
using holdfast::layout::broadcast_hold_core;
using holdfast::layout::broadcast_read_core;
using holdfast::layout::broadcast_write_core;
using holdfast::layout::no_broadcast_slots;
using holdfast::test::broadcast_bench;
using holdfast::test::choose_seed;
using holdfast::test::fill_message;
using holdfast::test::is_message;
using holdfast::test::message_length;
using holdfast::test::nth_message;
using holdfast::test::scaled;
using holdfast::test::slot_bench;

constexpr std::size_t bytes_max = 248;

// Relaxed throughout: totals that are looked at after the threads were joined.
struct tally {
    std::atomic<std::uint64_t> read{0}, lost{0}, laps{0}, torn{0}, miscounted{0}, other{0}, restarts{0};
};
void count(std::atomic<std::uint64_t>& counter, std::uint64_t more = 1) {
    counter.fetch_add(more, std::memory_order_relaxed);
}

/// A reader that checks everything it is given. `pause` runs in the middle of each copy.
class checking_reader {
 public:
    checking_reader(broadcast_read_core core, tally& totals, std::size_t longest = bytes_max)
        : core_(core), totals_(totals), next_(core_.sequence()), longest_(longest) {}

    /// Returns: whether there was something to read.
    template <class Pause>
    bool step(Pause pause) {
        std::size_t bytes = 0;
        const broadcast_read got = core_.next([&](std::span<const std::byte> message, std::uint16_t) noexcept {
            bytes = message.size();
            if (bytes > sizeof buffer_) bytes = sizeof buffer_;
            const std::size_t half = bytes / 2;
            holdfast::detail::copy_from_shared(buffer_, message.data(), half);
            pause();
            holdfast::detail::copy_from_shared(buffer_ + half, message.data() + half, bytes - half);
            return true;
        });
        if (got && got.sequence != next_) count(totals_.miscounted);
        if (got) look_at({buffer_, bytes}, got.count == bytes);
        return tell(got);
    }
    /// The same by batches.
    bool step_batch() {
        holdfast::layout::broadcast_batch batch;
        const broadcast_read got = core_.next_batch(buffer_, longest_ < 1000 ? 1000 : sizeof buffer_, batch);
        if (got && got.sequence != next_) count(totals_.miscounted);
        std::uint64_t copies = 0;
        batch.for_each(buffer_, [&](std::span<const std::byte> message, std::uint16_t) {
            look_at(message, true);
            ++copies;
        });
        if (got && copies != got.count) count(totals_.miscounted);
        return tell(got);
    }
    [[nodiscard]] std::uint64_t next() const noexcept { return next_; }

 private:
    void look_at(std::span<const std::byte> message, bool of_that_length) {
        count(totals_.read);
        // The message says itself which it is: a wrong count shows here even if both ends agreed on it.
        if (!of_that_length || !is_message(message, next_, longest_)) count(totals_.torn);
        ++next_;
    }
    bool tell(const broadcast_read& got) {
        if (got.restarted) count(totals_.restarts);
        if (got.status == outcome::lapped) {
            count(totals_.laps);
            count(totals_.lost, got.count);
            next_ += got.count;
        } else if (got.status != outcome::ok && got.status != outcome::empty) {
            count(totals_.other);
        }
        return got.status != outcome::empty;
    }

    broadcast_read_core core_;
    tally& totals_;
    std::uint64_t next_;
    std::size_t longest_;
    alignas(8) std::byte buffer_[4096];
};

void publish(broadcast_write_core& writer, std::size_t longest = bytes_max) {
    no_broadcast_slots nobody;
    ASSERT_TRUE(writer.append(nth_message(writer.published() + 1, longest), 0, nobody));
    ASSERT_TRUE(writer.commit());
}

void expect_exact(const tally& totals) {
    EXPECT_EQ(totals.torn, 0U);
    EXPECT_EQ(totals.miscounted, 0U);
    EXPECT_EQ(totals.other, 0U);
}

// The figure to beat: a ring that gave torn data as success 949 times in 1.12 million reads.
void overrun_readers(broadcast_bench& bench, broadcast_write_core& writer, std::uint64_t wanted, std::size_t longest) {
    tally totals;
    std::atomic<bool> stop{false};
    std::vector<std::uint64_t> ends(4, 0);
    std::vector<std::thread> readers;
    for (std::size_t i = 0; i < ends.size(); ++i)
        readers.emplace_back([&, i] {
            checking_reader reader(bench.reader(), totals, longest);
            std::uint64_t turn = 0;
            const auto pause = [&]() noexcept {
                if (i > 0 && ++turn % (i == 1 ? 512 : 4096) == 0) std::this_thread::yield();  // invites the writer in
            };
            const auto step = [&] { return i == 3 ? reader.step_batch() : reader.step(pause); };
            while (!stop.load(std::memory_order_acquire))
                if (!step()) std::this_thread::yield();
            while (step()) continue;
            ends[i] = reader.next();
        });
    const auto enough = [&] {  // and somebody was overrun, where the scheduler lets that happen at all
        const std::uint64_t read = totals.read.load(std::memory_order_relaxed);
        return read >= wanted && (totals.laps.load(std::memory_order_relaxed) != 0 || read >= 100 * wanted);
    };
    while (!enough()) publish(writer, longest);
    stop.store(true, std::memory_order_release);
    for (auto& reader : readers) reader.join();
    expect_exact(totals);
    for (const std::uint64_t end : ends) EXPECT_EQ(end, writer.published() + 1) << "read and lost make all";
    EXPECT_GT(totals.laps, 0U) << "nobody was overrun: the test tested nothing";
    ::testing::Test::RecordProperty("reads", std::to_string(totals.read));
    ::testing::Test::RecordProperty("published", std::to_string(writer.published()));
    ::testing::Test::RecordProperty("lost", std::to_string(totals.lost));
    ::testing::Test::RecordProperty("laps", std::to_string(totals.laps));
}

TEST(BroadcastConcurrency, OverrunReadersAreNeverGivenAMixAndCountExactly) {
    broadcast_bench bench(1 << 18);
    auto writer = bench.writer();
    overrun_readers(bench, writer, scaled(1'200'000), bytes_max);
}

// Stores past the caches are ordered by nothing but the writer's fences.
TEST(BroadcastConcurrency, OverrunReadersAreNeverGivenAMixOfLongMessagesPastTheCaches) {
    broadcast_bench bench(1 << 18);
    auto writer = bench.writer();
    writer.long_copies().keep_to(holdfast::detail::copy_way::past_caches);
    overrun_readers(bench, writer, scaled(300'000), 4000);
}

TEST(BroadcastConcurrency, BatchesAreSeenWholeOrNotAtAll) {
    broadcast_bench bench(1 << 16);
    std::atomic<bool> stop{false};
    tally totals;
    // Messages of a batch carry its size and their place in it.
    std::thread reader([&] {
        auto core = bench.reader();
        std::uint64_t expected = 0;
        bool inside = true;  // a join or a jump may lead into a batch: wait for its end
        while (!stop.load(std::memory_order_acquire)) {
            std::uint64_t words[2]{};
            const auto got = core.read(std::as_writable_bytes(std::span(words)));
            if (got.status == outcome::lapped) inside = true;
            if (got.status == outcome::empty && !inside && expected != 0) count(totals.torn);  // half a batch
            if (!got) continue;
            count(totals.read);
            if (!inside && words[1] != expected) count(totals.torn);
            expected = words[1] + 1 == words[0] ? 0 : words[1] + 1;
            inside = inside && expected != 0;
        }
    });
    auto writer = bench.writer();
    no_broadcast_slots nobody;
    // In these tests on until the others have begun, however long that takes.
    for (std::uint64_t i = 0; i < scaled(200'000) || totals.read == 0; ++i) {
        const std::uint64_t size = 1 + i % 9;
        for (std::uint64_t place = 0; place < size; ++place) {
            const std::uint64_t words[2]{size, place};
            ASSERT_TRUE(writer.append(std::as_bytes(std::span(words)), 0, nobody));
        }
        ASSERT_EQ(writer.commit().count, size);
    }
    stop.store(true, std::memory_order_release);
    reader.join();
    EXPECT_EQ(totals.torn, 0U);
    EXPECT_GT(totals.read, 0U);
}

TEST(BroadcastConcurrency, WhoeverJoinsStandsAtTheNumberItWasGiven) {
    broadcast_bench bench(8192);
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> published{0}, joins{0}, reached{0};
    tally totals;
    std::thread joiner([&] {
        std::uint64_t turn = 0;
        while (!stop.load(std::memory_order_acquire)) {
            const std::uint64_t now = published.load(std::memory_order_acquire);
            const std::uint64_t wanted = now > 40 ? now - turn % 40 : 1;
            const broadcast_start starts[]{broadcast_start::oldest(), broadcast_start::latest(),
                                           broadcast_start::sequence(wanted), broadcast_start::time(~0ULL)};
            broadcast_read_core core(bench.body(), bench.geometry());
            const auto& start = starts[++turn % 4];
            const result joined = core.join(start);
            count(joins);
            if (joined.status == outcome::corrupt) count(totals.other);
            if (start.where == broadcast_start::from::sequence) {
                if (joined.status == outcome::ok && core.sequence() != wanted) count(totals.miscounted);
                if (joined.status == outcome::lapped && core.sequence() != wanted + joined.count)
                    count(totals.miscounted);
                if (joined.status == outcome::ok) count(reached);
            }
            if (start.where == broadcast_start::from::latest && joined && core.sequence() <= now)
                count(totals.miscounted);
            checking_reader reader(core, totals);
            for (int i = 0; i < 5; ++i) reader.step([]() noexcept {});
        }
    });
    auto writer = bench.writer();
    for (std::uint64_t i = 1; i <= scaled(300'000) || joins <= 100 || reached == 0; ++i) {
        publish(writer);
        published.store(i, std::memory_order_release);
    }
    stop.store(true, std::memory_order_release);
    joiner.join();
    expect_exact(totals);
    EXPECT_GT(joins, 100U);
    EXPECT_GT(reached, 0U);
    EXPECT_GT(totals.read, 0U);
}

// The writer fills messages with plain stores and readers look with plain loads: under thread sanitizer this proves
// that the slots' words order the reuse of the ring.
TEST(BroadcastConcurrency, ReadersThatBlockLoseNothingAndMayLookInPlace) {
    constexpr std::uint32_t blocking = 3;
    broadcast_bench bench(8192, blocking);
    slot_bench slots(blocking);
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> enrolled{0};
    tally totals;
    std::vector<std::uint64_t> ends(blocking, 0);
    std::vector<std::thread> readers;
    for (std::uint32_t i = 0; i < blocking; ++i)
        readers.emplace_back([&, i] {
            broadcast_hold_core reader(broadcast_read_core(bench.body(), bench.geometry()), slots.slot(i));
            if (reader.enrol(broadcast_start::oldest(), broadcast_policy::block, 0, i + 1)) count(enrolled);
            std::uint64_t next = reader.reader().sequence();
            for (bool more = true; more;) {
                more = !stop.load(std::memory_order_acquire);
                const broadcast_read got = reader.next([&](std::span<const std::byte> message, std::uint16_t) noexcept {
                    if (!is_message(message, next, bytes_max)) count(totals.torn);
                    return true;
                });
                if (got.status == outcome::lapped) count(totals.lost, got.count + 1);
                if (got.status == outcome::corrupt) count(totals.other);
                if (!got) {
                    std::this_thread::yield();
                    continue;
                }
                more = true;
                count(totals.read);
                if (got.sequence != next++) count(totals.miscounted);
            }
            ends[i] = next;
            if (!reader.registered()) count(totals.other);
            reader.leave();
        });
    while (enrolled.load(std::memory_order_acquire) < blocking) std::this_thread::yield();
    auto writer = bench.writer();
    std::uint64_t refused = 0;
    for (std::uint64_t i = 1; i <= scaled(200'000); ++i) {
        const std::size_t bytes = message_length(i, bytes_max);
        holdfast::broadcast_claim room;
        while (!(room = writer.claim(bytes, slots))) {
            ASSERT_EQ(room.status, outcome::full);
            ++refused;
            std::this_thread::yield();
        }
        fill_message(room.bytes, i);
        ASSERT_EQ(writer.stage(bytes, 0), outcome::ok);
        ASSERT_TRUE(writer.commit());
    }
    stop.store(true, std::memory_order_release);
    for (auto& reader : readers) reader.join();
    expect_exact(totals);
    EXPECT_EQ(totals.lost, 0U);
    for (const std::uint64_t end : ends) EXPECT_EQ(end, writer.published() + 1);
    RecordProperty("refused", std::to_string(refused));
}

// Readers register and leave without end while the writer runs: from each registration on, nothing is lost until the
// reader leaves (I4 of broadcast_slots.hpp).
TEST(BroadcastConcurrency, NoRaiseSlipsBetweenRegistrationAndScan) {
    constexpr std::uint32_t comers = 2;
    broadcast_bench bench(2048, comers);
    slot_bench slots(comers);
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> registrations{0};
    tally totals;
    std::vector<std::thread> readers;
    for (std::uint32_t i = 0; i < comers; ++i)
        readers.emplace_back([&, i] {
            broadcast_hold_core reader(broadcast_read_core(bench.body(), bench.geometry()), slots.slot(i));
            for (std::uint64_t round = 1; !stop.load(std::memory_order_acquire); ++round) {
                const auto start = round % 2 == 0 ? broadcast_start::oldest() : broadcast_start::latest();
                if (reader.enrol(start, broadcast_policy::block, 0, round).status == outcome::corrupt)
                    count(totals.other);
                if (!reader.registered()) continue;  // the writer outran every attempt
                count(registrations);
                std::uint64_t next = reader.reader().sequence();
                for (std::uint64_t n = 0; n < 20 + round % 50; ++n) {
                    const auto got = reader.next([&](std::span<const std::byte> message, std::uint16_t) noexcept {
                        if (!is_message(message, next, bytes_max)) count(totals.torn);
                        return true;
                    });
                    if (got.status == outcome::lapped) count(totals.lost);
                    if (got) {
                        if (got.sequence != next++) count(totals.miscounted);
                        count(totals.read);
                    } else {
                        std::this_thread::yield();
                    }
                }
                reader.leave();
            }
        });
    auto writer = bench.writer();
    for (std::uint64_t i = 0; i < scaled(100'000) || registrations <= 10; ++i) {
        const auto message = nth_message(writer.published() + 1, bytes_max);
        while (!writer.append(message, 0, slots)) std::this_thread::yield();
        ASSERT_TRUE(writer.commit());
    }
    stop.store(true, std::memory_order_release);
    for (auto& reader : readers) reader.join();
    expect_exact(totals);
    EXPECT_EQ(totals.lost, 0U) << "a message was lost behind a registration that stood";
    EXPECT_GT(registrations, 10U);
    RecordProperty("registrations", std::to_string(registrations));
}

TEST(BroadcastConcurrency, TakeoversAreReportedAndNothingIsLostByThem) {
    broadcast_bench bench(1 << 20);
    tally totals;
    std::atomic<bool> joined{false}, stop{false};
    std::uint64_t end = 0;
    std::thread reader([&] {
        checking_reader checked(bench.reader(), totals);
        (void)checked.step([]() noexcept {});
        joined.store(true, std::memory_order_release);
        while (!stop.load(std::memory_order_acquire)) checked.step([]() noexcept {});
        while (checked.step([]() noexcept {})) continue;
        end = checked.next();
    });
    while (!joined.load(std::memory_order_acquire)) std::this_thread::yield();
    std::uint64_t published = 0;
    for (std::uint64_t round = 0; round < scaled(2000); ++round) {
        auto writer = bench.writer();
        ASSERT_EQ(writer.published(), published);
        for (int i = 0; i < 20; ++i) publish(writer);
        published = writer.published();
    }
    stop.store(true, std::memory_order_release);
    reader.join();
    expect_exact(totals);
    EXPECT_EQ(end, published + 1);
    EXPECT_GT(totals.restarts, 0U);
}

TEST(BroadcastConcurrency, AWorkingWriterIsNoDamage) {
    broadcast_bench bench(1 << 16);
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> quiet{0}, busy{0};
    std::vector<std::string> damage;
    std::thread inspector([&] {
        while (!stop.load(std::memory_order_acquire)) {
            holdfast::layout::findings found;
            const auto checked = holdfast::layout::verify_broadcast(bench.body(), bench.geometry(), found);
            count(checked.quiet ? quiet : busy);
            if (damage.empty())
                for (const auto& f : found.list()) damage.push_back(f.what);
        }
    });
    auto writer = bench.writer();
    for (std::uint64_t i = 0; i < scaled(400'000) || quiet == 0; ++i) {
        publish(writer);
        if (i % 1'000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a moment of rest
    }
    stop.store(true, std::memory_order_release);
    inspector.join();
    EXPECT_TRUE(damage.empty()) << damage[0];
    EXPECT_GT(quiet, 0U) << busy << " looks, none of them to the end";
    RecordProperty("looks", std::to_string(quiet) + " quiet, " + std::to_string(busy) + " overrun");
}

// Two sides that take turns: `first` goes on at about the moment at which `second` goes to sleep: a little earlier when
// that slept the last time, and a little later when it did not.
template <class First, class Second>
void meet_at_the_brink(std::uint64_t rounds, First first, Second second) {
    std::atomic<std::uint64_t> taken{0};
    std::atomic<bool> failed{false};
    std::thread other([&] {
        for (std::uint64_t i = 0; i < rounds && !failed; ++i) {
            if (!second()) failed = true;
            taken.store(i + 1, std::memory_order_release);
        }
    });
    const auto& sleeps = holdfast::test::patient_sleeps::sleeps;
    unsigned long slept = sleeps.load();
    std::mt19937_64 random(choose_seed());
    for (std::uint64_t i = 0, delay = 0; i < rounds && !failed; ++i) {
        while (taken.load(std::memory_order_acquire) < i && !failed) holdfast::memory::detail::spin_pause();
        delay = std::exchange(slept, sleeps.load()) == sleeps.load() ? delay + 4
                                                                     : delay - std::min<std::uint64_t>(delay, 4);
        for (std::uint64_t pauses = delay + random() % 8; pauses > 0; --pauses) holdfast::memory::detail::spin_pause();
        if (!first()) failed = true;
    }
    other.join();
    EXPECT_FALSE(failed);
}

// Nobody is woken by a cap: one wake lost would cost half a minute. The handles as they are.
TEST(BroadcastWaiting, NoWakeIsLost) {
    constexpr std::size_t message_bytes = 56;  // a stride of this ring with its word
    constexpr auto for_ever = std::chrono::nanoseconds::max();
    const auto begin = std::chrono::steady_clock::now();
    holdfast::broadcast_options options;
    options.capacity_bytes = 2048;
    options.registered_readers = 1;
    auto writer = holdfast::broadcast_writer::create("anon:", options);
    auto reader = writer.make_reliable_reader();
    const std::vector<std::byte> message(message_bytes);
    const auto publish = [&] { return static_cast<bool>(writer.publish(message)); };
    std::vector<std::byte> out(message_bytes);
    const auto read = [&] { return reader.read(std::span<std::byte>(out)).status == outcome::ok; };
    const holdfast::test::patient_sleeps without_caps;
    meet_at_the_brink(scaled(60'000), publish, [&] { return reader.wait(for_ever) && read(); });
    const unsigned long of_readers = holdfast::test::patient_sleeps::sleeps.load();
    while (publish()) continue;
    meet_at_the_brink(scaled(20'000), read, [&] { return writer.wait_room(message_bytes, for_ever) && publish(); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(25)) << "a sleeper was not woken";
    EXPECT_GT(of_readers, 0U);
    EXPECT_GT(holdfast::test::patient_sleeps::sleeps.load(), of_readers);
    RecordProperty("sleeps", std::to_string(of_readers) + " for messages, " +
                                 std::to_string(holdfast::test::patient_sleeps::sleeps.load() - of_readers) +
                                 " for room");
}

}  // namespace
