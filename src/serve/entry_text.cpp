// SPDX-License-Identifier: Apache-2.0
#include "serve/entry_text.hpp"

#include <cstring>

#include "holdfast/record/add_to.hpp"
#include "serve/failure.hpp"

namespace holdfast::serve {

namespace {

const record_schema& value_schema(const container_schema& schema, const std::string& uri) {
    if (!schema.value) throw failure{404, uri + " has keys without values"};
    return *schema.value;
}

}  // namespace

entry_text::entry_text(const container_schema& schema, const std::string& uri)
    : codec_(schema), values_(value_schema(schema, uri)), entries_(schema), tags_(schema) {
    key_.resize(codec_.key_bytes());
    other_key_.resize(codec_.key_bytes());
    wanted_.resize(codec_.value_bytes());
}

void entry_text::read_key(std::string_view text) {
    if (const auto reason = codec_.read_key(text, key_))
        throw failure{400, "key " + std::string(text) + ": " + *reason};
}

void entry_text::read_value(std::string_view body) {
    const auto of_value = values_.read(body, wanted_);
    if (!of_value) return;
    if (const auto of_entry = entries_.read(body, other_key_, wanted_))
        throw failure{400, "the body: " + (of_entry->position > of_value->position ? *of_entry : *of_value).message()};
    if (other_key_ != key_) throw failure{400, "the body has another key than the path"};
}

const field& entry_text::counted_field(std::string_view body, std::int64_t& by) const {
    struct request {
        char field[128];
        std::int64_t by;
    } asked{};
    static const record_schema schema = record_schema::parse_list("field:char[128],by:i64");
    static_assert(sizeof asked == 136 && field_name_max == sizeof asked.field);
    inspect::record_json_reader reader(schema);
    if (const auto reason = reader.read(body, std::as_writable_bytes(std::span(&asked, 1))))
        throw failure{400, "the body is not {\"field\": NAME, \"by\": NUMBER}: " + reason->message()};
    const std::string name(asked.field, ::strnlen(asked.field, sizeof asked.field));
    const field* const found = codec_.schema().value->find(name);
    if (found == nullptr) throw failure{400, "the table's values have no field " + name};
    if (!detail::is_countable(*found)) throw failure{400, "field " + name + " is no integer to count in"};
    by = asked.by;
    return *found;
}

}  // namespace holdfast::serve
