// SPDX-License-Identifier: Apache-2.0
// Real SIGKILLs, real files and locks: writers killed while they publish single messages and batches, registered
// readers killed and stopped while they hold the writer up, unregistered readers stopped while the writer laps them.
#include <gtest/gtest.h>

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "support/broadcast_bench.hpp"
#include "support/kill_rig.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/single_step.hpp"

namespace {

using holdfast::attach_options;
using holdfast::broadcast_options;
using holdfast::broadcast_policy;
using holdfast::broadcast_reader;
using holdfast::broadcast_registration;
using holdfast::broadcast_reliable_reader;
using holdfast::broadcast_start;
using holdfast::broadcast_writer;
using holdfast::outcome;
using holdfast::test::child_process;
using holdfast::test::fill_message;
using holdfast::test::is_message;
using holdfast::test::kill_progress;
using holdfast::test::message_length;
using holdfast::test::nth_message;
using holdfast::test::random_at;
using holdfast::test::scaled;
using holdfast::test::unique_posix_name;

constexpr std::size_t bytes_max = 500;

/// What a reader gets until there is nothing more, held against the numbers; `next` moves.
template <class Reader>
std::string follow(Reader& reader, std::uint64_t& next, std::uint64_t* lost = nullptr) {
    std::vector<std::byte> out;
    for (;;) {
        const auto got = reader.read(out);
        if (got.status == outcome::empty) return {};
        if (got.status == outcome::lapped) {
            next += got.count;
            if (lost != nullptr) *lost += got.count;
        } else if (!got) {
            return "message " + std::to_string(next) + ": " + std::string(outcome_name(got.status));
        } else {
            if (got.sequence != next) return "message " + std::to_string(got.sequence) + " for " + std::to_string(next);
            if (!is_message(out, next, bytes_max)) return "message " + std::to_string(next) + " is not whole";
            ++next;
        }
    }
}

/// How many messages the operation that begins with message `sequence` publishes at once.
std::uint64_t batch_at(std::uint64_t sequence) { return 1 + random_at(3, sequence, 0) % 5; }

/// One operation: a message or a batch, in place, claimed in part or whole. Returns: whether it was published.
bool operate(broadcast_writer& writer) {
    const std::uint64_t first = writer.sequence() + 1, size = batch_at(first);
    for (std::uint64_t i = 0; i < size; ++i) {
        const std::size_t bytes = message_length(first + i, bytes_max);
        const auto room = writer.claim(i % 2 == 0 ? bytes_max : bytes);
        if (!room) writer.discard();
        if (!room) return false;
        fill_message(room.bytes.first(bytes), first + i);
        if (writer.stage(bytes) != outcome::ok) return false;
    }
    return writer.commit().count == size;
}

class BroadcastKill : public holdfast::test::segment_test {
 protected:
    broadcast_writer make(std::uint64_t capacity, std::uint32_t readers = 0) {
        broadcast_options options;
        options.capacity_bytes = capacity;
        options.registered_readers = readers;
        return broadcast_writer::create(name_.uri(), options);
    }
    // A dead writer's lease is free once the kernel has torn it down: wait for that, on the lock itself.
    [[nodiscard]] broadcast_writer take_over() const {
        attach_options options;
        options.lease_timeout = std::chrono::seconds(10);
        return broadcast_writer::attach(name_.uri(), options);
    }

