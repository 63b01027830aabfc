// SPDX-License-Identifier: Apache-2.0
// write_access.hpp - what every subcommand that takes a lease can be told about taking it.
#pragma once

#include <chrono>
#include <cstdint>

#include "cli/arguments.hpp"
#include "holdfast/segment/types.hpp"

namespace holdfast::cli {

struct write_access {
    bool any_owner = false;
    std::uint64_t wait_ms = 0;

    void declare(command& line) {
        line.flag("--any-owner", any_owner, "also a segment of another user than you and root");
        line.option("--wait", wait_ms, "MS", "wait so long for a writer that is going; default: refuse at once");
    }
    [[nodiscard]] attach_options options() const {
        constexpr std::uint64_t ms_max = 3'600'000;
        attach_options chosen;
        chosen.trust.any_owner = any_owner;
        chosen.lease_timeout = std::chrono::milliseconds(wait_ms < ms_max ? wait_ms : ms_max);
        return chosen;
    }
};

}  // namespace holdfast::cli
