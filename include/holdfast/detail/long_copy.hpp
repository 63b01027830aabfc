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
    /// Copies, timed ones among them, are about to be published, which took so long: the next may go the other way.
    void settle(std::uint64_t ticks) noexcept {
        add(0, ticks);
        if (taken_[index(way_)].bytes < trial_bytes) return;
        if (way_ == favoured_)
            way_ = other(way_);
        else
            judge();
    }

    static constexpr double trial_bytes = 32768;  ///< timed of each way, at least
    static constexpr double rest = 256;           ///< times as many bytes as were timed are not
    static constexpr unsigned verdicts = 3;       ///< one after another until the other way is taken
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

    /// Both ways were timed. The other has to be better by a tenth, and so three times: an interrupt may have fallen
    /// into either.
    void judge() noexcept {
        const cost& tried = taken_[index(way_)];
        const cost& used = taken_[index(favoured_)];
        against_ = tried.ticks * used.bytes * 1.1 < used.ticks * tried.bytes ? against_ + 1 : 0;
        if (against_ == verdicts) {
            favoured_ = way_;
            against_ = 0;
        }
        way_ = favoured_;
        untimed_bytes_ = static_cast<std::uint64_t>((tried.bytes + used.bytes) / 2 * rest);
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
        const std::uint64_t begun = processor_ticks();
        copy_by_way(to, from, bytes);
        chooser_.add(bytes, processor_ticks() - begun);
        timed_ = unsettled_ = true;
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
        if (timed_) {
            // With what the stores take that are still on their way: past the caches that is most of it.
            const std::uint64_t begun = processor_ticks();
            chooser_.settle(processor_ticks_behind_stores() - begun);
        }
        timed_ = unsettled_ = false;
    }

    way_chooser chooser_;
    bool timed_ = false;      // one of the copies since the last settle()
    bool unsettled_ = false;  // a copy since then was timed or went past the caches
};

}  // namespace holdfast::detail
