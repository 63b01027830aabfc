// SPDX-License-Identifier: Apache-2.0
// channel_runs.hpp - one experiment of a suite of channels: every kind made, opened, compared byte by byte, then timed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workload/channel_subject.hpp"
#include "workload/run_names.hpp"
#include "workload/suite.hpp"
#include "workload/two_sided.hpp"

namespace holdfast::workload {

enum class channel_loop : std::uint8_t { stream, add_up, echo, publish };

struct channel_plan {
    std::string name;
    channel_loop loop = channel_loop::stream;
    std::size_t message_bytes = 64;
    std::size_t batch = 1;
    std::uint64_t ring_bytes = 256 << 10;
    std::vector<published_figure> published = {};
};

/// What was found of one experiment, kinds in the order in which they ran.
struct channel_findings {
    std::vector<const channel_kind*> kinds;
    two_sided_result timed;
    std::vector<std::uint64_t> lost, sent;  ///< [kind], of channel_loop::publish

    [[nodiscard]] std::size_t place_of(std::string_view name) const;
    /// The kind that is fastest among those that `may` admits, ours left out; nothing when there is none.
    template <class May>
    [[nodiscard]] std::optional<std::size_t> fastest(May&& may) const {
        std::optional<std::size_t> best;
        for (std::size_t i = 0; i < kinds.size(); ++i)
            if (!kinds[i]->name.starts_with("holdfast") && may(*kinds[i]) &&
                (!best || median_of(timed.samples[i]) < median_of(timed.samples[*best])))
                best = i;
        return best;
    }
};

/// Runs the experiments of one suite.
class channel_runs {
 public:
    /// Requires: both outlive this. `suite`: letters, for names in shared memory.
    channel_runs(std::string suite, const std::vector<channel_kind>& kinds, const two_cores& cores, recorder& to)
        : suite_(std::move(suite)), kinds_(kinds), cores_(cores), to_(to) {}

    /// Runs it with `ours` first, and hands it to the recorder. Nothing when the user does not want it.
    /// Throws: std::runtime_error from a subject that is wrong.
    [[nodiscard]] std::optional<channel_findings> run(const channel_plan& plan, std::string_view ours);

 private:
    std::string suite_;
    const std::vector<channel_kind>& kinds_;
    const two_cores cores_;
    recorder& to_;
    std::optional<run_names> names_;  // once something is made
    unsigned made_ = 0;
};

/// "target: WHAT at least N times as fast as the fastest of WHOM, by its median: M times PEER (met)". To choose among
/// peers after they ran can only make the ratio smaller.
[[nodiscard]] std::string best_peer_text(const std::string& what, const channel_findings& found, std::size_t ours,
                                         std::optional<std::size_t> best, double times, const std::string& whom);

/// "target: WHAT in at most 1.2 times a bare line's time: N times ... (missed), M times ... (met)". Ours is the first.
[[nodiscard]] std::string round_trip_text(const std::string& what, const channel_findings& found);

}  // namespace holdfast::workload
