// SPDX-License-Identifier: Apache-2.0
// EXPECT: min to max must be 1 to 1024 values
#include <cstdint>

#include "holdfast/record.hpp"

enum class code : std::uint32_t { ok };
template <>
struct holdfast::enum_range<code> {
#ifdef MUST_FAIL
    static constexpr std::int64_t min = 0, max = 1'000'000;
#else
    static constexpr std::int64_t min = 0, max = 1023;
#endif
};
struct session {
    code last;
};

auto schema() { return holdfast::schema_of<session>(); }
