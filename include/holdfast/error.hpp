// SPDX-License-Identifier: Apache-2.0
// error.hpp - one vocabulary of failures for the whole library: errc, its std::error_category, and the exception
// `error`.
//
// Set-up work (create, open, attach, recover) throws `error`. Hot paths return small statuses and never throw; what
// they find broken they latch as an errc in the handle's fault().
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace holdfast {

/// What can be wrong with a segment, a name or a request. Each half-made or wrong state has a value of its own.
enum class errc : int {
    not_found = 1,      ///< no segment of that name
    already_exists,     ///< creation refused: the name is taken
    not_ready,          ///< made but not published yet (only where the kernel offers no atomic publication: System V)
    bad_magic,          ///< not a segment of ours
    version_mismatch,   ///< layout version this library does not read
    kind_mismatch,      ///< another container than the one asked for
    schema_mismatch,    ///< other fields, types or offsets than the one asked for
    geometry_mismatch,  ///< header's numbers contradict each other, the file's size or the request
    truncated,          ///< shorter than its header says
    corrupt,            ///< bytes break an invariant
    writer_alive,       ///< another living process holds the lease, or the place of a queue's one consumer
    no_permission,      ///< the system refuses access
    no_space,           ///< no room: tmpfs, disk, memory limit
    no_huge_pages,      ///< the pool of huge pages is too small
    unsafe_file,  ///< the name leads to something that must not be trusted: a symbolic link, another owner, not a plain
                  ///< file
    invalid_name,      ///< the URI or name is not well formed
    invalid_argument,  ///< a parameter outside its documented range
    read_only,         ///< a write through a handle or file system that cannot write
    forked,            ///< the handle was inherited by fork and is dead in this process
    unsupported,       ///< the kernel, file system or memory kind lacks what was asked
    io,                ///< the system failed in a way none of the above names
    contended,         ///< a read found no quiet moment beside its writer: no damage; try again
};

namespace detail {

class error_category final : public std::error_category {
 public:
    [[nodiscard]] const char* name() const noexcept override { return "holdfast"; }
    [[nodiscard]] std::string message(int value) const override {
        switch (static_cast<errc>(value)) {
            case errc::not_found: return "not found";
            case errc::already_exists: return "already exists";
            case errc::not_ready: return "not ready";
            case errc::bad_magic: return "not a Holdfast segment";
            case errc::version_mismatch: return "layout version mismatch";
            case errc::kind_mismatch: return "container kind mismatch";
            case errc::schema_mismatch: return "schema mismatch";
            case errc::geometry_mismatch: return "geometry mismatch";
            case errc::truncated: return "truncated";
            case errc::corrupt: return "corrupt";
            case errc::writer_alive: return "another writer or consumer is alive";
            case errc::no_permission: return "no permission";
            case errc::no_space: return "no space";
            case errc::no_huge_pages: return "no huge pages";
            case errc::unsafe_file: return "unsafe file";
            case errc::invalid_name: return "invalid name";
            case errc::invalid_argument: return "invalid argument";
            case errc::read_only: return "read-only";
            case errc::forked: return "handle inherited by fork";
            case errc::unsupported: return "unsupported";
            case errc::io: return "input/output error";
            case errc::contended: return "contended";
        }
        return "unknown error";
    }
};

/// Text as a terminal and a log may see it: control bytes, which a file name may hold, become \xNN.
[[nodiscard]] inline std::string printable(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string shown;
    shown.reserve(text.size());
    for (const char character : text) {
        const auto byte = static_cast<unsigned char>(character);
        if (byte >= 0x20 && byte != 0x7f) {
            shown += character;
        } else {
            shown += "\\x";
            shown += digits[byte >> 4U];
            shown += digits[byte & 0xfU];
        }
    }
    return shown;
}

}  // namespace detail

/// The category of every errc.
[[nodiscard]] inline const std::error_category& error_category() noexcept {
    static const detail::error_category category;
    return category;
}

[[nodiscard]] inline std::error_code make_error_code(errc code) noexcept {
    return {static_cast<int>(code), error_category()};
}

/// A failure that names its subject (a segment's URI, a file, an argument) and says what to do about it.
///
/// what() reads "SUBJECT: EXPLANATION (CODE)"; the explanation states the fact first, then the cure. Control bytes in
/// it are shown as
/// \xNN; subject() has the name as it is.
class error : public std::system_error {
 public:
    error(errc code, std::string subject, std::string_view explanation)
        : std::system_error(make_error_code(code)),
          code_(code),
          subject_(std::move(subject)),
          text_(detail::printable(subject_) + ": " + detail::printable(explanation) + " (" +
                std::system_error::code().message() + ")") {}

    [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
    [[nodiscard]] errc reason() const noexcept { return code_; }
    [[nodiscard]] const std::string& subject() const noexcept { return subject_; }

 private:
    errc code_;
    std::string subject_;
    std::string text_;
};

/// The errc that stands for an errno value of a file or memory call.
[[nodiscard]] inline errc errc_of_errno(int value) noexcept {
    switch (value) {
        case ENOENT: return errc::not_found;
        case EEXIST: return errc::already_exists;
        case EACCES:
        case EPERM: return errc::no_permission;
        case EROFS: return errc::read_only;
        case ENOSPC:
        case EDQUOT:
        case ENOMEM:
        case EFBIG: return errc::no_space;
        case ELOOP: return errc::unsafe_file;
        case ENAMETOOLONG: return errc::invalid_name;
        case EOPNOTSUPP:
        case ENOSYS: return errc::unsupported;
        default: return errc::io;
    }
}

}  // namespace holdfast

template <>
struct std::is_error_code_enum<holdfast::errc> : std::true_type {};
