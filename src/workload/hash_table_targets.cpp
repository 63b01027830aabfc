// SPDX-License-Identifier: Apache-2.0
#include "workload/hash_table_targets.hpp"

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

void hash_table_targets::note_least(const std::string& name, const sampled& found, const std::string& peer,
                                    double times, std::string_view aim) const {
    if (!found.timed(0)) return;
    to_.note(found.find(peer) ? at_least_text(name, found, peer, times, aim) : not_judged_text(name, peer));
}

void hash_table_targets::note_most(const std::string& name, const sampled& found, const std::string& peer, double times,
                                   std::string_view aim) const {
    if (!found.timed(0)) return;
    to_.note(found.find(peer) ? at_most_text(name, found, peer, times, aim) : not_judged_text(name, peer));
}

void hash_table_targets::note_find(const std::string& name, bool hit, const sampled& found) const {
    if (const double wanted = find_wanted(hit); wanted > 0)
        note_least(name, found, fastest_private, wanted, hit ? "0.9, then 1.0" : "0.9");
    note_ahead(name, found);
}

void hash_table_targets::note_batches(const std::string& name, const sampled& found) const {
    if (in_memory() && found.names.size() > 1) note_least(name, found, found.names[1], 1.4, "2.0");
    note_ahead(name, found);
}

void hash_table_targets::note_chain(const std::string& name, const sampled& found) const {
    if (entries_ >= 20'000'000 && pages_ == page_choice::huge) note_most(name, found, memory_chase::name, 1.05, "0.95");
    note_ahead(name, found);
}

void hash_table_targets::note_insert(const std::string& name, const sampled& found) const {
    note_least(name, found, fastest_private, 1, "1.5");
    note_ahead(name, found);
    // Ours in another way, behind all others.
    const auto peer = found.find(fastest_private);
    if (!peer || found.names.back() == fastest_private || !found.names.back().starts_with(found.names[0] + ",")) return;
    const sampled other{{found.names.back(), fastest_private}, {found.samples.back(), found.samples[*peer]}};
    note_least(name + found.names.back().substr(found.names[0].size()), other, fastest_private, 1, "1.5");
}

void hash_table_targets::note_beside_writer(const std::string& name, const sampled& found) const {
    if (in_memory() && found.names.size() > 1) note_most(name, found, found.names[1], 1.5, "1.2");
}

void hash_table_targets::note_memory(const std::string& name, double bytes) const {
    constexpr double most = 20.5;
    to_.note("target: " + name + " at most " + fixed_text(most, 1) + " bytes (aim 19): " + fixed_text(bytes, 2) +
             verdict(bytes <= most));
}

void hash_table_targets::note_ahead(const std::string& name, const sampled& found) const {
    struct peer_asked {
        const char* name;
        double times;
        const char* text;
    };
    constexpr peer_asked behind[] = {{"std::unordered_map", 1, " (1.0 asked)"},
                                     {"classic table, 50 levels", 1, " (1.0 asked)"},
                                     {"geometric table, ratio 0.6", 1, " (1.0 asked)"},
                                     {"absl::flat_hash_map", 0.9, " (0.9 asked, aim 1.0)"}};
    if (!found.timed(0)) return;
    std::string judged, absent;
    bool met = true;
    for (const peer_asked& peer : behind) {
        const auto other = found.find(peer.name);
        if (!other) {
            absent += (absent.empty() ? "" : "; ") + std::string(peer.name);
            continue;
        }
        const double ratio = times_faster(found.samples[0], found.samples[*other]);
        met = met && ratio >= peer.times;
        judged += (judged.empty() ? " " : "; ") + std::string(peer.name) + " " + fixed_text(ratio, 2) + peer.text;
    }
    if (!judged.empty()) to_.note("target: " + name + " as fast as others, times:" + judged + verdict(met));
    if (!absent.empty()) to_.note(not_judged_text(name + " as fast as others", absent));
}

}  // namespace holdfast::workload
