// SPDX-License-Identifier: Apache-2.0
// latency_scale - what things cost on this machine, from a cycle of the processor to the disk, beside the published
// scale, which is of other machines.
//
//   study_latency_scale [--quick] [--seconds 0.5] [--memory BYTES] [--folder FOLDER] [--out FOLDER] [--check]
//
// --folder: on the disk that is to be timed. --memory: the largest set that is read; it should be four times the last
// cache. --quick is for tests: small sets, few rounds. Prints a table; with --out writes latency_scale.csv,
// latency_scale.svg, cache_stairs.svg and latency_scale.html. --check ends with an error if the steps are not in the
// order that they have on any machine.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "scale.hpp"

namespace {

struct arguments {
    study::run_options run;
    std::string out;
    bool check = false, seconds_given = false;
};

std::optional<arguments> parse(int argc, char** argv) {
    arguments chosen;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        if (name == "--check" || name == "--quick") {
            (name == "--check" ? chosen.check : chosen.run.quick) = true;
            continue;
        }
        if (++i == argc) return std::nullopt;
        const std::string text = argv[i];
        char* end = nullptr;
        const double number = std::strtod(text.c_str(), &end);
        const bool is_number = !text.empty() && *end == '\0';
        if (name == "--out")
            chosen.out = text;
        else if (name == "--folder")
            chosen.run.folder = text;
        else if (name == "--seconds" && is_number && number > 0 && number <= 3600) {
            chosen.run.seconds = number;
            chosen.seconds_given = true;
        } else if (name == "--memory" && is_number && number >= 1 << 24 && number <= 1e13)
            chosen.run.memory_max = static_cast<std::size_t>(number);
        else
            return std::nullopt;
    }
    if (chosen.run.quick && !chosen.seconds_given) chosen.run.seconds = 0.01;
    return chosen;
}

}  // namespace

int main(int argc, char** argv) {
    const std::optional<arguments> chosen = parse(argc, argv);
    if (!chosen) {
        std::fprintf(stderr,
                     "usage: %s [--quick] [--seconds 0.5] [--memory BYTES (16777216 or more)] [--folder FOLDER] [--out "
                     "FOLDER] [--check]\n",
                     argv[0]);
        return 2;
    }
    study::scale all(chosen->run);
    study::time_processor(all);
    study::time_kernel(all);
    study::time_loopback(all);
    study::time_disk(all);
    study::add_far_away(all);
    study::print(all);
    if (!chosen->out.empty() && !study::write_files(all, chosen->out)) return 2;
    return chosen->check && study::check(all) > 0 ? 1 : 0;
}
