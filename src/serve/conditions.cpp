// SPDX-License-Identifier: Apache-2.0
#include "serve/conditions.hpp"

#include <algorithm>
#include <cstdint>

#include "serve/failure.hpp"

namespace holdfast::serve {

namespace {

/// The fields of that name as one list: RFC 9110 section 5.3.
std::string joined(const net::request& from, std::string_view name) {
    std::string list;
    for (std::size_t i = 0; i < from.headers_size(); ++i) {
        const net::header_field each = from.header_at(i);
        if (net::equal_ignoring_case(each.name, name)) list.append(list.empty() ? "" : ", ").append(each.value);
    }
    return list;
}

/// The next member of a list of tags, without the blanks around it.
std::string_view take_tag(std::string_view& list) noexcept {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view one = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (one.starts_with(' ') || one.starts_with('\t')) one.remove_prefix(1);
    while (one.ends_with(' ') || one.ends_with('\t')) one.remove_suffix(1);
    return one;
}

bool is_any(std::string_view list) noexcept { return take_tag(list) == "*" && list.empty(); }

}  // namespace

// As net/conditional.cpp has it: "*" is all of a list, or a character of a tag.
bool names_tag(std::string_view list, std::string_view tag) noexcept {
    if (is_any(list)) return true;
    while (!list.empty())
        if (take_tag(list) == tag) return true;
    return false;
}

conditions conditions::of(const net::request& from) {
    conditions result;
    result.match_ = joined(from, "If-Match");
    if (result.match_.empty() && from.header_count("If-Match") != 0) throw failure{400, "If-Match names no tag"};
    if (from.header_count("If-None-Match") != 0) {
        if (joined(from, "If-None-Match") != "*")
            throw failure{400, "If-None-Match of what changes an entry can be * only"};
        if (result.of_value()) throw failure{400, "If-Match and If-None-Match: * cannot both hold"};
        result.only_new_ = true;
    }
    return result;
}

bool conditions::allow(std::span<const std::byte> value, const entry_tags& tags) const {
    return !of_value() || names_tag(match_, tags.of(value).text());
}

bool conditions::any_value() const noexcept { return is_any(match_); }

std::vector<std::uint64_t> conditions::value_tags(const entry_tags& tags) const {
    std::vector<std::uint64_t> all;
    for (std::string_view list = match_; !list.empty();)
        if (const auto number = number_of_tag(take_tag(list))) all.push_back(tags.value_tag(*number));
    return all;
}

void refuse_only_new(const conditions& asked, std::string_view done) {
    if (asked.only_new()) throw failure{400, "If-None-Match: * means nothing for what is " + std::string(done)};
}

}  // namespace holdfast::serve
