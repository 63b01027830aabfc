// SPDX-License-Identifier: Apache-2.0
// lookup_overlap - how many lookups of hash_table should be on their way at once, and how are they best interleaved?
//
//   study_lookup_overlap [--quick] [--seconds 0.3] [--out FOLDER] [--check]
//
// Tables of 1e4, 1e6 and 2e7 entries of 16 bytes, 90 % full, on pages of 4 KiB and on huge pages. Keys in random order
// are looked up one at a time, by find_many in groups of up to 32, by the same in groups of up to 64, by prefetch some
// lookups ahead of their find, and by coroutines that take turns; of each way by 1 to 64 lookups on their way, of
// groups by 1 to 128 keys at a call, keys that are there and keys that are not. All ways of a table are timed in turn.
// Before that the prefetch instructions of each way are counted as they run: g++ 12 dropped whole calls of a function
// that did nothing but ask, and a way that asks for nothing tells nothing about asking. Prints tables; with --out
// writes lookup_overlap.html and its charts. --check ends with an error if a finding that README.md states does not
// show, or a way does not ask. --quick: 1e6 entries, few depths.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../../tests/support/prefetch_count.hpp"
#include "../command_line.hpp"
#include "../findings.hpp"
#include "../lookup_subject.hpp"
#include "holdfast/perf_test/do_not_optimize.hpp"
#include "holdfast/perf_test/interleaved.hpp"
#include "ways.hpp"
#include "workload/keys.hpp"

namespace {

namespace perf = holdfast::perf_test;

struct place {
    std::uint64_t entries;
    bool huge;
    [[nodiscard]] std::string size() const { return study::power_of_ten(double(entries)); }
    [[nodiscard]] std::string name() const { return size() + " entries, " + (huge ? "huge pages" : "pages of 4 KiB"); }
};

using way = std::uint64_t (*)(const study::number_table&, study::keys, std::size_t depth);
struct named_way {
    const char* name;
    way run;
    bool in_groups;
    [[nodiscard]] std::size_t most() const { return in_groups ? 128 : 64; }  // on their way at once
};
const named_way ways[] = {{"find_many", study::many_at_a_time, true},
                          {"groups of up to 64", study::in_groups<64>, true},
                          {"prefetch, so many ahead", study::ahead, false},
                          {"coroutines in turn", study::by_coroutines, false}};

study::number_table made(const place& where) {
    holdfast::hash_table_options wanted;
    wanted.capacity = std::uint64_t(double(where.entries) / 0.9 / 1.03) + 1;  // 3 % more slots: 90 % of them
    wanted.segment.pages.huge = where.huge;
    wanted.segment.pages.prefault = true;
    study::number_table all = study::number_table::create("memfd:", wanted);
    std::uint64_t value = 0;
    for (const std::uint64_t key : holdfast::workload::make_keys(1, where.entries)) (void)all.try_insert(key, ++value);
    return all;
}

/// Questions: keys from `first` on, drawn with replacement.
std::vector<std::uint64_t> questions(std::uint64_t first, std::uint64_t count) {
    const std::vector<std::uint64_t> from = holdfast::workload::make_keys(first, count);
    std::vector<std::uint64_t> asked;
    holdfast::workload::chooser choose(first);
    for (std::size_t i = 0; i < (std::size_t{1} << 20); ++i) asked.push_back(from[choose.below(count)]);
    return asked;
}

class overlap_study {
 public:
    explicit overlap_study(study::study_options chosen)
        : options_(std::move(chosen)), found_(options_.out, "Lookups of a hash table on their way at once") {
        depths_ = options_.quick ? std::vector<std::size_t>{4, 16, 64}
                                 : std::vector<std::size_t>{1, 2, 4, 8, 16, 32, 64, 128};
    }

