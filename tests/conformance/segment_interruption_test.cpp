// SPDX-License-Identifier: Apache-2.0
// Signals and failing system calls in the middle of create, attach and remove: a signal changes nothing, a failing call
// is an error of ours, and what remains is no segment or a whole one.
#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "support/capability.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/system_call_faults.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

std::atomic<std::uint64_t> signals_taken{0};

// A timer whose handler interrupts system calls instead of restarting them.
class signal_storm {
 public:
    explicit signal_storm(long period_us) {
        struct sigaction action{};
        action.sa_handler = [](int) {
            signals_taken.fetch_add(1, std::memory_order_relaxed);
        };  // a count, ordering nothing
        ::sigaction(SIGALRM, &action, nullptr);
        const itimerval timer{.it_interval = {0, period_us}, .it_value = {0, period_us}};
        ::setitimer(ITIMER_REAL, &timer, nullptr);
    }
    signal_storm(const signal_storm&) = delete;
    signal_storm& operator=(const signal_storm&) = delete;
    ~signal_storm() {
        const itimerval off{};
        ::setitimer(ITIMER_REAL, &off, nullptr);
    }
};

class SegmentInterruption : public segment_test {
 protected:
    unique_directory disk_{"storm"};
    unique_posix_name posix_{"storm"};
    unique_system_v_name system_v_;
};

TEST_F(SegmentInterruption, AStormOfSignalsChangesNothing) {
    for (const std::string& uri : {posix_.uri(), disk_.file_uri("s"), system_v_.uri()}) {
        const ended end = in_child([&]() -> std::string {
            const signal_storm storm(100);
            for (std::uint64_t round = 0; round < scaled(200); ++round) {
                {
                    const segment made = create_pattern(uri, round);
                    if (std::string fault = pattern_fault(made); !fault.empty()) return fault;
                    if (std::string fault = pattern_fault(segment::attach(uri, access::read_only)); !fault.empty())
                        return fault;
                }
                if (!segment::attach(uri, access::read_write).writable()) return "not writable";
                segment::remove(uri);
            }
            return signals_taken.load(std::memory_order_relaxed) > 0 ? "" : "no signal came";
        });
        EXPECT_TRUE(end.success()) << uri << ": " << end.text();
    }
}

// Reserving takes long on tmpfs and starts over when interrupted; it must end all the same.
TEST_F(SegmentInterruption, AStormOfSignalsDoesNotKeepALargeReservationFromEnding) {
    const ended end = in_child([&]() -> std::string {
        const signal_storm storm(200);
        const segment made = create_pattern(posix_.uri(), 1, {}, std::size_t{96} << 20);
        return made.writable() ? "" : "not writable";
    });
    EXPECT_TRUE(end.success()) << end.text();
}

// What a child that runs an operation returns: 0 = it succeeded, 1 = an error of the library, 2 = out of memory.
template <class Operation>
int outcome_of(Operation&& operation) {
    try {
        operation();
    } catch (const error&) {
        return 1;
    } catch (const std::bad_alloc&) {
        return 2;
    }
    return 0;
}

// Calls whose failure no program survives or that cannot fail: ending, unmapping, closing, signal masks.
// A sanitizer's allocator gives up the process when it gets no memory, so there its calls are left alone.
bool may_fail(long number) {
    if (sanitized && (number == SYS_mmap || number == SYS_madvise)) return false;
    switch (number) {
        case SYS_exit_group:
        case SYS_munmap:
        case SYS_close:
        case SYS_rt_sigprocmask:
        case SYS_brk: return false;
        default: return true;
    }
}

