// SPDX-License-Identifier: Apache-2.0
// time_text.hpp - instants to and from RFC 3339 text.
//
// Written in UTC with 0, 3, 6 or 9 fractional digits, the fewest that lose nothing: 2026-11-21T08:43:53.123Z.
// Read with any offset and 1 to 9 fractional digits; 'T' may be 't' or a blank, 'Z' may be 'z'. A leap second (:60) is
// refused: the count of nanoseconds has no place for it. Source: RFC 3339 section 5.6; days from civil dates after
// H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", 2013.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/record/types.hpp"

namespace holdfast {

namespace detail {

struct civil_date {
    std::int64_t year;
    unsigned month, day;
};

/// Days since 1970-01-01 of a date of the Gregorian calendar.
[[nodiscard]] constexpr std::int64_t days_from_civil(civil_date date) noexcept {
    const std::int64_t y = date.year - (date.month <= 2 ? 1 : 0);  // years begin in March: February's end is the year's
    const std::int64_t era = (y >= 0 ? y : y - 399) / 400;
    const std::int64_t year_of_era = y - era * 400;
    const std::int64_t day_of_year = (153 * (date.month + (date.month > 2 ? -3LL : 9LL)) + 2) / 5 + date.day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

[[nodiscard]] constexpr civil_date civil_from_days(std::int64_t days) noexcept {
    days += 719468;
    const std::int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    const std::int64_t day = days - era * 146097;
    const std::int64_t year_of_era = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    const std::int64_t day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const std::int64_t shifted = (5 * day_of_year + 2) / 153;
    const auto month = static_cast<unsigned>(shifted < 10 ? shifted + 3 : shifted - 9);
    return {year_of_era + era * 400 + (month <= 2 ? 1 : 0), month,
            static_cast<unsigned>(day_of_year - (153 * shifted + 2) / 5 + 1)};
}

[[nodiscard]] constexpr unsigned days_in_month(std::int64_t year, unsigned month) noexcept {
    constexpr std::array<unsigned, 12> days{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && leap ? 29 : days[month - 1];
}

inline void append_padded(std::string& out, std::uint64_t value, std::size_t digits) {
    const std::size_t begin = out.size();
    out.append(digits, '0');
    for (std::size_t i = begin + digits; i > begin; value /= 10) out[--i] = static_cast<char>('0' + value % 10);
}

/// Takes pieces of a timestamp from the front of a text.
class time_scanner {
 public:
    explicit time_scanner(std::string_view text) noexcept : rest_(text) {}

    [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }
    [[nodiscard]] bool accept(std::string_view any_of) noexcept {
        if (rest_.empty() || any_of.find(rest_[0]) == std::string_view::npos) return false;
        rest_.remove_prefix(1);
        return true;
    }
    /// Exactly n digits, or ok() turns false.
    [[nodiscard]] unsigned digits(std::size_t n) noexcept {
        unsigned value = 0;
        for (; n > 0; --n) {
            if (rest_.empty() || rest_[0] < '0' || rest_[0] > '9') {
                ok_ = false;
                return 0;
            }
            value = value * 10 + static_cast<unsigned>(rest_[0] - '0');
            rest_.remove_prefix(1);
        }
        return value;
    }
    void expect(std::string_view any_of) noexcept {
        if (!accept(any_of)) ok_ = false;
    }
    /// 1 to 9 digits as nanoseconds.
    [[nodiscard]] unsigned fraction() noexcept {
        unsigned value = digits(1);
        std::size_t n = 1;
        for (; n < 9 && !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; ++n) value = value * 10 + digits(1);
        for (; n < 9; ++n) value *= 10;
        return value;
    }
    [[nodiscard]] bool ok() const noexcept { return ok_; }

 private:
    std::string_view rest_;
    bool ok_ = true;
};

inline constexpr std::string_view time_form = "a timestamp is written like 2026-11-21T08:43:53.123456789Z (RFC 3339)";

}  // namespace detail

inline void append_text(std::string& out, timestamp time) {
    constexpr std::int64_t second = 1'000'000'000, day = 86'400;
    std::int64_t seconds = time.ns / second, ns = time.ns % second;
    if (ns < 0) ns += second, --seconds;
    std::int64_t days = seconds / day, of_day = seconds % day;
    if (of_day < 0) of_day += day, --days;
    const detail::civil_date date = detail::civil_from_days(days);
    const auto put = [&out](auto value, std::size_t digits, char after) {
        detail::append_padded(out, static_cast<std::uint64_t>(value), digits);
        if (after != 0) out += after;
    };
    put(date.year, 4, '-');
    put(date.month, 2, '-');
    put(date.day, 2, 'T');
    put(of_day / 3600, 2, ':');
    put(of_day / 60 % 60, 2, ':');
    put(of_day % 60, 2, 0);
    if (ns != 0) {
        out += '.';
        if (ns % 1'000'000 == 0)
            put(ns / 1'000'000, 3, 0);
        else if (ns % 1'000 == 0)
            put(ns / 1'000, 6, 0);
        else
            put(ns, 9, 0);
    }
    out += 'Z';
}

/// Reads an RFC 3339 timestamp into `time`. Returns: the reason if it cannot.
[[nodiscard]] inline std::optional<std::string> parse_timestamp(std::string_view text, timestamp& time) {
    detail::time_scanner in(text);
    const std::int64_t year = in.digits(4);
    in.expect("-");
    const unsigned month = in.digits(2);
    in.expect("-");
    const unsigned day = in.digits(2);
    in.expect("Tt ");
    const unsigned hour = in.digits(2);
    in.expect(":");
    const unsigned minute = in.digits(2);
    in.expect(":");
    const unsigned second = in.digits(2);
    const unsigned ns = in.accept(".") ? in.fraction() : 0;
    std::int64_t offset = 0;
    if (!in.accept("Zz")) {
        const bool west = in.accept("-");
        if (!west) in.expect("+");
        const unsigned offset_hour = in.digits(2);
        in.expect(":");
        const unsigned offset_minute = in.digits(2);
        if (offset_hour > 23 || offset_minute > 59) return "the offset of a timestamp goes to 23:59";
        offset = static_cast<std::int64_t>(offset_hour * 60 + offset_minute) * (west ? -60 : 60);
    }
    if (!in.ok() || !in.empty()) return std::string(detail::time_form);
    if (month < 1 || month > 12 || day < 1 || day > detail::days_in_month(year, month)) return "no such day";
    if (second == 60) return "leap seconds have no place in a count of nanoseconds; use :59 or the next second";
    if (hour > 23 || minute > 59 || second > 59) return "no such time of day";
    const std::int64_t seconds =
        detail::days_from_civil({year, month, day}) * 86'400 + hour * 3600 + minute * 60 + second - offset;
    // The product may leave int64 although the sum does not (near 1677): both bounds are checked in 128 bits.
    __extension__ using wide = __int128;
    const wide total = static_cast<wide>(seconds) * 1'000'000'000 + ns;
    if (total < std::numeric_limits<std::int64_t>::min() || total > std::numeric_limits<std::int64_t>::max())
        return "a timestamp lies between 1677-09-21T00:12:43.145224192Z and 2262-04-11T23:47:16.854775807Z";
    time.ns = static_cast<std::int64_t>(total);
    return std::nullopt;
}

}  // namespace holdfast
