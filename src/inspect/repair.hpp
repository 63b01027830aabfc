// SPDX-License-Identifier: Apache-2.0
// repair.hpp - a sound segment in the place of a damaged one, with all of it that can be proved sound.
//
// A kill never needs it: recovery at attach does that. It is for bytes that others damaged.
// (I1) The damaged segment keeps every byte. In place, it goes on under another name.
// (I2) In place, one exchange of two names is the commit. A kill at any instant leaves under the name the damaged
//      segment or the repaired one, each whole.
// (I3) What takes the place verifies, and lies on the disk where the segment is a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/segment.hpp"
#include "inspect/json_out.hpp"
#include "inspect/salvage_log.hpp"

namespace holdfast::inspect {

struct repair_options {
    attach_options access{};     ///< whose segments, and how long to wait for a writer that is going
    std::string to;              ///< the name of the repaired segment; empty: in place
    bool dry_run = false;        ///< says what would be kept and lost, and makes nothing
    bool keep_doubtful = false;  ///< also what only a checksum that it shares with others speaks against
    salvage_log::sink each{};    ///< is given each note
};

struct repair_report {
    std::string uri;
    std::optional<container_kind> kind;
    bool intact = false;  ///< nothing was damaged and nothing was done
    bool dry_run = false;
    std::string repaired;  ///< the sound segment; empty where none was made
    std::string damaged;   ///< where the damaged one lies now
    bool header_rebuilt = false;
    std::uint64_t kept = 0, lost = 0, doubtful = 0, mended = 0;  ///< items; doubtful and mended are kept, too
    std::vector<salvage_sum> sums;
    std::vector<salvage_note> notes;  ///< the first of them
};

/// Throws: not_found, no_permission, unsafe_file; writer_alive, naming who writes; corrupt where nothing can be proved;
/// unsupported where the memory has no names to exchange (`to` works for all); already_exists for a `to` that is taken;
/// no_space.
[[nodiscard]] repair_report repair(std::string_view uri, const repair_options& options);

void append_json(json_out& out, const repair_report& report);
void append_json(json_out& out, const salvage_note& note);

}  // namespace holdfast::inspect
