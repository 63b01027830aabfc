// SPDX-License-Identifier: Apache-2.0
// The world around a segment changes: the clock jumps ten years, the machine boots anew, a pid is given to another
// process, processes live in name spaces of their own, the kernel gives no random bytes. Nothing is decided by clock,
// pid or boot id: the lock alone says who writes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/many.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/snapshot.hpp"
#include "support/capability.hpp"
#include "support/process.hpp"
#include "support/segment_tools.hpp"
#include "support/settable_world.hpp"
#include "support/table_answer.hpp"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

namespace {

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

constexpr std::int64_t ten_years_ns = 3650LL * 24 * 3600 * 1'000'000'000;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// The wall clock off by so much, until the end of the test.
class clock_shift {
 public:
    explicit clock_shift(std::int64_t ns) { jump(ns); }
    clock_shift(const clock_shift&) = delete;
    clock_shift& operator=(const clock_shift&) = delete;
    ~clock_shift() { jump(0); }
    static void jump(std::int64_t ns) { world.shift_ns = ns; }
};

class ClockJump : public segment_test, public ::testing::WithParamInterface<std::int64_t> {
 protected:
    unique_posix_name name_{"clock"};
};

TEST_P(ClockJump, ChangesNothingAboutWhoMayWrite) {
    const clock_shift clock(0);
    {
        segment writer = create_pattern(name_.uri(), 1);
        clock_shift::jump(GetParam());
        EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write); }), errc::writer_alive);
        EXPECT_EQ(pattern_fault(segment::attach(name_.uri(), access::read_only)), "");
    }
    const segment next = segment::attach(name_.uri(), access::read_write);
    EXPECT_EQ(next.epoch(), 2U);
    EXPECT_EQ(pattern_fault(next), "");
}

TEST_P(ClockJump, DuringAWaitForTheLeaseNeitherEndsNorLengthensIt) {
    const clock_shift clock(0);
    child_process holder([&](channel& parent) {
        const segment held = create_pattern(name_.uri(), 1);
        parent.signal();
        parent.wait();
    });
    ASSERT_TRUE(holder.talk().wait());
    std::atomic<bool> waiting{true};
    std::jthread jumps([&] {
        while (waiting) clock_shift::jump(world.shift_ns == 0 ? GetParam() : 0);
    });
    attach_options patient;
    patient.lease_timeout = std::chrono::milliseconds(100);
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write, patient); }), errc::writer_alive);
    const auto took = std::chrono::steady_clock::now() - begun;
    waiting = false;
    EXPECT_GE(took, 100ms);
    EXPECT_LT(took, 20s);
}

TEST_P(ClockJump, DuringAWaitForAMessageNeitherEndsNorLengthensIt) {
    const clock_shift clock(0);
    const queue_producer producer = queue_producer::create(name_.uri());
    queue_consumer consumer = queue_consumer::attach(name_.uri());
    std::atomic<bool> waiting{true};
    std::jthread jumps([&] {
        while (waiting) clock_shift::jump(world.shift_ns == 0 ? GetParam() : 0);
    });
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(consumer.wait(100ms).status, outcome::timed_out);
    const auto took = std::chrono::steady_clock::now() - begun;
    waiting = false;
    EXPECT_GE(took, 100ms);
    EXPECT_LT(took, 20s);
}

