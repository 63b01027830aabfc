// SPDX-License-Identifier: Apache-2.0
// unique_name.hpp - names that no other test, process or run uses, removed with everything that grew beside them.
//
// A segment NAME brings companions (NAME.lease, NAME.peers) and, while it is made, perhaps a temporary file. All of
// them carry the unique token in their name, so clean-up removes every entry of the folder that contains it, whatever
// the library calls its companions. Only the process that made a name removes it: a forked child's copy does nothing.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace holdfast::test {

/// A token fit for a file name, different at each call, in each process and in each run.
[[nodiscard]] inline std::string unique_token(std::string_view hint = "test") {
    static std::atomic<std::uint64_t> count{0};
    std::random_device entropy;
    // Relaxed: only the numbers must differ, nothing is published by them.
    return "hf-" + std::string(hint) + "-" + std::to_string(::getpid()) + "-" +
           std::to_string(count.fetch_add(1, std::memory_order_relaxed)) + "-" + std::to_string(entropy());
}

/// The names in `directory` that contain `part`, sorted by nothing in particular; empty when there is no directory.
[[nodiscard]] inline std::vector<std::string> entries_containing(const std::string& directory, std::string_view part) {
    std::vector<std::string> names;
    DIR* const stream = ::opendir(directory.c_str());
    if (stream == nullptr) return names;
    while (const dirent* entry = ::readdir(stream)) {
        const std::string name = entry->d_name;
        if (name != "." && name != ".." && name.find(part) != std::string::npos) names.push_back(name);
    }
    ::closedir(stream);
    return names;
}

/// A POSIX shared memory name of this test alone; its files vanish with it.
class unique_posix_name {
 public:
    explicit unique_posix_name(std::string_view hint = "test") : token_(unique_token(hint)), owner_(::getpid()) {}
    unique_posix_name(const unique_posix_name&) = delete;
    unique_posix_name& operator=(const unique_posix_name&) = delete;
    ~unique_posix_name() {
        if (owner_ == ::getpid()) remove();
    }

    [[nodiscard]] std::string uri() const { return "posix:/" + token_; }
    [[nodiscard]] const std::string& token() const noexcept { return token_; }
    [[nodiscard]] std::string path() const { return directory() + "/" + token_; }
    [[nodiscard]] static std::string directory() { return "/dev/shm"; }

    /// Everything in the folder that carries this name: the segment, its companions, left-overs.
    [[nodiscard]] std::vector<std::string> entries() const { return entries_containing(directory(), token_); }

    void remove() const {
        for (const std::string& name : entries()) ::unlink((directory() + "/" + name).c_str());
    }

 private:
    std::string token_;
    pid_t owner_;
};

/// A directory of this test alone, mode 0700, removed with all in it.
class unique_directory {
 public:
    explicit unique_directory(std::string_view hint = "dir")
        : unique_directory(hint, std::filesystem::temp_directory_path().string()) {}
    unique_directory(std::string_view hint, const std::string& parent)
        : path_(parent + "/" + unique_token(hint)), owner_(::getpid()) {
        if (::mkdir(path_.c_str(), 0700) != 0) throw std::system_error(errno, std::generic_category(), path_);
    }
    unique_directory(const unique_directory&) = delete;
    unique_directory& operator=(const unique_directory&) = delete;
    ~unique_directory() {
        std::error_code ignored;
        if (owner_ == ::getpid()) std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
    [[nodiscard]] std::string file_uri(std::string_view name) const { return "file:" + file(name); }
    [[nodiscard]] std::vector<std::string> entries() const { return entries_containing(path_, ""); }

 private:
    std::string path_;
    pid_t owner_;
};

/// Sets an environment variable and puts the former value back, for instance XDG_RUNTIME_DIR to a unique_directory so
/// that a test's segments are not registered beside the user's.
class scoped_environment {
 public:
    scoped_environment(std::string name, const std::string& value) : name_(std::move(name)) {
        if (const char* former = std::getenv(name_.c_str()); former != nullptr) {
            had_ = true;
            former_ = former;
        }
        ::setenv(name_.c_str(), value.c_str(), 1);
    }
    scoped_environment(const scoped_environment&) = delete;
    scoped_environment& operator=(const scoped_environment&) = delete;
    ~scoped_environment() {
        if (had_)
            ::setenv(name_.c_str(), former_.c_str(), 1);
        else
            ::unsetenv(name_.c_str());
    }

 private:
    std::string name_;
    std::string former_;
    bool had_ = false;
};

/// What tests that were killed left in `directory`: entries named by unique_token() whose process is gone and that
/// nobody has changed for an hour. (A process of another pid namespace looks gone: hence the hour.)
inline void sweep_leftovers(const std::string& directory) {
    constexpr time_t old_s = 3600;
    for (const std::string& name : entries_containing(directory, "hf-")) {
        if (!name.starts_with("hf-")) continue;
        pid_t pid = 0;  // hf-HINT-PID-COUNT-ENTROPY: a hint may hold hyphens too
        for (std::size_t at = name.find('-', 3); at != std::string::npos && pid == 0; at = name.find('-', at + 1)) {
            const char* const begin = name.c_str() + at + 1;
            const auto [end, status] = std::from_chars(begin, name.c_str() + name.size(), pid);
            if (status != std::errc() || *end != '-') pid = 0;
        }
        const std::string path = directory + "/" + name;
        struct stat status{};
        if (pid <= 0 || ::kill(pid, 0) == 0 || errno != ESRCH || ::lstat(path.c_str(), &status) != 0 ||
            status.st_uid != ::geteuid() || ::time(nullptr) - status.st_mtime < old_s)
            continue;
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
}

/// A registry of this program alone, unless it was given one: whatever its segments leave there when it removes their
/// files without them, or is killed, is in nobody's way.
class own_registry {
 public:
    own_registry() {
        if (std::getenv("HOLDFAST_REGISTRY") != nullptr) return;
        sweep_leftovers("/dev/shm");
        sweep_leftovers(std::filesystem::temp_directory_path().string());
        folder_ = std::make_unique<unique_directory>("registry");
        ::setenv("HOLDFAST_REGISTRY", folder_->path().c_str(), 1);
    }

 private:
    std::unique_ptr<unique_directory> folder_;
};
inline const own_registry registry_of_this_program;

}  // namespace holdfast::test
