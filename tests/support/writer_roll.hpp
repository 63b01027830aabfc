// SPDX-License-Identifier: Apache-2.0
// writer_roll.hpp - which of many writers live, as a test says it and not the kernel: the locks of rigs that step,
// interleave and kill writers over plain bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

namespace holdfast::test {

/// Which process holds the lock of which writer slot; a dead one holds none. Process n has slot n from the beginning.
struct writer_roll {
    static constexpr unsigned processes = 4;
    std::array<bool, processes> alive{};
    std::array<unsigned, processes> held_by{};
    std::function<void()> give_way;  // what a process does that waits

    explicit writer_roll(unsigned living = processes) {
        for (unsigned p = 0; p < processes; ++p) {
            alive[p] = p < living;
            held_by[p] = p;
        }
    }
    [[nodiscard]] bool take(std::uint32_t slot, unsigned process) {
        if (!alive[process]) return true;  // a ghost, whose stores nobody sees
        if (slot >= processes || alive[held_by[slot]]) return false;
        held_by[slot] = process;
        return true;
    }
    // Only what nobody living had is given back: it is the dead one's again, which is nobody's.
    void give_back(std::uint32_t slot) { held_by[slot] = slot; }
    /// Its own slot and any that it has taken to repair are free.
    void die(unsigned process) { alive[process] = false; }
    /// Somebody else has its own slot now, and none that it had taken.
    void come_behind(unsigned process) {
        for (unsigned slot = 0; slot < processes; ++slot)
            if (held_by[slot] == process) held_by[slot] = slot;
        alive[process] = true;
    }
};

/// The locks as that roll has them.
class rolled_locks {
 public:
    static constexpr unsigned looks = 1;

    rolled_locks() = default;
    rolled_locks(writer_roll& roll, unsigned process, std::uint32_t patience = 1'000'000)
        : roll_(&roll), process_(process), patience_(patience) {}
    [[nodiscard]] bool take(std::uint32_t slot) const { return roll_->take(slot, process_); }
    void give_back(std::uint32_t slot) const { roll_->give_back(slot); }
    [[nodiscard]] bool wait(std::uint32_t turn) const {
        if (roll_->give_way) roll_->give_way();
        return turn < patience_ && roll_->alive[process_];
    }
    /// What a process is called in the journals.
    [[nodiscard]] std::uint64_t pid() const { return process_ + 1; }

 private:
    writer_roll* roll_ = nullptr;
    unsigned process_ = 0;
    std::uint32_t patience_ = 0;
};

}  // namespace holdfast::test
