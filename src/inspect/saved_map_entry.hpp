// SPDX-License-Identifier: Apache-2.0
// saved_map_entry.hpp - an entry of a hash map as a saved file has it.
//
//    0  8  bytes of the key        16  8  seconds left to it; 0: it does not expire
//    8  8  bytes of the value      24  4  flags, then 4 zero bytes
//   32     key, zero bytes up to a multiple of 8, value, zero bytes up to a multiple of 8
//
// What is read back is input: no memory is taken for bytes that have not come, and none by a number of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/hash_map/result.hpp"

namespace holdfast::inspect {

inline constexpr std::size_t saved_map_head_bytes = 32;

inline void append_saved(std::vector<std::byte>& to, const hash_map_entry& entry) {
    const std::uint64_t words[4] = {entry.key.size(), entry.value.size(), static_cast<std::uint64_t>(entry.ttl.count()),
                                    entry.flags};
    const auto head = std::as_bytes(std::span(words));
    to.insert(to.end(), head.begin(), head.end());
    for (const std::vector<std::byte>* part : {&entry.key, &entry.value}) {
        to.insert(to.end(), part->begin(), part->end());
        to.resize((to.size() + 7) / 8 * 8);
    }
}

struct saved_map_item {
    std::span<const std::byte> key, value;
    std::uint64_t ttl_s = 0;
    std::uint32_t flags = 0;
};

/// Cuts entries out of sections, which may end anywhere.
class saved_map_items {
 public:
    /// `offset`: where in the file it begins.
    void append(std::span<const std::byte> section, std::uint64_t offset = 0) {
        if (empty()) begin_ = offset;
        rest_ = bytes_.size() - at_;
        offset_ = offset;
        bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
        at_ = 0;
        bytes_.insert(bytes_.end(), section.begin(), section.end());
    }
    /// The next entry that is there whole, valid until append().
    [[nodiscard]] std::optional<saved_map_item> next() {
        const std::size_t left = bytes_.size() - at_;
        if (left < saved_map_head_bytes) return std::nullopt;
        std::uint64_t words[4];
        std::memcpy(words, bytes_.data() + at_, sizeof words);
        const std::uint64_t body = left - saved_map_head_bytes;
        const auto padded = [](std::uint64_t bytes) { return (bytes + 7) / 8 * 8; };
        // Bounded one by one: a sum of them could wrap.
        if (words[0] > body || padded(words[0]) > body || words[1] > body - padded(words[0]) ||
            padded(words[1]) > body - padded(words[0]))
            return std::nullopt;
        const std::span<const std::byte> from = std::span(bytes_).subspan(at_ + saved_map_head_bytes);
        at_ += saved_map_head_bytes + static_cast<std::size_t>(padded(words[0]) + padded(words[1]));
        return saved_map_item{
            from.first(static_cast<std::size_t>(words[0])),
            from.subspan(static_cast<std::size_t>(padded(words[0])), static_cast<std::size_t>(words[1])), words[2],
            static_cast<std::uint32_t>(words[3])};
    }
    /// Whether what stands next says that it is longer than any entry of the map can be.
    [[nodiscard]] bool too_long(std::uint64_t bytes_max) const noexcept {
        if (bytes_.size() - at_ < saved_map_head_bytes) return false;
        std::uint64_t words[2];
        std::memcpy(words, bytes_.data() + at_, sizeof words);
        return words[0] > bytes_max || words[1] > bytes_max - words[0];
    }
    /// Where in the file it stands.
    [[nodiscard]] std::uint64_t offset() const noexcept { return at_ < rest_ ? begin_ : offset_ + (at_ - rest_); }
    /// Whether nothing is left over.
    [[nodiscard]] bool empty() const noexcept { return at_ == bytes_.size(); }

 private:
    std::vector<std::byte> bytes_;
    std::size_t at_ = 0;
    std::size_t rest_ = 0;      // of the bytes, those that came before the last section
    std::uint64_t begin_ = 0;   // where in the file these began
    std::uint64_t offset_ = 0;  // where the last section began
};

}  // namespace holdfast::inspect
