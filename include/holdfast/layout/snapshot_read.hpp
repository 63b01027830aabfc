// SPDX-License-Identifier: Apache-2.0
// snapshot_read.hpp - reading a snapshot out of plain bytes: by copy or visit with a check afterwards (needs nothing
// but a read-only mapping), or pinned by a hazard word that the writer respects.
//
// Synchronisation (W in snapshot_write.hpp)
//   store                               load                                  what it gives
//   W1 slot.version = v      release    R1 slot.version          acquire      payload and header of v are whole
//   W2 current = (v, slot)   seq_cst    R2 current               acquire      slot.version = v (W1) is visible
//   W3 slot.version = 0      release    R1 / R3 after a fence                 a copy that mixed is detected
//   W4 hazard = word         seq_cst    R4 in the writer's scan  seq_cst      Dekker with W2 / R5: either the writer
//   R5 current again         seq_cst    (pairs with W2)                       sees the hazard or the reader sees that
//                                                                             current moved
//   W6 hazard = 0 or another release+   R4                       (acquires)   the reader's loads precede the reuse
//   W7 front.word = 0        fence      R8 front.word again      fence        a copy of it that mixed is detected
//   W8 front.word = word     release    R7 front.word            acquire      the front holds the object of `word`
//
// A small object also lies in the line of `current`: one line instead of three, and no address to compute. The front is
// believed only under the very word that `current` was found to hold (R2); else, at the latest when a look again shows
// that it is being refilled, the slot is read. So a read gives what was current at its R2 whichever way it goes.
//
// Exactness: `current` names (v, slot) and that slot does not carry v. Either the writer moved on, and then, since W3
// follows the W2 that replaced it, reading `current` again shows another word; or the image is damaged. So "retry" and
// "corrupt" are told apart without a guess.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "holdfast/detail/shared_bytes.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/layout/snapshot_layout.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

/// Which object a read gave.
struct snapshot_read_result {
    /// ok; empty: nothing was published yet; too_small: nothing was copied; corrupt; contended: the writer overran
    /// every attempt, so there are too few slots for its speed, or take a pinned reader.
    outcome status = outcome::empty;
    std::uint64_t version = 0;
    std::uint64_t bytes = 0;  ///< its size; with too_small the size that the buffer must have
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

}  // namespace holdfast

namespace holdfast::layout {

inline constexpr unsigned snapshot_attempts = 16;  // reads overrun this often in a row are reported as contended

/// One published object, found but not protected: believe what was read from it only after `still_there`.
struct snapshot_located {
    outcome status = outcome::empty;
    std::uint64_t word = 0;   // version << 8 | slot
    std::uint64_t bytes = 0;  // <= slot_bytes once status is ok
    [[nodiscard]] std::uint64_t version() const noexcept { return snapshot_version_of(word); }
};

/// Reads over bytes. Holds no state but where the bytes are: copies are free, any thread may use its own.
class snapshot_read_core {
 public:
    snapshot_read_core() = default;
    /// Requires: `geometry` validated against body.size(); body aligned to 64 bytes.
    snapshot_read_core(std::span<const std::byte> body, const snapshot_geometry& geometry) noexcept
        : base_(body.data()),
          geometry_(geometry),
          payloads_(geometry.control_bytes()),
          stride_(geometry.slot_stride()),
          front_bytes_(std::min(geometry.slot_bytes, snapshot_front_bytes)) {}

    [[nodiscard]] const snapshot_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] const snapshot_control& control() const noexcept {
        return *reinterpret_cast<const snapshot_control*>(base_);
    }
    [[nodiscard]] const snapshot_slot& slot(std::uint32_t index) const noexcept {
        return *reinterpret_cast<const snapshot_slot*>(base_ + snapshot_geometry::header_offset(index));
    }
    [[nodiscard]] const std::byte* payload(std::uint64_t word) const noexcept {
        return base_ + payloads_ + snapshot_slot_of(word) * stride_;
    }
    /// The current word, 0 before the first publish. R2: acquire, so that a later look into its slot finds W1's stores.
    [[nodiscard]] std::uint64_t current() const noexcept { return control().current.load(std::memory_order_acquire); }

