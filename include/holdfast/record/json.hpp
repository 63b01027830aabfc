// SPDX-License-Identifier: Apache-2.0
// json.hpp - a record, or an entry of key and value, as one flat JSON object.
//
//   integers, finite floats   JSON numbers. 64-bit integers too: exact in every reader that keeps them (Python, Go,
//   jq 1.7,
//                             ours); one that makes doubles of all numbers loses digits beyond 2^53
//   NaN, Infinity, -Infinity  strings, which JSON can carry and null would lose; read back only for floats
//   bool, enum                true/false; the name as a string, or the number where there is none
//   text, bytes, addresses, timestamps   strings, as record/text.hpp writes them, but controls, DEL and C1 among them,
//   as \u00HH arrays                    arrays nested records            dotted names: {"line.from.x":1}
//
// Names are ASCII (schema.hpp), so none needs escaping; bytes in char[N] are made valid UTF-8 (record/fixed_text.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/record/field.hpp"
#include "holdfast/record/schema.hpp"
#include "holdfast/record/text.hpp"

namespace holdfast {

/// Appends text that is valid UTF-8 as a JSON string with its quotes (RFC 8259 section 7).
inline void append_json_string(std::string& out, std::string_view text) {
    out += '"';
    while (!text.empty()) {
        const std::size_t bytes = std::max<std::size_t>(detail::utf8_bytes(text), 1);
        detail::append_json_character(out, text.substr(0, bytes));
        text.remove_prefix(bytes);
    }
    out += '"';
}

namespace detail {

[[nodiscard]] inline bool is_finite(const field& f, const std::byte* at) noexcept {
    return f.type == field_type::f32 ? std::isfinite(load<float>(at)) : std::isfinite(load<double>(at));
}

/// Whether a character stands for itself in JSON and in escaped text alike.
[[nodiscard]] constexpr bool is_plain_json(char c) noexcept { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; }

inline void append_json_element(std::string& out, const field& f, const std::byte* at) {
    if (f.type == field_type::text) {
        const std::string_view fixed = view_text({reinterpret_cast<const char*>(at), f.bytes});
        if (std::all_of(fixed.begin(), fixed.end(), is_plain_json)) {  // nearly every text there is
            out += '"';
            out += fixed;
            out += '"';
            return;
        }
        std::string text;
        append_escaped(text, {reinterpret_cast<const char*>(at), f.bytes}, false);
        return append_json_string(out, text);
    }
    const bool bare = f.type == field_type::boolean || (is_integer(f.type) && find_enumerator(f, at) == nullptr) ||
                      (is_float(f.type) && is_finite(f, at));
    if (!bare) out += '"';
    append_element(out, f, at, false);
    if (!bare) out += '"';
}

}  // namespace detail

/// Appends a field's value as JSON. Requires: as append_text.
inline void append_json(std::string& out, const field& f, const std::byte* record) {
    const std::byte* at = record + f.offset;
    if (f.count == 1) return detail::append_json_element(out, f, at);
    for (std::uint32_t i = 0; i < f.count; ++i, at += f.bytes) {
        out += i == 0 ? '[' : ',';
        detail::append_json_element(out, f, at);
    }
    out += ']';
}

/// Writes records of one schema as JSON objects; made once, used for many.
/// Threads: append from any number of them at once.
class json_writer {
 public:
    /// All fields, or those named in `fields` in that order. Throws: error(invalid_argument) for a name that is not
    /// there.
    explicit json_writer(const record_schema& schema, std::span<const std::string_view> fields = {}) {
        add_part(&schema, nullptr, fields);
    }
    /// Keys' fields before values'. Throws: as above, and if the schema cannot be a container's
    /// (container_schema::text).
    explicit json_writer(const container_schema& schema, std::span<const std::string_view> fields = {}) {
        if (const std::string problem = detail::container_problem(schema); !problem.empty())
            throw error(errc::invalid_argument, "schema", problem);
        add_part(schema.key ? &*schema.key : nullptr, schema.value ? &*schema.value : nullptr, fields);
    }

    /// Appends one object. For a schema with one part, that is `first`; for an entry, key and value.
    /// Throws: error(invalid_argument) if the bytes are fewer than the schema's.
    void append(std::string& out, std::span<const std::byte> first, std::span<const std::byte> second = {}) const {
        if (first.size() < bytes_[0] || second.size() < bytes_[1])
            throw error(errc::invalid_argument, "record", "has fewer bytes than its schema says");
        const std::byte* const records[2] = {first.data(), second.data()};
        out += '{';
        for (const column& c : columns_) {
            out += c.label;
            append_json(out, c.what, records[c.part]);
        }
        out += '}';
    }

 private:
    struct column {
        std::string label;  // "name": with the comma before it
        field what;
        std::size_t part;
    };

    void add(const field& f, std::size_t part) {
        columns_.push_back({detail::concat(columns_.empty() ? "\"" : ",\"", f.name, "\":"), f, part});
    }

    void add_part(const record_schema* key, const record_schema* value, std::span<const std::string_view> fields) {
        std::vector<const record_schema*> parts;
        for (const record_schema* part : {key, value})
            if (part != nullptr) parts.push_back(part);
        for (std::size_t i = 0; i < parts.size(); ++i) {
            bytes_[i] = parts[i]->bytes();
            if (!fields.empty()) continue;
            for (const field& f : parts[i]->fields()) add(f, i);
        }
        for (const std::string_view name : fields) select(parts, name);
    }

    void select(const std::vector<const record_schema*>& parts, std::string_view name) {
        for (const column& c : columns_)
            if (c.what.name == name)
                throw error(errc::invalid_argument, detail::concat("field ", detail::quoted(name)),
                            "is asked for twice");
        for (std::size_t i = 0; i < parts.size(); ++i)
            if (const field* const f = parts[i]->find(name)) return add(*f, i);
        std::string known;
        for (const record_schema* part : parts)
            for (const field& f : part->fields()) known += (known.empty() ? "" : ", ") + f.name;
        throw error(errc::invalid_argument, detail::concat("field ", detail::quoted(name)),
                    detail::concat("is not in the record; there are ", known));
    }

    std::vector<column> columns_;
    std::size_t bytes_[2] = {0, 0};
};

/// Appends one record as a JSON object; see json_writer, which is cheaper for many.
inline void append_json(std::string& out, const record_schema& schema, std::span<const std::byte> record,
                        std::span<const std::string_view> fields = {}) {
    json_writer(schema, fields).append(out, record);
}

/// Appends one entry, key and value flattened into a JSON object; see json_writer, which is cheaper for many.
inline void append_json(std::string& out, const container_schema& schema, std::span<const std::byte> key,
                        std::span<const std::byte> value, std::span<const std::string_view> fields = {}) {
    const json_writer writer(schema, fields);
    if (schema.key)
        writer.append(out, key, value);
    else
        writer.append(out, value);
}

}  // namespace holdfast
