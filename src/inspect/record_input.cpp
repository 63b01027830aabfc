// SPDX-License-Identifier: Apache-2.0
#include "inspect/record_input.hpp"

#include "holdfast/detail/concat.hpp"
#include "inspect/delimited_input.hpp"
#include "inspect/json_lines_input.hpp"
#include "inspect/record_source.hpp"

namespace holdfast::inspect {

file_format format_of(std::string_view path) noexcept {
    if (path.ends_with(".tsv")) return file_format::tsv;
    if (path.ends_with(".json") || path.ends_with(".jsonl") || path.ends_with(".ndjson"))
        return file_format::json_lines;
    return file_format::csv;
}

std::string input_fault::text() const {
    const std::string place = column == 0 ? std::string() : detail::concat(":", std::to_string(column));
    return detail::concat(file, ":", std::to_string(line), place, ": ", reason);
}

void record_input::source::set_schema(table_schema schema) {
    schema_ = std::move(schema);
    key_.resize(schema_->schema.key->bytes());
    value_.resize(schema_->schema.value ? schema_->schema.value->bytes() : 0);
}

void record_input::source::set_fault(std::size_t column, std::string reason) {
    fault_ = {lines_.name(), lines_.line(), column, std::move(reason)};
}

void record_input::source::refuse(std::size_t column, std::string reason) {
    set_fault(column, std::move(reason));
    throw input_error(fault_);
}

record_input::record_input(line_input& lines, file_format format, const std::optional<table_schema>& given,
                           const std::optional<table_schema>& otherwise) {
    if (format == file_format::json_lines)
        source_ = make_json_lines_input(lines, given, otherwise);
    else
        source_ = make_delimited_input(lines, format, given, otherwise);
}

record_input::~record_input() = default;

const table_schema& record_input::schema() const noexcept { return source_->schema(); }
record_input::outcome record_input::next() { return source_->next(); }
std::span<const std::byte> record_input::key() const noexcept { return source_->key(); }
std::span<const std::byte> record_input::value() const noexcept { return source_->value(); }
std::uint64_t record_input::line() const noexcept { return source_->line(); }
const input_fault& record_input::fault() const noexcept { return source_->fault(); }

}  // namespace holdfast::inspect
