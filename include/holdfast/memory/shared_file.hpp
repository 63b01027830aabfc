// SPDX-License-Identifier: Apache-2.0
// shared_file.hpp - files that appear whole or not at all, and are opened only when they are what they should be.
//
// A file is made unnamed (O_TMPFILE), filled, and linked to its name in one step: a creator killed before leaves
// nothing, one killed after leaves a whole file. Where a file system lacks O_TMPFILE, a hidden name
// `.NAME.XXXXXXXX.making` is used, locked by its living creator; the next creation in the same directory removes those
// whose lock is free.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/memory/descriptor.hpp"
#include "holdfast/memory/lock.hpp"

namespace holdfast::memory {

/// Permissions that a file is given explicitly, whatever the umask says.
struct ownership {
    mode_t mode = 0600;
    std::optional<uid_t> owner;
    std::optional<gid_t> group;
};

/// Whose files are trusted when a name is opened.
struct trust {
    bool any_owner = false;      ///< for looking at segments of others, whose bytes are input anyway
    std::optional<uid_t> owner;  ///< beside the caller's own and root's
};

/// Sets mode and owner. Throws: no_permission.
inline void set_ownership(int fd, const ownership& wanted, const std::string& subject) {
    const uid_t owner = wanted.owner.value_or(static_cast<uid_t>(-1));
    const gid_t group = wanted.group.value_or(static_cast<gid_t>(-1));
    if ((wanted.owner || wanted.group) && ::fchown(fd, owner, group) != 0)
        throw_errno(errno, subject, "giving the segment to its owner and group", "only root may give files away");
    // After fchown, which clears set-id bits and would leave a moment of the wrong group's rights otherwise.
    if (::fchmod(fd, wanted.mode & 0777) != 0) throw_errno(errno, subject, "setting the mode");
}

/// The mode of a companion file that only writers may open: each class keeps read and write where it may write, else
/// nothing.
[[nodiscard]] constexpr mode_t writers_mode(mode_t mode) noexcept {
    mode_t result = 0;
    for (const mode_t shift : {0U, 3U, 6U})
        if (((mode >> shift) & 2U) != 0) result |= 6U << shift;
    return result;
}

namespace detail {

/// Checks that an opened file is a plain file, has one name and belongs to somebody trusted. Throws: unsafe_file.
inline void check_trusted(const struct stat& status, const trust& whom, const std::string& subject) {
    if (!S_ISREG(status.st_mode))
        throw error(errc::unsafe_file, subject,
                    "the name leads to something that is not a plain file; remove it or choose another name");
    if (status.st_nlink > 1)
        throw error(errc::unsafe_file, subject,
                    "the file has a second hard link, by which others could change it; remove the other link");
    const bool trusted =
        whom.any_owner || status.st_uid == ::geteuid() || status.st_uid == 0 || whom.owner == status.st_uid;
    if (!trusted)
        throw error(errc::unsafe_file, subject,
                    "the file belongs to user " + std::to_string(status.st_uid) +
                        ", neither you nor root; trust that owner explicitly if you mean to");
}

[[nodiscard]] inline std::string random_hex() {
    std::uint32_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number))
        number = static_cast<std::uint32_t>(::getpid());
    std::string text(8, '0');
    for (char& c : text) {
        c = "0123456789abcdef"[number & 15U];
        number >>= 4U;
    }
    return text;
}

inline constexpr std::string_view making_suffix = ".making";
/// Locked by the living maker of a hidden file; far from every byte that means something once the file has its name.
inline constexpr std::int64_t making_byte = std::int64_t{1} << 40;

/// Removes hidden files of killed creators: those that nobody holds locked. Only names of our own pattern are looked
/// at.
inline void sweep_abandoned(const std::string& directory) {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(directory.c_str()), &::closedir);
    if (!folder) return;
    while (const dirent* entry = ::readdir(folder.get())) {
        const std::string_view name = entry->d_name;
        if (!name.starts_with('.') || !name.ends_with(making_suffix)) continue;
        const descriptor file = open_at(::dirfd(folder.get()), entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
        struct stat status{};
        if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid())
            continue;
        if (try_lock(file.get(), lock_mode::exclusive, making_byte))
            ::unlinkat(::dirfd(folder.get()), entry->d_name, 0);
    }
}

}  // namespace detail

/// A file under construction: it has no name yet (or a hidden one), and vanishes with its descriptor unless published.
class unpublished_file {
 public:
    unpublished_file(unpublished_file&& other) noexcept = default;
    unpublished_file& operator=(unpublished_file&&) = delete;
    ~unpublished_file() {
        // A forked copy leaves the name to whom the file belongs.
        if (file_ && !hidden_.empty() && ::getpid() == maker_) ::unlink((directory_ + "/" + hidden_).c_str());
    }

