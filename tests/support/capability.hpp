// SPDX-License-Identifier: Apache-2.0
// capability.hpp - what this machine lets a test do, each answer found by trying in a child that is thrown away.
//
// Use: if (!test::can_mount_tmpfs()) GTEST_SKIP() << "needs: mounting a tmpfs in a private mount namespace";
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/unique_name.hpp"

namespace holdfast::test {

[[nodiscard]] inline bool is_root() { return ::geteuid() == 0; }

/// Gives the calling process mounts of its own, so that whatever it mounts ends with it. Returns: false when refused.
[[nodiscard]] inline bool enter_private_mounts() {
    return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// Mounts a tmpfs of `options` (for instance "size=1m") at `path`. Call after enter_private_mounts().
[[nodiscard]] inline bool mount_tmpfs(const std::string& path, const std::string& options) {
    return ::mount("tmpfs", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
}

[[nodiscard]] inline bool can_mount_tmpfs() {
    static const bool answer = [] {
        const unique_directory place("probe");
        return in_child([&] { return enter_private_mounts() && mount_tmpfs(place.path(), "size=64k") ? 0 : 1; })
            .success();
    }();
    return answer;
}

[[nodiscard]] inline bool can_use_user_namespaces() {
    static const bool answer = in_child([] { return ::unshare(CLONE_NEWUSER) == 0 ? 0 : 1; }).success();
    return answer;
}

/// Can this process drop to another user (and so play the stranger)?
[[nodiscard]] inline bool can_change_user() {
    static const bool answer = in_child([] { return ::setresuid(65534, 65534, 65534) == 0 ? 0 : 1; }).success();
    return answer;
}

[[nodiscard]] inline bool can_trace() {
    static const bool answer = [] {
        const pid_t child = ::fork();
        if (child == 0) {
            if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
            ::raise(SIGSTOP);
            ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        if (!WIFSTOPPED(status)) return false;
        const bool stepped = ::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0 &&
                             ::waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
        ::kill(child, SIGKILL);
        ::waitpid(child, &status, 0);
        return stepped;
    }();
    return answer;
}

/// Can this build be stepped in reasonable time? Sanitizers multiply the instructions of an operation, and what is
/// stepped should be the binary that is shipped.
[[nodiscard]] inline bool can_step() { return !sanitized && can_trace(); }

/// Reads a one-line kernel setting such as /proc/sys/vm/nr_hugepages.
[[nodiscard]] inline std::optional<std::string> read_setting(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    if (!std::getline(file, line)) return std::nullopt;
    return line;
}

/// Writes a kernel setting. Returns: false when refused (a write error shows at the flush).
[[nodiscard]] inline bool write_setting(const std::string& path, const std::string& value) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool written = ::write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
    ::close(fd);
    return written;
}

/// Keeps other tests of this machine from changing a kernel setting, and from looking at it under such a lock.
class setting_lock {
 public:
    explicit setting_lock(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        while (file_.get() >= 0 && ::flock(file_.get(), LOCK_EX) != 0 && errno == EINTR) {
        }
    }

 private:
    rig::descriptor file_;
};

/// Changes a kernel setting for as long as it lives. changed() is false where the machine refuses.
class scoped_setting {
 public:
    scoped_setting(std::string path, const std::string& value)
        : path_(std::move(path)), lock_(path_), former_(read_setting(path_)) {
        changed_ = former_ && write_setting(path_, value) && read_setting(path_) == value;
    }
    scoped_setting(const scoped_setting&) = delete;
    scoped_setting& operator=(const scoped_setting&) = delete;
    ~scoped_setting() {
        if (former_) (void)write_setting(path_, *former_);
    }
    [[nodiscard]] bool changed() const noexcept { return changed_; }

 private:
    std::string path_;
    setting_lock lock_;
    std::optional<std::string> former_;
    bool changed_ = false;
};

/// A memory cgroup (version 2 or 1) below the caller's own, with a limit, removed at the end.
class memory_cgroup {
 public:
    /// Requires: limit_bytes of at least some pages. ready() is false where cgroups cannot be made.
    explicit memory_cgroup(std::uint64_t limit_bytes) {
        for (const auto& [root, limit_file] :
             {std::pair<std::string, std::string>{"/sys/fs/cgroup", "memory.max"},
              std::pair<std::string, std::string>{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}}) {
            const std::string path = root + "/" + unique_token("cgroup");
            if (::access((root + "/cgroup.procs").c_str(), W_OK) != 0 || ::mkdir(path.c_str(), 0700) != 0) continue;
            path_ = path;
            if (write_setting(path + "/" + limit_file, std::to_string(limit_bytes))) {
                ready_ = true;
                return;
            }
            ::rmdir(path.c_str());
        }
    }
    memory_cgroup(const memory_cgroup&) = delete;
    memory_cgroup& operator=(const memory_cgroup&) = delete;
    ~memory_cgroup() {
        if (ready_) ::rmdir(path_.c_str());
    }
    [[nodiscard]] bool ready() const noexcept { return ready_; }
    /// Moves the calling process (a child of the test) into the group.
    [[nodiscard]] bool enter() const { return write_setting(path_ + "/cgroup.procs", std::to_string(::getpid())); }

 private:
    std::string path_;
    bool ready_ = false;
};

}  // namespace holdfast::test
