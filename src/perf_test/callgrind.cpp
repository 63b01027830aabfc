// SPDX-License-Identifier: Apache-2.0
// callgrind.cpp - the program once more under valgrind, counting within one function.
//
// Callgrind is told to collect only while holdfast_perf_test_counted is on the stack, by that name, so that the program
// needs none of valgrind's headers. The count is the last word of the line "totals:" in its output file.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/counters.hpp"

// A plain name that no optimiser clones or inlines: callgrind is given it.
extern "C" __attribute__((noinline, used, visibility("default"))) void holdfast_perf_test_counted(
    const std::function<void()>* work);
extern "C" void holdfast_perf_test_counted(const std::function<void()>* work) {
    (*work)();
    asm volatile("" ::: "memory");  // no tail call: the frame must still be there while work runs
}

extern "C" char** environ;

namespace holdfast::perf_test {

namespace {

namespace fs = std::filesystem;

std::string program_of_path(const char* name) {
    const char* path = std::getenv("PATH");
    std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
    for (std::string folder; std::getline(folders, folder, ':');) {
        const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
        if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    }
    return {};
}

// A folder of its own, removed with all that valgrind left there.
class scratch_folder {
 public:
    scratch_folder() {
        std::error_code ignored;
        std::string name = (fs::temp_directory_path(ignored) / "holdfast-callgrind-XXXXXX").string();
        if (::mkdtemp(name.data()) != nullptr) path_ = name;
    }
    ~scratch_folder() {
        std::error_code ignored;
        if (!path_.empty()) fs::remove_all(path_, ignored);
    }
    scratch_folder(const scratch_folder&) = delete;
    scratch_folder& operator=(const scratch_folder&) = delete;
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
    std::string path_;
};

// Waits for a child; kills it with all its group once the time is over. True if it ended by itself.
bool wait_for(pid_t child, double seconds, int& status) {
    const std::uint64_t deadline = monotonic_ns() + static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 1e6) * 1e9);
    const int handle = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
    bool ended = handle < 0;  // an old kernel: waited for without a limit
    while (!ended) {
        const std::uint64_t now = monotonic_ns();
        if (now >= deadline) break;
        pollfd one{handle, POLLIN, 0};
        ended =
            ::poll(&one, 1, static_cast<int>(std::min<std::uint64_t>((deadline - now) / 1'000'000 + 1, 1'000'000))) > 0;
    }
    if (handle >= 0) ::close(handle);
    if (!ended) ::kill(-child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return ended;
}

// Starts valgrind in a process group of its own with its output thrown away. 0 or errno.
int start(const std::vector<std::string>& words, pid_t& child) {
    std::vector<char*> argv;
    for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&how);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
    ::posix_spawnattr_setpgroup(&how, 0);
    const int failed = ::posix_spawn(&child, argv[0], &files, &how, argv.data(), environ);
    ::posix_spawnattr_destroy(&how);
    ::posix_spawn_file_actions_destroy(&files);
    return failed;
}

// The sum over all files that callgrind wrote (one a process, if the program forks).
std::uint64_t totals_in(const std::string& folder) {
    std::uint64_t sum = 0;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
        std::ifstream file(entry.path());
        for (std::string line; std::getline(file, line);)
            if (line.compare(0, 8, "totals: ") == 0) sum += std::strtoull(line.c_str() + 8, nullptr, 10);
    }
    return sum;
}

}  // namespace

void run_counted(const std::function<void()>& work) { holdfast_perf_test_counted(&work); }

bool under_valgrind() noexcept {
    const char* preloaded = std::getenv("LD_PRELOAD");  // valgrind puts its own library there
    return preloaded != nullptr &&
           (std::strstr(preloaded, "/vgpreload") != nullptr || std::strstr(preloaded, "/valgrind/") != nullptr);
}

callgrind_result count_with_callgrind(const std::vector<std::string>& argv, double seconds) {
    callgrind_result out;
    const auto fail = [&](std::string why) {
        out.failure = std::move(why);
        return out;
    };
    if (argv.empty()) return fail("there is no program to run");
    if (under_valgrind()) return fail("this process runs under valgrind already");
    const std::string valgrind = program_of_path("valgrind");
    if (valgrind.empty()) return fail("valgrind is not installed: apt-get install valgrind, or count with -count=perf");
    const scratch_folder folder;
    if (folder.path().empty()) return fail(std::string("no temporary folder can be made: ") + std::strerror(errno));
    std::vector<std::string> words{valgrind, "--tool=callgrind", "--quiet",
                                   "--toggle-collect=holdfast_perf_test_counted",
                                   "--callgrind-out-file=" + folder.path() + "/out.%p"};
    words.insert(words.end(), argv.begin(), argv.end());
    pid_t child = 0;
    if (const int failed = start(words, child); failed != 0)
        return fail("valgrind cannot be started: " + std::string(std::strerror(failed)));
    int status = 0;
    if (!wait_for(child, seconds, status))
        return fail("the program did not end in time under valgrind: let it do less");
    if (WIFSIGNALED(status))
        return fail("the program under valgrind was ended by signal " + std::to_string(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        return fail("the program under valgrind ended with status " + std::to_string(WEXITSTATUS(status)));
    out.instructions = totals_in(folder.path());
    if (out.instructions == 0) return fail("the program did not call run_counted, so nothing was counted");
    return out;
}

}  // namespace holdfast::perf_test
