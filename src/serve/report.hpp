// SPDX-License-Identifier: Apache-2.0
// report.hpp - what is known of the server as a whole, from shared memory: for collectors and for the dashboard. Counts
// that name a segment are told to who may know of it (catalog::may_name).
#pragma once

#include <string>

#include "serve/catalog.hpp"
#include "serve/exposition.hpp"
#include "serve/shared_counts.hpp"

namespace holdfast::serve {

/// All counts, and the gauges of the segments that this client is served, for GET /metrics.
[[nodiscard]] std::string render_metrics(const shared_counts& counts, const catalog& segments, exposition_format format,
                                         viewer who);

/// {"segments": [...]}, for GET /v1/segments: what inspect knows of each.
[[nodiscard]] std::string render_segments(const catalog& segments, viewer who);

/// Counts, latency buckets and workers as JSON, for GET /v1/stats. Counts only grow: whoever wants rates subtracts.
[[nodiscard]] std::string render_stats(const shared_counts& counts, const catalog& segments, viewer who);

}  // namespace holdfast::serve
