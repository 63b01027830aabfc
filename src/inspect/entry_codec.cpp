// SPDX-License-Identifier: Apache-2.0
#include "inspect/entry_codec.hpp"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstring>

#include "holdfast/detail/concat.hpp"
#include "holdfast/record/text.hpp"

namespace holdfast::inspect {

namespace {

/// Reads most keys there are: digits, for one integer of 64 bits. Returns: false, with nothing read, for all others,
/// which the general way reads, or refuses with a reason.
[[nodiscard]] bool read_number(const record_schema& part, std::string_view text, std::span<std::byte> record) {
    constexpr std::size_t digits_max = 18;  // of these any fits
    const field& f = part.fields().front();
    if (part.fields().size() != 1 || (f.type != field_type::u64 && f.type != field_type::i64) || f.count != 1 ||
        !f.enumerators.empty() || text.empty() || text.size() > digits_max)
        return false;
    std::uint64_t value = 0;
    for (const char c : text) {
        const auto digit = static_cast<unsigned char>(c - '0');
        if (digit > 9) return false;
        value = value * 10 + digit;
    }
    if (record.size() != sizeof value) std::fill(record.begin(), record.end(), std::byte{0});
    std::memcpy(record.data() + f.offset, &value, sizeof value);
    return true;
}

/// Takes the text up to the next comma outside brackets and quotes of none: arrays are written [1,2].
[[nodiscard]] std::string_view take_item(std::string_view& rest) {
    int depth = 0;
    std::size_t end = 0;
    for (; end < rest.size() && (rest[end] != ',' || depth > 0); ++end) {
        if (rest[end] == '[') ++depth;
        if (rest[end] == ']') --depth;
    }
    const std::string_view item = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return item;
}

[[nodiscard]] std::optional<std::string> read_field(const field& f, std::string_view text, std::byte* record) {
    auto reason = parse_text(f, text, record);
    if (reason) return detail::concat("field ", f.name, ": ", *reason);
    return std::nullopt;
}

[[nodiscard]] std::string names_of(const record_schema& part) {
    std::string names;
    for (const field& f : part.fields()) {
        if (!names.empty()) names += ',';
        names += f.name;
    }
    return names;
}

/// FIELD=TEXT,FIELD=TEXT. Every field once, unless those that are not named may keep what they have.
[[nodiscard]] std::optional<std::string> read_named(const record_schema& part, std::string_view text, std::byte* record,
                                                    bool keep) {
    std::bitset<schema_fields_max> given;
    while (!text.empty()) {
        const std::string_view item = take_item(text);
        const std::size_t equals = item.find('=');
        const field* const f = part.find(item.substr(0, equals));
        if (equals == std::string_view::npos || f == nullptr)
            return detail::concat(detail::quoted(item), " is not FIELD=TEXT; the fields are ", names_of(part));
        const auto index = static_cast<std::size_t>(f - part.fields().data());
        if (given.test(index)) return detail::concat("field ", f->name, " is given twice");
        given.set(index);
        if (auto reason = read_field(*f, item.substr(equals + 1), record)) return reason;
    }
    for (std::size_t i = 0; i < part.fields().size(); ++i)
        if (!given.test(i) && !keep) return detail::concat("field ", part.fields()[i].name, " is missing");
    return std::nullopt;
}

[[nodiscard]] std::optional<std::string> read_in_order(const record_schema& part, std::string_view text,
                                                       std::byte* record) {
    for (std::size_t i = 0; i < part.fields().size(); ++i) {
        const bool last = i + 1 == part.fields().size();
        const std::size_t before = text.size();
        const std::string_view item = take_item(text);
        const bool comma = before > item.size();
        if (comma == last)
            return detail::concat(last ? "more" : "fewer", " fields than ", part.fields().size(), "; give ",
                                  names_of(part));
        if (auto reason = read_field(part.fields()[i], item, record)) return reason;
    }
    return std::nullopt;
}

/// Whether the text begins with the name of a field and '='.
[[nodiscard]] bool is_named(const record_schema& part, std::string_view text) {
    const std::size_t equals = text.find('=');
    return equals != std::string_view::npos && part.find(text.substr(0, equals)) != nullptr;
}

[[nodiscard]] std::optional<std::string> read_part(const record_schema& part, std::string_view text,
                                                   std::span<std::byte> record, bool keep,
                                                   std::optional<record_json_reader>& json) {
    if (!keep) std::fill(record.begin(), record.end(), std::byte{0});
    // A text may itself begin with a brace; no other type can.
    const bool object = text.starts_with('{') && part.fields()[0].type != field_type::text;
    if (part.fields().size() == 1 && !object && !is_named(part, text))
        return read_field(part.fields()[0], text, record.data());
    if (is_named(part, text)) return read_named(part, text, record.data(), keep);
    if (!text.starts_with('{')) return read_in_order(part, text, record.data());
    if (!json) json.emplace(part);
    if (const auto failure = json->read(text, record)) return failure->message();
    return std::nullopt;
}

}  // namespace

std::optional<std::string> read_record(const record_schema& part, std::string_view text, std::span<std::byte> record) {
    if (read_number(part, text, record)) return std::nullopt;
    std::optional<record_json_reader> json;
    return read_part(part, text, record, false, json);
}

entry_codec::entry_codec(container_schema schema)
    : schema_(std::make_unique<const container_schema>(std::move(schema))), writer_(*schema_) {}

std::optional<std::string> entry_codec::read_key(std::string_view text, std::span<std::byte> key) const {
    if (!schema_->key) return "the segment has no keys";
    if (read_number(*schema_->key, text, key)) return std::nullopt;
    return read_part(*schema_->key, text, key, false, key_json_);
}

std::optional<std::string> entry_codec::read_value(std::string_view text, std::span<std::byte> value) const {
    if (!schema_->value) return "the segment has no values";
    return read_part(*schema_->value, text, value, false, value_json_);
}

std::optional<std::string> entry_codec::change_value(std::string_view text, std::span<std::byte> value) const {
    if (!schema_->value) return "the segment has no values";
    return read_part(*schema_->value, text, value, true, value_json_);
}

}  // namespace holdfast::inspect
