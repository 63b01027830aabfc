// SPDX-License-Identifier: Apache-2.0
// activity.hpp - what goes on in all segments: how full, how many operations a second, how far behind each reader is.
//
// Looks only: every segment is mapped read-only, no lease is taken and no reader registered. A look costs an open, a
// mapping and a few lines of memory a segment, and a walk over the counters of a counter set.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/description.hpp"

namespace holdfast::inspect {

/// A reader that says how far it is: of a broadcast or a snapshot a registered one, of a queue the consumer.
struct reader_lag {
    std::uint32_t slot = 0;
    bool alive = false;
    std::uint64_t lag = 0;                      ///< messages, or versions, that it has yet to see
    std::optional<std::uint64_t> bytes{};       ///< broadcast: what it keeps of the ring
    std::optional<std::uint64_t> lost{};        ///< broadcast: messages
    std::optional<std::uint64_t> blocked_ns{};  ///< broadcast: how long it held the writer up
    std::string_view policy{};                  ///< broadcast: block, drop, evict; empty elsewhere
};

struct activity {
    description what;
    /// What its writers did since ever, as the kind counts it: operations of a table, a map or a block store, stores of
    /// an array (of a small table three for each key that comes or goes), messages, versions, samples, the sum of all
    /// counters. A table's are counted from the first look on.
    std::optional<std::uint64_t> operations;
    std::optional<double> per_second;  ///< between this look and the last
    std::vector<reader_lag> readers;
    bool readers_known = true;  ///< false: NAME.peers is not ours to read, or its ring's writer left no quiet moment
    [[nodiscard]] std::uint64_t lag_max() const noexcept;
};

class activity_watch {
 public:
    /// Looks at every segment there is (listing.hpp), in order of their names.
    [[nodiscard]] std::vector<activity> look();
    /// The same of these, in order of their names.
    [[nodiscard]] std::vector<activity> look_at_all(const std::vector<std::string>& names);
    /// Reads the counts that wrap soon (hash tables: 2^24), so that none is missed: ten times a second. Cost: a load a
    /// table.
    void tick();

 private:
    struct watched_segment {
        std::shared_ptr<const segment> at;
        std::optional<std::uint64_t> raw;  // as it was read last
        std::uint64_t total = 0;
        std::optional<std::uint64_t> total_before;  // at the last look
        std::uint64_t looked_ns = 0;
    };
    void count(watched_segment& of, std::uint64_t raw) noexcept;
    void look_at(activity& into, const std::string& name);

    std::map<std::string, watched_segment> segments_;
};

/// `posix`, `file`, `sysv` and the like: where the memory of a name comes from.
[[nodiscard]] std::string memory_kind_of(std::string_view uri);

void append_json(json_out& out, const activity& seen);

}  // namespace holdfast::inspect