// The index of a ring is by time too: it stays in order, and a join by time gives all that came after that time, by
// the clock that the writer saw.
TEST_P(ClockJump, ARingGoesOnInOrderAndAJoinByTimeMissesNothing) {
    const clock_shift clock(0);
    broadcast_options options;
    options.capacity_bytes = 1 << 16;
    std::optional<broadcast_writer> writer(broadcast_writer::create(name_.uri(), options));
    const auto now_ns = [] {
        struct timespec now{};
        ::clock_gettime(CLOCK_REALTIME, &now);
        return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
    };
    const std::string text(100, 'x');
    std::uint64_t second_half = 0, before = 0, after = 0;
    for (std::uint64_t n = 1; n <= 300; ++n) {
        if (n == 151) {
            before = now_ns();
            clock_shift::jump(GetParam());
            after = now_ns();
            second_half = n;
        }
        ASSERT_TRUE(writer->publish(bytes_of(text)));
    }
    broadcast_reader reader = broadcast_reader::attach(name_.uri());
    EXPECT_TRUE(reader.verify().empty());
    for (const std::uint64_t time : {std::min(before, after), std::uint64_t{0}, std::uint64_t{1}}) {
        (void)reader.join(broadcast_start::time(time));
        EXPECT_LE(reader.sequence(), second_half) << "joined at " << time;
    }
    std::vector<std::byte> out;
    std::uint64_t last = reader.sequence() - 1;
    for (auto got = reader.read(out); got; got = reader.read(out)) EXPECT_EQ(got.sequence, ++last);
    EXPECT_EQ(last, 300U);
    // A successor under yet another clock.
    clock_shift::jump(-GetParam());
    writer.reset();
    broadcast_writer next = broadcast_writer::attach(name_.uri());
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(next.publish(bytes_of(text)));
    EXPECT_TRUE(reader.verify().empty());
    EXPECT_EQ(next.sequence(), 400U);
}

TEST_P(ClockJump, ARegisteredReadersPatienceIsNotOfTheWallClock) {
    const clock_shift clock(0);
    broadcast_options options;
    options.capacity_bytes = 4096;
    options.registered_readers = 1;
    broadcast_writer writer = broadcast_writer::create(name_.uri(), options);
    const broadcast_registration how{.policy = broadcast_policy::evict, .patience = std::chrono::seconds(60)};
    broadcast_reliable_reader reader = writer.make_reliable_reader(how);
    const std::string text(100, 'x');
    while (writer.publish(bytes_of(text))) continue;
    clock_shift::jump(GetParam());
    for (int i = 0; i < 10; ++i) EXPECT_EQ(writer.publish(bytes_of(text)).status, outcome::full);
    EXPECT_TRUE(reader.registered()) << "a minute has not passed";
}

TEST_P(ClockJump, ASnapshotsVersionsGoOn) {
    const clock_shift clock(0);
    snapshot_options options;
    options.slot_bytes = 100;
    snapshot_writer writer = snapshot_writer::create(name_.uri(), options);
    snapshot_reader reader = snapshot_reader::attach(name_.uri());
    for (std::uint64_t n = 1; n <= 20; ++n) {
        clock_shift::jump(n % 2 == 0 ? GetParam() : 0);
        ASSERT_EQ(writer.publish(bytes_of(std::to_string(n))).version, n);
        std::vector<std::byte> out;
        ASSERT_EQ(reader.read(out).version, n);
    }
    EXPECT_TRUE(reader.verify().empty());
}

