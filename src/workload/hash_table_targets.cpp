// SPDX-License-Identifier: Apache-2.0
#include "workload/hash_table_targets.hpp"

#include <limits>

#include "workload/memory_chase.hpp"

namespace holdfast::workload {

namespace {

constexpr const char* fastest_private = "boost::unordered_flat_map";

/// Of the loads that it was filled to, each a subject of its own, the one beside which ours is slowest: its name, or
/// that of the peer where none was timed.
[[nodiscard]] std::string best_load(const sampled& found) {
    std::string best = fastest_private;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; found.timed(0) && i < found.names.size(); ++i) {
        const std::string& name = found.names[i];
        if (!found.timed(i) || (name != fastest_private && !name.starts_with(fastest_private + std::string(", "))))
            continue;
        if (const double ratio = times_faster(found.samples[0], found.samples[i]); ratio < least) {
            least = ratio;
            best = name;
        }
    }
    return best;
}

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
        note_least(name, found, best_load(found), wanted, hit ? "0.9, then 1.0" : "0.9");
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
    note_least(name, found, best_load(found), 1, "1.5");
    note_ahead(name, found);
    // Ours in another way, behind all others.
    if (!found.names.back().starts_with(found.names[0] + ",")) return;
    sampled other = found;
    other.names[0] = found.names.back();
    other.samples[0] = found.samples.back();
    const std::string peer = best_load(other);
    if (other.find(peer)) note_least(name + other.names[0].substr(found.names[0].size()), other, peer, 1, "1.5");
}

void hash_table_targets::note_beside_writer(const std::string& name, const sampled& found) const {
    if (in_memory() && found.names.size() > 1) note_most(name, found, found.names[1], 1.5, "1.2");
}

void hash_table_targets::note_memory(const std::string& name, std::size_t entry_bytes, const sampled& found) const {
    constexpr double most = 20.5;
    if (!found.timed(0)) return;
    if (entry_bytes == 16)
        to_.note("target: " + name + " at most " + fixed_text(most, 1) +
                 " bytes (aim 19): " + fixed_text(found.samples[0][0], 2) + verdict(found.samples[0][0] <= most));
    note_beside(name + " as small as others", found);
}

void hash_table_targets::note_ahead(const std::string& name, const sampled& found) const {
    note_beside(name + " as fast as others", found);
}

void hash_table_targets::note_beside(const std::string& what, const sampled& found) const {
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
    if (!judged.empty()) to_.note("target: " + what + ", times:" + judged + verdict(met));
    if (!absent.empty()) to_.note(not_judged_text(what, absent));
}

}  // namespace holdfast::workload
