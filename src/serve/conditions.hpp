// SPDX-License-Identifier: Apache-2.0
// conditions.hpp - entity tags of entries, and what a request demands of the one it changes: RFC 9110 section 13.1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/net/request.hpp"

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

/// Of its value's bytes, so that the same value has the same tag however it came to be.
[[nodiscard]] entity_tag tag_of(std::span<const std::byte> value) noexcept;

/// Whether a list of tags names this one, or is "*". By strong comparison, as changes demand: W/"x" names nothing.
[[nodiscard]] bool names_tag(std::string_view list, std::string_view tag) noexcept;

/// The number that a strong tag of ours has; nothing for any other text.
[[nodiscard]] std::optional<std::uint64_t> number_of_tag(std::string_view tag) noexcept;

class conditions {
 public:
    /// Throws: failure 400 for what means nothing in a request that changes an entry.
    [[nodiscard]] static conditions of(const net::request& from);

    /// If-None-Match: *
    [[nodiscard]] bool only_new() const noexcept { return only_new_; }
    /// There is an If-Match.
    [[nodiscard]] bool of_value() const noexcept { return !match_.empty(); }
    /// Whether If-Match lets an entry be changed that has this value.
    [[nodiscard]] bool allow(std::span<const std::byte> value) const;
    /// Of If-Match: whether any value does that is there, and else the numbers of the tags that could be some value's.
    [[nodiscard]] bool any_value() const noexcept;
    [[nodiscard]] std::vector<std::uint64_t> tags() const;

 private:
    std::string match_;  // all If-Match fields as one list
    bool only_new_ = false;
};

/// Refuses If-None-Match: * of what is `done` to an entry that has to be there. Throws: failure 400.
void refuse_only_new(const conditions& asked, std::string_view done);

}  // namespace holdfast::serve
