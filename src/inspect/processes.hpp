// SPDX-License-Identifier: Apache-2.0
// processes.hpp - which processes use a segment: the lease and reader locks, which are certain, and what /proc shows,
// which is best effort (other users' processes are hidden from all but root).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/segment/writer_slot.hpp"
#include "inspect/description.hpp"

namespace holdfast::inspect {

/// A process that has the segment or a companion of it mapped or open.
struct attached_process {
    pid_t pid = 0;
    std::string command;       ///< printable
    bool maps_data = false;    ///< the data is mapped, at least for reading
    bool writes_data = false;  ///< the data is mapped for writing
    bool opens_lease = false;  ///< the lease file is open: it writes, or waits to
    bool maps_peers = false;   ///< a registered reader, or a writer that watches them
};

/// Who uses a segment.
struct usage {
    std::string uri;
    lease_state lease = lease_state::none;
    owner_identity owner;  ///< who took the lease last, as it wrote itself down
    bool owner_alive = false;
    std::string owner_command;           ///< of the living owner; printable
    std::vector<std::uint32_t> readers;  ///< slots of NAME.peers whose holder lives
    std::uint32_t reader_slots = 0;
    std::vector<writer_slot_holder> writers;  ///< of a container of many: slots whose holder lives
    std::uint32_t writer_slots = 0;
    std::vector<attached_process> processes;  ///< by pid; this process is left out
};

/// Throws: not_found, invalid_name and others when there is no such memory at all. A damaged segment still has users.
/// `with_processes`: /proc is looked through, which costs an open and more for each process that there is.
[[nodiscard]] usage usage_of(std::string_view uri, bool with_processes = true);

void append_json(json_out& out, const usage& who);

}  // namespace holdfast::inspect
