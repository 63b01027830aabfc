// SPDX-License-Identifier: Apache-2.0
// markup.hpp - whether a page that we wrote is well-formed: tags nest, attributes are quoted, nothing is left open.
//
// For our own output, which is written as XML throughout: no comments, no CDATA, every empty element closed by "/>".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test {

namespace detail {

/// What is wrong with the attributes of a tag, empty if nothing.
[[nodiscard]] inline std::string attribute_fault(std::string_view rest) {
    while (true) {
        const std::size_t begin = rest.find_first_not_of(" \n");
        if (begin == std::string_view::npos) return {};
        rest.remove_prefix(begin);
        const std::size_t equals = rest.find('=');
        if (equals == std::string_view::npos || equals + 1 == rest.size() || rest[equals + 1] != '"')
            return "attribute without a quoted value: " + std::string(rest.substr(0, 40));
        const std::size_t end = rest.find('"', equals + 2);
        if (end == std::string_view::npos) return "attribute that does not end: " + std::string(rest.substr(0, 40));
        rest.remove_prefix(end + 1);
    }
}

[[nodiscard]] inline std::string text_fault(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < 0x20 && text[i] != '\n' && text[i] != '\t' && text[i] != '\r') return "control byte in the text";
        if (text[i] != '&') continue;
        bool known = false;
        for (const char* const entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"})
            known = known || text.substr(i).starts_with(entity);
        if (!known) return "bare &: " + std::string(text.substr(i, 20));
    }
    return {};
}

}  // namespace detail

/// The first thing that is wrong with the page, empty if it is well-formed.
[[nodiscard]] inline std::string markup_fault(std::string_view page) {
    constexpr std::string_view doctype = "<!DOCTYPE html>";
    if (!page.starts_with(doctype)) return "no doctype";
    page.remove_prefix(doctype.size());
    std::vector<std::string> open;
    while (!page.empty()) {
        const std::size_t begin = page.find('<');
        std::string fault = detail::text_fault(page.substr(0, begin));
        if (!fault.empty()) return fault;
        if (begin == std::string_view::npos) break;
        const std::size_t end = page.find('>', begin);
        if (end == std::string_view::npos) return "tag that does not end";
        std::string_view tag = page.substr(begin + 1, end - begin - 1);
        page.remove_prefix(end + 1);
        if (tag.starts_with('/')) {
            if (open.empty() || open.back() != tag.substr(1)) return "closed but not open: " + std::string(tag);
            open.pop_back();
            continue;
        }
        const bool empty = tag.ends_with('/');
        if (empty) tag.remove_suffix(1);
        const std::size_t name = tag.find_first_of(" \n");
        if (name != std::string_view::npos) fault = detail::attribute_fault(tag.substr(name));
        if (!fault.empty()) return fault;
        if (!empty) open.emplace_back(tag.substr(0, name));
    }
    return open.empty() ? std::string() : "left open: " + open.back();
}

}  // namespace holdfast::test
