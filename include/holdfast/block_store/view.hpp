// SPDX-License-Identifier: Apache-2.0
// view.hpp - bounded access to the bytes of a block store: words, units, runs of a value, the record in force.
//
// Words and control are loaded with acquire and stored with release, plain moves on x86-64; payload and run headers by
// relaxed words (shared_bytes.hpp) between fences. What each pair orders stands in write.hpp. Every index that comes
// from shared bytes is compared with the private copy of the geometry before it is used.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "holdfast/detail/checksum.hpp"
#include "holdfast/detail/prefetch.hpp"
#include "holdfast/detail/shared_bytes.hpp"
#include "holdfast/detail/words.hpp"
#include "holdfast/layout/block_store_layout.hpp"

namespace holdfast::detail {

/// What one operation does, as its record says.
struct block_record {
    enum field : unsigned { add, take, units, values, counts, serial, flags, sum };
    static constexpr std::uint64_t rebuilt_flag = 1;

    std::uint64_t word[layout::block_record_words] = {};

    [[nodiscard]] constexpr std::uint64_t add_units() const noexcept { return word[counts] & 0xffffffff; }
    [[nodiscard]] constexpr std::uint64_t take_units() const noexcept { return word[counts] >> 32; }
    [[nodiscard]] constexpr bool is_blank() const noexcept {
        for (const std::uint64_t w : word)
            if (w != 0) return false;
        return true;
    }
    /// A change of any one word, or of the operation's number, changes it.
    [[nodiscard]] constexpr std::uint64_t sum_as(std::uint64_t operation) const noexcept {
        std::uint64_t x = checksum_step(1, operation);
        for (unsigned i = 0; i < sum; ++i) x = checksum_step(x, word[i]);
        return x ^ (x >> 32);
    }
};

/// The last operation and how far it got: what the store holds, without a look at its units.
struct block_state {
    std::uint64_t selector = 0;
    block_record record;
    bool sound = true;        // the record is what its writer stored
    bool add_live = false;    // the value it brings is there, or was: a complete operation is not asked of its words
    bool take_gone = false;   // the value it takes is not
    bool undisturbed = true;  // the writer stored no selector meanwhile

    [[nodiscard]] constexpr std::uint64_t operation() const noexcept { return selector / 2; }
    [[nodiscard]] constexpr bool is_complete() const noexcept { return selector % 2 != 0; }
    /// Whether it did all it was to do, be it told so by the selector or by the words.
    [[nodiscard]] constexpr bool is_done() const noexcept {
        return selector != 0 && (record.word[block_record::add] == 0 || add_live) &&
               (record.word[block_record::take] == 0 || take_gone);
    }
    [[nodiscard]] constexpr std::uint64_t units() const noexcept {
        return record.word[block_record::units] + (add_live ? record.add_units() : 0) -
               (take_gone ? record.take_units() : 0);
    }
    [[nodiscard]] constexpr std::uint64_t values() const noexcept {
        return record.word[block_record::values] + (add_live ? 1U : 0U) - (take_gone ? 1U : 0U);
    }
    /// A replacement that was committed and whose old value is still there.
    [[nodiscard]] constexpr bool replacing() const noexcept {
        return add_live && record.word[block_record::take] != 0 && !take_gone;
    }
    /// A replacement that was begun and not committed. Of many writers its value may come and be withdrawn again, and
    /// then nothing here tells of it.
    [[nodiscard]] constexpr bool may_be_withdrawn() const noexcept {
        return !is_complete() && record.word[block_record::add] != 0 && record.word[block_record::take] != 0 &&
               !add_live;
    }
    /// Whether no value came or went between two looks.
    [[nodiscard]] constexpr bool same_as(const block_state& other) const noexcept {
        return undisturbed && other.undisturbed && selector == other.selector && add_live == other.add_live &&
               take_gone == other.take_gone;
    }
};

/// A part of a value: neighbouring units.
template <class Byte>
struct block_run {
    std::uint64_t first = 0;
    std::uint64_t units = 0;
    std::uint64_t word = 0;          // as stored
    std::span<Byte> payload{};       // those bytes of it that belong to the value
    std::uint64_t payload_from = 0;  // where in the value they belong
};

/// Byte is std::byte for the writer and const std::byte for readers.
template <class Byte>
class block_view {
 public:
    block_view() = default;
    /// Requires: `geometry` validated against body.size(); body aligned to 64 bytes.
    block_view(std::span<Byte> body, const layout::block_store_geometry& geometry) noexcept
        : base_(body.data()),
          words_at_(body.empty() ? nullptr : body.data() + layout::block_words_offset),
          units_at_(body.empty() ? nullptr : body.data() + geometry.units_offset()),
          geometry_(geometry),
          shift_(geometry.unit_shift()),
          bytes_round_up_(static_cast<std::int64_t>(layout::block_head_bytes + geometry.unit_bytes - 1) -
                          two_to_32 * static_cast<std::int64_t>(geometry.unit_bytes)),
          units_bound_(static_cast<std::int64_t>(geometry.units) - two_to_32),
          index_bits_(geometry.index_bits()),
          index_mask_(geometry.units == 0 ? 1 : (std::uint64_t{1} << index_bits_) - 1),
          place_mask_(index_mask_ | layout::block_live_bit | layout::block_claim_bit),
          handle_min_(layout::block_live_bit | (index_mask_ + 1)),
          handle_span_(layout::block_claim_bit - (index_mask_ + 1)) {}

