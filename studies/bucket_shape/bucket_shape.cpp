// SPDX-License-Identifier: Apache-2.0
// bucket_shape - how many bytes should a bucket's line of tags have, how many slots, and how wide should a tag be?
//
//   study_bucket_shape [--quick] [--seconds 0.3] [--out FOLDER] [--check]
//
// Tables of five shapes over private memory (shaped_table.hpp), 16-byte entries. Counted, by seeded trials: usage at
// the first refusal, and at 90 % the lines and wrong keys that finds look at, filled and turned over. Timed, all shapes
// in turn: finds one at a time in tables of 1e4, 1e6 and 2e7 entries, 90 % full. Prints tables; with --out writes
// bucket_shape.html. --check ends with an error if a count that README.md states does not show. --quick: 1e4 only.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../command_line.hpp"
#include "../findings.hpp"
#include "holdfast/perf_test/do_not_optimize.hpp"
#include "holdfast/perf_test/interleaved.hpp"
#include "shaped_table.hpp"
#include "workload/keys.hpp"

namespace {

namespace perf = holdfast::perf_test;
using holdfast::workload::count_text;
using holdfast::workload::make_keys;
using u64 = std::uint64_t;
using table = std::unique_ptr<study::any_shaped_table>;

struct shape {
    const char* name;
    double bytes;  // beside a slot
    std::function<table(u64 slots, u64 seed)> make;
};

template <class Table>
[[nodiscard]] table made(u64 slots, u64 seed) {
    return std::make_unique<Table>(slots, seed);
}

constexpr std::size_t ours = 0, narrow_tags = 4;
[[nodiscard]] std::vector<shape> shapes() {
    return {{"26 tags of 16 bits in 64 bytes (ours)", 64.0 / 26, made<study::shape_26_of_16>},
            {"28 tags of 16 bits in 64 bytes, 8 counters", 64.0 / 28, made<study::shape_28_of_16>},
            {"12 tags of 16 bits in 32 bytes, 8 counters", 32.0 / 12, made<study::shape_12_of_16>},
            {"58 tags of 16 bits in 128 bytes", 128.0 / 58, made<study::shape_58_of_16>},
            {"52 tags of 8 bits in 64 bytes", 64.0 / 52, made<study::shape_52_of_8>}};
}

void first_refusals(study::findings& out, const std::vector<u64>& sizes, bool quick) {
    std::vector<std::string> headings{"bucket", "bytes beside a slot"};
    for (const u64 slots : sizes) headings.push_back(count_text(slots) + " slots, mean (least)");
    std::vector<std::vector<std::string>> rows;
    const std::vector<shape> all = shapes();
    for (std::size_t k = 0; k < all.size(); ++k) {
        rows.push_back({all[k].name, study::number(all[k].bytes)});
        for (const u64 slots : sizes) {
            const u64 trials = quick ? 5 : slots <= 100'000 ? 20 : 3;
            double mean = 0, least = 1;
            for (u64 trial = 0; trial < trials; ++trial) {
                const table one = all[k].make(slots, trial + 1);
                for (const u64 key : make_keys(trial << 40U, one->slots() + 1))
                    if (!one->insert(key, key)) break;
                const double part = static_cast<double>(one->size()) / static_cast<double>(one->slots());
                mean += part / static_cast<double>(trials);
                least = std::min(least, part);
            }
            rows.back().push_back(study::number(100 * mean, "%.2f %%") + study::number(100 * least, " (%.2f %%)"));
            if (k == ours) out.expect(least > 0.99, "buckets of 26 are 99 % full before an insert is refused");
        }
    }
    out.table("Usage at the first refusal", headings, rows);
}

struct mean_cost {
    double hit = 0, miss = 0, wrong_hit = 0, wrong_miss = 0;
};

mean_cost cost_of(const study::any_shaped_table& of, std::span<const u64> there, std::span<const u64> absent) {
    mean_cost mean;
    for (const u64 key : there) {
        const study::lookup_cost cost = of.cost_of(key);
        mean.hit += static_cast<double>(cost.lines) / static_cast<double>(there.size());
        mean.wrong_hit += static_cast<double>(cost.wrong_keys) / static_cast<double>(there.size());
    }
    for (const u64 key : absent) {
        const study::lookup_cost cost = of.cost_of(key);
        mean.miss += static_cast<double>(cost.lines) / static_cast<double>(absent.size());
        mean.wrong_miss += static_cast<double>(cost.wrong_keys) / static_cast<double>(absent.size());
    }
    return mean;
}

void costs(study::findings& out, u64 slots) {
    constexpr u64 turnovers = 5;
    std::vector<std::vector<std::string>> rows;
    const std::vector<shape> all = shapes();
    for (std::size_t k = 0; k < all.size(); ++k) {
        const table one = all[k].make(slots, 1);
        const u64 live = one->slots() / 10 * 9;
        const std::vector<u64> keys = make_keys(u64{70} << 40U, live * (turnovers + 1)),
                               absent = make_keys(u64{71} << 40U, std::min<u64>(live, 200'000));
        u64 refused = 0;
        for (u64 i = 0; i < live; ++i) refused += one->insert(keys[i], i) ? 0 : 1;
        const mean_cost filled = cost_of(*one, std::span(keys).first(live), absent);
        for (u64 i = 0; i < turnovers * live; ++i) {
            (void)one->erase(keys[i]);
            refused += one->insert(keys[i + live], i) ? 0 : 1;
        }
        const mean_cost turned = cost_of(*one, std::span(keys).last(live), absent);
        rows.push_back({all[k].name, study::number(filled.hit), study::number(filled.miss), study::number(turned.hit),
                        study::number(turned.miss), study::number(filled.wrong_hit, "%.4f"),
                        study::number(filled.wrong_miss, "%.4f"), std::to_string(refused)});
        if (k == ours) out.expect(refused == 0 && filled.wrong_miss < 0.01, "buckets of 26 refuse nothing at 90 %");
        if (k == narrow_tags) out.expect(filled.wrong_miss > 0.1, "tags of 8 bits look at wrong keys");
    }
    out.table("Lines of 64 bytes looked at, " + count_text(slots) + " slots, 90 % full",
              {"bucket", "a hit, filled", "a miss", "a hit, turned over", "a miss", "wrong keys a hit, filled",
               "a miss", "inserts refused"},
              rows);
}

void times(study::findings& out, u64 entries, double seconds) {
    std::vector<table> tables;
    const std::vector<shape> all = shapes();
    const std::vector<u64> there = make_keys(1, entries), absent = make_keys(entries * 4, entries);
    for (const shape& s : all) {
        tables.push_back(s.make(entries * 10 / 9, 1));
        for (const u64 key : there) (void)tables.back()->insert(key, key);
    }
    std::vector<std::vector<std::string>> rows;
    for (const shape& s : all) rows.push_back({s.name});
    for (const bool hits : {true, false}) {
        const std::vector<u64>& from = hits ? there : absent;
        std::vector<u64> asked;
        holdfast::workload::chooser choose(entries);
        for (std::size_t i = 0; i < (std::size_t{1} << 20); ++i) asked.push_back(from[choose.below(entries)]);
        std::vector<perf::subject> subjects;
        for (std::size_t k = 0; k < all.size(); ++k)
            subjects.push_back({all[k].name,
                                [&asked, one = tables[k].get(), at = std::size_t{0}](u64 n) mutable {
                                    u64 sum = 0;
                                    while (n > 0) {  // to the end of the list, then from its beginning
                                        const std::size_t now = std::min<u64>(n, asked.size() - at);
                                        sum += one->find_all(std::span(asked).subspan(at, now));
                                        at = (at + now) % asked.size();
                                        n -= now;
                                    }
                                    perf::do_not_optimize(sum);
                                },
                                {},
                                0});
        perf::interleaved_options rounds;
        rounds.seconds = seconds;
        const perf::interleaved_result timed = perf::measure_interleaved(subjects, rounds);
        for (std::size_t k = 0; k < all.size(); ++k) {
            const perf::paired_ratio r = timed.ratio(k, ours);
            rows[k].push_back(study::number(timed.subjects[k].time.median, "%.1f ns"));
            rows[k].push_back(k == ours ? "1"
                                        : study::number(r.ratio) + study::number(r.ratio_95.low, " (%.2f to ") +
                                              study::number(r.ratio_95.high, "%.2f)"));
        }
    }
    out.table("Finds one at a time, " + count_text(entries) + " entries, 90 % full",
              {"bucket", "a hit", "times as fast as ours", "a miss", "times as fast as ours"}, rows);
}

}  // namespace

int main(int argc, char** argv) try {
    const auto chosen = study::options_of(argc, argv, 0.3);
    if (!chosen) return 2;
    study::findings out(chosen->out, "The shape of a bucket");
    const std::vector<u64> sizes = chosen->quick ? std::vector<u64>{10'000} : std::vector<u64>{10'000, 1'000'000};
    first_refusals(out, sizes, chosen->quick);
    costs(out, sizes.back());
    if (!chosen->quick) {
        out.where(perf::this_environment(perf::this_build()));
        for (const u64 entries : {u64{10'000}, u64{1'000'000}, u64{20'000'000}}) times(out, entries, chosen->seconds);
    }
    return out.finish("bucket_shape", chosen->check);
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
}
