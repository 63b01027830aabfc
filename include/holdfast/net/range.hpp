// SPDX-License-Identifier: Apache-2.0
// range.hpp - ranges of bytes: what a Range field selects, and the answers 206 and 416.
//
// (I1) What is sent is bounded by the representation: ranges that overlap, touch, or lie closer together than the
//      frame of a part is long are sent as one, so no list of ranges makes an answer longer than the representation
//      and a frame for each of at most `ranges_max` parts.
// (I2) A Range field that is malformed, of another unit, sent twice, or of more than `ranges_max` ranges is ignored, as
//      RFC 9110 section 14.2 allows: the answer is the whole. One that is well-formed and reaches nothing is 416.
// (I3) Parts come in the order in which the client named the first of what each holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/net/conditional.hpp"
#include "holdfast/net/request.hpp"
#include "holdfast/net/response.hpp"

namespace holdfast::net {

/// Bytes [first, last] of a representation, both included, as they are written.
struct byte_range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;

    [[nodiscard]] std::uint64_t bytes() const noexcept { return last - first + 1; }
    friend bool operator==(const byte_range&, const byte_range&) = default;
};

enum class range_verdict : std::uint8_t {
    whole,          ///< 200: there is no range, or none that counts
    partial,        ///< 206
    unsatisfiable,  ///< 416: no range reaches into the representation
};

struct range_selection {
    range_verdict verdict = range_verdict::whole;
    std::vector<byte_range> ranges;  ///< of `partial`: one or more, apart from each other, inside the representation
};

inline constexpr std::size_t ranges_max_by_default = 16;

/// What the value of a Range field selects of a representation of `size` bytes.
/// Throws: std::bad_alloc. Source: RFC 9110 sections 14.1 and 14.2.
[[nodiscard]] range_selection select_ranges(std::string_view field, std::uint64_t size,
                                            std::size_t ranges_max = ranges_max_by_default);

/// The same for a request: the whole unless it is a GET with one Range field that If-Range lets count.
[[nodiscard]] range_selection select_ranges(const request& asked, const validators& current, std::uint64_t size,
                                            std::size_t ranges_max = ranges_max_by_default);

/// Appends the value of Content-Range, "bytes 0-499/1234", or of one that answers 416, "bytes */1234".
void append_content_range(std::string& out, byte_range range, std::uint64_t size);
void append_unsatisfied_range(std::string& out, std::uint64_t size);

/// Answers a GET or HEAD with the representation that `to` holds as its body, as its conditions and ranges ask: 200,
/// 206 with one range or multipart/byteranges, 304, 412 or 416. Sets ETag, Last-Modified, Accept-Ranges, Content-Type
/// and Content-Range; other fields set before stay, but for 412 and 416, which are problems. A response whose status is
/// not 200, or a request of another method, gets the validators and the type alone.
/// Throws: error(invalid_argument) for a tag that is none; std::bad_alloc. Cost: copies what a 206 sends.
void answer_representation(const request& asked, const validators& current, std::string_view content_type,
                           response& to);

}  // namespace holdfast::net
