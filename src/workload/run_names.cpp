// SPDX-License-Identifier: Apache-2.0
#include "workload/run_names.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include "holdfast/segment/registry.hpp"

namespace holdfast::workload {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view family = "holdfast-";
constexpr std::string_view lock_suffix = ".bench-run";
constexpr std::size_t token_letters = 6;  // mkostemps
constexpr int looks = 20;                 // of the helper, a tenth of a second apart

/// Everything of a run but its lock: files, folders, entries of the registry. What cannot be removed stays.
void remove_named(const fs::path& folder, const std::string& prefix) noexcept {
    try {
        std::vector<fs::path> found;
        std::error_code ignored;
        for (const auto& entry : fs::directory_iterator(folder, ignored)) {
            const std::string name = entry.path().filename().string();
            if (name.starts_with(prefix) && name != prefix + std::string(lock_suffix)) found.push_back(entry.path());
        }
        for (const std::string& registry : registry::directories())
            for (const auto& entry : fs::directory_iterator(registry, ignored))
                if (entry.path().filename().string().find(prefix) != std::string::npos) found.push_back(entry.path());
        for (const fs::path& path : found) fs::remove_all(path, ignored);
    } catch (const std::exception&) {  // a folder that changed meanwhile, or no memory: the next run looks again
    }
}

[[nodiscard]] bool take(const memory::descriptor& lock) { return ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0; }

/// The prefix of the run whose lock has this name; empty when it is no such name.
[[nodiscard]] std::string prefix_of(const std::string& name) {
    if (!name.starts_with(family) || !name.ends_with(lock_suffix)) return {};
    std::string prefix = name.substr(0, name.size() - lock_suffix.size());
    const std::size_t dash = prefix.rfind('-');
    return dash > family.size() && prefix.size() == dash + 1 + token_letters ? prefix : std::string();
}

/// An empty file of our own: nobody's segment, whatever its name.
[[nodiscard]] bool is_our_lock(const memory::descriptor& file) {
    struct stat about{};
    return file && ::fstat(file.get(), &about) == 0 && S_ISREG(about.st_mode) && about.st_size == 0 &&
           about.st_uid == ::geteuid();
}

void remove_run(const fs::path& folder, const std::string& prefix) {
    remove_named(folder, prefix);
    std::error_code ignored;
    fs::remove((folder / prefix).concat(lock_suffix), ignored);  // last: as long as it is there, others come back
}

/// I3.
void sweep(const fs::path& folder) {
    std::vector<std::string> runs;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
        std::string prefix = prefix_of(entry.path().filename().string());
        if (!prefix.empty()) runs.push_back(std::move(prefix));
    }
    for (const std::string& prefix : runs) {
        const memory::descriptor lock(
            ::open((folder / prefix).concat(lock_suffix).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        if (is_our_lock(lock) && take(lock)) remove_run(folder, prefix);
    }
}

/// The helper: says so once no signal to the run's group reaches it; everything of the run goes once the other end is
/// closed.
[[noreturn]] void follow(int end_of_run, const fs::path& folder, const std::string& prefix) {
    ::setsid();
    ::prctl(PR_SET_NAME, "bench-names");
    // Nobody has to wait for an output that we inherited, and our copy of the lock would count as the run's.
    if (::dup2(end_of_run, 0) != 0 || ::close_range(1, ~0U, 0) != 0 || ::chdir("/") != 0) ::_exit(1);
    char nothing = 0;
    (void)::send(0, &nothing, 1, MSG_NOSIGNAL);  // nobody hears it where the run has ended already
    while (::read(0, &nothing, 1) < 0 && errno == EINTR) {
    }
    for (int look = 0; look < looks; ++look) {
        remove_named(folder, prefix);
        ::usleep(100'000);
    }
    remove_run(folder, prefix);
    ::_exit(0);
}

}  // namespace

fs::path run_names::shared_folder() {
    return ::access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
}

run_names::run_names(std::string_view suite, fs::path folder) : folder_(std::move(folder)) {
    sweep(folder_);
    const std::string pattern = (folder_ / std::string(family).append(suite).append("-XXXXXX")).string();
    struct stat about{};
    do {  // somebody who sweeps may take the lock between our making the file and our locking it, and remove it
        std::string path = pattern + std::string(lock_suffix);
        lock_ = memory::descriptor(::mkostemps(path.data(), static_cast<int>(lock_suffix.size()), O_CLOEXEC));
        if (!lock_) throw std::system_error(errno, std::generic_category(), pattern);
        prefix_ = fs::path(path).stem().string();
    } while (!take(lock_) || ::fstat(lock_.get(), &about) != 0 || about.st_nlink == 0);
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
        const memory::descriptor of_helper(ends[0]);
        end_of_run_ = memory::descriptor(ends[1]);
        helper_ = ::fork();
        if (helper_ == 0) follow(of_helper.get(), folder_, prefix_);
    }
    if (helper_ > 0 && is_ready()) return;
    const int reason = errno;
    remove_run(folder_, prefix_);
    throw std::system_error(reason, std::generic_category(), "a helper process for " + pattern);
}

/// Waits for the helper to say so. Before that, what kills the run's whole group would kill it, too.
bool run_names::is_ready() const noexcept {
    char nothing = 0;
    ssize_t got = 0;
    while ((got = ::read(end_of_run_.get(), &nothing, 1)) < 0 && errno == EINTR) {
    }
    if (got == 0) errno = ECHILD;
    return got == 1;
}

run_names::~run_names() {
    remove_run(folder_, prefix_);
    ::kill(helper_, SIGKILL);
    while (::waitpid(helper_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace holdfast::workload
