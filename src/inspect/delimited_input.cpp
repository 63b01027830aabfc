// SPDX-License-Identifier: Apache-2.0
#include "inspect/delimited_input.hpp"

#include <algorithm>

#include "holdfast/detail/concat.hpp"
#include "holdfast/record/text.hpp"
#include "inspect/delimited_text.hpp"
#include "inspect/problem.hpp"

namespace holdfast::inspect {

namespace {

[[nodiscard]] std::string_view without_blanks(std::string_view text) noexcept {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

class delimited_input final : public record_input::source {
 public:
    delimited_input(line_input& lines, delimited_rows::dialect dialect, const std::optional<table_schema>& given,
                    const std::optional<table_schema>& otherwise)
        : source(lines), rows_(lines, dialect) {
        if (given) set_schema(*given);
        read_first_row(otherwise);
        if (columns_.empty()) columns_ = columns_of(schema().schema);
    }

    [[nodiscard]] record_input::outcome next() override {
        if (pending_) {
            pending_ = false;
            return accept(first_);
        }
        for (;;) {
            const delimited_rows::outcome got = rows_.next();
            if (got != delimited_rows::outcome::comment) return accept(got);
        }
    }

 private:
    /// Reads up to the first row that is no comment: a header, or the first record, which is kept for next().
    void read_first_row(const std::optional<table_schema>& otherwise) {
        do {
            first_ = rows_.next();
            constexpr std::string_view mark = "#schema ";
            if (first_ == delimited_rows::outcome::comment && !has_schema() && rows_.comment().starts_with(mark))
                take_schema(rows_.comment().substr(mark.size()), mark.size() + 1);
        } while (first_ == delimited_rows::outcome::comment);
        // A header with types goes before what is stored already: the two are compared later.
        const bool header = first_ == delimited_rows::outcome::row && looks_like_header();
        if (!has_schema() && otherwise && !header) set_schema(*otherwise);
        if (first_ == delimited_rows::outcome::malformed && !has_schema())
            refuse(rows_.fault().column, rows_.fault().reason);
        if (first_ == delimited_rows::outcome::end && !has_schema())
            refuse(0, std::string(schema_cure) + "a line like id:u64:key,name:char[16]");
        pending_ = first_ != delimited_rows::outcome::row || !take_header();
    }

    /// Whether every cell of the first row is NAME:TYPE or NAME:TYPE:ROLE with a type that there is.
    [[nodiscard]] bool looks_like_header() const {
        return std::all_of(rows_.fields().begin(), rows_.fields().end(), [](const text_field& cell) {
            const std::size_t colon = cell.text.find(':');
            if (colon == std::string_view::npos) return false;
            const std::string_view type = without_blanks(cell.text.substr(colon + 1));
            return detail::find_type(type.substr(0, type.find_first_of("[<: "))) != nullptr;
        });
    }

    void take_schema(std::string_view text, std::size_t column) {
        try {
            set_schema(table_schema::parse(text));
        } catch (const error& failure) {
            refuse(column, detail::concat("this is no schema: ", problem_of(failure).text,
                                          "; write NAME:TYPE,... or give --schema"));
        }
    }

    /// Whether the first row is a header; then it says the order of the columns.
    [[nodiscard]] bool take_header() {
        const std::vector<text_field>& cells = rows_.fields();
        const auto name_of = [](const text_field& cell) {
            return without_blanks(cell.text.substr(0, cell.text.find(':')));
        };
        if (!has_schema()) {
            std::string text;
            for (const text_field& cell : cells) {
                if (!text.empty()) text += ',';
                text += cell.text;
            }
            if (text.find(':') == std::string::npos)
                refuse(1, std::string(schema_cure) + "a line like id:u64:key,name:char[16]");
            take_schema(text, 1);
        }
        const container_schema& s = schema().schema;
        const auto known = [&](std::string_view name) {
            return s.key->find(name) != nullptr || (s.value && s.value->find(name) != nullptr);
        };
        if (!std::all_of(cells.begin(), cells.end(), [&](const text_field& cell) { return known(name_of(cell)); }))
            return false;
        for (const text_field& cell : cells) {
            const table_column column = column_of(s, name_of(cell));
            if (std::any_of(columns_.begin(), columns_.end(), [&](const auto& c) { return c.what == column.what; }))
                refuse(cell.column, "the header names " + column.what->name + " twice");
            columns_.push_back(column);
        }
        for (const table_column& column : columns_of(s))
            if (std::none_of(columns_.begin(), columns_.end(), [&](const auto& c) { return c.what == column.what; }))
                refuse(1, "the header lacks the field " + column.what->name);
        return true;
    }

    [[nodiscard]] record_input::outcome accept(delimited_rows::outcome got) {
        switch (got) {
            case delimited_rows::outcome::end: return record_input::outcome::end;
            case delimited_rows::outcome::malformed:
                set_fault(rows_.fault().column, rows_.fault().reason);
                return record_input::outcome::bad;
            case delimited_rows::outcome::comment:
            case delimited_rows::outcome::row: break;
        }
        return convert() ? record_input::outcome::record : record_input::outcome::bad;
    }

    [[nodiscard]] bool convert() {
        const std::vector<text_field>& cells = rows_.fields();
        if (cells.size() != columns_.size()) {
            const bool more = cells.size() > columns_.size();
            const text_field& at = more ? cells[columns_.size()] : cells.back();
            set_fault(more ? at.column : at.column + at.text.size(), "the row has " + std::to_string(cells.size()) +
                                                                         " fields where the schema has " +
                                                                         std::to_string(columns_.size()));
            return false;
        }
        for (std::size_t i = 0; i < cells.size(); ++i) {
            const field& f = *columns_[i].what;
            const bool literal = f.type == field_type::text && f.count == 1;
            const std::string_view text = literal ? cells[i].text : without_blanks(cells[i].text);
            std::byte* const record = columns_[i].in_key ? key_room().data() : value_room().data();
            if (auto reason = parse_text(f, text, record)) {
                set_fault(cells[i].column, "field " + f.name + ": " + *reason);
                return false;
            }
        }
        return true;
    }

    delimited_rows rows_;
    std::vector<table_column> columns_;
    delimited_rows::outcome first_ = delimited_rows::outcome::end;
    bool pending_ = false;
};

}  // namespace

std::unique_ptr<record_input::source> make_delimited_input(line_input& lines, file_format format,
                                                           const std::optional<table_schema>& given,
                                                           const std::optional<table_schema>& otherwise) {
    const auto dialect = format == file_format::tsv ? delimited_rows::dialect::tsv : delimited_rows::dialect::csv;
    return std::make_unique<delimited_input>(lines, dialect, given, otherwise);
}

}  // namespace holdfast::inspect