    [[nodiscard]] block_view<const std::byte> as_const() const noexcept {
        return {std::span<const std::byte>(base_, static_cast<std::size_t>(geometry_.body_bytes())), geometry_};
    }
    [[nodiscard]] const layout::block_store_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] std::uint64_t units() const noexcept { return geometry_.units; }
    [[nodiscard]] std::uint64_t bytes_of(std::uint64_t units) const noexcept { return units << shift_; }

    // ---- handles
    [[nodiscard]] std::uint64_t index_of(std::uint64_t word) const noexcept { return word & index_mask_; }
    [[nodiscard]] std::uint64_t serial_of(std::uint64_t word) const noexcept {
        return (word & (layout::block_claim_bit - 1)) >> index_bits_;
    }
    [[nodiscard]] std::uint64_t serial_max() const noexcept { return (std::uint64_t{1} << (62 - index_bits_)) - 1; }
    [[nodiscard]] std::uint64_t handle(std::uint64_t index, std::uint64_t serial) const noexcept {
        return layout::block_live_bit | serial << index_bits_ | index;
    }
    /// Whether a word can be the handle of a value: what a writer never stores is none.
    [[nodiscard]] bool is_handle(std::uint64_t word) const noexcept {
        // From serial 1 on, up to the last one: bit 63 is set and bit 62 is not. One comparison, since reads ask each
        // time.
        return word - handle_min_ < handle_span_ && index_of(word) < geometry_.units;
    }
    /// The unit that a handle names; of a word with bit 63 clear or bit 62 set a number above units(). Half of
    /// is_handle(), for reads: a handle of serial 0, which that refuses, is never the word of its unit, which they
    /// compare.
    [[nodiscard]] std::uint64_t place_of(std::uint64_t word) const noexcept {
        return (word & place_mask_) ^ layout::block_live_bit;
    }

    // ---- words. Requires: index < units()
    /// R1: acquire, pairs with W1. Weaker would let us see a value's handle before its bytes.
    [[nodiscard]] std::uint64_t word(std::uint64_t index) const noexcept {
        return load_acquire<std::uint64_t>(word_at(index));
    }
    /// R2: whether `handle`, found before, still stands, hence everything read of its value meanwhile was whole. The
    /// fence keeps the reads above from sinking below the check; it pairs with the one behind W2.
    [[nodiscard]] bool still(std::uint64_t handle) const noexcept { return still(word_at(index_of(handle)), handle); }
    [[nodiscard, gnu::always_inline]] static bool still(const std::byte* word, std::uint64_t handle) noexcept {
        std::atomic_thread_fence(std::memory_order_acquire);
        return load_relaxed<std::uint64_t>(word) == handle;  // relaxed: the fence orders it
    }
    /// Whether a value uses the unit (I2).
    [[nodiscard]] bool in_use(std::uint64_t index) const noexcept {
        const std::uint64_t w = word(index);
        if (!is_handle(w)) return false;
        const std::uint64_t owner = index_of(w);
        return owner == index || word(owner) == w;
    }
    [[nodiscard]] Byte* word_at(std::uint64_t index) const noexcept { return words_at_ + index * 8; }
    [[nodiscard]] Byte* unit(std::uint64_t index) const noexcept { return units_at_ + bytes_of(index); }
    void prefetch(std::uint64_t index) const noexcept { detail::prefetch(unit(index)); }