    /// Finds the current object. Bounded: `contended` after snapshot_attempts overruns.
    [[nodiscard]] snapshot_located locate() const noexcept {
        std::uint64_t word = current();
        for (unsigned attempt = 0; attempt < snapshot_attempts; ++attempt) {
            const snapshot_located found = check(word);
            if (found.status != outcome::contended) return found;
            const std::uint64_t now = current();
            if (now == word) return {outcome::corrupt, word, 0};  // see "Exactness"
            word = now;
        }
        return {outcome::contended, word, 0};
    }

    /// Whether the object is still whole, hence everything read from it before this call was.
    [[nodiscard]] bool still_there(const snapshot_located& found) const noexcept { return still_there(found.word); }
    [[nodiscard]] bool still_there(std::uint64_t word) const noexcept {
        // R3: the fence keeps the payload's loads above from sinking below the check; pairs with the fence behind W3.
        // Weaker: a mix of two objects could pass.
        std::atomic_thread_fence(std::memory_order_acquire);
        // Relaxed: the fence above orders it.
        return slot(snapshot_slot_of(word)).version.load(std::memory_order_relaxed) == snapshot_version_of(word);
    }

    /// Runs look(payload, version) on the current object until one run is known to have seen it whole.
    template <class Look>
    [[nodiscard, gnu::always_inline]] snapshot_read_result visit(Look&& look) const {
        for (unsigned attempt = 0; attempt < snapshot_attempts; ++attempt) {
            // The usual case in registers: passing snapshot_located around as a struct costs a failed store-to-load
            // forwarding: g++ 12 took 15 ns for a record of 16 bytes, of which this saves 13.
            std::uint64_t word = current();
            std::uint64_t bytes = 0;
            if (!is_whole(word, bytes)) [[unlikely]] {
                const snapshot_located found = locate();
                if (found.status != outcome::ok) return {found.status, 0, 0};
                word = found.word;
                bytes = found.bytes;
            }
            look(std::span(payload(word), static_cast<std::size_t>(bytes)), snapshot_version_of(word));
            if (still_there(word)) return {outcome::ok, snapshot_version_of(word), bytes};
        }
        return {outcome::contended, 0, 0};
    }

    /// Copies the current object to the front of `out`.
    // Always in place: a result that comes back through memory costs as much as the read of a small object.
    [[nodiscard, gnu::always_inline]] snapshot_read_result read(std::span<std::byte> out) const noexcept {
        const snapshot_control& head = control();  // the address once: each load below could change it, to the compiler
        const std::uint64_t word = head.current.load(std::memory_order_acquire);  // R2, as current()
        std::uint64_t bytes = 0;
        if (front_has(head.front, word, bytes) && bytes <= out.size()) {
            copy_front(out.data(), head.front, bytes);
            if (front_still_has(head.front, word)) [[likely]]
                return {outcome::ok, snapshot_version_of(word), bytes};
        }
        return read_slot(out, word);
    }

    /// Copies the first Bytes bytes of the current object, which has at least `least`, out of the front.
    /// Returns: its version; 0 if it is not there: look into the slot.
    template <std::size_t Bytes>
    [[nodiscard, gnu::always_inline]] std::uint64_t read_front(std::byte* out, std::uint64_t least) const noexcept {
        static_assert(Bytes <= snapshot_front_bytes);
        const snapshot_control& head = control();
        const std::uint64_t word = head.current.load(std::memory_order_acquire);  // R2, as current()
        std::uint64_t bytes = 0;
        if (!front_has(head.front, word, bytes) || bytes < least) return 0;
        holdfast::detail::copy_from_shared<Bytes>(out, std::assume_aligned<8>(head.front.data));
        return front_still_has(head.front, word) ? snapshot_version_of(word) : 0;
    }

    /// As read(), out of the slot also where the front has it.
    [[nodiscard]] snapshot_read_result read_slot(std::span<std::byte> out) const noexcept {
        return read_slot(out, current());
    }

