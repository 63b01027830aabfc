// SPDX-License-Identifier: Apache-2.0
// table_answer.hpp - what an operation of a hash table answered, as one value to compare and to note in a history.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/outcome.hpp"

namespace holdfast::test {

/// An outcome, and with ok what was done.
struct table_answer {
    outcome status = outcome::not_found;
    entry_change what = entry_change::none;

    table_answer() = default;
    constexpr explicit table_answer(outcome only) : status(only) {}
    constexpr explicit table_answer(entry_change done) : status(outcome::ok), what(done) {}
    template <class Result>
        requires requires(const Result& r) { r.status, r.what, r.slot; }
    constexpr table_answer(const Result& from) : status(from.status), what(from.what) {}

    /// Whether it says nothing of the key, neither that it is there nor that it is not.
    [[nodiscard]] constexpr bool refused() const {
        return status != outcome::ok && status != outcome::exists && status != outcome::not_found;
    }
    [[nodiscard]] constexpr std::uint64_t number() const {
        return static_cast<std::uint64_t>(status) << 8U | static_cast<std::uint64_t>(what);
    }
    [[nodiscard]] std::string text() const { return std::string(outcome_name(status)); }
    friend constexpr bool operator==(const table_answer&, const table_answer&) = default;

    static const table_answer inserted, updated, erased, exists, not_found, full, read_only, corrupt, contended, stale;
};

inline constexpr table_answer table_answer::inserted{entry_change::inserted};
inline constexpr table_answer table_answer::updated{entry_change::updated};
inline constexpr table_answer table_answer::erased{entry_change::erased};
inline constexpr table_answer table_answer::exists{outcome::exists};
inline constexpr table_answer table_answer::not_found{outcome::not_found};
inline constexpr table_answer table_answer::full{outcome::full};
inline constexpr table_answer table_answer::read_only{outcome::read_only};
inline constexpr table_answer table_answer::corrupt{outcome::corrupt};
inline constexpr table_answer table_answer::contended{outcome::contended};
inline constexpr table_answer table_answer::stale{outcome::stale};

}  // namespace holdfast::test
