// SPDX-License-Identifier: Apache-2.0
// counter_set_layout.hpp - the bytes of a counter set, and how names get into them without a lock.
//
// Layout v1 (little-endian), body of a segment of kind counter_set; geometry[0] = capacity, geometry[1] = slot bytes
//   offset    bytes  field      written by
//   256*i         8  value      anyone: one atomic addition
//   256*i+8      56  reserved   nobody; keeps names off the line that is written
//   256*i+64      8  word 0     whoever registers: family bytes (8 bits), labels bytes (8), zero (16), text's hash (32)
//   256*i+72    184  words 1..  family, then labels, in words of 8 bytes, the last one padded with zero bytes
//
// (I1) A word goes from zero to its value once and never changes again. Text holds no zero byte, so a word that belongs
//      to a name is never zero, and a name is complete when all words its word 0 promises are not zero.
// (I2) Slots are taken in order: behind the first slot whose word 0 is zero there is nothing.
// (I3) The words of a slot are at any instant a prefix of the words of one name that somebody tried to register.
//
// Registration walks the slots from the first one and tries to put its name's words there one by one, each by
// compare-and-swap from zero. A word that is already there and equal is as good as one's own; a word that differs means
// the slot belongs, or will belong, to another name, and always will (I1), so the walk goes on. Hence two processes
// that register one name always end in one slot, nobody ever waits for anybody, and no lock of the system is needed: it
// is the same on every kind of memory.
// Crash:   a process killed between two words leaves a prefix (I3). Whoever registers that name next completes it in
//          place. Nothing leaks but the slot of a name that no one ever asks for again.
// Orders:  everything is relaxed. Each word stands for itself (I1), and a value needs no name to be valid: the memory
//          is zero from the start, and an addition does not depend on who can see the name.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace holdfast::layout {

inline constexpr std::size_t counter_words = 24;
inline constexpr std::size_t counter_text_bytes_max = (counter_words - 1) * 8;
inline constexpr std::uint64_t counter_capacity_max = 1U << 20;

/// One counter: its value on a cache line pair of its own, and its name.
struct counter_slot {
    std::atomic<std::uint64_t> value;
    std::array<std::byte, 56> reserved;
    std::array<std::atomic<std::uint64_t>, counter_words> words;
};
static_assert(sizeof(counter_slot) == 256 && offsetof(counter_slot, value) == 0 && offsetof(counter_slot, words) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(std::atomic<std::uint64_t>) == 8);

using counter_name_words = std::array<std::uint64_t, counter_words>;

/// The 32-bit FNV-1a hash of family and labels. It only keeps different names from sharing words, and damage from being
/// shown as a name.
[[nodiscard]] constexpr std::uint32_t counter_name_hash(std::string_view text) noexcept {
    std::uint32_t hash = 2166136261U;
    for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619U;
    return hash;
}

/// The words of a name; the rest is zero. Nothing where the name is too long.
[[nodiscard]] inline std::optional<counter_name_words> encode_counter_name(std::string_view family,
                                                                           std::string_view labels) noexcept {
    if (family.size() + labels.size() > counter_text_bytes_max) return std::nullopt;
    std::array<char, counter_text_bytes_max> text{};
    std::memcpy(text.data(), family.data(), family.size());
    if (!labels.empty()) std::memcpy(text.data() + family.size(), labels.data(), labels.size());
    counter_name_words words{};
    const std::uint64_t hash = counter_name_hash({text.data(), family.size() + labels.size()});
    words[0] = family.size() | labels.size() << 8U | hash << 32U;
    std::memcpy(&words[1], text.data(), text.size());
    return words;
}

/// Tries to make `slot` the slot of the name; true when it is (I1, I3).
[[nodiscard]] inline bool install_counter_name(counter_slot& slot, const counter_name_words& words) noexcept {
    for (std::size_t i = 0; i < counter_words && words[i] != 0; ++i) {
        // Relaxed, see "Orders" above: only the word itself matters, and it settles once.
        std::uint64_t seen = slot.words[i].load(std::memory_order_relaxed);
        // On failure `seen` becomes the word that settled.
        if (seen == 0 && slot.words[i].compare_exchange_strong(seen, words[i], std::memory_order_relaxed)) continue;
        if (seen != words[i]) return false;
    }
    return true;
}

/// What a reader found in a slot.
enum class counter_slot_state { empty, unfinished, ready, damaged };

/// A private copy of a slot's name. "Ready" means whole and undamaged; whether the text is a metric's name is the
/// reader's to check (metrics/metric_name.hpp).
class counter_name {
 public:
    /// Copies and checks the name in `slot`; every word is read once.
    explicit counter_name(const counter_slot& slot) noexcept {
        // Relaxed, see "Orders" above: a word that is not zero is final.
        for (std::size_t i = 0; i < counter_words; ++i) words_[i] = slot.words[i].load(std::memory_order_relaxed);
        if (words_[0] == 0) return;
        state_ = counter_slot_state::damaged;
        family_bytes_ = words_[0] & 0xFFU;
        labels_bytes_ = words_[0] >> 8U & 0xFFU;
        const std::size_t bytes = family_bytes_ + labels_bytes_;
        if (bytes > counter_text_bytes_max || (words_[0] >> 16U & 0xFFFFU) != 0) return;
        for (std::size_t i = 1; i <= (bytes + 7) / 8; ++i) {
            if (words_[i] == 0) {
                state_ = counter_slot_state::unfinished;
                return;
            }
        }
        if (words_[0] >> 32U != counter_name_hash({text(), bytes})) return;
        sound_ = true;
        // Behind the text zero, or nobody who asks for this name would find the slot.
        if (bytes % 8 != 0 && words_[1 + bytes / 8] >> (bytes % 8 * 8) != 0) return;
        state_ = counter_slot_state::ready;
    }

    [[nodiscard]] counter_slot_state state() const noexcept { return state_; }
    /// Whether family and labels are those that the hash is of, whatever else the slot holds.
    [[nodiscard]] bool is_sound() const noexcept { return sound_; }
    [[nodiscard]] std::string_view family() const noexcept { return {text(), family_bytes_}; }
    [[nodiscard]] std::string_view labels() const noexcept { return {text() + family_bytes_, labels_bytes_}; }

 private:
    [[nodiscard]] const char* text() const noexcept { return reinterpret_cast<const char*>(&words_[1]); }

    counter_name_words words_{};
    std::size_t family_bytes_ = 0;
    std::size_t labels_bytes_ = 0;
    bool sound_ = false;
    counter_slot_state state_ = counter_slot_state::empty;
};

}  // namespace holdfast::layout
