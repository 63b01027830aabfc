// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/request.hpp"

#include <array>

namespace holdfast::net {

namespace {

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

}  // namespace

std::string_view method_name(method m) noexcept {
    constexpr std::array<std::string_view, 9> names{"GET",     "HEAD",  "POST",  "PUT",    "DELETE",
                                                    "OPTIONS", "PATCH", "TRACE", "CONNECT"};
    const auto index = static_cast<std::size_t>(m);
    return index < names.size() ? names[index] : "?";
}

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (lower(a[i]) != lower(b[i])) return false;
    return true;
}

std::optional<std::string_view> request::header(std::string_view name) const noexcept {
    for (const auto& field : fields_)
        if (equal_ignoring_case(at(field.name), name)) return at(field.value);
    return std::nullopt;
}

std::size_t request::header_count(std::string_view name) const noexcept {
    std::size_t count = 0;
    for (const auto& field : fields_) count += equal_ignoring_case(at(field.name), name) ? 1 : 0;
    return count;
}

}  // namespace holdfast::net
