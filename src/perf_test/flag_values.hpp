// SPDX-License-Identifier: Apache-2.0
// flag_values.hpp - texts of flags turned into values; each throws usage_error saying what form it wants.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::perf_test {

/// "250", "10k", "2.5M"; at most `most`.
[[nodiscard]] double rate_of(std::string_view text);
/// "500" (milliseconds), "500ms", "2s", "90us", "1min"; a day at most. zero: is 0 allowed?
[[nodiscard]] double seconds_of(std::string_view text, bool zero);
/// "3%" or "0.03": above 0 and below 1.
[[nodiscard]] double part_of(std::string_view text);
[[nodiscard]] std::uint64_t whole_of(std::string_view text, std::uint64_t least, std::uint64_t most);
/// "1,2,4" or "0-3,8": in the order given.
[[nodiscard]] std::vector<std::uint64_t> wholes_of(std::string_view text, std::uint64_t least, std::uint64_t most);
/// A file's name: anything but nothing.
[[nodiscard]] std::string file_of(std::string_view text);
/// The place of the text among the words.
[[nodiscard]] std::size_t word_of(std::string_view text, const std::vector<std::string_view>& words);

}  // namespace holdfast::perf_test
