// SPDX-License-Identifier: Apache-2.0
// A segment's creator, writer or reader dies. Attacked: "made whole or not at all", "a creator killed leaves nothing
// behind and never blocks the next one", "the next writer is admitted as soon as the kernel has torn the first one
// down", "a reader can harm nobody".
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "support/capability.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/single_step.hpp"
#include "support/system_call_faults.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

// A place where segments are made: in /dev/shm or on a disk, with unnamed files or the fallback without.
struct making {
    const char* name;
    bool on_disk;
    bool unnamed;
    friend std::ostream& operator<<(std::ostream& out, const making& m) { return out << m.name; }
};

class CreatorDeath : public segment_test, public ::testing::WithParamInterface<making> {
 protected:
    [[nodiscard]] std::string uri() const { return GetParam().on_disk ? disk_.file_uri("s") : posix_.uri(); }
    [[nodiscard]] std::vector<std::string> entries() const {
        return GetParam().on_disk ? disk_.entries() : posix_.entries();
    }
    void clear() {
        for (const std::string& entry : entries())
            ::unlink(((GetParam().on_disk ? disk_.path() : unique_posix_name::directory()) + "/" + entry).c_str());
    }
    void create_in_child() const {
        if (!GetParam().unnamed && !refuse_unnamed_files()) ::_exit(2);
        (void)create_pattern(uri(), 1);
    }
    // Without a name nothing may lie about; the fallback's hidden file goes with the next creation at the latest.
    [[nodiscard]] std::string after_death() {
        bool there = false;
        if (std::string fault = nothing_or_whole(uri(), there); !fault.empty()) return fault;
        if (!there && GetParam().unnamed && !entries().empty()) return "left behind: " + entries().front();
        const ended end = in_child([&]() -> std::string {
            if (!there) return create_in_child(), std::string();
            if (!GetParam().unnamed && !refuse_unnamed_files()) return "no seccomp";
            const segment next = segment::attach(uri(), access::read_write);  // nobody holds the lease any more
            return next.writable() ? "" : "no writable mapping";
        });
        if (!end.success()) return std::string("the next ") + (there ? "writer" : "creator") + " failed: " + end.text();
        if (std::string fault = nothing_or_whole(uri(), there); !there || !fault.empty())
            return "after the next one: " + fault;
        for (const std::string& entry : entries())
            if (entry.ends_with(".making")) return "not swept: " + entry;
        return {};
    }

    unique_posix_name posix_{"creator"};
    unique_directory disk_{"creator"};
};

TEST_P(CreatorDeath, AtAnySystemCallLeavesNothingOrAWholeSegment) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    const step_report report = kill_at_every_system_call([&] { clear(); }, [&] { create_in_child(); },
                                                         [&] {
                                                             bool there = false;
                                                             return nothing_or_whole(uri(), there);
                                                         },
                                                         [&] { return after_death(); });
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.steps, 10U);
    RecordProperty("kills", std::to_string(report.steps));
    std::printf("%s: %llu stops at system calls, each a kill\n", GetParam().name,
                static_cast<unsigned long long>(report.steps));
}

TEST_P(CreatorDeath, AtRandomInstantsLeavesNothingOrAWholeSegment) {
    const kill_plan plan{.rounds = scaled(400), .delay_ns_max = 700'000, .seed = choose_seed()};
    SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(plan.seed));
    std::uint64_t whole = 0;
    const kill_report report = run_kill_rounds(
        plan,
        [&](kill_progress& progress, std::uint64_t) {
            if (!GetParam().unnamed && !refuse_unnamed_files()) ::_exit(2);
            progress.ready();
            progress.begin();
            const segment made = create_pattern(uri(), 1);
            progress.end();
            for (;;) ::pause();
        },
        [&](const kill_progress& progress, std::uint64_t) -> std::string {
            bool there = false;
            if (std::string fault = nothing_or_whole(uri(), there); !fault.empty()) return fault;
            whole += there ? 1 : 0;
            if (progress.completed() == 1 && !there) return "create() had returned and yet there is no segment";
            std::string fault = after_death();
            clear();
            return fault;
        });
    EXPECT_EQ(report.failure, "");
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s: %s; %llu left a whole segment\n", GetParam().name, report.text().c_str(),
                static_cast<unsigned long long>(whole));
}

INSTANTIATE_TEST_SUITE_P(Places, CreatorDeath,
                         ::testing::Values(making{"posix", false, true}, making{"posix_fallback", false, false},
                                           making{"file", true, true}, making{"file_fallback", true, false}),
                         [](const auto& made) { return std::string(made.param.name); });

