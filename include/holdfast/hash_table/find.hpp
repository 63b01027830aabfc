// SPDX-License-Identifier: Apache-2.0
// find.hpp - reading a hash table while its writer works, from a read-only mapping, without locks or stores.
//
// Search: home bucket; if its overflow counter for the key's class is 0 the key is absent; else the pairs, until either
// bucket of a pair has counter 0. Reading a bucket is a sequence lock on its version:
//   R2 load version | R1 match tags, compare keys, copy the value | version still the same: accept, else once more
// A miss needs no check: entries never move, a slot changes its key only after its tag was cleared, and counters are
// raised before the tag is published.
//
// An odd version means that one value is being replaced (a "wide update"), or that the writer was killed in the middle
// of it. The journal then holds the whole new node, so nobody waits: the named slot is read from the journal, any other
// slot as usual.
//
// Bytes are not trusted: slots and buckets come from the checked geometry, a journal slot is only compared, and every
// loop is bounded. An odd version without an armed journal is corruption: it is latched, and nothing is returned. So is
// a bucket that does not come to rest, as `contended`: that is no damage, and the next read may succeed.
//
// Threads: everything here may run at any time, in any number of threads and processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "holdfast/detail/fault_latch.hpp"
#include "holdfast/hash_table/view.hpp"

namespace holdfast::detail {

inline constexpr std::uint64_t no_slot = ~std::uint64_t{0};

// An honest writer leaves a reader a fair chance at each attempt; a large value under unceasing updates of its own
// bucket may take several. Some milliseconds.
inline constexpr std::uint32_t find_attempts_max = 1U << 16;

template <class Node, tag_match Match = tag_match::best, std::uint32_t AttemptsMax = find_attempts_max>
class hash_table_finder {
 public:
    using view = table_view<const std::byte, Node>;

    hash_table_finder() = default;
    explicit hash_table_finder(const view& v) noexcept : view_(v) {}

    /// Copies the value of `key` to `value`, which may be nullptr. Returns: the entry's slot, or no_slot (value is then
    /// undefined).
    [[gnu::always_inline]] std::uint64_t find(const std::byte* key, std::byte* value) const noexcept {
#if defined(HOLDFAST_HASH_TABLE_WIDER)
        if constexpr (Match == tag_match::best)
            if (view_.vectors == vector_unit::avx512) return find_avx512(key, value);
#endif
        const hash_parts h = view_.hash(key);
        const home_place at = view_.home_of(h);
        const std::uint64_t home = at.bucket;
        view_.prefetch_preferred(at);
        return find_from(look(h, home), h, home, key, value);
    }

    /// The same for who does not ask for the slot: whether the key is there.
    [[gnu::always_inline]] bool get(const std::byte* key, std::byte* value) const noexcept {
#if defined(HOLDFAST_HASH_TABLE_WIDER)
        if constexpr (Match == tag_match::best)
            if (view_.vectors == vector_unit::avx512) return find_avx512(key, value) != no_slot;
#endif
        const hash_parts h = view_.hash(key);
        const home_place at = view_.home_of(h);
        const std::uint64_t home = at.bucket;
        view_.prefetch_preferred(at);
        const std::byte* line = view_.line(home);
        const sighting seen = look_at(line, h);
        std::uint64_t slot = no_slot;
        switch (conclude(line, seen, h, home, key, value, slot)) {
            case glance::hit: return true;
            case glance::miss: return false;
            case glance::unsure: break;
        }
        return find_on(seen, h, home, key, value) != no_slot;
    }

    /// Asks for the lines in which a find of the key looks first.
    void prefetch(const std::byte* key) const noexcept {
        const hash_parts h = view_.hash(key);
        view_.prefetch_line(h.home(view_.buckets));
        view_.prefetch_preferred(h);
    }

