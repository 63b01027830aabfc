// SPDX-License-Identifier: Apache-2.0
// lookup.hpp - the answers of a lookup in any keyed segment.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::inspect {

enum class lookup : std::uint8_t {
    found,
    absent,     ///< no such key, or no range that covers it
    bad_key,    ///< the text is no key of this schema
    empty,      ///< snapshot: nothing was published yet
    contended,  ///< the writer overran every attempt; try again
    damaged,    ///< the bytes break an invariant; verify says where
    cut_off,    ///< the file lost its end under the mapping: what was read may be zeros that nobody wrote
};

struct lookup_result {
    lookup status = lookup::absent;
    std::uint64_t version = 0;  ///< snapshot: of the object that answered
    std::string reason;         ///< bad_key: why
    [[nodiscard]] explicit operator bool() const noexcept { return status == lookup::found; }
};

}  // namespace holdfast::inspect
