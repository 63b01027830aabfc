// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "holdfast/error.hpp"
#include "holdfast/memory/descriptor.hpp"

namespace holdfast::cli {

namespace {

[[nodiscard]] bool wants_colour() {
    static const bool wanted = [] {
        const char* const no_color = std::getenv("NO_COLOR");
        const char* const terminal = std::getenv("TERM");
        return (no_color == nullptr || *no_color == '\0') && terminal != nullptr &&
               std::string_view(terminal) != "dumb" && ::isatty(STDOUT_FILENO) == 1;
    }();
    return wanted;
}

}  // namespace

void put(std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stdout); }

void flush_output() {
    errno = 0;
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
    const int reason = errno;
    throw error(errc::io, "standard output",
                "not everything could be written" + (reason == 0 ? std::string() : ": " + memory::errno_text(reason)) +
                    "; check the disk or the reader behind it");
}

void discard_output() noexcept {
    // The C library keeps what it could not write for the next attempt, also the one at exit: let that succeed.
    const memory::descriptor nowhere = memory::open_at(AT_FDCWD, "/dev/null", O_WRONLY);
    if (nowhere)
        (void)::dup2(nowhere.get(), STDOUT_FILENO);
    else
        (void)::close(STDOUT_FILENO);
    std::clearerr(stdout);
    (void)std::fflush(stdout);
}

void say(std::string_view text) {
    std::fflush(stdout);  // so that both keep their order on a terminal
    std::string line = "holdfast: ";
    line += text;
    line += '\n';
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string styled(std::string_view text, style how) {
    std::string out;
    const char* code = nullptr;
    switch (how) {
        case style::plain: break;
        case style::strong: code = "1"; break;
        case style::faint: code = "2"; break;
        case style::bad: code = "31"; break;
        case style::good: code = "32"; break;
    }
    if (code == nullptr || !wants_colour()) return std::string(text);
    return "\033[" + std::string(code) + "m" + std::string(text) + "\033[0m";
}

void text_table::print_row(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                           style how) const {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::size_t padding = widths[i] - cells[i].size();
        const bool to_right = std::find(right_.begin(), right_.end(), i) != right_.end();
        if (to_right) line.append(padding, ' ');
        line += cells[i];
        if (i + 1 == cells.size()) break;
        if (!to_right) line.append(padding, ' ');
        line += "  ";
    }
    put(styled(line, how) + "\n");
}

void text_table::print() const {
    std::vector<std::size_t> widths;
    for (const std::string& heading : headings_) widths.push_back(heading.size());
    for (const row& r : rows_)
        for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], r.cells[i].size());
    print_row(headings_, widths, style::strong);
    for (const row& r : rows_) print_row(r.cells, widths, r.how);
}

void text_list::print() const {
    std::size_t width = 0;
    for (const line& l : lines_) width = std::max(width, l.name.size());
    for (const line& l : lines_)
        put(styled(l.name, style::strong) + std::string(width - l.name.size() + 2, ' ') + l.value + "\n");
}

}  // namespace holdfast::cli
