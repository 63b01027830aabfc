// SPDX-License-Identifier: Apache-2.0
// exit_code.hpp - how the program ends. A public format: docs/cli.md lists these numbers.
#pragma once

#include "holdfast/error.hpp"

namespace holdfast::cli {

enum exit_code : int {
    success = 0,
    negative = 1,   ///< the answer is no: key not found, verify found damage, nothing matched
    usage = 2,      ///< the command line is wrong
    absent = 3,     ///< no such segment or file, or it is not ready
    unusable = 4,   ///< not a segment, damaged, or of another version, kind or schema
    refused = 5,    ///< a living writer, missing permission, a name that is taken
    no_room = 6,    ///< memory, disk or a container is full
    bad_input = 7,  ///< data to load breaks its format or schema
    failed = 8,     ///< the system failed, or cannot do this
};

[[nodiscard]] constexpr exit_code exit_code_of(errc code) noexcept {
    switch (code) {
        case errc::not_found:
        case errc::not_ready: return absent;
        case errc::bad_magic:
        case errc::version_mismatch:
        case errc::kind_mismatch:
        case errc::schema_mismatch:
        case errc::geometry_mismatch:
        case errc::truncated:
        case errc::corrupt: return unusable;
        case errc::already_exists:
        case errc::writer_alive:
        case errc::no_permission:
        case errc::unsafe_file:
        case errc::read_only: return refused;
        case errc::no_space:
        case errc::no_huge_pages: return no_room;
        case errc::invalid_name:
        case errc::invalid_argument: return usage;
        case errc::forked:
        case errc::unsupported:
        case errc::io:
        case errc::contended: return failed;
    }
    return failed;
}

}  // namespace holdfast::cli
