// SPDX-License-Identifier: Apache-2.0
// system_call_faults.hpp - makes system calls fail that never fail on a healthy machine.
//
//   fail_each_system_call   runs an operation once per system call it makes; in run n the n-th call is not executed and
//                           answers an errno of our choice (by ptrace, on the binary as it is), it alone or, for good,
//                           all that come after it, too
//   fail_each_call_of_program   the same for a child that becomes another program
//   kill_program_at_each_call   kills such a program in front of each of its calls in turn
//   refuse_unnamed_files    makes O_TMPFILE unsupported in the calling process, as on a file system that lacks it
//                           (by seccomp; works without privileges and cannot be undone: call it in a child)
//   refuse_io_uring         forbids it in the calling process, as containers do (by seccomp, likewise)
#pragma once

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <new>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/error.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"
#include "support/unique_name.hpp"

namespace holdfast::test {

/// How an operation went whose `ordinal`-th system call, of number `number`, failed on purpose.
struct faulted_run {
    std::uint64_t ordinal = 0;
    long number = 0;
    int result = 0;         // what the operation returned
    std::string uncaught;   // or the exception or signal that ended it
    std::string left_open;  // what the process has open or mapped of files behind the operation and had not before
};

/// Whether one call fails, or all that come after it too.
enum class fault_span : std::uint8_t { once, for_good };
[[nodiscard]] constexpr const char* name_of(fault_span span) noexcept {
    return span == fault_span::once ? "once" : "for_good";
}

/// What a child that runs an operation returns: 0 = it succeeded, 1 = an error of the library that names `subject`, 2 =
/// out of memory, 3 = an error that does not.
template <class Operation>
[[nodiscard]] int outcome_of(Operation&& operation, const std::string& subject) {
    try {
        operation();
    } catch (const error& e) {
        return std::string_view(e.what()).find(subject) != std::string_view::npos ? 1 : 3;
    } catch (const std::bad_alloc&) {
        return 2;
    }
    return 0;
}

/// Not calls whose failure no program survives or that cannot fail: ending, unmapping, closing, waking, signal masks.
/// A sanitizer's allocator gives up the process when it gets no memory, so there its calls are left alone.
[[nodiscard]] inline bool may_fail(long number) {
    if (sanitized && (number == SYS_mmap || number == SYS_madvise)) return false;
    switch (number) {
        case SYS_exit_group:
        case SYS_munmap:
        case SYS_shmdt:
        case SYS_close:
        case SYS_futex:
        case SYS_rt_sigprocmask:
        case SYS_brk: return false;
        default: return true;
    }
}

/// Of an operation or program that makes so many calls after the first that failed, and is at it for so long, it is
/// said that it never ends. Patience is a time, and with sleeps that fail a second of it is 100,000 calls and more.
class endlessness {
 public:
    void begin() noexcept { since_ = std::chrono::steady_clock::now(); }
    [[nodiscard]] bool shown_by(std::uint64_t calls) const noexcept {
        return calls >= calls_max && std::chrono::steady_clock::now() - since_ > time_max;
    }

