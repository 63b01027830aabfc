// SPDX-License-Identifier: Apache-2.0
// message_text.hpp - messages as lines: records by their schema, other bytes as text or in hexadecimal; and which
// messages are wanted. Messages are input: whatever they hold, a line is a line and obeys no terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/record/json.hpp"
#include "holdfast/record/schema.hpp"

namespace holdfast::inspect {

enum class byte_style : std::uint8_t {
    choose,  ///< text where all of it is printable UTF-8, else hexadecimal
    text,    ///< escaped as text
    hex,
};

/// Writes messages of one segment; made once, used for many.
class message_writer {
 public:
    /// Without a schema messages are bytes.
    message_writer(const std::optional<record_schema>& schema, byte_style style);

    /// The names of the fields as a line's head; empty for bytes.
    [[nodiscard]] std::string heading() const;
    /// Appends a message as a line without its end: fields apart by tabs, or the bytes.
    void append_line(std::string& out, std::span<const std::byte> message) const;
    /// Appends `"record":{...}`, `"text":"..."` or `"hex":"..."`, the last two after `"bytes":N,`.
    void append_members(std::string& out, std::span<const std::byte> message) const;

 private:
    [[nodiscard]] bool is_record(std::span<const std::byte> message) const noexcept;
    [[nodiscard]] bool as_text(std::string_view message) const noexcept;

    std::optional<record_schema> schema_;
    std::optional<json_writer> json_;
    byte_style style_;
};

/// Which messages are wanted: all conditions hold.
class message_filter {
 public:
    /// `FIELD=TEXT` where there is a schema (the field's text is just that), else bytes that the message contains.
    /// Throws: invalid_argument for what names no field.
    message_filter(const std::optional<record_schema>& schema, const std::vector<std::string>& conditions,
                   std::optional<std::uint64_t> type);
    [[nodiscard]] bool wants(std::uint16_t type, std::span<const std::byte> message) const;

 private:
    struct condition {
        std::optional<field> what;
        std::string text;
    };
    std::vector<condition> conditions_;
    std::optional<std::uint64_t> type_;
    std::size_t record_bytes_ = 0;
};

}  // namespace holdfast::inspect
