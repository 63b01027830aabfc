// SPDX-License-Identifier: Apache-2.0
// Each system call of creating a container of each kind, and of attaching its writers, fails, once or from there on for
// good, in files, which is what posix: segments are, too, and in System V memory. Attacked: what is left is no segment
// or a sound one, nothing stays open, and the next creator and the next writers get what they want. What close()
// answers is asked by nobody, on purpose: it makes no difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "golden/subjects.hpp"
#include "inspect/verification.hpp"
#include "support/capability.hpp"
#include "support/memory_kinds.hpp"
#include "support/segment_tools.hpp"
#include "support/system_call_faults.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

// The clock is asked by a call here, since tests set it; else it is none, and cannot fail.
bool may_fail_here(long number) { return may_fail(number) && number != SYS_clock_gettime; }

struct fault {
    int error;
    fault_span span;
};

struct subject_in_memory {
    golden_subject subject;
    std::string kind;
    friend std::ostream& operator<<(std::ostream& out, const subject_in_memory& s) {
        return out << s.subject.name << " in " << s.kind << " memory";
    }
};
std::vector<subject_in_memory> in_each_kind() {
    std::vector<subject_in_memory> all;
    for (const golden_subject& subject : golden_subjects)
        for (const char* const kind : {"file", "sysv"}) all.push_back({subject, kind});
    return all;
}

class SubjectFaults : public ::testing::Test, public ::testing::WithParamInterface<subject_in_memory> {
 protected:
    void SetUp() override {
        if (!can_trace() || !can_fail_system_calls) GTEST_SKIP() << "needs: ptrace on x86-64";
    }
    [[nodiscard]] static const golden_subject& subject() { return GetParam().subject; }
    void make() {
        then_.emplace(golden_moment_ns, golden_seed);
        subject().make(uri_);
    }
    void clear() {
        place_.clear();
        then_.emplace(golden_moment_ns, golden_seed);
    }
    // Fails each call of `operation` and asks `left`, with whether it succeeded and how the calls fail, what is wrong
    // with what it leaves.
    template <class Prepare, class Operation, class Left>
    void fail_each(const char* what, Prepare&& prepare, Operation&& operation, Left&& left) {
        for (const fault& how : {fault{EIO, fault_span::once}, fault{ENOMEM, fault_span::for_good}}) {
            if (sanitized && how.span == fault_span::for_good) continue;  // its own calls would fail, too
            std::uint64_t refused = 0;
            const step_report report = fail_each_system_call(
                how.error, how.span, prepare, [&] { return outcome_of(operation, uri_); }, may_fail_here,
                [&](const faulted_run& run) -> std::string {
                    if (!run.uncaught.empty()) return run.uncaught;
                    if (run.result == 3) return "the error does not say of what";
                    if (!run.left_open.empty()) return "left open: " + run.left_open;
                    if (run.number < 0 && run.result != 0) return "fails without a fault";
                    refused += run.result != 0 ? 1 : 0;
                    try {
                        return left(run.result == 0, how.span);
                    } catch (const std::exception& e) {
                        return std::string("behind it: ") + e.what();
                    }
                });
            EXPECT_EQ(report.failure, "") << what;
            EXPECT_GT(refused, 2U) << what << ": hardly any failure was noticed";
            std::printf("%s of %s in %s memory, errno %d, %s: %llu calls failed, %llu times it did\n", what,
                        subject().name, GetParam().kind.c_str(), how.error, name_of(how.span),
                        static_cast<unsigned long long>(report.steps), static_cast<unsigned long long>(refused));
        }
    }
    [[nodiscard]] std::string damage() const {
        const inspect::verification found = inspect::verify(uri_);
        return found.intact() ? "" : "damage: " + found.findings.front().what;
    }

    memory_place place_{GetParam().kind};
    std::string uri_ = place_.uri();
    std::optional<still_world> then_;
};

TEST_P(SubjectFaults, InCreationLeaveNothingOrASoundSegment) {
    make();
    const std::string sound = subject().describe(uri_);
    const holdfast::detail::places where = holdfast::detail::places_of(memory::uri::parse(uri_));
    const bool by_key = memory::uri::parse(uri_).is_sysv();
    std::uint64_t never_ready = 0;
    fail_each(
        "creation", [&] { clear(); }, [&] { subject().make(uri_); },
        [&](bool succeeded, fault_span span) -> std::string {
            const auto refused = refusal_of([&] { (void)segment::attach(uri_, access::read_only); });
            for (const std::string& entry : place_.entries())
                if (entry.ends_with(".making") || (refused && entry == where.data_name)) return "left behind: " + entry;
            if (succeeded) return subject().describe(uri_) == sound ? "" : "it holds something else";
            if (!refused) return damage();
            // A key leads to memory that is not ready: who can do nothing any more leaves it to the next creator.
            const bool not_ready = by_key && span == fault_span::for_good && refused->code == errc::not_ready;
            never_ready += not_ready ? 1 : 0;
            if (!not_ready && refused->code != errc::not_found) return "attaching: " + refused->text;
            if (by_key && span == fault_span::once && !place_.entries().empty()) return "a companion is left behind";
            then_.emplace(golden_moment_ns, golden_seed);
            subject().make(uri_);
            return subject().describe(uri_) == sound ? "" : "the next one holds something else";
        });
    if (by_key && !sanitized) {
        EXPECT_GT(never_ready, 0U) << "nobody failed to clean up";
    }
}

