// SPDX-License-Identifier: Apache-2.0
// multilevel_hash - the two published many-level hash tables: what was said of them, what holds, and what was not said.
//
//   study_multilevel_hash [--quick] [--counts | --times] [--seconds 1] [--out FOLDER] [--check]
//
// --counts: the five published figures and the refusals under churn. They are counts of seeded trials, the same on
// every machine. --times: the published rates, which want an idle one. Neither: both. Prints tables; with --out writes
// the charts and multilevel_hash.html. --check ends with an error if a finding that README.md states does not show.
#include <cstdlib>
#include <exception>
#include <string>

#include "parts.hpp"

int main(int argc, char** argv) try {
    study::level_options chosen;
    bool check = false, counts = true, times = true;
    std::string folder;
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        char* end = nullptr;
        if (name == "--check")
            check = true;
        else if (name == "--quick")
            chosen.quick = true;
        else if (name == "--counts")
            times = false;
        else if (name == "--times")
            counts = false;
        else if (name == "--out" && i + 1 < argc)
            folder = argv[++i];
        else if (name == "--seconds" && i + 1 < argc && (chosen.seconds = std::strtod(argv[++i], &end)) > 0 &&
                 *end == '\0' && chosen.seconds < 3600)
            continue;
        else {
            std::fprintf(stderr, "usage: %s [--quick] [--counts | --times] [--seconds 1] [--out FOLDER] [--check]\n",
                         argv[0]);
            return 2;
        }
    }
    study::findings out(folder, "Hash tables of many levels");
    if (counts) {
        study::usage_over_rows(out, chosen);
        study::usage_of_one_row(out, chosen);
        study::usage_over_ratio(out, chosen);
        study::first_rows(out, chosen);
        study::effective_rows_fit(out, chosen);
        study::churn(out, chosen);
    }
    if (times) study::speed(out, chosen);
    return out.finish("multilevel_hash", check);
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
}
