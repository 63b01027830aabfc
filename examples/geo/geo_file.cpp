// SPDX-License-Identifier: Apache-2.0
#include "geo_file.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace geo {

namespace {

address address_of_number(std::uint32_t number) {
    address at{};
    for (std::size_t i = 0; i < 4; ++i) at[12 + i] = static_cast<std::uint8_t>(number >> (8 * (3 - i)));
    return at;
}

std::uint32_t number_of(const address& at) {
    std::uint32_t number = 0;
    for (std::size_t i = 12; i < 16; ++i) number = number << 8U | at[i];
    return number;
}

bool parse_address(std::string_view text, family which, address& to) {
    if (which == family::v6) return ::inet_pton(AF_INET6, std::string(text).c_str(), to.data()) == 1;
    std::uint32_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    to = address_of_number(number);
    return failure == std::errc() && end == text.data() + text.size();
}

range parse_line(std::string_view line, family which, const std::string& where) {
    range parsed;
    const std::size_t first = line.find(',');
    const std::size_t second = first == std::string_view::npos ? first : line.find(',', first + 1);
    const bool sound = second != std::string_view::npos && parse_address(line.substr(0, first), which, parsed.low) &&
                       parse_address(line.substr(first + 1, second - first - 1), which, parsed.high) &&
                       line.size() - second == 3 && parsed.low <= parsed.high;
    if (!sound) throw std::runtime_error(where + ": not a LOW,HIGH,COUNTRY line: " + std::string(line));
    parsed.country = line.substr(second + 1);
    return parsed;
}

using file_handle = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

file_handle open_file(const std::string& path, const char* mode) {
    file_handle file(std::fopen(path.c_str(), mode), &std::fclose);
    if (!file) throw std::runtime_error(path + ": cannot be opened; ./dev run fetches it");
    return file;
}

}  // namespace

database read_database(const std::string& path, family which) {
    const file_handle file = open_file(path, "re");
    database result;
    result.family = which;
    char buffer[512];
    for (std::size_t number = 1; std::fgets(buffer, sizeof buffer, file.get()) != nullptr; ++number) {
        std::string_view line(buffer);
        while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
        if (line.empty() || line.front() == '#') continue;
        result.ranges.push_back(parse_line(line, which, path + ":" + std::to_string(number)));
    }
    std::ranges::sort(result.ranges, {}, &range::low);
    return result;
}

void write_database(const database& from, const std::string& path) {
    const file_handle file = open_file(path, "we");
    for (const range& r : from.ranges) {
        if (from.family == family::v4) {
            std::fprintf(file.get(), "%u,%u,%s\n", number_of(r.low), number_of(r.high), r.country.c_str());
        } else {
            std::fprintf(file.get(), "%s,%s,%s\n", text_of(r.low, family::v6).c_str(),
                         text_of(r.high, family::v6).c_str(), r.country.c_str());
        }
    }
    if (std::fflush(file.get()) != 0) throw std::runtime_error(path + ": cannot be written");
}

database second_edition(const database& first) {
    database edition;
    edition.family = first.family;
    for (std::size_t i = 0; i < first.ranges.size(); ++i) {
        if (i % 7 == 3) continue;
        range changed = first.ranges[i];
        std::ranges::reverse(changed.country);
        for (char& c : changed.country)
            if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
        edition.ranges.push_back(std::move(changed));
    }
    return edition;
}

const range* database::find(const address& at) const {
    const auto after = std::ranges::upper_bound(ranges, at, {}, &range::low);
    if (after == ranges.begin()) return nullptr;
    const range& candidate = *std::prev(after);
    return at <= candidate.high ? &candidate : nullptr;
}

std::optional<std::string> database::expected(const address& at) const {
    const range* const covering = find(at);
    if (covering == nullptr) return std::nullopt;
    return R"({"low":")" + text_of(covering->low, family) + R"(","high":")" + text_of(covering->high, family) +
           R"(","country":")" + covering->country + R"("})";
}

std::string text_of(const address& at, family which) {
    char text[INET6_ADDRSTRLEN];
    const void* const bytes = which == family::v4 ? at.data() + 12 : at.data();
    return ::inet_ntop(which == family::v4 ? AF_INET : AF_INET6, bytes, text, sizeof text);
}

address next_after(address at) {
    for (std::size_t i = 16; i-- > 0;)
        if (++at[i] != 0) break;
    return at;
}

address before(address at) {
    for (std::size_t i = 16; i-- > 0;)
        if (at[i]-- != 0) break;
    return at;
}

}  // namespace geo
