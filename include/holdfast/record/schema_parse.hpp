// SPDX-License-Identifier: Apache-2.0
// schema_parse.hpp - schemas from text: the canonical form out of a segment, the friendly form from a command line.
//
// Every count and size is bounded before it is used; nothing is allocated beyond a small multiple of the text's size,
// which schema_text_max bounds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/record/schema.hpp"

namespace holdfast {

namespace detail {

/// Makes bytes from outside fit for a message: printable ASCII, at most 32 bytes.
[[nodiscard]] inline std::string quoted(std::string_view text) {
    constexpr std::string_view hex = "0123456789abcdef";
    std::string out = "'";
    for (const char c : text.substr(0, 32)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f) {
            out += c;
        } else {
            out += "\\x";
            out += hex[byte >> 4];
            out += hex[byte & 15];
        }
    }
    out += text.size() > 32 ? "...'" : "'";
    return out;
}

/// Reads schema text from left to right; every refusal names the byte where it stood.
class schema_scanner {
 public:
    schema_scanner(std::string_view text, errc refusal, bool blanks) : text_(text), refusal_(refusal), blanks_(blanks) {
        if (text.size() > schema_text_max) fail("is longer than 2560 bytes");
    }

    [[noreturn]] void fail(const std::string& what) const {
        throw error(refusal_, "schema", concat("at byte ", at_, ": ", what));
    }

    [[nodiscard]] bool done() {
        skip_blanks();
        return at_ == text_.size();
    }
    [[nodiscard]] bool accept(char c) {
        skip_blanks();
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!accept(c)) fail(concat("expected '", c, "', found ", next()));
    }
    void expect(std::string_view word) {
        if (!text_.substr(at_).starts_with(word)) fail(concat("expected '", word, "', found ", next()));
        at_ += word.size();
    }

    [[nodiscard]] std::string_view name() {
        skip_blanks();
        const std::size_t begin = at_;
        while (at_ < text_.size() && is_name_part(text_[at_])) ++at_;
        const std::string_view found = text_.substr(begin, at_ - begin);
        if (found.empty()) fail(concat("expected a name, found ", next()));
        if (!is_field_name(found))
            fail(concat(quoted(found), " is no name: it must match [A-Za-z_][A-Za-z0-9_.]*, 128 bytes"));
        return found;
    }

    /// An integer in decimal without leading zeros or "-0", so that it has one spelling.
    [[nodiscard]] std::int64_t number(std::int64_t low, std::int64_t high) {
        skip_blanks();
        const std::size_t begin = at_;
        if (low < 0 && at_ < text_.size() && text_[at_] == '-') ++at_;
        const std::size_t digits = at_;
        while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
        std::int64_t value = 0;
        const char* const end = text_.data() + at_;
        const auto [ptr, status] = std::from_chars(text_.data() + begin, end, value);
        if (status != std::errc() || ptr != end || value < low || value > high)
            fail(concat("expected a number from ", low, " to ", high));
        if (text_[digits] == '0' && at_ - begin > 1) fail("a number has no leading zeros");
        return value;
    }

    [[nodiscard]] std::string next() const { return at_ == text_.size() ? "the end" : quoted(text_.substr(at_, 1)); }

