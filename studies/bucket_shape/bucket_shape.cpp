// SPDX-License-Identifier: Apache-2.0
// bucket_shape - how many bytes should a bucket's line of tags have, how many slots, and how wide should a tag be?
//
//   study_bucket_shape [--quick] [--preferred] [--seconds 0.3] [--out FOLDER] [--check]
//
// Tables of five shapes over private memory (shaped_table.hpp), 16-byte entries. Counted, by seeded trials: usage at
// the first refusal, and at 90 % the lines and wrong keys that finds look at, filled and turned over, and lines by
// load. The same of a prime number of buckets and of a power of two, with the instructions of finds. Timed, all shapes
// in turn: finds one at a time in tables of 1e4, 1e6 and 2e7 entries, 90 % full. Of our shape alone: how many entries
// lie in the line that finds ask for before they know, or in one of two, and finds that ask for one, two or none;
// --preferred: this alone. Prints tables; with --out writes bucket_shape.html and its charts. --check ends with an
// error if a count that README.md states does not show. --quick: 1e4 only.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../tests/support/prefetch_count.hpp"
#include "../command_line.hpp"
#include "../findings.hpp"
#include "holdfast/perf_test/do_not_optimize.hpp"
#include "holdfast/perf_test/interleaved.hpp"
#include "shaped_table.hpp"
#include "workload/keys.hpp"

