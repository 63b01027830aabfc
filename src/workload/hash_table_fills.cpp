// SPDX-License-Identifier: Apache-2.0
#include "workload/hash_table_fills.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "holdfast/perf_test/disturbance.hpp"
#include "holdfast/perf_test/interleaved.hpp"
#include "workload/keep.hpp"
#include "workload/sample_rounds.hpp"

namespace holdfast::workload {

namespace {

using keys = hash_table_subject::keys;

constexpr std::size_t keys_in_caches = 2'000'000;  // more of them lie in no cache, each in a line of its own

/// Empty, and in the caches (F1).
void make_ready(const table_filling& filling, keys all) {
    keep(filling.table->find(all.last(std::min(all.size(), keys_in_caches))));
    filling.table->clear(all);
}

void fill(const table_filling& filling, keys all) {
    if ((filling.table->*filling.insert)(all) != all.size())
        throw std::runtime_error(filling.name + " refused an insert before it held what it was made for");
}

}  // namespace

experiment fill_experiment(const std::string& name, const std::vector<table_filling>& fillings, keys all) {
    experiment e;
    e.name = name;
    for (const table_filling& filling : fillings)
        e.subjects.push_back({filling.name,
                              [filling, all](std::uint64_t operations) { fill(filling, all.first(operations)); },
                              [filling, all] { make_ready(filling, all); }, all.size()});
    return e;
}

sampled time_fills(recorder& to, const std::string& name, const std::vector<table_filling>& fillings, keys all,
                   const fill_rounds& wanted) {
    perf_test::disturbance_meter meter;
    const auto take = [&](std::size_t i) {
        make_ready(fillings[i], all);
        (void)meter.since_last();
        const auto start = std::chrono::steady_clock::now();
        fill(fillings[i], all);
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        sample_attempt one{.ns = took.count() / static_cast<double>(all.size()), .before = {1, 1}, .after = {1, 1}};
        one.lost_core = meter.since_last().any();  // it takes one core: no way between two has to be steady
        return one;
    };
    sample_rounds taken(fillings.size(), take, wanted.retakes);
    const auto orders = perf_test::balanced_orders(fillings.size(), 1);
    for (std::size_t i = 0; i < wanted.rounds; ++i) taken.round(orders[i % orders.size()]);

    const std::size_t kept = taken.found().kept, samples = wanted.rounds * fillings.size();
    const std::string disturbed = std::to_string(kept) + " of " + std::to_string(samples) +
                                  " fills lost the processor for a while, and were kept; " +
                                  std::to_string(taken.found().disturbed) + " more were taken again";
    sample_context context;
    if (kept * 10 > samples) context.warnings.assign(fillings.size(), {{"disturbed", disturbed}});
    sampled found;
    for (const table_filling& filling : fillings) found.names.push_back(filling.name);
    found.samples = std::move(taken.found().samples);
    to.add(name, "ns", found.names, found.samples, false, context);
    to.note(name + ": " + disturbed);
    return found;
}

}  // namespace holdfast::workload
