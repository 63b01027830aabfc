// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/http_date.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <span>

#include "characters.hpp"

namespace holdfast::net {

namespace {

using std::chrono::day;
using std::chrono::month;
using std::chrono::sys_days;
using std::chrono::year;
using std::chrono::year_month_day;

constexpr std::array<std::string_view, 7> days{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                               "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::size_t short_name = 3;
constexpr std::int64_t day_s = 86400;
constexpr std::int64_t fifty_years_s = 50 * 31'556'952LL;  // of the Gregorian calendar's mean year

// Takes a text off its front, piece by piece; once a piece is not there, `good` stays false.
struct date_reader {
    std::string_view rest;
    bool good = true;

    void literal(std::string_view expected) noexcept {
        good = good && rest.starts_with(expected);
        if (good) rest.remove_prefix(expected.size());
    }
    [[nodiscard]] unsigned number(std::size_t digits) noexcept {
        good = good && rest.size() >= digits;
        unsigned value = 0;
        for (std::size_t i = 0; good && i < digits; ++i) {
            good = detail::is_digit(rest[i]);
            value = value * 10 + static_cast<unsigned>(rest[i] - '0');
        }
        if (good) rest.remove_prefix(digits);
        return good ? value : 0;
    }
    // Which of the names stands here; of names of which one begins like another there are none.
    [[nodiscard]] unsigned name(std::span<const std::string_view> names, std::size_t bytes_max) noexcept {
        for (unsigned i = 0; good && i < names.size(); ++i) {
            const std::string_view one = names[i].substr(0, bytes_max);
            if (!rest.starts_with(one)) continue;
            rest.remove_prefix(one.size());
            return i;
        }
        good = false;
        return 0;
    }
};

struct parts {
    unsigned weekday = 0, day = 0, month = 0, hour = 0, minute = 0, second = 0;
    int year = 0;
};

void read_clock(date_reader& from, parts& to) noexcept {
    to.hour = from.number(2);
    from.literal(":");
    to.minute = from.number(2);
    from.literal(":");
    to.second = from.number(2);
}

// The second that the parts name; nothing where there is no such date, time or day of the week.
std::optional<std::int64_t> second_of(const parts& p) noexcept {
    const year_month_day date(year(p.year), month(p.month + 1), day(p.day));
    if (!date.ok() || p.hour > 23 || p.minute > 59 || p.second > 60) return std::nullopt;
    if (p.second == 60 && (p.hour != 23 || p.minute != 59)) return std::nullopt;  // a leap second
    const sys_days at(date);
    if (std::chrono::weekday(at).c_encoding() != p.weekday) return std::nullopt;
    return at.time_since_epoch().count() * day_s + p.hour * 3600 + p.minute * 60 + p.second;
}

std::optional<std::int64_t> read_fixed(date_reader from) noexcept {  // Sun, 06 Nov 1994 08:49:37 GMT
    parts p;
    p.weekday = from.name(days, short_name);
    from.literal(", ");
    p.day = from.number(2);
    from.literal(" ");
    p.month = from.name(months, short_name);
    from.literal(" ");
    p.year = static_cast<int>(from.number(4));
    from.literal(" ");
    read_clock(from, p);
    from.literal(" GMT");
    if (!from.good || !from.rest.empty()) return std::nullopt;
    return second_of(p);
}

std::optional<std::int64_t> read_asctime(date_reader from) noexcept {  // Sun Nov  6 08:49:37 1994
    parts p;
    p.weekday = from.name(days, short_name);
    from.literal(" ");
    p.month = from.name(months, short_name);
    from.literal(" ");
    const bool one_digit = from.rest.starts_with(' ');
    if (one_digit) from.literal(" ");
    p.day = from.number(one_digit ? 1 : 2);
    from.literal(" ");
    read_clock(from, p);
    from.literal(" ");
    p.year = static_cast<int>(from.number(4));
    if (!from.good || !from.rest.empty()) return std::nullopt;
    return second_of(p);
}

std::optional<std::int64_t> read_rfc850(date_reader from, std::int64_t now_s) noexcept {  // Sunday, 06-Nov-94 ...
    parts p;
    p.weekday = from.name(days, std::string_view::npos);
    from.literal(", ");
    p.day = from.number(2);
    from.literal("-");
    p.month = from.name(months, short_name);
    from.literal("-");
    const int digits = static_cast<int>(from.number(2));
    from.literal(" ");
    read_clock(from, p);
    from.literal(" GMT");
    if (!from.good || !from.rest.empty()) return std::nullopt;
    constexpr std::int64_t years_9999_s = 253'402'300'799;
    now_s = std::clamp<std::int64_t>(now_s, 0, years_9999_s);
    const year_month_day today(sys_days(std::chrono::days(now_s / day_s)));
    const int latest = static_cast<int>(today.year()) + 50;
    p.year = latest - (latest - digits) % 100;
    // The day of the week belongs to the year that is meant, so it is looked at once that is known. A leap second may
    // round the comparison by one, fifty years from now.
    const year_month_day date(year(p.year), month(p.month + 1), day(p.day));
    if (sys_days(date).time_since_epoch().count() * day_s + p.hour * 3600 + p.minute * 60 + p.second >
        now_s + fifty_years_s)
        p.year -= 100;
    return second_of(p);
}

std::int64_t real_now_s() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec;
}

}  // namespace

std::optional<std::int64_t> parse_http_date(std::string_view text, std::int64_t now_s) noexcept {
    if (text.size() < 24) return std::nullopt;
    if (text[short_name] == ',') return read_fixed({text});
    if (text[short_name] == ' ') return read_asctime({text});
    return read_rfc850({text}, now_s);
}

std::optional<std::int64_t> parse_http_date(std::string_view text) noexcept {
    return parse_http_date(text, real_now_s());
}

void append_http_date(std::string& out, std::int64_t seconds) {
    constexpr std::int64_t first_s = -62'167'219'200, last_s = 253'402'300'799;  // of the years 0 and 9999
    seconds = std::clamp(seconds, first_s, last_s);
    const auto at = std::chrono::floor<std::chrono::days>(std::chrono::sys_seconds(std::chrono::seconds(seconds)));
    const year_month_day date(at);
    const auto clock = static_cast<unsigned>(seconds - at.time_since_epoch().count() * day_s);
    const auto digits = [&out](unsigned value, unsigned places) {
        for (unsigned unit = places == 4 ? 1000 : 10; unit != 0; unit /= 10)
            out.push_back(static_cast<char>('0' + value / unit % 10));
    };
    out.append(days[std::chrono::weekday(at).c_encoding()].substr(0, short_name)).append(", ");
    digits(static_cast<unsigned>(date.day()), 2);
    out.append(" ").append(months[static_cast<unsigned>(date.month()) - 1]).append(" ");
    digits(static_cast<unsigned>(static_cast<int>(date.year())), 4);
    out.append(" ");
    digits(clock / 3600, 2);
    out.append(":");
    digits(clock / 60 % 60, 2);
    out.append(":");
    digits(clock % 60, 2);
    out.append(" GMT");
}

}  // namespace holdfast::net
