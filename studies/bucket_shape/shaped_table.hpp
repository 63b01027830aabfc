// SPDX-License-Identifier: Apache-2.0
// shaped_table.hpp - the table of holdfast::hash_table in private memory, with the shape of its buckets as a parameter:
// how many bytes a bucket's line of tags has, how many slots, how wide a tag is, how many overflow counters there are,
// and whether the number of buckets is prime or a power of two.
//
//   line of LineBytes   version, 4 bytes | Classes counters of 4 bits | unused | Slots tags
//   nodes               apart, Slots a bucket, 8 bytes of key and 8 of value
//
// Hash, home bucket, pairs of buckets, counters, the preferred slot and the order of a find are those of the product.
// Lines are matched by the 128-bit vectors that every x86-64 processor has, elsewhere by a loop. Threads: one at a
// time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "holdfast/detail/prefetch.hpp"
#include "holdfast/detail/words.hpp"
#include "holdfast/hash_table/view.hpp"
#include "holdfast/layout/hash_table_layout.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace study {

/// What a lookup costs, as it can be counted.
struct lookup_cost {
    std::uint64_t lines = 0;       ///< cache lines of tags
    std::uint64_t wrong_keys = 0;  ///< nodes of other keys that carry the tag
};

/// Where an entry lies, beside the place at which a find looks first.
struct entry_distance {
    bool in_line = false;  ///< in the cache line that a find asks for ahead
    bool in_pair = false;  ///< there, or in the line that processors fetch along
    bool in_two = false;   ///< in either line of a find that asks for two
};

/// Which lines of nodes a find asks for before it knows: that of an entry's preferred place, and the one that an insert
/// tries next.
enum class lines_asked : std::uint8_t { none, one, two };

/// A table of whichever shape.
class any_shaped_table {
 public:
    any_shaped_table() = default;
    any_shaped_table(const any_shaped_table&) = delete;
    any_shaped_table& operator=(const any_shaped_table&) = delete;
    virtual ~any_shaped_table() = default;

    /// The sum of the values of these keys; of those that are not there nothing.
    [[nodiscard]] virtual std::uint64_t find_all(std::span<const std::uint64_t> keys) const = 0;
    /// The same, and each key waits for the last answer.
    [[nodiscard]] virtual std::uint64_t find_in_turn(std::span<const std::uint64_t> keys) const = 0;
    [[nodiscard]] virtual const std::uint64_t* find(std::uint64_t key) const = 0;
    /// At first: one where nodes are large, else none.
    virtual void ask_ahead(lines_asked which) = 0;
    /// False: the key is there, or no bucket that it may lie in has room.
    virtual bool insert(std::uint64_t key, std::uint64_t value) = 0;
    virtual bool erase(std::uint64_t key) = 0;
    [[nodiscard]] virtual lookup_cost cost_of(std::uint64_t key) const = 0;
    /// Of a key that is there.
    [[nodiscard]] virtual entry_distance distance_of(std::uint64_t key) const = 0;
    [[nodiscard]] virtual std::uint64_t size() const = 0;
    [[nodiscard]] virtual std::uint64_t slots() const = 0;
};

enum class bucket_count : std::uint8_t { prime, power_of_two };

/// probe_pairs in a number of buckets that is a power of two: odd steps meet each of them, too.
class odd_steps {
 public:
    constexpr odd_steps(std::uint64_t home, holdfast::detail::hash_parts h, std::uint64_t buckets) noexcept
        : second_(home), step_(h.step(buckets) | 1), mask_(buckets - 1) {}
    constexpr void next() noexcept {
        first_ = (second_ + step_) & mask_;
        second_ = (first_ + step_) & mask_;
    }
    [[nodiscard]] constexpr std::uint64_t first() const noexcept { return first_; }
    [[nodiscard]] constexpr std::uint64_t second() const noexcept { return second_; }

 private:
    std::uint64_t first_ = 0, second_, step_, mask_;
};