// A System V segment has its key before its content, so a dead maker leaves an unpublished one, which says not_ready
// and which the next creator clears away.
class SystemVCreatorDeath : public segment_test {
 protected:
    [[nodiscard]] std::string after_death() const {
        bool there = false;
        if (std::string fault = nothing_or_whole(name_.uri(), there); !fault.empty()) return fault;
        if (there)
            return segment::attach(name_.uri(), access::read_write).writable() ? "" : "the next writer cannot write";
        return pattern_fault(create_pattern(name_.uri(), 2));
    }
    void clear() const {
        if (const int id = ::shmget(name_.key(), 0, 0); id >= 0) ::shmctl(id, IPC_RMID, nullptr);
        ::unlink(holdfast::detail::places_of(memory::uri::parse(name_.uri())).lease().c_str());
    }
    unique_system_v_name name_;
};

TEST_F(SystemVCreatorDeath, AtAnySystemCallLeavesWhatTheNextCreatorCanTake) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    const step_report report =
        kill_at_every_system_call([&] { clear(); }, [&] { (void)create_pattern(name_.uri(), 1); },
                                  [&] {
                                      bool there = false;
                                      return nothing_or_whole(name_.uri(), there);
                                  },
                                  [&] { return after_death(); });
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.steps, 10U);
    RecordProperty("kills", std::to_string(report.steps));
}

// One creator is stopped at each of its system calls until it has the lease; there another one dies with the segment
// made and not published; then the first goes on.
TEST_F(SystemVCreatorDeath, BesideAnotherCreatorLeavesWhatTheNextCanTake) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    for (std::uint64_t target = 1;; ++target) {
        clear();
        shared_image control(4096);
        rig::traced_child creator(control, [&] { (void)create_pattern(name_.uri(), 1); });
        for (std::uint64_t stop = 0; stop < target; ++stop)
            ASSERT_TRUE(creator.resume(PTRACE_SYSCALL)) << "its lease kept nobody out";
        const ended end = in_child([&] {
            return expect_refusal(errc::writer_alive, [&] {
                (void)segment::create(name_.uri(), pattern_spec(2), {},
                                      [](std::span<std::byte>) { ::kill(::getpid(), SIGKILL); });
            });
        });
        while (creator.resume(PTRACE_CONT)) continue;
        ASSERT_EQ(after_death(), "") << "stop " << target << ", the other: " << end.text();
        if (end.success()) return;
    }
}

TEST_F(SystemVCreatorDeath, AtRandomInstantsLeavesWhatTheNextCreatorCanTake) {
    const kill_plan plan{.rounds = scaled(400), .delay_ns_max = 500'000, .seed = choose_seed()};
    SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(plan.seed));
    const kill_report report = run_kill_rounds(
        plan,
        [&](kill_progress& progress, std::uint64_t) {
            progress.ready();
            progress.begin();
            const segment made = create_pattern(name_.uri(), 1);
            progress.end();
            for (;;) ::pause();
        },
        [&](const kill_progress&, std::uint64_t) {
            std::string fault = after_death();
            clear();
            return fault;
        });
    EXPECT_EQ(report.failure, "");
    RecordProperty("kills", std::to_string(report.kills));
}

class SegmentCrash : public segment_test {
 protected:
    unique_posix_name name_{"crash"};
};

// Every instruction of create(): whenever the name exists, what it names is whole and never changes again.
TEST_F(SegmentCrash, SteppedThroughCreationTheNameAppearsWithTheWholeSegment) {
    if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    const std::string path = name_.path(), uri = name_.uri();
    bool appeared = false;
    struct stat status{};
    const step_report report =
        step_through([&] { (void)create_pattern(uri, 3, {}, 4096); },
                     [&](std::uint64_t) -> std::string {
                         if (appeared || ::stat(path.c_str(), &status) != 0) return {};
                         appeared = true;
                         bool there = false;
                         std::string fault = nothing_or_whole(uri, there);
                         return there ? fault : "the name is there and cannot be attached " + fault;
                     });
    EXPECT_EQ(report.failure, "");
    EXPECT_TRUE(appeared);
    RecordProperty("steps", std::to_string(report.steps));
    std::printf("%llu instructions of create(), %.2f s\n", static_cast<unsigned long long>(report.steps),
                report.seconds);
}

