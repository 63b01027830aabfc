// SPDX-License-Identifier: Apache-2.0
// command_line.hpp - the arguments that studies take alike: --quick, --seconds, --out and --check.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>

namespace study {

struct study_options {
    double seconds = 0;  ///< timed, of each subject; 0: the study takes no --seconds
    std::string out;     ///< where page and charts go; empty: nowhere
    bool check = false, quick = false;
};

/// A word that one study takes beside them.
struct study_flag {
    std::string name;
    bool* set;
};

/// Returns: nothing if there is anything else, which is then told on stderr.
[[nodiscard]] inline std::optional<study_options> options_of(int argc, char** argv, double seconds = 0,
                                                             std::initializer_list<study_flag> more = {}) {
    study_options chosen{.seconds = seconds, .out = {}};
    const auto takes = [&](const std::string& name) {
        for (const study_flag& flag : more)
            if (name == flag.name) return *flag.set = true;
        if (name == "--check") return chosen.check = true;
        if (name == "--quick") return chosen.quick = true;
        return false;
    };
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        char* end = nullptr;
        if (takes(name)) continue;
        if (name == "--out" && i + 1 < argc) {
            chosen.out = argv[++i];
        } else if (seconds > 0 && name == "--seconds" && i + 1 < argc &&
                   (chosen.seconds = std::strtod(argv[++i], &end)) > 0 && *end == '\0' && chosen.seconds < 3600) {
            continue;
        } else {
            std::fprintf(stderr, "usage: %s [--quick]", argv[0]);
            for (const study_flag& flag : more) std::fprintf(stderr, " [%s]", flag.name.c_str());
            if (seconds > 0) std::fprintf(stderr, " [--seconds %g]", seconds);
            std::fprintf(stderr, " [--out FOLDER] [--check]\n");
            return std::nullopt;
        }
    }
    return chosen;
}

}  // namespace study
