// SPDX-License-Identifier: Apache-2.0
// new_segment.hpp - what every subcommand that makes a segment can be told about its file and pages.
#pragma once

#include <sys/types.h>

#include <charconv>
#include <string>
#include <system_error>

#include "cli/arguments.hpp"
#include "holdfast/error.hpp"
#include "holdfast/segment/types.hpp"

namespace holdfast::cli {

struct new_segment {
    std::string mode = "0600";
    bool huge = false;
    bool prefault = false;
    bool lock = false;

    void declare(command& line) {
        line.option("--mode", mode, "OCTAL", "permissions of a new segment; default 0600");
        line.flag("--huge", huge, "ask for huge pages");
        line.flag("--prefault", prefault, "map all pages now");
        line.flag("--lock", lock, "keep the pages out of swap while the program runs");
    }
    /// Throws: invalid_argument for a mode that is none.
    [[nodiscard]] create_options options() const {
        unsigned bits = 0;
        const auto [end, status] = std::from_chars(mode.data(), mode.data() + mode.size(), bits, 8);
        if (status != std::errc() || end != mode.data() + mode.size() || bits > 0777)
            throw error(errc::invalid_argument, "--mode", "is octal permissions such as 0640");
        create_options chosen;
        chosen.mode = static_cast<mode_t>(bits);
        chosen.pages = {.huge = huge, .prefault = prefault, .lock = lock};
        return chosen;
    }
};

}  // namespace holdfast::cli
