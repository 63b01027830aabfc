// SPDX-License-Identifier: Apache-2.0
// lasting_name.hpp - where the program may make a segment for others to find: memory that outlives it.
#pragma once

#include <string_view>

#include "holdfast/error.hpp"
#include "holdfast/memory/uri.hpp"

namespace holdfast::inspect {

/// Throws: invalid_name; invalid_argument for memory that ends with the program.
inline void require_lasting(std::string_view uri) {
    if (!memory::uri::parse(uri).named())
        throw error(errc::invalid_argument, detail::printable(uri),
                    "this memory would be gone with the program; give a posix:, file: or sysv: name");
}

}  // namespace holdfast::inspect
