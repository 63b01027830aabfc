// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/conditional.hpp"

#include <cstddef>

#include "characters.hpp"
#include "holdfast/net/http_date.hpp"

namespace holdfast::net {

namespace {

constexpr std::string_view weak_prefix = "W/";

// Length of the tag that a text begins with; 0 where it begins with none.
std::size_t tag_bytes(std::string_view text) noexcept {
    std::size_t at = text.starts_with(weak_prefix) ? weak_prefix.size() : 0;
    if (at >= text.size() || text[at] != '"') return 0;
    while (++at < text.size() && text[at] != '"') {
        const auto c = static_cast<unsigned char>(text[at]);
        if (c < 0x21 || c == 0x7F) return 0;  // etagc: no blank, no control character
    }
    return at < text.size() ? at + 1 : 0;
}

entity_tag tag_at(std::string_view whole) noexcept {
    const bool weak = whole.starts_with(weak_prefix);
    return {whole.substr(weak ? weak_prefix.size() : 0), weak};
}

enum class named : std::uint8_t { absent, any, yes, no, malformed };

// Looks for the tag in one field, a list of tags (RFC 9110 section 5.6.1.2: empty members are read over).
named look_in_list(std::string_view list, const std::optional<entity_tag>& current, tag_comparison how) noexcept {
    bool found = false, any_member = false;
    while (true) {
        list = detail::trim_blanks(list);
        if (!list.empty() && list.front() != ',') {
            const std::size_t bytes = tag_bytes(list);
            if (bytes == 0) return named::malformed;
            any_member = true;
            found = found || (current && same_tag(tag_at(list.substr(0, bytes)), *current, how));
            list = detail::trim_blanks(list.substr(bytes));
        }
        if (list.empty()) break;
        if (list.front() != ',') return named::malformed;
        list.remove_prefix(1);
    }
    if (!any_member) return named::malformed;
    return found ? named::yes : named::no;
}

// All fields of the name are one list (section 5.3); "*" stands alone.
named look_for_tag(const request& asked, std::string_view name, const validators& current,
                   tag_comparison how) noexcept {
    const auto tag = parse_entity_tag(current.tag);
    named result = named::absent;
    for (std::size_t i = 0; i < asked.headers_size(); ++i) {
        const header_field each = asked.header_at(i);
        if (!equal_ignoring_case(each.name, name)) continue;
        const named here = each.value == "*" ? named::any : look_in_list(each.value, tag, how);
        if (here == named::malformed || result == named::any || (here == named::any && result != named::absent))
            return named::malformed;
        if (result != named::yes) result = here;
    }
    return result;
}

// The date of a field that came once and is one.
std::optional<std::int64_t> date_of(const request& asked, std::string_view name) noexcept {
    if (asked.header_count(name) != 1) return std::nullopt;
    return parse_http_date(*asked.header(name));
}

}  // namespace

std::optional<entity_tag> parse_entity_tag(std::string_view text) noexcept {
    if (text.empty() || tag_bytes(text) != text.size()) return std::nullopt;
    return tag_at(text);
}

bool same_tag(const entity_tag& a, const entity_tag& b, tag_comparison how) noexcept {
    return a.opaque == b.opaque && (how == tag_comparison::weak || (!a.weak && !b.weak));
}

condition judge_conditions(const request& asked, const validators& current) noexcept {
    const method m = asked.method();
    if (m == method::connect || m == method::options || m == method::trace) return condition::holds;
    const bool reads = m == method::get || m == method::head;

    const named match = look_for_tag(asked, "If-Match", current, tag_comparison::strong);
    if (match != named::absent) {
        if (!current.exists || (match != named::any && match != named::yes)) return condition::failed;
    } else if (current.exists && current.modified_s) {
        const auto since = date_of(asked, "If-Unmodified-Since");
        if (since && *current.modified_s > *since) return condition::failed;
    }

    const named none = look_for_tag(asked, "If-None-Match", current, tag_comparison::weak);
    if (none != named::absent) {
        if (none == named::malformed) return reads ? condition::holds : condition::failed;
        if (!current.exists || none == named::no) return condition::holds;
        return reads ? condition::not_modified : condition::failed;
    }
    if (reads && current.exists && current.modified_s) {
        const auto since = date_of(asked, "If-Modified-Since");
        if (since && *current.modified_s <= *since) return condition::not_modified;
    }
    return condition::holds;
}

bool range_is_current(const request& asked, const validators& current) noexcept {
    const std::size_t count = asked.header_count("If-Range");
    if (count == 0) return true;
    if (count > 1 || !current.exists) return false;
    const std::string_view value = *asked.header("If-Range");
    if (const auto tag = parse_entity_tag(value)) {
        const auto now = parse_entity_tag(current.tag);
        return now && same_tag(*tag, *now, tag_comparison::strong);
    }
    const auto date = parse_http_date(value);
    return date && current.modified_is_strong && current.modified_s == date;
}

}  // namespace holdfast::net
