// SPDX-License-Identifier: Apache-2.0
// processors.hpp - where the threads of an experiment go that takes as many cores as there are.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace holdfast::workload {

struct processor {
    unsigned cpu = 0;
    unsigned node = 0;         ///< of memory; 0 where the system does not tell
    bool shares_core = false;  ///< with one of a lower number that may be used, too
    friend bool operator==(const processor&, const processor&) = default;
};

/// The processors that share a core with this one, itself among them; none where the system does not tell. `folder`:
/// where it tells.
[[nodiscard]] std::vector<unsigned> core_siblings(unsigned cpu,
                                                  const std::filesystem::path& folder = "/sys/devices/system/cpu");

/// Those of `usable`, ascending, in the order in which they are taken: one of each core, node by node, and only then
/// those that share a core, node by node. So a part of them is of as few nodes as can be. `folder` tells what shares
/// what: tests bring their own.
[[nodiscard]] std::vector<processor> placed_processors(std::span<const unsigned> usable,
                                                       const std::filesystem::path& folder);
/// The same of all that the calling thread may use.
[[nodiscard]] std::vector<processor> placed_processors();

/// The first of them that have a core each.
[[nodiscard]] std::vector<processor> with_a_core_each(std::span<const processor> placed);

/// "3 cores of node 0, 1 of node 1".
[[nodiscard]] std::string nodes_text(std::span<const processor> cores);

}  // namespace holdfast::workload
