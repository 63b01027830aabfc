// SPDX-License-Identifier: Apache-2.0
// two_choice_hash - chains by one hash function or by two: how many probes a find takes, by each way to count them, and
// what choosing is worth for buckets.
//
//   study_two_choice_hash [--quick] [--out FOLDER] [--check]
//
// As many keys as buckets, 2^5 to 2^22 (--quick: 2^14). All numbers are counts of seeded trials, the same on every
// machine. Prints tables; with --out writes the charts and two_choice_hash.html. --check ends with an error if a
// finding that README.md states does not show.
#include <array>
#include <cmath>
#include <exception>
#include <string>

#include "../command_line.hpp"
#include "../findings.hpp"
#include "bucket_table.hpp"
#include "chain_table.hpp"
#include "workload/keys.hpp"

namespace {

using holdfast::workload::make_keys;
using u64 = std::uint64_t;

/// Means over all keys of a table, and maxima, of trials together.
struct counted {
    double position = 0, nodes = 0, heads = 0;  ///< of keys that are there
    double absent_nodes = 0, absent_heads = 0;
    double position_max = 0, nodes_max = 0;  ///< means of each trial's maximum
};

counted count(u64 keys, u64 functions, u64 trials) {
    counted sum;
    const auto n = static_cast<double>(keys), tables = static_cast<double>(trials);
    for (u64 trial = 0; trial < trials; ++trial) {
        using table_type = study::chain_table<u64>;
        const study::chain_shape shape{keys, keys, functions};
        std::vector<u64> words(table_type::bytes_for(shape) / 8);
        auto table = table_type::format(std::as_writable_bytes(std::span(words)), shape);
        const std::vector<u64> all = make_keys(trial << 40U, 2 * keys);
        for (u64 i = 0; i < keys; ++i) (void)table.insert(all[i], i);
        u64 position_max = 0, nodes_max = 0;
        for (u64 i = 0; i < 2 * keys; ++i) {
            const study::chain_probes probes = table.probes_of(all[i]);
            const auto nodes = static_cast<double>(probes.nodes_in_turn),
                       heads = static_cast<double>(probes.heads_in_turn);
            if (i >= keys) {
                sum.absent_nodes += nodes / n / tables;
                sum.absent_heads += heads / n / tables;
                continue;
            }
            sum.position += static_cast<double>(probes.position) / n / tables;
            sum.nodes += nodes / n / tables;
            sum.heads += heads / n / tables;
            position_max = std::max(position_max, probes.position);
            nodes_max = std::max(nodes_max, probes.nodes_in_turn);
        }
        sum.position_max += static_cast<double>(position_max) / tables;
        sum.nodes_max += static_cast<double>(nodes_max) / tables;
    }
    return sum;
}

/// M1 and M2 as published, of natural logarithms.
double most_of_one(double n) { return std::log(n) / std::log(std::log(n)); }
double most_of_two(double n) { return 2 * std::log(std::log(n)) / std::log(2); }

/// The mean position of N keys in the chains of N buckets, by one function: a key finds (N - 1) / N others in its
/// chain, of which half came before it.
double position_of_one(double n) { return 1.5 - 1 / (2 * n); }

/// The same by two functions, of infinitely many buckets. s[i], the part of chains with i keys or more, grows by
/// s[i-1]^2 - s[i]^2 for each key a bucket (a key makes a chain i long if both its chains have i - 1 or more, and not
/// both have i), and each of them has one key in place i. Mitzenmacher, The Power of Two Choices, 1996.
double position_of_two() {
    constexpr int steps = 100'000;
    std::array<double, 12> s{1};
    for (int step = 0; step < steps; ++step)
        for (std::size_t i = s.size() - 1; i > 0; --i) s[i] += (s[i - 1] * s[i - 1] - s[i] * s[i]) / steps;
    double sum = 0;
    for (std::size_t i = 1; i < s.size(); ++i) sum += static_cast<double>(i) * s[i];
    return sum;
}

void chains(study::findings& out, bool quick) {
    study::line_chart average{"Probes a find, average",
                              "keys = buckets",
                              "probes",
                              {{"one function, as published: position + 1", {}},
                               {"two functions, as published: 2 positions + 1", {}},
                               {"one function, searched: heads + nodes", {}},
                               {"two functions, searched in turn: heads + nodes", {}},
                               {"one function: position in the chain", {}},
                               {"two functions: position in the chain", {}},
                               {"law: 3/2 - 1/(2 N)", {}, true},
                               {"law: 1.247, of infinitely many", {}, true},
                               {"law: 5/2 - 1/(2 N)", {}, true},
                               {"law: 1 + 2 * 1.247", {}, true}}};
    const double of_two = position_of_two();
    study::line_chart most{"Probes a find, maximum",
                           "keys = buckets",
                           "probes",
                           {{"one function: position", {}},
                            {"two functions, as published: 2 positions", {}},
                            {"log N / log log N", {}, true},
                            {"2 log log N / log 2", {}, true},
                            {"two functions: position", {}},
                            {"two functions, searched in turn: nodes", {}}}};
    average.x_logarithmic = most.x_logarithmic = true;
    std::vector<std::vector<std::string>> averages, maxima, misses;
    for (int bits = 5; bits <= (quick ? 14 : 22); ++bits) {
        const u64 keys = u64{1} << bits;
        const auto n = static_cast<double>(keys);
        const u64 trials = std::clamp<u64>((quick ? u64{1} << 16 : u64{1} << 22) / keys, 1, 2000);
        const counted one = count(keys, 1, trials), two = count(keys, 2, trials);
        const std::vector<double> means{
            one.position + 1,       2 * two.position + 1, one.nodes + one.heads, two.nodes + two.heads,
            one.position,           two.position,         position_of_one(n),    of_two,
            position_of_one(n) + 1, 2 * of_two + 1};
        const std::vector<double> mosts{one.position_max, 2 * two.position_max, most_of_one(n),
                                        most_of_two(n),   two.position_max,     two.nodes_max};
        const std::string name = "2^" + std::to_string(bits);
        averages.push_back({name});
        maxima.push_back({name});
        for (std::size_t i = 0; i < means.size(); ++i) {
            average.lines[i].points.push_back({n, means[i]});
            averages.back().push_back(study::number(means[i], "%.3f"));
        }
        for (std::size_t i = 0; i < mosts.size(); ++i) {
            most.lines[i].points.push_back({n, mosts[i]});
            maxima.back().push_back(study::number(mosts[i], "%.1f"));
        }
        misses.push_back({name, study::number(one.absent_nodes, "%.3f"), study::number(two.absent_nodes, "%.3f"),
                          study::number(one.absent_heads, "%.0f"), study::number(two.absent_heads, "%.2f")});
        if (bits < 10) continue;  // a few dozen keys are too few for the laws of many
        out.expect(std::abs(one.position - position_of_one(n)) < 0.01,
                   "with one function a key is 1.50th in its chain");
        out.expect(std::abs(two.position - of_two) < 0.01, "with two functions it is 1.247th");
        out.expect(two.nodes + two.heads < 2 * two.position + 1 - 0.2,
                   "searching two chains in turn costs less than what was published");
        out.expect(two.nodes + two.heads > one.nodes + one.heads, "but more than one chain");
        out.expect(two.position_max < one.position_max, "the longest chain is shorter with two functions");
        out.expect(two.absent_nodes > 1.9 * one.absent_nodes, "a miss looks at twice as many nodes");
    }
    std::vector<std::string> headings{"keys"}, most_headings{"keys"};
    for (const auto& one : average.lines) headings.push_back(one.name);
    for (const auto& one : most.lines) most_headings.push_back(one.name);
    out.table("Average probes of a find, keys that are there", headings, averages);
    out.table("Maximum", most_headings, maxima);
    out.table("Keys that are not there", {"keys", "one function: nodes", "two functions: nodes", "heads", "heads"},
              misses);
    out.chart("average", average);
    out.chart("maximum", most);
}

/// A way to choose among buckets.
struct way {
    const char* name;
    std::uint32_t first, next;
};
constexpr std::array ways{way{"home, then one bucket at a time", 1, 1}, way{"home, then pairs (ours)", 1, 2},
                          way{"two homes, then pairs", 2, 2}};

u64 prime_from(u64 n) {
    while (!holdfast::layout::is_prime(n)) ++n;
    return n;
}

struct lines_counted {
    double hit = 0, miss = 0, longest = 0;
};

lines_counted lines(const study::bucket_table& table, const std::vector<u64>& keys, u64 first, u64 live) {
    lines_counted sum;
    for (u64 i = first; i < first + live; ++i) {
        const auto n = static_cast<double>(table.lines_of(keys[i]));
        sum.hit += n / static_cast<double>(live);
        sum.longest = std::max(sum.longest, n);
    }
    for (const u64 key : make_keys(u64{99} << 40U, live))
        sum.miss += static_cast<double>(table.lines_of(key)) / static_cast<double>(live);
    return sum;
}

void buckets(study::findings& out, bool quick) {
    const u64 count = prime_from((quick ? 20'000 : 1'000'000) / study::bucket_table::slots_per_bucket);
    const auto slots = static_cast<double>(count * study::bucket_table::slots_per_bucket);
    // How full a table gets if a key may lie in so many buckets at most.
    study::line_chart usage{"Usage at the first refusal, by the buckets a key may lie in",
                            "buckets a key may lie in",
                            "part of the slots",
                            {}};
    usage.x_logarithmic = true;
    usage.y_low = 0.5;
    usage.y_high = 1;
    std::vector<std::vector<std::string>> filled;
    const std::vector<std::uint32_t> limits{3, 5, 9, 17, 33, 65, 129};
    for (const way& one : ways) {
        usage.lines.push_back({one.name, {}});
        filled.push_back({one.name});
        for (const std::uint32_t most : limits) {
            const std::uint32_t limit = one.first == 2 ? most + 1 : most;  // whole pairs
            double part = 0;
            const u64 trials = quick ? 3 : 5;
            for (u64 trial = 0; trial < trials; ++trial) {
                study::bucket_table table({count, one.first, one.next, limit, trial + 1});
                for (const u64 key : make_keys(trial << 40U, table.slots() + 1))
                    if (!table.insert_new(key, 0)) break;
                part += static_cast<double>(table.size()) / slots / static_cast<double>(trials);
            }
            usage.lines.back().points.push_back({static_cast<double>(most), part});
            filled.back().push_back(study::number(100 * part, "%.2f %%"));
            if (one.next == 2 && most == 129) out.expect(part > 0.99, "pairs fill 99 % before the first refusal");
        }
    }
    const auto at = [&](std::size_t of, std::size_t limit) { return usage.lines[of].points[limit].y; };
    for (std::size_t i = 1; i < 5; ++i)
        out.expect(at(1, i) > at(0, i), "pairs fill more than single buckets do, with as many lines");
    out.table("Usage at the first refusal, " + std::to_string(static_cast<u64>(slots)) +
                  " slots, by the buckets a key may lie in",
              {"", "3", "5", "9", "17", "33", "65", "129"}, filled);
    out.chart("usage_by_lines", usage);

    std::vector<std::vector<std::string>> rows;
    for (const double load : {0.8, 0.9, 0.95, 0.98}) {
        std::vector<lines_counted> fresh, churned;
        for (const way& one : ways) {
            const auto live = static_cast<u64>(load * slots);
            const std::vector<u64> keys = make_keys(u64{50} << 40U, 6 * live);
            study::bucket_table table({count, one.first, one.next, one.first == 2 ? 130U : 129U, 1});
            for (u64 i = 0; i < live; ++i) (void)table.insert_new(keys[i], 0);
            fresh.push_back(lines(table, keys, 0, live));
            u64 refused = 0;
            for (u64 i = 0; i < 5 * live; ++i) {
                (void)table.erase(keys[i]);
                refused += table.insert_new(keys[i + live], 0) ? 0 : 1;
            }
            churned.push_back(lines(table, keys, 5 * live, live));
            out.expect(refused == 0 || one.first == 2 || one.next == 1 || load > 0.97,
                       "no insert beside pairs is refused");
            rows.push_back({study::number(100 * load, "%.0f %%"), one.name, study::number(fresh.back().hit, "%.3f"),
                            study::number(fresh.back().miss, "%.3f"), study::number(fresh.back().longest, "%.0f"),
                            study::number(churned.back().hit, "%.3f"), study::number(churned.back().miss, "%.3f"),
                            study::number(churned.back().longest, "%.0f"), std::to_string(refused)});
        }
        out.expect(fresh[1].hit < fresh[2].hit && fresh[1].miss < fresh[2].miss,
                   "one home looks at fewer lines than two homes");
        if (load < 0.94) continue;
        out.expect(churned[1].hit < churned[0].hit && churned[1].miss < churned[0].miss,
                   "from 95 % on, pairs look at fewer lines than single buckets once entries have turned over");
    }
    out.table(
        "Lines looked at, after filling, and after the entries turned over five times",
        {"full", "buckets", "a hit", "a miss", "longest hit", "a hit, turned over", "a miss", "longest hit", "refused"},
        rows);
}

}  // namespace

int main(int argc, char** argv) try {
    const auto chosen = study::options_of(argc, argv);
    if (!chosen) return 2;
    study::findings out(chosen->out, "Two hash functions instead of one");
    out.about(
        "with as many keys as chains, 2^5 to 2^22 of them, a find probes about 2.5 on average with one hash "
        "function and 3.5 with two, at most M1 = log N / log log N and M2 = 2 log log N / log 2; so two are not "
        "worth it.",
        "the averages are those of a count that charges both chains as deep as the key lies in one of them. "
        "Searched in turn, a find by two functions looks at less than that and still at more than by one, and a "
        "miss at twice as much; the longest chain is less than half as long.",
        "two choices are right for where overflow goes, not for where a key lives. Pairs of buckets, of a line "
        "each, pay where a table is nearly full.");
    chains(out, chosen->quick);
    buckets(out, chosen->quick);
    return out.finish("two_choice_hash", chosen->check);
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
}
