// SPDX-License-Identifier: Apache-2.0
// The parser validates what it passes over, and everything of the text is passed over: fields are visited one by one,
// each is known and converted, or reading stops. Numbers are converted from their own characters by the schema's rules,
// so that a float is rounded once and a 64-bit integer never becomes a double.
#include "inspect/record_json.hpp"

#include <simdjson.h>

#include <algorithm>
#include <bitset>
#include <utility>
#include <vector>

#include "holdfast/detail/concat.hpp"
#include "holdfast/record/text.hpp"
#include "inspect/json_keys.hpp"

namespace holdfast::inspect {

namespace {

namespace ondemand = simdjson::ondemand;
using detail::concat;
using detail::quoted;

/// A failure on its way out of the parser's loops; caught in read().
struct refusal {
    std::string reason;
    std::optional<std::size_t> position;
};

[[noreturn]] void refuse(std::string reason, std::optional<std::size_t> position = std::nullopt) {
    throw refusal{std::move(reason), position};
}

/// What the parser says, for people.
[[noreturn]] void refuse(simdjson::error_code code) {
    switch (code) {
        case simdjson::EMPTY: refuse("expected an object, found nothing");
        case simdjson::INCORRECT_TYPE: refuse("expected an object");
        case simdjson::UTF8_ERROR: refuse("is not valid UTF-8");
        case simdjson::UNCLOSED_STRING: refuse("a string is not closed");
        case simdjson::STRING_ERROR: refuse("a string has an escape that JSON does not know");
        default: refuse("is not valid JSON");
    }
}

template <class T>
T need(simdjson::simdjson_result<T>&& result) {
    T value{};
    if (const simdjson::error_code code = std::move(result).get(value)) refuse(code);
    return value;
}

/// RFC 8259 section 6. The parser hands out the characters up to the next token unchecked.
[[nodiscard]] bool is_json_number(std::string_view text) noexcept {
    const auto digits = [&text] {
        const std::size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
        text.remove_prefix(n);
        return n;
    };
    if (text.starts_with('-')) text.remove_prefix(1);
    const bool zero = text.starts_with('0');
    const std::size_t whole = digits();
    if (whole == 0 || (zero && whole > 1)) return false;
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        if (digits() == 0) return false;
    }
    if (text.starts_with('e') || text.starts_with('E')) {
        text.remove_prefix(1);
        if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
        if (digits() == 0) return false;
    }
    return text.empty();
}

[[nodiscard]] std::string_view number_token(ondemand::value& value) {
    std::string_view token = value.raw_json_token();
    const std::size_t end = token.find_last_not_of(" \t\r\n");
    token = token.substr(0, end == std::string_view::npos ? 0 : end + 1);
    if (!is_json_number(token)) refuse(concat(quoted(token), " is not a JSON number"));
    return token;
}

void convert(const field& f, std::string_view text, std::byte* at) {
    if (auto why = detail::parse_element(f, text, at)) refuse(std::move(*why));
}

void read_string(const field& f, std::string_view text, std::byte* at) {
    if (detail::is_float(f.type) && text != "NaN" && text != "Infinity" && text != "-Infinity")
        refuse(concat("needs a number, or \"NaN\", \"Infinity\" or \"-Infinity\", not ", quoted(text)));
    if (detail::is_integer(f.type)) {
        if (f.enumerators.empty()) refuse("needs a number, not a string");
        const bool known = std::any_of(f.enumerators.begin(), f.enumerators.end(),
                                       [text](const enumerator& e) { return e.name == text; });
        if (!known) refuse(concat(quoted(text), " is no name of ", type_text(f)));
    }
    if (f.type == field_type::boolean) refuse("needs true or false, not a string");
    convert(f, text, at);
}

void read_element(const field& f, ondemand::value value, std::byte* at) {
    const bool takes_number = detail::is_integer(f.type) || detail::is_float(f.type) || f.type == field_type::ipv4;
    switch (need(value.type())) {
        case ondemand::json_type::string: return read_string(f, need(value.get_string()), at);
        case ondemand::json_type::number:
            if (!takes_number)
                refuse(
                    concat(f.type == field_type::boolean ? "needs true or false" : "needs a string", ", not a number"));
            return convert(f, number_token(value), at);
        case ondemand::json_type::boolean:
            if (f.type != field_type::boolean)
                refuse(concat(takes_number ? "needs a number" : "needs a string", ", not true or false"));
            return convert(f, need(value.get_bool()) ? "true" : "false", at);
        case ondemand::json_type::null: {
            if (!need(value.is_null())) refuse("is not valid JSON");
            refuse("needs a value, not null");
        }
        case ondemand::json_type::array: refuse("needs one value, not an array");
        case ondemand::json_type::object: refuse("needs a value, not an object; nested fields have dotted names");
    }
    refuse("is not valid JSON");
}

void read_field(const field& f, ondemand::value value, std::byte* record) {
    std::byte* at = record + f.offset;
    if (f.count == 1) return read_element(f, value, at);
    if (need(value.type()) != ondemand::json_type::array) refuse(concat("needs an array of ", f.count));
    std::uint32_t n = 0;
    for (auto element : need(value.get_array())) {
        if (n == f.count) refuse(concat("has more elements than ", type_text(f)));
        try {
            read_element(f, need(std::move(element)), at + std::size_t{n} * f.bytes);
        } catch (refusal& r) {
            r.reason = concat("element ", n + 1, ": ", r.reason);
            throw;
        }
        ++n;
    }
    if (n < f.count) refuse(concat("has fewer elements than ", type_text(f)));
}

struct column {
    field what;
    std::size_t part;
};

}  // namespace

