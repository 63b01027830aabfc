// SPDX-License-Identifier: Apache-2.0
// figures.cpp - how full the tables get, over rows, writes and ratios. Counted, not timed: the same on every machine.
#include <cmath>
#include <map>
#include <numeric>

#include "parts.hpp"

namespace study {

filled fill_until_refused(std::span<const std::uint64_t> lengths, std::uint64_t trials) {
    filled mean;
    for (std::uint64_t trial = 0; trial < trials; ++trial) {
        own_level_table own(lengths);
        auto& table = own.table();
        for (const std::uint64_t key : keys_of_trial(trial, table.places() + 1))
            if (table.insert_new(key, key) != level_result::inserted) break;
        double looked_at = 0;
        for (std::size_t row = 0; row < table.rows(); ++row)
            looked_at += static_cast<double>(row + 1) * static_cast<double>(table.row_size(row));
        const auto entries = static_cast<double>(table.size()), count = static_cast<double>(trials);
        mean.entries += entries / count;
        mean.usage += entries / static_cast<double>(table.places()) / count;
        mean.depth += looked_at / entries / count;
    }
    return mean;
}

void usage_over_rows(findings& out, const study_options& chosen) {
    const std::vector<std::uint64_t> sizes =
        chosen.quick ? std::vector<std::uint64_t>{20'000} : std::vector<std::uint64_t>{10'000, 100'000, 1'000'000};
    line_chart chart{"Classic table: usage when the first insert is refused", "rows", "part of the places", {}};
    chart.y_low = 0;
    chart.y_high = 1;
    std::vector<std::string> headings{"rows"};
    std::map<std::size_t, std::vector<std::string>> cells;
    for (const std::uint64_t places : sizes) {
        const std::string name = holdfast::workload::count_text(places) + " places";
        headings.insert(headings.end(), {name + ": usage", "a hit looks at", "a miss looks at"});
        chart.lines.push_back({name, {}});
        for (const std::size_t rows : {1U, 2U, 3U, 5U, 10U, 15U, 20U, 25U, 30U, 40U, 50U, 60U, 80U, 100U}) {
            const filled f = fill_until_refused(row_lengths(places, rows, 1), chosen.quick         ? 2
                                                                              : places < 1'000'000 ? 9
                                                                                                   : 3);
            chart.lines.back().points.push_back({static_cast<double>(rows), f.usage});
            auto& row = cells[rows];
            if (row.empty()) row.push_back(std::to_string(rows));
            row.insert(row.end(), {number(100 * f.usage, "%.1f %%"), number(f.depth, "%.1f"), std::to_string(rows)});
            if (rows == 50) {
                out.expect(f.usage > 0.9, "50 equal rows are more than 90 % full before they refuse");
                out.expect(f.depth > 21 && f.depth < 26, "a hit looks at about 25 of 50 rows");
            }
            if (rows == 1) out.expect(f.usage < 0.05, "one row alone refuses almost at once");
        }
    }
    std::vector<std::vector<std::string>> rows;
    for (auto& [count, row] : cells) rows.push_back(std::move(row));
    out.table("Classic table: usage at the first refusal, by rows", headings, rows);
    out.chart("usage_over_rows", chart);
}

void usage_of_one_row(findings& out, const study_options& chosen) {
    const std::uint64_t places = nearest_prime(chosen.quick ? 20'000 : 1'000'000);
    own_level_table own(std::span(&places, 1));
    const std::vector<std::uint64_t> keys = keys_of_trial(1, 5 * places);
    line_chart chart{"One row: usage over writes",
                     "writes a place",
                     "part of the places",
                     {{"counted", {}}, {"1 - exp(-writes)", {}, true}}};
    std::vector<std::vector<std::string>> rows;
    double worst = 0;
    for (std::uint64_t written = 0; written <= 5 * places; ++written) {
        if (written % (places / 4) == 0) {
            const double writes = static_cast<double>(written) / static_cast<double>(places);
            const double usage = static_cast<double>(own.table().size()) / static_cast<double>(places);
            chart.lines[0].points.push_back({writes, usage});
            chart.lines[1].points.push_back({writes, 1 - std::exp(-writes)});
            worst = std::max(worst, std::abs(usage - 1 + std::exp(-writes)));
            if (written % (places / 4 * 2) == 0)
                rows.push_back(
                    {number(writes), number(100 * usage, "%.2f %%"), number(100 - 100 * std::exp(-writes), "%.2f %%")});
        }
        if (written < keys.size()) (void)own.table().insert_new(keys[written], 0);
    }
    out.expect(worst < (chosen.quick ? 0.02 : 0.002), "a row of N places holds 1 - exp(-w / N) of them after w writes");
    out.table("One row of " + std::to_string(places) + " places", {"writes a place", "usage", "1 - exp(-writes)"},
              rows);
    out.chart("one_row", chart);
}

void usage_over_ratio(findings& out, const study_options& chosen) {
    const std::uint64_t places = chosen.quick ? 20'000 : 1'000'000;
    line_chart usage{"Geometric table: usage at the first refusal",
                     "ratio of a row to the one before",
                     "part of the places",
                     {{"all rows", {}}, {"min(x, 3 sqrt x) rows", {}}}};
    usage.y_low = 0;
    usage.y_high = 1;
    line_chart depth{"Geometric table: places that a hit looks at",
                     "ratio of a row to the one before",
                     "places",
                     {{"counted, at the first refusal", {}}, {"1 / (1 - ratio)", {}, true}}};
    std::vector<std::vector<std::string>> rows;
    for (const double ratio : {0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9}) {
        const std::size_t x = all_rows(static_cast<double>(places) * (1 - ratio), ratio), cut = effective_rows(x);
        const std::uint64_t trials = chosen.quick ? 3 : 5;
        const filled all = fill_until_refused(row_lengths(places, x, ratio), trials);
        const filled few = fill_until_refused(row_lengths(places, cut, ratio), trials);
        usage.lines[0].points.push_back({ratio, all.usage});
        usage.lines[1].points.push_back({ratio, few.usage});
        depth.lines[0].points.push_back({ratio, all.depth});
        depth.lines[1].points.push_back({ratio, 1 / (1 - ratio)});
        rows.push_back({number(ratio), std::to_string(x), number(100 * all.usage, "%.1f %%"), std::to_string(cut),
                        number(100 * few.usage, "%.1f %%"), number(all.depth), number(1 / (1 - ratio))});
        if (ratio == 0.6) {
            out.expect(few.usage > (chosen.quick ? 0.84 : 0.85),  // of 20,000 places by three trials
                       "a ratio of 0.6 reaches 85 % by the published number of rows");
            out.expect(few.depth > 1.9 && few.depth < 2.6, "a hit in it looks at about 2.5 places");
            out.expect(cut >= 12 && cut <= 16, "a miss in it looks at 12 to 16 places");
        }
        if (ratio < 0.85)
            out.expect(std::abs(all.depth * (1 - ratio) - 1) < 0.2, "a hit looks at about 1 / (1 - ratio) places");
    }
    out.table("Geometric table of " + holdfast::workload::count_text(places) + " places, by ratio",
              {"ratio", "all rows x", "usage", "min(x, 3 sqrt x)", "usage", "a hit looks at", "1 / (1 - ratio)"}, rows);
    out.chart("usage_over_ratio", usage);
    out.chart("depth_over_ratio", depth);
}

void laws(findings& out, const study_options& chosen) {
    const double first = chosen.quick ? 20'000 : 1'000'000;
    std::vector<std::vector<std::string>> rows;
    for (const double ratio : {0.4, 0.5, 0.6, 0.7, 0.8}) {
        const std::size_t x = all_rows(first, ratio);
        const std::vector<std::uint64_t> lengths = row_lengths_from(first, x, ratio);
        const auto places = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0}));
        const double bound = first / (1 - ratio), logarithm = std::log(first) / -std::log(ratio);
        std::size_t of_two = 0;  // by the ratio alone: each row is made of two places at least
        for (double length = first; length >= 2; length *= ratio) ++of_two;
        const double depth = fill_until_refused(lengths, 1).depth;
        rows.push_back({number(ratio, "%.1f"), number(bound, "%.0f"), number(places, "%.0f"),
                        number(100 * places / bound, "%.2f %%"), number(logarithm, "%.1f"), std::to_string(of_two),
                        number(1 / (1 - ratio)), number(depth)});
        out.expect(std::abs(places / bound - 1) < (chosen.quick ? 0.01 : 0.001),
                   "a first row of C makes C / (1 - ratio) places in all");
        out.expect(logarithm > static_cast<double>(of_two) - 1 && logarithm < static_cast<double>(of_two) + 4,
                   "log(C, 1 / ratio) rows are those that have places");
        out.expect(std::abs(depth * (1 - ratio) - 1) < 0.1, "a hit looks at 1 / (1 - ratio) places");
    }
    out.table(
        "The laws of a first row of " + holdfast::workload::count_text(static_cast<std::uint64_t>(first)) + " places",
        {"ratio r", "places in all: C / (1 - r)", "found", "of that", "rows: log(C, 1 / r)",
         "found, of two places or more", "a hit looks at: 1 / (1 - r)", "found"},
        rows);
}

