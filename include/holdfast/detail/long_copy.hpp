// SPDX-License-Identifier: Apache-2.0
// long_copy.hpp - long copies into a ring that another core reads: through the caches, or past them.
//
// A line that the other core has read has to be fetched back before it can be stored to, a few lines at a time; a store
// past the caches (non-temporal) needs no line. Where the cores lie far apart that takes a tenth of the time, where
// they share a cache up to three times as long, and which it is changes while a program runs: the scheduler moves it.
// So the way is chosen by what copies took (docs/design/0014-queue.md has the figures).
//
// (I1) Stores past the caches may become visible behind later ones: settle() comes before what publishes them. They
// pass
//      no earlier load and no earlier locked instruction. A process that dies leaves none on their way: the kernel has
//      executed locked instructions before it lets go of the process's locks.
// (I2) Some 1/256 of the bytes go the other way, so being wrong about it costs a few hundredths.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "holdfast/detail/shared_copy.hpp"

namespace holdfast::detail {

enum class copy_way : std::uint8_t { through_caches, past_caches };

/// Chooses between the two ways by what copies took: now and then some are timed, first the way in use, then the other.
/// No clock of its own, so the caller's may be of any unit.
class way_chooser {
 public:
    [[nodiscard]] copy_way way() const noexcept { return way_; }

    /// Whether the copy of so many bytes that comes next is to be timed.
    [[nodiscard]] bool times(std::size_t bytes) noexcept {
        if (untimed_bytes_ < bytes) [[unlikely]]
            return true;
        untimed_bytes_ -= bytes;
        return false;
    }
    /// From here on this way, untimed.
    void keep_to(copy_way way) noexcept {
        *this = {};
        favoured_ = way_ = way;
        untimed_bytes_ = ~std::uint64_t{0};
    }
    /// What a timed copy took.
    void add(std::size_t bytes, std::uint64_t ticks) noexcept {
        cost& taken = taken_[index(way_)];
        taken.bytes += static_cast<double>(bytes);
        taken.ticks += static_cast<double>(static_cast<std::int64_t>(ticks));  // a clock that went back: less than none
    }
    /// Whether enough copies were timed by this way.
    [[nodiscard]] bool has_enough() const noexcept { return taken_[index(way_)].bytes >= trial_bytes; }
    /// Enough copies were timed and are on their way, and it took so long until all of their stores had left the core.
    /// The next copies may go the other way.
    void settle(std::uint64_t ticks) noexcept {
        add(0, ticks);
        if (way_ == favoured_)
            way_ = other(way_);
        else
            judge();
    }

    static constexpr double trial_bytes = 65536;  ///< timed of each way, at least
    static constexpr double rest = 256;           ///< times as many bytes as were timed are not
    /// How much less time the way past the caches must take: the reader, whose time is not seen, pays for lines that
    /// come from memory.
    static constexpr double advantage = 1.5;
    static constexpr unsigned verdicts = 3;  ///< one after another until the other way is taken
    static constexpr std::uint64_t first_trial_after = std::uint64_t{1} << 20;

 private:
    struct cost {
        double bytes = 0;
        double ticks = 0;
    };
    [[nodiscard]] static constexpr copy_way other(copy_way way) noexcept {
        return way == copy_way::through_caches ? copy_way::past_caches : copy_way::through_caches;
    }
    [[nodiscard]] static constexpr std::size_t index(copy_way way) noexcept { return static_cast<std::size_t>(way); }

    /// Both ways were timed. Three times the verdict must be for the other: an interrupt may have fallen into either.
    void judge() noexcept {
        const cost& through = taken_[index(copy_way::through_caches)];
        const cost& past = taken_[index(copy_way::past_caches)];
        const bool past_is_better = past.ticks * through.bytes * advantage < through.ticks * past.bytes;
        const copy_way better = past_is_better ? copy_way::past_caches : copy_way::through_caches;
        against_ = better != favoured_ ? against_ + 1 : 0;
        if (against_ == verdicts) {
            favoured_ = better;
            against_ = 0;
        }
        way_ = favoured_;
        untimed_bytes_ = static_cast<std::uint64_t>((through.bytes + past.bytes) / 2 * rest);
        taken_ = {};
    }

    std::uint64_t untimed_bytes_ = first_trial_after;
    std::array<cost, 2> taken_{};
    unsigned against_ = 0;  // verdicts against the favoured way, one after another
    copy_way favoured_ = copy_way::through_caches;
    copy_way way_ = copy_way::through_caches;
};

/// Copies private bytes to shared ones, as copy_to_shared() does.
class long_copier {
 public:
    static constexpr std::size_t least_bytes = 512;  ///< shorter ones are better off without

    /// Requires: settle() before the copy is published.
    [[gnu::noinline]] void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
        if (!chooser_.times(bytes)) [[likely]]
            return copy_by_way(to, from, bytes);
        const std::uint64_t begun = in_trial_ ? processor_ticks() : processor_ticks_behind_stores();
        copy_by_way(to, from, bytes);
        chooser_.add(bytes, processor_ticks() - begun);
        in_trial_ = unsettled_ = true;
    }
    /// Orders the copies made so far before stores to come. Cost: nothing unless one went past the caches.
    void settle() noexcept {
        if (unsettled_) [[unlikely]]
            settle_copies();
    }

    /// Leaves choosing the way. Requires: no copy that is not settled.
    void keep_to(copy_way way) noexcept { chooser_.keep_to(way); }
    [[nodiscard]] copy_way way() const noexcept { return chooser_.way(); }

 private:
    void copy_by_way(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
        if (chooser_.way() == copy_way::through_caches) return copy_to_shared(to, from, bytes);
        copy_past_caches(to, from, bytes);
        unsettled_ = true;
    }
    [[gnu::noinline]] void settle_copies() noexcept {
        if (chooser_.way() == copy_way::past_caches) fence_past_caches();
        unsettled_ = false;
        if (!in_trial_ || !chooser_.has_enough()) return;
        // What the copies left to be done behind them counts, once: the next copy would have waited for it.
        const std::uint64_t begun = processor_ticks();
        chooser_.settle(processor_ticks_behind_stores() - begun);
        in_trial_ = false;
    }

    way_chooser chooser_;
    bool in_trial_ = false;   // copies are timed one after the other
    bool unsettled_ = false;  // a copy since the last settle() was timed or went past the caches
};

}  // namespace holdfast::detail
