// SPDX-License-Identifier: Apache-2.0
// dumper.hpp - a keyed segment as text that loader.hpp reads back to the same records.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "inspect/keyed_reader.hpp"
#include "inspect/record_input.hpp"
#include "inspect/text_sink.hpp"

namespace holdfast::inspect {

struct dump_options {
    file_format format = file_format::csv;
    bool header = true;  ///< the schema first, so that the text can be loaded by itself
};

/// Writes every entry. Returns: how many. Throws: as keyed_reader::scan; corrupt when damage was met; what sink throws.
std::uint64_t dump(keyed_reader& from, const dump_options& options, const text_sink& sink);

/// Appends the schema as the text's first line or lines.
void append_header(std::string& out, const table_schema& schema, file_format format);
/// Appends one entry as a row, its line end included.
void append_row(std::string& out, const std::vector<table_column>& columns, file_format format,
                std::span<const std::byte> key, std::span<const std::byte> value);

}  // namespace holdfast::inspect