    // ---- runs
    /// Hands run(block_run) the runs of the value that starts at unit `head`, given its size and first run word as
    /// loaded. Bounded for any bytes: each run but the last holds at least one byte of `bytes`. A run() that returns
    /// bool stops the walk by false.
    /// Returns: false when it was stopped, or when they contradict each other; runs may have been shown before that.
    /// Requires: head < units().
    template <class Run>
    bool for_each_run(std::uint64_t head, std::uint64_t bytes, std::uint64_t run_word, Run&& run) const {
        if (bytes > geometry_.value_bytes_max()) return false;
        std::uint64_t first = head, from = 0;
        std::size_t header = layout::block_head_bytes;
        for (;;) {
            const std::uint64_t units = layout::block_run_units(run_word), next = layout::block_run_next(run_word);
            if (units == 0 || units > geometry_.units - first) return false;
            const std::uint64_t room = bytes_of(units) - header;
            const std::uint64_t take = std::min(bytes - from, room);
            const block_run<Byte> shown{first, units, run_word,
                                        std::span(unit(first) + header, static_cast<std::size_t>(take)), from};
            if constexpr (std::is_void_v<decltype(run(shown))>)
                run(shown);
            else if (!run(shown))
                return false;
            from += take;
            if (next == layout::block_no_run) return from == bytes && room - take < geometry_.unit_bytes;
            if (from == bytes || next >= geometry_.units) return false;
            first = next;
            header = layout::block_run_bytes;
            run_word = shared_load<std::uint64_t>(unit(first));
        }
    }
    /// Whether they describe a value of one run; for_each_run then shows just that. Requires: head < units().
    [[nodiscard]] bool is_one_run(std::uint64_t head, std::uint64_t bytes, std::uint64_t run_word) const noexcept {
        // No value has so many, and the sum below could wrap.
        return bytes >> 62 == 0 && is_one_short_run(head, bytes, run_word);
    }
    /// The same of fewer than 2^62 bytes.
    [[nodiscard, gnu::always_inline]] bool is_one_short_run(std::uint64_t head, std::uint64_t bytes,
                                                            std::uint64_t run_word) const noexcept {
        // The one word that says so: all units that the bytes need, and none behind them. As a signed number that word
        // is the number of its units less 2^32, so it comes out of one shift, and is compared with a bound less 2^32.
        static_assert(static_cast<std::int64_t>(layout::block_run_word(5, layout::block_no_run)) == 5 - two_to_32);
        const std::int64_t wanted = (static_cast<std::int64_t>(bytes) + bytes_round_up_) >> shift_;
        return run_word == static_cast<std::uint64_t>(wanted) &&
               static_cast<std::int64_t>(head) + wanted <= units_bound_;
    }
    /// for_each_run with size and run word loaded from the head.
    template <class Run>
    bool for_each_run(std::uint64_t head, Run&& run) const {
        return for_each_run(head, shared_load<std::uint64_t>(unit(head)),
                            shared_load<std::uint64_t>(unit(head) + layout::block_head_run_offset),
                            static_cast<Run&&>(run));
    }

