// SPDX-License-Identifier: Apache-2.0
// uses.hpp - what registered readers of a hash map tell its writer: handles of entries that they read.
//
// A reader's slot in NAME.peers is 16 words, each a handle or 0. The reader stores one of eight handles that it finds,
// drawn at random, word after word and round again; it never waits. Before the writer evicts it takes up to 64 words,
// puts 0 in their place, and takes the entries that stand for used by itself. What the dead left is taken once.
// Nothing depends on these words: lost, overwritten or forged they can only misplace favour. So every access is relaxed
// (shared_bytes.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "holdfast/detail/shared_bytes.hpp"

namespace holdfast::detail {

/// The reader's side. Threads: one at a time.
class map_use_notes {
 public:
    /// Requires: `slot` aligned to 8 bytes and not empty, of whole words.
    explicit map_use_notes(std::span<std::byte> slot) noexcept
        : slot_(slot), random_(reinterpret_cast<std::uintptr_t>(slot.data())) {}

    void note(std::uint64_t handle) noexcept {
        // By chance, since who reads in a rhythm of eight would note one key alone. Constants: Knuth, MMIX.
        random_ = random_ * 6364136223846793005U + 1442695040888963407U;
        if (random_ >> 61 != 0) return;
        shared_store<std::uint64_t>(slot_.data() + at_, handle);
        at_ = at_ + 8 < slot_.size() ? at_ + 8 : 0;
    }

 private:
    std::span<std::byte> slot_;
    std::size_t at_ = 0;
    std::uint64_t random_;
};

/// The writer's side, over the slots of all readers.
class map_use_rings {
 public:
    map_use_rings() = default;
    /// Requires: as map_use_notes, or empty.
    explicit map_use_rings(std::span<std::byte> slots) noexcept : slots_(slots) {}

    /// Runs used(word) over what was noted in the next words. Cost: 64 loads at most.
    template <class Used>
    void take(Used&& used) noexcept {
        for (std::size_t i = 0; i < words_max && 8 * i < slots_.size(); ++i) {
            std::byte* const at = slots_.data() + at_;
            at_ = at_ + 8 < slots_.size() ? at_ + 8 : 0;
            const auto word = shared_load<std::uint64_t>(at);
            if (word == 0) continue;
            shared_store<std::uint64_t>(at, 0);
            used(word);
        }
    }

 private:
    static constexpr std::size_t words_max = 64;

    std::span<std::byte> slots_;
    std::size_t at_ = 0;
};

}  // namespace holdfast::detail