    /// What a look at a key's home bucket showed: the places that carry its tag, and the version before them.
    struct sighting {
        std::uint32_t places;
        std::uint32_t version;
    };
    [[nodiscard, gnu::always_inline]] sighting look(hash_parts h, std::uint64_t home) const noexcept {
        return look_at(view_.line(home), h);
    }
    /// The rest of a search after that look, at any time.
    [[gnu::always_inline]] std::uint64_t find_from(sighting seen, hash_parts h, std::uint64_t home,
                                                   const std::byte* key, std::byte* value) const noexcept {
        std::uint64_t slot = no_slot;
        switch (conclude(view_.line(home), seen, h, home, key, value, slot)) {
            case glance::hit: return slot;
            case glance::miss: return no_slot;
            case glance::unsure: break;
        }
        return find_on(seen, h, home, key, value);
    }

    /// What can be told by the home bucket alone.
    enum class glance : std::uint8_t { hit, miss, unsure };

    /// A find as far as it needs no call: of nearly all keys at rest it tells all. For callers who have a longer way of
    /// their own behind it; without calls they need no stack, and `value` stays in registers. hit: `value` is the
    /// key's; unsure: find() tells.
    [[gnu::always_inline]] glance find_at_home(const std::byte* key, std::byte* value) const noexcept {
#if defined(HOLDFAST_HASH_TABLE_WIDER)
        if constexpr (Match == tag_match::best)
            if (view_.vectors == vector_unit::avx512) return glance::unsure;  // a call
#endif
        const hash_parts h = view_.hash(key);
        const home_place at = view_.home_of(h);
        const std::uint64_t home = at.bucket;
        view_.prefetch_preferred(at);
        std::uint64_t slot = no_slot;
        const std::byte* line = view_.line(home);
        return conclude(line, look_at(line, h), h, home, key, value, slot);
    }

    /// For values of one word that tell by themselves whose they are: that of the first entry with the key's tag in its
    /// home bucket, whatever its key. Returns: 0: the key is not there; unsure: find() tells. A value that is either of
    /// these is no guess. Requires: the key's preferred line was asked for.
    [[gnu::always_inline]] std::uint64_t guess(hash_parts h) const noexcept {
#if defined(HOLDFAST_HASH_TABLE_WIDER)
        if constexpr (Match == tag_match::best)
            if (view_.vectors == vector_unit::avx512) return guess_avx512(h);
#endif
        const std::uint64_t home = h.home(view_.buckets);
        return guess_from(look(h, home), h, home);
    }
    static constexpr std::uint64_t unsure = ~std::uint64_t{0};

    /// Copies the entry in a slot, whatever its key. Either pointer may be nullptr. Returns: whether the slot holds an
    /// entry.
    bool read_slot(std::uint64_t slot, std::byte* key, std::byte* value) const noexcept {
        if (slot >= view_.slots()) return false;
        const std::uint64_t bucket = slot / layout::tags_per_line;
        const unsigned place = static_cast<unsigned>(slot % layout::tags_per_line);
        const std::byte* line = view_.line(bucket);
        for (std::uint32_t attempt = 0; attempt < AttemptsMax; ++attempt) {
            const std::uint32_t version = version_of(line);
            if (!is_key_tag(tag_at(line, place))) return false;
            const std::byte* node = view_.node_at(bucket, place);
            if (key != nullptr) copy_from_words(key, node, 0, view_.node.key_bytes());
            const copied result = copy_value(bucket, slot, version, value, attempt);
            if (result == copied::yes) return true;
            if (result == copied::corrupt) {
                fault_.set(errc::corrupt);
                return false;
            }
            pause();
        }
        fault_.set(errc::contended);
        return false;
    }

