// SPDX-License-Identifier: Apache-2.0
// metrics_reader.hpp - counter sets and latency histograms of whoever owns them, read and written as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "holdfast/metrics/counter_slots.hpp"
#include "holdfast/metrics/histogram_counts.hpp"
#include "holdfast/segment.hpp"
#include "inspect/json_out.hpp"

namespace holdfast::inspect {

/// Takes a counter: family, labels, value.
using counter_sink = std::function<void(std::string_view, std::string_view, std::uint64_t)>;

/// Gives every counter in the order of registration. Throws: kind_, version_, geometry_mismatch.
counter_walk for_each_counter(const segment& from, const counter_sink& sink);

/// Takes a counter likewise. Returns: whether to go on.
using counter_taker = std::function<bool(std::string_view, std::string_view, std::uint64_t)>;

/// Gives the counters in that order until told to stop. Those behind the first free place, which no program finds,
/// count as damaged: the place was taken. Throws: as for_each_counter. Cost: a look also at places that nobody has
/// taken.
counter_walk walk_counters(const segment& from, const counter_taker& take);

/// All that was ever recorded. Throws: kind_, version_, geometry_mismatch.
[[nodiscard]] histogram_counts latencies_of(const segment& from);

/// {"count":..,"sum_ns":..,"quantiles":[{"q":..,"estimate_ns":..,"lower_ns":..,"upper_ns":..,"confidence":..,
/// "bounded":..},...]}.
void append_json(json_out& out, const histogram_counts& counts);
/// "buckets":[[least, greatest, count],...], those that counted anything.
void append_buckets(json_out& out, const histogram_counts& counts);

}  // namespace holdfast::inspect