/// The time since boot off by so much, until the end of the test.
class boot_shift {
 public:
    explicit boot_shift(std::int64_t ns) { jump(ns); }
    boot_shift(const boot_shift&) = delete;
    boot_shift& operator=(const boot_shift&) = delete;
    ~boot_shift() { jump(0); }
    static void jump(std::int64_t ns) { world.boot_shift_ns = ns; }
    static void pass(std::int64_t seconds) { world.boot_shift_ns += seconds * 1'000'000'000; }
};

using text_map = hash_map<std::string_view>;
using text_map_reader = hash_map_reader<std::string_view>;

text_map make_map(const std::string& uri) {
    hash_map_options options;
    options.capacity = 100;
    return text_map::create(uri, options);
}
// Seconds left to a key, as a reader that attaches now sees it; nothing where it is not there.
std::optional<std::int64_t> seconds_left(const std::string& uri, std::string_view key) {
    const hash_map_found got = text_map_reader::attach(uri).about(key);
    return got ? std::optional(got.ttl.count()) : std::nullopt;
}

TEST_P(ClockJump, AnEntrysTimeIsNotOfTheWallClock) {
    const clock_shift clock(0);
    const boot_shift boot(0);
    std::optional<text_map> map(make_map(name_.uri()));
    ASSERT_TRUE(map->set("k", bytes_of("v"), {.ttl = std::chrono::seconds(100)}));
    const text_map_reader reader = text_map_reader::attach(name_.uri());
    clock_shift::jump(GetParam());
    EXPECT_TRUE(reader.contains("k"));
    ASSERT_TRUE(map->set("other", bytes_of("v"), {.ttl = std::chrono::seconds(100)}));
    map.reset();
    map.emplace(text_map::attach(name_.uri()));
    clock_shift::jump(-GetParam());
    ASSERT_TRUE(map->set("third", bytes_of("v")));
    for (const char* key : {"k", "other"}) {
        EXPECT_GE(seconds_left(name_.uri(), key).value_or(0), 90U) << key;
        EXPECT_LE(seconds_left(name_.uri(), key).value_or(0), 100U) << key;
    }
    boot_shift::pass(101);
    EXPECT_FALSE(reader.contains("k"));
    EXPECT_EQ(seconds_left(name_.uri(), "other"), std::nullopt);
    EXPECT_TRUE(reader.contains("third"));
}

INSTANTIATE_TEST_SUITE_P(TenYears, ClockJump, ::testing::Values(ten_years_ns, -ten_years_ns),
                         [](const auto& shift) { return shift.param > 0 ? "forward" : "back"; });

class World : public segment_test {
 protected:
    /// Stores to the header of the segment's file behind everybody's back.
    template <class Change>
    void change_header(Change&& change) const {
        const rig::descriptor file(::open(name_.path().c_str(), O_RDWR | O_CLOEXEC));
        auto* const header = static_cast<layout::segment_header*>(
            ::mmap(nullptr, header_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
        change(*header);
        ::munmap(header, header_bytes);
    }
    static void set_boot_id(layout::segment_header& header, const char* id) {
        std::memset(header.owner_boot_id.data(), 0, header.owner_boot_id.size());
        std::memcpy(header.owner_boot_id.data(), id, std::strlen(id));
    }
    unique_posix_name name_{"world"};
};

constexpr const char* another_boot = "11111111-2222-3333-4444-555555555555";

// A file: segment survives a reboot with what its last writer had written about itself. Its pid is now another's.
TEST_F(World, TheOwnerOfAnEarlierBootHoldsNothing) {
    (void)create_pattern(name_.uri(), 1);
    change_header([](layout::segment_header& header) {
        header.owner_pid = static_cast<std::uint64_t>(::getppid());  // alive, and nobody that has to do with it
        header.owner_start = 1;
        set_boot_id(header, another_boot);
    });
    const segment next = segment::attach(name_.uri(), access::read_write);
    EXPECT_TRUE(next.writable());
    EXPECT_EQ(next.owner().pid, static_cast<std::uint64_t>(::getpid()));
    EXPECT_NE(next.owner().boot_id, another_boot);
}

// Whatever is written about the holder, the holder is who has the lock.
TEST_F(World, AHolderWhoseTracesAreForgedKeepsItsLease) {
    const segment writer = create_pattern(name_.uri(), 1);
    pid_t gone = 0;
    {
        child_process child([] {});
        gone = child.pid();
        (void)child.wait();
    }
    for (const std::uint64_t pid :
         {static_cast<std::uint64_t>(gone), std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
        change_header([&](layout::segment_header& header) {
            header.owner_pid = pid;
            header.owner_start = 0;
            set_boot_id(header, another_boot);
        });
        EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write); }), errc::writer_alive)
            << pid;
        EXPECT_EQ(writer.owner().pid, pid);
        EXPECT_TRUE(writer.writable());
    }
}

// A pid that was free is given out again: the child that gets it holds nothing of its predecessor's.
TEST_F(World, APidThatIsUsedAgainInheritsNoLease) {
    if (!is_root()) GTEST_SKIP() << "needs: root, to choose the next pid";
    (void)create_pattern(name_.uri(), 1);
    child_process first([&](channel& parent) {
        const segment held = segment::attach(name_.uri(), access::read_write);
        parent.signal();
        parent.wait();
    });
    ASSERT_TRUE(first.talk().wait());
    const pid_t pid = first.pid();
    first.kill();
    bool again = false;
    for (int tries = 0; tries < 50 && !again; ++tries) {
        if (!write_setting("/proc/sys/kernel/ns_last_pid", std::to_string(pid - 1)))
            GTEST_SKIP() << "needs: kernel.ns_last_pid";
        child_process second([&](channel& parent) {
            parent.signal();
            parent.wait();
        });
        ASSERT_TRUE(second.talk().wait());
        again = second.pid() == pid;
        const segment next = segment::attach(name_.uri(), access::read_write);
        EXPECT_TRUE(next.writable());
    }
    if (!again) GTEST_SKIP() << "needs: a pid that nobody else takes first";
}

