// SPDX-License-Identifier: Apache-2.0
// program.hpp - the program `holdfast` run by a test, within limits.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include "support/process.hpp"
#include "support/scale.hpp"

namespace holdfast::test {

/// Where the program is; empty in builds without it.
[[nodiscard]] inline std::string program_path() {
#ifdef HOLDFAST_PROGRAM
    return HOLDFAST_PROGRAM;
#else
    return {};
#endif
}

struct program_limits {
    std::uint64_t memory_bytes = 0;  // that it may write to alone; 0: as here. Not for sanitizers, which need terabytes
    unsigned seconds = 60;           // it is killed then
    int output = -1;                 // a descriptor for what it prints; -1: nowhere
};

/// The rest of a child's life: becomes the program.
[[noreturn]] inline void become_program(const std::vector<std::string>& words, const program_limits& limits) {
    const int out = limits.output >= 0 ? limits.output : ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(in, 0);
    ::dup2(out, 1);
    ::dup2(out, 2);
    if (!sanitized && limits.memory_bytes != 0) {
        const rlimit memory{limits.memory_bytes, limits.memory_bytes};
        ::setrlimit(RLIMIT_DATA, &memory);
    }
    const rlimit none{0, 0}, processor{limits.seconds, limits.seconds};
    ::setrlimit(RLIMIT_CORE, &none);
    ::setrlimit(RLIMIT_CPU, &processor);
    std::string path = program_path();
    std::vector<std::string> copy = words;
    std::vector<char*> argv{path.data()};
    for (std::string& word : copy) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(path.c_str(), argv.data());
    ::_exit(127);
}

struct program_run {
    ended end;
    bool timed_out = false;
};

/// Runs the program to its end, or for as long as it may.
[[nodiscard]] inline program_run run_program(const std::vector<std::string>& words, const program_limits& limits = {}) {
    child_process child([&] { become_program(words, limits); });
    program_run run;
    const rig::descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, child.pid(), 0)));
    if (handle.get() < 0) throw std::system_error(errno, std::generic_category(), "pidfd_open");
    pollfd waiting{.fd = handle.get(), .events = POLLIN, .revents = 0};
    int got;
    while ((got = ::poll(&waiting, 1, static_cast<int>(limits.seconds * 1000))) < 0 && errno == EINTR) {
    }
    run.timed_out = got == 0;
    run.end = run.timed_out ? child.kill() : child.wait();
    return run;
}

}  // namespace holdfast::test
