// SPDX-License-Identifier: Apache-2.0
// histogram_bytes.hpp - a histogram as a few hundred bytes that travel: from host to host, into a file, into a log.
//
//   offset  bytes  field
//        0      4  magic        "HFLH"
//        4      1  version      1
//        5      1  sub-bucket bits (6), and
//        6      1  greatest exponent (40): the buckets of log_linear.hpp
//        7      1  extremes     1 if a least and a greatest value follow, else 0
//        8    1..  sum, then least and greatest if there are any, then how many buckets are not empty;
//                  for each of these: how many empty ones lie before it since the last, and its count
//                  all of them varints: 7 bits a byte, lowest first, the top bit says that more follow
//      end      8  checksum of all before it, little-endian (detail/checksum.hpp)
// (I1) A histogram has one form: varints are as short as they can be, no count is 0. So bytes that parse are the bytes
//      that would be written, and equal histograms are equal bytes.
// What arrives is input: it is refused, with what is wrong with it, or it is whole.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/detail/checksum.hpp"
#include "holdfast/error.hpp"
#include "holdfast/metrics/histogram_counts.hpp"
#include "holdfast/metrics/log_linear.hpp"

namespace holdfast {

/// No histogram takes more bytes: each bucket a gap of up to 2 bytes and a count of up to 10.
inline constexpr std::size_t histogram_bytes_max = 8 + 4 * 10 + 12 * log_linear::buckets + 8;

namespace detail {

inline constexpr std::array<std::byte, 7> histogram_magic{std::byte{'H'},
                                                          std::byte{'F'},
                                                          std::byte{'L'},
                                                          std::byte{'H'},
                                                          std::byte{1},
                                                          std::byte{log_linear::sub_bucket_bits},
                                                          std::byte{log_linear::exponent_max}};

inline void append_varint(std::vector<std::byte>& to, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) to.push_back(static_cast<std::byte>((value & 0x7F) | 0x80));
    to.push_back(static_cast<std::byte>(value));
}

/// Reads varints off the front of bytes. Throws: truncated, corrupt.
class varint_reader {
 public:
    varint_reader(std::span<const std::byte> bytes, std::string_view subject) : rest_(bytes), subject_(subject) {}

    [[nodiscard]] std::uint64_t next() {
        std::uint64_t value = 0;
        for (unsigned shift = 0;; shift += 7) {
            if (rest_.empty())
                throw error(errc::truncated, std::string(subject_), "a histogram ends in a number; fetch it anew");
            const auto byte = static_cast<std::uint64_t>(rest_.front());
            rest_ = rest_.subspan(1);
            if (shift == 63 && byte > 1) fail("a number beyond 64 bits");
            value |= (byte & 0x7F) << shift;
            if (byte < 0x80) {
                if (byte == 0 && shift != 0) fail("a number that is longer than need be");
                return value;
            }
        }
    }

