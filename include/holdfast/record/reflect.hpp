// SPDX-License-Identifier: Apache-2.0
// reflect.hpp - from a C++ type to its record_schema.
//
// The compiler knows a type's members and their types (members.hpp, or HOLDFAST_RECORD where that cannot look). They
// become constant tables, one a struct; functions that are no templates turn tables into fields when a schema is asked
// for. So a type costs milliseconds to compile, and nothing until its schema is made, which takes microseconds once an
// attach.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "holdfast/detail/concat.hpp"
#include "holdfast/record/concepts.hpp"
#include "holdfast/record/enum_names.hpp"
#include "holdfast/record/field.hpp"
#include "holdfast/record/members.hpp"
#include "holdfast/record/schema.hpp"
#include "holdfast/record/types.hpp"

namespace holdfast {

namespace detail {

template <auto Member>
constexpr std::string_view print_member() noexcept {
    return __PRETTY_FUNCTION__;
}

/// The member's name: g++ prints `[with auto Member = (& specimen<T>.T::name); ...]` or `&T::name`, clang
/// `[Member = &specimen.name]` or `&T::name`.
[[nodiscard]] inline std::string_view member_name(std::string_view printed) noexcept {
    const std::size_t semicolon = printed.rfind("; std::string_view");
    if (semicolon != std::string_view::npos) printed = printed.substr(0, semicolon);
    while (!printed.empty() && (printed.back() == ']' || printed.back() == ')')) printed.remove_suffix(1);
    return last_identifier(printed);
}

struct member_row;

/// The members of a struct, as constant data: one function that is no template turns it into fields.
struct member_table {
    const void* object;  // whose members the rows point at; null if they tell their offset by themselves
    const member_row* rows;
    std::size_t count;
};

struct element_facts {
    field_type type = field_type::u8;
    std::size_t bytes = 0;
    std::size_t count = 1;
    std::string_view (*enum_names)() noexcept = nullptr;
    std::int64_t enum_first = 0;
    const member_table* nested = nullptr;
};

struct member_row {
    std::string_view (*printed)() noexcept;
    const void* at;
    std::size_t (*offset)() noexcept;
    element_facts facts;
};

template <class T>
constexpr element_facts scalar_facts(std::size_t count) {
    element_facts facts{scalar_type<T>(), sizeof(T), count};
    if constexpr (std::is_enum_v<T>) {
        facts.enum_names = &enum_listing<T>;
        facts.enum_first = enum_range<T>::min;
    }
    return facts;
}

template <class T>
constexpr member_table make_table();
template <class T>
inline constexpr member_table table_of = make_table<T>();

template <class T>
constexpr element_facts facts_for() {
    if constexpr (is_one_of<T, char> || fixed_text_bytes<T> != 0) {
        return {field_type::text, sizeof(T)};
    } else if constexpr (std::is_same_v<T, std::byte>) {
        return {field_type::bytes, 1};
    } else if constexpr (is_array_v<T>) {
        using element = typename array_facts<T>::element;
        constexpr std::size_t count = array_facts<T>::count;
        if constexpr (is_one_of<element, char>)
            return {field_type::text, count};
        else if constexpr (is_one_of<element, std::byte, unsigned char>)
            return {field_type::bytes, count};
        else
            return scalar_facts<element>(count);
    } else if constexpr (is_scalar_field<T>()) {
        return scalar_facts<T>(1);
    } else {
        element_facts facts;
        facts.nested = &table_of<T>;
        return facts;
    }
}

/// Room for a T that is never made: only the places of its members are asked for.
template <class T>
union unmade {
    char none;
    T value;
    constexpr unmade() noexcept : none(0) {}
};

/// Where the member of a pointer to member lies in T; containers use it too, for members that they are told of.
template <class T, auto Member>
[[nodiscard]] std::size_t offset_in() noexcept {
    static const unmade<T> room;
    return static_cast<std::size_t>(reinterpret_cast<const char*>(&(room.value.*Member)) -
                                    reinterpret_cast<const char*>(&room));
}

template <class T, auto Member>
constexpr member_row make_row() {
    using type = typename member_type<Member>::type;
    if constexpr (std::is_member_pointer_v<decltype(Member)>)
        return {&print_member<Member>, nullptr, &offset_in<T, Member>, facts_for<type>()};
    else
        return {&print_member<Member>, Member, nullptr, facts_for<type>()};
}

template <class T, auto... Members>
inline constexpr member_row rows_of[] = {make_row<T, Members>()...};

template <class T, auto... Members>
constexpr member_table make_table(member_list<Members...>) {
    constexpr bool described = (std::is_member_pointer_v<decltype(Members)> || ...);
    const void* object = nullptr;
    if constexpr (!described) object = &specimen<T>;
    return {object, rows_of<T, Members...>, sizeof...(Members)};
}

template <class T>
constexpr member_table make_table() {
    return make_table<T>(members_of<T>());
}

/// Where a row's member lies in its struct.
[[nodiscard]] inline std::size_t offset_of(const member_table& table, const member_row& row) noexcept {
    if (row.offset != nullptr) return row.offset();
    return static_cast<std::size_t>(static_cast<const char*>(row.at) - static_cast<const char*>(table.object));
}

using field_list = std::vector<field>;

inline void add_members(field_list& out, const std::string& prefix, std::size_t base, const member_table& table);

inline void add_field(field_list& out, std::string name, std::size_t offset, const element_facts& facts) {
    if (facts.nested != nullptr) return add_members(out, name + '.', offset, *facts.nested);
    // Sizes beyond 32 bits end up larger than record_bytes_max and are refused by record_schema.
    const auto narrow = [](std::size_t n) { return static_cast<std::uint32_t>(n > 0xffffffffU ? 0xffffffffU : n); };
    out.push_back({std::move(name), facts.type, narrow(offset), narrow(facts.bytes), narrow(facts.count), {}});
    if (facts.enum_names != nullptr) out.back().enumerators = read_enum_listing(facts.enum_names(), facts.enum_first);
}

inline void add_members(field_list& out, const std::string& prefix, std::size_t base, const member_table& table) {
    for (std::size_t i = 0; i < table.count; ++i) {
        const member_row& row = table.rows[i];
        add_field(out, concat(prefix, member_name(row.printed())), base + offset_of(table, row), row.facts);
    }
}

[[nodiscard]] inline record_schema make_schema(const element_facts& facts, std::string_view scalar_name,
                                               std::uint32_t bytes, std::uint32_t alignment) {
    field_list fields;
    const bool scalar = facts.nested == nullptr;
    if (scalar)
        add_field(fields, std::string(scalar_name), 0, facts);
    else
        add_members(fields, {}, 0, *facts.nested);
    return {std::move(fields), bytes, alignment, scalar};
}

}  // namespace detail

/// The schema of T. A scalar, text or array is a record of one field, called `scalar_name`.
/// Requires: T is a record; otherwise the compiler says what keeps it from being one.
/// Throws: error(invalid_argument) if T breaks a limit only known here: more than 64 fields with nested ones, a text
/// beyond what a segment's header holds.
template <class T>
[[nodiscard]] record_schema schema_of(std::string_view scalar_name = "value") {
    static_assert(detail::explain_record<T>());
    static_assert(sizeof(T) <= record_bytes_max, "holdfast: a record has at most 1 GiB");
    return detail::make_schema(detail::facts_for<T>(), scalar_name, static_cast<std::uint32_t>(sizeof(T)),
                               static_cast<std::uint32_t>(alignof(T)));
}

}  // namespace holdfast
