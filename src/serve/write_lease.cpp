// SPDX-License-Identifier: Apache-2.0
#include "serve/write_lease.hpp"

#include <cstdint>

#include "inspect/attach.hpp"
#include "serve/processes.hpp"

namespace holdfast::serve {

void refuse_for_holder(const std::string& uri, bool also_unseen) {
    const auto looked_at = inspect::attach_to_look(uri);
    if (looked_at->info().policy == writers::many)
        throw failure{503, uri + ": all of the segment's writer slots are taken by living processes; ask again", 1};
    const std::uint64_t holder = looked_at->owner().pid;
    // Of this server, or of the one that it took over from.
    if (is_worker(holder)) throw failure{503, uri + ": another worker is writing it; ask again", 1};
    if (parent_of(holder) == 0 && !also_unseen) return;
    throw failure{409, uri + ": writer_alive: process " + std::to_string(holder) +
                           " holds the lease of this segment of one writer; let it write, or end it"};
}

}  // namespace holdfast::serve
