// SPDX-License-Identifier: Apache-2.0
// record_input.hpp - keyed records out of text: CSV, TSV or JSON lines, by a schema that is given or stands in the
// file.
//
// In the file a schema is a first row of `name:type[:role]` cells, a comment line `#schema TEXT` (CSV, TSV), or a first
// object {"$schema":"TEXT"} (JSON lines); see table_schema.hpp. With a given schema a first row of its field names is
// recognised and says the order of the columns; without one they come as in the schema.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/error.hpp"
#include "inspect/input.hpp"
#include "inspect/table_schema.hpp"

namespace holdfast::inspect {

enum class file_format : std::uint8_t { csv, tsv, json_lines };

/// The format a file's name promises: .tsv; .json, .jsonl, .ndjson; all else is CSV.
[[nodiscard]] file_format format_of(std::string_view path) noexcept;

/// What is wrong in a file, and where. Lines and columns count from 1; columns are bytes.
struct input_fault {
    std::string file;
    std::uint64_t line = 0;
    std::size_t column = 0;
    std::string reason;
    /// `FILE:LINE:COLUMN: REASON`, without the column where it is 0.
    [[nodiscard]] std::string text() const;
};

/// A file that cannot be loaded because of what stands in it.
class input_error : public error {
 public:
    explicit input_error(input_fault fault)
        : error(errc::invalid_argument, fault.file + ":" + std::to_string(fault.line), fault.reason),
          fault_(std::move(fault)) {}
    [[nodiscard]] const input_fault& fault() const noexcept { return fault_; }

 private:
    input_fault fault_;
};

/// Reads records one after the other. Construction finds the schema.
class record_input {
 public:
    /// `given` goes before what the file says, `otherwise` serves when neither is there.
    /// Throws: input_error when there is no schema at all, or the header does not fit it.
    record_input(line_input& lines, file_format format, const std::optional<table_schema>& given,
                 const std::optional<table_schema>& otherwise = {});
    ~record_input();
    record_input(const record_input&) = delete;
    record_input& operator=(const record_input&) = delete;

    [[nodiscard]] const table_schema& schema() const noexcept;

    enum class outcome : std::uint8_t { record, bad, end };
    [[nodiscard]] outcome next();

    // After record; valid until the next call.
    [[nodiscard]] std::span<const std::byte> key() const noexcept;
    [[nodiscard]] std::span<const std::byte> value() const noexcept;
    /// The line on which the record begins.
    [[nodiscard]] std::uint64_t line() const noexcept;
    /// After bad.
    [[nodiscard]] const input_fault& fault() const noexcept;

    class source;  // what the formats implement

 private:
    std::unique_ptr<source> source_;
};

}  // namespace holdfast::inspect
