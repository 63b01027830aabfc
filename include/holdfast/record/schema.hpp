// SPDX-License-Identifier: Apache-2.0
// schema.hpp - what a record looks like, as data: known at run time, written into every segment, read by everything
// that knows no C++ type.
//
// Canonical text (a public format; it lies in the segment's header and is hashed):
//   record     {name:type@offset,name:type@offset}#bytes          fields by ascending offset, no blanks
//              {...}#bytes/alignment                              only where alignas made it other than the fields' own
//   container  key RECORD '\n' value RECORD                       either part may be missing, never both
//   name       [A-Za-z_][A-Za-z0-9_.]*                            dots join a nested record's name to its fields'
//   type       as record/field.hpp spells it
//
// (I1) Every record_schema that exists is valid: 1 to 64 fields, inside the record's bytes, none overlapping another,
//      names well formed and unique, text no longer than schema_text_max. Whatever made it has checked that.
// (I2) parse(text()) gives an equal schema and parse refuses every text that is not some schema's text(): one schema,
//      one text, one hash.
// Text from a segment is input: parsing is linear in its (bounded) size but for names, which are compared pairwise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/detail/concat.hpp"
#include "holdfast/error.hpp"
#include "holdfast/record/field.hpp"

namespace holdfast {

inline constexpr std::size_t schema_fields_max = 64;
inline constexpr std::size_t schema_text_max = 2560;
inline constexpr std::size_t field_name_max = 128;
inline constexpr std::uint32_t record_bytes_max = 1U << 30;
inline constexpr std::uint32_t record_alignment_max = 4096;

/// The fields of a record, their places, and the record's size: enough to read and write one without its C++ type.
class record_schema {
 public:
    /// Checks and takes the fields, which are sorted by offset. alignment 0 means the fields' own.
    /// Throws: error(refusal) naming what breaks I1.
    record_schema(std::vector<field> fields, std::uint32_t bytes, std::uint32_t alignment = 0, bool scalar = false,
                  errc refusal = errc::invalid_argument);

    [[nodiscard]] const std::vector<field>& fields() const noexcept { return fields_; }
    /// Size of the record, C++'s sizeof, trailing padding included.
    [[nodiscard]] std::uint32_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::uint32_t alignment() const noexcept { return alignment_; }
    /// Whether the C++ type was a scalar, whose field's name is of no account. Unknown to a parsed text: false.
    [[nodiscard]] bool scalar() const noexcept { return scalar_; }
    /// The canonical text.
    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    /// FNV-1a of the canonical text.
    [[nodiscard]] std::uint64_t hash() const noexcept;
    [[nodiscard]] const field* find(std::string_view name) const noexcept;

    /// Reads a canonical text, trusting nothing. Throws: error(schema_mismatch) with the position of what is wrong.
    [[nodiscard]] static record_schema parse(std::string_view text);
    /// Reads what a person types: `low:ipv4,high:ipv4,country:char[2]`, blanks allowed, laid out as C++ would; or a
    /// canonical text. Throws: error(invalid_argument) with the position of what is wrong.
    [[nodiscard]] static record_schema parse_list(std::string_view text);

    friend bool operator==(const record_schema& a, const record_schema& b) noexcept { return a.text_ == b.text_; }

 private:
    [[nodiscard]] std::string problem() const;
    [[nodiscard]] std::string settle_alignment();
    void write_text();

    std::vector<field> fields_;
    std::uint32_t bytes_;
    std::uint32_t alignment_;
    bool scalar_;
    std::string text_;
};

/// How a stored schema stands to the one a program was compiled with.
enum class schema_relation {
    same,
    stored_has_more_fields_at_end,  ///< readers may go on with the fields they know; a writer would lose the others
    different,
};

/// Compares what a segment holds with what a program wants. `why` gets a sentence with both schemas unless they are the
/// same. Fields must agree in name, type, offset and enumerators; a scalar's name is of no account.
[[nodiscard]] schema_relation compare(const record_schema& stored, const record_schema& wanted, std::string& why);

/// The schema of a container: of its keys, of its values, or of both.
struct container_schema {
    std::optional<record_schema> key;
    std::optional<record_schema> value;

