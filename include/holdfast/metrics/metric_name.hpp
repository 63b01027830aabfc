// SPDX-License-Identifier: Apache-2.0
// metric_name.hpp - what a counter may be called: a family and its labels, in the text form every metrics tool reads.
//
//   family  geo_lookups_total                    [a-zA-Z_:][a-zA-Z0-9_:]*
//   labels  segment="geo4",country="US"          name="value" pairs joined by commas, no braces; may be empty
// A label name is [a-zA-Z_][a-zA-Z0-9_]*; a value is UTF-8 without control characters in which \ and " are escaped by a
// backslash and a line feed is written \n. By the usual convention a family that ends in _total only ever grows.
//
// The checks are used on both sides: what is registered obeys them, and what a reader finds in a segment is input and
// is shown only if it does. Source: Prometheus text exposition format 0.0.4; OpenMetrics 1.0, section "Text Format";
// UTF-8: RFC 3629 section 4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

namespace detail {

[[nodiscard]] constexpr bool is_metric_name_start(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
[[nodiscard]] constexpr bool is_metric_name_rest(char c) noexcept {
    return is_metric_name_start(c) || (c >= '0' && c <= '9');
}

/// Bytes of the well-formed, printable UTF-8 character that `text` starts with; 0 where there is none.
[[nodiscard]] constexpr std::size_t printable_utf8_bytes(std::string_view text) noexcept {
    const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    const auto follows = [&](std::size_t i, std::uint8_t low = 0x80, std::uint8_t high = 0xBF) {
        return i < text.size() && at(i) >= low && at(i) <= high;
    };
    if (text.empty()) return 0;
    const std::uint8_t lead = at(0);
    if (lead < 0x80) return lead >= 0x20 && lead != 0x7F ? 1 : 0;
    if (lead == 0xC2) return follows(1, 0xA0) ? 2 : 0;  // U+0080 to U+009F are control characters
    if (lead > 0xC2 && lead <= 0xDF) return follows(1) ? 2 : 0;
    if (lead >= 0xE0 && lead <= 0xEF) {
        const std::uint8_t low = lead == 0xE0 ? 0xA0 : 0x80;   // no overlong forms
        const std::uint8_t high = lead == 0xED ? 0x9F : 0xBF;  // no surrogates
        return follows(1, low, high) && follows(2) ? 3 : 0;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        const std::uint8_t low = lead == 0xF0 ? 0x90 : 0x80;
        const std::uint8_t high = lead == 0xF4 ? 0x8F : 0xBF;  // nothing beyond U+10FFFF
        return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
    }
    return 0;
}

/// Takes one name="value" off the front of `rest`; false where it is not well formed. `value` stays escaped.
[[nodiscard]] constexpr bool take_label(std::string_view& rest, std::string_view& name,
                                        std::string_view& value) noexcept {
    std::size_t i = 0;
    if (rest.empty() || !is_metric_name_start(rest[0])) return false;
    while (i < rest.size() && is_metric_name_rest(rest[i])) ++i;
    name = rest.substr(0, i);
    if (rest.substr(i, 2) != "=\"") return false;
    rest.remove_prefix(i + 2);
    for (i = 0; i < rest.size() && rest[i] != '"';) {
        if (rest[i] == '\\') {
            const std::string_view pair = rest.substr(i, 2);
            if (pair != "\\\\" && pair != "\\\"" && pair != "\\n") return false;
            i += 2;
            continue;
        }
        const std::size_t bytes = printable_utf8_bytes(rest.substr(i));
        if (bytes == 0) return false;
        i += bytes;
    }
    if (i >= rest.size()) return false;  // the closing quotation mark is missing
    value = rest.substr(0, i);
    rest.remove_prefix(i + 1);
    return true;
}

}  // namespace detail

/// Whether `family` can name a family of metrics.
[[nodiscard]] constexpr bool valid_metric_family(std::string_view family) noexcept {
    const auto start = [](char c) { return detail::is_metric_name_start(c) || c == ':'; };
    if (family.empty() || !start(family[0])) return false;
    for (const char c : family)
        if (!start(c) && !detail::is_metric_name_rest(c)) return false;
    return true;
}

/// Whether `labels` is empty or a well-formed list of labels in which no name comes twice.
[[nodiscard]] constexpr bool valid_metric_labels(std::string_view labels) noexcept {
    std::string_view rest = labels;
    std::string_view name;
    std::string_view value;
    while (!rest.empty()) {
        const std::size_t begin = labels.size() - rest.size();
        if (!detail::take_label(rest, name, value)) return false;
        std::string_view earlier = labels.substr(0, begin);  // quadratic, but a list of labels has a handful
        std::string_view other;
        while (!earlier.empty()) {
            std::string_view ignored;
            if (!detail::take_label(earlier, other, ignored)) return false;
            if (other == name) return false;
            if (!earlier.empty()) earlier.remove_prefix(1);
        }
        if (rest.empty()) return true;
        if (rest[0] != ',' || rest.size() == 1) return false;
        rest.remove_prefix(1);
    }
    return true;
}

/// Appends name="value" to a list of labels, with the comma it needs and the value escaped.
///
/// Bytes that are not printable UTF-8 are replaced by U+FFFD, so that any value can be counted.
inline void append_metric_label(std::string& labels, std::string_view name, std::string_view value) {
    if (!labels.empty()) labels += ',';
    labels.append(name).append("=\"");
    while (!value.empty()) {
        std::size_t bytes = detail::printable_utf8_bytes(value);
        if (value[0] == '\n') {
            labels += "\\n";
            bytes = 1;
        } else if (bytes == 0) {
            labels += "\xEF\xBF\xBD";
            bytes = 1;
        } else {
            if (value[0] == '"' || value[0] == '\\') labels += '\\';
            labels.append(value.substr(0, bytes));
        }
        value.remove_prefix(bytes);
    }
    labels += '"';
}

/// A list of one label; see append_metric_label.
[[nodiscard]] inline std::string metric_label(std::string_view name, std::string_view value) {
    std::string labels;
    append_metric_label(labels, name, value);
    return labels;
}

/// The unescaped value of one label, or nothing where the list has no such label or is not well formed.
[[nodiscard]] inline std::optional<std::string> metric_label_value(std::string_view labels, std::string_view wanted) {
    std::string_view name;
    std::string_view value;
    while (detail::take_label(labels, name, value)) {
        if (name == wanted) {
            std::string plain;
            for (std::size_t i = 0; i < value.size(); ++i) {
                const bool escaped = value[i] == '\\';
                if (escaped) ++i;  // take_label made sure that a character follows
                plain += escaped && value[i] == 'n' ? '\n' : value[i];
            }
            return plain;
        }
        if (!labels.empty()) labels.remove_prefix(1);
    }
    return std::nullopt;
}

}  // namespace holdfast
