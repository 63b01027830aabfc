// SPDX-License-Identifier: Apache-2.0
// snapshot_write.hpp - publishing a snapshot into plain bytes. One writer; who that is, the caller has settled (lease).
//
// A publish, store by store, and what a death right after it leaves
//   1 slot.version = 0 (W3)            a slot that was neither current nor hazarded is empty      before
//   2 payload                          that slot holds rubbish nobody can reach                   before
//   3 slot.bytes, checksum, format     the same                                                   before
//   4 slot.version = v (W1)            a whole object nobody can reach; recover() empties it      before
//   5 current = (v, slot) (W2)         published                                                  after
// and for an object of at most snapshot_front_bytes
//   6 front.word = 0 (W7)              readers look into the slot                                 after
//   7 front.bytes, data                the same                                                   after
//   8 front.word = (v, slot) (W8)      readers need the line of `current` alone                   after
// recover() makes one pass over the slot headers, fills the front if it is not that of `current`, and changes nothing a
// reader could be reading: run twice it does what it does once. The old object stays whole in its slot through all of
// this. Between 5 and 8, also for as long as a writer stays dead there, the front carries another word than `current`.
//
// Choosing the slot: never the current one (I3), never one that a hazard names with the version it holds; of the others
// the one with the oldest version, which gives readers without a hazard the longest grace (slots - 2 publishes). Only
// when every slot is taken is the operating system asked whether the holders still live.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/detail/checksum.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/layout/snapshot_layout.hpp"
#include "holdfast/layout/snapshot_read.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

/// What a publish did.
struct publish_result {
    /// ok; else nothing was changed. full: living readers pin every slot but the current one; too_large: for a slot;
    /// not_claimed: a commit without a prepare before it; read_only; corrupt: the stored version stands at its end,
    /// where no 2^56 publishes have brought it.
    outcome status = outcome::not_claimed;
    std::uint64_t version = 0;  ///< of the object just published
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

/// Where the next object may be written.
struct prepare_result {
    outcome status = outcome::not_claimed;  ///< as publish_result
    std::span<std::byte> bytes{};
    [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
};

}  // namespace holdfast

namespace holdfast::layout {

/// The hazard words of registered readers, as the writer sees them.
template <class T>
concept snapshot_hazards = requires(T& table, std::uint32_t index) {
    { table.size() } -> std::convertible_to<std::uint32_t>;
    { table.cell(index) } -> std::same_as<std::atomic<std::uint64_t>&>;
    { table.alive(index) } -> std::convertible_to<bool>;  // may ask the operating system
};

/// A table without readers: for snapshots that no one pins.
struct no_hazards {
    [[nodiscard]] static std::uint32_t size() noexcept { return 0; }
    [[nodiscard]] static std::atomic<std::uint64_t>& cell(std::uint32_t) noexcept {
        static std::atomic<std::uint64_t> none{0};
        return none;
    }
    [[nodiscard]] static bool alive(std::uint32_t) noexcept { return false; }
};

/// The writer over bytes. What it knows of the slots it keeps privately: stored bytes decide only in recover().
class snapshot_write_core {
 public:
    snapshot_write_core() = default;

    /// Takes over the body: freshly zeroed, or left by a writer that died at any instruction.
    /// Requires: `geometry` validated against body.size(); body aligned to 64 bytes; no other writer.
    /// Throws: error(corrupt) when `current` names no whole object: something else than a crash damaged the bytes.
    snapshot_write_core(std::span<std::byte> body, const snapshot_geometry& geometry, const std::string& subject)
        : base_(body.data()), geometry_(geometry), versions_(geometry.slots, 0) {
        recover(subject);
    }

    [[nodiscard]] const snapshot_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] std::uint64_t version() const noexcept { return snapshot_version_of(current_); }

    /// Opens a free slot for an object of up to `bytes`. A second prepare drops the first.
    template <snapshot_hazards Hazards>
    [[nodiscard]] prepare_result prepare(std::uint64_t bytes, Hazards& hazards) {
        discard();
        if (bytes > geometry_.slot_bytes) return {outcome::too_large, {}};
        if (version() >= snapshot_version_max) return {outcome::corrupt, {}};
        const std::optional<std::uint32_t> free = choose(hazards);
        if (!free) {
            add_one(control().refused);
            return {outcome::full, {}};
        }
        versions_[*free] = 0;
        // W3, pairs with R1: a reader that finds 0 here is sure to find that `current` has moved on (W2 came before).
        slot(*free).version.store(0, std::memory_order_release);
        // Keeps the payload's stores, ours or the caller's plain ones, behind W3; pairs with the fence in still_there.
        // Weaker: a reader could mix in new bytes and still find the old version.
        std::atomic_thread_fence(std::memory_order_release);
        prepared_ = *free;
        prepared_bytes_ = bytes;
        return {outcome::ok, std::span(base_ + geometry_.payload_offset(*free), static_cast<std::size_t>(bytes))};
    }

