// SPDX-License-Identifier: Apache-2.0
#include "serve/write_token.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "holdfast/detail/same_secret.hpp"
#include "holdfast/error.hpp"
#include "holdfast/memory/descriptor.hpp"

namespace holdfast::serve {

write_token::write_token(std::string path) : path_(std::move(path)) { read(); }

void write_token::read() {
    token_.clear();
    const memory::descriptor file = memory::open_at(AT_FDCWD, path_.c_str(), O_RDONLY | O_NONBLOCK);
    if (!file) memory::throw_errno(errno, path_, "opening the file of the token");
    if (::fstat(file.get(), &seen_) != 0) memory::throw_errno(errno, path_, "looking at the file of the token");
    if (!S_ISREG(seen_.st_mode)) throw error(errc::unsafe_file, path_, "is no plain file; write the token into one");
    if ((seen_.st_mode & 0077) != 0 || (seen_.st_uid != ::geteuid() && seen_.st_uid != 0))
        throw error(errc::unsafe_file, path_,
                    "others than you may read or change it, and so write by it; make it yours (chmod 600)");
    std::array<char, characters_max + 2> bytes;
    const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), 0);
    if (count < 0) memory::throw_errno(errno, path_, "reading the token");
    std::string_view text(bytes.data(), static_cast<std::size_t>(count));
    if (text.ends_with('\n')) text.remove_suffix(1);
    const bool plain = std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
    if (!plain || text.size() < characters_min || text.size() > characters_max)
        throw error(
            errc::invalid_argument, path_,
            "is not one line of 16 to 1024 printable characters without blanks; `openssl rand -hex 32` makes one");
    token_ = text;
}

void write_token::refresh() noexcept {
    struct stat now{};
    const bool there = ::stat(path_.c_str(), &now) == 0;
    const bool same = there && now.st_ino == seen_.st_ino && now.st_dev == seen_.st_dev &&
                      now.st_size == seen_.st_size && now.st_mode == seen_.st_mode && now.st_uid == seen_.st_uid &&
                      now.st_ctim.tv_sec == seen_.st_ctim.tv_sec && now.st_ctim.tv_nsec == seen_.st_ctim.tv_nsec;
    if (same) return;
    try {
        read();
    } catch (const std::exception&) {  // (I2) token_ is empty
        token_.clear();
        seen_ = now;
    }
}

bool write_token::is_in(const net::request& from) const noexcept {
    constexpr std::string_view scheme = "Bearer ";
    const std::string_view given = from.header("Authorization").value_or("");
    return !token_.empty() && from.header_count("Authorization") == 1 && given.size() > scheme.size() &&
           net::equal_ignoring_case(given.substr(0, scheme.size()), scheme) &&
           detail::is_same_secret(given.substr(scheme.size()), token_);
}

}  // namespace holdfast::serve
