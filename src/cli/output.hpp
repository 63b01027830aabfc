// SPDX-License-Identifier: Apache-2.0
// output.hpp - data to stdout, messages to stderr, colours for terminals only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli {

/// Appends to stdout, buffered. flush_output() tells whether it all arrived.
void put(std::string_view text);
/// Throws: error(io, "standard output") when something could not be written.
void flush_output();

/// Forgets what could not be written: whoever was to read it has gone.
void discard_output() noexcept;

/// Writes `holdfast: TEXT` to stderr.
void say(std::string_view text);

enum class style { plain, strong, faint, bad, good };

/// The text, coloured when stdout is a terminal, NO_COLOR is not set and TERM is not dumb.
[[nodiscard]] std::string styled(std::string_view text, style how);

/// Rows of text in columns that line up; colours do not count as width.
class text_table {
 public:
    explicit text_table(std::vector<std::string> headings) : headings_(std::move(headings)) {}
    /// A column of numbers is aligned to the right.
    text_table& right(std::size_t column) {
        right_.push_back(column);
        return *this;
    }
    void add(std::vector<std::string> cells, style how = style::plain) { rows_.push_back({std::move(cells), how}); }
    [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
    void print() const;

 private:
    struct row {
        std::vector<std::string> cells;
        style how;
    };
    void print_row(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths, style how) const;

    std::vector<std::string> headings_;
    std::vector<row> rows_;
    std::vector<std::size_t> right_;
};

/// `name:   value` lines.
class text_list {
 public:
    void add(std::string_view name, std::string value) { lines_.push_back({std::string(name), std::move(value)}); }
    void print() const;

 private:
    struct line {
        std::string name, value;
    };
    std::vector<line> lines_;
};

}  // namespace holdfast::cli
