// SPDX-License-Identifier: Apache-2.0
// clock.hpp - the clock by which entries expire: seconds that do not go back across reboots, suspends and processes.
//
// now = max(last, CLOCK_BOOTTIME + base). Jumps of the wall clock mean nothing; suspended time counts. The writer
// stores `last` when its second changes, and when it takes over base = max(base, last - CLOCK_BOOTTIME): after a
// reboot, where BOOTTIME begins at 0, time goes on from where it stood; if the machine has been up for longer than the
// map remembers, so much time has passed at least.
// A process in another time namespace (zone), where BOOTTIME is shifted, takes `last` alone; a writer there moves base
// and zone, to begin from `last`: time goes back then by what passed since a writer last stored it, the one exception.
// A process that cannot tell its zone (no /proc) is taken to be in the writer's. Only what has an expiry asks for the
// time. An end is a whole second: what begins within one and is to live for n lives until n more have passed behind it,
// so for less than a second longer, and never for less.
//
// Word of the zone: its low half is the zone, which the kernel numbers with 32 bits; its high half counts how often
// base began to change and had changed, odd = base is nobody's.
// (I1) Base changes only while the count is odd, and the count never comes back (but after 2^31 take-overs during one
//      look): a base between two looks at one and the same word with an even count is that zone's.
// Killed after the odd count, or after base: nobody's, so all take `last` alone, and the next writer begins from it.
//
// Any words may be met here: they can only make entries expire early or late.
#pragma once

#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "holdfast/hash_map/view.hpp"

namespace holdfast {

/// Where a map takes its time from; tests give their own.
struct hash_map_clock {
    std::uint64_t (*boot_seconds)() noexcept = nullptr;  ///< nullptr: CLOCK_BOOTTIME
    std::uint64_t (*zone)() noexcept = nullptr;          ///< below 2^32; nullptr: that of this process's time namespace
};

namespace detail {

/// Whole seconds, and 1 if the next one has begun, or may have; 0 by a clock that is at its beginning.
struct map_moment {
    std::uint64_t seconds = 0;
    std::uint64_t begun = 0;

    /// The second at which `more` have passed for certain.
    [[nodiscard]] constexpr std::uint64_t end_after(std::uint64_t more) const noexcept {
        const std::uint64_t from = seconds + begun;
        return more < ~from ? from + more : ~std::uint64_t{0};
    }
    /// How many whole ones there are until then; 1 where there is less. Requires: seconds < end.
    [[nodiscard]] constexpr std::uint64_t left_until(std::uint64_t end) const noexcept {
        return std::max<std::uint64_t>(end - seconds - begun, 1);
    }
};

[[nodiscard]] inline map_moment boot_moment_of(const hash_map_clock& clock) noexcept {
    if (clock.boot_seconds != nullptr) return {clock.boot_seconds(), 0};
    struct timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return {static_cast<std::uint64_t>(now.tv_sec), now.tv_nsec != 0 ? 1U : 0U};
}
[[nodiscard]] inline std::uint64_t boot_seconds_of(const hash_map_clock& clock) noexcept {
    return boot_moment_of(clock).seconds;
}

/// 0 where the kernel has no time namespaces or does not tell: all are taken for one.
[[nodiscard]] inline std::uint64_t zone_of(const hash_map_clock& clock) noexcept {
    if (clock.zone != nullptr) return clock.zone();
    struct stat about{};
    return ::stat("/proc/self/ns/time", &about) == 0 ? static_cast<std::uint64_t>(about.st_ino) : 0;
}

/// Tells the time of a map. Copies are free.
class map_time {
 public:
    map_time() = default;
    /// Cost: a system call.
    explicit map_time(const hash_map_clock& clock) noexcept : clock_(clock), zone_(zone_in(zone_of(clock))) {}

