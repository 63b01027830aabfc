// SPDX-License-Identifier: Apache-2.0
// random_record.hpp - random schemas and random records of them, for round trips.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/record.hpp"
#include "support/seed.hpp"

namespace holdfast::test {

inline field random_field(seeded_random& random, std::string name) {
    field f;
    f.name = std::move(name);
    f.type = static_cast<field_type>(random.below(detail::type_table.size()));
    const std::uint32_t fixed = detail::facts_of(f.type).bytes;
    f.bytes = fixed != 0 ? fixed : static_cast<std::uint32_t>(1 + random.below(12));
    if (fixed != 0 && random.below(4) == 0) f.count = static_cast<std::uint32_t>(1 + random.below(5));
    if (detail::is_integer(f.type) && random.below(3) == 0) {
        const auto [low, high] = detail::integer_range(f.type);
        std::int64_t value = random.below(2) == 0 ? low : 0;
        for (std::uint64_t i = 0, n = 1 + random.below(4); i < n && value < high; ++i, value += 1 + (i == 1 ? 100 : 0))
            f.enumerators.push_back({detail::concat("name_", i), value});
    }
    return f;
}

/// A valid schema of up to 12 fields with gaps between some; names begin with `prefix`.
inline record_schema random_schema(seeded_random& random, const std::string& prefix) {
    std::vector<field> fields;
    std::uint64_t end = 0;
    for (std::uint64_t i = 0, n = 1 + random.below(12); i < n; ++i) {
        field f = random_field(random, prefix + std::to_string(i) + (random.below(4) == 0 ? ".x" : ""));
        f.offset = static_cast<std::uint32_t>(end + random.below(3));
        end = f.offset + f.total_bytes();
        fields.push_back(std::move(f));
    }
    return {std::move(fields), static_cast<std::uint32_t>((end + 15) / 16 * 16), random.below(2) == 0 ? 0U : 16U};
}

/// Puts one element's bytes, which are random, into the form text keeps: a bool of 0 or 1, the one NaN.
inline void settle_element(seeded_random& random, const field& f, std::byte* at) {
    if (f.type == field_type::boolean) *at &= std::byte{1};
    if (f.type == field_type::f32 && std::isnan(detail::load<float>(at)))
        detail::store(at, std::numeric_limits<float>::quiet_NaN());
    if (f.type == field_type::f64 && std::isnan(detail::load<double>(at)))
        detail::store(at, std::numeric_limits<double>::quiet_NaN());
    if (detail::is_float(f.type) && random.below(8) == 0) {
        const double special[] = {0.0, -0.0, 1e-310, std::numeric_limits<double>::infinity(), 16777217.0, -0.1};
        const double value = special[random.below(6)];
        f.type == field_type::f32 ? detail::store(at, static_cast<float>(value)) : detail::store(at, value);
    }
    if (f.type == field_type::text && random.below(2) == 0) {  // text as people write it, and what escapes are made of
        const std::string_view alphabet = "ab \"\\x41f\t\n\x1b\x7f,[]\xc3\xa4";
        for (std::uint32_t i = 0; i < f.bytes; ++i)
            at[i] = static_cast<std::byte>(alphabet[random.below(alphabet.size())]);
    }
    if (!f.enumerators.empty() && random.below(2) == 0) {
        const std::int64_t value = f.enumerators[random.below(f.enumerators.size())].value;
        std::memcpy(at, &value, f.bytes);  // little-endian: the low bytes are the narrower integer
    }
}

/// A record that survives text and JSON whole; gaps are zero.
inline std::vector<std::byte> random_record(seeded_random& random, const record_schema& schema) {
    std::vector<std::byte> record(schema.bytes());
    for (const field& f : schema.fields()) {
        for (std::uint64_t i = 0; i < f.total_bytes(); ++i) record[f.offset + i] = static_cast<std::byte>(random());
        if (random.below(8) == 0)
            std::memset(record.data() + f.offset, random.below(2) == 0 ? 0 : 255, f.total_bytes());
        for (std::uint32_t i = 0; i < f.count; ++i)
            settle_element(random, f, record.data() + f.offset + std::size_t{i} * f.bytes);
    }
    return record;
}

}  // namespace holdfast::test
