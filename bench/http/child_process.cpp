// SPDX-License-Identifier: Apache-2.0
#include "http/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "http/load.hpp"

extern char** environ;

namespace holdfast::bench::http {

namespace {

constexpr std::chrono::milliseconds grace{3000};  // from SIGTERM to SIGKILL

cpu_set_t set_of(const std::vector<unsigned>& cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const unsigned core : cores) CPU_SET(core, &set);
    return set;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> list;
    for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
    list.push_back(nullptr);
    return list;
}

std::vector<std::string> environment_with(const std::vector<std::string>& more) {
    std::vector<std::string> all = more;
    for (char** each = environ; *each != nullptr; ++each) {
        const std::string_view entry(*each);
        bool replaced = false;
        for (const std::string& one : more) replaced |= entry.starts_with(one.substr(0, one.find('=') + 1));
        if (!replaced) all.emplace_back(entry);
    }
    return all;
}

/// Between fork and exec: system calls alone.
[[noreturn]] void become(char** arguments, char** environment, const cpu_set_t* cores, int output, int log, int report,
                         pid_t parent) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (::getppid() == parent && nothing >= 0 && ::dup2(nothing, STDIN_FILENO) >= 0 &&
        ::dup2(output, STDOUT_FILENO) >= 0 && ::dup2(log, STDERR_FILENO) >= 0 &&
        (cores == nullptr || ::sched_setaffinity(0, sizeof *cores, cores) == 0))
        ::execve(arguments[0], arguments, environment);
    const int code = errno;
    [[maybe_unused]] const ssize_t n = ::write(report, &code, sizeof code);
    ::_exit(127);
}

void collect(pid_t pid, std::vector<pid_t>& all) {
    all.push_back(pid);
    std::error_code ignored;
    for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", ignored)) {
        std::ifstream list(task.path() / "children");
        for (pid_t child = 0; list >> child;) collect(child, all);
    }
}

/// The second number of schedstat: time spent waiting for a processor. 0 where the kernel does not keep it.
std::uint64_t waited_ns_of(const std::filesystem::path& schedstat) {
    std::ifstream file(schedstat);
    std::uint64_t ran = 0, waited = 0;
    file >> ran >> waited;
    return file ? waited : 0;
}

}  // namespace

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

child_process::child_process(child_options options) : options_(std::move(options)) {
    int output[2], report[2];
    if (::pipe2(output, O_CLOEXEC) != 0) fail("no pipe");
    output_.reset(output[0]);
    const net::file_descriptor output_end(output[1]);
    if (::pipe2(report, O_CLOEXEC) != 0) fail("no pipe");
    const net::file_descriptor report_read(report[0]);
    net::file_descriptor report_write(report[1]);
    const net::file_descriptor log(::open(options_.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!log) fail("its log cannot be written");
    const auto environment = environment_with(options_.environment);
    const auto words = pointers(options_.arguments), variables = pointers(environment);
    const cpu_set_t cores = set_of(options_.cores);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0)
        become(const_cast<char**>(words.data()), const_cast<char**>(variables.data()),
               options_.cores.empty() ? nullptr : &cores, output_end.get(), log.get(), report_write.get(), parent);
    if (pid_ < 0) fail("no process");
    ::setpgid(pid_, pid_);  // whichever of us comes first
    group_ = pid_;
    report_write.reset();
    int code = 0;
    if (::read(report_read.get(), &code, sizeof code) == sizeof code) {
        ::waitpid(pid_, nullptr, 0);
        pid_ = group_ = -1;
        fail(std::strerror(code));
    }
}

child_process::~child_process() {
    if (group_ < 0) return;
    if (pid_ > 0) {
        ::kill(pid_, SIGTERM);
        // The end of its output is the end of all its processes: they share it, and a wait on it needs no polling.
        std::array<char, 512> dropped;
        const auto end = std::chrono::steady_clock::now() + grace;
        while (true) {
            const auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
            pollfd p{.fd = output_.get(), .events = POLLIN, .revents = 0};
            if (left <= 0 || (::poll(&p, 1, static_cast<int>(left)) > 0 &&
                              ::read(output_.get(), dropped.data(), dropped.size()) <= 0))
                break;
        }
    }
    ::kill(-group_, SIGKILL);
    while (::waitpid(-group_, nullptr, 0) > 0 || errno == EINTR) {
    }
}

void child_process::fail(const std::string& what) const {
    const std::string log = log_text();
    throw child_failed(std::filesystem::path(options_.arguments.at(0)).filename().string() + ": " + what +
                       (log.empty() ? "" : "; it said: " + log));
}

std::string child_process::log_text() const {
    std::ifstream file(options_.log);
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    while (text.ends_with('\n')) text.pop_back();
    return text.size() > 400 ? "..." + text.substr(text.size() - 400) : text;
}

bool child_process::ended() {
    int status = 0;
    if (pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return pid_ < 0;
}

bool child_process::read_more(std::chrono::steady_clock::time_point end) {
    while (true) {
        check_interruption();
        if (std::chrono::steady_clock::now() > end) fail("no answer in time");
        pollfd p{.fd = output_.get(), .events = POLLIN, .revents = 0};
        if (::poll(&p, 1, 50) <= 0) continue;
        std::array<char, 4096> part;
        const ssize_t n = ::read(output_.get(), part.data(), part.size());
        if (n < 0 && errno == EINTR) continue;
        if (n > 0) pending_.append(part.data(), static_cast<std::size_t>(n));
        return n > 0;
    }
}

std::string child_process::read_line(std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    std::size_t found;
    while ((found = pending_.find('\n')) == std::string::npos)
        if (!read_more(end)) fail("ended without saying that it is ready");
    std::string line = pending_.substr(0, found);
    pending_.erase(0, found + 1);
    return line;
}

std::string child_process::read_all(std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (read_more(end)) {
    }
    int status = 0;
    while (pid_ > 0 && ::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail("ended with " + std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)));
    return std::move(pending_);
}

void child_process::note_processes() {
    processes_.clear();
    if (pid_ > 0) collect(pid_, processes_);
}

std::uint64_t child_process::cpu_ns() const {
    std::uint64_t sum = 0;
    for (const pid_t pid : processes_) {
        clockid_t clock{};
        timespec used{};
        if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0)
            fail("one of its processes ended");
        sum += static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(used.tv_nsec);
    }
    return sum;
}

std::uint64_t child_process::waited_ns() const {
    std::uint64_t sum = 0;
    std::error_code ignored;
    for (const pid_t pid : processes_)
        for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", ignored))
            sum += waited_ns_of(task.path() / "schedstat");
    return sum;
}

std::uint64_t own_waited_ns() { return waited_ns_of("/proc/thread-self/schedstat"); }

std::string output_of(child_options options, std::chrono::milliseconds patience) {
    return child_process(std::move(options)).read_all(patience);
}

void pin_to(const std::vector<unsigned>& cores) {
    const cpu_set_t set = set_of(cores);
    if (::sched_setaffinity(0, sizeof set, &set) != 0)
        throw std::system_error(errno, std::generic_category(), "pinning to the chosen cores");
}

std::vector<unsigned> usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof set, &set);
    std::vector<unsigned> cores;
    for (unsigned core = 0; core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(core, &set)) cores.push_back(core);
    return cores;
}

}  // namespace holdfast::bench::http