    /// Throws: no_permission, read_only, not_found (the directory), no_space and others, naming `subject`.
    [[nodiscard]] static unpublished_file make(const std::string& directory, const std::string& name,
                                               const std::string& subject) {
        unpublished_file result;
        result.directory_ = directory;
        result.file_ = open_at(AT_FDCWD, directory.c_str(), O_TMPFILE | O_RDWR, 0600);
        if (result.file_) return result;
        if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) throw_make(errno, directory, subject);
        result.make_hidden(name, subject);
        return result;
    }

    [[nodiscard]] int fd() const noexcept { return file_.get(); }

    /// Gives the file its name in one step. Returns false when the name is taken; the file stays unpublished then.
    /// Throws: other errors of linking.
    [[nodiscard]] bool publish(const std::string& name, const std::string& subject) {
        const std::string target = directory_ + "/" + name;
        int result = -1;
        if (hidden_.empty()) {
            result = ::linkat(AT_FDCWD, proc_path(file_.get()).c_str(), AT_FDCWD, target.c_str(), AT_SYMLINK_FOLLOW);
        } else {
            const std::string source = directory_ + "/" + hidden_;
            result = static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, source.c_str(), AT_FDCWD, target.c_str(),
                                                1U /* RENAME_NOREPLACE */));
        }
        if (result != 0 && errno == EEXIST) return false;
        if (result != 0) throw_errno(errno, subject, "publishing " + target);
        if (!hidden_.empty()) unlock(file_.get(), detail::making_byte);
        hidden_.clear();
        return true;
    }

    /// Hands the open descriptor over, after publish().
    [[nodiscard]] descriptor release() noexcept { return std::move(file_); }

 private:
    unpublished_file() = default;

    [[noreturn]] static void throw_make(int reason, const std::string& directory, const std::string& subject) {
        throw_errno(reason, subject, "making a file in " + directory,
                    "check that the directory exists and that you may write there");
    }

    void make_hidden(const std::string& name, const std::string& subject) {
        detail::sweep_abandoned(directory_);
        for (int tries = 0; tries < 100; ++tries) {
            hidden_ = "." + name + "." + detail::random_hex() + std::string(detail::making_suffix);
            file_ =
                open_at(AT_FDCWD, (directory_ + "/" + hidden_).c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
            if (!file_ && errno != EEXIST) {
                const int reason = errno;
                hidden_.clear();
                throw_make(reason, directory_, subject);
            }
            // A sweeper that saw the file between its making and this lock removed it, or holds the lock for a moment:
            // make another.
            struct stat status{};
            if (file_ && try_lock(file_.get(), lock_mode::exclusive, detail::making_byte) &&
                ::fstat(file_.get(), &status) == 0 && status.st_nlink == 1)
                return;
            ::unlink((directory_ + "/" + hidden_).c_str());
        }
        throw error(errc::io, subject,
                    "no hidden file could be kept in " + directory_ + "; something removes files there");
    }

    std::string directory_;
    std::string hidden_;
    pid_t maker_ = ::getpid();
    descriptor file_;
};

/// Opens an existing file for reading or writing when it is a plain, trusted file. `flags`: O_RDONLY or O_RDWR.
/// Returns: an empty descriptor when there is no such file. Throws: unsafe_file, no_permission and others.
[[nodiscard]] inline descriptor open_trusted(const std::string& path, int flags, const trust& whom,
                                             const std::string& subject) {
    // No O_CREAT: fs.protected_regular refuses it for files of others in sticky directories, even where opening is
    // allowed. O_NONBLOCK: a FIFO planted at the name must not hold us.
    for (int tries = 0; tries < 100; ++tries) {
        descriptor file = open_at(AT_FDCWD, path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (!file) {
            const int reason = errno;
            if (reason == ENOENT) return {};
            if (reason == ELOOP || reason == EISDIR || reason == ENXIO || reason == ENODEV)
                throw error(errc::unsafe_file, subject,
                            path + " is a symbolic link or not a plain file; remove it or choose another name");
            if (reason == EROFS)
                throw error(errc::read_only, subject,
                            path + " lies on a read-only file system; attach read-only, or remount it");
            throw_errno(reason, subject, "opening " + path,
                        reason == EACCES ? "ask its owner for the right, or attach read-only" : "");
        }
        struct stat status{};
        if (::fstat(file.get(), &status) != 0) throw_errno(errno, subject, "examining " + path);
        if (status.st_nlink == 0) continue;  // replaced between open and here: look the name up again
        detail::check_trusted(status, whom, subject);
        return file;
    }
    throw error(errc::io, subject, path + " is replaced faster than it can be opened; stop whatever does that");
}

/// Whether `path` still names the file behind `fd`.
[[nodiscard]] inline bool still_named(const std::string& path, int fd) noexcept {
    struct stat by_name{};
    struct stat by_fd{};
    return ::lstat(path.c_str(), &by_name) == 0 && ::fstat(fd, &by_fd) == 0 && same_file(by_name, by_fd);
}

}  // namespace holdfast::memory
