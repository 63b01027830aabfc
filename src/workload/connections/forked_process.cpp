// SPDX-License-Identifier: Apache-2.0
#include "workload/connections/forked_process.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>

namespace holdfast::workload::connections {

namespace {

constexpr std::size_t words_bytes = 4096;

void restore_signals() {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
    ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

forked_process::forked_process(const std::function<void()>& work) : words_(words_bytes) {
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "forking a process of the bench");
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing of a bench outlives it
    if (::getppid() != parent) ::_exit(0);
    restore_signals();
    try {
        work();
    } catch (const std::exception& failure) {
        std::strncpy(reinterpret_cast<char*>(words_.bytes().data()), failure.what(), words_bytes - 1);
        ::_exit(1);
    }
    ::_exit(0);
}

forked_process::~forked_process() {
    if (reaped_) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

bool forked_process::ended() {
    if (!reaped_ && ::waitpid(pid_, nullptr, WNOHANG) == pid_) reaped_ = true;
    return reaped_;
}

std::string forked_process::complaint() const {
    const char* const text = reinterpret_cast<const char*>(words_.bytes().data());
    return {text, ::strnlen(text, words_bytes)};
}

std::size_t descriptors_max() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
    constexpr rlim_t most = 1U << 20U;  // more than any one process is asked for
    return static_cast<std::size_t>(std::min(limit.rlim_max, most));
}

void raise_descriptors() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace holdfast::workload::connections