template <class Tag, unsigned Slots, unsigned Classes, std::size_t LineBytes, bucket_count Count = bucket_count::prime>
class shaped_table final : public any_shaped_table {
    static constexpr std::size_t tags_at = LineBytes - Slots * sizeof(Tag);
    static_assert(tags_at >= 4 + Classes / 2 && tags_at % sizeof(Tag) == 0 && Slots < 64);

 public:
    /// Of so many slots, or a few more up to the next prime number of buckets, or up to twice as many.
    shaped_table(std::uint64_t slots, std::uint64_t seed) : start_(holdfast::detail::hash_start(seed, 8)) {
        buckets_ = std::max<std::uint64_t>(3, (slots + Slots - 1) / Slots);
        if constexpr (Count == bucket_count::prime) {
            while (!holdfast::layout::is_prime(buckets_)) ++buckets_;
        } else {
            buckets_ = std::bit_ceil(buckets_);
            bits_ = static_cast<unsigned>(std::countr_zero(buckets_));
        }
        pairs_max_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(64, (buckets_ - 1) / 2));
        lines_.resize(buckets_);
        nodes_.resize(buckets_ * Slots / nodes_a_line + 1);
        if (buckets_ * Slots * sizeof(node) > holdfast::detail::prefetch_bytes_min) asks_ = lines_asked::one;
    }

    [[nodiscard]] std::uint64_t find_all(std::span<const std::uint64_t> keys) const override {
        return sum_of<false>(keys);
    }
    [[nodiscard]] std::uint64_t find_in_turn(std::span<const std::uint64_t> keys) const override {
        return sum_of<true>(keys);
    }
    void ask_ahead(lines_asked which) override { asks_ = which; }
    [[nodiscard]] const std::uint64_t* find(std::uint64_t key) const override {
        const place at = locate(key);
        return at.found ? &node_at(at.bucket, at.slot).value : nullptr;
    }
    bool insert(std::uint64_t key, std::uint64_t value) override {
        if (locate(key).found) return false;
        const holdfast::detail::hash_parts h = hash(key);
        const auto [home, preferred] = home_of(h);
        std::uint64_t bucket = home, passed = 0;
        std::uint64_t free = match(home, 0);
        pairs pair(home, h, buckets_);
        while (free == 0) {
            if (passed++ == pairs_max_) return false;
            pair.next();
            const std::uint64_t first = match(pair.first(), 0), second = match(pair.second(), 0);
            const bool take_first = std::popcount(first) >= std::popcount(second);
            bucket = take_first ? pair.first() : pair.second();
            free = take_first ? first : second;
        }
        count(h, home, passed, true);
        const unsigned slot = choose(bucket, preferred, free);
        node_at(bucket, slot) = {key, value};
        const Tag tag = tag_of(h);
        std::memcpy(lines_[bucket].bytes.data() + tags_at + slot * sizeof(Tag), &tag, sizeof tag);
        ++size_;
        return true;
    }
    bool erase(std::uint64_t key) override {
        const place at = locate(key);
        if (!at.found) return false;
        std::memset(lines_[at.bucket].bytes.data() + tags_at + at.slot * sizeof(Tag), 0, sizeof(Tag));
        const holdfast::detail::hash_parts h = hash(key);
        count(h, home_of(h).bucket, at.pair, false);
        --size_;
        return true;
    }
    template <class Visit>
    void visit(Visit each) const {
        for (std::uint64_t bucket = 0; bucket < buckets_; ++bucket)
            for (std::uint64_t places = ~match(bucket, 0) & ((std::uint64_t{1} << Slots) - 1); places != 0;
                 places &= places - 1) {
                const node& one = node_at(bucket, static_cast<unsigned>(std::countr_zero(places)));
                each(one.key, one.value);
            }
    }
    [[nodiscard]] lookup_cost cost_of(std::uint64_t key) const override { return locate(key).cost; }
    [[nodiscard]] entry_distance distance_of(std::uint64_t key) const override {
        const auto [home, preferred] = home_of(hash(key));
        const place at = locate(key);
        const std::uint64_t lies = (at.bucket * Slots + at.slot) / nodes_a_line,
                            looked = (home * Slots + preferred) / nodes_a_line,
                            next = (home * Slots + behind(home, preferred)) / nodes_a_line;
        return {lies == looked, lies / 2 == looked / 2, lies == looked || lies == next};
    }
    [[nodiscard]] std::uint64_t size() const override { return size_; }
    [[nodiscard]] std::uint64_t slots() const override { return buckets_ * Slots; }

 private:
    using pairs = std::conditional_t<Count == bucket_count::prime, holdfast::detail::probe_pairs, odd_steps>;
    struct node {
        std::uint64_t key, value;
    };
    static constexpr std::size_t nodes_a_line = 64 / sizeof(node);
    struct alignas(LineBytes) line {
        std::array<std::byte, LineBytes> bytes{};
    };
    struct alignas(64) node_line {
        std::array<node, nodes_a_line> nodes{};
    };
    struct place {
        bool found = false;
        std::uint64_t bucket = 0;
        unsigned slot = 0;
        std::uint64_t pair = 0;  // 0: the home bucket; else the number of the pair
        lookup_cost cost{};
    };

    [[nodiscard]] holdfast::detail::hash_parts hash(std::uint64_t key) const noexcept {
        return {holdfast::detail::hash_key(reinterpret_cast<const std::byte*>(&key), 8, start_)};
    }
    struct home_place {
        std::uint64_t bucket;
        unsigned preferred;
    };
    [[nodiscard]] home_place home_of(holdfast::detail::hash_parts h) const noexcept {
        if constexpr (Count == bucket_count::power_of_two)
            return {h.hash >> (64 - bits_),
                    static_cast<unsigned>(holdfast::detail::multiply_high(h.hash << bits_, Slots))};
        const auto product = holdfast::detail::uint128{h.hash} * buckets_;
        return {static_cast<std::uint64_t>(product >> 64),
                static_cast<unsigned>(holdfast::detail::multiply_high(static_cast<std::uint64_t>(product), Slots))};
    }
    [[nodiscard]] static Tag tag_of(holdfast::detail::hash_parts h) noexcept {
        const Tag low = static_cast<Tag>(h.hash);
        return low == 0 ? Tag{1} : low;
    }
    [[nodiscard]] static unsigned class_of(holdfast::detail::hash_parts h) noexcept {
        return static_cast<unsigned>(h.hash >> 16) % Classes;
    }
    [[nodiscard]] node& node_at(std::uint64_t bucket, unsigned slot) noexcept {
        return reinterpret_cast<node*>(nodes_.data())[bucket * Slots + slot];
    }
    [[nodiscard]] const node& node_at(std::uint64_t bucket, unsigned slot) const noexcept {
        return reinterpret_cast<const node*>(nodes_.data())[bucket * Slots + slot];
    }

    /// One bit for each slot of the bucket with this tag; 0 is that of free ones.
    [[nodiscard]] std::uint64_t match(std::uint64_t bucket, Tag tag) const noexcept {
        const std::byte* const from = lines_[bucket].bytes.data();
        std::uint64_t lanes = 0;
#if defined(__SSE2__)
        const auto at = [&](std::size_t offset) {
            return _mm_load_si128(reinterpret_cast<const __m128i*>(from + offset));
        };
        if constexpr (sizeof(Tag) == 2) {
            const __m128i pattern = _mm_set1_epi16(static_cast<short>(tag));
            for (std::size_t i = 0; i < LineBytes / 32; ++i) {
                const __m128i a = _mm_cmpeq_epi16(at(32 * i), pattern), b = _mm_cmpeq_epi16(at(32 * i + 16), pattern);
                lanes |= std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(a, b)))} << 16 * i;
            }
        } else {
            const __m128i pattern = _mm_set1_epi8(static_cast<char>(tag));
            for (std::size_t i = 0; i < LineBytes / 16; ++i)
                lanes |=
                    std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(at(16 * i), pattern)))}
                    << 16 * i;
        }
        return lanes >> tags_at / sizeof(Tag);
