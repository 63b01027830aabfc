// SPDX-License-Identifier: Apache-2.0
#include "perf_test/flag_values.hpp"

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "holdfast/perf_test/options.hpp"

namespace holdfast::perf_test {
namespace {

constexpr double hz_max = 1e9;
constexpr double day = 24 * 3600.0;

std::string quoted(std::string_view text) { return std::string(1, '\'').append(text).append(1, '\''); }

// A number and what follows it.
std::pair<double, std::string_view> number_of(std::string_view text, const char* wanted) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, failed] = std::from_chars(text.data(), end, value);
    if (failed == std::errc::result_out_of_range || (failed == std::errc() && !std::isfinite(value))) {
        throw usage_error(quoted(text) + " is too large or too small a number; wanted: " + wanted);
    }
    if (failed != std::errc()) throw usage_error(quoted(text) + " is no number; wanted: " + wanted);
    return {value, std::string_view(rest, static_cast<std::size_t>(end - rest))};
}

std::optional<double> factor_of(std::string_view unit,
                                std::initializer_list<std::pair<std::string_view, double>> units) {
    for (const auto& [name, factor] : units) {
        if (name == unit) return factor;
    }
    return std::nullopt;
}

}  // namespace

double rate_of(std::string_view text) {
    constexpr auto wanted =
        "operations a second, like 100, 10k or 2.5M, at most 1e9; 0 for no limit, -1 for the default";
    const auto [value, unit] = number_of(text, wanted);
    const auto factor = factor_of(unit, {{"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}});
    if (!factor) throw usage_error(quoted(text) + ": unknown unit " + quoted(unit) + "; wanted: " + wanted);
    const double hz = value * *factor;
    if (hz < 0 || hz > hz_max || std::signbit(value))
        throw usage_error(quoted(text) + " is out of range; wanted: " + wanted);
    return hz;
}

double seconds_of(std::string_view text, bool zero) {
    const auto wanted = zero ? "milliseconds, or a number with us, ms, s or min; at most a day; 0 for none"
                             : "milliseconds above 0, or a number with us, ms, s or min; at most a day";
    const auto [value, unit] = number_of(text, wanted);
    const auto factor = factor_of(unit, {{"", 1e-3}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}});
    if (!factor) throw usage_error(quoted(text) + ": unknown unit " + quoted(unit) + "; wanted: " + wanted);
    const double seconds = value * *factor;
    if (seconds > day || !(zero ? seconds >= 0 : seconds > 0)) {
        throw usage_error(quoted(text) + " is out of range; wanted: " + wanted);
    }
    return seconds;
}

double part_of(std::string_view text) {
    constexpr auto wanted = "a part above 0 and below 1, like 3% or 0.03";
    const auto [value, unit] = number_of(text, wanted);
    const auto factor = factor_of(unit, {{"", 1}, {"%", 0.01}});
    if (!factor) throw usage_error(quoted(text) + ": unknown unit " + quoted(unit) + "; wanted: " + wanted);
    const double part = value * *factor;
    if (!(part > 0 && part < 1)) throw usage_error(quoted(text) + " is out of range; wanted: " + wanted);
    return part;
}

std::uint64_t whole_of(std::string_view text, std::uint64_t least, std::uint64_t most) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, failed] = std::from_chars(text.data(), end, value);
    if (failed != std::errc() || rest != end || value < least || value > most) {
        throw usage_error(quoted(text) + ": wanted: a whole number from " + std::to_string(least) + " to " +
                          std::to_string(most));
    }
    return value;
}

std::vector<std::uint64_t> wholes_of(std::string_view text, std::uint64_t least, std::uint64_t most) {
    constexpr std::size_t members_max = 4096;
    std::vector<std::uint64_t> found;
    for (std::size_t from = 0; from <= text.size();) {
        const std::size_t comma = std::min(text.find(',', from), text.size());
        const std::string_view member = text.substr(from, comma - from);
        const std::size_t dash = member.find('-');
        const std::uint64_t first = whole_of(member.substr(0, dash), least, most);
        const std::uint64_t last =
            dash == std::string_view::npos ? first : whole_of(member.substr(dash + 1), least, most);
        if (last < first) throw usage_error(quoted(member) + ": the range goes down");
        if (last - first >= members_max - found.size()) throw usage_error(quoted(text) + ": more than 4096 numbers");
        for (std::uint64_t value = first; value <= last; ++value) found.push_back(value);
        from = comma + 1;
    }
    return found;
}

std::string file_of(std::string_view text) {
    if (text.empty()) throw usage_error("wanted: the name of a file");
    return std::string(text);
}

std::size_t word_of(std::string_view text, const std::vector<std::string_view>& words) {
    std::string list;
    for (std::size_t at = 0; at < words.size(); ++at) {
        if (words[at] == text) return at;
        if (at > 0) list += at + 1 == words.size() ? " or " : ", ";
        list += words[at];
    }
    throw usage_error(quoted(text) + ": wanted: " + list);
}

}  // namespace holdfast::perf_test
