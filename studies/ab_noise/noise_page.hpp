// SPDX-License-Identifier: Apache-2.0
// noise_page.hpp - the findings of the study as one page.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "../page.hpp"

namespace study {

/// What was found of one workload with one slow-down.
struct found_part {
    double slow_down = 0;
    std::size_t found = 0, of = 0;  ///< in turn
    double by_runs = 0;             ///< per cent
};

struct noise_findings {
    std::vector<plot::series> ratios;                                    ///< of A/A runs, a workload each
    std::vector<std::vector<std::string>> alarms;                        ///< rows of the table
    std::string summary;                                                 ///< of all false alarms
    std::vector<std::pair<std::string, std::vector<found_part>>> power;  ///< a workload each
};

inline const std::vector<std::string> alarm_headings{"workload",  "A/A ratio: 1 %", "median",  "99 %",          "same",
                                                     "too noisy", "false alarms",   "by runs", "twice in a row"};

inline std::string power_card(const std::string& workload, const std::vector<found_part>& parts) {
    std::vector<plot::bar> bars;
    std::vector<std::vector<std::string>> rows;
    for (const found_part& one : parts) {
        const std::string name = std::to_string(static_cast<int>(one.slow_down * 100 + 0.5)) + " % slower";
        const std::string text = std::to_string(one.found) + " of " + std::to_string(one.of);
        const double share = one.of > 0 ? 100.0 * static_cast<double>(one.found) / static_cast<double>(one.of) : 0;
        bars.push_back({name, share, share, share, text, 0});
        rows.push_back({name, text, std::to_string(static_cast<int>(one.by_runs + 0.5)) + " %"});
    }
    return card("Slow-downs found: " + workload,
                plot::bars(bars, "found in turn: " + workload, "% of the runs") +
                    table({"slow-down", "found in turn", "found by 5 runs against 5"}, rows));
}

/// `place`: markup that says where it was measured.
inline bool write_noise_page(const std::string& path, const noise_findings& all, const std::string& place) {
    std::vector<plot::legend_entry> names;
    for (const plot::series& one : all.ratios) names.push_back({one.name, one.colour});
    std::string body = place;
    body += card("Each workload against itself: the ratio of a run",
                 plot::legend(names) + plot::ecdf(all.ratios, "ratios of A/A runs", "time now over time before"));
    body += card("False alarms", table(alarm_headings, all.alarms) + element("p", all.summary));
    for (const auto& [workload, parts] : all.power) body += power_card(workload, parts);
    return write_page(path, "Verdicts about speed on a noisy machine", body);
}

}  // namespace study
