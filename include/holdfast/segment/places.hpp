// SPDX-License-Identifier: Apache-2.0
// places.hpp - where a segment and its companions lie: data, NAME.lease (who may write), NAME.peers (what readers
// write).
#pragma once

#include <string>

#include "holdfast/memory/uri.hpp"

namespace holdfast::detail {

/// Paths of a named segment. System V data has no path of its own.
struct places {
    std::string directory;  ///< of the companions, and of the data unless System V
    std::string data_name;  ///< empty for System V
    std::string lease_name;
    std::string peers_name;

    [[nodiscard]] std::string data() const { return directory + "/" + data_name; }
    [[nodiscard]] std::string lease() const { return directory + "/" + lease_name; }
    [[nodiscard]] std::string peers() const { return directory + "/" + peers_name; }
    /// What is about to take the place of the data (segment/successor.hpp). Never of System V.
    [[nodiscard]] std::string growing_name() const { return data_name + std::string(memory::detail::growing_suffix); }
    [[nodiscard]] std::string growing() const { return directory + "/" + growing_name(); }
};

/// Where System V companions lie. Containers that share System V memory (one IPC namespace) share /dev/shm too, but
/// each has a /run/lock of its own: there would be two leases for one segment.
inline constexpr const char* system_v_companions = "/dev/shm";

[[nodiscard]] inline places places_of(const memory::uri& name) {
    places where;
    std::string stem;
    if (name.is_path()) {
        where.directory = name.directory();
        where.data_name = stem = name.file_name();
    } else {
        where.directory = system_v_companions;
        stem = "holdfast.sysv." + name.name;
    }
    where.lease_name = stem + std::string(memory::detail::lease_suffix);
    where.peers_name = stem + std::string(memory::detail::peers_suffix);
    return where;
}

}  // namespace holdfast::detail
