// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/range.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "characters.hpp"
#include "holdfast/error.hpp"
#include "holdfast/net/http_date.hpp"
#include "representation.hpp"

namespace holdfast::net {

namespace {

// About what a part's frame takes: a gap that is smaller is cheaper sent than left out (RFC 9110 section 15.3.7.2).
constexpr std::uint64_t gap_bytes_max = 128;

// A number of any length; beyond 64 bits it is beyond every representation, too.
std::optional<std::uint64_t> read_position(std::string_view digits) noexcept {
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    if (digits.empty()) return std::nullopt;
    std::uint64_t value = 0;
    for (const char c : digits) {
        if (!detail::is_digit(c)) return std::nullopt;
        const auto digit = static_cast<std::uint64_t>(c - '0');
        value = value > (most - digit) / 10 ? most : value * 10 + digit;
    }
    return value;
}

enum class spec : std::uint8_t { good, beyond, malformed };

// One member of a range set: "0-499", "500-", "-500".
spec read_spec(std::string_view text, std::uint64_t size, byte_range& to) noexcept {
    const std::size_t dash = text.find('-');
    if (dash == std::string_view::npos) return spec::malformed;
    if (dash == 0) {
        const auto suffix = read_position(text.substr(1));
        if (!suffix) return spec::malformed;
        if (*suffix == 0) return spec::beyond;
        to = {size - std::min(*suffix, size), size - 1};  // of an empty representation: never used
        return spec::good;
    }
    const auto first = read_position(text.substr(0, dash));
    if (!first) return spec::malformed;
    std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
    if (dash + 1 < text.size()) {
        const auto read = read_position(text.substr(dash + 1));
        if (!read || *read < *first) return spec::malformed;
        last = *read;
    }
    if (*first >= size) return spec::beyond;
    to = {*first, std::min(last, size - 1)};
    return spec::good;
}

// (I1) and (I3)
void merge(std::vector<byte_range>& ranges) {
    struct placed {
        byte_range range;
        std::size_t place;
    };
    std::vector<placed> sorted;
    sorted.reserve(ranges.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) sorted.push_back({ranges[i], i});
    std::ranges::sort(sorted, {}, [](const placed& p) { return p.range.first; });
    std::vector<placed> merged;
    merged.reserve(sorted.size());
    for (const placed& next : sorted) {
        if (merged.empty() || (next.range.first > merged.back().range.last &&
                               next.range.first - merged.back().range.last - 1 > gap_bytes_max)) {
            merged.push_back(next);
            continue;
        }
        merged.back().range.last = std::max(merged.back().range.last, next.range.last);
        merged.back().place = std::min(merged.back().place, next.place);
    }
    std::ranges::sort(merged, {}, &placed::place);
    ranges.clear();
    for (const placed& each : merged) ranges.push_back(each.range);
}

void append_number(std::string& out, std::uint64_t number) { out.append(std::to_string(number)); }

// Nobody who chose the bytes of the representation may know it beforehand: they could forge a part.
std::string make_boundary() {
    std::array<unsigned char, 16> bytes;
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        throw error(errc::io, "getrandom", "the kernel gave no random bytes");
    std::string text;
    for (const unsigned char byte : bytes)
        text.append({"0123456789abcdef"[byte >> 4U], "0123456789abcdef"[byte & 15U]});
    return text;
}

void lay_out_multipart(body_layout& result, const std::vector<byte_range>& ranges, std::string_view content_type,
                       std::uint64_t size, response& to) {
    const std::string boundary = make_boundary();
    to.header("Content-Type", "multipart/byteranges; boundary=" + boundary);
    for (const byte_range& each : ranges) {
        body_part& part = result.parts.emplace_back();
        part.begin = each.first;
        part.end = each.last + 1;
        part.head.append(result.parts.size() == 1 ? "--" : "\r\n--").append(boundary);
        if (!content_type.empty()) part.head.append("\r\nContent-Type: ").append(content_type);
        part.head.append("\r\nContent-Range: ");
        append_content_range(part.head, each, size);
        part.head.append("\r\n\r\n");
        result.bytes += part.head.size() + each.bytes();
    }
    result.tail.append("\r\n--").append(boundary).append("--\r\n");
    result.bytes += result.tail.size();
}

void put_validators(const validators& current, response& to, bool both) {
    if (!current.tag.empty()) to.header("ETag", current.tag);
    // RFC 9110 section 15.4.5: beside a tag a 304 has no need of it.
    if (!current.modified_s || (!both && !current.tag.empty())) return;
    std::string date;
    append_http_date(date, *current.modified_s);
    to.header("Last-Modified", date);
}

}  // namespace

range_selection select_ranges(std::string_view field, std::uint64_t size, std::size_t ranges_max) {
    const std::size_t equals = field.find('=');
    if (equals == std::string_view::npos || !equal_ignoring_case(field.substr(0, equals), "bytes")) return {};
    field.remove_prefix(equals + 1);
    range_selection result;
    std::size_t members = 0;
    while (true) {
        const std::size_t comma = std::min(field.find(','), field.size());
        const std::string_view member = detail::trim_blanks(field.substr(0, comma));
        if (!member.empty()) {  // RFC 9110 section 5.6.1.2: empty members are read over
            byte_range range;
            const spec read = read_spec(member, size, range);
            if (read == spec::malformed || ++members > ranges_max) return {};
            if (read == spec::good) result.ranges.push_back(range);
        }
        if (comma == field.size()) break;
        field.remove_prefix(comma + 1);
    }
    if (members == 0) return {};
    if (result.ranges.empty()) return {.verdict = range_verdict::unsatisfiable, .ranges = {}};
    if (size == 0) return {};  // the end of nothing is nothing: no Content-Range can say so
    result.verdict = range_verdict::partial;
    if (result.ranges.size() > 1) merge(result.ranges);
    return result;
}

range_selection select_ranges(const request& asked, const validators& current, std::uint64_t size,
                              std::size_t ranges_max) {
    if (asked.method() != method::get || asked.header_count("Range") != 1 || !range_is_current(asked, current))
        return {};
    return select_ranges(*asked.header("Range"), size, ranges_max);
}

void append_content_range(std::string& out, byte_range range, std::uint64_t size) {
    append_number(out.append("bytes "), range.first);
    append_number(out.append("-"), range.last);
    append_number(out.append("/"), size);
}

void append_unsatisfied_range(std::string& out, std::uint64_t size) { append_number(out.append("bytes */"), size); }

body_layout lay_out(const request& asked, const validators& current, std::string_view content_type, std::uint64_t size,
                    bool with_ranges, response& to) {
    if (!current.tag.empty() && !parse_entity_tag(current.tag))
        throw error(errc::invalid_argument, "validators::tag", "is no entity tag; put it in quotes");
    if (detail::skip_value(content_type.data(), 0, content_type.size()) != content_type.size())
        throw error(errc::invalid_argument, "Content-Type", "holds a control character; give a media type");
    const bool judged = to.status() == 200 && (asked.method() == method::get || asked.method() == method::head);
    const condition verdict = judged ? judge_conditions(asked, current) : condition::holds;
    if (verdict == condition::failed) {
        to.problem(412, "what was asked for is not as the request demands");
        return {};
    }
    put_validators(current, to, verdict != condition::not_modified);
    if (verdict == condition::not_modified) {
        to.status(304);
        return {};
    }
    body_layout result;
    const bool ranged = judged && with_ranges;
    const range_selection chosen = ranged ? select_ranges(asked, current, size) : range_selection{};
    if (chosen.verdict == range_verdict::unsatisfiable) {
        std::string text;
        append_unsatisfied_range(text, size);
        to.problem(416, "no range asked for reaches into what is here").header("Content-Range", text);
        return {};
    }
    if (ranged) to.header("Accept-Ranges", "bytes");
    if (chosen.verdict == range_verdict::partial) to.status(206);
    if (chosen.ranges.size() > 1) {
        lay_out_multipart(result, chosen.ranges, content_type, size, to);
        return result;
    }
    if (!content_type.empty()) to.header("Content-Type", content_type);
    const byte_range all = chosen.ranges.empty() ? byte_range{0, size - 1} : chosen.ranges.front();
    result.parts.push_back({.head = {}, .begin = all.first, .end = all.last + 1});
    result.bytes = all.last + 1 - all.first;
    if (chosen.verdict == range_verdict::partial) {
        std::string text;
        append_content_range(text, all, size);
        to.header("Content-Range", text);
    }
    return result;
}

void answer_representation(const request& asked, const validators& current, std::string_view content_type,
                           response& to) {
    const std::size_t size = to.body().size();
    const body_layout layout = lay_out(asked, current, content_type, size, true, to);
    if (layout.parts.empty()) {
        if (to.status() == 304) to.body_buffer().clear();
        return;
    }
    if (to.status() != 206) return;
    const std::string_view whole = to.body();
    std::string body;
    body.reserve(static_cast<std::size_t>(layout.bytes));
    for (const body_part& part : layout.parts)
        body.append(part.head).append(whole.substr(part.begin, part.end - part.begin));
    body.append(layout.tail);
    to.body(std::move(body));
}

}  // namespace holdfast::net
