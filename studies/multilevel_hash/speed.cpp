// SPDX-License-Identifier: Apache-2.0
// speed.cpp - lookups of the two published tables and of ours, timed in turn.
#include <functional>

#include "holdfast/hash_table.hpp"
#include "holdfast/perf_test/do_not_optimize.hpp"
#include "holdfast/perf_test/interleaved.hpp"
#include "parts.hpp"

namespace study {

namespace {

namespace perf = holdfast::perf_test;
using holdfast::workload::draw;

/// Asks one table for one key after the other.
template <class Find>
perf::subject subject_of(std::string name, std::vector<std::uint64_t> questions, Find find) {
    return {std::move(name),
            [questions = std::move(questions), find = std::move(find), at = std::size_t{0}](std::uint64_t n) mutable {
                std::uint64_t sum = 0;
                for (; n > 0; --n) {
                    sum += find(questions[at]);
                    at = at + 1 == questions.size() ? 0 : at + 1;
                }
                perf::do_not_optimize(sum);
            },
            {},
            0};
}

std::shared_ptr<own_level_table> filled_with(const std::vector<std::uint64_t>& lengths,
                                             const std::vector<std::uint64_t>& keys) {
    auto own = std::make_shared<own_level_table>(lengths);
    for (const std::uint64_t key : keys)
        if (own->table().insert_new(key, key) != level_result::inserted) std::fprintf(stderr, "a key was refused\n");
    return own;
}

constexpr const char *classic = "classic, 50 rows, 90 % full", *geometric = "geometric, ratio 0.6, 80 % full",
                     *ours = "holdfast::hash_table, 90 % full";

/// All three with these keys, asked the same questions.
std::vector<perf::subject> subjects_of(const std::vector<std::uint64_t>& keys,
                                       const std::vector<std::uint64_t>& questions) {
    const std::uint64_t entries = keys.size();
    std::vector<perf::subject> all;
    for (const auto& [name, lengths] : {std::pair(classic, row_lengths(entries * 10 / 9, 50, 1)),
                                        std::pair(geometric, geometric_lengths(entries * 10 / 8))})
        all.push_back(subject_of(name, questions, [own = filled_with(lengths, keys)](std::uint64_t key) {
            const std::uint64_t* const found = own->table().find(key);
            return found == nullptr ? 0 : *found;
        }));
    using table = holdfast::hash_table<std::uint64_t, std::uint64_t>;
    auto own = std::make_shared<table>(table::create("heap:", {.capacity = entries * 1000 / 927}));
    for (const std::uint64_t key : keys) own->try_insert(key, key);
    all.push_back(subject_of(ours, questions, [own](std::uint64_t key) { return own->find(key).value_or(0); }));
    return all;
}

}  // namespace

void speed(findings& out, const study_options& chosen) {
    out.where(perf::this_environment(perf::this_build()));
    std::vector<std::vector<std::string>> rows;
    for (const std::uint64_t entries :
         chosen.quick ? std::vector<std::uint64_t>{50'000} : std::vector<std::uint64_t>{10'000, 1'000'000}) {
        const std::vector<std::uint64_t> keys = keys_of_trial(3, entries), others = keys_of_trial(4, entries);
        for (const bool hit : {true, false}) {
            perf::interleaved_options rounds;
            rounds.seconds = chosen.seconds;
            const auto found = perf::measure_interleaved(
                subjects_of(keys, draw(hit ? keys : others, holdfast::workload::questions_for(entries), 1)), rounds);
            for (std::size_t i = 0; i < found.subjects.size(); ++i) {
                const double ns = found.subjects[i].time.median;
                const perf::paired_ratio gain = found.ratio(i, 0);
                rows.push_back({holdfast::workload::count_text(entries), hit ? "hit" : "miss", found.subjects[i].name,
                                number(ns, "%.1f"), number(1000 / ns, "%.1f"),
                                number(gain.ratio) + " (" + number(gain.ratio_95.low) + " to " +
                                    number(gain.ratio_95.high) + ")"});
            }
            // A tenth of the probes of a hit, a quarter of those of a miss; the time saved depends on the machine.
            const double gain = found.ratio(1, 0).ratio;
            out.expect(gain > (hit ? 1.5 : 2), "the geometric table is faster than the classic one");
            out.expect(gain < 8, "but not 10 times");
            out.expect(found.ratio(2, 0).ratio > 1.5, "ours is faster than the classic one");
            if (!hit) out.expect(found.ratio(2, 1).ratio > 1.2, "our misses are faster than the geometric table's");
        }
    }
    out.table("Lookups, entries of 16 bytes",
              {"entries", "asked", "table", "ns a lookup", "M/s", "times as fast as the classic table (95 %)"}, rows);
}

}  // namespace study
