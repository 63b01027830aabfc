// SPDX-License-Identifier: Apache-2.0
// long_copy.hpp - long copies into a ring that another core reads: through the caches, or past them.
//
// A line that the other core has read has to be fetched back before it can be stored to, a few lines at a time; a store
// past the caches (non-temporal) needs no line. Where the cores lie far apart that takes a quarter of the time or less,
// where they share a cache up to three times as long, and which it is changes while a program runs: the scheduler moves
// it. So the way is chosen by what copies took (docs/design/0014-queue.md has the figures).
//
// (I1) Stores past the caches may become visible behind later ones: fence() comes before what publishes them. They pass
//      no earlier load and no earlier locked instruction. It orders the calling thread's own copies: who hands a
//      transaction that is open to another thread does so by a locked instruction, as any mutex is.
// (I2) A process that dies leaves none of them on their way: the kernel has executed locked instructions before it lets
//      go of the process's locks.
// (I3) Some 1/256 of the bytes go the other way, so being wrong about it costs a few hundredths.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "holdfast/detail/shared_copy.hpp"

namespace holdfast::detail {

enum class copy_way : std::uint8_t { through_caches, past_caches };

/// Chooses between the two ways by what copies took: now and then, in a trial, some are timed, first by the way in use,
/// then by the other. No clock of its own, so the caller's may be of any unit.
class way_chooser {
 public:
    [[nodiscard]] copy_way way() const noexcept { return way_; }

    /// A copy of so many bytes comes next. Returns: whether it is to be timed.
    [[nodiscard]] bool take(std::size_t bytes) noexcept {
        if (bytes <= rest_bytes_) [[likely]] {
            rest_bytes_ -= bytes;
            return false;
        }
        return take_in_trial(bytes);
    }
    /// What a timed copy took.
    void add(std::size_t bytes, std::uint64_t ticks) noexcept {
        cost& taken = taken_[index(way_)];
        taken.bytes += static_cast<double>(bytes);
        taken.ticks += static_cast<double>(static_cast<std::int64_t>(ticks));  // a clock that went back: less than none
    }
    /// Whether copies were timed by this way, and enough of them.
    [[nodiscard]] bool has_some() const noexcept { return taken_[index(way_)].bytes > 0; }
    [[nodiscard]] bool has_enough() const noexcept { return taken_[index(way_)].bytes >= trial_bytes; }
    /// Nothing of the copies is on its way any more: the next may go the other way. Requires: has_enough().
    void end_half() noexcept {
        if (way_ == favoured_)
            way_ = other(way_);
        else
            judge();
    }
    /// From here on this way, untimed.
    void keep_to(copy_way way) noexcept {
        *this = {};
        favoured_ = way_ = way;
        rest_bytes_ = ~std::uint64_t{0};
    }

    static constexpr double trial_bytes = 65536;  ///< timed of each way, at least
    static constexpr double rest = 256;           ///< times as many bytes as were timed are not
    /// How much less time the way past the caches must take: the reader, whose time is not seen, pays for lines that
    /// come from memory.
    static constexpr double advantage = 1.5;
    static constexpr unsigned verdicts = 3;  ///< one after another until the other way is taken
    static constexpr std::uint64_t first_trial_after = std::uint64_t{1} << 20;
    static constexpr std::uint64_t passed_bytes_max = std::uint64_t{4} << 20;  ///< in a trial, untimed: it is given up

 private:
    struct cost {
        double bytes = 0;
        double ticks = 0;
    };
    [[nodiscard]] static constexpr copy_way other(copy_way way) noexcept {
        return way == copy_way::through_caches ? copy_way::past_caches : copy_way::through_caches;
    }
    [[nodiscard]] static constexpr std::size_t index(copy_way way) noexcept { return static_cast<std::size_t>(way); }

    /// Copies of like size are compared, the trial's first within a factor of two: a long one takes less time a byte.
    [[nodiscard]] bool take_in_trial(std::size_t bytes) noexcept {
        if (size_ == 0) {
            size_ = bytes;
            rest_bytes_ = 0;
        }
        if (bytes / 2 <= size_ && size_ / 2 <= bytes) return true;
        passed_bytes_ += bytes;
        if (passed_bytes_ > passed_bytes_max) rest_for(passed_bytes_max);
        return false;
    }
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
        rest_for(static_cast<std::uint64_t>((through.bytes + past.bytes) / 2 * rest));
    }
    void rest_for(std::uint64_t bytes) noexcept {
        way_ = favoured_;
        rest_bytes_ = bytes;
        size_ = passed_bytes_ = 0;
        taken_ = {};
    }

    std::uint64_t rest_bytes_ = first_trial_after;  // until the next trial
    std::array<cost, 2> taken_{};
    std::uint64_t size_ = 0;          // of the trial's first copy
    std::uint64_t passed_bytes_ = 0;  // in the trial, of other sizes
    unsigned against_ = 0;            // verdicts against the favoured way, one after another
    copy_way favoured_ = copy_way::through_caches;
    copy_way way_ = copy_way::through_caches;
};

/// Copies private bytes to shared ones, as copy_to_shared() does.
class long_copier {
 public:
    static constexpr std::size_t least_bytes = 512;  ///< shorter ones are better off without

    long_copier() = default;
    /// `fences_follow`: a full fence follows each publication.
    explicit long_copier(bool fences_follow) noexcept : fences_follow_(fences_follow) {}

    /// Requires: fence() before the copy is published, and before its bytes are given up to another thread.
    [[gnu::noinline]] void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
        if (!chooser_.take(bytes)) [[likely]]
            return copy_by_way(to, from, bytes);
        // One after the other: what the last one left to be done is the next one's to wait for.
        const std::uint64_t begun = chooser_.has_some() ? processor_ticks() : processor_ticks_behind_stores();
        copy_by_way(to, from, bytes);
        chooser_.add(bytes, processor_ticks() - begun);
        open_ = true;
    }
    /// Orders the copies made so far before stores to come. Cost: nothing unless one went past the caches.
    void fence() noexcept {
        if (open_) [[unlikely]]
            fence_copies();
    }

    /// Leaves choosing the way. Requires: fence() after the last copy.
    void keep_to(copy_way way) noexcept { chooser_.keep_to(way); }

 private:
    void copy_by_way(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
        if (chooser_.way() == copy_way::through_caches) return copy_to_shared(to, from, bytes);
        copy_past_caches(to, from, bytes);
        went_past_ = open_ = true;
    }
    [[gnu::noinline]] void fence_copies() noexcept {
        const bool ends = chooser_.has_enough();
        // What the copies left to be done behind them counts: the next copy, or a fence that follows, waits for it.
        const bool counts = ends || (chooser_.has_some() && fences_follow_);
        const std::uint64_t begun = counts ? processor_ticks() : 0;
        // Not by the way in force: a copy of this transaction may have given a trial up.
        if (went_past_) fence_past_caches();
        went_past_ = open_ = false;
        if (counts) chooser_.add(0, processor_ticks_behind_stores() - begun);
        if (ends) chooser_.end_half();
    }

    way_chooser chooser_;
    bool fences_follow_ = false;
    bool open_ = false;       // a copy since the last fence() was timed or went past the caches
    bool went_past_ = false;  // and went past them
};

}  // namespace holdfast::detail
