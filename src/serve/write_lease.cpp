// SPDX-License-Identifier: Apache-2.0
#include "serve/write_lease.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "holdfast/memory/descriptor.hpp"
#include "inspect/attach.hpp"

namespace holdfast::serve {

namespace {

/// The parent of a process; 0 where it cannot be told.
long parent_of(std::uint64_t pid) {
    const std::string stat = memory::detail::read_small_file("/proc/" + std::to_string(pid) + "/stat").value_or("");
    const std::size_t name_end = stat.rfind(") ");  // then the state, a space, and the parent
    return name_end == std::string::npos || stat.size() < name_end + 4 ? 0 : std::atol(stat.c_str() + name_end + 4);
}

}  // namespace

void refuse_for_holder(const std::string& uri, bool also_unseen) {
    const auto looked_at = inspect::attach_to_look(uri);
    if (looked_at->info().policy == writers::many)
        throw failure{503, uri + ": all of the segment's writer slots are taken by living processes; ask again", 1};
    const std::uint64_t holder = looked_at->owner().pid;
    const long parent = parent_of(holder);
    if (parent == ::getppid()) throw failure{503, uri + ": another worker is writing it; ask again", 1};
    if (parent == 0 && !also_unseen) return;
    throw failure{409, uri + ": writer_alive: process " + std::to_string(holder) +
                           " holds the lease of this segment of one writer; let it write, or end it"};
}

}  // namespace holdfast::serve
