// SPDX-License-Identifier: Apache-2.0
// broadcast_slots.hpp - registered readers of a broadcast ring: the word that holds the writer up, and how reader and
// writer agree on it without waiting for each other.
//
// Slot 0 of NAME.peers is the board; its lock is the living writer's
//   offset  bytes  field          written by
//        0      4  asleep         1 by registered readers about to sleep, 0 by the writer that wakes them
//       64      4  bell           counted up by registered readers for a writer that sleeps
// Slots 1 to R, 128 bytes each, are the registered readers'; a slot's holder is known by its lock
//   offset  bytes  field          written by
//        0      8  held           position | policy, 0 = not registered; the reader, and the writer that takes it back
//        8      8  patience_ns    the reader, before `held`: how long it may hold the writer up under `evict`
//       16      8  registered_ns  the reader, before `held`: Unix time; tells one registration from the next
//       24      8  sequence       the reader: of the message at `held`; this and the next two are for people
//       32      8  received       the reader: messages it was given
//       40      8  lost           the reader: messages it was told were lost
//
// (I1) Positions are multiples of 8, so the low three bits are free for the policy.
// (I2) Under block and evict the writer stores no horizon h with h - capacity > position while `held` names a position
//      that is still there (horizon - capacity <= position <= tail). Any other word holds nobody up.
// (I3) Both sides change a nonzero `held` by compare-and-swap only: a reader learns that it was evicted when it moves
//      next, and the writer never overtakes a move. The same word may come twice: of a dead reader, and of the one that
//      took over its slot and joined at the same place. So a dead one's is taken back only under the slot's lock.
// (I4) A registration stands if its position is valid for one stride more than the horizon seen behind its store.
//      Synchronisation: the reader stores `held` (W6), then loads the horizon (R5); the writer stores the horizon by
//      one stride at a time (W1), then scans (R4); all four sequentially consistent. Either the scan in front of a
//      raise saw the word, or the reader saw the horizon in front of that raise, and that raise is one stride.
// (I5) Nobody sleeps through a wake: who goes to sleep says so (asleep, blocked), then looks; who has done something
//      (W3, W7) then looks whether somebody sleeps; all sequentially consistent. One that dies asleep costs one wake.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "holdfast/layout/broadcast_read.hpp"

namespace holdfast {

/// What a registered reader does to a writer that would overrun it.
enum class broadcast_policy : std::uint8_t {
    block = 1,  ///< the writer is refused (full) until the reader has read on or died
    drop = 2,   ///< nothing: the reader loses messages, as an unregistered one, and is reported
    evict = 3,  ///< as block, until it has held the writer up for its patience without telling that it has read on
                ///< (broadcast_registration::patience); then unregistered
};

}  // namespace holdfast

namespace holdfast::layout {

struct broadcast_slot {
    std::atomic<std::uint64_t> held;
    std::atomic<std::uint64_t> patience_ns;
    std::atomic<std::uint64_t> registered_ns;
    std::atomic<std::uint64_t> sequence;
    std::atomic<std::uint64_t> received;
    std::atomic<std::uint64_t> lost;
    std::byte padding[80];
};
static_assert(sizeof(broadcast_slot) == 128 && offsetof(broadcast_slot, patience_ns) == 8 &&
              offsetof(broadcast_slot, registered_ns) == 16 && offsetof(broadcast_slot, sequence) == 24 &&
              offsetof(broadcast_slot, received) == 32 && offsetof(broadcast_slot, lost) == 40);

/// The words that registered readers share with each other and with the writer.
struct broadcast_board {
    std::atomic<std::uint32_t> asleep;
    std::byte padding_0[60];
    std::atomic<std::uint32_t> bell;
    std::byte padding_1[60];
};
static_assert(sizeof(broadcast_board) == 128 && offsetof(broadcast_board, bell) == 64);

[[nodiscard]] constexpr std::uint64_t broadcast_held(std::uint64_t position, broadcast_policy policy) noexcept {
    return position | static_cast<std::uint64_t>(policy);
}
[[nodiscard]] constexpr std::uint64_t broadcast_held_position(std::uint64_t held) noexcept {
    return held & ~std::uint64_t{7};
}
[[nodiscard]] constexpr std::uint64_t broadcast_held_policy(std::uint64_t held) noexcept { return held & 7U; }

/// The slots as the writer sees them.
template <class T>
concept broadcast_slots = requires(T& table, std::uint32_t index) {
    { table.size() } -> std::convertible_to<std::uint32_t>;
    { table.slot(index) } -> std::same_as<broadcast_slot&>;
    // Takes the slot's lock, which a living reader holds: false while one does. May ask the operating system.
    { table.seize(index) } -> std::convertible_to<bool>;
    { table.give_back(index) };  // what was seized; its words are zeroed
};

/// A ring that nobody can register with.
struct no_broadcast_slots {
    [[nodiscard]] static std::uint32_t size() noexcept { return 0; }
    [[nodiscard]] static broadcast_slot& slot(std::uint32_t) noexcept {
        static broadcast_slot none{};
        return none;
    }
    [[nodiscard]] static bool seize(std::uint32_t) noexcept { return true; }
    static void give_back(std::uint32_t) noexcept {}
};
static_assert(broadcast_slots<no_broadcast_slots>);

/// Reads with a slot of its own. Threads: one at a time.
class broadcast_hold_core {
 public:
    broadcast_hold_core() = default;
    /// Requires: the slot is ours alone and zero but for what the writer may do to it (I3).
    broadcast_hold_core(const broadcast_read_core& reader, broadcast_slot& slot) noexcept
        : reader_(reader), slot_(&slot) {}

