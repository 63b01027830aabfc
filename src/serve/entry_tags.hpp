// SPDX-License-Identifier: Apache-2.0
// entry_tags.hpp - entity tags of a table's entries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "holdfast/record/schema.hpp"

namespace holdfast::serve {

/// The tag of an entry, with its quotes; empty until it is one.
class entity_tag {
 public:
    entity_tag() = default;
    explicit entity_tag(std::uint64_t number) noexcept;
    [[nodiscard]] std::string_view text() const noexcept { return {text_.data(), text_[0] == '"' ? text_.size() : 0}; }

 private:
    std::array<char, 18> text_{};
};

/// The tags of a table's entries: of a value's bytes and of the schema by which clients read them. So the same value
/// has the same tag however it came to be, and what the same bytes mean in a table made anew with other fields has
/// another.
class entry_tags {
 public:
    explicit entry_tags(const container_schema& schema) : schema_(schema.hash()) {}
    [[nodiscard]] entity_tag of(std::span<const std::byte> value) const noexcept;
    /// detail::value_tag() of the values whose tag has this number.
    [[nodiscard]] std::uint64_t value_tag(std::uint64_t number) const noexcept { return number ^ schema_; }

 private:
    std::uint64_t schema_;
};

/// The number that a strong tag of ours has; nothing for any other text.
[[nodiscard]] std::optional<std::uint64_t> number_of_tag(std::string_view tag) noexcept;

}  // namespace holdfast::serve