    unique_posix_name name_{"broadcast"};
};

TEST_F(BroadcastKill, WritersKilledAtRandomInstantsLoseNothingPublished) {
    {
        (void)make(16'384);
    }
    holdfast::test::seeded_random random;
    std::uint64_t published = 0, next = 1;
    broadcast_reader reader = broadcast_reader::attach(name_.uri());
    std::vector<std::byte> seen;
    const auto worker = [&](kill_progress& progress, std::uint64_t) {
        broadcast_writer writer = take_over();
        progress.ready();
        for (;;) {
            progress.begin();
            if (!operate(writer)) ::_exit(1);
            progress.end();
        }
    };
    const auto verify = [&](const kill_progress& progress, std::uint64_t round) -> std::string {
        for (std::uint64_t i = 0; i < progress.completed(); ++i) published += batch_at(published + 1);
        broadcast_reader late = broadcast_reader::attach(name_.uri(), broadcast_start::latest());
        if (late.sequence() != published + 1) {
            if (!progress.in_flight() || late.sequence() != published + batch_at(published + 1) + 1)
                return "message " + std::to_string(late.sequence() - 1) + " is the last, not " +
                       std::to_string(published);
            published = late.sequence() - 1;
        }
        if (std::string fault = follow(reader, next); !fault.empty()) return fault;
        if (next != published + 1) return "read and lost make " + std::to_string(next - 1);
        if (const auto found = reader.verify(); !found.empty()) return "verify: " + found.list()[0].what;
        if (round % 16 != 0) return {};
        broadcast_writer successor = take_over();
        if (successor.sequence() != published) return "the successor stands elsewhere";
        published += batch_at(published + 1);
        return operate(successor) ? "" : "the successor cannot publish";
    };
    const auto report = holdfast::test::run_kill_rounds(
        {.rounds = scaled(10'000), .delay_ns_max = 30'000, .seed = random.seed()}, worker, verify);
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_EQ(reader.fault(), std::nullopt);
    RecordProperty("kills", report.text());
    RecordProperty("messages", std::to_string(published));
}

TEST_F(BroadcastKill, ABlockingReadersHoldEndsWithItsLife) {
    broadcast_writer writer = make(8192, 1);
    for (std::uint64_t round = 0; round < scaled(50); ++round) {
        child_process child([&](holdfast::test::channel& talk) -> std::string {
            const broadcast_registration how{.start = broadcast_start::latest()};
            broadcast_reliable_reader reader = broadcast_reliable_reader::attach(name_.uri(), how);
            std::uint64_t next = reader.sequence();
            talk.signal();
            talk.wait();
            if (std::string fault = follow(reader, next); !fault.empty()) return fault;
            talk.signal();
            talk.wait();  // holds the writer up until it is killed
            return "outlived its kill";
        });
        ASSERT_TRUE(child.talk().wait());
        ASSERT_TRUE(operate(writer));
        child.talk().signal();
        ASSERT_TRUE(child.talk().wait());
        while (operate(writer)) continue;
        child.send_signal(SIGSTOP);  // stopped is not dead
        for (int i = 0; i < 5; ++i) ASSERT_FALSE(operate(writer)) << "round " << round;
        EXPECT_TRUE(child.kill().signalled);
        for (int i = 0; i < 100; ++i) ASSERT_TRUE(operate(writer)) << "round " << round;
    }
    EXPECT_TRUE(writer.make_reader().verify().empty());
}

TEST_F(BroadcastKill, RegisteredReadersKilledAtRandomInstantsHoldNobodyUp) {
    broadcast_writer writer = make(8192, 1);
    holdfast::test::seeded_random random;
    const auto publish_some = [&] {
        for (int i = 0; i < 20; ++i)
            if (!operate(writer)) return false;
        return true;
    };
    ASSERT_TRUE(publish_some());
    const auto worker = [&](kill_progress& progress, std::uint64_t round) {
        std::vector<std::byte> out;
        progress.ready();
        for (std::uint64_t i = round;; ++i) {
            progress.begin();
            const broadcast_registration how{.policy = i % 2 == 0 ? broadcast_policy::block : broadcast_policy::evict};
            broadcast_reliable_reader reader = broadcast_reliable_reader::attach(name_.uri(), how);
            for (int n = 0; n < 10; ++n)
                if (reader.read(out).status == outcome::corrupt) ::_exit(1);
            reader.acknowledge();
            if (!reader.enrol({.start = broadcast_start::latest()})) ::_exit(1);
            progress.end();
        }
    };
    const auto verify = [&](const kill_progress&, std::uint64_t) -> std::string {
        if (!publish_some()) return "a dead reader holds the writer up";
        return writer.registered_readers().empty() ? "" : "a dead reader is still registered";
    };
    const auto report = holdfast::test::run_kill_rounds(
        {.rounds = scaled(2'000), .delay_ns_max = 200'000, .seed = random.seed()}, worker, verify);
    EXPECT_TRUE(report.passed()) << report.text();
    RecordProperty("kills", report.text());
}

TEST_F(BroadcastKill, AStoppedReaderIsEvictedWhenItsPatienceEndsAndIsTold) {
    broadcast_writer writer = make(8192, 1);
    for (std::uint64_t round = 0; round < scaled(10); ++round) {
        child_process child([&](holdfast::test::channel& talk) -> std::string {
            const broadcast_registration how{.start = broadcast_start::latest(),
                                             .policy = broadcast_policy::evict,
                                             .patience = std::chrono::milliseconds(20)};
            broadcast_reliable_reader reader = broadcast_reliable_reader::attach(name_.uri(), how);
            std::uint64_t next = reader.sequence();
            talk.signal();
            talk.wait();  // stopped here, and lapped
            if (reader.registered()) return "still registered";
            if (std::string fault = follow(reader, next); !fault.empty()) return fault;
            return reader.lost() > 0 ? "" : "lost nothing";
        });
        ASSERT_TRUE(child.talk().wait());
        child.send_signal(SIGSTOP);
        while (operate(writer)) continue;
        while (!operate(writer)) (void)writer.wait_room(writer.message_bytes_max(), std::chrono::milliseconds(1));
        EXPECT_TRUE(writer.registered_readers().at(0).evicted);
        for (int i = 0; i < 100; ++i) ASSERT_TRUE(operate(writer));
        child.send_signal(SIGCONT);
        child.talk().signal();
        EXPECT_TRUE(child.wait().success()) << child.wait().text();
    }
}

// A reader that nobody knows is stopped at any instant while the writer goes many times around the ring: what it was
// copying then is never given as a message.
TEST_F(BroadcastKill, StoppedUnregisteredReadersAreToldExactlyWhatTheyLost) {
    broadcast_writer writer = make(8192);
    std::uint64_t lost = 0;
    for (std::uint64_t round = 0; round < scaled(100); ++round) {
        child_process child([&](holdfast::test::channel& talk) -> std::string {
            broadcast_reader reader = broadcast_reader::attach(name_.uri(), broadcast_start::latest());
            std::uint64_t next = reader.sequence();
            talk.signal();
            // Until message `end` of the round, which has no successor: then all was read or counted.
            const std::uint64_t end = next + 3000;
            std::uint64_t missed = 0;
            while (next < end)
                if (std::string fault = follow(reader, next, &missed); !fault.empty()) return fault;
            talk.send(missed);
            return {};
        });
        ASSERT_TRUE(child.talk().wait());
        const std::uint64_t end = writer.sequence() + 3000;
        while (writer.sequence() < end) {
            child.send_signal(writer.sequence() % 2 == 0 ? SIGSTOP : SIGCONT);
            for (int i = 0; i < 20; ++i) ASSERT_TRUE(operate(writer));
        }
        child.send_signal(SIGCONT);
        lost += child.talk().receive<std::uint64_t>().value_or(0);
        ASSERT_TRUE(child.wait().success()) << "round " << round << ": " << child.wait().text();
    }
    EXPECT_GT(lost, 0U) << "nobody was overrun: the test tested nothing";
    RecordProperty("lost", std::to_string(lost));
}

/// What a reader in another process has seen so far.
struct seen_elsewhere {
    std::atomic<std::uint64_t> last, reads, lost, laps, torn;
};

// The figure to beat: a ring that gave torn data as success 949 times in 1.12 million reads of another process. Here
// one reads as many, stopped at any instant while the writer goes round the ring, and in between with the writer now on
// its heels, overwriting what it is about to read, now well before that.
TEST_F(BroadcastKill, AnotherProcessReadsAMillionMessagesAndNoneIsAMix) {
    constexpr std::uint64_t ring_bytes = 2 << 20, ring_messages = ring_bytes / 270;
    const std::uint64_t wanted = scaled(1'200'000);
    holdfast::test::shared_image pages(4096);
    // Relaxed throughout: counts of one process, which the other one only waits by, and reads when that has ended.
    auto& seen = *::new (pages.bytes().data()) seen_elsewhere{};
    constexpr auto relaxed = std::memory_order_relaxed;
    broadcast_writer writer = make(ring_bytes);
    child_process child([&](holdfast::test::channel& talk) -> std::string {
        broadcast_reader reader = broadcast_reader::attach(name_.uri(), broadcast_start::latest());
        std::uint64_t next = reader.sequence();
        std::vector<std::byte> out;
        talk.signal();
        while (seen.reads.load(relaxed) < wanted) {
            const auto got = reader.read(out);
            if (got.status == outcome::empty) {
                ::sched_yield();
                continue;
            }
            if (got.status == outcome::lapped) {
                next += got.count;
                seen.lost.fetch_add(got.count, relaxed);
                seen.laps.fetch_add(1, relaxed);
            } else if (!got) {
                return "message " + std::to_string(next) + ": " + std::string(outcome_name(got.status));
            } else {
                if (got.sequence != next)
                    return "message " + std::to_string(got.sequence) + " for " + std::to_string(next);
                seen.torn.fetch_add(is_message(out, next, bytes_max) ? 0 : 1, relaxed);
                seen.reads.fetch_add(1, relaxed);
                ++next;
            }
            seen.last.store(next - 1, relaxed);
        }
        return {};
    });
    const auto ended = [&] {
        siginfo_t how{};
        return ::waitid(P_PID, static_cast<id_t>(child.pid()), &how, WEXITED | WNOHANG | WNOWAIT) != 0 ||
               how.si_pid != 0;
    };
    ASSERT_TRUE(child.talk().wait());
    std::uint64_t stops = 0;
    for (std::uint64_t round = 0; !ended(); ++round) {
        const bool stopping = round % 4 == 3;
        const std::uint64_t ahead_max = round % 2 == 0 ? ring_messages / 2 : ring_messages * 9 / 8;
        if (stopping) child.send_signal(SIGSTOP);
        if (stopping) ++stops;
        for (const std::uint64_t end = writer.sequence() + ring_messages * 5 / 4; writer.sequence() < end;) {
            while (!stopping && writer.sequence() > seen.last.load(relaxed) + ahead_max && !ended()) ::sched_yield();
            ASSERT_TRUE(operate(writer));
        }
        if (stopping) child.send_signal(SIGCONT);
    }
    ASSERT_TRUE(child.wait().success()) << child.wait().text();
    const std::string text = std::to_string(seen.reads) + " reads by another process, " + std::to_string(seen.torn) +
                             " torn; " + std::to_string(seen.lost) + " lost in " + std::to_string(seen.laps) +
                             " laps, stopped " + std::to_string(stops) + " times";
    RecordProperty("messages", text);
    EXPECT_EQ(seen.torn, 0U);
    EXPECT_GE(seen.reads, wanted);
    EXPECT_GT(seen.laps, 0U) << "it was never overrun: the test tested nothing";
    EXPECT_GT(stops, 0U);
}

TEST_F(BroadcastKill, AKilledWriterLeavesBlockingReadersTheirMessages) {
    {
        (void)make(16'384, 1);
    }
    broadcast_reliable_reader reader = broadcast_reliable_reader::attach(name_.uri());
    std::uint64_t next = 1;
    for (std::uint64_t round = 0; round < scaled(20); ++round) {
        child_process child([&](holdfast::test::channel& talk) -> std::string {
            broadcast_writer writer = take_over();
            talk.signal();
            for (;;)
                if (!operate(writer) && writer.wait_room(bytes_max, std::chrono::hours(1)).status != outcome::ok)
                    return "no room";
        });
        ASSERT_TRUE(child.talk().wait());
        const std::uint64_t enough = next + 200;
        while (next < enough) {
            ASSERT_EQ(reader.wait(std::chrono::seconds(60)).status, outcome::ok);
            ASSERT_EQ(follow(reader, next), "");
        }
        ASSERT_TRUE(child.kill().signalled);
        ASSERT_EQ(follow(reader, next), "");
        ASSERT_EQ(reader.wait(std::chrono::seconds(60)).status, outcome::writer_gone);
        ASSERT_EQ(reader.lost(), 0U);
    }
    EXPECT_EQ(take_over().sequence(), next - 1);
}

}  // namespace
