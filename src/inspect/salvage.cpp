// SPDX-License-Identifier: Apache-2.0
#include "inspect/salvage.hpp"

#include <algorithm>
#include <string>

#include "holdfast/detail/concat.hpp"
#include "inspect/known_kinds.hpp"

namespace holdfast::inspect {

void require_geometry(const damaged_segment& from, const char* wrong) {
    if (wrong == nullptr) return;
    throw error(errc::geometry_mismatch, from.uri(),
                std::string(wrong) + "; its header is whole, so no damage did this: make the segment anew");
}

void count_cut(const damaged_segment& from, std::uint64_t bytes, salvage_log& log) {
    if (from.present().size() < bytes)
        log.lose("nothing tells what was cut off", detail::concat("from byte ", from.present().size(), " of the body"));
}

void salvage(const damaged_segment& from, std::span<std::byte> to, salvage_log& log) {
    const segment_spec& spec = from.spec();
    const known_kind* known = nullptr;  // of that version, else of another
    for (const known_kind& each : known_kinds)
        if (each.kind == spec.kind && (known == nullptr || known->version != spec.container_version)) known = &each;
    if (known != nullptr && known->version != spec.container_version)
        throw error(errc::version_mismatch, from.uri(),
                    detail::concat("layout version ", spec.container_version, " of its kind, this program knows ",
                                   known->version, "; repair it with the program that wrote it"));
    switch (spec.kind) {
        case container_kind::array: return salvage_array(from, to, log);
        case container_kind::hash_table: return salvage_table(from, to, log);
        case container_kind::hash_map: return salvage_map(from, to, log);
        case container_kind::block_store: return salvage_blocks(from, to, log);
        case container_kind::snapshot: return salvage_snapshot(from, to, log);
        case container_kind::sorted_index: return salvage_index(from, to, log);
        case container_kind::queue: return salvage_queue(from, to, log);
        case container_kind::broadcast: return salvage_broadcast(from, to, log);
        case container_kind::counter_set: return salvage_counters(from, to, log);
        case container_kind::latency_histogram: return salvage_latencies(from, to, log);
        case container_kind::raw:
            count_cut(from, from.body().size(), log);
            std::ranges::copy(from.body(), to.begin());
            return;
    }
}

}  // namespace holdfast::inspect