void first_rows(findings& out, const study_options& chosen) {
    const double first = chosen.quick ? 20'000 : 1'000'000;
    constexpr double ratio = 0.6;
    const std::size_t x = all_rows(first, ratio);
    line_chart chart{"First n rows of the table of ratio 0.6",
                     "rows",
                     "part of the places",
                     {{"usage of the first n rows at the first refusal", {}}}};
    chart.y_low = 0;
    chart.y_high = 1;
    std::vector<filled> with(x + 1);
    for (std::size_t n = 1; n <= x; ++n) {
        with[n] = fill_until_refused(row_lengths_from(first, n, ratio), 3);
        chart.lines[0].points.push_back({static_cast<double>(n), with[n].usage});
    }
    double most = 0;
    for (const filled& one : with) most = std::max(most, one.entries);
    std::vector<std::vector<std::string>> rows;
    for (std::size_t n = 1; n <= x; ++n)
        rows.push_back({std::to_string(n), number(with[n].entries, "%.0f"), number(100 * with[n].usage, "%.1f %%"),
                        number(100 * with[n].entries / with[x].entries, "%.1f %%"), number(with[n].depth)});
    const std::size_t cut = effective_rows(x);
    out.expect(with[cut].entries > (chosen.quick ? 0.95 : 0.98) * with[x].entries,
               "the published number of rows keeps 98 % of the usage of all");
    out.expect(chosen.quick || cut == 15, "of a first row of a million, 15 rows are worth having");
    out.expect(with[cut / 2].entries < 0.9 * with[x].entries, "half of the published number of rows does not");
    out.table("First n rows, of " + holdfast::workload::count_text(static_cast<std::uint64_t>(first)) +
                  " places in the first",
              {"rows", "entries at the first refusal", "usage", "of the entries with all rows", "a hit looks at"},
              rows);
    out.chart("first_rows", chart);
}

