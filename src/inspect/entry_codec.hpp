// SPDX-License-Identifier: Apache-2.0
// entry_codec.hpp - entries of one schema to and from text: what the command line and HTTP do for every key and value.
//
// A key or value of one field is that field's text. One of several fields is FIELD=TEXT,FIELD=TEXT in any order, a
// plain TEXT,TEXT in the fields' order, or a JSON object.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/record/json.hpp"
#include "holdfast/record/schema.hpp"
#include "inspect/record_json.hpp"

namespace holdfast::inspect {

/// Reads one part's text into bytes; bytes of no field become zero. Returns: the reason if the text is none.
/// Requires: record.size() == part.bytes().
[[nodiscard]] std::optional<std::string> read_record(const record_schema& part, std::string_view text,
                                                     std::span<std::byte> record);

/// Made once for a segment, used for many entries. Threads: one at a time.
class entry_codec {
 public:
    /// Throws: invalid_argument when the schema cannot be a container's.
    explicit entry_codec(container_schema schema);

    [[nodiscard]] const container_schema& schema() const noexcept { return *schema_; }
    [[nodiscard]] std::size_t key_bytes() const noexcept { return schema_->key ? schema_->key->bytes() : 0; }
    [[nodiscard]] std::size_t value_bytes() const noexcept { return schema_->value ? schema_->value->bytes() : 0; }

    /// Reads a key or a value; bytes of no field become zero. Returns: the reason if the text is none.
    /// Requires: room as long as the part. Cost: for a key of one field no allocation.
    [[nodiscard]] std::optional<std::string> read_key(std::string_view text, std::span<std::byte> key) const;
    [[nodiscard]] std::optional<std::string> read_value(std::string_view text, std::span<std::byte> value) const;
    /// The same over a value that is there already: fields that the text does not name keep what they have.
    [[nodiscard]] std::optional<std::string> change_value(std::string_view text, std::span<std::byte> value) const;

    /// Appends the entry as one flat JSON object.
    void append_json(std::string& out, std::span<const std::byte> key, std::span<const std::byte> value) const {
        if (schema_->key)
            writer_.append(out, key, value);
        else
            writer_.append(out, value);
    }

 private:
    std::unique_ptr<const container_schema> schema_;  // at one address: the writer and callers point into it
    json_writer writer_;
    mutable std::optional<record_json_reader> key_json_;    // made when first needed
    mutable std::optional<record_json_reader> value_json_;  // likewise
};

}  // namespace holdfast::inspect
