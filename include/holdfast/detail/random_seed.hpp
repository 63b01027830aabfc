// SPDX-License-Identifier: Apache-2.0
// random_seed.hpp - what makes a hash differ from table to table, so that nobody can choose keys against it.
#pragma once

#include <sys/random.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "holdfast/error.hpp"

namespace holdfast::detail {

/// Throws: io where the kernel gives no random bytes (an old one, or a filter of system calls).
[[nodiscard]] inline std::uint64_t random_seed(const std::string& subject = "the seed of a hash") {
    std::uint64_t seed = 0;
    // Before the kernel has entropy this blocks, as it should: the seed is the defence against chosen keys.
    for (;;) {
        const ssize_t got = ::getrandom(&seed, sizeof seed, 0);
        if (got == static_cast<ssize_t>(sizeof seed)) return seed;
        if (got < 0 && errno != EINTR)
            throw error(errc::io, subject, "the kernel gave no random bytes for the hash; try again");
    }
}

}  // namespace holdfast::detail