    /// As read_slot, for a scan: leaves out a key whose tag is not its own, which is damage unless the slot changed
    /// hands meanwhile.
    bool read_entry(std::uint64_t slot, std::byte* key, std::byte* value) const noexcept {
        if (slot >= view_.slots()) return false;
        const std::byte* line = view_.line(slot / layout::tags_per_line);
        const std::uint32_t version = version_of(line);
        if (!read_slot(slot, key, value)) return false;
        const std::uint16_t tag = tag_at(line, static_cast<unsigned>(slot % layout::tags_per_line));
        if (tag == view_.hash(key).tag()) return true;
        // Another key's tag without an insert into the bucket (each one changes the version): nobody stored that pair.
        if (is_key_tag(tag) && version_of(line) == version) fault_.set(errc::corrupt);
        return false;
    }

    /// One bit for each place of the bucket that held an entry at this moment.
    [[nodiscard]] std::uint32_t occupied(std::uint64_t bucket) const noexcept {
        return ~match_tags<Match>(view_.line(bucket), layout::tag_free, view_.vectors) & all_places;
    }

    /// Entries, as the writer counts them; never more than there are slots.
    [[nodiscard]] std::uint64_t size() const noexcept {
        if (view_.has_many_writers()) return size_of_many();
        // Relaxed: a number that orders nothing.
        const std::uint64_t n = load_relaxed<std::uint64_t>(view_.journal + layout::journal_size_offset);
        return n < view_.slots() ? n : view_.slots();
    }

    /// Behind a find that ended at no_slot, of a table that nobody else writes: whether damage is why, rather than that
    /// the key is not there. Cost: a load; once a fault is latched, a find that starts without one.
    [[nodiscard]] bool damage_hides(const std::byte* key) const noexcept {
        if (!fault_.get()) [[likely]]
            return false;
        const hash_table_finder afresh(view_);
        return afresh.find(key, nullptr) != no_slot || afresh.fault().has_value();
    }

    [[nodiscard]] const view& bytes() const noexcept { return view_; }
    [[nodiscard]] std::optional<errc> fault() const noexcept { return fault_.get(); }
    void latch(errc code) const noexcept { fault_.set(code); }
    bool clear_contended() const noexcept { return fault_.clear_contended(); }

 private:
    enum class copied { yes, again, corrupt };

    [[nodiscard, gnu::always_inline]] sighting look_at(const std::byte* line, hash_parts h) const noexcept {
        const std::uint32_t version = version_of(line);  // R2
        return {match_tags<Match>(line, h.tag(), view_.vectors), version};
    }

    /// What a look at the home bucket tells. Nearly every key is the first of its tag there, or nowhere; all other ways
    /// are out of line. hit: `slot` is the entry's, and `value` a copy of its value.
    [[nodiscard, gnu::always_inline]] glance conclude(const std::byte* line, sighting seen, hash_parts h,
                                                      std::uint64_t home, const std::byte* key, std::byte* value,
                                                      std::uint64_t& slot) const noexcept {
        if (seen.places == 0) return nothing_went_past(line, h.hash) ? glance::miss : glance::unsure;
        return is_first_of(line, seen, home, key, value, slot) ? glance::hit : glance::unsure;
    }
    /// Whether the key lies in the first place that a look at a bucket showed, at rest; `slot` and `value` then tell
    /// where and what. Requires: there is such a place.
    [[nodiscard, gnu::always_inline]] bool is_first_of(const std::byte* line, sighting seen, std::uint64_t bucket,
                                                       const std::byte* key, std::byte* value,
                                                       std::uint64_t& slot) const noexcept {
        slot = bucket * layout::tags_per_line + static_cast<unsigned>(std::countr_zero(seen.places));
        const std::byte* node = view_.nodes + slot * view_.node_bytes;
        if (!equal_words(node, key, view_.node.key_bytes())) [[unlikely]]
            return false;
        if (value != nullptr) copy_from_words(value, node, view_.value_at(), view_.node.value_bytes());
        // An odd version is never equal to itself without the lowest bit.
        return version_is_still(line, seen.version & ~std::uint32_t{1});
    }

    /// Behind a look that did not tell.
    [[gnu::always_inline]] std::uint64_t find_on(sighting seen, hash_parts h, std::uint64_t home, const std::byte* key,
                                                 std::byte* value) const noexcept {
        return seen.places == 0 ? find_in_pairs(h, home, key, value) : find_everywhere(h, home, key, value);
    }