 private:
    static constexpr std::uint64_t calls_max = 100'000;
    static constexpr std::chrono::seconds time_max{5};
    std::chrono::steady_clock::time_point since_{};
};

#if defined(__x86_64__)
inline constexpr bool can_fail_system_calls = true;

namespace rig {

// Steps to the entry of the next system call inside the operation. Returns: false when there is none left.
inline bool next_system_call(traced_child& child, user_regs_struct& registers) {
    if (child.phase() > step_phase::inside || !child.resume(PTRACE_SYSCALL)) return false;
    return ::ptrace(PTRACE_GETREGS, child.pid(), nullptr, &registers) == 0 && child.phase() == step_phase::inside;
}

// At the entry of a call: skips it and lets it answer -error.
inline bool skip_with_error(traced_child& child, user_regs_struct registers, int error) {
    registers.orig_rax = ~0ULL;  // no such call: the kernel does nothing
    if (::ptrace(PTRACE_SETREGS, child.pid(), nullptr, &registers) != 0 || !child.resume(PTRACE_SYSCALL)) return false;
    if (::ptrace(PTRACE_GETREGS, child.pid(), nullptr, &registers) != 0) return false;
    registers.rax = static_cast<unsigned long long>(-static_cast<long long>(error));
    return ::ptrace(PTRACE_SETREGS, child.pid(), nullptr, &registers) == 0;
}

// What a stopped process holds of files: its descriptors, and its mappings of anything that has an inode.
inline std::multiset<std::string> files_held_by(pid_t pid) {
    std::multiset<std::string> held;
    const std::string folder = "/proc/" + std::to_string(pid);
    for (const std::string& number : entries_containing(folder + "/fd", "")) {
        char target[4096];
        const ssize_t got = ::readlink((folder + "/fd/" + number).c_str(), target, sizeof target);
        if (got > 0) held.insert("descriptor of " + std::string(target, static_cast<std::size_t>(got)));
    }
    std::ifstream maps(folder + "/maps");
    for (std::string line; std::getline(maps, line);) {
        std::istringstream words(line);
        std::string range, rights, offset, device, inode, path;
        words >> range >> rights >> offset >> device >> inode;
        std::getline(words >> std::ws, path);
        if (inode != "0") held.insert("mapping " + rights + " of " + path + " at " + offset);
    }
    return held;
}
inline std::string more_than(const std::multiset<std::string>& before, const std::multiset<std::string>& after) {
    std::string more;
    for (const std::string& one : after)
        if (after.count(one) > before.count(one)) more += one + "; ";
    return more;
}

}  // namespace rig

/// For n = 1, 2, ... runs prepare() here and operate() in a child whose n-th system call that eligible(number) admits
/// (and, for good, each such call behind it) answers -error without being executed, then asks judge(faulted_run) for a
/// failure text (empty: all is well). Ends with the first run that has no n-th such call.
template <class Prepare, class Operate, class Eligible, class Judge>
[[nodiscard]] step_report fail_each_system_call(int error, fault_span span, Prepare&& prepare, Operate&& operate,
                                                Eligible&& eligible, Judge&& judge) {
    step_report report;
    for (bool reached = true; reached && report.failure.empty();) {
        prepare();
        shared_image control(4096);
        rig::traced_child child(control, operate);
        const std::multiset<std::string> before = rig::files_held_by(child.pid());
        user_regs_struct registers{};
        faulted_run run{.ordinal = report.steps + 1, .number = -1, .result = 0, .uncaught = {}, .left_open = {}};
        std::uint64_t seen = 0, after = 0;
        reached = false;
        endlessness endless;
        while (!endless.shown_by(after) && rig::next_system_call(child, registers)) {
            const auto number = static_cast<long>(registers.orig_rax);
            const bool counts = eligible(number);
            const bool first = !reached && counts && ++seen == run.ordinal;
            if (first) run.number = number, endless.begin();
            if (reached) ++after;
            const bool fails = first || (reached && span == fault_span::for_good && counts);
            reached = reached || first;
            if (fails ? !rig::skip_with_error(child, registers, error) : !child.resume(PTRACE_SYSCALL)) break;
        }
        if (endless.shown_by(after)) {
            run.uncaught = "it goes on for ever";
            child.kill();
        } else {
            // Stopped at the call that ends it, behind the operation and all that it stood on.
            if (child.alive()) run.left_open = rig::more_than(before, rig::files_held_by(child.pid()));
            while (child.alive() && child.resume(PTRACE_CONT)) {
            }
            run.uncaught = rig::ending_text(child, 0);
        }
        run.result = child.result();
        if (reached) ++report.steps;
        report.failure = judge(static_cast<const faulted_run&>(run));
        if (!report.failure.empty())
            report.failure = "system call " + std::to_string(run.number) + ", the " + std::to_string(run.ordinal) +
                             ". of the operation, failed with errno " + std::to_string(error) +
                             (span == fault_span::once ? " once: " : " and all behind it: ") + report.failure;
    }
    return report;
}

/// A call at its entry.
struct system_call {
    long number = -1;
    unsigned long long first_argument = 0;
};

namespace rig {

// A traced program at its system calls, from the entry of its execve on.
class traced_program {
 public:
    template <class Become>
    explicit traced_program(Become&& become) {
        pid_ = ::fork();
        if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
        if (pid_ == 0) {
            if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
            ::raise(SIGSTOP);
            become();
            ::_exit(127);
        }
        wait();
        constexpr long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC;
        if (!WIFSTOPPED(status_) || ::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, options) != 0)
            throw std::system_error(EPERM, std::generic_category(), "ptrace");
        while (alive_ && status_ >> 8 != (SIGTRAP | (PTRACE_EVENT_EXEC << 8))) resume();
        if (alive_) (void)to_call();  // the way out of execve
    }
    traced_program(const traced_program&) = delete;
    traced_program& operator=(const traced_program&) = delete;
    ~traced_program() {
        if (!alive_) return;
        ::kill(pid_, SIGKILL);
        wait();
    }
    /// On to the next entry or exit of a call. Returns: false when the program ended instead.
    [[nodiscard]] bool to_call() {
        do resume();
        while (alive_ && WSTOPSIG(status_) != (SIGTRAP | 0x80));
        return alive_;
    }
    /// At the entry of a call.
    [[nodiscard]] system_call call() {
        user_regs_struct registers{};
        ::ptrace(PTRACE_GETREGS, pid_, nullptr, &registers);
        return {static_cast<long>(registers.orig_rax), registers.rdi};
    }
    /// From the entry of a call: not executed, to its exit with that answer.
    [[nodiscard]] bool fail(int error) {
        user_regs_struct registers{};
        ::ptrace(PTRACE_GETREGS, pid_, nullptr, &registers);
        registers.orig_rax = ~0ULL;  // no such call: the kernel does nothing
        ::ptrace(PTRACE_SETREGS, pid_, nullptr, &registers);
        if (!to_call()) return false;
        ::ptrace(PTRACE_GETREGS, pid_, nullptr, &registers);
        registers.rax = static_cast<unsigned long long>(-static_cast<long long>(error));
        return ::ptrace(PTRACE_SETREGS, pid_, nullptr, &registers) == 0;
    }
    [[nodiscard]] int status() const noexcept { return status_; }