 private:
    void skip_blanks() {
        while (blanks_ && at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    }
    std::string_view text_;
    std::size_t at_ = 0;
    errc refusal_;
    bool blanks_;
};

[[nodiscard]] inline const type_facts* find_type(std::string_view name) noexcept {
    for (const type_facts& facts : type_table)
        if (facts.name == name) return &facts;
    return nullptr;
}

inline void scan_enumerators(schema_scanner& in, field& f) {
    if (!in.accept('<')) return;
    if (!is_integer(f.type)) in.fail("only integer types have enumerators");
    const auto [low, high] = integer_range(f.type);
    do {
        enumerator e;
        e.name = in.name();
        in.expect('=');
        e.value = in.number(low, high);
        f.enumerators.push_back(std::move(e));
    } while (in.accept('|'));
    in.expect('>');
}

/// `name:type`, to which the canonical form adds `@offset`.
[[nodiscard]] inline field scan_field(schema_scanner& in, bool canonical) {
    field f;
    f.name = in.name();
    in.expect(':');
    const std::string_view type = in.name();
    const type_facts* const facts = find_type(type);
    if (facts == nullptr)
        in.fail(concat(
            quoted(type),
            " is no type; there are u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool char[N] bytes[N] ipv4 ipv6 timestamp"));
    f.type = facts->type;
    scan_enumerators(in, f);
    const bool extent = in.accept('[');
    const std::uint32_t n = extent ? static_cast<std::uint32_t>(in.number(1, record_bytes_max)) : 1;
    if (extent) in.expect(']');
    if (facts->bytes == 0) {
        if (!extent) in.fail(concat("type ", facts->name, " needs its size: ", facts->name, "[N]"));
        f.bytes = n;
    } else {
        if (canonical && extent && n == 1) in.fail("an extent of 1 is not written");
        f.bytes = facts->bytes;
        f.count = n;
    }
    return f;
}

/// `{name:type@offset,...}#bytes[/alignment]`.
[[nodiscard]] inline record_schema scan_record(schema_scanner& in, errc refusal) {
    std::vector<field> fields;
    in.expect('{');
    std::uint64_t end = 0;
    do {
        if (fields.size() == schema_fields_max) in.fail("more than 64 fields");
        field f = scan_field(in, true);
        in.expect('@');
        f.offset = static_cast<std::uint32_t>(in.number(0, record_bytes_max));
        if (f.offset < end) in.fail(concat("field ", f.name, " overlaps the one before it or stands before it"));
        end = f.offset + f.total_bytes();
        fields.push_back(std::move(f));
    } while (in.accept(','));
    in.expect('}');
    in.expect('#');
    const auto bytes = static_cast<std::uint32_t>(in.number(1, record_bytes_max));
    std::uint32_t alignment = 0;
    if (in.accept('/')) {
        alignment = static_cast<std::uint32_t>(in.number(1, record_alignment_max));
        if (alignment == natural_alignment(fields)) in.fail("the fields' own alignment is not written");
    }
    return {std::move(fields), bytes, alignment, false, refusal};
}

/// `name:type,name:type,...` laid out as C++ lays out a struct.
[[nodiscard]] inline record_schema scan_list(schema_scanner& in) {
    std::vector<field> fields;
    std::uint64_t end = 0;
    do {
        if (fields.size() == schema_fields_max) in.fail("more than 64 fields");
        field f = scan_field(in, false);
        const std::uint64_t alignment = facts_of(f.type).alignment;
        const std::uint64_t offset = (end + alignment - 1) / alignment * alignment;
        end = offset + f.total_bytes();
        if (end > record_bytes_max) in.fail("the record is larger than 1 GiB");
        f.offset = static_cast<std::uint32_t>(offset);
        fields.push_back(std::move(f));
    } while (in.accept(','));
    if (!in.done()) in.fail(concat("expected ',' or the end, found ", in.next()));
    const std::uint64_t alignment = natural_alignment(fields);
    // 1 GiB is a multiple of every alignment, so rounding up stays within it.
    const std::uint64_t bytes = (end + alignment - 1) / alignment * alignment;
    return {std::move(fields), static_cast<std::uint32_t>(bytes)};
}

}  // namespace detail

inline record_schema record_schema::parse(std::string_view text) {
    detail::schema_scanner in(text, errc::schema_mismatch, false);
    record_schema schema = detail::scan_record(in, errc::schema_mismatch);
    if (!in.done()) in.fail("something follows the schema");
    return schema;
}

inline record_schema record_schema::parse_list(std::string_view text) {
    const bool canonical = text.starts_with('{');
    detail::schema_scanner in(text, errc::invalid_argument, !canonical);
    if (!canonical) return detail::scan_list(in);
    record_schema schema = detail::scan_record(in, errc::invalid_argument);
    if (!in.done()) in.fail("something follows the schema");
    return schema;
}

inline container_schema container_schema::parse(std::string_view text) {
    container_schema schema;
    detail::schema_scanner in(text, errc::schema_mismatch, false);
    const bool keyed = text.starts_with("key ");
    if (keyed) {
        in.expect("key ");
        schema.key = detail::scan_record(in, errc::schema_mismatch);
    }
    if (!keyed || !in.done()) {
        if (keyed && !in.accept('\n')) in.fail(detail::concat("expected a new line, found ", in.next()));
        in.expect("value ");
        schema.value = detail::scan_record(in, errc::schema_mismatch);
    }
    if (!in.done()) in.fail("something follows the schema");
    const std::string problem = detail::container_problem(schema);
    if (!problem.empty()) throw error(errc::schema_mismatch, "schema", problem);
    return schema;
}

}  // namespace holdfast
