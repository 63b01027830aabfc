// SPDX-License-Identifier: Apache-2.0
// description.hpp - everything that can be known of a segment from outside, whoever wrote it and whatever state it is
// in.
//
// describe() never throws over what it finds: a damaged, foreign or vanished segment is a description with a problem.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/memory/page_policy.hpp"
#include "holdfast/record/schema.hpp"
#include "holdfast/segment.hpp"
#include "inspect/json_out.hpp"
#include "inspect/problem.hpp"

namespace holdfast::inspect {

/// What a container's body says of itself. Which numbers there are depends on the kind.
struct contents {
    std::optional<std::uint64_t> size;      ///< elements: entries, records, counters, messages, values
    std::optional<std::uint64_t> capacity;  ///< of them that fit, where there is a limit
    std::optional<std::uint64_t> version;  ///< snapshot: the current one, broadcast: the last message's number; 0: none
    std::optional<container_kind> payload;    ///< snapshot, broadcast, queue: what it holds; raw = the user's own bytes
    std::optional<std::uint64_t> used_bytes;  ///< block_store, hash_map, queue: of room_bytes, what is taken
    std::optional<std::uint64_t> room_bytes;  ///< block_store, hash_map, queue: what everything may take
    std::optional<std::string> range_end;     ///< sorted_index of ranges: the field with a range's last key
    std::optional<std::uint64_t> writer_slots;  ///< of a container of many writers: how many may write at once
};

/// The file (or System V entry) behind a named segment.
struct backing {
    mode_t mode = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    std::uint64_t allocated_bytes = 0;  ///< pages reserved
};

struct description {
    std::string uri;
    std::optional<inspect::problem> problem;  ///< why the rest is missing or not to be believed
    std::optional<segment_info> info;         ///< absent when not even the header could be read
    std::optional<container_schema> schema;   ///< absent when there is none or it cannot be parsed
    inspect::contents contents;
    std::optional<inspect::backing> backing;
    std::uint64_t epoch = 0;
    owner_identity owner;
    bool owner_alive = false;  ///< the process that wrote itself down is still that process
    lease_state lease = lease_state::none;
    memory::page_report pages;  ///< of this process's mapping; only when asked for
    bool registered = false;
};

struct describe_options {
    bool pages = false;  ///< ask the kernel what pages the mapping got; reads /proc/self/smaps
};

[[nodiscard]] description describe(std::string_view uri, const describe_options& options = {});

/// Whether the process of that pid is the one that wrote the identity: same boot, same start time. For people only.
[[nodiscard]] bool is_running(const owner_identity& owner);

/// `free`, `held`, `unknown` or `none`.
[[nodiscard]] std::string_view lease_name(lease_state state) noexcept;

/// Who writes, for a table's column: the state of the lease, and by whom it is held where one process alone may. Of
/// many writers `many, held` where one lives at least, `many, free` where none does.
[[nodiscard]] std::string writer_text(const description& d);

/// Nanoseconds since the Unix epoch as RFC 3339 text.
[[nodiscard]] std::string time_of(std::uint64_t ns);

/// The description as one JSON object; the shape is that of docs/cli.md, `stat`.
void append_json(json_out& out, const description& what);

}  // namespace holdfast::inspect
