// SPDX-License-Identifier: Apache-2.0
// json_reader.hpp - JSON from a file of somebody else's as a tree of values, with limits on size and depth.
//
// For files of this project's own formats: baselines and results. They are small, so a tree that owns everything is
// simpler than reading on demand. Of members with one name the first counts. Threads: plain values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace holdfast::perf_test {

struct json_member;

class json_value {
 public:
    using array = std::vector<json_value>;
    using object = std::vector<json_member>;  // not of std::pair: the standard allows no incomplete type in that
    std::variant<std::monostate, bool, double, std::string, array, object> value;

    /// The member of that name, nullptr if there is none or this is no object.
    [[nodiscard]] const json_value* find(std::string_view name) const noexcept;
    [[nodiscard]] std::optional<double> number(std::string_view name) const noexcept;
    [[nodiscard]] std::optional<std::string_view> text(std::string_view name) const noexcept;
    [[nodiscard]] const array* elements(std::string_view name) const noexcept;
};

struct json_member {
    std::string first;  ///< its name
    json_value second;
};

inline constexpr std::size_t json_bytes_max = std::size_t{256} << 20U;
inline constexpr std::size_t json_depth_max = 32;

/// Parses one JSON value. Throws: holdfast::error naming `source`: corrupt for anything that is not JSON, or that
/// breaks a limit above; unsupported if this build has no JSON library.
[[nodiscard]] json_value parse_json(std::string_view text, std::string_view source);

/// The same of a file. Throws: also not_found, no_permission, io.
[[nodiscard]] json_value read_json_file(const std::string& path);

}  // namespace holdfast::perf_test