struct record_json_reader::state {
    std::vector<column> columns;
    std::size_t bytes[2] = {0, 0};
    ondemand::parser parser;
    std::string padded;
    std::string field;  // being read, for the failure

    void add_part(const record_schema& schema, std::size_t part) {
        bytes[part] = schema.bytes();
        for (const holdfast::field& f : schema.fields()) columns.push_back({f, part});
    }

    /// The column of that name. Objects mostly have their fields in the schema's order: `hint` is the next of it.
    [[nodiscard]] std::size_t find(std::string_view name, std::size_t hint) const {
        if (hint < columns.size() && columns[hint].what.name == name) return hint;
        for (std::size_t i = 0; i < columns.size(); ++i)
            if (columns[i].what.name == name) return i;
        return columns.size();
    }

    [[nodiscard]] std::size_t offset_of(const char* at) const noexcept {
        return at >= padded.data() && at <= padded.data() + padded.size() ? static_cast<std::size_t>(at - padded.data())
                                                                          : padded.size();
    }

    void read_object(ondemand::document& document, std::byte* const (&records)[2]);
    void refuse_missing(const std::bitset<2 * schema_fields_max>& seen) const;
};

void record_json_reader::state::refuse_missing(const std::bitset<2 * schema_fields_max>& seen) const {
    std::string missing;
    for (std::size_t i = 0; i < columns.size(); ++i)
        if (!seen[i]) missing += concat(missing.empty() ? "" : ", ", columns[i].what.name);
    refuse(concat("lacks ", missing), padded.size());
}

