// SPDX-License-Identifier: Apache-2.0
#include "workload/hash_table_targets.hpp"

#include <utility>

#include "workload/memory_chase.hpp"

namespace holdfast::workload {

namespace {

constexpr const char* fastest_private = "boost::unordered_flat_map";

}  // namespace

// It moves its entries and lives in private memory; ours may do neither. 0: nothing is asked.
double hash_table_targets::find_wanted(bool hit) const {
    if (entries_ < 1'000'000) return 0.65;
    if (entries_ < 20'000'000) return 0.8;
    if (pages_ == page_choice::huge) return 0.75;
    return hit ? 0.6 : 0;
}

void hash_table_targets::note_find(const std::string& name, bool hit, const sampled& found) const {
    if (const double wanted = find_wanted(hit); wanted > 0)
        note_if_any(to_, at_least_text(name, found, fastest_private, wanted));
    note_ahead(name, found);
}

void hash_table_targets::note_batches(const std::string& name, const sampled& found) const {
    if (in_memory() && found.names.size() > 1) note_if_any(to_, at_least_text(name, found, found.names[1], 1.4));
    note_ahead(name, found);
}

void hash_table_targets::note_chain(const std::string& name, const sampled& found) const {
    if (entries_ >= 20'000'000 && pages_ == page_choice::huge)
        note_if_any(to_, at_most_text(name, found, memory_chase::name, 1.05));
    note_ahead(name, found);
}

void hash_table_targets::note_insert(const std::string& name, const sampled& found) const {
    note_if_any(to_, at_least_text(name, found, fastest_private, 1));
    note_ahead(name, found);
    // Ours in another way, behind all others.
    const auto peer = found.find(fastest_private);
    if (!peer || found.names.back() == fastest_private || !found.names.back().starts_with(found.names[0] + ",")) return;
    const sampled other{{found.names.back(), fastest_private}, {found.samples.back(), found.samples[*peer]}};
    note_if_any(to_, at_least_text(name + found.names.back().substr(found.names[0].size()), other, fastest_private, 1));
}

void hash_table_targets::note_beside_writer(const std::string& name, const sampled& found) const {
    if (in_memory() && found.names.size() > 1) note_if_any(to_, at_most_text(name, found, found.names[1], 1.5));
}

void hash_table_targets::note_memory(const std::string& name, double bytes) const {
    constexpr double most = 20.5;
    to_.note("target: " + name + " at most " + fixed_text(most, 1) + " bytes: " + fixed_text(bytes, 2) +
             verdict(bytes <= most));
}

void hash_table_targets::note_ahead(const std::string& name, const sampled& found) const {
    constexpr std::pair<const char*, double> behind[] = {{"std::unordered_map", 1},
                                                         {"classic table, 50 levels", 1},
                                                         {"geometric table, ratio 0.6", 1},
                                                         {"absl::flat_hash_map", 0.9}};
    if (!found.timed(0)) return;
    std::string text;
    bool met = true;
    for (const auto& [peer, wanted] : behind) {
        const auto other = found.find(peer);
        if (!other) continue;
        const double ratio = times_faster(found.samples[0], found.samples[*other]);
        met = met && ratio >= wanted;
        text += (text.empty() ? " " : "; ") + std::string(peer) + " " + fixed_text(ratio, 2) + " (" +
                fixed_text(wanted, 1) + " asked)";
    }
    if (!text.empty()) to_.note("target: " + name + " as fast as others, times:" + text + verdict(met));
}

}  // namespace holdfast::workload
