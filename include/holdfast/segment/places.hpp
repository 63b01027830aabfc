// SPDX-License-Identifier: Apache-2.0
// places.hpp - where a segment and its companions lie: data, NAME.lease (who may write), NAME.peers (what readers
// write).
#pragma once

#include <sys/stat.h>

#include <string>

#include "holdfast/memory/uri.hpp"

namespace holdfast::detail {

/// Paths of a named segment. System V data has no path; its companions lie in the system's lock directory.
struct places {
    std::string directory;  ///< of the companions, and of the data unless System V
    std::string data_name;  ///< empty for System V
    std::string lease_name;
    std::string peers_name;

    [[nodiscard]] std::string data() const { return directory + "/" + data_name; }
    [[nodiscard]] std::string lease() const { return directory + "/" + lease_name; }
    [[nodiscard]] std::string peers() const { return directory + "/" + peers_name; }
};

/// The lock directory of the system: /run/lock by the Filesystem Hierarchy Standard, 5.9; minimal containers may lack
/// it.
[[nodiscard]] inline std::string lock_directory() {
    struct stat status{};
    return ::stat("/run/lock", &status) == 0 && S_ISDIR(status.st_mode) ? "/run/lock" : "/dev/shm";
}

[[nodiscard]] inline places places_of(const memory::uri& name) {
    places where;
    std::string stem;
    if (name.is_path()) {
        where.directory = name.directory();
        where.data_name = stem = name.file_name();
    } else {
        where.directory = lock_directory();
        stem = "holdfast.sysv." + name.name;
    }
    where.lease_name = stem + std::string(memory::detail::lease_suffix);
    where.peers_name = stem + std::string(memory::detail::peers_suffix);
    return where;
}

}  // namespace holdfast::detail