 private:
    void resume() {
        const int stopped_by = WIFSTOPPED(status_) ? WSTOPSIG(status_) & 0x7F : 0;
        const bool ours = stopped_by == SIGTRAP || stopped_by == SIGSTOP;
        if (::ptrace(PTRACE_SYSCALL, pid_, nullptr, static_cast<long>(ours ? 0 : stopped_by)) != 0)
            alive_ = false;
        else
            wait();
    }
    void wait() {
        pid_t got;
        while ((got = ::waitpid(pid_, &status_, __WALL)) < 0 && errno == EINTR) {
        }
        if (got != pid_ || WIFEXITED(status_) || WIFSIGNALED(status_)) alive_ = false;
    }
    pid_t pid_ = -1;
    int status_ = 0;
    bool alive_ = true;
};

}  // namespace rig

/// As fail_each_system_call, for the program that become() turns a child into by execve. eligible(system_call) is asked
/// about each call, in order, from there on: those of the loader too, which survives few failures. judge() gets the
/// exit code as result.
template <class Prepare, class Become, class Eligible, class Judge>
[[nodiscard]] step_report fail_each_call_of_program(int error, fault_span span, Prepare&& prepare, Become&& become,
                                                    Eligible&& eligible, Judge&& judge) {
    step_report report;
    for (bool reached = true; reached && report.failure.empty();) {
        prepare();
        faulted_run run{.ordinal = report.steps + 1, .number = -1, .result = 0, .uncaught = {}, .left_open = {}};
        std::uint64_t seen = 0, after = 0;
        reached = false;
        {
            rig::traced_program program(become);
            endlessness endless;
            while (!endless.shown_by(after) && program.to_call()) {
                const system_call call = program.call();
                const bool counts = eligible(call);
                if (counts) ++seen;
                const bool first = !reached && counts && seen == run.ordinal;
                if (first) run.number = call.number, endless.begin();
                if (reached) ++after;
                const bool fails = first || (reached && span == fault_span::for_good && counts);
                reached = reached || first;
                if (fails ? !program.fail(error) : !program.to_call()) break;
            }
            if (endless.shown_by(after)) run.uncaught = "it goes on for ever";
            if (WIFEXITED(program.status())) run.result = WEXITSTATUS(program.status());
            if (WIFSIGNALED(program.status()))
                run.uncaught = "killed by signal " + std::to_string(WTERMSIG(program.status()));
        }
        if (reached) ++report.steps;
        report.failure = judge(static_cast<const faulted_run&>(run));
        if (!report.failure.empty())
            report.failure = "system call " + std::to_string(run.number) + ", the " + std::to_string(run.ordinal) +
                             ". of the program, failed with errno " + std::to_string(error) +
                             (span == fault_span::once ? " once: " : " and all behind it: ") + report.failure;
    }
    return report;
}

