// SPDX-License-Identifier: Apache-2.0
// identity.hpp - who a process is, for people and logs. Nothing is ever decided by it: that is what locks are for.
#pragma once

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "holdfast/error.hpp"
#include "holdfast/layout/segment_header.hpp"
#include "holdfast/memory/space.hpp"

namespace holdfast {

/// Who holds, or last held, the lease of a segment, as it wrote itself down. May be mixed or stale after a crash.
struct owner_identity {
    std::uint64_t pid = 0;
    std::uint64_t start_ticks = 0;  ///< start time of the process in clock ticks since boot
    std::string boot_id;
    std::uint64_t since_ns = 0;  ///< when it took the lease, nanoseconds since the Unix epoch
};

namespace detail {

/// Nanoseconds since the Unix epoch.
[[nodiscard]] inline std::uint64_t now_ns() noexcept {
    struct timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Field 22 of /proc/PID/stat; 0 when it cannot be read. The command name before it may hold spaces and parentheses.
[[nodiscard]] inline std::uint64_t start_ticks_of(const std::string& stat_path) {
    const auto text = memory::detail::read_small_file(stat_path);
    if (!text) return 0;
    std::size_t at = text->rfind(')');
    if (at == std::string::npos) return 0;
    for (int field = 2; field < 22; ++field) {
        at = text->find(' ', at + 1);
        if (at == std::string::npos) return 0;
    }
    return std::strtoull(text->c_str() + at + 1, nullptr, 10);
}

[[nodiscard]] inline owner_identity identify_self() {
    owner_identity self;
    self.pid = static_cast<std::uint64_t>(::getpid());
    self.start_ticks = start_ticks_of("/proc/self/stat");
    self.since_ns = now_ns();
    if (auto boot = memory::detail::read_small_file("/proc/sys/kernel/random/boot_id"))
        self.boot_id = boot->substr(0, 36);
    return self;
}

[[nodiscard]] inline identity_array random_identity(const std::string& subject) {
    identity_array identity{};
    if (::getrandom(identity.data(), identity.size(), 0) != static_cast<ssize_t>(identity.size()))
        throw error(errc::io, subject, "the kernel gave no random bytes; try again");
    return identity;
}

}  // namespace detail
}  // namespace holdfast