    /// The object named by `word`, or contended when its slot carries another version by now.
    [[nodiscard]] snapshot_located check(std::uint64_t word) const noexcept {
        if (snapshot_version_of(word) == 0) return {word == 0 ? outcome::empty : outcome::corrupt, word, 0};
        const std::uint32_t index = snapshot_slot_of(word);
        if (index >= geometry_.slots) return {outcome::corrupt, word, 0};  // (I1)
        const snapshot_slot& header = slot(index);
        // R1, pairs with W1. Weaker would let us see the version before the payload it stands for.
        if (header.version.load(std::memory_order_acquire) != snapshot_version_of(word))
            return {outcome::contended, word, 0};
        // Relaxed: written before W1; a value of the next object shows in the version read again below or afterwards.
        const std::uint64_t bytes = header.bytes.load(std::memory_order_relaxed);
        const snapshot_located found{outcome::ok, word, bytes};
        if (bytes > geometry_.slot_bytes)  // (I4), or the next object's header on its way
            return {still_there(found) ? outcome::corrupt : outcome::contended, word, 0};
        return found;
    }

 private:
    [[nodiscard]] snapshot_read_result read_slot(std::span<std::byte> out, std::uint64_t word) const noexcept {
        // The usual case by itself, for objects of a few words: with the rest out of line it keeps to registers.
        const std::byte* const base = base_;  // once, as in read()
        const std::uint64_t version = snapshot_version_of(word);
        const std::uint32_t index = snapshot_slot_of(word);
        if (index < geometry_.slots && version != 0) [[likely]] {
            const auto& header =
                *reinterpret_cast<const snapshot_slot*>(base + snapshot_geometry::header_offset(index));
            // R1, pairs with W1. Weaker would let us see the version before the payload it stands for.
            const bool whole = header.version.load(std::memory_order_acquire) == version;
            // Relaxed: written before W1; believed only if the version still holds after the look.
            const std::uint64_t bytes = header.bytes.load(std::memory_order_relaxed);
            if (whole && bytes <= geometry_.slot_bytes && bytes <= out.size()) [[likely]] {
                const std::byte* const payload = base + payloads_ + index * stride_;
                holdfast::detail::copy_from_shared(out.data(), payload, static_cast<std::size_t>(bytes));
                // R3, as in still_there().
                std::atomic_thread_fence(std::memory_order_acquire);
                // Relaxed: the fence above orders it.
                if (header.version.load(std::memory_order_relaxed) == version) [[likely]]
                    return {outcome::ok, version, bytes};
            }
        }
        return read_again(out);
    }

    [[nodiscard, gnu::noinline, gnu::cold]] snapshot_read_result read_again(std::span<std::byte> out) const noexcept {
        bool fits = true;
        snapshot_read_result result = visit([&](std::span<const std::byte> bytes, std::uint64_t) noexcept {
            fits = bytes.size() <= out.size();
            if (fits) holdfast::detail::copy_from_shared(out.data(), bytes.data(), bytes.size());
        });
        if (result && !fits) result.status = outcome::too_small;
        return result;
    }

    /// Whether the object of `word` lies in the front, and its size, <= front_bytes_.
    [[nodiscard, gnu::always_inline]] bool front_has(const snapshot_front& front, std::uint64_t word,
                                                     std::uint64_t& bytes) const noexcept {
        // R7, pairs with W8. Weaker would let us see the word before the object it stands for.
        if (front.word.load(std::memory_order_acquire) != word || word == 0) return false;
        // Relaxed: written before W8; believed only if the word is found again after the copy.
        bytes = front.bytes.load(std::memory_order_relaxed);
        return bytes <= front_bytes_;
    }
    [[gnu::always_inline]] static void copy_front_word(std::byte* out, const snapshot_front& front,
                                                       std::uint64_t at) noexcept {
        const auto word = holdfast::detail::shared_load<std::uint64_t>(front.data + at);
        std::memcpy(out + at, &word, sizeof word);
    }
    // By words, all of which are the front's own whatever `bytes` says (<= front_bytes_), in place and without a loop:
    // a call of copy_from_shared, which g++ 12 made here, took 54 instructions a read of 16 bytes for these 37.
    [[gnu::always_inline]] static void copy_front(std::byte* out, const snapshot_front& front,
                                                  std::uint64_t bytes) noexcept {
        static_assert(snapshot_front_bytes == 40);
        if (bytes >= 8) copy_front_word(out, front, 0);
        if (bytes >= 16) copy_front_word(out, front, 8);
        if (bytes == 16) return;  // the size most have
        if (bytes >= 24) copy_front_word(out, front, 16);
        if (bytes >= 32) copy_front_word(out, front, 24);
        if (bytes >= 40) copy_front_word(out, front, 32);
        std::uint64_t at = bytes / 8 * 8;
        if (at == bytes) return;
        auto rest = holdfast::detail::shared_load<std::uint64_t>(front.data + at);
        for (const std::uint64_t part : {4U, 2U, 1U}) {
            if ((bytes & part) == 0) continue;
            std::memcpy(out + at, &rest, part);
            rest >>= 8 * part;
            at += part;
        }
    }
    [[nodiscard, gnu::always_inline]] static bool front_still_has(const snapshot_front& front,
                                                                  std::uint64_t word) noexcept {
        // R8: the fence keeps the loads above from sinking below the check; pairs with the fence behind W7. Weaker: a
        // mix of two objects could pass.
        std::atomic_thread_fence(std::memory_order_acquire);
        // Relaxed: the fence above orders it.
        return front.word.load(std::memory_order_relaxed) == word;
    }

