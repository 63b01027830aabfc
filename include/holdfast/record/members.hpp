// SPDX-License-Identifier: Apache-2.0
// members.hpp - the members of a plain struct: how many there are, and the address of each as a template argument.
//
// Counting: `T{{}, {}, ...}` compiles with as many `{}` as T has members (each array and each nested struct counts
// once) and with fewer, never with more. Addresses: a structured binding of a constant object, whose members' addresses
// are constant expressions; from them follow names (as the compiler prints them), types and offsets. A bit-field has no
// address: that is detected here, so that the message can be ours. The lists are long because C++20 cannot bind a
// number of names that is a parameter.
#pragma once

#include <cstddef>
#include <type_traits>

namespace holdfast::detail {

inline constexpr std::size_t members_max = 32;  // found without the macro; HOLDFAST_RECORD takes 64

/// The object whose members stand for T's. Its value is of no account.
template <class T>
inline constexpr T specimen{};

/// Members by address: `&specimen<T>.x` or `&T::x`.
template <auto... Members>
struct member_list {};

/// T has a bit-field.
struct bit_field_found {};

/// The number of members of an aggregate, or members_max + 1 if there are more than members_max.
template <class T>
consteval std::size_t count_members() {
    // clang-format off
    if constexpr (!requires { T{{}}; }) return 0; else
    if constexpr (!requires { T{{},{}}; }) return 1; else
    if constexpr (!requires { T{{},{},{}}; }) return 2; else
    if constexpr (!requires { T{{},{},{},{}}; }) return 3; else
    if constexpr (!requires { T{{},{},{},{},{}}; }) return 4; else
    if constexpr (!requires { T{{},{},{},{},{},{}}; }) return 5; else
    if constexpr (!requires { T{{},{},{},{},{},{},{}}; }) return 6; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{}}; }) return 7; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{}}; }) return 8; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{}}; }) return 9; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{}}; }) return 10; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 11; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 12; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 13; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 14; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 15; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 16; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 17; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 18; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 19; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 20; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 21; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 22; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 23; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 24; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 25; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 26; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 27; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 28; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 29; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 30; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 31; else
    if constexpr (!requires { T{{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}}; }) return 32; else
    return members_max + 1;
    // clang-format on
}

