// SPDX-License-Identifier: Apache-2.0
// input.hpp - the lines of a file or of standard input, read once from front to back.
//
// Reading by read() rather than mmap(): a file that somebody cuts off meanwhile ends early instead of raising SIGBUS,
// and pipes work the same way.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::inspect {

class line_input {
 public:
    /// Opens a file; "-" is standard input. Throws: not_found, no_permission, invalid_argument (a directory), io.
    explicit line_input(const std::string& path);

    /// The next line without its end ("\n" or "\r\n"); nothing at the end of the file. It stays valid until the next
    /// call. The last line needs no end. Throws: io, invalid_argument (a line longer than line_bytes_max).
    [[nodiscard]] std::optional<std::string_view> next();
    /// The current line and the one after it as one, with the "\n" between them: for quoted fields that hold line ends.
    /// Nothing at the end of the file.
    [[nodiscard]] std::optional<std::string_view> extend();
    /// Forgets what extend() added: the next next() gives the line after the first. Views of the line are void.
    void shorten() noexcept;

    /// Number of the line that next() gave last, from 1; after extend() still that of its first.
    [[nodiscard]] std::uint64_t line() const noexcept { return line_; }
    /// What messages call the file.
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] std::uint64_t bytes_read() const noexcept { return taken_; }
    /// The file's size where it has one.
    [[nodiscard]] std::optional<std::uint64_t> bytes_total() const noexcept { return total_; }

    static constexpr std::size_t line_bytes_max = std::size_t{64} << 20;

 private:
    [[nodiscard]] bool fill();
    [[nodiscard]] std::optional<std::size_t> find_end(std::size_t from);
    [[nodiscard]] std::string_view current() const noexcept;

    std::string name_;
    memory::descriptor file_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0;        // of the current line
    std::size_t line_end_ = 0;     // of the current line, before its "\n"
    std::size_t next_ = 0;         // of the next line
    std::size_t end_ = 0;          // of what was read
    std::size_t first_bytes_ = 0;  // of the current line alone, with its end
    bool ended_ = false;
    std::uint64_t line_ = 0;
    std::uint64_t lines_in_current_ = 0;
    std::uint64_t taken_ = 0;
    std::optional<std::uint64_t> total_;
};

}  // namespace holdfast::inspect