namespace {

namespace perf = holdfast::perf_test;
using holdfast::workload::count_text;
using holdfast::workload::draw;
using holdfast::workload::make_keys;
using u64 = std::uint64_t;
using table = std::unique_ptr<study::any_shaped_table>;
using study::lines_asked;

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
constexpr u64 questions = u64{1} << 20;  // of timed finds, drawn with replacement
[[nodiscard]] std::vector<shape> shapes() {
    return {{"26 tags of 16 bits in 64 bytes (ours)", 64.0 / 26, made<study::shape_26_of_16>},
            {"28 tags of 16 bits in 64 bytes, 8 counters", 64.0 / 28, made<study::shape_28_of_16>},
            {"12 tags of 16 bits in 32 bytes, 8 counters", 32.0 / 12, made<study::shape_12_of_16>},
            {"58 tags of 16 bits in 128 bytes", 128.0 / 58, made<study::shape_58_of_16>},
            {"52 tags of 8 bits in 64 bytes", 64.0 / 52, made<study::shape_52_of_8>}};
}

struct usage {
    double mean = 0, least = 1;
};

/// Part of the slots in use when the first insert is refused.
usage first_refusal(const shape& of, u64 slots, u64 trials) {
    usage found;
    for (u64 trial = 0; trial < trials; ++trial) {
        const table one = of.make(slots, trial + 1);
        for (const u64 key : make_keys(trial << 40U, one->slots() + 1))
            if (!one->insert(key, key)) break;
        const double part = static_cast<double>(one->size()) / static_cast<double>(one->slots());
        found.mean += part / static_cast<double>(trials);
        found.least = std::min(found.least, part);
    }
    return found;
}

[[nodiscard]] std::string text_of(const usage& found) {
    return study::number(100 * found.mean, "%.2f %%") + study::number(100 * found.least, " (%.2f %%)");
}

[[nodiscard]] u64 trials_of(u64 slots, bool quick) { return quick ? 5 : slots <= 100'000 ? 20 : 3; }

void first_refusals(study::findings& out, const std::vector<u64>& sizes, bool quick) {
    std::vector<std::string> headings{"bucket", "bytes beside a slot"};
    for (const u64 slots : sizes) headings.push_back(count_text(slots) + " slots, mean (least)");
    std::vector<std::vector<std::string>> rows;
    const std::vector<shape> all = shapes();
    for (std::size_t k = 0; k < all.size(); ++k) {
        rows.push_back({all[k].name, study::number(all[k].bytes)});
        for (const u64 slots : sizes) {
            const usage found = first_refusal(all[k], slots, trials_of(slots, quick));
            rows.back().push_back(text_of(found));
            if (k == ours) out.expect(found.least > 0.99, "buckets of 26 are 99 % full before an insert is refused");
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

/// At 90 %: filled, and with each entry replaced five times.
struct costs_at_90 {
    mean_cost filled, turned;
    u64 refused = 0;
};

costs_at_90 costs_of(const shape& of, u64 slots) {
    constexpr u64 turnovers = 5;
    const table one = of.make(slots, 1);
    const u64 live = one->slots() / 10 * 9;
    const std::vector<u64> keys = make_keys(u64{70} << 40U, live * (turnovers + 1)),
                           absent = make_keys(u64{71} << 40U, std::min<u64>(live, 200'000));
    costs_at_90 found;
    for (u64 i = 0; i < live; ++i) found.refused += one->insert(keys[i], i) ? 0 : 1;
    found.filled = cost_of(*one, std::span(keys).first(live), absent);
    for (u64 i = 0; i < turnovers * live; ++i) {
        (void)one->erase(keys[i]);
        found.refused += one->insert(keys[i + live], i) ? 0 : 1;
    }
    found.turned = cost_of(*one, std::span(keys).last(live), absent);
    return found;
}

void costs(study::findings& out, u64 slots) {
    std::vector<std::vector<std::string>> rows;
    const std::vector<shape> all = shapes();
    for (std::size_t k = 0; k < all.size(); ++k) {
        const auto [filled, turned, refused] = costs_of(all[k], slots);
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

/// Lines that finds look at while a table is filled.
void lines_by_load(study::findings& out, u64 slots) {
    study::line_chart hits{"Lines that a hit looks at, " + count_text(slots) + " slots, filled once",
                           "part of the slots in use",
                           "lines of 64 bytes",
                           {}};
    study::line_chart misses = hits;
    misses.title = "Lines that a miss looks at, " + count_text(slots) + " slots, filled once";
    hits.y_low = misses.y_low = 1;
    for (const shape& of : shapes()) {
        hits.lines.push_back({of.name, {}});
        misses.lines.push_back({of.name, {}});
        const table one = of.make(slots, 1);
        const std::vector<u64> keys = make_keys(u64{70} << 40U, one->slots()),
                               absent = make_keys(u64{71} << 40U, std::min<u64>(one->slots(), 100'000));
        u64 next = 0;
        for (const double load : {0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98}) {
            const auto live = static_cast<u64>(load * static_cast<double>(one->slots()));
            for (; next < live; ++next) (void)one->insert(keys[next], next);
            const mean_cost cost = cost_of(*one, std::span(keys).first(live), absent);
            hits.lines.back().points.push_back({load, cost.hit});
            misses.lines.back().points.push_back({load, cost.miss});
        }
    }
    out.chart("hit_by_load", hits);
    out.chart("miss_by_load", misses);
}

/// Instructions a find, counted as they run; nothing where they cannot be.
[[nodiscard]] std::string instructions([[maybe_unused]] const study::any_shaped_table& of,
                                       [[maybe_unused]] std::span<const u64> keys) {
#if defined(__x86_64__)
    u64 sum = 0;
    const u64 count = holdfast::test::count_instructions([&] { sum = of.find_all(keys); });
    perf::do_not_optimize(sum);
    return study::number(static_cast<double>(count) / static_cast<double>(keys.size()), "%.1f");
#else
    return "not counted here";
#endif
}

/// As many buckets as the next prime, or as the power of two itself: what finds look at, and what a capacity costs.
void prime_or_power(study::findings& out, u64 buckets, bool quick) {
    constexpr u64 entries = 1'000'000, some = 500;
    const std::vector<shape> both{{"a prime number of them (ours)", 64.0 / 26, made<study::shape_26_of_16>},
                                  {"a power of two, odd steps", 64.0 / 26, made<study::shape_26_of_power>}};
    const u64 slots = 26 * buckets;
    std::vector<std::vector<std::string>> rows;
    std::vector<costs_at_90> found;
    std::vector<usage> refused;
    for (const shape& of : both) {
        found.push_back(costs_of(of, slots));
        refused.push_back(first_refusal(of, slots, trials_of(slots, quick)));
        const table one = of.make(slots, 1);
        const u64 live = one->slots() / 10 * 9;
        const std::vector<u64> there = make_keys(1, live), absent = make_keys(live * 4, some);
        for (const u64 key : there) (void)one->insert(key, key);
        const double per_entry = static_cast<double>(of.make(entries * 10 / 9, 1)->slots()) * (16 + of.bytes) / entries;
        const costs_at_90& at = found.back();
        rows.push_back({of.name, text_of(refused.back()), study::number(at.filled.hit, "%.3f"),
                        study::number(at.filled.miss, "%.3f"), study::number(at.turned.hit, "%.3f"),
                        study::number(at.turned.miss, "%.3f"), instructions(*one, std::span(there).first(some)),
                        instructions(*one, absent), study::number(per_entry, "%.1f")});
    }
    const auto alike = [](double a, double b) { return std::abs(a / b - 1) < 0.03; };
    out.expect(alike(found[0].filled.hit, found[1].filled.hit) && alike(found[0].filled.miss, found[1].filled.miss) &&
                   alike(found[0].turned.hit, found[1].turned.hit) && alike(found[0].turned.miss, found[1].turned.miss),
               "a power of two of buckets with odd steps looks at as many lines as a prime number");
    out.expect(refused[1].least > 0.99 && found[1].refused == 0,
               "a power of two of buckets with odd steps fills as far as a prime number");
    out.table("The number of buckets, " + count_text(slots) + " slots, 90 % full",
              {"buckets", "first refusal, mean (least)", "lines a hit", "a miss", "a hit, turned over", "a miss",
               "instructions a hit", "a miss", "bytes an entry, made for 1e6"},
              rows);
}

/// Prefetch instructions of finds, counted as they run; nothing where they cannot be.
[[nodiscard]] std::optional<u64> asks(study::any_shaped_table& of, lines_asked ahead, std::span<const u64> keys) {
#if defined(__x86_64__)
    of.ask_ahead(ahead);
    u64 sum = 0;
    const u64 count = holdfast::test::count_prefetches([&] { sum = of.find_all(keys); });
    perf::do_not_optimize(sum);
    return count;
#else
    (void)of, (void)ahead, (void)keys;
    return std::nullopt;
#endif
}

/// Parts of the entries that lie in the line which finds ask for before they know; there or in the one beside; and in
/// either of two that they may ask for.
struct near_part {
    double in_line = 0, in_pair = 0, in_two = 0;
    [[nodiscard]] std::vector<std::string> cells() const {
        return {study::number(100 * in_line, "%.1f %%"), study::number(100 * in_pair, "%.1f %%"),
                study::number(100 * in_two, "%.1f %%")};
    }
};
[[nodiscard]] near_part near_part_of(const study::any_shaped_table& of, std::span<const u64> there) {
    near_part found;
    for (const u64 key : there) {
        const study::entry_distance at = of.distance_of(key);
        found.in_line += (at.in_line ? 1.0 : 0) / static_cast<double>(there.size());
        found.in_pair += (at.in_pair ? 1.0 : 0) / static_cast<double>(there.size());
        found.in_two += (at.in_two ? 1.0 : 0) / static_cast<double>(there.size());
    }
    return found;
}

/// The preferred line, and the next: how often they are the right ones, and that finds ask for one, for two or for
/// none.
void preferred_line(study::findings& out, u64 slots) {
    const table one = shapes()[ours].make(slots, 1);
    const u64 live = one->slots() / 10 * 9, some = 500;
    const std::vector<u64> keys = make_keys(u64{70} << 40U, 6 * live), absent = make_keys(u64{71} << 40U, some);
    std::vector<std::vector<std::string>> rows;
    const auto row = [&](const std::string& name, const near_part& part) {
        rows.push_back({name});
        for (const std::string& cell : part.cells()) rows.back().push_back(cell);
    };
    u64 next = 0;
    for (const double load : {0.5, 0.7, 0.8, 0.9}) {
        const auto until = static_cast<u64>(load / 0.9 * static_cast<double>(live));
        for (; next < until; ++next) (void)one->insert(keys[next], next);
        const near_part part = near_part_of(*one, std::span(keys).first(next));
        row(study::number(100 * load, "filled to %.0f %%"), part);
        if (load < 0.9) continue;
        out.expect(part.in_line > 0.75, "at 90 % three quarters of the entries lie in their preferred line");
        out.expect(part.in_two > part.in_line + 0.05, "at 90 % a twentieth more lies in the next one");
    }
    std::vector<std::optional<u64>> hits, misses;
    for (const lines_asked asked : {lines_asked::none, lines_asked::one, lines_asked::two}) {
        hits.push_back(asks(*one, asked, std::span(keys).first(some)));
        misses.push_back(asks(*one, asked, absent));
    }
    for (u64 i = 0; i < 5 * live; ++i) {
        (void)one->erase(keys[i]);
        (void)one->insert(keys[i + live], i);
    }
    row("90 %, turned over five times", near_part_of(*one, std::span(keys).last(live)));
    out.table("Entries in their preferred line, " + count_text(slots) + " slots",
              {"26 tags of 16 bits", "in the preferred line", "there, or in the line beside it",
               "there, or in the next that an insert tries"},
              rows);
    if (!hits.front()) return;
    out.expect(*hits[1] == *hits[0] + some && *misses[1] == *misses[0] + some, "a find asks for one preferred line");
    out.expect(*hits[2] == *hits[1] + some && *misses[2] == *misses[1] + some, "or for two");
    const auto each = [&](const std::optional<u64>& count) {
        return study::number(static_cast<double>(*count) / static_cast<double>(some));
    };
    out.table("Prefetch instructions a find, " + count_text(slots) + " slots, 90 % full",
              {"asks for", "a hit", "a miss"},
              {{"one line (ours)", each(hits[1]), each(misses[1])},
               {"two", each(hits[2]), each(misses[2])},
               {"none", each(hits[0]), each(misses[0])}});
}

[[nodiscard]] perf::subject asking(std::string name, std::span<const u64> asked,
                                   std::function<u64(std::span<const u64>)> find) {
    return {std::move(name),
            [asked, find = std::move(find), at = std::size_t{0}](u64 n) mutable {
                u64 sum = 0;
                while (n > 0) {  // to the end of the list, then from its beginning
                    const std::size_t now = std::min<u64>(n, asked.size() - at);
                    sum += find(asked.subspan(at, now));
                    at = (at + now) % asked.size();
                    n -= now;
                }
                perf::do_not_optimize(sum);
            },
            {},
            0};
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
        const std::vector<u64> asked = draw(hits ? there : absent, questions, entries);
        std::vector<perf::subject> subjects;
        for (std::size_t k = 0; k < all.size(); ++k)
            subjects.push_back(asking(all[k].name, asked, [one = tables[k].get()](std::span<const u64> keys) {
                return one->find_all(keys);
            }));
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

/// Finds that ask for one line ahead, for two and for none, of the same table.
void times_of_preferred_line(study::findings& out, u64 entries, double seconds) {
    const table one = shapes()[ours].make(entries * 10 / 9, 1);
    const std::vector<u64> there = make_keys(1, entries);
    for (const u64 key : there) (void)one->insert(key, key);
    struct asked_way {
        const char* name;
        std::vector<u64> asked;
        u64 (study::any_shaped_table::*find)(std::span<const u64>) const;
    };
    const asked_way ways[] = {
        {"a hit", draw(there, questions, entries), &study::any_shaped_table::find_all},
        {"a miss", draw(make_keys(entries * 4, entries), questions, entries), &study::any_shaped_table::find_all},
        {"a hit that waits for the last", draw(there, questions, entries), &study::any_shaped_table::find_in_turn}};
    const std::pair<const char*, lines_asked> states[] = {
        {"one", lines_asked::one}, {"two", lines_asked::two}, {"none", lines_asked::none}};
    std::vector<std::vector<std::string>> rows;
    for (const asked_way& each : ways) {
        std::vector<perf::subject> subjects;
        for (const auto& [name, state] : states)
            subjects.push_back(asking(name, each.asked, [&one, &each, asked = state](std::span<const u64> keys) {
                one->ask_ahead(asked);
                return (one.get()->*each.find)(keys);
            }));
        perf::interleaved_options rounds;
        rounds.seconds = seconds;
        const perf::interleaved_result timed = perf::measure_interleaved(subjects, rounds);
        rows.push_back({each.name});
        for (const perf::result& state : timed.subjects)
            rows.back().push_back(study::number(state.time.median, "%.1f ns"));
        for (const auto& [a, b] : {std::pair<std::size_t, std::size_t>{0, 2}, {1, 0}}) {
            const perf::paired_ratio r = timed.ratio(a, b);
            rows.back().push_back(study::number(r.ratio) + study::number(r.ratio_95.low, " (%.2f to ") +
                                  study::number(r.ratio_95.high, "%.2f)"));
        }
    }
    out.table("The preferred line, " + count_text(entries) + " entries, 90 % full",
              {"asked for ahead", "one line (ours)", "two", "none", "one: times as fast as none",
               "two: times as fast as one"},
              rows);
}

}  // namespace

int main(int argc, char** argv) try {
    bool only_preferred = false;
    const auto chosen = study::options_of(argc, argv, 0.3, {{"--preferred", &only_preferred}});
    if (!chosen) return 2;
    study::findings out(chosen->out, "The shape of a bucket");
    const std::vector<u64> sizes = chosen->quick ? std::vector<u64>{10'000} : std::vector<u64>{10'000, 1'000'000};
    if (!only_preferred) {
        first_refusals(out, sizes, chosen->quick);
        costs(out, sizes.back());
        lines_by_load(out, sizes.back());
        prime_or_power(out, chosen->quick ? 512 : 32'768, chosen->quick);
    }
    preferred_line(out, sizes.back());
    if (!chosen->quick) {
        out.where(perf::this_environment(perf::this_build()));
        for (const u64 entries : {u64{10'000}, u64{1'000'000}, u64{20'000'000}})
            if (!only_preferred) times(out, entries, chosen->seconds);
        for (const u64 entries : {u64{1'000'000}, u64{20'000'000}})
            times_of_preferred_line(out, entries, chosen->seconds);
    }
    return out.finish("bucket_shape", chosen->check);
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
}
