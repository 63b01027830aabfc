// SPDX-License-Identifier: Apache-2.0
#include "cli/output_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::cli {

namespace {

[[noreturn]] void fail(const std::string& file) {
    memory::throw_errno(errno, file, "writing the file", "check the disk and its rights");
}

[[nodiscard]] std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

/// The path behind all links; of a link to nothing, the path that it names. Returns: nothing, with errno set.
[[nodiscard]] std::optional<std::string> resolve(std::string path) {
    constexpr int links_max = 40;  // as many as the kernel follows: path_resolution(7)
    for (int i = 0; i < links_max; ++i) {
        const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), &std::free);
        if (real) return std::string(real.get());
        if (errno != ENOENT) return std::nullopt;
        char link[PATH_MAX];
        const ssize_t bytes = ::readlink(path.c_str(), link, sizeof link);
        if (bytes < 0) return path;  // no link: the name is free, or its folder is missing, which making the file tells
        const std::string to(link, static_cast<std::size_t>(bytes));
        path = to.starts_with('/') ? to : folder_of(path) + to;
    }
    errno = ELOOP;
    return std::nullopt;
}

/// What lies at a path behind its links. The kernel's own look-up comes before resolve(): it refuses links that another
/// user planted in a shared folder (fs.protected_symlinks, proc(5)). Returns: nothing for a name that is free.
[[nodiscard]] std::optional<struct stat> status_of(const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) == 0) return status;
    if (errno != ENOENT) fail(path);
    return std::nullopt;
}

[[nodiscard]] std::string random_name() {
    constexpr char digits[] = "0123456789abcdef";
    std::uint8_t bytes[8] = {};
    if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) return {};
    std::string name = ".holdfast-";
    for (const std::uint8_t byte : bytes) {
        name += digits[byte >> 4U];
        name += digits[byte & 15U];
    }
    return name;
}

/// Makes a rename last. Where the folder cannot be synced, the file system has to see to it.
void sync_folder_of(const std::string& path) {
    const std::string folder = folder_of(path);
    const memory::descriptor opened(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened) (void)::fsync(opened.get());
}

}  // namespace

output_file::output_file(std::string path, mode_t new_mode) : path_(std::move(path)), new_mode_(new_mode) {
    try {
        open();
    } catch (...) {
        if (!making_.empty()) ::unlink(making_.c_str());
        throw;
    }
}

template <class Make>
int output_file::make_beside(Make make) {
    constexpr int tries_max = 100;
    for (int i = 0; i < tries_max; ++i) {
        const std::string name = random_name();
        if (name.empty()) return -1;
        std::string making = folder_of(target_) + name;
        const int made = make(making.c_str());
        if (made >= 0) making_ = std::move(making);
        if (made >= 0 || errno != EEXIST) return made;
    }
    return -1;
}

int output_file::make() {
    const std::string folder = folder_of(target_);
    const int unnamed = ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, new_mode_);
    // EISDIR is how kernels before 3.11 and some file systems say that they have no unnamed files.
    if (unnamed >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return unnamed;
    return make_beside([this](const char* name) {
        return ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, new_mode_);
    });
}

bool output_file::publish() {
    if (making_.empty()) {
        const std::string unnamed = "/proc/self/fd/" + std::to_string(::fileno(file_));
        const auto link = [&](const char* name) {
            return ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
        };
        if (make_beside(link) != 0) return false;
    }
    if (::rename(making_.c_str(), target_.c_str()) == 0) {
        sync_folder_of(target_);
        return true;
    }
    const int reason = errno;
    ::unlink(making_.c_str());
    errno = reason;
    return false;
}

void output_file::open() {
    const std::optional<struct stat> old = status_of(path_);
    memory::descriptor file;
    if (old && !S_ISREG(old->st_mode)) {
        file = memory::open_at(AT_FDCWD, path_.c_str(), O_WRONLY | O_NOCTTY);
        if (!file) fail(path_);
    } else {
        std::optional<std::string> target = resolve(path_);
        if (!target) fail(path_);
        target_ = *std::move(target);
        // A file that may not be written is not replaced either, though its folder would allow it.
        if (old && ::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) fail(path_);
        file = memory::descriptor(make());
        if (!file) fail(path_);
        struct stat made{};
        if (old && (::fchmod(file.get(), 0600) != 0 || ::fstat(file.get(), &made) != 0)) fail(path_);
        if (old && (made.st_uid != old->st_uid || made.st_gid != old->st_gid) &&
            ::fchown(file.get(), old->st_uid, old->st_gid) != 0)
            memory::throw_errno(errno, path_, "keeping the file's owner", "choose another name, or remove it first");
        if (old && ::fchmod(file.get(), old->st_mode & 07777U) != 0) fail(path_);
    }
    const int stream = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
    if (stream < 0) fail(path_);
    file_ = ::fdopen(stream, "w");
    if (file_ != nullptr) return;
    ::close(stream);
    fail(path_);
}

output_file::~output_file() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    if (!making_.empty()) ::unlink(making_.c_str());
}

void output_file::write(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail(path_);
}

void output_file::finish() {
    if (std::fflush(file_) != 0) fail(path_);  // the destructor takes away what was made
    // Before the rename: after a power loss the name leads to the old contents or to the new, never to none.
    if (replaces() && (::fsync(::fileno(file_)) != 0 || !publish())) fail(path_);
    if (std::fclose(std::exchange(file_, nullptr)) != 0) fail(path_);
}

}  // namespace holdfast::cli
