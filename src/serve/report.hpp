// SPDX-License-Identifier: Apache-2.0
// report.hpp - what is known of the server as a whole, from shared memory: for collectors and for the dashboard. Counts
// that name a segment are told to who may know of it (catalog::may_name).
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/metrics/histogram_counts.hpp"
#include "inspect/description.hpp"
#include "serve/catalog.hpp"
#include "serve/exposition.hpp"
#include "serve/shared_counts.hpp"

namespace holdfast::serve {

/// What inspect finds of each segment that a client is served. Each costs an open and a mapping, a fifth of a
/// millisecond or so, and of files on a slow disk more: so they are looked at some at a time.
class survey {
 public:
    struct sight {
        inspect::description what;
        std::optional<histogram_counts> recorded{};  // of a latency histogram: what programs recorded in it
    };

    /// Throws: as catalog::list.
    survey(const catalog& segments, viewer who) : uris_(segments.list(who)) {}

    /// Looks at the next ones until `budget` has passed, at one at least. Returns: whether all have been looked at.
    bool go_on(std::chrono::nanoseconds budget);
    /// What the registry still names but is gone is no segment.
    [[nodiscard]] const std::vector<sight>& found() const noexcept { return found_; }

 private:
    void look_at(const std::string& uri);

    std::vector<std::string> uris_;
    std::size_t next_ = 0;
    std::vector<sight> found_;
};

/// All counts, and the gauges of the segments that were looked at, for GET /metrics.
[[nodiscard]] std::string render_metrics(const shared_counts& counts, const catalog& segments, const survey& seen,
                                         exposition_format format, viewer who);

/// {"segments": [...]}, for GET /v1/segments: what inspect knows of each.
[[nodiscard]] std::string render_segments(const survey& seen);

/// Counts, latency buckets and workers as JSON, for GET /v1/stats. Counts only grow: whoever wants rates subtracts.
[[nodiscard]] std::string render_stats(const shared_counts& counts, const catalog& segments, viewer who);

}  // namespace holdfast::serve
