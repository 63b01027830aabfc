// SPDX-License-Identifier: Apache-2.0
#include "inspect/input.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "holdfast/error.hpp"
#include "inspect/json_out.hpp"

namespace holdfast::inspect {

namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20;

}  // namespace

line_input::line_input(const std::string& path) : name_(path == "-" ? "standard input" : printable(path)) {
    file_ = path == "-" ? memory::descriptor(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3))
                        : memory::open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NOCTTY);
    if (!file_) memory::throw_errno(errno, name_, "opening the file", "check its name and its rights");
    struct stat status{};
    if (::fstat(file_.get(), &status) != 0) memory::throw_errno(errno, name_, "examining the file");
    if (S_ISDIR(status.st_mode)) throw error(errc::invalid_argument, name_, "it is a directory; name a file in it");
    if (S_ISREG(status.st_mode)) total_ = static_cast<std::uint64_t>(status.st_size);
    buffer_.resize(2 * chunk_bytes);
}

/// Reads more behind what there is, after moving the current line to the front of the buffer.
bool line_input::fill() {
    if (ended_) return false;
    if (begin_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        next_ -= begin_;
        line_end_ -= begin_;
        begin_ = 0;
    }
    if (end_ > line_bytes_max)
        throw error(errc::invalid_argument, name_ + ":" + std::to_string(line_ + 1),
                    "a line is longer than 64 MiB; is this a text file?");
    if (buffer_.size() - end_ < chunk_bytes) buffer_.resize(buffer_.size() * 2);
    for (;;) {
        const ssize_t n = ::read(file_.get(), buffer_.data() + end_, chunk_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) memory::throw_errno(errno, name_, "reading the file");
        ended_ = n == 0;
        end_ += static_cast<std::size_t>(n);
        taken_ += static_cast<std::uint64_t>(n);
        return n > 0;
    }
}

/// The place of the "\n" at or behind `from` (relative to begin_, since fill() moves the line), or the end of a last
/// line without one; nothing when there is no byte left.
std::optional<std::size_t> line_input::find_end(std::size_t from) {
    std::size_t searched = from;
    for (;;) {
        const char* const data = buffer_.data() + begin_;
        const std::size_t available = end_ - begin_;
        if (available > searched)
            if (const void* found = std::memchr(data + searched, '\n', available - searched))
                return begin_ + static_cast<std::size_t>(static_cast<const char*>(found) - data);
        searched = available;
        if (fill()) continue;
        return end_ - begin_ > from ? std::optional(end_) : std::nullopt;
    }
}

std::string_view line_input::current() const noexcept {
    std::size_t bytes = line_end_ - begin_;
    if (bytes > 0 && buffer_[begin_ + bytes - 1] == '\r') --bytes;
    return {buffer_.data() + begin_, bytes};
}

std::optional<std::string_view> line_input::next() {
    begin_ = next_;
    line_ += lines_in_current_;
    const std::optional<std::size_t> end = find_end(0);
    if (!end) {
        lines_in_current_ = 0;
        return std::nullopt;
    }
    if (line_ == 0) line_ = 1;
    lines_in_current_ = 1;
    line_end_ = *end;
    next_ = *end < end_ ? *end + 1 : *end;
    // A byte order mark is no part of the text.
    constexpr std::string_view mark = "\xef\xbb\xbf";
    if (line_ == 1 && current().starts_with(mark)) begin_ += mark.size();
    first_bytes_ = next_ - begin_;
    return current();
}

std::optional<std::string_view> line_input::extend() {
    const std::size_t from = next_ - begin_;
    const std::optional<std::size_t> end = find_end(from);
    if (!end) return std::nullopt;
    ++lines_in_current_;
    line_end_ = *end;
    next_ = *end < end_ ? *end + 1 : *end;
    return current();
}

void line_input::shorten() noexcept {
    next_ = begin_ + first_bytes_;
    lines_in_current_ = 1;
}

}  // namespace holdfast::inspect
