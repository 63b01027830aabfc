// SPDX-License-Identifier: Apache-2.0
// saver.hpp - any segment's contents into a file, while its writer works, and a segment made of such a file.
//
// What is saved: of an array every element, neighbours of 4 KiB as they were at one moment (what that makes of a small
// table is put right by restore, small_table_places.hpp); of a hash table every entry that was there from the beginning
// of the save to its end, whole, and whatever else the scan met (hash_table/scan.hpp); of a snapshot the current
// object; of a sorted index all of it; of a queue what waits; of a broadcast the newest messages without a gap; of a
// block store every value that stays; of metrics each word as it is; of a segment without a container (raw) each word
// as it is, and whether all of them lay there at one moment.
// (I1) A segment is restored whole or not at all: nothing appears under its name before all of the file was read and
//      every checksum in it was right.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/segment.hpp"
#include "inspect/json_out.hpp"
#include "inspect/saved_file.hpp"

namespace holdfast::inspect {

struct save_report {
    std::string uri;
    container_kind kind = container_kind::raw;
    std::uint64_t items = 0;  ///< entries or records; of a snapshot 1, or 0 where nothing was published; of raw, bytes
    std::uint64_t bytes = 0;  ///< save: of the file; restore: of the segment
    /// False where a raw segment changed while it was saved: its words are of several moments. Containers see to
    /// themselves.
    bool still = true;
};

using save_progress = std::function<void(std::uint64_t items)>;

/// Writes the contents of a segment to `out`. Throws: as segment::attach; corrupt where it is damaged (holdfast verify
/// says where); contended where its writer left no quiet moment; unsupported for a kind that this program does not
/// know; what out throws.
save_report save(std::string_view uri, const saved_writer::sink& out, const save_progress& progress = {});
/// The same of what is attached already: what was checked is what is saved. Throws also not_found where another segment
/// took its name.
save_report save(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                 const save_progress& progress = {});

struct restore_options {
    create_options create{};  ///< of the new segment
    /// Hash table, hash map (its store grows with it), counter set: what to make room for; 0: as before.
    std::uint64_t capacity = 0;
    save_progress progress{};
};

/// Makes a segment of what a file of save holds. Throws: as saved_reader and segment::create (already_exists);
/// no_space for a table with less room than entries; invalid_argument for a capacity that its kind cannot have, or
/// where its kind has none;
/// unsupported for a kind that cannot be restored.
save_report restore(const std::string& file, std::string_view uri, const restore_options& options);

void append_json(json_out& out, const save_report& report);

}  // namespace holdfast::inspect