class FailingCall : public SegmentInterruption, public ::testing::WithParamInterface<int> {
 protected:
    // Fails each system call of `operation` once. `after` looks at what is left and returns a failure text.
    template <class Prepare, class Operation, class After>
    void fail_each(const char* what, Prepare&& prepare, Operation&& operation, After&& after) {
        if (!can_trace() || !can_fail_system_calls) GTEST_SKIP() << "needs: ptrace on x86-64";
        std::uint64_t refused = 0;
        const step_report report = fail_each_system_call(
            GetParam(), prepare, [&] { return outcome_of(operation); }, may_fail,
            [&](const faulted_run& run) -> std::string {
                if (!run.uncaught.empty()) return run.uncaught;
                refused += run.result != 0 ? 1 : 0;
                if (run.number < 0 && run.result != 0) return "fails without a fault";
                return after(run.result == 0);
            });
        EXPECT_EQ(report.failure, "") << what;
        EXPECT_GT(report.steps, 10U) << what;
        std::printf("%s, errno %d: %llu calls failed once each, %llu times the operation failed\n", what, GetParam(),
                    static_cast<unsigned long long>(report.steps), static_cast<unsigned long long>(refused));
    }
    void clear() const {
        for (const std::string& entry : disk_.entries()) ::unlink(disk_.file(entry).c_str());
    }
    std::string uri_ = disk_.file_uri("s");
};

TEST_P(FailingCall, InCreationLeavesNothingOrAWholeSegment) {
    fail_each(
        "create", [&] { clear(); }, [&] { (void)create_pattern(uri_, 1, {}, 4096); },
        [&](bool succeeded) -> std::string {
            bool there = false;
            if (std::string fault = nothing_or_whole(uri_, there); !fault.empty()) return fault;
            if (succeeded && !there) return "create() succeeded and there is no segment";
            for (const std::string& entry : disk_.entries())
                if (entry.ends_with(".making") || (!there && entry == "s")) return "left behind: " + entry;
            if (there)
                return segment::attach(uri_, access::read_write).writable() ? "" : "the next writer cannot write";
            return pattern_fault(create_pattern(uri_, 2, {}, 4096));
        });
}

TEST_P(FailingCall, InAttachingForWritingLeavesTheSegmentWhole) {
    fail_each(
        "attach",
        [&] {
            clear();
            (void)create_pattern(uri_, 1, {}, 4096);
        },
        [&] { (void)segment::attach(uri_, access::read_write); },
        [&](bool) { return pattern_fault(segment::attach(uri_, access::read_write)); });
}

TEST_P(FailingCall, InRemovingLeavesNothingOrAWholeSegment) {
    fail_each(
        "remove",
        [&] {
            clear();
            (void)create_pattern(uri_, 1, {}, 4096);
        },
        [&] { segment::remove(uri_); },
        [&](bool succeeded) -> std::string {
            bool there = false;
            std::string fault = nothing_or_whole(uri_, there);
            if (succeeded && there) return "remove() succeeded and the segment is there";
            if (there) segment::remove(uri_);
            return fault;
        });
}

// An interrupted call is repeated, so nothing at all may fail.
TEST_F(SegmentInterruption, EachCallInterruptedOnceIsRepeated) {
    if (!can_trace() || !can_fail_system_calls) GTEST_SKIP() << "needs: ptrace on x86-64";
    const std::string uri = disk_.file_uri("s");
    const auto interruptible = [](long number) {
        return number == SYS_openat || number == SYS_fallocate || number == SYS_fcntl || number == SYS_pread64;
    };
    const step_report report = fail_each_system_call(
        EINTR,
        [&] {
            for (const std::string& entry : disk_.entries()) ::unlink(disk_.file(entry).c_str());
        },
        [&] {
            return outcome_of([&] {
                {
                    (void)create_pattern(uri, 1, {}, 4096);
                }
                (void)segment::attach(uri, access::read_write);
                segment::remove(uri);
            });
        },
        interruptible,
        [&](const faulted_run& run) -> std::string {
            if (!run.uncaught.empty()) return run.uncaught;
            return run.result == 0 ? "" : "an interruption was taken for a failure";
        });
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.steps, 10U);
}

INSTANTIATE_TEST_SUITE_P(Errno, FailingCall, ::testing::Values(EIO, ENOMEM, EMFILE, ENOSPC, EACCES),
                         [](const auto& value) { return "errno_" + std::to_string(value.param); });

}  // namespace