void effective_rows_fit(findings& out, const study_options& chosen) {
    line_chart chart{"Rows worth having",
                     "rows x that bring the first row down to one",
                     "rows",
                     {{"fewest rows that keep 98 % of the entries", {}}, {"min(x, 3 sqrt x)", {}, true}}};
    std::vector<std::vector<std::string>> rows;
    std::map<std::size_t, std::pair<double, double>> needed;  // by x: sum, count
    const std::vector<double> firsts = chosen.quick
                                           ? std::vector<double>{1000, 10'000}
                                           : std::vector<double>{30, 100, 300, 1000, 3000, 10'000, 30'000, 100'000};
    for (const double ratio : {0.5, 0.6, 0.7, 0.8})
        for (const double first : firsts) {
            const std::size_t x = all_rows(first, ratio), rule = effective_rows(x);
            const auto trials = static_cast<std::uint64_t>(std::clamp((chosen.quick ? 2e4 : 3e5) / first, 3.0, 300.0));
            const double all = fill_until_refused(row_lengths_from(first, x, ratio), trials).entries;
            double kept = 1;
            std::size_t enough = x;
            for (std::size_t n = x; n >= 1; --n) {
                const double part = fill_until_refused(row_lengths_from(first, n, ratio), trials).entries / all;
                if (n == rule) kept = part;
                if (part >= 0.98) enough = n;
                if (part < 0.9 && n < rule) break;
            }
            needed[x].first += static_cast<double>(enough);
            needed[x].second += 1;
            rows.push_back({number(ratio, "%.1f"), number(first, "%.0f"), std::to_string(x), std::to_string(enough),
                            std::to_string(rule), number(100 * kept, "%.1f %%")});
            if (ratio == 0.6) out.expect(kept > 0.96, "at a ratio of 0.6, min(x, 3 sqrt x) rows keep 96 % at least");
            if (first >= 1000) out.expect(kept > 0.92, "of 1000 places and more, they keep 92 % at least at any ratio");
        }
    for (const auto& [x, sum] : needed) {
        chart.lines[0].points.push_back({static_cast<double>(x), sum.first / sum.second});
        const auto of = static_cast<double>(x);
        chart.lines[1].points.push_back({of, std::min(of, 3 * std::sqrt(of))});
    }
    out.table("Rows worth having",
              {"ratio", "places of the first row", "all rows x", "keep 98 %", "min(x, 3 sqrt x)", "which keep"}, rows);
    out.chart("effective_rows", chart);
}

}  // namespace study
