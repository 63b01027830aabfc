// SPDX-License-Identifier: Apache-2.0
// conditions.hpp - what a request demands of the entry that it changes: RFC 9110 section 13.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/net/request.hpp"
#include "serve/entry_tags.hpp"

namespace holdfast::serve {

/// Whether a list of tags names this one, or is "*". By strong comparison, as changes demand: W/"x" names nothing.
[[nodiscard]] bool names_tag(std::string_view list, std::string_view tag) noexcept;

class conditions {
 public:
    /// Throws: failure 400 for what means nothing in a request that changes an entry.
    [[nodiscard]] static conditions of(const net::request& from);

    /// If-None-Match: *
    [[nodiscard]] bool only_new() const noexcept { return only_new_; }
    /// There is an If-Match.
    [[nodiscard]] bool of_value() const noexcept { return !match_.empty(); }
    /// Whether If-Match lets an entry be changed that has this value.
    [[nodiscard]] bool allow(std::span<const std::byte> value, const entry_tags& tags) const;
    /// Of If-Match: whether any value does that is there, and else detail::value_tag() of those that could be some's.
    [[nodiscard]] bool any_value() const noexcept;
    [[nodiscard]] std::vector<std::uint64_t> value_tags(const entry_tags& tags) const;

 private:
    std::string match_;  // all If-Match fields as one list
    bool only_new_ = false;
};

/// Refuses If-None-Match: * of what is `done` to an entry that has to be there. Throws: failure 400.
void refuse_only_new(const conditions& asked, std::string_view done);

}  // namespace holdfast::serve
