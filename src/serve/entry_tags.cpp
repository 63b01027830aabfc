// SPDX-License-Identifier: Apache-2.0
#include "serve/entry_tags.hpp"

#include <charconv>
#include <system_error>

#include "holdfast/detail/value_tag.hpp"

namespace holdfast::serve {

entity_tag::entity_tag(std::uint64_t number) noexcept {
    text_.front() = text_.back() = '"';
    for (std::size_t i = 15; i < text_.size(); i -= 2, number >>= 8U) {
        text_[i] = "0123456789abcdef"[number >> 4U & 15U];
        text_[i + 1] = "0123456789abcdef"[number & 15U];
    }
}

entity_tag entry_tags::of(std::span<const std::byte> value) const noexcept {
    return entity_tag(detail::value_tag(value) ^ schema_);
}

std::optional<std::uint64_t> number_of_tag(std::string_view tag) noexcept {
    std::uint64_t number = 0;
    if (tag.size() != entity_tag(0).text().size()) return std::nullopt;
    const auto [end, code] = std::from_chars(tag.data() + 1, tag.data() + tag.size() - 1, number, 16);
    // Written back: one number, one text.
    if (code != std::errc{} || end != tag.data() + tag.size() - 1 || entity_tag(number).text() != tag)
        return std::nullopt;
    return number;
}

}  // namespace holdfast::serve
