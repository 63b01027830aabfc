// SPDX-License-Identifier: Apache-2.0
// macro.hpp - HOLDFAST_RECORD, for types whose members the library cannot find by itself.
#pragma once

namespace holdfast::detail {

template <class T>
struct record_tag {};

}  // namespace holdfast::detail

// clang-format off
#define HOLDFAST_DETAIL_PARENS ()
#define HOLDFAST_DETAIL_EXPAND(...)  HOLDFAST_DETAIL_EXPAND3(HOLDFAST_DETAIL_EXPAND3(HOLDFAST_DETAIL_EXPAND3(HOLDFAST_DETAIL_EXPAND3(__VA_ARGS__))))
#define HOLDFAST_DETAIL_EXPAND3(...) HOLDFAST_DETAIL_EXPAND2(HOLDFAST_DETAIL_EXPAND2(HOLDFAST_DETAIL_EXPAND2(HOLDFAST_DETAIL_EXPAND2(__VA_ARGS__))))
#define HOLDFAST_DETAIL_EXPAND2(...) HOLDFAST_DETAIL_EXPAND1(HOLDFAST_DETAIL_EXPAND1(HOLDFAST_DETAIL_EXPAND1(HOLDFAST_DETAIL_EXPAND1(__VA_ARGS__))))
#define HOLDFAST_DETAIL_EXPAND1(...) __VA_ARGS__
#define HOLDFAST_DETAIL_MEMBERS(type, member, ...) &type::member __VA_OPT__(, HOLDFAST_DETAIL_MORE HOLDFAST_DETAIL_PARENS (type, __VA_ARGS__))
#define HOLDFAST_DETAIL_MORE() HOLDFAST_DETAIL_MEMBERS
// clang-format on

/// Describes a record's fields by name, in any order, up to 64: in the public part of the type, or beside it in its
/// namespace if the members are public. Members left out are not shown and are zero in records made from text.
///
///     class account {
///      public:
///         HOLDFAST_RECORD(account, id_, cents_)
///         explicit account(std::uint64_t id);
///      private:
///         std::uint64_t id_;
///         std::int64_t cents_ = 0;
///     };
#define HOLDFAST_RECORD(Type, ...)                                                                                    \
    [[maybe_unused]] inline auto holdfast_record_fields(::holdfast::detail::record_tag<Type>) {                       \
        return ::holdfast::detail::member_list<HOLDFAST_DETAIL_EXPAND(HOLDFAST_DETAIL_MEMBERS(Type, __VA_ARGS__))>{}; \
    }
