// SPDX-License-Identifier: Apache-2.0
// keep.hpp - keeps the compiler from deleting what a benchmark's body computes. Costs no instruction beyond having the
// value where the compiler must believe that it is read.
#pragma once

#include <type_traits>

namespace holdfast::workload {

/// Treats `value` as read: it is computed, and lies whole in memory or in a register.
template <class T>
inline void keep(const T& value) noexcept {
    if constexpr (std::is_scalar_v<T>)
        asm volatile("" : : "r,m"(value));
    else
        asm volatile("" : : "m"(value));
}

/// The same number, of which the compiler knows nothing.
template <class T>
[[nodiscard]] inline T hidden(T value) noexcept {
    static_assert(std::is_scalar_v<T>);
    asm volatile("" : "+r"(value));
    return value;
}

}  // namespace holdfast::workload
