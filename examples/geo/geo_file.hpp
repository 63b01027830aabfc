// SPDX-License-Identifier: Apache-2.0
// geo_file.hpp - the geolocation database read straight from its text files, with nothing of Holdfast's: what the
// served answers are compared with.
//
// Shapes: IPv4 "LOW,HIGH,CC" with decimal numbers, IPv6 "LOW,HIGH,CC" with address text, "#" begins a comment line.
// Ranges are sorted, disjoint and inclusive at both ends.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace geo {

/// An address of either family as 16 bytes in network order; IPv4 uses the last four.
using address = std::array<std::uint8_t, 16>;

enum class family : std::uint8_t { v4, v6 };

struct range {
    address low{};
    address high{};
    std::string country;
};

/// A database of one family, sorted by low.
struct database {
    geo::family family = family::v4;
    std::vector<range> ranges;

    /// The range that covers `at`, or nothing.
    [[nodiscard]] const range* find(const address& at) const;
    /// What the server must answer for `at`: a JSON object, or nothing where no range covers it.
    [[nodiscard]] std::optional<std::string> expected(const address& at) const;
};

/// Throws std::runtime_error naming file and line.
[[nodiscard]] database read_database(const std::string& path, family which);

/// Writes a database in the same text form.
void write_database(const database& from, const std::string& path);

/// A second edition to reload: every 7th range is gone, and the others' country codes are written backwards and in
/// lower case.
[[nodiscard]] database second_edition(const database& first);

[[nodiscard]] std::string text_of(const address& at, family which);
[[nodiscard]] address next_after(address at);
[[nodiscard]] address before(address at);

}  // namespace geo
