// SPDX-License-Identifier: Apache-2.0
// write_lease.hpp - becoming the writer of a segment for one request: how long that waits, and what is said where
// another process holds the lease.
#pragma once

#include <array>
#include <chrono>
#include <string>

#include "holdfast/error.hpp"
#include "holdfast/segment.hpp"
#include "serve/failure.hpp"

namespace holdfast::serve {

/// Says what keeps the segment from us. Returns: only where who took the lease last is no process that can be seen, and
/// so has perhaps just ended, unless `also_unseen`. Throws: failure 409 that names who holds the lease, 503 where that
/// is another worker or where all slots of many writers are taken.
void refuse_for_holder(const std::string& uri, bool also_unseen);

/// Attaches as writer: `attach` is called with how. Throws: failure as above, and what attaching throws.
template <class Attach>
[[nodiscard]] auto attach_to_write(const std::string& uri, Attach&& attach) {
    // Another worker of this server holds it for one request; the kernel takes down a process that held it.
    constexpr std::array<std::chrono::milliseconds, 2> patience{std::chrono::milliseconds(5),
                                                                std::chrono::milliseconds(50)};
    attach_options how;
    for (const auto each : patience) {
        how.lease_timeout = each;
        try {
            return attach(how);
        } catch (const error& e) {
            if (e.reason() != errc::writer_alive) throw;
        }
        refuse_for_holder(uri, each == patience.back());
    }
    throw failure{503, uri + ": its writer has just ended; ask again", 1};
}

}  // namespace holdfast::serve
