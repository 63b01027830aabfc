// SPDX-License-Identifier: Apache-2.0
// representation.hpp - how the body of an answer is put together from a representation: which of its bytes, and what
// stands between them. Where they come from, memory or a file, is the caller's business.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/net/conditional.hpp"
#include "holdfast/net/range.hpp"
#include "holdfast/net/request.hpp"
#include "holdfast/net/response.hpp"

namespace holdfast::net {

struct body_part {
    std::string head;  // in front of it: of multipart/byteranges
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

struct body_layout {
    std::vector<body_part> parts;  // none: the answer has no body of the representation's
    std::string tail;
    std::uint64_t bytes = 0;
};

/// Judges the request, sets status and fields of the answer to it, and says what its body is.
[[nodiscard]] body_layout lay_out(const request& asked, const validators& current, std::string_view content_type,
                                  std::uint64_t size, bool with_ranges, response& to);

}  // namespace holdfast::net