    /// The sum of what each writer counts.
    [[nodiscard, gnu::noinline]] std::uint64_t size_of_many() const noexcept {
        std::uint64_t sum = 0;
        // Relaxed: as above.
        for (std::uint32_t writer = 0; writer < view_.writers; ++writer)
            sum += load_relaxed<std::uint64_t>(view_.journal_at(writer) + layout::journal_size_offset);
        if (sum >> 63 != 0) return 0;  // an erase was seen, and the insert before it, by another writer, was not
        return sum < view_.slots() ? sum : view_.slots();
    }

#if defined(HOLDFAST_HASH_TABLE_WIDER)
    // By the instructions of AVX-512: calls, as they are compiled for another processor than their caller. They call
    // nobody but in their last instruction, so they need no stack.
    [[gnu::noinline, HOLDFAST_HASH_TABLE_AVX512]] std::uint64_t find_avx512(const std::byte* key,
                                                                            std::byte* value) const noexcept {
        const hash_parts h = view_.hash(key);
        const home_place at = view_.home_of(h);
        const std::uint64_t home = at.bucket;
        view_.prefetch_preferred(at);
        const std::byte* line = view_.line(home);
        const std::uint32_t version = version_of(line);  // R2
        return find_from({match_tags_avx512(line, h.tag()), version}, h, home, key, value);
    }
    [[gnu::noinline, HOLDFAST_HASH_TABLE_AVX512]] std::uint64_t guess_avx512(hash_parts h) const noexcept {
        const std::uint64_t home = h.home(view_.buckets);
        const std::byte* line = view_.line(home);
        const std::uint32_t version = version_of(line);  // R2
        return guess_from({match_tags_avx512(line, h.tag()), version}, h, home);
    }
#endif

    [[gnu::always_inline]] std::uint64_t guess_from(sighting seen, hash_parts h, std::uint64_t home) const noexcept {
        const std::byte* line = view_.line(home);
        if (seen.places == 0) return nothing_went_past(line, h.hash) ? 0 : unsure;
        const std::uint64_t slot = home * layout::tags_per_line + static_cast<unsigned>(std::countr_zero(seen.places));
        const auto word = load_acquire<std::uint64_t>(view_.nodes + slot * view_.node_bytes + view_.value_at());
        // An insert into the slot changes the version before the word, so the word is that of an entry whose tag was
        // published. An odd version is never equal to itself without the lowest bit.
        if (word == 0 || !version_is_still(line, seen.version & ~std::uint32_t{1})) [[unlikely]]
            return unsure;
        return word;
    }

    [[gnu::noinline]] std::uint64_t find_everywhere(hash_parts h, std::uint64_t home, const std::byte* key,
                                                    std::byte* value) const noexcept {
        const std::uint64_t slot = search_bucket(home, h.tag(), key, value);
        if (slot != no_slot) return slot;
        if (nothing_went_past(view_.line(home), h.hash)) return no_slot;
        return find_in_pairs(h, home, key, value);
    }

    /// The rest of the way of a key that may have gone past its home bucket.
    [[gnu::noinline]] std::uint64_t find_in_pairs(hash_parts h, std::uint64_t home, const std::byte* key,
                                                  std::byte* value) const noexcept {
        probe_pairs pair(home, h, view_.buckets);
        for (std::uint32_t i = 0; i < view_.pairs_max; ++i) {
            pair.next();
            view_.prefetch_line(pair.second());
            if (view_.prefetches) {
                const unsigned place = view_.home_of(h).preferred;
                view_.prefetch_in(pair.first(), place);
                view_.prefetch_in(pair.second(), place);
            }
            for (const std::uint64_t bucket : {pair.first(), pair.second()}) {
                const std::byte* line = view_.line(bucket);
                const sighting seen = look_at(line, h);
                if (seen.places == 0) continue;
                std::uint64_t slot = no_slot;
                if (!is_first_of(line, seen, bucket, key, value, slot))
                    slot = search_bucket(bucket, h.tag(), key, value);
                if (slot != no_slot) return slot;
            }
            if (nothing_went_past(view_.line(pair.first()), h.hash) ||
                nothing_went_past(view_.line(pair.second()), h.hash))
                break;
        }
        return no_slot;
    }

