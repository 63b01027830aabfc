// SPDX-License-Identifier: Apache-2.0
// listing.hpp - which segments there are: those registered, and those that lie about unregistered.
#pragma once

#include <string>
#include <vector>

namespace holdfast::inspect {

/// URIs of the registered segments, and of memory in /dev/shm and of System V that begins with a segment's magic.
/// Sorted, each once. Entries of the registry whose segment is gone are left out, and removed from the registry where
/// this user may.
[[nodiscard]] std::vector<std::string> list_segments();

}  // namespace holdfast::inspect
