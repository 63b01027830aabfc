// SPDX-License-Identifier: Apache-2.0
#include "inspect/metrics_reader.hpp"

#include <array>
#include <cstddef>
#include <optional>

#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/metrics/log_linear.hpp"

namespace holdfast::inspect {

namespace {

/// Never written through: the classes that get it only load, and the mapping is read-only.
[[nodiscard]] std::span<std::byte> unwritten(const segment& from) noexcept {
    const std::span<const std::byte> bytes = from.bytes();
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

counter_walk for_each_counter(const segment& from, const counter_sink& sink) {
    return detail::counter_slots_of(from, unwritten(from)).for_each(sink);
}

counter_walk walk_counters(const segment& from, const counter_taker& take) {
    const std::span<std::byte> body = unwritten(from);
    const std::size_t capacity = detail::counter_slots_of(from, body).capacity();  // checks the geometry
    const auto* const slots = reinterpret_cast<const layout::counter_slot*>(body.data());
    // Relaxed: words settle once (I1 of the layout).
    const auto is_free = [&](std::size_t i) { return slots[i].words[0].load(std::memory_order_relaxed) == 0; };
    counter_walk met;
    bool more = true;
    std::optional<std::size_t> free;  // the first place that was
    for (std::size_t i = 0; i < capacity && more; ++i) {
        if (is_free(i)) {
            free = free ? free : i;
            continue;
        }
        // Places are taken in order: where one was taken a moment ago, those in front of it were, too.
        if (free && !is_free(*free)) free = std::nullopt;
        if (free) {
            ++met.damaged;
            continue;
        }
        const auto place = body.subspan(i * sizeof(layout::counter_slot), sizeof(layout::counter_slot));
        const counter_walk one = detail::counter_slots(place, 1, from.uri())
                                     .for_each([&](std::string_view family, std::string_view labels,
                                                   std::uint64_t value) { more = take(family, labels, value); });
        met.counters += one.counters;
        met.unfinished += one.unfinished;
        met.damaged += one.damaged;
    }
    return met;
}

histogram_counts latencies_of(const segment& from) { return detail::latency_shards_of(from, unwritten(from)).merged(); }

void append_json(json_out& out, const histogram_counts& counts) {
    constexpr std::array quantiles{0.0, 0.5, 0.9, 0.99, 0.999, 1.0};
    out.begin_object().member("count", counts.total()).member("sum_ns", counts.sum()).key("quantiles").begin_array();
    for (const double q : quantiles) {
        const std::optional<quantile_estimate> found = counts.quantile(q);
        if (!found) continue;
        out.begin_object().member("q", q).member("estimate_ns", found->estimate).member("lower_ns", found->lower);
        out.member("upper_ns", found->upper).member("confidence", found->confidence);
        out.member("bounded", found->bounded).end_object();
    }
    out.end_array().end_object();
}

void append_buckets(json_out& out, const histogram_counts& counts) {
    out.key("buckets").begin_array();
    for (std::size_t i = 0; i < counts.counts().size(); ++i) {
        if (counts.counts()[i] == 0) continue;
        out.begin_array().number(log_linear::lowest_of(i)).number(log_linear::highest_of(i));
        out.number(counts.counts()[i]).end_array();
    }
    out.end_array();
}

}  // namespace holdfast::inspect
