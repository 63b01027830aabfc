// SPDX-License-Identifier: Apache-2.0
#include "inspect/metrics_reader.hpp"

#include <array>

#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/latency_histogram.hpp"

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

}  // namespace holdfast::inspect
