// SPDX-License-Identifier: Apache-2.0
// writer_slot.hpp - the slot of one of many writers of a container: an exclusive lock on byte 1 + slot of the segment's
// lease file.
//
// The lock is the description's that the segment has opened for itself: nobody shares it but forked children, which do
// not use it. Closing is the only release of a writer's own slot. That of a dead one, taken to finish what it left, is
// unlocked again. Threads: one object is used by one thread at a time. Crash: the kernel frees every lock.
#pragma once

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "holdfast/error.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// Who holds a writer slot, as it wrote itself down. For people and logs: nothing is decided by it.
struct writer_slot_holder {
    std::uint32_t slot = 0;
    std::uint64_t pid = 0;  ///< in its own pid namespace
};

namespace detail {

/// How a writer learns who of the others lives (hash_table/many_mutate.hpp, block_store/many_write.hpp).
class writer_slot_locks {
 public:
    // Some microseconds: an operation takes a tenth of one, so the owner has been interrupted, stopped or killed.
    static constexpr unsigned looks = 64;

    writer_slot_locks() = default;
    writer_slot_locks(int lease, std::uint64_t patience_ns) noexcept : lease_(lease), patience_ns_(patience_ns) {}

    [[nodiscard]] bool take(std::uint32_t slot) const noexcept {
        return lease_ >= 0 && memory::try_lock(lease_, memory::lock_mode::exclusive, writer_slot_byte(slot));
    }
    void give_back(std::uint32_t slot) const noexcept { memory::unlock(lease_, writer_slot_byte(slot)); }

    /// Sleeps, 50 us at first and 1 ms at most. Returns: false once the patience since turn 0 is over.
    [[nodiscard]] bool wait(std::uint32_t turn) noexcept {
        const std::uint64_t now = monotonic_ns();
        if (turn == 0) began_ns_ = now;
        if (now - began_ns_ >= patience_ns_) return false;
        const struct timespec pause{0, turn < 4 ? 50'000L << turn : 1'000'000L};
        ::nanosleep(&pause, nullptr);
        return true;
    }
    void set_patience(std::uint64_t ns) noexcept { patience_ns_ = ns; }
    /// Of this process, for people.
    [[nodiscard]] static std::uint64_t pid() noexcept { return static_cast<std::uint64_t>(::getpid()); }

 private:
    int lease_ = -1;
    std::uint64_t patience_ns_ = 0;
    std::uint64_t began_ns_ = 0;
};

/// Locks a free slot of `slots`; waits for one as long as `timeout_ns` says. Throws: writer_alive.
[[nodiscard]] inline std::uint32_t claim_writer_slot(const segment& s, std::uint32_t slots, std::uint64_t timeout_ns) {
    const int lease = s.lease_descriptor();
    if (lease < 0) return 0;  // heap: one process, and one handle in it
    // Others lock a dead writer's slot for the microseconds that its repair takes.
    constexpr std::uint64_t repair_ns = 10'000'000;
    const std::uint64_t began = monotonic_ns();
    for (;;) {
        for (std::uint32_t slot = 0; slot < slots; ++slot) {
            if (memory::try_lock(lease, memory::lock_mode::exclusive, writer_slot_byte(slot))) return slot;
            if (errno != EAGAIN) memory::throw_errno(errno, s.uri(), "locking a writer slot");
        }
        if (monotonic_ns() - began >= (timeout_ns > repair_ns ? timeout_ns : repair_ns))
            throw error(errc::writer_alive, s.uri(),
                        "all " + std::to_string(slots) +
                            " writer slots are taken by living processes; end one, attach read-only, or make it "
                            "anew with more writer_slots");
        const struct timespec pause{0, 200'000};
        ::nanosleep(&pause, nullptr);
    }
}

}  // namespace detail
}  // namespace holdfast