    template <class Byte>
    [[nodiscard]] map_moment now(const map_view<Byte>& view) const noexcept {
        const auto word = [&](std::size_t offset) {
            // R2, pairs with W2 in take_over(): with a zone comes its base, or a later one; with a base its odd count,
            // or a later word, so that the second look at the zone finds another than the first (I1).
            return load_acquire<std::uint64_t>(view.control(offset));
        };
        const std::uint64_t zone = word(layout::map_clock_zone_offset);
        const std::uint64_t base = word(layout::map_clock_base_offset);
        const std::uint64_t last = word(layout::map_clock_last_offset);
        map_moment here = boot_moment_of(clock_);
        here.seconds += base;
        const bool counts = is_own(zone) && word(layout::map_clock_zone_offset) == zone;
        // `last` was noted somewhere within its second, if that clock runs as this one does.
        if (!counts || is_earlier(here.seconds, last)) here.seconds = last;
        return here;
    }

    /// Writer: sets base and zone, so that time goes on from `last`.
    void take_over(const map_view<std::byte>& view) const noexcept {
        // Relaxed, all three: nobody else stores to them.
        const auto zone = load_relaxed<std::uint64_t>(view.control(layout::map_clock_zone_offset));
        const auto base = load_relaxed<std::uint64_t>(view.control(layout::map_clock_base_offset));
        const auto last = load_relaxed<std::uint64_t>(view.control(layout::map_clock_last_offset));
        const std::uint64_t boot = boot_seconds_of(clock_);
        const std::uint64_t next = is_own(zone) && !is_earlier(boot + base, last) ? base : last - boot;
        const std::uint64_t own = zone_ == 0 && is_own(zone) ? zone_in(zone) : zone_;
        std::uint64_t count = zone >> 32;
        // W2, pairs with R2: odd count, base, even count. Weaker would let a reader add another's base.
        if (!is_settled(zone) || next != base) {
            count |= 1;
            store_release<std::uint64_t>(view.control(layout::map_clock_zone_offset), count << 32);
            store_release<std::uint64_t>(view.control(layout::map_clock_base_offset), next);
            ++count;
        }
        if ((count << 32 | own) != zone)
            store_release<std::uint64_t>(view.control(layout::map_clock_zone_offset), count << 32 | own);
    }

    /// Writer: the time, noted for those who come later.
    [[nodiscard]] map_moment tick(const map_view<std::byte>& view) const noexcept {
        const map_moment noted = now(view);
        const std::uint64_t at = noted.seconds;
        // Relaxed load: nobody else stores to it. Release only as all words are: any time that was noted will do.
        if (load_relaxed<std::uint64_t>(view.control(layout::map_clock_last_offset)) != at)
            store_release<std::uint64_t>(view.control(layout::map_clock_last_offset), at);
        return noted;
    }

 private:
    // Of a word of the zone.
    [[nodiscard]] static constexpr std::uint64_t zone_in(std::uint64_t word) noexcept {
        return static_cast<std::uint32_t>(word);
    }
    [[nodiscard]] static constexpr bool is_settled(std::uint64_t word) noexcept { return (word >> 32) % 2 == 0; }
    // Whether base is that of this process's zone. 0 is one that could not be told.
    [[nodiscard]] constexpr bool is_own(std::uint64_t word) const noexcept {
        return is_settled(word) && (zone_in(word) == zone_ || zone_in(word) == 0 || zone_ == 0);
    }
    // base may be "negative", so times are compared by their difference.
    [[nodiscard]] static constexpr bool is_earlier(std::uint64_t a, std::uint64_t b) noexcept {
        return static_cast<std::int64_t>(a - b) < 0;
    }

    hash_map_clock clock_;
    std::uint64_t zone_ = 0;
};

/// Whether an entry's time is over.
[[nodiscard]] constexpr bool is_over(std::uint64_t expires, std::uint64_t now) noexcept {
    return expires != 0 && expires <= now;
}

}  // namespace detail
}  // namespace holdfast
