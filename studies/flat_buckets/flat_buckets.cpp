// SPDX-License-Identifier: Apache-2.0
// flat_buckets - our table beside other tables whose entries never move: how full, what is refused when entries come
// and go, and how many cache lines a find looks at.
//
//   study_flat_buckets [--quick] [--out FOLDER] [--check]
//
// 1e4, 1e5 and 1e6 slots (--quick: 1e4). All numbers are counts of seeded trials, the same on every machine. Prints
// tables; with --out writes the charts and flat_buckets.html. --check ends with an error if a finding that README.md
// states does not show.
#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "../command_line.hpp"
#include "../findings.hpp"
#include "../two_choice_hash/bucket_table.hpp"
#include "../two_choice_hash/product_table.hpp"

#include "workload/keys.hpp"
#include "yard_table.hpp"

namespace {

using holdfast::workload::count_text;
using holdfast::workload::make_keys;
using u64 = std::uint64_t;

/// A table, whichever it is.
struct subject {
    u64 slots = 0;
    std::function<bool(u64)> insert_new, erase;
    std::function<u64(u64)> lines_of;
};

template <class Table>
subject subject_of(std::shared_ptr<Table> table) {
    return {table->slots(), [table](u64 key) { return table->insert_new(key, key); },
            [table](u64 key) { return table->erase(key); }, [table](u64 key) { return table->lines_of(key); }};
}

/// The least prime number of buckets of 26 that has so many slots.
u64 buckets_for(u64 slots) {
    u64 n = std::max<u64>(3, slots / study::bucket_table::slots_per_bucket);
    while (!holdfast::layout::is_prime(n)) ++n;
    return n;
}

struct kind {
    const char* name;
    std::function<subject(u64 slots, u64 seed)> make;
};

template <class Shape>
kind yards(const char* name, Shape shape) {
    return {name, [shape](u64 slots, u64 seed) {
                return subject_of(std::make_shared<study::yard_table>(shape(slots), seed));
            }};
}

constexpr std::size_t ours = 0, iceberg = 2, two_choices = 5;
constexpr std::size_t funnels[] = {3, 4};

std::vector<kind> kinds() {
    return {{"holdfast::hash_table",
             [](u64 slots, u64 seed) { return subject_of(std::make_shared<study::product_table>(slots, seed)); }},
            {"flat, one bucket at a time",
             [](u64 slots, u64 seed) {
                 return subject_of(
                     std::make_shared<study::bucket_table>(study::bucket_shape{buckets_for(slots), 1, 1, 129, seed}));
             }},
            yards("Iceberg-like: 64, then two of 8", study::iceberg_yards),
            yards("funnel-like: 26 slots, ratio 0.25", [](u64 slots) { return study::funnel_yards(slots, 26, 0.25); }),
            yards("funnel-like: 8 slots, ratio 0.75", [](u64 slots) { return study::funnel_yards(slots, 8, 0.75); }),
            yards("two choices of 26, nothing behind",
                  [](u64 slots) { return std::vector<study::yard_shape>{{buckets_for(slots), 26, 2}}; })};
}

void first_refusal(study::findings& out, const std::vector<u64>& sizes, bool quick) {
    study::line_chart chart{"Usage when the first insert is refused", "slots", "part of the slots", {}};
    chart.x_logarithmic = true;
    chart.y_low = 0.5;
    chart.y_high = 1;
    std::vector<std::string> headings{"table"};
    for (const u64 slots : sizes) headings.insert(headings.end(), {count_text(slots) + ": mean", "least"});
    std::vector<std::vector<std::string>> rows;
    const std::vector<kind> all = kinds();
    for (std::size_t k = 0; k < all.size(); ++k) {
        chart.lines.push_back({all[k].name, {}});
        rows.push_back({all[k].name});
        for (const u64 slots : sizes) {
            const u64 trials = quick ? 5 : slots <= 100'000 ? 20 : 3;
            double mean = 0, least = 1;
            for (u64 trial = 0; trial < trials; ++trial) {
                const subject table = all[k].make(slots, trial + 1);
                u64 size = 0;
                for (const u64 key : make_keys(trial << 40U, table.slots + 1)) {
                    if (!table.insert_new(key)) break;
                    ++size;
                }
                const double part = static_cast<double>(size) / static_cast<double>(table.slots);
                mean += part / static_cast<double>(trials);
                least = std::min(least, part);
            }
            chart.lines.back().points.push_back({static_cast<double>(slots), mean});
            rows.back().insert(rows.back().end(),
                               {study::number(100 * mean, "%.2f %%"), study::number(100 * least, "%.2f %%")});
            if (k == ours) out.expect(least > 0.99, "our table is 99 % full before it refuses an insert");
            if (k == iceberg || k == two_choices)
                out.expect(mean < 0.97, "two small yards, or one with two choices, refuse sooner");
            const double of_ours = chart.lines[ours].points[chart.lines.back().points.size() - 1].y;
            if (k == funnels[0]) out.expect(mean < of_ours, "a funnel of buckets as large as ours refuses sooner");
        }
    }
    out.table("Usage at the first refusal", headings, rows);
    out.chart("first_refusal", chart);
}

/// Lines that finds look at, on average.
struct lines {
    double hit = 0, miss = 0;
};

lines lines_of(const subject& table, const std::vector<u64>& there, const std::vector<u64>& absent) {
    lines mean;
    for (const u64 key : there)
        mean.hit += static_cast<double>(table.lines_of(key)) / static_cast<double>(there.size());
    for (const u64 key : absent)
        mean.miss += static_cast<double>(table.lines_of(key)) / static_cast<double>(absent.size());
    return mean;
}

struct churned {
    u64 refused_filling = 0;
    double refused = 0;  ///< part of the inserts of the last turnover
    lines filled, turned_over;
};

/// Fills to `load`, then lets the oldest go and a new one come until all have been replaced `turnovers` times.
churned churn(const subject& table, double load) {
    constexpr u64 turnovers = 5;
    const auto live = static_cast<u64>(load * static_cast<double>(table.slots));
    const std::vector<u64> keys = make_keys(u64{70} << 40U, live * (turnovers + 1));
    const std::vector<u64> absent = make_keys(u64{71} << 40U, std::min<u64>(live, 200'000));
    churned found;
    std::vector<u64> there;
    for (u64 i = 0; i < live; ++i) {
        if (table.insert_new(keys[i]))
            there.push_back(keys[i]);
        else
            ++found.refused_filling;
    }
    found.filled = lines_of(table, there, absent);
    there.clear();
    u64 refused = 0;
    for (u64 i = 0; i < turnovers * live; ++i) {
        (void)table.erase(keys[i]);  // not there if its insert was refused
        const bool in = table.insert_new(keys[i + live]), last = i >= (turnovers - 1) * live;
        if (last && in) there.push_back(keys[i + live]);
        if (last && !in) ++refused;
    }
    found.refused = static_cast<double>(refused) / static_cast<double>(live);
    found.turned_over = lines_of(table, there, absent);
    return found;
}

/// Lines of hits and misses by load, behind the turnovers: a chart each.
void chart_lines(study::findings& out, u64 slots, const std::vector<double>& loads, const std::vector<kind>& all,
                 const std::vector<std::vector<churned>>& found) {
    for (const bool misses : {false, true}) {
        study::line_chart chart{std::string("Lines that a ") + (misses ? "miss" : "hit") + " looks at, " +
                                    count_text(slots) + " slots, turned over",
                                "entries wanted, a slot",
                                "lines",
                                {}};
        chart.y_low = 1;
        for (std::size_t k = 0; k < all.size(); ++k) {
            chart.lines.push_back({all[k].name, {}});
            for (std::size_t i = 0; i < loads.size(); ++i) {
                const lines& looked = found[k][i].turned_over;
                chart.lines.back().points.push_back({loads[i], misses ? looked.miss : looked.hit});
            }
        }
        out.chart((misses ? "miss_" : "hit_") + count_text(slots), chart);
    }
}

void turnovers(study::findings& out, const std::vector<u64>& sizes) {
    const std::vector<kind> all = kinds();
    for (const u64 slots : sizes) {
        study::line_chart chart{"Inserts refused in the fifth turnover, " + count_text(slots) + " slots",
                                "entries wanted, a slot",
                                "part of the inserts",
                                {}};
        std::vector<std::vector<std::string>> refused, looked;
        std::map<double, std::vector<std::vector<std::string>>> looked_at;  // by load
        std::vector<std::vector<churned>> found(all.size());
        const std::vector<double> loads{0.7, 0.8, 0.85, 0.9, 0.95};
        for (std::size_t k = 0; k < all.size(); ++k) {
            chart.lines.push_back({all[k].name, {}});
            refused.push_back({all[k].name});
            for (const double load : loads) {
                const churned one = churn(all[k].make(slots, 1), load);
                chart.lines.back().points.push_back({load, one.refused});
                refused.back().push_back(study::number(100 * one.refused, "%.2f %%"));
                found[k].push_back(one);
                if (k == ours)
                    out.expect(one.refused == 0 && one.refused_filling == 0, "ours refuses nothing up to 95 %");
                if (load < 0.87) continue;
                looked_at[load].push_back({study::number(100 * load, "%.0f %%"), all[k].name,
                                           study::number(one.filled.hit), study::number(one.filled.miss),
                                           study::number(one.turned_over.hit), study::number(one.turned_over.miss)});
            }
        }
        const auto at_95 = [&](std::size_t k) { return found[k].back(); };
        out.expect(at_95(iceberg).refused > 0.005, "the Iceberg-like table refuses inserts at 95 %");
        for (const std::size_t k : funnels) out.expect(at_95(k).refused > 0.005, "funnels refuse inserts at 95 %");
        out.expect(found[funnels[1]][3].filled.hit > 2 * found[ours][3].filled.hit,
                   "a hit in a narrow funnel looks at more than twice as many lines as in ours at 90 %");
        out.expect(found[ours][3].filled.miss < found[two_choices][3].filled.miss,
                   "a miss in ours looks at fewer lines than two choices at 90 %");
        for (const auto& [load, rows] : looked_at) looked.insert(looked.end(), rows.begin(), rows.end());
        std::vector<std::string> headings{"table"};
        for (const double load : loads) headings.push_back(study::number(100 * load, "%.0f %%"));
        out.table("Inserts refused in the fifth turnover, " + count_text(slots) + " slots, by entries wanted", headings,
                  refused);
        out.table("Lines looked at, " + count_text(slots) + " slots",
                  {"entries wanted", "table", "a hit, filled", "a miss", "a hit, turned over", "a miss"}, looked);
        out.chart("churn_" + count_text(slots), chart);
        chart_lines(out, slots, loads, all, found);
    }
}

}  // namespace

int main(int argc, char** argv) try {
    const auto chosen = study::options_of(argc, argv);
    if (!chosen) return 2;
    const std::vector<u64> sizes =
        chosen->quick ? std::vector<u64>{10'000} : std::vector<u64>{10'000, 100'000, 1'000'000};
    study::findings out(chosen->out, "Flat buckets, and buckets in yards");
    out.about(
        "IcebergHT (2023) and funnel hashing (2025) give overflow a space of its own: few probes, nearly full, "
        "entries that never move. The analysis of funnels is of inserting alone.",
        "how full a table gets while it is filled says little about the rest: all but the flat tables refuse "
        "inserts at 95 % once entries come and go.",
        "holdfast::hash_table stays flat, and is best filled to 90 %. A table that is only filled may be a "
        "funnel.");
    first_refusal(out, sizes, chosen->quick);
    turnovers(out, sizes);
    return out.finish("flat_buckets", chosen->check);
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
}
