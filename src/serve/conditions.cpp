// SPDX-License-Identifier: Apache-2.0
#include "serve/conditions.hpp"

#include <algorithm>
#include <cstdint>

#include "holdfast/detail/value_tag.hpp"
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

}  // namespace

entity_tag::entity_tag(std::uint64_t number) noexcept {
    text_.front() = text_.back() = '"';
    for (std::size_t i = 15; i < text_.size(); i -= 2, number >>= 8U) {
        text_[i] = "0123456789abcdef"[number >> 4U & 15U];
        text_[i + 1] = "0123456789abcdef"[number & 15U];
    }
}

entity_tag tag_of(std::span<const std::byte> value) noexcept { return entity_tag(detail::value_tag(value)); }

bool names_tag(std::string_view list, std::string_view tag, comparison how) noexcept {
    while (!list.empty()) {
        const std::size_t comma = std::min(list.find(','), list.size());
        std::string_view one = list.substr(0, comma);
        list.remove_prefix(std::min(comma + 1, list.size()));
        while (one.starts_with(' ') || one.starts_with('\t')) one.remove_prefix(1);
        while (one.ends_with(' ') || one.ends_with('\t')) one.remove_suffix(1);
        if (how == comparison::weak && one.starts_with("W/")) one.remove_prefix(2);
        if (one == tag || one == "*") return true;
    }
    return false;
}

conditions conditions::of(const net::request& from) {
    conditions result;
    result.match_ = joined(from, "If-Match");
    if (result.match_.empty() && from.header_count("If-Match") != 0) throw failure{400, "If-Match names no tag"};
    if (const std::string none = joined(from, "If-None-Match"); !none.empty()) {
        if (none != "*") throw failure{400, "If-None-Match of what changes an entry can be * only"};
        if (result.of_value()) throw failure{400, "If-Match and If-None-Match: * cannot both hold"};
        result.only_new_ = true;
    }
    return result;
}

bool conditions::allow(std::span<const std::byte> value) const {
    return !of_value() || names_tag(match_, tag_of(value).text(), comparison::strong);
}

}  // namespace holdfast::serve
