// SPDX-License-Identifier: Apache-2.0
// broadcast_bench.hpp - a broadcast ring on private bytes, slots whose owners the test declares dead or alive, clocks
// the test sets, and messages that show by themselves which number they are and whether they are whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "holdfast/layout/broadcast_read.hpp"
#include "holdfast/layout/broadcast_slots.hpp"
#include "holdfast/layout/broadcast_verify.hpp"
#include "holdfast/layout/broadcast_write.hpp"
#include "support/seed.hpp"
#include "support/single_step.hpp"

namespace holdfast::test {

/// Slots in private memory.
class slot_bench {
 public:
    explicit slot_bench(std::uint32_t size) : slots_(size), alive_(size, 1) {}

    [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(slots_.size()); }
    [[nodiscard]] layout::broadcast_slot& slot(std::uint32_t index) noexcept { return slots_[index]; }
    [[nodiscard]] bool seize(std::uint32_t index) const noexcept { return alive_[index] == 0; }
    void give_back(std::uint32_t index) noexcept { slots_[index].held.store(0); }
    void bury(std::uint32_t index) noexcept { alive_[index] = 0; }

 private:
    std::vector<layout::broadcast_slot> slots_;
    std::vector<char> alive_;
};

/// The clocks of every writer made here; a test sets them.
struct bench_clock {
    static inline std::atomic<std::uint64_t> unix_time{1'000}, monotonic_time{5'000};
    static std::uint64_t unix_ns() noexcept { return unix_time.load(std::memory_order_relaxed); }
    static std::uint64_t monotonic_ns() noexcept { return monotonic_time.load(std::memory_order_relaxed); }
    static layout::broadcast_clocks clocks() noexcept { return {unix_ns, monotonic_ns}; }
};

/// A body of pages, shared with forked children; formatted.
class broadcast_bench {
 public:
    explicit broadcast_bench(std::uint64_t capacity, std::uint32_t readers = 0)
        : geometry_(layout::broadcast_geometry::make(capacity, readers, "bench")),
          image_(static_cast<std::size_t>(geometry_.body_bytes())) {
        layout::broadcast_write_core::format(body(), geometry_, bench_clock::unix_ns());
    }

    [[nodiscard]] const layout::broadcast_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] shared_image& image() noexcept { return image_; }
    [[nodiscard]] std::span<std::byte> body() noexcept { return image_.bytes(); }
    [[nodiscard]] layout::broadcast_write_core writer() { return writer_of(body()); }
    [[nodiscard]] layout::broadcast_write_core writer_of(std::span<std::byte> body) const {
        return {body, geometry_, bench_clock::clocks(), "bench"};
    }
    [[nodiscard]] layout::broadcast_read_core reader(const broadcast_start& start = broadcast_start::oldest()) {
        return reader_of(body(), start);
    }
    [[nodiscard]] layout::broadcast_read_core reader_of(std::span<const std::byte> body,
                                                        const broadcast_start& start) const {
        layout::broadcast_read_core made(body, geometry_);
        static_cast<void>(made.join(start));
        return made;
    }
    [[nodiscard]] std::string damage() { return damage_of(body()); }
    /// "" when the check finds nothing.
    [[nodiscard]] std::string damage_of(std::span<const std::byte> body) const {
        layout::findings found;
        layout::verify_broadcast(body, geometry_, found);
        return found.empty() ? "" : "verify: " + found.list()[0].what;
    }

 private:
    layout::broadcast_geometry geometry_;
    shared_image image_;
};

/// How long message `sequence` is: from 0 to `bytes_max`, all lengths as likely.
[[nodiscard]] inline std::size_t message_length(std::uint64_t sequence, std::size_t bytes_max) noexcept {
    return static_cast<std::size_t>(random_at(0x6d, sequence, 0) % (bytes_max + 1));
}
/// Word `index` of message `sequence`: no two messages share one but by chance.
[[nodiscard]] inline std::uint64_t message_word(std::uint64_t sequence, std::size_t index) noexcept {
    return (sequence + 1) * 0x9E3779B97F4A7C15U + index * 0xD1342543DE82EF95U;
}
inline void fill_message(std::span<std::byte> out, std::uint64_t sequence) noexcept {
    for (std::size_t at = 0; at < out.size(); at += 8) {
        const std::uint64_t word = message_word(sequence, at / 8);
        std::memcpy(out.data() + at, &word, out.size() - at < 8 ? out.size() - at : 8);
    }
}
/// Message `sequence`, which is a function of its number.
[[nodiscard]] inline std::vector<std::byte> nth_message(std::uint64_t sequence, std::size_t bytes_max) {
    std::vector<std::byte> message(message_length(sequence, bytes_max));
    fill_message(message, sequence);
    return message;
}
/// The table of readers that a writer asks, of one slot in a rig's memory: who holds it lives until `dead`.
struct one_slot_table {
    layout::broadcast_slot* only;
    bool dead;
    std::uint32_t count = 1;  // 0: nobody is looked for
    [[nodiscard]] std::uint32_t size() const noexcept { return count; }
    [[nodiscard]] layout::broadcast_slot& slot(std::uint32_t) const noexcept { return *only; }
    [[nodiscard]] bool seize(std::uint32_t) const noexcept { return dead; }
    void give_back(std::uint32_t) const noexcept { only->held.store(0); }
};

/// Whether the bytes are nth_message(sequence, bytes_max).
[[nodiscard]] inline bool is_message(std::span<const std::byte> bytes, std::uint64_t sequence, std::size_t bytes_max) {
    if (bytes.size() != message_length(sequence, bytes_max)) return false;
    for (std::size_t at = 0; at < bytes.size(); at += 8) {
        const std::uint64_t word = message_word(sequence, at / 8);
        if (std::memcmp(bytes.data() + at, &word, bytes.size() - at < 8 ? bytes.size() - at : 8) != 0) return false;
    }
    return true;
}

/// Reads to the end and holds every answer against the rule: messages and counts of lost ones give each number once.
/// Returns a failure text; `next` is the number expected next, and moves.
template <class Reader>
[[nodiscard]] std::string read_to_end(Reader& reader, std::uint64_t& next, std::size_t bytes_max) {
    std::vector<std::byte> out(bytes_max + 8);
    for (;;) {
        const broadcast_read got = reader.next([&](std::span<const std::byte> bytes, std::uint16_t) noexcept {
            if (bytes.size() > out.size()) return false;
            holdfast::detail::copy_from_shared(out.data(), bytes.data(), bytes.size());
            return true;
        });
        switch (got.status) {
            case outcome::ok:
                if (got.sequence != next)
                    return "message " + std::to_string(got.sequence) + " instead of " + std::to_string(next);
                if (!is_message({out.data(), static_cast<std::size_t>(got.count)}, next, bytes_max))
                    return "message " + std::to_string(next) + " is not whole";
                ++next;
                break;
            case outcome::lapped: next += got.count; break;
            case outcome::empty: return {};
            default: return "reading message " + std::to_string(next) + ": " + std::string(outcome_name(got.status));
        }
    }
}

}  // namespace holdfast::test