    /// Publishes the first `bytes` of the prepared slot: more than was prepared is not_claimed, since what lies behind
    /// is a former object's.
    [[nodiscard]] publish_result commit(std::uint64_t bytes, std::uint64_t now_ns) noexcept {
        if (!prepared_ || bytes > prepared_bytes_) return {outcome::not_claimed, 0};
        const std::uint32_t index = *prepared_;
        const std::uint64_t next = version() + 1;
        const std::byte* payload = base_ + geometry_.payload_offset(index);
        snapshot_slot& header = slot(index);
        // Relaxed: published by W1.
        header.bytes.store(bytes, std::memory_order_relaxed);
        header.checksum.store(holdfast::detail::checksum({payload, static_cast<std::size_t>(bytes)}),
                              std::memory_order_relaxed);
        header.format.store(geometry_.format, std::memory_order_relaxed);
        header.published_ns.store(now_ns, std::memory_order_relaxed);
        // W1, pairs with R1. Weaker would let a reader find the version before payload and header.
        header.version.store(next, std::memory_order_release);
        // W2, pairs with R2 and R5. seq_cst: the next scan's R4 must not be satisfied before this store is visible, or
        // a reader could pin what we are about to overwrite.
        control().current.store(snapshot_word(next, index), std::memory_order_seq_cst);
        current_ = snapshot_word(next, index);
        versions_[index] = next;
        prepared_.reset();
        if (bytes <= snapshot_front_bytes) fill_front(payload, bytes);
        return {outcome::ok, next};
    }

    /// Forgets the prepared slot; its bytes were never visible.
    void discard() noexcept { prepared_.reset(); }

    /// prepare, copy and commit in one.
    template <snapshot_hazards Hazards>
    [[nodiscard]] publish_result publish(std::span<const std::byte> object, Hazards& hazards, std::uint64_t now_ns) {
        const prepare_result room = prepare(object.size(), hazards);
        if (!room) return {room.status, 0};
        holdfast::detail::copy_to_shared(room.bytes.data(), object.data(), object.size());
        return commit(object.size(), now_ns);
    }

 private:
    using slot_set = std::bitset<snapshot_slots_max + 1>;

    [[nodiscard]] snapshot_control& control() noexcept { return *reinterpret_cast<snapshot_control*>(base_); }
    [[nodiscard]] snapshot_slot& slot(std::uint32_t index) noexcept {
        return *reinterpret_cast<snapshot_slot*>(base_ + snapshot_geometry::header_offset(index));
    }

    // Ours alone to write, so a load and a store will do; relaxed, nothing hangs on it.
    static void add_one(std::atomic<std::uint64_t>& counter) noexcept {
        counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }

    /// Copies the current object to the front. Requires: bytes <= snapshot_front_bytes.
    void fill_front(const std::byte* payload, std::uint64_t bytes) noexcept {
        snapshot_front& front = control().front;
        // W7, relaxed: the fence behind it keeps the stores below behind it; pairs with the fence in front of R8.
        // Weaker: a reader could mix in new bytes and still find the word of the object before.
        front.word.store(0, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        // Relaxed, as the bytes: published by W8.
        front.bytes.store(bytes, std::memory_order_relaxed);
        holdfast::detail::copy_to_shared(front.data, payload, static_cast<std::size_t>(bytes));
        // W8, pairs with R7. Weaker would let a reader find the word before the object.
        front.word.store(current_, std::memory_order_release);
    }

    void recover_front() noexcept {
        snapshot_front& front = control().front;
        // Relaxed: nobody else stores it, and what a predecessor stored lies behind the lease.
        if (front.word.load(std::memory_order_relaxed) == current_) return;
        const std::uint32_t index = snapshot_slot_of(current_);
        // Relaxed: as the word. Checked by recover(), but any size does here that fits.
        const std::uint64_t bytes =
            current_ != 0 ? slot(index).bytes.load(std::memory_order_relaxed) : ~std::uint64_t{0};
        if (bytes <= snapshot_front_bytes) return fill_front(base_ + geometry_.payload_offset(index), bytes);
        // Whatever stood there: a word from beyond `current` would come true one day. Relaxed: it is believed by nobody
        // as it is, and is none afterwards.
        front.word.store(0, std::memory_order_relaxed);
    }

    void recover(const std::string& subject) {
        // Acquire on both: the predecessor may still be a thread of this process, in tests; between processes the lease
        // orders its stores before ours. Pairs with W1 and W2.
        current_ = control().current.load(std::memory_order_acquire);
        const std::uint32_t current_slot = snapshot_slot_of(current_);
        const auto damaged = [&](const std::string& what) {
            throw error(errc::corrupt, subject,
                        what + "; no crash does this: restore the segment from a copy, or remove and recreate it");
        };
        if (current_ != 0 && (version() == 0 || current_slot >= geometry_.slots))
            damaged("snapshot's current word " + std::to_string(current_) + " names no slot");
        for (std::uint32_t i = 0; i < geometry_.slots; ++i) {
            const std::uint64_t found = slot(i).version.load(std::memory_order_acquire);  // pairs with W1, see above
            const bool is_current = current_ != 0 && i == current_slot;
            if (is_current &&
                (found != version() || slot(i).bytes.load(std::memory_order_relaxed) > geometry_.slot_bytes))
                damaged("slot " + std::to_string(i) + " is current but does not hold version " +
                        std::to_string(version()));
            const bool reachable = found < version() || is_current;
            // A publish cut short between W1 and W2 (I2). Release as W3: the slot may be filled again from now on.
            if (!reachable && found != 0) slot(i).version.store(0, std::memory_order_release);
            versions_[i] = reachable ? found : 0;
        }
        recover_front();
    }

    /// The oldest slot that is neither current nor kept by a living reader.
    template <snapshot_hazards Hazards>
    [[nodiscard]] std::optional<std::uint32_t> choose(Hazards& hazards) {
        if (const auto free = oldest(hazarded(hazards))) return free;
        bool reclaimed = false;
        for (std::uint32_t i = 0; i < hazards.size(); ++i) {
            // R4 again; the value is what the exchange below expects.
            std::uint64_t word = hazards.cell(i).load(std::memory_order_seq_cst);
            if (!protects(word) || hazards.alive(i)) continue;
            // Only the dead reader's own word is cleared: a successor that took its place meanwhile has stored another,
            // or one that its recheck of `current` (R5) refuses anyway, since the slot that word names is not current.
            // Acquire-release: the dead reader's loads precede our reuse of the slot; relaxed on failure, nothing read.
            if (hazards.cell(i).compare_exchange_strong(word, 0, std::memory_order_acq_rel,
                                                        std::memory_order_relaxed)) {
                reclaimed = true;
                add_one(control().reclaimed);
            }
        }
        return reclaimed ? oldest(hazarded(hazards)) : std::nullopt;
    }

    /// Whether a hazard word keeps a slot that the writer would otherwise take. A word that names a version the slot no
    /// longer holds is the trace of a pin that will be refused by R5; it (or rubbish) keeps nothing.
    [[nodiscard]] bool protects(std::uint64_t word) const noexcept {
        const std::uint32_t index = snapshot_slot_of(word);
        return word != 0 && word != current_ && index < geometry_.slots &&
               snapshot_version_of(word) == versions_[index] && versions_[index] != 0;
    }

    template <snapshot_hazards Hazards>
    [[nodiscard]] slot_set hazarded(Hazards& hazards) const {
        slot_set kept;
        for (std::uint32_t i = 0; i < hazards.size(); ++i) {
            // R4, pairs with W4 (Dekker with W2) and with W6 (the reader's loads precede our stores).
            const std::uint64_t word = hazards.cell(i).load(std::memory_order_seq_cst);
            if (protects(word)) kept.set(snapshot_slot_of(word));
        }
        return kept;
    }

    [[nodiscard]] std::optional<std::uint32_t> oldest(const slot_set& kept) const noexcept {
        std::optional<std::uint32_t> best;
        for (std::uint32_t i = 0; i < geometry_.slots; ++i) {
            if (kept.test(i) || (current_ != 0 && i == snapshot_slot_of(current_))) continue;
            if (!best || versions_[i] < versions_[*best]) best = i;
        }
        return best;
    }

    std::byte* base_ = nullptr;
    snapshot_geometry geometry_{};
    std::uint64_t current_ = 0;
    std::vector<std::uint64_t> versions_;  // what each slot holds
    std::optional<std::uint32_t> prepared_;
    std::uint64_t prepared_bytes_ = 0;
};

static_assert(snapshot_hazards<no_hazards>);

}  // namespace holdfast::layout