/// Runs body in a child of a process that has entered name spaces of its own: a new pid or time name space holds for
/// children only. That child is forked by hand: in its pid name space it has no parent.
template <class Body>
ended in_name_space(int flags, const std::string& offsets, Body&& body) {
    return in_child([&]() -> std::string {
        if (::unshare(flags) != 0) return "cannot unshare";
        if (!offsets.empty() && !(std::ofstream("/proc/self/timens_offsets") << offsets << std::flush))
            return "cannot set the offsets";
        auto report = rig::pipe_pair::make();
        const pid_t inner = ::fork();
        if (inner == 0) {
            std::string wrong;
            try {
                wrong = body();
            } catch (const std::exception& e) {
                wrong = e.what();
            }
            (void)rig::write_all(report.write_end.get(), wrong.data(), wrong.size());
            ::_exit(wrong.empty() ? 0 : 1);
        }
        report.write_end.close();
        std::string wrong;
        for (char c = 0; rig::read_all(report.read_end.get(), &c, 1);) wrong += c;
        int status = 0;
        ::waitpid(inner, &status, 0);
        return wrong.empty() && status != 0 ? "it ended with status " + std::to_string(status) : wrong;
    });
}
bool can_unshare(int flags) {
    return in_child([&] { return ::unshare(flags) == 0 ? 0 : 1; }).success();
}

// In a container of its own a writer is pid 1 or 2, as are others elsewhere.
TEST_F(World, WritersInPidNameSpacesExcludeEachOther) {
    if (!can_unshare(CLONE_NEWPID)) GTEST_SKIP() << "needs: the right to make pid name spaces";
    (void)create_pattern(name_.uri(), 1);
    {
        const segment held = segment::attach(name_.uri(), access::read_write);
        const ended end = in_name_space(CLONE_NEWPID, "", [&] {
            return expect_refusal(errc::writer_alive, [&] { (void)segment::attach(name_.uri(), access::read_write); });
        });
        EXPECT_TRUE(end.success()) << end.text();
    }
    for (int round = 0; round < 3; ++round) {
        const ended end = in_name_space(CLONE_NEWPID, "", [&]() -> std::string {
            const segment mine = segment::attach(name_.uri(), access::read_write);
            if (mine.owner().pid != static_cast<std::uint64_t>(::getpid()) || ::getpid() > 2) return "another pid";
            return pattern_fault(mine);
        });
        EXPECT_TRUE(end.success()) << end.text();
    }
    EXPECT_EQ(segment::attach(name_.uri(), access::read_write).epoch(), 6U);
}

