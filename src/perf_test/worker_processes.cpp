// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <optional>

#include "holdfast/error.hpp"
#include "holdfast/memory/descriptor.hpp"
#include "perf_test/worker_crew.hpp"
#include "perf_test/worker_work.hpp"

namespace holdfast::perf_test {
namespace {

// Before a fork, so that nothing is printed by both; in the child, as _exit does not do it.
void flush_streams() {
    std::cout.flush();
    std::clog.flush();
    std::fflush(nullptr);
}

std::string signal_name(int signal) {
    const char* const name = ::sigabbrev_np(signal);
    return "signal " + std::to_string(signal) + (name == nullptr ? "" : " (SIG" + std::string(name) + ")");
}

std::size_t threads_of_this_process() {
    DIR* const tasks = ::opendir("/proc/self/task");
    if (tasks == nullptr) return 1;
    std::size_t count = 0;
    while (const dirent* entry = ::readdir(tasks))
        if (entry->d_name[0] != '.') ++count;
    ::closedir(tasks);
    return count;
}

struct child {
    pid_t pid = 0;
    memory::descriptor pidfd;
    bool reaped = false;
    std::optional<int> status;  // none: somebody else took it, or the caller ignores SIGCHLD
};

class process_crew final : public crew {
 public:
    process_crew(const group_options& options, body_runner& body, const worker_memory& memory)
        : options_(options), body_(body), memory_(memory), threads_at_fork_(threads_of_this_process()) {
        children_.reserve(options.workers);
    }
    ~process_crew() override {
        kill_all();
        for (child& each : children_) reap(each, 0);
    }

    void start(std::size_t worker) override {
        flush_streams();
        const pid_t caller = ::getpid();
        const pid_t pid = ::fork();
        if (pid == 0) live_as_child(worker, caller);
        if (pid < 0)
            memory::throw_errno(errno, options_.test, "fork of worker " + std::to_string(worker + 1),
                                "use fewer workers or raise the limit (ulimit -u)");
        child& born = children_.emplace_back();
        born.pid = pid;
        // Close-on-exec by itself. The number is ours until we reap it, so this is no race.
        born.pidfd = memory::descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
        if (!born.pidfd)
            memory::throw_errno(errno, options_.test, "pidfd_open",
                                "raise the limit on open files (ulimit -n); kernels before 5.3 lack it");
    }

    void wait_for_news(std::uint64_t until_ns) override {
        std::vector<int> alive;
        for (const child& each : children_)
            if (!each.reaped) alive.push_back(each.pidfd.get());
        poll_events(memory_, alive, until_ns);
        for (child& each : children_) reap(each, WNOHANG);
    }

    [[nodiscard]] bool ended(std::size_t worker) const override { return children_[worker].reaped; }

    [[nodiscard]] std::string name(std::size_t worker) const override {
        return "worker " + std::to_string(worker + 1) + " of " + std::to_string(options_.workers) + " (process " +
               std::to_string(children_[worker].pid) + ")";
    }

    [[nodiscard]] bool ended_well(std::size_t worker) const override {
        const std::optional<int> status = children_[worker].status;
        return !status || (WIFEXITED(*status) && WEXITSTATUS(*status) == 0);
    }

    [[nodiscard]] std::string end_of(std::size_t worker) const override {
        const std::optional<int> status = children_[worker].status;
        if (!status) return "ended unseen: somebody else waits for this process's children";
        if (WIFSIGNALED(*status)) return "was killed by " + signal_name(WTERMSIG(*status));
        return "exited with code " + std::to_string(WEXITSTATUS(*status)) + " before it was done";
    }

    std::string end_late(std::string message) override {
        message += ": killed";
        if (threads_at_fork_ > 1)
            message += " (the process had " + std::to_string(threads_at_fork_) +
                       " threads when it forked: a lock that another one held stays locked in the worker)";
        kill_all();
        return message;
    }

    void give_up() noexcept override { kill_all(); }

 private:
    [[noreturn]] void live_as_child(std::size_t worker, pid_t caller) noexcept {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != caller) ::_exit(1);  // it died before we asked to follow it
        worker_block& mine = memory_.blocks()[worker];
        try {
            if (process_hooks().begin) process_hooks().begin();
            work(options_, body_, memory_, worker);
            flush_streams();
        } catch (const std::exception& thrown) {
            mine.set_text(std::string("threw in a hook: ") + thrown.what());
            memory_.announce(mine, worker_state::failed);
        } catch (...) {
            mine.set_text("threw in a hook");
            memory_.announce(mine, worker_state::failed);
        }
        ::_exit(0);
    }

    void kill_all() noexcept {
        for (const child& each : children_) {
            if (each.reaped) continue;
            // The newest child may lack its pidfd; nobody can have its number before it is reaped.
            if (!each.pidfd || ::syscall(SYS_pidfd_send_signal, each.pidfd.get(), SIGKILL, nullptr, 0) != 0)
                ::kill(each.pid, SIGKILL);
        }
    }

    static void reap(child& one, int options) noexcept {
        if (one.reaped) return;
        int status = 0;
        pid_t got = 0;
        do got = ::waitpid(one.pid, &status, options);
        while (got < 0 && errno == EINTR);
        if (got == 0) return;  // still running
        one.reaped = true;
        if (got == one.pid) one.status = status;
    }

    const group_options& options_;
    body_runner& body_;
    const worker_memory& memory_;
    std::size_t threads_at_fork_;
    std::vector<child> children_;
};

}  // namespace

std::unique_ptr<crew> make_processes(const group_options& options, body_runner& body, const worker_memory& memory) {
    return std::make_unique<process_crew>(options, body, memory);
}

}  // namespace holdfast::perf_test
