// SPDX-License-Identifier: Apache-2.0
// table_schema.hpp - the schema of keyed records as files and command lines spell it.
//
//   low:ipv4:key,high:ipv4:end,country:char[2]      name:type[:role], comma-separated
//
// Roles: `key` (several fields may have it; without any, the first field is the key) and `end` (with the key it makes a
// range: the last key that the record covers). Fields are laid out as C++ lays out a struct. A schema laid out
// otherwise is spelled canonically, in one line:
//   key {low:ipv4@0}#4 value {high:ipv4@0,country:char[2]@8}#12 end=high
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/record/schema.hpp"

namespace holdfast::inspect {

/// Key, value, and the field that ends a range.
struct table_schema {
    container_schema schema;  ///< key always present
    std::optional<std::string> range_end;

    /// Reads either spelling. Throws: invalid_argument with what is wrong.
    [[nodiscard]] static table_schema parse(std::string_view text);
    /// Checks and joins parts. Throws: invalid_argument (no key, a name twice, an `end` that is not like the key).
    [[nodiscard]] static table_schema make(container_schema schema, std::optional<std::string> range_end);

    /// The friendly spelling where it says everything, else the canonical one.
    [[nodiscard]] std::string text() const;
    /// Whether the friendly spelling says everything.
    [[nodiscard]] bool natural() const;
    /// `name:type[:role]` of each field, key first.
    [[nodiscard]] std::vector<std::string> headings() const;
};

/// A field and the part of an entry that it lies in.
struct table_column {
    const field* what = nullptr;
    bool in_key = false;
};

/// The columns of a schema, key first. They point into it.
[[nodiscard]] std::vector<table_column> columns_of(const container_schema& schema);
/// Throws: invalid_argument for a name that is not there, naming those that are.
[[nodiscard]] table_column column_of(const container_schema& schema, std::string_view name);

}  // namespace holdfast::inspect