#else
        for (unsigned slot = 0; slot < Slots; ++slot) {
            Tag stored;
            std::memcpy(&stored, from + tags_at + slot * sizeof(Tag), sizeof stored);
            lanes |= std::uint64_t{stored == tag} << slot;
        }
        return lanes;
#endif
    }
    [[nodiscard]] unsigned counter(std::uint64_t bucket, unsigned of) const noexcept {
        return std::to_integer<unsigned>(lines_[bucket].bytes[4 + of / 2]) >> of % 2 * 4 & 15U;
    }
    void change_counter(std::uint64_t bucket, unsigned of, bool raise) noexcept {
        std::byte& pair = lines_[bucket].bytes[4 + of / 2];
        if (counter(bucket, of) == 15) return;  // for good
        const unsigned one = 1U << of % 2 * 4, now = std::to_integer<unsigned>(pair);
        pair = static_cast<std::byte>(raise ? now + one : now - one);
    }
    /// An entry in pair `passed` (0: home) went past all buckets before it, or leaves.
    void count(holdfast::detail::hash_parts h, std::uint64_t home, std::uint64_t passed, bool raise) noexcept {
        if (passed == 0) return;
        change_counter(home, class_of(h), raise);
        pairs pair(home, h, buckets_);
        for (std::uint64_t i = 1; i < passed; ++i) {
            pair.next();
            change_counter(pair.first(), class_of(h), raise);
            change_counter(pair.second(), class_of(h), raise);
        }
    }
    /// A slot in the line behind that of a slot, or in the bucket's first one where there is none behind.
    [[nodiscard]] static unsigned behind(std::uint64_t bucket, unsigned slot) noexcept {
        const std::uint64_t first = bucket * Slots, next = ((first + slot) / nodes_a_line + 1) * nodes_a_line;
        return next < first + Slots ? static_cast<unsigned>(next - first) : 0;
    }
    /// A free slot in the cache line of nodes that a find asks for early, else the first behind, else any.
    [[nodiscard]] static unsigned choose(std::uint64_t bucket, unsigned preferred, std::uint64_t free) noexcept {
        const std::uint64_t first = bucket * Slots, line = (first + preferred) / nodes_a_line * nodes_a_line;
        const unsigned from = line < first ? 0 : static_cast<unsigned>(line - first);
        const std::uint64_t behind = free >> from << from;
        return static_cast<unsigned>(std::countr_zero(behind != 0 ? behind : free));
    }

    /// The loops of finds, each for itself: a find does not look at how many lines it asks for.
    template <bool InTurn>
    [[nodiscard]] std::uint64_t sum_of(std::span<const std::uint64_t> keys) const {
        switch (asks_) {
            case lines_asked::none: return sum_asking<InTurn, lines_asked::none>(keys);
            case lines_asked::one: return sum_asking<InTurn, lines_asked::one>(keys);
            case lines_asked::two: break;
        }
        return sum_asking<InTurn, lines_asked::two>(keys);
    }
    template <bool InTurn, lines_asked Asked>
    [[nodiscard]] std::uint64_t sum_asking(std::span<const std::uint64_t> keys) const {
        std::uint64_t sum = 0, none = 0;
        asm volatile("" : "+r"(none));  // zero, but the compiler does not know
        for (const std::uint64_t key : keys) {
            std::uint64_t value = 0;
            if (look<Asked>(InTurn ? key ^ (sum & none) : key, value)) sum += value;
        }
        return sum;
    }
    /// A find as a program would do it.
    template <lines_asked Asked>
    [[nodiscard]] bool look(std::uint64_t key, std::uint64_t& value) const noexcept {
        const holdfast::detail::hash_parts h = hash(key);
        const auto [home, preferred] = home_of(h);
        if constexpr (Asked != lines_asked::none)
            holdfast::detail::prefetch(reinterpret_cast<const std::byte*>(&node_at(home, preferred)));
        if constexpr (Asked == lines_asked::two)
            holdfast::detail::prefetch(reinterpret_cast<const std::byte*>(&node_at(home, behind(home, preferred))));
        if (look_in(home, tag_of(h), key, value)) return true;
        if (counter(home, class_of(h)) == 0) return false;
        return look_further(h, home, key, value);
    }
    [[nodiscard]] bool look_in(std::uint64_t bucket, Tag tag, std::uint64_t key, std::uint64_t& value) const noexcept {
        const std::byte* const version = lines_[bucket].bytes.data();
        const auto before = holdfast::detail::load_acquire<std::uint32_t>(version);
        for (std::uint64_t places = match(bucket, tag); places != 0; places &= places - 1) {
            const node& one = node_at(bucket, static_cast<unsigned>(std::countr_zero(places)));
            if (one.key != key) continue;
            value = one.value;
            return holdfast::detail::load_acquire<std::uint32_t>(version) == before;  // nobody else stores
        }
        return false;
    }
    [[nodiscard, gnu::noinline]] bool look_further(holdfast::detail::hash_parts h, std::uint64_t home,
                                                   std::uint64_t key, std::uint64_t& value) const noexcept {
        pairs pair(home, h, buckets_);
        for (std::uint32_t i = 0; i < pairs_max_; ++i) {
            pair.next();
            holdfast::detail::prefetch(lines_[pair.second()].bytes.data());
            if (look_in(pair.first(), tag_of(h), key, value) || look_in(pair.second(), tag_of(h), key, value))
                return true;
            if (counter(pair.first(), class_of(h)) == 0 || counter(pair.second(), class_of(h)) == 0) return false;
        }
        return false;
    }

    /// The same, counted.
    [[nodiscard]] place locate(std::uint64_t key) const noexcept {
        const holdfast::detail::hash_parts h = hash(key);
        const std::uint64_t home = home_of(h).bucket;
        place at;
        if (is_in(home, h, key, at) || counter(home, class_of(h)) == 0) return at;
        pairs pair(home, h, buckets_);
        for (at.pair = 1; at.pair <= pairs_max_; ++at.pair) {
            pair.next();
            if (is_in(pair.first(), h, key, at) || is_in(pair.second(), h, key, at)) break;
            if (counter(pair.first(), class_of(h)) == 0 || counter(pair.second(), class_of(h)) == 0) break;
        }
        return at;
    }
    [[nodiscard]] bool is_in(std::uint64_t bucket, holdfast::detail::hash_parts h, std::uint64_t key,
                             place& at) const noexcept {
        at.cost.lines += std::max<std::size_t>(1, LineBytes / 64);
        at.bucket = bucket;
        for (std::uint64_t places = match(bucket, tag_of(h)); places != 0; places &= places - 1) {
            at.slot = static_cast<unsigned>(std::countr_zero(places));
            at.found = node_at(bucket, at.slot).key == key;
            if (at.found) return true;
            ++at.cost.wrong_keys;
        }
        return false;
    }

    std::uint64_t start_, buckets_ = 0, size_ = 0;
    std::uint32_t pairs_max_ = 0;
    unsigned bits_ = 0;  // of a bucket's number, where there is a power of two of them
    lines_asked asks_ = lines_asked::none;
    std::vector<line> lines_;
    std::vector<node_line> nodes_;
};

/// That of the product, and others.
using shape_26_of_16 = shaped_table<std::uint16_t, 26, 16, 64>;
using shape_28_of_16 = shaped_table<std::uint16_t, 28, 8, 64>;
using shape_12_of_16 = shaped_table<std::uint16_t, 12, 8, 32>;
using shape_58_of_16 = shaped_table<std::uint16_t, 58, 16, 128>;
using shape_52_of_8 = shaped_table<std::uint8_t, 52, 16, 64>;
using shape_26_of_power = shaped_table<std::uint16_t, 26, 16, 64, bucket_count::power_of_two>;

}  // namespace study
