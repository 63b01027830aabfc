// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/uri.hpp"

#include <algorithm>
#include <cstdint>

#include "characters.hpp"
#include "holdfast/net/utf8_checker.hpp"

namespace holdfast::net {

bool percent_decode(std::string_view text, std::string& out) {
    while (true) {
        const std::size_t plain = std::min(text.find('%'), text.size());
        out.append(text.data(), plain);
        text.remove_prefix(plain);
        if (text.empty()) return true;
        if (text.size() < 3 || !detail::is(text[1], detail::hex_char) || !detail::is(text[2], detail::hex_char))
            return false;
        out.push_back(static_cast<char>(detail::hex_value(text[1]) << 4U | detail::hex_value(text[2])));
        text.remove_prefix(3);
    }
}

void percent_encode(std::string_view text, std::string& out) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    for (const char c : text) {
        if (detail::is(c, detail::unreserved)) {
            out.push_back(c);
            continue;
        }
        const auto byte = static_cast<unsigned char>(c);
        out.push_back('%');
        out.push_back(digits[byte >> 4U]);
        out.push_back(digits[byte & 15U]);
    }
}

bool split_path(std::string_view path, std::vector<std::string>& segments) {
    if (!path.starts_with('/')) return false;
    const bool plain = path.find('%') == std::string_view::npos;  // as most are
    std::size_t count = 0;
    while (!path.empty()) {
        path.remove_prefix(1);
        const std::size_t end = std::min(path.find('/'), path.size());
        if (count == segments.size()) segments.emplace_back();
        std::string& segment = segments[count++];
        if (plain) {
            segment.assign(path, 0, end);
        } else {
            segment.clear();
            if (!percent_decode(path.substr(0, end), segment)) return false;
        }
        path.remove_prefix(end);
    }
    segments.resize(count);
    return true;
}

std::optional<std::vector<std::string>> split_path(std::string_view path) {
    std::vector<std::string> segments;
    segments.reserve(4);  // most paths have no more
    if (!split_path(path, segments)) return std::nullopt;
    return segments;
}

bool is_utf8(std::string_view text) noexcept {
    utf8_checker checked;
    return checked.take(text) && checked.whole();
}

std::optional<query_parameters> query_parameters::parse(std::string_view query) {
    query_parameters result;
    const auto decode = [](std::string_view text, std::string& out) {
        std::string spaced(text);
        std::replace(spaced.begin(), spaced.end(), '+', ' ');
        return percent_decode(spaced, out);
    };
    while (!query.empty()) {
        const std::size_t end = query.find('&');
        const std::string_view piece = query.substr(0, end);
        const std::size_t equals = std::min(piece.find('='), piece.size());
        std::string name;
        std::string value;
        if (result.items_.size() == parameters_max) return std::nullopt;  // each is compared with those before it
        if (!decode(piece.substr(0, equals), name) || name.empty() || result.get(name)) return std::nullopt;
        if (!decode(piece.substr(std::min(equals + 1, piece.size())), value)) return std::nullopt;
        result.items_.emplace_back(std::move(name), std::move(value));
        if (end == std::string_view::npos) return result;
        query.remove_prefix(end + 1);
        if (query.empty()) return std::nullopt;  // a '&' with nothing behind it
    }
    return result;
}

std::optional<std::string_view> query_parameters::get(std::string_view name) const noexcept {
    for (const auto& [key, value] : items_)
        if (key == name) return value;
    return std::nullopt;
}

}  // namespace holdfast::net