// Writers of one table, each in a container of its own, are pid 1 or 2 there, as others are elsewhere. Who is dead the
// lock of its writer slot says, whatever pid stands in it.
TEST_F(World, ManyWritersInPidNameSpacesAreToldApartByTheirLocks) {
    if (!can_unshare(CLONE_NEWPID)) GTEST_SKIP() << "needs: the right to make pid name spaces";
    using counts = hash_table<std::uint64_t, std::uint64_t, writers::many>;
    using view = holdfast::detail::table_view<std::byte, holdfast::detail::fixed_node<std::uint64_t, std::uint64_t>>;
    counts mine = counts::create(name_.uri(), {.capacity = 100, .writer_slots = 3});
    ASSERT_EQ(table_answer(mine.try_insert(1, 0)), table_answer::inserted);
    mine.set_patience(0ns);
    const view bytes({const_cast<std::byte*>(mine.segment().bytes().data()), mine.segment().bytes().size()},
                     mine.geometry(), {});
    pid_t gone = 0;
    {
        child_process child([] {});
        gone = child.pid();
        (void)child.wait();
    }
    for (std::uint64_t round = 1; round <= 2; ++round) {
        // Dead in a change, under the pid of one that lives here: of init, and then of this process.
        const ended dead = in_name_space(CLONE_NEWPID, "", [&]() -> std::string {
            if (::getpid() > 2) return "another pid";
            counts theirs = counts::attach(name_.uri());
            if (theirs.writer_slot() == mine.writer_slot()) return "two writers in one slot";
            (void)theirs.modify(1, [](std::uint64_t&) { ::_exit(0); });
            return "it lives on";
        });
        ASSERT_TRUE(dead.success()) << dead.text();
        if (round == 2) holdfast::detail::name_holder(bytes, 1, static_cast<std::uint64_t>(::getpid()));
        EXPECT_EQ(table_answer(mine.update(1, 10 * round)), table_answer::updated);
        EXPECT_EQ(mine.takeovers(), round);

        // Alive in a change, under a pid that is nobody's: as it was forked, and then as it is written down.
        child_process other([&](channel& talk) -> std::string {
            const ended end = in_name_space(CLONE_NEWPID, "", [&]() -> std::string {
                counts theirs = counts::attach(name_.uri());
                const auto done = theirs.modify(1, [&](std::uint64_t& value) {
                    ++value;
                    talk.signal();
                    (void)talk.wait();
                });
                return table_answer(done) == table_answer::updated ? "" : "its change was taken from it";
            });
            return end.success() ? "" : end.text();
        });
        ASSERT_TRUE(other.talk().wait()) << other.wait().text();
        if (round == 2) holdfast::detail::name_holder(bytes, 1, static_cast<std::uint64_t>(gone));
        EXPECT_EQ(table_answer(mine.update(1, 0)), table_answer::contended);
        ASSERT_TRUE(mine.blocked_by());
        EXPECT_EQ(mine.blocked_by()->slot, 1U);
        EXPECT_EQ(mine.takeovers(), round);
        other.talk().signal();
        EXPECT_TRUE(other.wait().success()) << other.wait().text();
        EXPECT_EQ(mine.find(1), 10 * round + 1);
    }
}