/// As fail_each_call_of_program, but the program is killed at the entry of its n-th call that eligible() admits.
/// judge() is given that call's ordinal and number, and, last, the run that came to its end.
template <class Prepare, class Become, class Eligible, class Judge>
[[nodiscard]] step_report kill_program_at_each_call(Prepare&& prepare, Become&& become, Eligible&& eligible,
                                                    Judge&& judge) {
    step_report report;
    for (bool reached = true; reached && report.failure.empty();) {
        prepare();
        faulted_run run{.ordinal = report.steps + 1, .number = -1, .result = 0, .uncaught = {}, .left_open = {}};
        std::uint64_t seen = 0;
        reached = false;
        {
            rig::traced_program program(become);
            while (!reached && program.to_call()) {
                const system_call call = program.call();
                if (eligible(call) && ++seen == run.ordinal) {
                    run.number = call.number;
                    reached = true;
                } else if (!program.to_call()) {
                    break;
                }
            }
            if (!reached && WIFEXITED(program.status())) run.result = WEXITSTATUS(program.status());
        }  // killed here
        if (reached) ++report.steps;
        report.failure = judge(static_cast<const faulted_run&>(run));
        if (!report.failure.empty())
            report.failure = "killed at system call " + std::to_string(run.number) + ", the " +
                             std::to_string(run.ordinal) + ". of the program: " + report.failure;
    }
    return report;
}
#else
inline constexpr bool can_fail_system_calls = false;
struct system_call {
    long number = -1;
    unsigned long long first_argument = 0;
};

template <class Prepare, class Become, class Eligible, class Judge>
[[nodiscard]] step_report fail_each_call_of_program(int, fault_span, Prepare&&, Become&&, Eligible&&, Judge&&) {
    return {.steps = 0, .images = 0, .seconds = 0, .failure = "needs: x86-64"};
}

template <class Prepare, class Become, class Eligible, class Judge>
[[nodiscard]] step_report kill_program_at_each_call(Prepare&&, Become&&, Eligible&&, Judge&&) {
    return {.steps = 0, .images = 0, .seconds = 0, .failure = "needs: x86-64"};
}

template <class Prepare, class Operate, class Eligible, class Judge>
[[nodiscard]] step_report fail_each_system_call(int, fault_span, Prepare&&, Operate&&, Eligible&&, Judge&&) {
    return {.steps = 0, .images = 0, .seconds = 0, .failure = "needs: x86-64"};
}
#endif

[[nodiscard]] inline bool filter_system_calls(std::span<sock_filter> rules) {
    const sock_fprog program{.len = static_cast<unsigned short>(rules.size()), .filter = rules.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// From here on open with O_TMPFILE answers EOPNOTSUPP in this process and its children. Returns: false where seccomp
/// is refused.
[[nodiscard]] inline bool refuse_unnamed_files() {
    constexpr std::uint32_t tmpfile_bit = O_TMPFILE & ~O_DIRECTORY;
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + 2 * sizeof(std::uint64_t)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, tmpfile_bit, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (EOPNOTSUPP & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return filter_system_calls(rules);
}

/// From here on io_uring_setup answers EPERM in this process and its children. Returns: false where seccomp is refused.
[[nodiscard]] inline bool refuse_io_uring() {
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (EPERM & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return filter_system_calls(rules);
}

}  // namespace holdfast::test