    [[nodiscard]] const broadcast_read_core& reader() const noexcept { return reader_; }
    /// Whether the slot's word is still ours: false before enrol() and once the writer evicted us.
    [[nodiscard]] bool registered() const noexcept {
        // Relaxed: nothing is concluded from it but that we have to register again.
        return held_ != 0 && slot_->held.load(std::memory_order_relaxed) == held_;
    }

    /// Registers and goes to where reading is to start. Returns: as join(); `lapped` also when the start lies too near
    /// to what is being overwritten. From an ok or lapped on, nothing is lost under block.
    [[nodiscard]] result enrol(const broadcast_start& start, broadcast_policy policy, std::uint64_t patience_ns,
                               std::uint64_t now_ns) noexcept;

    /// As broadcast_read_core::next. What `look` sees cannot change under it while the registration stands.
    template <class Look>
    [[nodiscard]] broadcast_read next(Look&& look) noexcept(noexcept(look({}, 0))) {
        const broadcast_read got = reader_.next(std::forward<Look>(look));
        account(got, 1);
        return got;
    }
    /// As broadcast_read_core::next_batch.
    [[nodiscard]] broadcast_read next_batch(std::span<std::byte> room, std::uint64_t most,
                                            broadcast_batch& batch) noexcept {
        const broadcast_read got = reader_.next_batch(room, most, batch);
        account(got, got.count);
        return got;
    }

    /// Tells the writer at once how far we are.
    void move() noexcept {
        // Relaxed: for people.
        slot_->sequence.store(reader_.sequence(), std::memory_order_relaxed);
        slot_->received.store(received_, std::memory_order_relaxed);
        slot_->lost.store(lost_, std::memory_order_relaxed);
        if (held_ == 0) return;
        const std::uint64_t next = reader_.position() | broadcast_held_policy(held_);
        std::uint64_t expected = held_;
        // W7, pairs with R4: our loads of what lies behind come before the writer's stores there. seq_cst on success,
        // for (I5); relaxed on failure: we were evicted, and learn nothing else by it.
        if (!slot_->held.compare_exchange_strong(expected, next, std::memory_order_seq_cst,
                                                 std::memory_order_relaxed)) {
            held_ = 0;
            return;
        }
        held_ = next;
        // seq_cst: (I5), behind W7.
        if (reader_.view().control().blocked.load(std::memory_order_seq_cst) != 0) [[unlikely]]
            freed_ = true;
    }
    /// Whether a writer that sleeps is to be woken: it waited for room, and we made some.
    [[nodiscard]] bool take_freed() noexcept { return freed_ && std::exchange(freed_, false); }
    /// Gives the registration up; reading may go on without.
    void leave() noexcept {
        if (held_ == 0) return;
        // As W7, and so is the look at the writer.
        slot_->held.compare_exchange_strong(held_, 0, std::memory_order_seq_cst, std::memory_order_relaxed);
        held_ = 0;
        freed_ = freed_ || reader_.view().control().blocked.load(std::memory_order_seq_cst) != 0;
    }

    [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
    [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }

 private:
    /// What an answer of the reader's, of `messages` if it is ok, means to the writer.
    void account(const broadcast_read& got, std::uint64_t messages) noexcept {
        if (got.status == outcome::ok) {
            received_ += messages;
            if (reader_.position() - broadcast_held_position(held_) >= lag_) move();
        } else if (got.status != outcome::too_small) {
            if (got.status == outcome::lapped) lost_ += got.count;
            // Empty: whoever sleeps now must not leave the writer waiting for what was read long ago.
            if (reader_.position() != broadcast_held_position(held_)) move();
        }
    }

    broadcast_read_core reader_;
    broadcast_slot* slot_ = nullptr;
    std::uint64_t held_ = 0;  // what we stored last; 0: not registered
    std::uint64_t lag_ = 0;   // the word is moved each so many bytes
    std::uint64_t received_ = 0;
    std::uint64_t lost_ = 0;
    bool freed_ = false;
};

inline result broadcast_hold_core::enrol(const broadcast_start& start, broadcast_policy policy,
                                         std::uint64_t patience_ns, std::uint64_t now_ns) noexcept {
    leave();
    const broadcast_geometry& geometry = reader_.view().geometry();
    lag_ = geometry.capacity / 64;
    result joined = reader_.join(start, geometry.stride);
    if (joined.status == outcome::corrupt) return joined;
    // Relaxed: published by W6.
    slot_->patience_ns.store(patience_ns, std::memory_order_relaxed);
    slot_->registered_ns.store(now_ns, std::memory_order_relaxed);
    for (unsigned attempt = 0; attempt < broadcast_attempts; ++attempt) {
        held_ = broadcast_held(reader_.position(), policy);
        // W6, pairs with R4. seq_cst: must not pass R5, or the writer could miss the word while we miss its raise (I4).
        slot_->held.store(held_, std::memory_order_seq_cst);
        // R5, pairs with W1.
        const std::uint64_t horizon = reader_.view().control().horizon.load(std::memory_order_seq_cst);
        if (horizon + geometry.stride - reader_.position() <= geometry.capacity || policy == broadcast_policy::drop) {
            move();
            return joined;
        }
        leave();
        const result jumped = reader_.jump(geometry.stride);
        if (jumped.status == outcome::corrupt) return jumped;
        joined = {outcome::lapped, (joined.status == outcome::lapped ? joined.count : 0) + jumped.count};
    }
    return joined;
}

}  // namespace holdfast::layout