    // An update of a small value is over sooner than the journal's cache line has come over: wait that long before
    // going there.
    static constexpr std::uint32_t patient_attempts = 8;

    /// Looks for the key in one bucket, as often as it takes to find it at rest.
    std::uint64_t search_bucket(std::uint64_t bucket, std::uint16_t tag, const std::byte* key,
                                std::byte* value) const noexcept {
        const std::byte* line = view_.line(bucket);
        for (std::uint32_t attempt = 0; attempt < AttemptsMax; ++attempt) {
            const std::uint32_t version = version_of(line);  // R2
            const std::uint64_t slot = slot_among(match_tags<Match>(line, tag, view_.vectors), bucket, key);
            if (slot == no_slot) return no_slot;  // not there, or erased meanwhile
            const copied result = copy_value(bucket, slot, version, value, attempt);
            if (result == copied::yes) return slot;
            if (result == copied::corrupt) {
                fault_.set(errc::corrupt);
                return no_slot;
            }
            pause();
        }
        fault_.set(errc::contended);
        return no_slot;
    }

    /// The first of these places that holds the key.
    std::uint64_t slot_among(std::uint32_t places, std::uint64_t bucket, const std::byte* key) const noexcept {
        for (; places != 0; places &= places - 1) {
            const std::uint64_t slot = bucket * layout::tags_per_line + static_cast<unsigned>(std::countr_zero(places));
            if (equal_words(view_.nodes + slot * view_.node_bytes, key, view_.node.key_bytes())) return slot;
        }
        return no_slot;
    }

    /// Copies the value of a slot whose bucket had `version` before its tag and key were read.
    copied copy_value(std::uint64_t bucket, std::uint64_t slot, std::uint32_t version, std::byte* value,
                      std::uint32_t attempt) const noexcept {
        const std::byte* line = view_.line(bucket);
        if (version % 2 != 0) {
            if (attempt < patient_attempts) return copied::again;
            const std::byte* journal = view_.journal_for(bucket);
            // R3, pairs with J2 and J3: this odd version was stored after the journal was armed for the bucket, and the
            // journal is disarmed or reused only after the version changed again. Weaker could show the journal of an
            // earlier update.
            const std::uint64_t sequence = load_acquire<std::uint64_t>(journal + layout::journal_sequence_offset);
            const std::uint64_t named = load_acquire<std::uint64_t>(journal + layout::journal_slot_offset);
            const bool ours = sequence % 2 != 0 && named < view_.slots() && named / layout::tags_per_line == bucket;
            if (!ours) return version_is_still(line, version) ? copied::corrupt : copied::again;
            if (named == slot) {
                if (value != nullptr)
                    copy_from_words(value, journal + layout::journal_image_offset, view_.value_at(),
                                    view_.node.value_bytes());
                // Relaxed: the word loads above were acquire, so this stays behind them; a word of the next update
                // would bring along the sequence that disarmed this one. The version tells that the key read before is
                // still this slot's.
                const bool armed = load_relaxed<std::uint64_t>(journal + layout::journal_sequence_offset) == sequence;
                return armed && version_is_still(line, version) ? copied::yes : copied::again;
            }
        }
        if (value != nullptr)
            copy_from_words(value, view_.node_at(bucket, static_cast<unsigned>(slot % layout::tags_per_line)),
                            view_.value_at(), view_.node.value_bytes());
        return version_is_still(line, version) ? copied::yes : copied::again;
    }

    view view_;
    mutable fault_latch fault_;
};

}  // namespace holdfast::detail
