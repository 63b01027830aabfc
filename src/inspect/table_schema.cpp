// SPDX-License-Identifier: Apache-2.0
#include "inspect/table_schema.hpp"

#include "holdfast/error.hpp"
#include "holdfast/layout/sorted_index_layout.hpp"

namespace holdfast::inspect {

namespace {

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, "schema", why); }

[[nodiscard]] std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

/// One item of the friendly spelling.
struct item {
    std::string_view declaration;  // name:type
    bool key = false;
    bool end = false;
};

[[nodiscard]] item read_item(std::string_view text) {
    item result;
    text = trimmed(text);
    const std::size_t last = text.rfind(':');
    const std::string_view role = last == std::string_view::npos ? std::string_view() : trimmed(text.substr(last + 1));
    // `x:key` would be a field of type `key`, which there is not: a role stands third.
    const bool third = last != std::string_view::npos && text.substr(0, last).find(':') != std::string_view::npos;
    result.key = third && role == "key";
    result.end = third && role == "end";
    if (third && !result.key && !result.end)
        refuse("'" + std::string(role) + "' is no role of a field; there are key and end, as in low:ipv4:key");
    result.declaration = third ? trimmed(text.substr(0, last)) : text;
    return result;
}

[[nodiscard]] std::vector<item> read_items(std::string_view text) {
    std::vector<item> items;
    bool any_key = false;
    for (;;) {
        const std::size_t comma = text.find(',');
        items.push_back(read_item(text.substr(0, comma)));
        any_key |= items.back().key;
        if (comma == std::string_view::npos) break;
        text.remove_prefix(comma + 1);
    }
    if (!any_key) items.front().key = true;
    return items;
}

void join(std::string& list, std::string_view declaration) {
    if (!list.empty()) list += ',';
    list += declaration;
}

[[nodiscard]] table_schema parse_friendly(std::string_view text) {
    std::string key;
    std::string value;
    std::optional<std::string> end;
    for (const item& i : read_items(text)) {
        if (i.key && i.end) refuse("a field cannot be key and end of the range at once");
        join(i.key ? key : value, i.declaration);
        if (!i.end) continue;
        if (end) refuse("two fields have the role end; a range has one");
        end = std::string(trimmed(i.declaration.substr(0, i.declaration.find(':'))));
    }
    container_schema schema;
    schema.key = record_schema::parse_list(key);
    if (!value.empty()) schema.value = record_schema::parse_list(value);
    return table_schema::make(std::move(schema), std::move(end));
}

[[nodiscard]] table_schema parse_canonical(std::string_view text) {
    std::optional<std::string> end;
    constexpr std::string_view end_mark = " end=";
    if (const std::size_t at = text.rfind(end_mark); at != std::string_view::npos && at > text.rfind('}')) {
        end = std::string(text.substr(at + end_mark.size()));
        text = text.substr(0, at);
    }
    std::string lines(text);
    constexpr std::string_view value_mark = " value {";
    if (const std::size_t at = lines.find(value_mark); at != std::string::npos) lines[at] = '\n';
    return table_schema::make(container_schema::parse(lines), std::move(end));
}

[[nodiscard]] bool is_natural(const record_schema& part) {
    std::string list;
    for (const field& f : part.fields()) join(list, f.name + ":" + type_text(f));
    return record_schema::parse_list(list).text() == part.text();
}

}  // namespace

table_schema table_schema::parse(std::string_view text) {
    return text.starts_with("key {") ? parse_canonical(text) : parse_friendly(text);
}

table_schema table_schema::make(container_schema schema, std::optional<std::string> range_end) {
    if (!schema.key) refuse("there is no key; name one field as such, as in id:u64:key");
    if (schema.key->bytes() > layout::sorted_index_key_bytes_max ||
        (schema.value && schema.value->bytes() > layout::sorted_index_value_bytes_max))
        refuse("a key has at most 4096 bytes and a value 16 MiB; take smaller fields");
    (void)schema.text();  // refuses names that stand in both parts, and texts that are too long
    if (range_end) {
        const field* const end = schema.value ? schema.value->find(*range_end) : nullptr;
        const std::vector<field>& key = schema.key->fields();
        if (end == nullptr) refuse("the range's end " + *range_end + " is no field of the value");
        if (key.size() != 1) refuse("a range needs a key of one field; this one has " + std::to_string(key.size()));
        if (type_text(*end) != type_text(key[0]))
            refuse("the range's end " + *range_end + " is " + type_text(*end) + " where the key is " +
                   type_text(key[0]) + "; give both the same type");
    }
    return {std::move(schema), std::move(range_end)};
}

bool table_schema::natural() const { return is_natural(*schema.key) && (!schema.value || is_natural(*schema.value)); }

std::vector<std::string> table_schema::headings() const {
    std::vector<std::string> all;
    for (const table_column& column : columns_of(schema)) {
        std::string text = column.what->name + ":" + type_text(*column.what);
        if (column.in_key) text += ":key";
        if (range_end && *range_end == column.what->name) text += ":end";
        all.push_back(std::move(text));
    }
    return all;
}

std::string table_schema::text() const {
    std::string out;
    if (natural()) {
        for (const std::string& heading : headings()) join(out, heading);
        return out;
    }
    out = schema.text();
    if (const std::size_t line = out.find('\n'); line != std::string::npos) out[line] = ' ';
    if (range_end) out += " end=" + *range_end;
    return out;
}

std::vector<table_column> columns_of(const container_schema& schema) {
    std::vector<table_column> columns;
    if (schema.key)
        for (const field& f : schema.key->fields()) columns.push_back({&f, true});
    if (schema.value)
        for (const field& f : schema.value->fields()) columns.push_back({&f, false});
    return columns;
}

table_column column_of(const container_schema& schema, std::string_view name) {
    std::string known;
    for (const table_column& column : columns_of(schema)) {
        if (column.what->name == name) return column;
        join(known, column.what->name);
    }
    throw error(errc::invalid_argument, "field " + detail::quoted(name), "is not in the record; there are " + known);
}

}  // namespace holdfast::inspect
