// SPDX-License-Identifier: Apache-2.0
// salvage_metrics.cpp - counters whose names hold, wherever they stand, and histograms without what cannot be there.
// Every number is a possible count, so what a count was changed to cannot be told.
#include <set>
#include <string>

#include "holdfast/detail/concat.hpp"
#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "inspect/salvage.hpp"

namespace holdfast::inspect {

void salvage_counters(const damaged_segment& from, std::span<std::byte> to, salvage_log& log) {
    const std::uint64_t capacity = from.spec().geometry[0];
    const bool fits = capacity != 0 && capacity <= layout::counter_capacity_max &&
                      from.spec().geometry[1] == sizeof(layout::counter_slot) &&
                      capacity * sizeof(layout::counter_slot) <= to.size();
    require_geometry(from, fits ? nullptr : "the numbers are no counter set's");
    count_cut(from, from.body().size(), log);
    auto* made = reinterpret_cast<layout::counter_slot*>(to.data());
    std::set<std::string> names;  // whatever they are: no hash of theirs is asked
    const auto* const old = reinterpret_cast<const layout::counter_slot*>(from.body().data());
    for (std::uint64_t i = 0; i < capacity; ++i) {
        const layout::counter_name name(old[i]);
        const auto place = [&] { return detail::concat("counter ", i); };
        // Relaxed: at rest.
        const std::uint64_t value = old[i].value.load(std::memory_order_relaxed);
        if (name.state() == layout::counter_slot_state::empty) {
            if (value != 0) log.lose("its name is gone", place());
            continue;
        }
        if (name.state() == layout::counter_slot_state::unfinished && value == 0) continue;  // a registration cut short
        const auto words = layout::encode_counter_name(name.family(), name.labels());
        if (!name.is_sound() || !words || !valid_metric_family(name.family()) || !valid_metric_labels(name.labels())) {
            log.lose("the bytes of its name are no name of a counter", place());
            continue;
        }
        if (!names.insert(std::string(name.family()).append(1, '\0').append(name.labels())).second) {
            log.lose("its name stands in an earlier place too", place());
            continue;
        }
        if (name.state() != layout::counter_slot_state::ready)
            log.mend("the bytes behind its name were not zero", place());
        (void)layout::install_counter_name(*made, *words);
        counter((made++)->value).set(value);
        log.keep();
    }
}

namespace {

/// Copies the counts that can be there.
template <class Shard>
void salvage_shard(const Shard& old, Shard& made, const std::string& place, salvage_log& log) {
    constexpr auto relaxed = std::memory_order_relaxed;  // at rest
    made.sum.store(old.sum.load(relaxed), relaxed);
    made.least_complement.store(old.least_complement.load(relaxed), relaxed);
    made.greatest.store(old.greatest.load(relaxed), relaxed);
    std::uint64_t samples = 0;
    for (std::size_t bucket = 0; bucket < old.counts.size(); ++bucket) {
        const auto count = old.counts[bucket].load(relaxed);
        if (count == 0) continue;
        if (bucket >= log_linear::buckets) {
            log.lose("counts stand behind the last bucket", place, 0);
            continue;
        }
        made.counts[bucket].store(count, relaxed);
        samples += count;
    }
    if (old.owner.load(relaxed) > 1) log.mend("an owner's word was neither 0 nor 1", place, 0);
    log.keep(samples);
}

}  // namespace

void salvage_latencies(const damaged_segment& from, std::span<std::byte> to, salvage_log& log) {
    const geometry_array& words = from.spec().geometry;
    const bool fits = words[0] >= 1 && words[0] <= layout::latency_shards_max &&
                      words[1] == sizeof(layout::latency_shard) && words[2] == log_linear::sub_bucket_bits &&
                      words[3] == log_linear::exponent_max && layout::latency_shard_bytes(words[0]) <= to.size();
    require_geometry(from, fits ? nullptr : "the numbers are no histogram's");
    count_cut(from, from.body().size(), log);
    const std::size_t owned = static_cast<std::size_t>(words[0]) - 1;
    const std::size_t shared_at = owned * sizeof(layout::latency_shard);
    const auto* const old = reinterpret_cast<const layout::latency_shard*>(from.body().data());
    auto* const made = reinterpret_cast<layout::latency_shard*>(to.data());
    for (std::size_t i = 0; i < owned; ++i) salvage_shard(old[i], made[i], detail::concat("shard ", i), log);
    salvage_shard(*reinterpret_cast<const layout::shared_latency_shard*>(from.body().data() + shared_at),
                  *reinterpret_cast<layout::shared_latency_shard*>(to.data() + shared_at), "the shared shard", log);
}

}  // namespace holdfast::inspect
