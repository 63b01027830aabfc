// SPDX-License-Identifier: Apache-2.0
// sink.hpp - where the writer of a hash map tells its changes.
#pragma once

#include <cstdint>

#include "holdfast/hash_map/read.hpp"

namespace holdfast::detail {

/// One change, told while the entry that it is about still stands.
struct map_told_change {
    std::uint64_t number = 0;  ///< counts the changes of this map, from 1
    entry_change what = entry_change::none;
    std::uint64_t handle = 0;  ///< of the entry that came, or of the one that goes; key and value lie there
};

/// Told of each change once, in order, also across kills of the writer: a successor asks for the last number told.
class map_sink {
 public:
    virtual std::uint64_t last_told() noexcept = 0;
    /// Returns: whether it is told now.
    virtual bool tell(const map_told_change& change, const map_reader_core& reader) noexcept = 0;

 protected:
    ~map_sink() = default;
};

}  // namespace holdfast::detail