void record_json_reader::state::read_object(ondemand::document& document, std::byte* const (&records)[2]) {
    std::bitset<2 * schema_fields_max> seen;
    std::size_t next = 0;
    for (auto item : need(document.get_object())) {
        ondemand::field pair = need(std::move(item));
        const char* const key_at = pair.key().raw() - 1;
        const std::string_view name = need(pair.unescaped_key());
        const std::size_t i = find(name, next);
        if (i == columns.size()) refuse(concat("has no field ", quoted(name)), offset_of(key_at));
        field = columns[i].what.name;
        if (seen[i]) refuse("is given twice", offset_of(key_at));
        seen.set(i);
        ondemand::value value = pair.value();
        const std::size_t value_at = offset_of(need(value.current_location()));
        try {
            read_field(columns[i].what, value, records[columns[i].part]);
        } catch (refusal& r) {
            if (!r.position) r.position = value_at;
            throw;
        }
        field.clear();
        next = i + 1;
    }
    const char* rest = nullptr;  // a location is refused only at the end of the text
    if (document.current_location().get(rest) != simdjson::OUT_OF_BOUNDS)
        refuse("something follows the object", offset_of(rest));
    if (seen.count() < columns.size()) refuse_missing(seen);
}

std::string json_failure::message() const {
    return field.empty() ? concat("at byte ", position, ": ", reason)
                         : concat("field ", field, " at byte ", position, ": ", reason);
}

record_json_reader::record_json_reader(const record_schema& schema) : state_(std::make_unique<state>()) {
    state_->add_part(schema, 0);
}

record_json_reader::record_json_reader(const container_schema& schema) : state_(std::make_unique<state>()) {
    static_cast<void>(schema.text());  // throws unless names are unique and a part is there
    std::size_t part = 0;
    if (schema.key) state_->add_part(*schema.key, part++);
    if (schema.value) state_->add_part(*schema.value, part);
}

record_json_reader::record_json_reader(record_json_reader&&) noexcept = default;
record_json_reader& record_json_reader::operator=(record_json_reader&&) noexcept = default;
record_json_reader::~record_json_reader() = default;

std::optional<json_failure> record_json_reader::read(std::string_view json, std::span<std::byte> first,
                                                     std::span<std::byte> second) {
    state& s = *state_;
    if (first.size() != s.bytes[0] || second.size() != s.bytes[1])
        throw error(errc::invalid_argument, "record", "has another size than its schema says");
    std::fill(first.begin(), first.end(), std::byte{0});
    std::fill(second.begin(), second.end(), std::byte{0});
    s.field.clear();
    s.padded.assign(json);
    s.padded.reserve(json.size() + simdjson::SIMDJSON_PADDING);
    std::size_t at = 0;  // where the parser stands, for failures that know no better place
    try {
        ondemand::document document = need(s.parser.iterate(s.padded.data(), s.padded.size(), s.padded.capacity()));
        try {
            s.read_object(document, {first.data(), second.data()});
        } catch (const refusal&) {
            const char* stands = nullptr;
            at = document.current_location().get(stands) ? s.padded.size() : s.offset_of(stands);
            throw;
        }
        return std::nullopt;
    } catch (refusal& r) {
        return json_failure{std::move(s.field), r.position.value_or(at), std::move(r.reason)};
    }
}

std::optional<std::vector<std::string>> parse_json_keys(std::string_view json, std::size_t keys_max, std::string& why) {
    const auto wrong = [&](std::string reason) {
        why = std::move(reason);
        return std::nullopt;
    };
    simdjson::dom::parser parser;
    simdjson::dom::element document;
    if (parser.parse(json.data(), json.size()).get(document)) return wrong("the body is not valid JSON");
    simdjson::dom::object object;
    simdjson::dom::array keys;
    if (document.get(object) || object["keys"].get(keys))
        return wrong("the body must be an object with a list: {\"keys\": [...]}");
    if (object.size() != 1) return wrong("the body must have one member, \"keys\", once; remove the others");
    std::vector<std::string> texts;
    for (const simdjson::dom::element key : keys) {
        if (texts.size() == keys_max) return wrong(concat("a list has at most ", keys_max, " keys; split it"));
        std::string_view text;
        if (!key.get(text))
            texts.emplace_back(text);
        else if (key.is_number())
            texts.push_back(simdjson::minify(key));
        else
            return wrong(concat("key ", texts.size(), " is neither a string nor a number"));
    }
    return texts;
}

}  // namespace holdfast::inspect