    /// Whether `word` names an object that was whole a moment ago, and its size.
    [[nodiscard]] bool is_whole(std::uint64_t word, std::uint64_t& bytes) const noexcept {
        const std::uint32_t index = snapshot_slot_of(word);
        if (index >= geometry_.slots || snapshot_version_of(word) == 0) return false;
        const snapshot_slot& header = slot(index);
        // R1, pairs with W1. Weaker would let us see the version before the payload it stands for.
        if (header.version.load(std::memory_order_acquire) != snapshot_version_of(word)) return false;
        // Relaxed: written before W1; believed only if the version still holds after the look.
        bytes = header.bytes.load(std::memory_order_relaxed);
        return bytes <= geometry_.slot_bytes;
    }

    const std::byte* base_ = nullptr;
    snapshot_geometry geometry_{};
    std::uint64_t payloads_ = 0;  // first payload and distance, computed once
    std::uint64_t stride_ = 0;
    std::uint64_t front_bytes_ = 0;  // largest object in the front
};

/// Keeps one object at a time from being overwritten, through a hazard word that the writer reads.
///
/// The hazard stays set between reads and moves only when `current` has moved: a repeated pin is one load and a
/// compare. Threads: one at a time.
class snapshot_pin_core {
 public:
    snapshot_pin_core() = default;
    /// Requires: `hazard` is ours alone to write, and is in the table that the writer scans.
    snapshot_pin_core(const snapshot_read_core& core, std::atomic<std::uint64_t>& hazard) noexcept
        : core_(core), hazard_(&hazard) {}

    /// The newest object, protected until the next pin or release.
    [[nodiscard]] snapshot_located pin() noexcept {
        std::uint64_t word = core_.current();
        if (word == held_.word && held_.word != 0) return held_;
        held_ = {};
        for (unsigned attempt = 0; attempt < snapshot_attempts; ++attempt) {
            if (word == 0) return drop(outcome::empty, word);
            // W4, pairs with R4 in the writer's scan. seq_cst: it must not pass R5 below, or the writer could miss the
            // hazard while we miss that current moved.
            hazard_->store(word, std::memory_order_seq_cst);
            // R5, pairs with W2.
            const std::uint64_t now = core_.control().current.load(std::memory_order_seq_cst);
            if (now == word) {
                const snapshot_located found = core_.check(word);
                // The slot is current and hazarded: nothing may change it, so "contended" too is damage here.
                if (found.status != outcome::ok) return drop(outcome::corrupt, word);
                return held_ = found;
            }
            word = now;
        }
        return drop(outcome::contended, word);
    }

    /// Gives the held object up; spans into it are invalid from here on.
    void release() noexcept { static_cast<void>(drop(outcome::empty, 0)); }

    [[nodiscard]] const snapshot_located& held() const noexcept { return held_; }
    [[nodiscard]] const snapshot_read_core& core() const noexcept { return core_; }

 private:
    snapshot_located drop(outcome why, std::uint64_t word) noexcept {
        held_ = {};
        // W6, pairs with R4: our loads from the payload come before the writer's reuse of the slot.
        if (hazard_ != nullptr) hazard_->store(0, std::memory_order_release);
        return {why, word, 0};
    }

    snapshot_read_core core_;
    std::atomic<std::uint64_t>* hazard_ = nullptr;
    snapshot_located held_{};
};

}  // namespace holdfast::layout
