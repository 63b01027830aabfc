// SPDX-License-Identifier: Apache-2.0
// rm.cpp - takes segments away, never from under a living writer.
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "cli/write_access.hpp"
#include "holdfast/segment.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::vector<std::string> segments;
    bool force = false;
    write_access access;
};

/// Removes each; the first failure decides the exit code, and the others are still tried.
int remove(const options& chosen) {
    int code = success;
    for (const std::string& name : chosen.segments) {
        try {
            segment::remove(name, chosen.access.options());
        } catch (const error& failure) {
            if (failure.reason() == errc::not_found && chosen.force) continue;
            say(failure.what());
            if (code == success) code = exit_code_of(failure.reason());
        }
    }
    return code;
}

}  // namespace

void add_rm(command_line& line) {
    const auto chosen = std::make_shared<options>();
    command rm =
        line.add("rm", "Remove segments and their companion files; refused while a living process holds the lease");
    rm.positionals("SEGMENT", chosen->segments, "the segments")
        .flag("-f,--force", chosen->force, "a segment that is not there is no error")
        .details("Processes that have the segment mapped keep their mapping.")
        .run([chosen] { return remove(*chosen); });
    chosen->access.declare(rm);
}

}  // namespace holdfast::cli
