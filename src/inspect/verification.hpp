// SPDX-License-Identifier: Apache-2.0
// verification.hpp - looks for damage in a segment: header, companions, and everything in the body that has a meaning.
//
// Any bytes may be checked; nothing is trusted and nothing crashes. It is meant for segments at rest: beside a working
// writer hash tables and queues show no false damage, other kinds may report what is only half done.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/layout/segment_header.hpp"
#include "holdfast/segment.hpp"
#include "inspect/json_out.hpp"

namespace holdfast::inspect {

enum class severity : std::uint8_t {
    damage,   ///< bytes break an invariant: restore the segment, or make it anew
    warning,  ///< harmless to what is stored and mended by the next writer, or a part that could not be looked at
    note,     ///< no fault: a trace of a killed writer that readers and the next writer deal with
};

struct finding {
    severity how = severity::damage;
    std::string part;                     ///< header, lease, peers or body
    std::optional<std::uint64_t> offset;  ///< bytes from the start of the segment (header included), where it shows
    std::string place;                    ///< in the container's terms: "bucket 3, slot 81"; may be empty
    std::string what;
};

struct verification {
    std::string uri;
    std::optional<container_kind> kind;  ///< absent when the header cannot be believed
    std::uint64_t elements = 0;          ///< entries, records, counters that were looked at
    std::uint64_t damages = 0;           ///< how many there were; not all need be listed
    std::vector<finding> findings;       ///< bounded: a garbled segment costs no memory in proportion

    static constexpr std::size_t findings_max = 100;
    [[nodiscard]] bool intact() const noexcept { return damages == 0; }
    void add(finding f) {
        if (f.how == severity::damage) ++damages;
        if (findings.size() < findings_max) findings.push_back(std::move(f));
    }
};

/// Checks a segment. Throws: std::bad_alloc; not_found, no_permission, invalid_name and others where there is nothing
/// to check.
[[nodiscard]] verification verify(std::string_view uri);

/// The same of what is attached already, whoever has the name meanwhile. Throws: not_found where the name leads to
/// another segment or to none: what the file system knows of the pages is asked by the name.
[[nodiscard]] verification verify(const std::shared_ptr<const segment>& s);

void append_json(json_out& out, const verification& v);

}  // namespace holdfast::inspect
