// SPDX-License-Identifier: Apache-2.0
// delimited_text.hpp - rows of CSV (RFC 4180) and of tab-separated text.
//
//   CSV  a field may stand in double quotes, "" within them is one quote, and then holds commas and line ends
//   TSV  no quoting: a field holds neither tab nor line end (records write such bytes as \xHH)
//   both a line that begins with '#' is a comment; so is an empty line, unless a row has but one field
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/input.hpp"

namespace holdfast::inspect {

/// A field, and the byte of its line at which it begins, from 1.
struct text_field {
    std::string_view text;
    std::size_t column = 1;
};

/// What is wrong with a line's form, and where.
struct format_fault {
    std::size_t column = 1;
    std::string reason;
};

class delimited_rows {
 public:
    /// A row of more is taken for one with a quote that is never closed, and only its first line is given up.
    static constexpr std::size_t row_lines_max = 1000;
    static constexpr std::size_t row_bytes_max = std::size_t{1} << 20;

    enum class dialect : std::uint8_t { csv, tsv };

    delimited_rows(line_input& input, dialect d) noexcept : input_(input), dialect_(d) {}

    enum class outcome : std::uint8_t { row, comment, malformed, end };

    /// Reads the next line, or lines where quoted fields hold line ends.
    [[nodiscard]] outcome next();

    /// After row: its fields, valid until the next call.
    [[nodiscard]] const std::vector<text_field>& fields() const noexcept { return fields_; }
    /// After comment: the line with its '#'.
    [[nodiscard]] std::string_view comment() const noexcept { return comment_; }
    /// After malformed.
    [[nodiscard]] const format_fault& fault() const noexcept { return fault_; }

 private:
    [[nodiscard]] outcome split_plain(std::string_view line, char separator);
    enum class quoted : std::uint8_t { whole, open, malformed };
    [[nodiscard]] outcome read_quoted(std::string_view line);
    [[nodiscard]] quoted split_quoted(std::string_view line);
    [[nodiscard]] quoted take_quoted(std::string_view line, std::size_t& at);

    line_input& input_;
    dialect dialect_;
    std::vector<text_field> fields_;
    std::string unquoted_;  // room for fields that had "" in them
    std::string_view comment_;
    format_fault fault_;
};

/// Appends a CSV field, quoted where it must be. `first`: it begins a line, where '#' would make a comment.
void append_csv_field(std::string& out, std::string_view text, bool first);
/// Appends a TSV field. Requires: text as record/text.hpp writes it, which has no control characters.
void append_tsv_field(std::string& out, std::string_view text, bool first);

}  // namespace holdfast::inspect