/// The members of an aggregate of N members as a member_list, or bit_field_found.
template <class T, std::size_t N>
constexpr auto list_members() {
    static_assert(N >= 1 && N <= members_max);
    // clang-format off
    if constexpr (N == 1) {
        auto& [m1] = specimen<T>;
        if constexpr (requires { &m1; }) return member_list<&m1>{};
        else return bit_field_found{};
    } else if constexpr (N == 2) {
        auto& [m1,m2] = specimen<T>;
        if constexpr (requires { &m1;&m2; }) return member_list<&m1,&m2>{};
        else return bit_field_found{};
    } else if constexpr (N == 3) {
        auto& [m1,m2,m3] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3; }) return member_list<&m1,&m2,&m3>{};
        else return bit_field_found{};
    } else if constexpr (N == 4) {
        auto& [m1,m2,m3,m4] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4; }) return member_list<&m1,&m2,&m3,&m4>{};
        else return bit_field_found{};
    } else if constexpr (N == 5) {
        auto& [m1,m2,m3,m4,m5] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5; }) return member_list<&m1,&m2,&m3,&m4,&m5>{};
        else return bit_field_found{};
    } else if constexpr (N == 6) {
        auto& [m1,m2,m3,m4,m5,m6] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6>{};
        else return bit_field_found{};
    } else if constexpr (N == 7) {
        auto& [m1,m2,m3,m4,m5,m6,m7] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7>{};
        else return bit_field_found{};
    } else if constexpr (N == 8) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8>{};
        else return bit_field_found{};
    } else if constexpr (N == 9) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9>{};
        else return bit_field_found{};
    } else if constexpr (N == 10) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10>{};
        else return bit_field_found{};
    } else if constexpr (N == 11) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11>{};
        else return bit_field_found{};
    } else if constexpr (N == 12) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12>{};
        else return bit_field_found{};
    } else if constexpr (N == 13) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13>{};
        else return bit_field_found{};
    } else if constexpr (N == 14) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14>{};
        else return bit_field_found{};
    } else if constexpr (N == 15) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15>{};
        else return bit_field_found{};
    } else if constexpr (N == 16) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16>{};
        else return bit_field_found{};
    } else if constexpr (N == 17) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17>{};
        else return bit_field_found{};
    } else if constexpr (N == 18) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18>{};
        else return bit_field_found{};
    } else if constexpr (N == 19) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19>{};
        else return bit_field_found{};
    } else if constexpr (N == 20) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20>{};
        else return bit_field_found{};
    } else if constexpr (N == 21) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21>{};
        else return bit_field_found{};
    } else if constexpr (N == 22) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21,m22] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21;&m22; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21,&m22>{};
        else return bit_field_found{};
    } else if constexpr (N == 23) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21,m22,m23] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21;&m22;&m23; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21,&m22,&m23>{};
        else return bit_field_found{};
    } else if constexpr (N == 24) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21,m22,m23,m24] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21;&m22;&m23;&m24; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21,&m22,&m23,&m24>{};
        else return bit_field_found{};
    } else if constexpr (N == 25) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21,m22,m23,m24,m25] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21;&m22;&m23;&m24;&m25; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21,&m22,&m23,&m24,&m25>{};
        else return bit_field_found{};
    } else if constexpr (N == 26) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21,m22,m23,m24,m25,m26] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21;&m22;&m23;&m24;&m25;&m26; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21,&m22,&m23,&m24,&m25,&m26>{};
        else return bit_field_found{};
    } else if constexpr (N == 27) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21,m22,m23,m24,m25,m26,m27] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21;&m22;&m23;&m24;&m25;&m26;&m27; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21,&m22,&m23,&m24,&m25,&m26,&m27>{};
        else return bit_field_found{};
    } else if constexpr (N == 28) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21,m22,m23,m24,m25,m26,m27,m28] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21;&m22;&m23;&m24;&m25;&m26;&m27;&m28; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21,&m22,&m23,&m24,&m25,&m26,&m27,&m28>{};
        else return bit_field_found{};
    } else if constexpr (N == 29) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21,m22,m23,m24,m25,m26,m27,m28,m29] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21;&m22;&m23;&m24;&m25;&m26;&m27;&m28;&m29; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21,&m22,&m23,&m24,&m25,&m26,&m27,&m28,&m29>{};
        else return bit_field_found{};
    } else if constexpr (N == 30) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21,m22,m23,m24,m25,m26,m27,m28,m29,m30] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21;&m22;&m23;&m24;&m25;&m26;&m27;&m28;&m29;&m30; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21,&m22,&m23,&m24,&m25,&m26,&m27,&m28,&m29,&m30>{};
        else return bit_field_found{};
    } else if constexpr (N == 31) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21,m22,m23,m24,m25,m26,m27,m28,m29,m30,m31] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21;&m22;&m23;&m24;&m25;&m26;&m27;&m28;&m29;&m30;&m31; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21,&m22,&m23,&m24,&m25,&m26,&m27,&m28,&m29,&m30,&m31>{};
        else return bit_field_found{};
    } else if constexpr (N == 32) {
        auto& [m1,m2,m3,m4,m5,m6,m7,m8,m9,m10,m11,m12,m13,m14,m15,m16,m17,m18,m19,m20,m21,m22,m23,m24,m25,m26,m27,m28,m29,m30,m31,m32] = specimen<T>;
        if constexpr (requires { &m1;&m2;&m3;&m4;&m5;&m6;&m7;&m8;&m9;&m10;&m11;&m12;&m13;&m14;&m15;&m16;&m17;&m18;&m19;&m20;&m21;&m22;&m23;&m24;&m25;&m26;&m27;&m28;&m29;&m30;&m31;&m32; }) return member_list<&m1,&m2,&m3,&m4,&m5,&m6,&m7,&m8,&m9,&m10,&m11,&m12,&m13,&m14,&m15,&m16,&m17,&m18,&m19,&m20,&m21,&m22,&m23,&m24,&m25,&m26,&m27,&m28,&m29,&m30,&m31,&m32>{};
        else return bit_field_found{};
    }
    // clang-format on
}

}  // namespace holdfast::detail
