// SPDX-License-Identifier: Apache-2.0
// conditional.hpp - conditional requests: entity tags, and what a request demands of the representation there is now.
//
// (I1) The fields are looked at in the order of RFC 9110 section 13.2.2; one that outranks another hides it.
// (I2) What is malformed never lets a change happen, and costs a reader bytes at most: a list of tags that is not one
//      names no tag, so that If-Match fails; so does If-None-Match, but for GET and HEAD, which get the whole answer. A
//      date that is none is ignored, as the RFC demands.
// When to ask: once the request would be answered 2xx without its conditions (section 13.2.1), and before anything is
// changed for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "holdfast/net/request.hpp"

namespace holdfast::net {

/// An entity tag, a view of where it was read.
struct entity_tag {
    std::string_view opaque;  ///< with its quotes
    bool weak = false;        ///< W/"..."
};

/// Returns: nothing for what is not exactly one tag. Source: RFC 9110 section 8.8.3.
[[nodiscard]] std::optional<entity_tag> parse_entity_tag(std::string_view text) noexcept;

/// Strong: the same bytes, so neither may be weak. Weak: as good for a cache. Source: RFC 9110 section 8.8.3.2.
enum class tag_comparison : std::uint8_t { strong, weak };
[[nodiscard]] bool same_tag(const entity_tag& a, const entity_tag& b, tag_comparison how) noexcept;

/// What the representation is that the conditions are about.
struct validators {
    std::string_view tag{};                    ///< "x" with its quotes, or W/"x"; empty: it has none
    std::optional<std::int64_t> modified_s{};  ///< Last-Modified, seconds since 1970
    bool modified_is_strong = false;           ///< it cannot have changed twice within that second
    bool exists = true;                        ///< there is one; what else stands here means nothing where not
};

enum class condition : std::uint8_t {
    holds,         ///< go on
    not_modified,  ///< of GET and HEAD: 304
    failed,        ///< 412
};

/// Judges If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since. CONNECT, OPTIONS and TRACE have no
/// conditions. Cost: linear in the fields; no allocation. Source: RFC 9110 sections 13.1 and 13.2.
[[nodiscard]] condition judge_conditions(const request& asked, const validators& current) noexcept;

/// Judges If-Range: whether a Range field counts, so far as this decides. True without an If-Range.
/// Source: RFC 9110 section 13.1.5.
[[nodiscard]] bool range_is_current(const request& asked, const validators& current) noexcept;

}  // namespace holdfast::net
