// SPDX-License-Identifier: Apache-2.0
// interleaving.hpp - what two logical processes of one thread do with shared bytes, for the rigs that decide who goes
// on when: schedule_rig.hpp and weak_interleaving.hpp; or three, for trio_rig.hpp.
//
// What a process does must follow from what it was asked and what it read of the image alone: no time, no random
// numbers, no addresses, no kernel's answer that changes. What the two know of each other beside the image, an order of
// calls, a sleeper's mark, is changed and looked at where an operation begins or ends, or next to meet().
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace holdfast::test {

/// Who decides which process goes on.
class scheduler {
 public:
    /// The running process waits: the other goes on. Returns: false when the other is dead or done, and the caller goes
    /// on itself.
    virtual bool give_way() noexcept = 0;
    /// The running process changes or looks at what both know beside the image.
    virtual void meet() noexcept {}

 protected:
    ~scheduler() = default;
};

/// What two processes do, or three, again and again from the same beginning.
class interleaving {
 public:
    static constexpr unsigned operations = 2;  // of each process

    virtual ~interleaving() = default;
    /// The bytes both share.
    [[nodiscard]] virtual std::span<std::byte> image() = 0;
    /// Attaches all processes. The image is as it was when this object was given to the rig.
    virtual void attach() = 0;
    /// Operation number `operation` of a process; what it finds wrong, or nothing.
    virtual std::string run(unsigned process, unsigned operation) = 0;
    /// A process has just died.
    virtual void died(unsigned /*process*/) {}
    /// What comes after process 0 where die_in_front_of() said so: the next writer takes over, with handles of its own,
    /// and does again what was lost. What it finds wrong, or nothing.
    virtual std::string succeed() { return {}; }
    /// When both have come to their end: the next writer, check, operation. What it finds wrong, or nothing.
    virtual std::string judge(std::optional<unsigned> dead) = 0;

    /// From now on process 0 dies in front of its store of this number, counted from 0 over its operations, and
    /// succeed() is done in its place, whatever the other process is in the middle of. Nothing: no longer.
    void die_in_front_of(std::optional<std::uint32_t> store) noexcept { last_store_ = store; }

 protected:
    /// For an operation that waits: scheduler::give_way(). The other runs, which is no pre-emption.
    bool give_way() const noexcept { return scheduler_ != nullptr && scheduler_->give_way(); }
    /// Said where an operation, between its beginning and its end, changes or looks at what the other process knows or
    /// changes beside the image; begun(), ended() and surely() say it themselves.
    void meet() const noexcept {
        if (scheduler_ != nullptr) scheduler_->meet();
    }
    /// How many operations a process has begun and, as the other can know, ended.
    [[nodiscard]] unsigned begun(unsigned process) const noexcept { return meet(), begun_[process]; }
    [[nodiscard]] unsigned ended(unsigned process) const noexcept { return meet(), timeless_ ? 0 : ended_[process]; }
    /// `count` of something that the other process did, as far as it must be seen.
    [[nodiscard]] std::uint64_t surely(std::uint64_t count) const noexcept { return meet(), timeless_ ? 0 : count; }

    /// For an operation that looks at what process 0 does, which makes state i + 1 of state i by operation i: runs
    /// look(), then asks is_state(i) of each state that there was meanwhile and that is no older than one seen before.
    /// Returns: `what` if it was none of them.
    template <class Look, class IsState>
    std::string look_at_writer(Look&& look, IsState&& is_state, const char* what) {
        unsigned state = std::max(oldest_, ended(0));
        look();
        const unsigned newest = std::max(begun(0), state);
        while (state <= newest && !is_state(state)) ++state;
        if (state > newest) return what;
        oldest_ = state;
        return {};
    }

 private:
    friend class schedule_rig;
    friend class trio_rig;
    friend class weak_interleaving;
    scheduler* scheduler_ = nullptr;
    std::array<unsigned, 3> begun_{}, ended_{};
    std::optional<std::uint32_t> last_store_;
    bool timeless_ = false;  // weak memory: what is done need not be seen
    unsigned oldest_ = 0;    // state that a later look may see
};

}  // namespace holdfast::test