TEST_F(SegmentCrash, AWriterKilledIsSucceededAsSoonAsItIsTornDown) {
    (void)create_pattern(name_.uri(), 1);
    std::vector<double> admitted_ms;
    const std::uint64_t rounds = scaled(200);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        child_process holder([&](channel& parent) {
            const segment held = segment::attach(name_.uri(), access::read_write);
            parent.signal();
            parent.wait();
        });
        ASSERT_TRUE(holder.talk().wait()) << holder.wait().text();
        EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write); }), errc::writer_alive);
        holder.send_signal(SIGKILL);
        const auto killed = std::chrono::steady_clock::now();
        std::optional<segment> next;  // admitted before the zombie is reaped: nobody waits for it here
        while (!next && std::chrono::steady_clock::now() - killed < std::chrono::seconds(5)) {
            const auto refused = refusal_of([&] { next = segment::attach(name_.uri(), access::read_write); });
            if (refused) {
                ASSERT_EQ(refused->code, errc::writer_alive) << refused->text;
            }
        }
        ASSERT_TRUE(next.has_value()) << "still refused after 5 s";
        admitted_ms.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - killed).count());
        holder.wait();
    }
    std::sort(admitted_ms.begin(), admitted_ms.end());
    const double median = admitted_ms[admitted_ms.size() / 2];
    RecordProperty("kills", std::to_string(rounds));
    RecordProperty("median_admission_ms", std::to_string(median));
    std::printf("%llu kills, next writer admitted after %.3f ms (median), %.3f ms (worst)\n",
                static_cast<unsigned long long>(rounds), median, admitted_ms.back());
}

TEST_F(SegmentCrash, AWriterKilledAtRandomInstantsOfAttachingLeavesTheSegmentWhole) {
    (void)create_pattern(name_.uri(), 1);
    std::uint64_t epoch = segment::attach(name_.uri(), access::read_only).epoch();
    const kill_plan plan{.rounds = scaled(600), .delay_ns_max = 200'000, .seed = choose_seed()};
    SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(plan.seed));
    const kill_report report = run_kill_rounds(
        plan,
        [&](kill_progress& progress, std::uint64_t) {
            progress.ready();
            for (;;) {
                progress.begin();
                const segment writer = segment::attach(name_.uri(), access::read_write);
                progress.end();
            }
        },
        [&](const kill_progress& progress, std::uint64_t) -> std::string {
            const segment next = segment::attach(name_.uri(), access::read_write);
            const std::uint64_t takings = next.epoch() - epoch;
            epoch = next.epoch();
            // One for each attach that returned and for this one; the one under way may or may not have counted.
            if (takings < progress.completed() + 1 || takings > progress.started() + 1)
                return "epoch advanced by " + std::to_string(takings) + " for " + std::to_string(progress.completed()) +
                       " leases and one more";
            return pattern_fault(next);
        });
    EXPECT_EQ(report.failure, "");
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s\n", report.text().c_str());
}

TEST_F(SegmentCrash, AWriterThatIsOnlyStoppedKeepsItsLease) {
    (void)create_pattern(name_.uri(), 1);
    child_process holder([&](channel& parent) {
        const segment held = segment::attach(name_.uri(), access::read_write);
        parent.signal();
        parent.wait();
    });
    ASSERT_TRUE(holder.talk().wait());
    holder.send_signal(SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(holder.pid(), &status, WUNTRACED), holder.pid());
    EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write); }), errc::writer_alive);
    EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_only); }), std::nullopt);
    holder.kill();
    EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write); }), std::nullopt);
}

TEST_F(SegmentCrash, ReadersKilledChangeNothing) {
    const segment writer = create_pattern(name_.uri(), 1);
    const auto content = [&] {
        const int fd = ::open(name_.path().c_str(), O_RDONLY | O_CLOEXEC);
        std::string bytes(header_bytes + pattern_bytes + 1, '\0');
        const ssize_t got = ::read(fd, bytes.data(), bytes.size());
        ::close(fd);
        bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
        return bytes;
    };
    const std::string before = content();
    ASSERT_EQ(before.size(), header_bytes + pattern_bytes);
    const std::vector<std::string> entries = name_.entries();
    const kill_plan plan{.rounds = scaled(300), .delay_ns_max = 500'000, .seed = choose_seed()};
    const kill_report report = run_kill_rounds(
        plan,
        [&](kill_progress& progress, std::uint64_t) {
            progress.ready();
            for (;;) {
                progress.begin();
                const segment reader = segment::attach(name_.uri(), access::read_only);
                progress.end();
            }
        },
        [&](const kill_progress&, std::uint64_t) -> std::string {
            if (content() != before) return "a dead reader changed the segment's bytes";
            if (name_.entries() != entries) return "a dead reader left or removed a file";
            return writer.writable() ? "" : "the writer lost its mapping";
        });
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.operations, 0U);
    RecordProperty("kills", std::to_string(report.kills));
}

}  // namespace
