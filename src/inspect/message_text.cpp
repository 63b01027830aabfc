// SPDX-License-Identifier: Apache-2.0
#include "inspect/message_text.hpp"

#include "holdfast/detail/concat.hpp"
#include "holdfast/error.hpp"
#include "holdfast/record/fixed_text.hpp"
#include "holdfast/record/text.hpp"
#include "inspect/delimited_text.hpp"
#include "inspect/json_out.hpp"

namespace holdfast::inspect {

namespace {

/// Whether a text is valid UTF-8 without characters that a terminal obeys, tabs and ends of lines apart.
[[nodiscard]] bool is_printable(std::string_view text) noexcept {
    while (!text.empty()) {
        const char first = text.front();
        const std::size_t bytes = detail::utf8_bytes(text);
        if (bytes == 0 || (detail::is_control(text, bytes) && first != '\t' && first != '\n' && first != '\r'))
            return false;
        text.remove_prefix(bytes);
    }
    return true;
}

/// Appends all of a text; what is no UTF-8, and with `controls` what a terminal obeys, as \xHH.
void append_whole(std::string& out, std::string_view text, bool controls) {
    while (!text.empty()) {
        const std::size_t bytes = detail::utf8_bytes(text);
        if (bytes == 0 || (controls && detail::is_control(text, bytes)) || detail::starts_with_escape(text)) {
            for (const char c : text.substr(0, bytes == 0 ? 1 : bytes)) {
                out += "\\x";
                detail::append_hex(out, static_cast<unsigned char>(c));
            }
        } else {
            out += text.substr(0, bytes);
        }
        text.remove_prefix(bytes == 0 ? 1 : bytes);
    }
}

}  // namespace

message_writer::message_writer(const std::optional<record_schema>& schema, byte_style style)
    : schema_(schema), style_(style) {
    if (schema_) json_.emplace(*schema_);
}

bool message_writer::is_record(std::span<const std::byte> message) const noexcept {
    return schema_ && message.size() == schema_->bytes();
}

bool message_writer::as_text(std::string_view message) const noexcept {
    return style_ == byte_style::text || (style_ == byte_style::choose && is_printable(message));
}

std::string message_writer::heading() const {
    std::string text;
    if (!schema_) return text;
    for (const field& f : schema_->fields()) {
        if (!text.empty()) text += '\t';
        text += f.name;
    }
    return text;
}

void message_writer::append_line(std::string& out, std::span<const std::byte> message) const {
    if (is_record(message)) {
        std::string cell;
        bool first = true;
        for (const field& f : schema_->fields()) {
            if (!first) out += '\t';
            cell.clear();
            append_text(cell, f, message.data());
            append_tsv_field(out, cell, first);
            first = false;
        }
        return;
    }
    std::string_view text = characters_of(message);
    if (!as_text(text)) return append_hex(out, characters_of(message));
    if (text.ends_with('\n')) text.remove_suffix(1);  // the line has an end of its own
    append_whole(out, text, true);
}

void message_writer::append_members(std::string& out, std::span<const std::byte> message) const {
    if (is_record(message)) {
        out += "\"record\":";
        json_->append(out, message);
        return;
    }
    out += detail::concat("\"bytes\":", message.size(), ",");
    if (as_text(characters_of(message))) {
        std::string text;
        append_whole(text, characters_of(message), false);
        out += "\"text\":";
        append_json_string(out, text);
        return;
    }
    out += "\"hex\":\"";
    append_hex(out, characters_of(message));
    out += '"';
}

message_filter::message_filter(const std::optional<record_schema>& schema, const std::vector<std::string>& conditions,
                               std::optional<std::uint64_t> type)
    : type_(type), record_bytes_(schema ? schema->bytes() : 0) {
    for (const std::string& text : conditions) {
        if (!schema) {
            conditions_.push_back({std::nullopt, text});
            continue;
        }
        const std::size_t equals = text.find('=');
        const field* const what = equals == std::string::npos ? nullptr : schema->find(text.substr(0, equals));
        if (what == nullptr) {
            std::string known;
            for (const field& f : schema->fields()) known += (known.empty() ? "" : ", ") + f.name;
            throw error(errc::invalid_argument, "--filter " + text,
                        "is FIELD=TEXT for messages that are records; the fields are " + known);
        }
        conditions_.push_back({*what, text.substr(equals + 1)});
    }
}

bool message_filter::wants(std::uint16_t type, std::span<const std::byte> message) const {
    if (type_ && *type_ != type) return false;
    std::string text;
    for (const condition& c : conditions_) {
        if (!c.what) {
            if (characters_of(message).find(c.text) == std::string_view::npos) return false;
            continue;
        }
        if (message.size() != record_bytes_) return false;  // no record, so no such field
        text.clear();
        append_text(text, *c.what, message.data());
        if (text != c.text) return false;
    }
    return true;
}

}  // namespace holdfast::inspect
