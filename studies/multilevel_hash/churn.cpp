// SPDX-License-Identifier: Apache-2.0
// churn.cpp - the oldest entry goes, a new one comes, at a constant load: which inserts are refused? Counted.
#include <array>
#include <functional>

#include "holdfast/hash_table.hpp"
#include "parts.hpp"

namespace study {

namespace {

/// A table under churn, whichever it is.
struct churned {
    std::string name;
    std::uint64_t places = 0;
    std::function<bool(std::uint64_t)> insert, erase;
};

churned levels(const char* name, const std::vector<std::uint64_t>& lengths) {
    const auto own = std::make_shared<own_level_table>(lengths);
    return {name, own->table().places(),
            [own](std::uint64_t key) { return own->table().insert_new(key, key) == level_result::inserted; },
            [own](std::uint64_t key) { return own->table().erase(key); }};
}

churned ours(std::uint64_t places) {
    using table = holdfast::hash_table<std::uint64_t, std::uint64_t>;
    const auto own = std::make_shared<table>(table::create("heap:", {.capacity = places * 100 / 103}));
    return {"holdfast::hash_table", own->geometry().slots(),
            [own](std::uint64_t key) { return static_cast<bool>(own->try_insert(key, key)); },
            [own](std::uint64_t key) { return static_cast<bool>(own->erase(key)); }};
}

std::array<churned, 3> subjects(std::uint64_t places) {
    return {levels("geometric, ratio 0.6", geometric_lengths(places)),
            levels("classic, 50 rows", row_lengths(places, 50, 1)), ours(places)};
}

constexpr std::size_t turnovers = 8;

/// Part of the inserts refused, in each turnover. Before them the table is filled to `load` of its places.
std::vector<double> refused_by_turnover(const churned& table, double load) {
    const auto live = static_cast<std::uint64_t>(load * static_cast<double>(table.places));
    const std::vector<std::uint64_t> keys = keys_of_trial(7, live * (turnovers + 1));
    for (std::uint64_t i = 0; i < live; ++i) (void)table.insert(keys[i]);
    std::vector<double> parts;
    for (std::size_t turn = 0; turn < turnovers; ++turn) {
        std::uint64_t refused = 0;
        for (std::uint64_t i = turn * live; i < (turn + 1) * live; ++i) {
            (void)table.erase(keys[i]);  // not there if its insert was refused
            refused += table.insert(keys[i + live]) ? 0 : 1;
        }
        parts.push_back(static_cast<double>(refused) / static_cast<double>(live));
    }
    return parts;
}

}  // namespace

void churn(findings& out, const study_options& chosen) {
    const std::uint64_t places = chosen.quick ? 50'000 : 1'000'000;
    line_chart over_load{"Oldest out, newest in: inserts refused, by load",
                         "entries wanted, a place",
                         "part of the inserts refused",
                         {}};
    line_chart over_time{
        "Oldest out, newest in, at 80 %: inserts refused", "turnovers", "part of the inserts refused", {}};
    std::vector<std::vector<std::string>> rows, turns;
    for (const double load : {0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9}) {
        if (chosen.quick && load != 0.6 && load != 0.8 && load != 0.9) continue;
        rows.push_back({number(100 * load, "%.0f %%")});
        std::size_t place = 0;
        for (const churned& table : subjects(places)) {
            const std::vector<double> parts = refused_by_turnover(table, load);
            if (over_load.lines.size() <= place) over_load.lines.push_back({table.name, {}});
            over_load.lines[place].points.push_back({load, parts.back()});
            rows.back().push_back(number(100 * parts.back(), "%.2f %%"));
            const bool geometric = place == 0, own = place == 2;
            if (load == 0.8) {
                over_time.lines.push_back({table.name, {}});
                turns.push_back({table.name});
                for (std::size_t turn = 0; turn < parts.size(); ++turn) {
                    over_time.lines.back().points.push_back({static_cast<double>(turn + 1), parts[turn]});
                    turns.back().push_back(number(100 * parts[turn], "%.2f %%"));
                }
            }
            if (load == 0.8 && geometric)
                out.expect(parts.back() > 0.07 && parts.back() < 0.16,
                           "at 80 % the geometric table refuses about one insert in ten");
            if (own) out.expect(parts.back() == 0, "ours refuses none, up to 90 %");
            ++place;
        }
    }
    std::vector<std::string> headings{"entries wanted, a place"}, turn_headings{"turnover"};
    for (const chart_line& one : over_load.lines) headings.push_back(one.name);
    for (std::size_t turn = 1; turn <= turnovers; ++turn) turn_headings.push_back(std::to_string(turn));
    out.table("Inserts refused in the 8th turnover, " + holdfast::workload::count_text(places) + " places", headings,
              rows);
    out.table("Inserts refused at 80 %, by turnover", turn_headings, turns);
    out.chart("churn_over_load", over_load);
    out.chart("churn_over_time", over_time);
}

}  // namespace study