    [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

    [[noreturn]] void fail(std::string_view what) const {
        throw error(errc::corrupt, std::string(subject_),
                    "a histogram holds " + std::string(what) + "; fetch it anew, from a maker that is whole");
    }

 private:
    std::span<const std::byte> rest_;
    std::string_view subject_;
};

}  // namespace detail

/// The bytes of a histogram. Cost: about 5 us; unimodal latencies take 200 to 1,200 bytes.
[[nodiscard]] inline std::vector<std::byte> histogram_to_bytes(const histogram_counts& histogram) {
    std::vector<std::byte> bytes(detail::histogram_magic.begin(), detail::histogram_magic.end());
    const bool extremes = histogram.least_noted() <= histogram.greatest_noted();
    bytes.push_back(static_cast<std::byte>(extremes ? 1 : 0));
    detail::append_varint(bytes, histogram.sum());
    if (extremes) {
        detail::append_varint(bytes, histogram.least_noted());
        detail::append_varint(bytes, histogram.greatest_noted());
    }
    std::uint64_t filled = 0;
    for (const std::uint64_t count : histogram.counts()) filled += count != 0 ? 1 : 0;
    detail::append_varint(bytes, filled);
    std::uint64_t gap = 0;
    for (const std::uint64_t count : histogram.counts()) {
        if (count == 0) {
            ++gap;
            continue;
        }
        detail::append_varint(bytes, gap);
        detail::append_varint(bytes, count);
        gap = 0;
    }
    std::uint64_t sum = detail::checksum(bytes);
    for (int i = 0; i < 8; ++i, sum >>= 8) bytes.push_back(static_cast<std::byte>(sum & 0xFF));
    return bytes;
}

/// The histogram that histogram_to_bytes() wrote, on any host. `subject` names the bytes in errors.
///
/// Throws: truncated, bad_magic, version_mismatch (a later form), geometry_mismatch (other buckets), corrupt.
/// Cost: linear in the bytes, of which there are at most histogram_bytes_max; one copy of them is made.
[[nodiscard]] inline histogram_counts histogram_from_bytes(std::span<const std::byte> input,
                                                           std::string_view subject = "histogram") {
    constexpr std::size_t head = detail::histogram_magic.size();
    const auto refuse = [&](errc why, const char* text) { throw error(why, std::string(subject), text); };
    if (input.size() < head + 1 + 2 + 8) refuse(errc::truncated, "fewer bytes than any histogram has; fetch it anew");
    const std::vector<std::byte> bytes(
        input.begin(), input.begin() + static_cast<std::ptrdiff_t>(std::min(input.size(), histogram_bytes_max)));
    if (!std::equal(bytes.begin(), bytes.begin() + 4, detail::histogram_magic.begin()))
        refuse(errc::bad_magic, "these bytes are no histogram of Holdfast");
    if (bytes[4] != detail::histogram_magic[4])
        refuse(errc::version_mismatch, "a later form of histogram; read it with the version that wrote it");
    if (bytes[5] != detail::histogram_magic[5] || bytes[6] != detail::histogram_magic[6])
        refuse(errc::geometry_mismatch, "buckets of another shape; read it with the version that wrote it");
    if (input.size() > histogram_bytes_max) refuse(errc::corrupt, "more bytes than any histogram has; fetch it anew");
    const std::size_t end = bytes.size() - 8;
    std::uint64_t sum = 0;
    for (std::size_t i = 8; i > 0; --i) sum = sum << 8 | static_cast<std::uint64_t>(bytes[end + i - 1]);
    if (sum != detail::checksum(std::span(bytes).first(end)))
        refuse(errc::corrupt, "the checksum does not match: bytes were lost or changed on the way; fetch it anew");

    const std::span<const std::byte> all(bytes);
    detail::varint_reader numbers(all.subspan(head + 1, end - head - 1), subject);
    histogram_counts histogram;
    const std::uint64_t total_ns = numbers.next();
    if (bytes[head] > std::byte{1}) numbers.fail("extremes of an unknown kind");
    if (bytes[head] == std::byte{1}) {
        const std::uint64_t least = numbers.next();
        const std::uint64_t greatest = numbers.next();
        if (least > greatest) numbers.fail("a least value above the greatest");
        histogram.note(total_ns, least, greatest);
    } else {
        histogram.note(total_ns, ~std::uint64_t{0}, 0);
    }
    const std::uint64_t filled = numbers.next();
    std::uint64_t bucket = 0;
    for (std::uint64_t i = 0; i < filled; ++i, ++bucket) {
        const std::uint64_t gap = numbers.next();
        if (gap >= log_linear::buckets - bucket) numbers.fail("a bucket behind the last");
        bucket += gap;
        const std::uint64_t count = numbers.next();
        if (count == 0) numbers.fail("an empty bucket among the filled");
        histogram.add(static_cast<std::size_t>(bucket), count);
    }
    if (!numbers.empty()) numbers.fail("bytes behind its end");
    return histogram;
}

}  // namespace holdfast
