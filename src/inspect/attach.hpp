// SPDX-License-Identifier: Apache-2.0
// attach.hpp - attaching for looking: whoever owns the segment, since every byte of it is treated as input.
#pragma once

#include <memory>
#include <string_view>

#include "holdfast/error.hpp"
#include "holdfast/segment.hpp"

namespace holdfast::inspect {

/// For what is only looked at: anybody's, since every byte is treated as input.
[[nodiscard]] inline memory::trust trust_anybody() {
    memory::trust anybody;
    anybody.any_owner = true;
    return anybody;
}

/// Throws: as segment::attach.
[[nodiscard]] inline std::shared_ptr<const segment> attach_to_look(std::string_view uri) {
    attach_options look;
    look.trust = trust_anybody();
    return std::make_shared<const segment>(segment::attach(uri, access::read_only, look));
}

/// Asked behind what was read, before it is told. Throws: truncated where the file has lost its end meanwhile: zeros
/// that nobody wrote look like anything else.
inline void require_whole(const segment& s) {
    if (s.cut_off())
        throw error(errc::truncated, s.uri(),
                    "the file was cut off while it was read; restore the segment or make it anew");
}

}  // namespace holdfast::inspect