    /// The canonical text. Throws: error(invalid_argument) if it is too long for a segment, has no part, or a name is
    /// in both parts (an entry is one flat JSON object, so names must differ).
    [[nodiscard]] std::string text() const;
    /// Throws: error(schema_mismatch) with the position of what is wrong.
    [[nodiscard]] static container_schema parse(std::string_view text);
    [[nodiscard]] std::uint64_t hash() const;
};

/// As for records; keys must be the same, since their bytes are hashed or ordered whole.
[[nodiscard]] schema_relation compare(const container_schema& stored, const container_schema& wanted, std::string& why);

namespace detail {

/// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/. Tells schemas apart; no defence against forgery.
[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return hash;
}

[[nodiscard]] constexpr bool is_name_start(char c) noexcept {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}
[[nodiscard]] constexpr bool is_name_part(char c) noexcept {
    return is_name_start(c) || (c >= '0' && c <= '9') || c == '.';
}
[[nodiscard]] constexpr bool is_field_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= field_name_max && is_name_start(name[0]) &&
           std::all_of(name.begin(), name.end(), is_name_part);
}

[[nodiscard]] inline std::uint32_t natural_alignment(const std::vector<field>& fields) noexcept {
    std::uint32_t most = 1;
    for (const field& f : fields) most = std::max(most, facts_of(f.type).alignment);
    return most;
}

[[nodiscard]] inline std::string enumerators_problem(const field& f) {
    if (f.enumerators.empty()) return {};
    if (!is_integer(f.type)) return "only integer types have enumerators";
    const auto [low, high] = integer_range(f.type);
    for (std::size_t i = 0; i < f.enumerators.size(); ++i) {
        const enumerator& e = f.enumerators[i];
        if (!is_field_name(e.name) || e.name.find('.') != std::string::npos)
            return "an enumerator's name must match [A-Za-z_][A-Za-z0-9_]*";
        if (e.value < low || e.value > high) return concat("enumerator ", e.name, " does not fit its type");
        if (i > 0 && f.enumerators[i - 1].value >= e.value) return "enumerators must ascend by value";
        for (std::size_t j = 0; j < i; ++j)
            if (f.enumerators[j].name == e.name) return concat("enumerator ", e.name, " occurs twice");
    }
    return {};
}

[[nodiscard]] inline std::string field_problem(const field& f) {
    if (static_cast<std::size_t>(f.type) >= type_table.size()) return "unknown type";
    const std::uint32_t fixed = facts_of(f.type).bytes;
    if (fixed == 0 ? (f.bytes == 0 || f.count != 1) : (f.bytes != fixed || f.count == 0))
        return concat("its element size or count does not suit type ", type_name(f.type));
    return enumerators_problem(f);
}

/// What breaks I1 in fields sorted by offset, or nothing.
[[nodiscard]] inline std::string fields_problem(const std::vector<field>& fields, std::uint32_t bytes) {
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const field& f = fields[i];
        const auto about = [&f](const std::string& what) { return concat("field ", f.name, ": ", what); };
        if (!is_field_name(f.name)) return "a field's name must match [A-Za-z_][A-Za-z0-9_.]*, 128 bytes at most";
        if (const std::string problem = field_problem(f); !problem.empty()) return about(problem);
        if (f.offset < end) return about("overlaps the field before it");
        end = f.offset + f.total_bytes();
        if (end > bytes) return about("reaches beyond the record's bytes");
        for (std::size_t j = 0; j < i; ++j)
            if (fields[j].name == f.name) return about("occurs twice; rename one");
    }
    return {};
}

[[nodiscard]] inline std::string too_long(std::size_t bytes) {
    return concat("its text takes ", bytes,
                  " bytes of at most 2560; shorten names, or show fewer enumerators (holdfast::enum_range)");
}

/// What keeps a container from having this schema, or nothing.
[[nodiscard]] inline std::string container_problem(const container_schema& s) {
    if (!s.key && !s.value) return "a container's schema needs a key, a value or both";
    if (!s.key || !s.value) return {};
    for (const field& f : s.key->fields())
        if (s.value->find(f.name) != nullptr)
            return concat("field ", f.name, " is in the key and in the value; rename one, since an entry shows both");
    const std::size_t bytes = s.key->text().size() + s.value->text().size() + std::string_view("key \nvalue ").size();
    return bytes > schema_text_max ? too_long(bytes) : std::string();
}

}  // namespace detail

inline record_schema::record_schema(std::vector<field> fields, std::uint32_t bytes, std::uint32_t alignment,
                                    bool scalar, errc refusal)
    : fields_(std::move(fields)), bytes_(bytes), alignment_(alignment), scalar_(scalar) {
    std::sort(fields_.begin(), fields_.end(), [](const field& a, const field& b) { return a.offset < b.offset; });
    std::string what = problem();
    if (what.empty()) what = settle_alignment();
    if (what.empty()) {
        write_text();
        if (text_.size() > schema_text_max - std::string_view("value ").size()) what = detail::too_long(text_.size());
    }
    if (!what.empty()) throw error(refusal, "schema", what);
}

inline std::string record_schema::problem() const {
    if (fields_.empty()) return "a record needs at least one field";
    if (fields_.size() > schema_fields_max) return "more than 64 fields; split the record";
    if (bytes_ == 0 || bytes_ > record_bytes_max) return "a record has 1 byte to 1 GiB";
    return detail::fields_problem(fields_, bytes_);
}

inline std::string record_schema::settle_alignment() {
    if (alignment_ == 0) alignment_ = detail::natural_alignment(fields_);
    if ((alignment_ & (alignment_ - 1)) != 0 || alignment_ > record_alignment_max)
        return "the alignment must be a power of two up to 4096";
    if (bytes_ % alignment_ != 0) return "the record's bytes must be a multiple of its alignment";
    return {};
}

inline void record_schema::write_text() {
    char separator = '{';
    for (const field& f : fields_) {
        text_ += separator;
        text_ += f.name;
        text_ += ':';
        append_type(text_, f);
        text_ += '@';
        detail::append_integer(text_, f.offset);
        separator = ',';
    }
    text_ += "}#";
    detail::append_integer(text_, bytes_);
    if (alignment_ != detail::natural_alignment(fields_)) {
        text_ += '/';
        detail::append_integer(text_, alignment_);
    }
}

inline std::uint64_t record_schema::hash() const noexcept { return detail::fnv1a(text_); }

inline const field* record_schema::find(std::string_view name) const noexcept {
    for (const field& f : fields_)
        if (f.name == name) return &f;
    return nullptr;
}

inline std::uint64_t container_schema::hash() const { return detail::fnv1a(text()); }

inline std::string container_schema::text() const {
    const std::string problem = detail::container_problem(*this);
    if (!problem.empty()) throw error(errc::invalid_argument, "schema", problem);
    std::string out;
    if (key) out += detail::concat("key ", key->text());
    if (key && value) out += '\n';
    if (value) out += detail::concat("value ", value->text());
    return out;
}

}  // namespace holdfast

#include "holdfast/record/schema_compare.hpp"  // IWYU pragma: export
#include "holdfast/record/schema_parse.hpp"    // IWYU pragma: export