// CLOCK_MONOTONIC ten years ahead of that of the other side, as after a move to another machine: waits and patience are
// each side's own.
TEST_F(World, SidesOfDifferentMonotonicClocksUnderstandEachOther) {
    if (!can_unshare(CLONE_NEWTIME)) GTEST_SKIP() << "needs: the right to make time name spaces";
    queue_producer producer = queue_producer::create(name_.uri());
    const unique_posix_name ring_name("world");
    broadcast_options options;
    options.registered_readers = 1;
    broadcast_writer writer = broadcast_writer::create(ring_name.uri(), options);
    child_process other([&]() -> std::string {
        const ended end =
            in_name_space(CLONE_NEWTIME, "monotonic 315360000 0\nboottime 315360000 0\n", [&]() -> std::string {
                queue_consumer consumer = queue_consumer::attach(name_.uri());
                broadcast_reliable_reader reader = broadcast_reliable_reader::attach(ring_name.uri());
                const auto begun = std::chrono::steady_clock::now();
                if (consumer.wait(50ms).status == outcome::timed_out && std::chrono::steady_clock::now() - begun < 50ms)
                    return "a wait ended early";
                std::vector<std::byte> out;
                for (int n = 0; n < 100; ++n) {
                    if (consumer.wait(20s).status != outcome::ok || !consumer.front() || !consumer.pop())
                        return "no message of the queue";
                    if (reader.wait(20s).status != outcome::ok || !reader.read(out)) return "no message of the ring";
                }
                return {};
            });
        return end.success() ? "" : end.text();
    });
    // The ring's reader begins with what is published after it has come.
    for (int tries = 0; tries < 100'000 && writer.registered_readers().empty() && !producer.consumer_alive(); ++tries)
        (void)producer.wait_room(8, 1ms);
    const std::string text = "message";
    const auto begun = std::chrono::steady_clock::now();
    for (int n = 0; n < 100'000 && producer.stats().messages < 100; ++n) {
        ASSERT_TRUE(producer.try_push(bytes_of(text)));
        ASSERT_TRUE(writer.publish(bytes_of(text)));
        if (std::chrono::steady_clock::now() - begun > 30s) break;
    }
    EXPECT_TRUE(other.wait().success()) << other.wait().text();
}

// The machine was up for ten years and boots anew: time goes on from where it stood, for who lives on and for the next.
TEST_F(World, AfterTenYearsAndARebootAnEntryHasTheTimeThatItHad) {
    const boot_shift boot(ten_years_ns);
    {
        text_map map = make_map(name_.uri());
        ASSERT_TRUE(map.set("k", bytes_of("v"), {.ttl = std::chrono::seconds(100)}));
        ASSERT_TRUE(map.set("short", bytes_of("v"), {.ttl = std::chrono::seconds(10)}));
        boot_shift::pass(50);
        ASSERT_TRUE(map.set("other", bytes_of("v")));
    }
    boot_shift::jump(0);
    EXPECT_LE(seconds_left(name_.uri(), "k").value_or(1000), 50U) << "before any writer has come";
    EXPECT_GE(seconds_left(name_.uri(), "k").value_or(0), 40U);
    text_map map = text_map::attach(name_.uri());
    EXPECT_GE(seconds_left(name_.uri(), "k").value_or(0), 40U);
    EXPECT_EQ(seconds_left(name_.uri(), "short"), std::nullopt);
    ASSERT_TRUE(map.set("new", bytes_of("v"), {.ttl = std::chrono::seconds(100)}));
    boot_shift::pass(51);
    EXPECT_EQ(seconds_left(name_.uri(), "k"), std::nullopt) << "nothing lives for ever";
    EXPECT_GE(seconds_left(name_.uri(), "new").value_or(0), 40U);
    boot_shift::pass(50);
    EXPECT_EQ(seconds_left(name_.uri(), "new"), std::nullopt);
    EXPECT_TRUE(text_map_reader::attach(name_.uri()).contains("other"));
}

// The other way: it was off, or nobody wrote, and has now been up for ten years.
TEST_F(World, TenYearsOfUptimePassForEntriesToo) {
    const boot_shift boot(0);
    std::optional<text_map> map(make_map(name_.uri()));
    ASSERT_TRUE(map->set("k", bytes_of("v"), {.ttl = std::chrono::seconds(100)}));
    ASSERT_TRUE(map->set("long", bytes_of("v"), {.ttl = std::chrono::hours(20 * 365 * 24)}));
    map.reset();
    boot_shift::jump(ten_years_ns);
    EXPECT_EQ(seconds_left(name_.uri(), "k"), std::nullopt);
    map.emplace(text_map::attach(name_.uri()));
    EXPECT_EQ(seconds_left(name_.uri(), "k"), std::nullopt);
    EXPECT_NEAR(static_cast<double>(seconds_left(name_.uri(), "long").value_or(0)), 10.0 * 365 * 86400, 100);
    ASSERT_TRUE(map->set("new", bytes_of("v"), {.ttl = std::chrono::seconds(100)}));
    EXPECT_GE(seconds_left(name_.uri(), "new").value_or(0), 90U);
    boot_shift::pass(101);
    EXPECT_EQ(seconds_left(name_.uri(), "new"), std::nullopt);
}

// A filter of system calls, or a kernel of long ago: a table without a seed is refused, not waited for.
TEST_F(World, WithoutRandomBytesNothingIsMadeAndNothingHangs) {
    const ended end = in_child([&]() -> std::string {
        ::alarm(20);
        world.random_refused = true;
        std::string fault =
            expect_refusal(errc::io, [&] { (void)hash_table<int, int>::create(name_.uri(), {.capacity = 10}); });
        if (fault.empty()) fault = expect_refusal(errc::io, [&] { (void)create_pattern(name_.uri(), 1); });
        return fault;
    });
    EXPECT_TRUE(end.success()) << end.text();
    EXPECT_TRUE(name_.entries().empty());
}

}  // namespace
