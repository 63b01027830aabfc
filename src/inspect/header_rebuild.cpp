// SPDX-License-Identifier: Apache-2.0
// header_rebuild.cpp - candidates for what a header was, and its checksum as the judge.
//
// FNV-1a takes a byte at a time and each step can be undone. So for each place there is at most one byte, and for each
// two neighbours at most 256 pairs, with which the sum is the stored one: all are tried. Some 10^10 candidates of 2^64:
// one that fits by chance is not to be expected.
#include "inspect/header_rebuild.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "inspect/known_kinds.hpp"
#include "inspect/one_word.hpp"

namespace holdfast::inspect {

namespace {

using layout::segment_header;

constexpr std::size_t covered_from = offsetof(segment_header, layout_version);
constexpr std::size_t covered_to = offsetof(segment_header, header_checksum);
constexpr std::uint64_t fnv_prime = 0x100000001b3;
constexpr std::uint64_t fnv_start = 0xcbf29ce484222325;

/// Whether the checksum holds, or is itself what was damaged; it is then put right.
[[nodiscard]] bool settle(segment_header& header) {
    const std::uint64_t sum = layout::checksum_of(header);
    if (sum != header.header_checksum && !differ_little(sum, header.header_checksum)) return false;
    header.header_checksum = sum;
    return true;
}

/// Puts right one byte, or two neighbours, of what the checksum covers.
[[nodiscard]] bool mend_bytes(segment_header& header) {
    constexpr std::uint64_t unprime = inverse_of(fnv_prime);
    std::array<std::uint8_t, sizeof(segment_header)> bytes;
    std::memcpy(bytes.data(), &header, sizeof header);
    std::vector<std::uint64_t> before(covered_to + 1, fnv_start), after(covered_to + 1, header.header_checksum);
    for (std::size_t i = covered_from; i < covered_to; ++i) before[i + 1] = (before[i] ^ bytes[i]) * fnv_prime;
    for (std::size_t i = covered_to; i-- > covered_from;) after[i] = (after[i + 1] * unprime) ^ bytes[i];
    const auto done = [&] {
        std::memcpy(&header, bytes.data(), sizeof header);
        return true;
    };
    for (std::size_t i = covered_from; i < covered_to; ++i) {
        const std::uint64_t byte = before[i] ^ (after[i + 1] * unprime);
        if (byte > 0xFF) continue;
        bytes[i] = static_cast<std::uint8_t>(byte);
        return done();
    }
    for (std::size_t i = covered_from; i + 1 < covered_to; ++i)
        for (unsigned first = 0; first < 256; ++first) {
            const std::uint64_t second = ((before[i] ^ first) * fnv_prime) ^ (after[i + 2] * unprime);
            if (second > 0xFF) continue;
            bytes[i] = static_cast<std::uint8_t>(first);
            bytes[i + 1] = static_cast<std::uint8_t>(second);
            return done();
        }
    return false;
}

/// The header as it lies there, with what is the same in all headers.
[[nodiscard]] segment_header with_constants(segment_header header) {
    header.magic = layout::segment_magic;
    header.layout_version = layout::segment_layout_version;
    header.fingerprint = layout::platform_fingerprint;
    header.reserved_geometry = {};
    return header;
}

/// The header with nothing behind its schema. That is so in all headers, but where it is the schema's length that was
/// damaged this would take away what the schema has.
[[nodiscard]] segment_header with_padding(segment_header header) {
    if (header.schema_bytes <= schema_bytes_max)
        std::memset(header.schema.data() + header.schema_bytes, 0, schema_bytes_max - header.schema_bytes);
    return header;
}

}  // namespace

std::optional<segment_header> rebuild_header(const segment_header& damaged, std::uint64_t memory_bytes) {
    std::vector<segment_header> candidates;
    const auto add_sized = [&](segment_header header) {
        candidates.push_back(header);  // its sizes as they are: the file may have been cut short
        if (memory_bytes < header_bytes) return;
        header.total_bytes = memory_bytes;
        header.body_bytes = memory_bytes - header_bytes;
        candidates.push_back(header);
    };
    const auto add = [&](const segment_header& header) {
        add_sized(header);
        add_sized(with_padding(header));
    };
    add(with_constants(damaged));
    for (const known_kind& known : known_kinds) {
        segment_header header = with_constants(damaged);
        header.kind = static_cast<std::uint32_t>(known.kind);
        header.container_version = known.version;
        header.policy = static_cast<std::uint32_t>(known.policy);
        add(header);
    }
    for (segment_header& header : candidates)
        if (settle(header)) return header;
    for (segment_header& header : candidates)
        if (mend_bytes(header)) return header;
    return std::nullopt;
}

}  // namespace holdfast::inspect
