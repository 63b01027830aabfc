// SPDX-License-Identifier: Apache-2.0
#include "serve/sources.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace holdfast::serve {

std::string identity_text(const identity_array& identity) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (std::size_t i = 0; i < 4; ++i) (text += digits[identity[i] >> 4U]) += digits[identity[i] & 15U];
    return text;
}

void source::watch_size() {
    if (!memory().name().is_path()) return;  // System V memory cannot shrink
    const std::string path = detail::places_of(memory().name()).data();
    file_ = memory::open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!file_) memory::throw_errno(errno, memory().uri(), "opening the file to watch its size");
}

bool source::cut_off() const noexcept {
    const segment& mapped = memory();
    if (mapped.fault() == errc::truncated) return true;
    struct stat now{};
    // A name that led to another file by the time we opened it is let go of by catalog::refresh.
    return file_ &&
           (::fstat(file_.get(), &now) != 0 || static_cast<std::uint64_t>(now.st_size) < mapped.info().total_bytes);
}

}  // namespace holdfast::serve
