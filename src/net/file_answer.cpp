// SPDX-License-Identifier: Apache-2.0
#include "file_answer.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

#include "holdfast/detail/hash.hpp"
#include "holdfast/net/file_options.hpp"
#include "holdfast/net/response.hpp"

namespace holdfast::net {

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t settled_ns = 2 * second_ns;  // file_tag::by_age

std::int64_t nanoseconds(const timespec& t) noexcept { return t.tv_sec * second_ns + t.tv_nsec; }

// O_NONBLOCK: a FIFO without a writer would hold up the loop; of a regular file it changes nothing.
int open_file(const std::string& path, const file_options& options) noexcept {
    constexpr int how = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    if (options.folder < 0) return ::open(path.c_str(), how | (options.follow_links ? 0 : O_NOFOLLOW));
    open_how wanted{};
    wanted.flags = how;
    wanted.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    if (!options.follow_links) wanted.resolve |= RESOLVE_NO_SYMLINKS;
    return static_cast<int>(::syscall(SYS_openat2, options.folder, path.c_str(), &wanted, sizeof wanted));
}

file_outcome outcome_of(int code) noexcept {
    switch (code) {
        case ENOENT:
        case ENOTDIR:
        case ENAMETOOLONG:
        case ELOOP:
        case EXDEV:  // it leaves the folder
            return file_outcome::not_found;
        case EACCES:
        case EPERM: return file_outcome::forbidden;
        case EMFILE:
        case ENFILE: return file_outcome::no_descriptor;
        case ENXIO:  // a socket
        case ENODEV: return file_outcome::not_a_file;
        default: return file_outcome::failed;
    }
}

// A number that changes with the file's bytes. What goes in is hashed: the file's number is nobody's business.
std::string tag_of(const struct stat& file, bool strong) {
    const std::array<std::uint64_t, 5> facts{
        static_cast<std::uint64_t>(file.st_dev), static_cast<std::uint64_t>(file.st_ino),
        static_cast<std::uint64_t>(file.st_size), static_cast<std::uint64_t>(nanoseconds(file.st_mtim)),
        static_cast<std::uint64_t>(nanoseconds(file.st_ctim))};
    constexpr std::uint64_t seed = 0x66696c65'20746167;
    const auto bytes = std::as_bytes(std::span(facts));
    std::uint64_t hash =
        holdfast::detail::hash_key(bytes.data(), bytes.size(), holdfast::detail::hash_start(seed, bytes.size()));
    std::string text(strong ? "" : "W/");
    text.push_back('"');
    for (int i = 0; i < 16; ++i, hash <<= 4U) text.push_back("0123456789abcdef"[hash >> 60U]);
    text.push_back('"');
    return text;
}

}  // namespace

void refuse_file(response& to, file_outcome why) {
    switch (why) {
        case file_outcome::not_found:
        case file_outcome::not_a_file: to.problem(404, "there is no such file here"); break;
        case file_outcome::forbidden: to.problem(403, "the server may not read this file"); break;
        case file_outcome::no_descriptor:
            to.problem(503, "the server has too many files open").header("Retry-After", "1");
            break;
        default: to.problem(500, "the server failed to read this file");
    }
}

file_outcome response::file(const request& asked, const std::string& path, const file_options& options) {
    if (path.find('\0') != std::string::npos) {
        refuse_file(*this, file_outcome::not_found);
        return file_outcome::not_found;
    }
    const int opened = open_file(path, options);
    if (opened < 0) {
        const file_outcome why = outcome_of(errno);
        if (why == file_outcome::no_descriptor && loop_.files) loop_.files->lack();
        refuse_file(*this, why);
        return why;
    }
    return file(asked, opened, options);
}

file_outcome response::file(const request& asked, int descriptor, const file_options& options) {
    file_descriptor owned(descriptor);
    auto answer = std::make_shared<file_answer>();
    answer->file = std::move(owned);
    struct stat found{};
    file_outcome outcome = file_outcome::sent;
    if (::fstat(descriptor, &found) != 0) {
        outcome = file_outcome::failed;
    } else if (!S_ISREG(found.st_mode)) {
        outcome = file_outcome::not_a_file;
    }
    if (outcome == file_outcome::sent && loop_.files) {
        file_.reset();  // the new one may have its place
        answer->place = file_place(loop_.files);
        if (!answer->place) {
            outcome = file_outcome::no_descriptor;
            loop_.files->lack();
        }
    }
    if (outcome != file_outcome::sent) {
        refuse_file(*this, outcome);
        return outcome;
    }

    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const std::int64_t changed = std::max(nanoseconds(found.st_mtim), nanoseconds(found.st_ctim));
    const bool strong = options.tag == file_tag::by_age && nanoseconds(now) - changed >= settled_ns;
    const std::string tag = options.tag == file_tag::none ? std::string() : tag_of(found, strong);
    // RFC 9110 section 8.8.2.1: no date that is still to come.
    const validators current{.tag = tag, .modified_s = std::min<std::int64_t>(found.st_mtim.tv_sec, now.tv_sec)};
    body_.clear();
    file_.reset();
    answer->layout =
        lay_out(asked, current, options.content_type, static_cast<std::uint64_t>(found.st_size), options.ranges, *this);
    if (!answer->layout.parts.empty()) file_ = std::move(answer);
    return file_outcome::sent;
}

file_sender::state file_sender::append(std::string& out, std::size_t bytes) {
    const body_layout& layout = what_->layout;
    while (part_ < layout.parts.size()) {
        const body_part& part = layout.parts[part_];
        if (!in_part_) {
            out.append(part.head);
            at_ = part.begin;
            in_part_ = true;
        }
        if (at_ < part.end) {
            if (bytes == 0) return state::more;
            const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, part.end - at_));
            const std::size_t before = out.size();
            out.resize(before + wanted);
            ssize_t n = 0;
            do n = ::pread(what_->file.get(), out.data() + before, wanted, static_cast<off_t>(at_));
            while (n < 0 && errno == EINTR);
            out.resize(before + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
            if (n <= 0) return state::broken;
            at_ += static_cast<std::uint64_t>(n);
            bytes -= static_cast<std::size_t>(n);
            if (at_ < part.end) continue;
        }
        in_part_ = false;
        ++part_;
    }
    out.append(layout.tail);
    return state::done;
}

}  // namespace holdfast::net