    // ---- control
    [[nodiscard]] std::uint64_t selector() const noexcept {
        // R3, pairs with W3. Weaker could show the selector before the record it selects, or before the words that it
        // calls complete.
        return load_acquire<std::uint64_t>(selector_at());
    }
    [[nodiscard]] Byte* selector_at() const noexcept { return base_ + layout::block_selector_offset; }
    [[nodiscard]] Byte* record_at(std::uint64_t operation) const noexcept {
        return base_ + layout::block_records_offset + (operation % 2) * layout::block_record_bytes;
    }
    [[nodiscard]] block_record record_of(std::uint64_t operation) const noexcept {
        block_record record;
        const Byte* at = record_at(operation);
        // R3 again: a word of a record that is written next is seen only together with a later selector.
        for (std::size_t i = 0; i < layout::block_record_words; ++i)
            record.word[i] = load_acquire<std::uint64_t>(at + 8 * i);
        return record;
    }
    /// Whether this is what a writer stored for that operation.
    [[nodiscard]] bool is_sound(const block_record& record, std::uint64_t operation) const noexcept {
        const std::uint64_t add = record.word[block_record::add], take = record.word[block_record::take];
        return operation != 0 && record.word[block_record::sum] == record.sum_as(operation) &&
               (add == 0 || is_handle(add)) && (take == 0 || is_handle(take));
    }
    /// Whether the value it brings is there, and whether the one it takes is not. Requires: is_sound.
    [[nodiscard]] bool has_come(const block_record& record) const noexcept {
        const std::uint64_t add = record.word[block_record::add];
        return add != 0 && word(index_of(add)) == add;
    }
    [[nodiscard]] bool has_gone(const block_record& record) const noexcept {
        const std::uint64_t take = record.word[block_record::take];
        return take != 0 && word(index_of(take)) != take;
    }
    /// One look at the last operation; undisturbed says whether it counts.
    [[nodiscard]] block_state look() const noexcept {
        block_state s;
        s.selector = selector();
        s.record = record_of(s.operation());
        // Record 0 stays blank until operation 2, so a selector of 0 beside it is an empty store.
        s.sound = s.selector == 0 ? s.record.is_blank() : is_sound(s.record, s.operation());
        if (s.sound) {
            s.add_live = s.record.word[block_record::add] != 0 && (s.is_complete() || has_come(s.record));
            s.take_gone = s.record.word[block_record::take] != 0 && (s.is_complete() || has_gone(s.record));
        }
        // The next operation does nothing before the selector names it: if it did, the selector went back.
        const block_record next = record_of(s.operation() + 1);
        if (is_sound(next, s.operation() + 1) && (has_come(next) || has_gone(next))) s.sound = false;
        s.undisturbed = selector() == s.selector;
        return s;
    }
    /// The last operation, looked at until the writer left it alone for a moment; else undisturbed is false.
    [[nodiscard]] block_state state() const noexcept {
        block_state s = look();
        for (unsigned attempt = 1; !s.undisturbed && attempt < looks_max; ++attempt) {
            pause();
            s = look();
        }
        return s;
    }

 private:
    static constexpr unsigned looks_max = 64;
    static constexpr std::int64_t two_to_32 = std::int64_t{1} << 32;

    Byte* base_ = nullptr;
    Byte* words_at_ = nullptr;
    Byte* units_at_ = nullptr;
    layout::block_store_geometry geometry_{};
    unsigned shift_ = 0;
    std::int64_t bytes_round_up_ = 0;  // added to a value's bytes: they are then, shifted, its units less 2^32
    std::int64_t units_bound_ = 0;     // units less 2^32
    unsigned index_bits_ = 1;
    std::uint64_t index_mask_ = 1;
    std::uint64_t place_mask_ = 1;   // the same, with bits 62 and 63
    std::uint64_t handle_min_ = 0;   // of serial 1 and unit 0
    std::uint64_t handle_span_ = 0;  // handles lie within so much from there on
};

/// The checksum of a value: begun with what is in its head, then run by run. It finds accidents, not malice.
[[nodiscard]] constexpr std::uint64_t block_sum_begin(std::uint64_t handle, std::uint64_t bytes) noexcept {
    return checksum_step(handle, bytes);
}
template <class Byte>
[[nodiscard]] inline std::uint64_t block_sum_run(std::uint64_t sum, const block_run<Byte>& run) noexcept {
    return checksum(run.payload, checksum_step(sum, run.word));
}

}  // namespace holdfast::detail
