// SPDX-License-Identifier: Apache-2.0
#include "inspect/delimited_text.hpp"

#include <algorithm>
#include <cstring>

namespace holdfast::inspect {

delimited_rows::outcome delimited_rows::next() {
    fields_.clear();
    const std::optional<std::string_view> line = input_.next();
    if (!line) return outcome::end;
    if (line->starts_with('#') || line->empty()) {
        comment_ = *line;
        return outcome::comment;
    }
    if (dialect_ == dialect::tsv) return split_plain(*line, '\t');
    if (std::memchr(line->data(), '"', line->size()) == nullptr) return split_plain(*line, ',');
    return read_quoted(*line);
}

delimited_rows::outcome delimited_rows::split_plain(std::string_view line, char separator) {
    std::size_t at = 0;
    for (;;) {
        const void* const found = std::memchr(line.data() + at, separator, line.size() - at);
        const std::size_t end =
            found == nullptr ? line.size() : static_cast<std::size_t>(static_cast<const char*>(found) - line.data());
        fields_.push_back({line.substr(at, end - at), at + 1});
        if (end == line.size()) return outcome::row;
        at = end + 1;
    }
}

/// Splits a line with quotes in it, together with as many further lines as an open quote needs.
delimited_rows::outcome delimited_rows::read_quoted(std::string_view line) {
    for (std::size_t lines = 1;; ++lines) {
        switch (split_quoted(line)) {
            case quoted::whole: return outcome::row;
            case quoted::malformed: input_.shorten(); return outcome::malformed;
            case quoted::open: break;
        }
        const std::optional<std::string_view> longer =
            lines < row_lines_max && line.size() < row_bytes_max ? input_.extend() : std::nullopt;
        if (!longer) {
            input_.shorten();
            return outcome::malformed;
        }
        line = *longer;
    }
}

delimited_rows::quoted delimited_rows::split_quoted(std::string_view line) {
    fields_.clear();
    unquoted_.clear();
    unquoted_.reserve(line.size());  // so that views into it stay valid
    std::size_t at = 0;
    for (;;) {
        if (at < line.size() && line[at] == '"') {
            const quoted result = take_quoted(line, at);
            if (result != quoted::whole) return result;
        } else {
            const std::size_t end = std::min(line.find(',', at), line.size());
            const std::string_view text = line.substr(at, end - at);
            if (const std::size_t quote = text.find('"'); quote != std::string_view::npos) {
                fault_ = {at + quote + 1, "a quote inside an unquoted field; put the field in quotes and double it"};
                return quoted::malformed;
            }
            fields_.push_back({text, at + 1});
            at = end;
        }
        if (at == line.size()) return quoted::whole;
        ++at;  // the comma
    }
}

/// Takes the quoted field that begins at `at`, and moves `at` to its end: a comma or the line's end.
delimited_rows::quoted delimited_rows::take_quoted(std::string_view line, std::size_t& at) {
    const std::size_t begin = unquoted_.size();
    std::size_t from = at + 1;
    for (;;) {
        const std::size_t quote = line.find('"', from);
        if (quote == std::string_view::npos) {
            fault_ = {at + 1, "the quote that opens here is never closed"};
            return quoted::open;
        }
        unquoted_.append(line, from, quote - from);
        if (quote + 1 < line.size() && line[quote + 1] == '"') {
            unquoted_ += '"';
            from = quote + 2;
            continue;
        }
        if (quote + 1 < line.size() && line[quote + 1] != ',') {
            fault_ = {quote + 2, "something follows a closing quote; put the comma there, or double the quote"};
            return quoted::malformed;
        }
        fields_.push_back({std::string_view(unquoted_).substr(begin), at + 1});
        at = quote + 1;
        return quoted::whole;
    }
}

void append_csv_field(std::string& out, std::string_view text, bool first) {
    const bool quoted = text.find_first_of("\",\r\n") != std::string_view::npos ||
                        (first && (text.empty() || text.front() == '#')) ||
                        (!text.empty() && (text.front() == ' ' || text.back() == ' '));
    if (!quoted) {
        out += text;
        return;
    }
    out += '"';
    for (const char c : text) {
        if (c == '"') out += '"';
        out += c;
    }
    out += '"';
}

void append_tsv_field(std::string& out, std::string_view text, bool first) {
    if (first && text.empty()) {
        out += "\\x00";  // reads back as the empty text; an empty line would be skipped
    } else if (first && text.front() == '#') {
        out += "\\x23";
        out += text.substr(1);
    } else {
        out += text;
    }
}

}  // namespace holdfast::inspect
