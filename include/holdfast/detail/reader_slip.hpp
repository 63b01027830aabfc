// SPDX-License-Identifier: Apache-2.0
// reader_slip.hpp - keeps a reader that takes whole lots from following its writer too closely.
//
// A reader as fast as its writer finds each lot when it has just been stored. Both then fight for the line that says
// so, once a lot, and for lines that the other's cache still has; a reader that has fallen behind a little takes many
// lots by one look, and neither waits. Neither state ends by itself. So a reader that has taken whole lots, and finds
// none, looks again three microseconds later at the earliest.
//
// It does so for streams alone. Who wants one message at a time, or never finds a whole lot waiting, never waits; and
// where a wait has brought few lots, as of answers to questions and of lots that come now and then, the reader leaves
// it for a while. In a small ring, which lies in both caches anyway, it would keep the writer waiting for room, or be
// lapped. docs/design/0014-queue.md has the figures.
//
// Source: temporal slipping: Giacomoni, Moseley, Vachharajani, FastForward, PPoPP 2008, doi:10.1145/1345206.1345215.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/detail/words.hpp"

namespace holdfast::detail {

class reader_slip {
 public:
    reader_slip() = default;
    /// Of a ring of so many bytes.
    explicit reader_slip(std::uint64_t ring_bytes) noexcept : ring_is_large_(ring_bytes >= ring_bytes_min) {}

    /// To be called before a look at what the writer stores to, where nothing is left of the look before.
    void before_look(std::uint64_t wanted) noexcept {
        if (due_ && wanted > 1) [[unlikely]]
            wait();
    }
    /// What a look found, of how many it could have taken: a whole lot is that many, and lot_max where those are more.
    void found(std::uint64_t there, std::uint64_t wanted) noexcept {
        if (wanted <= 1) return;
        if (const std::uint64_t lots = there / std::min(wanted, lot_max); lots != 0)
            lots_ += lots;
        else if (lots_ != 0)
            caught_up();
    }
    /// The writer was a lap ahead.
    void lapped() noexcept {
        waited_ = due_ = false;
        rests_ = rest_ = rest_max;
    }
    /// Whether the next look is held back.
    [[nodiscard]] bool due() const noexcept { return due_; }

    static constexpr std::uint64_t ring_bytes_min = 256U << 10U;
    static constexpr std::uint64_t lot_max = 64;
    static constexpr std::uint64_t ticks = 8192;  ///< of the processor's clock: two to four microseconds
    static constexpr unsigned pauses_max = 256;   ///< where a pause takes longer, or there is no clock
    static constexpr std::uint64_t lots_few = 4;  ///< fewer whole lots behind a wait: it was of no use
    static constexpr unsigned rest_min = 16;      ///< times that the writer is caught up with and not waited for
    static constexpr unsigned rest_max = 1024;

 private:
    [[gnu::noinline]] void caught_up() noexcept {
        const std::uint64_t lots = std::exchange(lots_, 0);
        if (!ring_is_large_) return;
        if (rests_ != 0) {
            --rests_;
            return;
        }
        if (waited_ && lots < lots_few) {
            waited_ = false;
            rests_ = rest_;
            rest_ = std::min(2 * rest_, rest_max);
            return;
        }
        if (waited_) rest_ = rest_min;
        waited_ = due_ = true;
        caught_up_ticks_ = processor_ticks();
    }
    // What the reader has done since it caught up, as looking elsewhere, counts.
    [[gnu::noinline]] void wait() noexcept {
        due_ = false;
        for (unsigned i = 0; i < pauses_max && processor_ticks() - caught_up_ticks_ < ticks; ++i) pause();
    }

    std::uint64_t lots_ = 0;  // whole ones, one after the other
    std::uint64_t caught_up_ticks_ = 0;
    unsigned rests_ = 0;  // to come
    unsigned rest_ = rest_min;
    bool ring_is_large_ = false;
    bool due_ = false;
    bool waited_ = false;  // before those lots
};

}  // namespace holdfast::detail