TEST_P(SubjectFaults, InAttachingWritersLeaveTheSegmentSoundAndTheNextOnesWork) {
    fail_each(
        "attaching the writers", [&] { clear(), make(); }, [&] { subject().go_on(uri_); },
        [&](bool succeeded, fault_span) -> std::string {
            if (std::string wrong = damage(); !wrong.empty()) return wrong;
            if (!succeeded) subject().go_on(uri_);
            return damage();
        });
}

// close() alone: it is carried out, as Linux does whatever it answers (close(2)), and answers an error all the same.
// There is nothing to be done then: the descriptor is gone, and the bytes lie in memory that is still mapped, or go to
// the disk by the kernel's leave; who wants them there syncs before. So it must all be as if it had succeeded.
#if defined(__x86_64__)
struct closing {
    std::uint64_t failed = 0;
    std::string wrong;
};
template <class Operation>
closing fail_close_from(std::uint64_t ordinal, const fault& how, Operation&& operation) {
    shared_image control(4096);
    rig::traced_child child(control, operation);
    const std::multiset<std::string> before = rig::files_held_by(child.pid());
    user_regs_struct registers{};
    closing done;
    for (std::uint64_t seen = 0; rig::next_system_call(child, registers);) {
        const bool close = static_cast<long>(registers.orig_rax) == SYS_close;
        if (!child.resume(PTRACE_SYSCALL)) break;
        if (!close || ++seen < ordinal || (seen > ordinal && how.span == fault_span::once)) continue;
        if (::ptrace(PTRACE_GETREGS, child.pid(), nullptr, &registers) != 0) break;
        registers.rax = static_cast<unsigned long long>(-static_cast<long long>(how.error));
        if (::ptrace(PTRACE_SETREGS, child.pid(), nullptr, &registers) == 0) ++done.failed;
    }
    const std::string open = child.alive() ? rig::more_than(before, rig::files_held_by(child.pid())) : std::string();
    while (child.alive() && child.resume(PTRACE_CONT)) continue;
    done.wrong = rig::ending_text(child, 0);
    if (done.wrong.empty() && child.result() != 0) done.wrong = "an error came of it";
    if (done.wrong.empty() && !open.empty()) done.wrong = "left open: " + open;
    return done;
}

TEST_P(SubjectFaults, OfCloseMakeNoDifference) {
    make();
    const std::string sound = subject().describe(uri_);
    std::uint64_t of_creation = 0, of_writers = 0;
    for (const fault& how :
         {fault{EIO, fault_span::once}, fault{EINTR, fault_span::once}, fault{EIO, fault_span::for_good}}) {
        SCOPED_TRACE("errno " + std::to_string(how.error) + ", " + name_of(how.span));
        for (std::uint64_t n = 1;; ++n) {
            clear();
            const closing made =
                fail_close_from(n, how, [&] { return outcome_of([&] { subject().make(uri_); }, uri_); });
            ASSERT_EQ(made.wrong, "") << "creation, the " << n << ". close";
            ASSERT_EQ(subject().describe(uri_), sound) << "creation, the " << n << ". close";
            if (made.failed == 0) break;
            of_creation += made.failed;
        }
        for (std::uint64_t n = 1;; ++n) {
            clear(), make();
            const closing went =
                fail_close_from(n, how, [&] { return outcome_of([&] { subject().go_on(uri_); }, uri_); });
            ASSERT_EQ(went.wrong, "") << "attaching the writers, the " << n << ". close";
            ASSERT_EQ(damage(), "") << "attaching the writers, the " << n << ". close";
            if (went.failed == 0) break;
            of_writers += went.failed;
            (void)segment::attach(uri_, access::read_write);  // nobody has kept the lease
        }
    }
    EXPECT_GT(of_creation, 2U);
    EXPECT_GT(of_writers, 2U);
    std::printf("%s in %s memory: close failed %llu times in creation, %llu in attaching the writers\n", subject().name,
                GetParam().kind.c_str(), static_cast<unsigned long long>(of_creation),
                static_cast<unsigned long long>(of_writers));
}
#endif

INSTANTIATE_TEST_SUITE_P(Kinds, SubjectFaults, ::testing::ValuesIn(in_each_kind()),
                         [](const auto& of) { return std::string(of.param.subject.name) + "_in_" + of.param.kind; });

}  // namespace
