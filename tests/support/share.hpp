// SPDX-License-Identifier: Apache-2.0
// share.hpp - how much the gate does of what a complete run does in full: HOLDFAST_VOLUME_SHARE (a float, 1 unless
// set; `./dev test` with CI=true sets 0.3). scripts/test_report.py asks for the same share.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace holdfast::test {

/// `all`, or the share that the gate has time for. Not for schedules: they are all tried, or nothing is shown.
[[nodiscard]] inline std::uint64_t share_of(std::uint64_t all) {
    const char* share = std::getenv("HOLDFAST_VOLUME_SHARE");
    return static_cast<std::uint64_t>((share != nullptr ? std::strtod(share, nullptr) : 1) * static_cast<double>(all));
}

}  // namespace holdfast::test
