// SPDX-License-Identifier: Apache-2.0
// sleeping_interleaving.hpp - two processes of which one sleeps until the other has done its part (schedule_rig.hpp):
// what the kernel does about futex words, as a model.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <optional>

#include "hooks/interleaving.hpp"
#include "hooks/sleepers.hpp"

namespace holdfast::test {

/// Who calls the kernel sleeps unless the word has changed, until it is woken or the other process is done or dead; in
/// the latter case locks are free. A sleep from which only the end of the other, alive, could wake is a wake that was
/// lost.
class sleeping_interleaving : public interleaving, futex_listener {
 public:
    /// `waker`: the process that does not sleep.
    explicit sleeping_interleaving(unsigned waker) : waker_(waker), watch_(*this) {}

    void died(unsigned) override { dead_ = true; }

 protected:
    ~sleeping_interleaving() override = default;
    void attach_sleepers() noexcept {
        asleep_ = nullptr;
        slept_out_ = dead_ = false;
    }
    [[nodiscard]] unsigned waker() const noexcept { return waker_; }
    /// Somebody slept until the other was done or dead.
    [[nodiscard]] bool slept_out() const noexcept { return slept_out_; }
    [[nodiscard]] bool lost_a_wake(std::optional<unsigned> dead) const noexcept { return slept_out_ && dead != waker_; }
    /// Called when that is found.
    virtual void sleeps_out() noexcept {}

 private:
    int sleep(const std::uint32_t* word, std::uint32_t seen) noexcept final {
        // The other may go on first; the kernel's look and the sleep are one step, and it knows the last value.
        (void)reinterpret_cast<const std::atomic<std::uint32_t>*>(word)->load(std::memory_order_relaxed);
        {
            const access_unwatched kernels_own;
            if (*word != seen) return EAGAIN;
        }
        for (meet(), asleep_ = word; asleep_ == word; meet()) {
            if (give_way()) continue;
            asleep_ = nullptr;
            slept_out_ = true;
            const access_unwatched kernels_own;
            sleeps_out();
            return ETIMEDOUT;
        }
        return 0;
    }
    void wake(const std::uint32_t* word) noexcept final {
        meet();
        if (asleep_ == word) asleep_ = nullptr;
    }
    bool locks_are_free() const noexcept final { return dead_ || slept_out_; }

    unsigned waker_;
    const std::uint32_t* asleep_ = nullptr;
    bool slept_out_ = false, dead_ = false;
    futex_watch watch_;
};

}  // namespace holdfast::test
