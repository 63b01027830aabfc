// SPDX-License-Identifier: Apache-2.0
// multilevel_hash - the two published many-level hash tables: what was said of them, what holds, and what was not said.
//
//   study_multilevel_hash [--quick] [--counts | --times] [--seconds 1] [--out FOLDER] [--check]
//
// --counts: the five published figures, the laws and the refusals under churn. They are counts of seeded trials, the
// same on every machine. --times: the published rates, which want an idle one. Neither: both. Prints tables; with --out
// writes the charts and multilevel_hash.html. --check ends with an error if a finding that README.md states does not
// show.
#include <cstdlib>
#include <exception>
#include <string>

#include "parts.hpp"

int main(int argc, char** argv) try {
    bool only_counts = false, only_times = false;
    const auto asked = study::options_of(argc, argv, 1.0, {{"--counts", &only_counts}, {"--times", &only_times}});
    if (!asked) return 2;
    const study::study_options& chosen = *asked;
    study::findings out(chosen.out, "Hash tables of many levels");
    out.about(
        "a classic table of 50 equal rows uses more than 90 % of its places, at 25 probes a hit and 50 a miss; "
        "in a geometric one each row is 0.6 times the one before, min(x, 3 sqrt x) of x rows keep 98 % of the "
        "usage, a hit looks at 1 / (1 - r) places, and it is 10 times as fast for hits, 3 to 4 times for "
        "misses.",
        "usage and depth are as published; hits are 10 times fewer probes, and 2 to 4 times as fast. Not "
        "published: as entries come and go, the geometric table refuses inserts from 60 % on, one in nine at 80 "
        "%.",
        "who uses a geometric table fills it to 55 % if entries come and go. holdfast::hash_table has no rows "
        "that could run full, and refuses none of these inserts up to 90 %.");
    if (!only_times) {
        study::usage_over_rows(out, chosen);
        study::usage_of_one_row(out, chosen);
        study::usage_over_ratio(out, chosen);
        study::laws(out, chosen);
        study::first_rows(out, chosen);
        study::effective_rows_fit(out, chosen);
        study::churn(out, chosen);
    }
    if (!only_counts) study::speed(out, chosen);
    return out.finish("multilevel_hash", chosen.check);
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
}
