// SPDX-License-Identifier: Apache-2.0
// add_to.hpp - counting in a field of a record that is known at run time only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "holdfast/record/field.hpp"

namespace holdfast::detail {

/// Adds to the integer at `at`. Returns: false, with nothing changed, where the sum leaves the type's range.
template <class Integer>
[[nodiscard]] bool add_to(std::byte* at, std::int64_t by) noexcept {
    Integer now, sum;
    std::memcpy(&now, at, sizeof now);
    if (__builtin_add_overflow(now, by, &sum)) return false;
    std::memcpy(at, &sum, sizeof sum);
    return true;
}

/// The same for a field's type; of what is no integer always false.
[[nodiscard]] inline bool add_to(field_type type, std::byte* at, std::int64_t by) noexcept {
    switch (type) {
        case field_type::u8: return add_to<std::uint8_t>(at, by);
        case field_type::u16: return add_to<std::uint16_t>(at, by);
        case field_type::u32: return add_to<std::uint32_t>(at, by);
        case field_type::u64: return add_to<std::uint64_t>(at, by);
        case field_type::i8: return add_to<std::int8_t>(at, by);
        case field_type::i16: return add_to<std::int16_t>(at, by);
        case field_type::i32: return add_to<std::int32_t>(at, by);
        case field_type::i64: return add_to<std::int64_t>(at, by);
        default: return false;
    }
}

/// Whether a field is one integer and no more: what can be counted in.
[[nodiscard]] inline bool is_countable(const field& of) noexcept {
    return is_integer(of.type) && of.count == 1 && of.enumerators.empty();
}

}  // namespace holdfast::detail
