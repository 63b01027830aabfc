// SPDX-License-Identifier: Apache-2.0
// concepts.hpp - what a record may hold, and the messages when it holds more.
//
// A record is a scalar of field.hpp's list, a fixed text or bytes, or a struct of such, nested or not.
// Padding is allowed in values. Keys are hashed and compared as bytes, so a key has none: `record_key`.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "holdfast/record/field.hpp"
#include "holdfast/record/macro.hpp"
#include "holdfast/record/members.hpp"
#include "holdfast/record/schema.hpp"
#include "holdfast/record/types.hpp"

namespace holdfast {

namespace detail {

static_assert(std::endian::native == std::endian::little, "Holdfast's layouts are little-endian");
static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

/// What keeps a type from being a record.
enum class record_problem {
    none,
    pointer,
    not_trivially_copyable,
    reference_or_const,
    not_default_constructible,
    not_aggregate,
    has_base,
    no_members,
    too_many_members,
    bit_field,
    unsized_enum,
    nested_array,
    array_of_records,
    unsupported_scalar,
    in_member,
};

template <class T>
inline constexpr bool is_array_v = std::is_array_v<T>;
template <class T, std::size_t N>
inline constexpr bool is_array_v<std::array<T, N>> = true;

template <class T>
struct array_facts {
    using element = std::remove_extent_t<T>;
    static constexpr std::size_t count = std::extent_v<T>;
};
template <class T, std::size_t N>
struct array_facts<std::array<T, N>> {
    using element = T;
    static constexpr std::size_t count = N;
};

template <class T>
inline constexpr std::size_t fixed_text_bytes = 0;
template <std::size_t N>
inline constexpr std::size_t fixed_text_bytes<fixed_text<N>> = N;

template <class T, class... Others>
inline constexpr bool is_one_of = (std::is_same_v<T, Others> || ...);

/// The type of one element that is no text, bytes, array or struct.
template <class T>
[[nodiscard]] consteval bool is_scalar_field() {
    if constexpr (is_one_of<T, ipv4, ipv6, timestamp, bool>) return true;
    if constexpr (is_one_of<T, float, double>) return true;
    if constexpr (std::is_enum_v<T>) return !std::is_same_v<T, std::byte>;
    return std::is_integral_v<T> && sizeof(T) <= 8 && !is_one_of<T, char, wchar_t, char8_t, char16_t, char32_t>;
}

template <class T>
[[nodiscard]] consteval field_type scalar_type() {
    if constexpr (std::is_enum_v<T>) {
        return scalar_type<std::underlying_type_t<T>>();
    } else {
        if constexpr (std::is_same_v<T, ipv4>) return field_type::ipv4;
        if constexpr (std::is_same_v<T, ipv6>) return field_type::ipv6;
        if constexpr (std::is_same_v<T, timestamp>) return field_type::timestamp;
        if constexpr (std::is_same_v<T, bool>) return field_type::boolean;
        if constexpr (std::is_same_v<T, float>) return field_type::f32;
        if constexpr (std::is_same_v<T, double>) return field_type::f64;
        constexpr auto log2_bytes = std::bit_width(sizeof(T)) - 1;
        const auto base = static_cast<int>(std::is_signed_v<T> ? field_type::i8 : field_type::u8);
        return static_cast<field_type>(base + static_cast<int>(log2_bytes));
    }
}

/// Enums whose size is the compiler's choice have no layout to promise; only the others accept `E{0}`.
template <class T>
concept sized_enum = requires { T{0}; };

template <class T>
concept described_inside = requires(T& t) { t.holdfast_record_fields(record_tag<T>{}); };
template <class T>
concept described_beside = requires { holdfast_record_fields(record_tag<T>{}); };

/// Converts to any base of T: what `T{x}` accepts first if T has a base.
template <class T>
struct any_base {
    template <class Base>
        requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>)
    operator Base() const noexcept;
};
template <class T>
concept has_base_class = requires { T{any_base<T>{}}; };

/// The members of a struct as a member_list, or bit_field_found.
template <class T>
[[nodiscard]] constexpr auto members_of() {
    if constexpr (described_inside<T>)
        return decltype(std::declval<T&>().holdfast_record_fields(record_tag<T>{})){};
    else if constexpr (described_beside<T>)
        return decltype(holdfast_record_fields(record_tag<T>{})){};
    else
        return list_members<T, count_members<T>()>();
}

template <auto Member>
struct member_type {
    using type = std::remove_cv_t<std::remove_pointer_t<decltype(Member)>>;
};
template <class T, class M, M T::* Member>
struct member_type<Member> {
    using type = std::remove_cv_t<M>;
};

template <class T>
[[nodiscard]] consteval record_problem problem_of();

template <auto... Members>
[[nodiscard]] consteval record_problem problem_of_members(member_list<Members...>) {
    static_assert(sizeof...(Members) <= schema_fields_max, "holdfast: a record has at most 64 fields; split it");
    const bool fine = ((problem_of<typename member_type<Members>::type>() == record_problem::none) && ...);
    return fine ? record_problem::none : record_problem::in_member;
}
[[nodiscard]] consteval record_problem problem_of_members(bit_field_found) { return record_problem::bit_field; }

template <class T>
[[nodiscard]] consteval record_problem problem_of_struct() {
    if constexpr (!std::is_trivially_copyable_v<T>) {
        return record_problem::not_trivially_copyable;
    } else if constexpr (described_inside<T> || described_beside<T>) {
        return problem_of_members(members_of<T>());
    } else if constexpr (!std::is_copy_assignable_v<T>) {
        return record_problem::reference_or_const;
    } else if constexpr (!std::is_default_constructible_v<T>) {
        return record_problem::not_default_constructible;
    } else if constexpr (!std::is_aggregate_v<T>) {
        return record_problem::not_aggregate;
    } else if constexpr (has_base_class<T>) {
        return record_problem::has_base;
    } else if constexpr (count_members<T>() == 0) {
        return record_problem::no_members;
    } else if constexpr (count_members<T>() > members_max) {
        return record_problem::too_many_members;
    } else {
        return problem_of_members(members_of<T>());
    }
}

template <class T>
[[nodiscard]] consteval record_problem problem_of_array() {
    using element = typename array_facts<T>::element;
    if constexpr (array_facts<T>::count == 0)
        return record_problem::no_members;
    else if constexpr (is_one_of<element, char, std::byte>)
        return record_problem::none;
    else if constexpr (is_array_v<element> || fixed_text_bytes<element> != 0)
        return record_problem::nested_array;
    else if constexpr (is_scalar_field<element>() || !std::is_class_v<element>)
        return problem_of<element>();
    else
        return record_problem::array_of_records;
}

/// What keeps T from being a field or a record; never an error of the compiler's own.
template <class T>
[[nodiscard]] consteval record_problem problem_of() {
    if constexpr (std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_null_pointer_v<T>)
        return record_problem::pointer;
    else if constexpr (std::is_reference_v<T> || std::is_const_v<T> || std::is_volatile_v<T>)
        return record_problem::reference_or_const;
    else if constexpr (is_one_of<T, char, std::byte> || fixed_text_bytes<T> != 0)
        return record_problem::none;
    else if constexpr (is_array_v<T>)
        return problem_of_array<T>();
    else if constexpr (std::is_enum_v<T>)
        return sized_enum<T> ? record_problem::none : record_problem::unsized_enum;
    else if constexpr (is_scalar_field<T>())
        return record_problem::none;
    else if constexpr (std::is_class_v<T>)
        return problem_of_struct<T>();
    else
        return record_problem::unsupported_scalar;
}

/// Fails to compile with a sentence for whatever keeps T from being a record, T's members first.
template <class T>
consteval bool explain_record();

template <auto... Members>
consteval bool explain_members(member_list<Members...>) {
    return (explain_record<typename member_type<Members>::type>() && ...);
}

template <class T>
consteval bool explain_record() {
    constexpr record_problem p = problem_of<T>();
    if constexpr (p == record_problem::in_member) {
        return explain_members(members_of<T>());
    } else {
        static_assert(
            p != record_problem::pointer,
            "holdfast: a record cannot hold a pointer: it means nothing to another process; store an offset, a "
            "handle or the value itself");
        static_assert(
            p != record_problem::not_trivially_copyable,
            "holdfast: a record must be trivially copyable: no std::string, std::vector, virtual functions or "
            "copy constructors; use char[N] and arrays");
        static_assert(p != record_problem::reference_or_const,
                      "holdfast: a record cannot hold references, nor const or volatile members");
        static_assert(p != record_problem::not_default_constructible,
                      "holdfast: a record without a default constructor is described by "
                      "HOLDFAST_RECORD(Type, field, field, ...)");
        static_assert(p != record_problem::not_aggregate,
                      "holdfast: a record with private members or constructors is described by "
                      "HOLDFAST_RECORD(Type, field, field, ...) in its public part");
        static_assert(p != record_problem::has_base,
                      "holdfast: a record has no base class: make the base a member, or describe it by "
                      "HOLDFAST_RECORD(Type, field, field, ...)");
        static_assert(p != record_problem::no_members, "holdfast: a record or array in it is empty");
        static_assert(p != record_problem::too_many_members,
                      "holdfast: members are found by themselves up to 32; describe more by "
                      "HOLDFAST_RECORD(Type, field, field, ...), which takes 64");
        static_assert(p != record_problem::bit_field,
                      "holdfast: a record cannot hold bit-fields: their layout is the compiler's; use whole integers");
        static_assert(p != record_problem::unsized_enum,
                      "holdfast: an enum in a record names its integer, as in enum class color : std::uint8_t");
        static_assert(
            p != record_problem::nested_array,
            "holdfast: an array in a record has one dimension and no texts; use one longer array or more fields");
        static_assert(p != record_problem::array_of_records,
                      "holdfast: a record cannot hold an array of structs; use one array for each member");
        static_assert(p != record_problem::unsupported_scalar && p != record_problem::in_member,
                      "holdfast: no field type for this: there are integers up to 64 bits, float, double, bool, enums, "
                      "char[N], bytes, ipv4, ipv6, timestamp, arrays and structs of them");
        return p == record_problem::none;
    }
}

}  // namespace detail

/// A type whose schema is known: a scalar field, fixed text or bytes, an array of scalars, or a struct of such.
template <class T>
concept record = std::is_object_v<T> && detail::problem_of<T>() == detail::record_problem::none;

/// A record that may be a key: equal values are equal bytes, so no padding and no floating point.
template <class T>
concept record_key = record<T> && std::has_unique_object_representations_v<T>;

}  // namespace holdfast