    int run() {
        found_.where(perf::this_environment(perf::this_build()));
        if (options_.quick) {
            look({1'000'000, false});
        } else {
            for (const std::uint64_t entries :
                 {std::uint64_t{10'000}, std::uint64_t{1'000'000}, std::uint64_t{20'000'000}})
                for (const bool huge : {false, true})
                    if (entries > 10'000 || !huge) look({entries, huge});
        }
        return found_.finish("lookup_overlap", options_.check);
    }

 private:
    void look(const place& where) {
        const study::number_table table = made(where);
        const bool got = !where.huge || table.segment().pages().huge_bytes > 0;
        if (!got) return found_.text(where.name() + ": not looked at, there are no huge pages here");
        for (const bool there : {true, false}) {
            const std::vector<std::uint64_t> asked = questions(there ? 1 : where.entries * 4, where.entries);
            check_answers(table, asked);
            count_prefetches(where, there, table, asked);
            tell(where, there, time(table, asked));
        }
    }

    void check_answers(const study::number_table& table, study::keys asked) {
        const study::keys some = asked.first(10'007);
        const std::uint64_t right = study::one_at_a_time(table, some);
        for (const named_way& one : ways)
            for (const std::size_t depth : depths_)
                if (depth <= one.most() && one.run(table, some, depth) != right) {
                    std::fprintf(stderr, "%s, %zu: answers wrongly\n", one.name, depth);
                    std::exit(1);
                }
    }

    /// How often each way asks, a lookup. A find asks for the line of its entry's likely place where the table is
    /// large; whoever asks ahead asks once more at least, for the line of tags.
    void count_prefetches([[maybe_unused]] const place& where, [[maybe_unused]] bool there,
                          [[maybe_unused]] const study::number_table& table, [[maybe_unused]] study::keys asked) {
#if defined(__x86_64__)
        constexpr std::size_t some = 64, depth = 16;
        const auto asks = [&](auto&& run) {
            std::uint64_t sum = 0;
            const std::uint64_t count = holdfast::test::count_prefetches([&] { sum = run(table, asked.first(some)); });
            perf::do_not_optimize(sum);
            return double(count) / double(some);
        };
        const double alone = asks(study::one_at_a_time);
        std::vector<std::vector<std::string>> rows{{"one at a time", study::number(alone)}};
        for (const named_way& one : ways) {
            const double counted = asks([&](const auto& of, study::keys keys) { return one.run(of, keys, depth); });
            rows.push_back({one.name, study::number(counted)});
            if (!one.in_groups)
                found_.expect(counted >= alone + 1, where.name() + ", " + one.name + ": asks for each key");
            else if (where.entries >= 1'000'000)
                found_.expect(counted >= 1, where.name() + ", " + one.name + ": asks for each key");
        }
        found_.table(where.name() + (there ? ", keys that are there" : ", keys that are not there"),
                     {"prefetch instructions executed", "a lookup"}, rows);
#endif
    }

    perf::interleaved_result time(const study::number_table& table, study::keys asked) {
        std::vector<perf::subject> subjects;
        subjects.push_back(study::lookup_subject(
            "one at a time", asked, [&table](study::keys some) { return study::one_at_a_time(table, some); }));
        for (const named_way& one : ways)
            for (const std::size_t depth : depths_)
                if (depth <= one.most())
                    subjects.push_back(study::lookup_subject(
                        name_of(one, depth), asked,
                        [&table, &one, depth](study::keys some) { return one.run(table, some, depth); }));
        perf::interleaved_options rounds;
        rounds.seconds = options_.seconds;
        return perf::measure_interleaved(subjects, rounds);
    }

    static std::string name_of(const named_way& one, std::size_t depth) {
        return std::string(one.name) + ", " + std::to_string(depth);
    }

    /// Times as fast as one at a time, by way and depth.
    void tell(const place& where, bool there, const perf::interleaved_result& timed) {
        const std::string what = where.name() + (there ? ", keys that are there" : ", keys that are not there");
        std::vector<std::string> headings{"times as fast as one at a time, by lookups on their way"};
        for (const std::size_t depth : depths_) headings.push_back(std::to_string(depth));
        std::vector<std::vector<std::string>> rows;
        study::line_chart chart{.title = what,
                                .x_unit = "lookups on their way",
                                .y_unit = "times as fast as one at a time",
                                .lines = {},
                                .x_logarithmic = true};
        std::size_t at = 1;
        double best = 0;
        for (const named_way& one : ways) {
            rows.push_back({one.name});
            chart.lines.push_back({one.name, {}});
            for (const std::size_t depth : depths_) {
                if (depth > one.most()) {
                    rows.back().emplace_back("-");
                    continue;
                }
                const double faster = timed.ratio(at++, 0).ratio;
                rows.back().push_back(study::number(faster));
                chart.lines.back().points.push_back({double(depth), faster});
                best = std::max(best, faster);
            }
        }
        // The first two ways, each of as many depths.
        rows.push_back({"groups of up to 64, times as fast as find_many"});
        for (std::size_t k = 0; k < depths_.size(); ++k)
            rows.back().push_back(study::number(timed.ratio(1 + depths_.size() + k, 1 + k).ratio));
        found_.table(what + " (one at a time: " + study::number(timed.subjects[0].time.median, "%.1f") + " ns)",
                     headings, rows);
        found_.chart("overlap_" + where.size() + (where.huge ? "_huge" : "") + (there ? "_there" : "_absent"), chart);
        if (where.entries >= 1'000'000 && there)
            found_.expect(best > 1, what + ": some way to overlap lookups is a gain");
    }

    study::study_options options_;
    std::vector<std::size_t> depths_;
    study::findings found_;
};

}  // namespace

int main(int argc, char** argv) {
    const auto chosen = study::options_of(argc, argv, 0.3);
    return chosen ? overlap_study(*chosen).run() : 2;
}
