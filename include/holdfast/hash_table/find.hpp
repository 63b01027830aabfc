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

#include <atomic>
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

/// Whether the keys that a handle is asked for at once are mostly there: as they were the last time. A hint, which is
/// never wrong, only slower; threads that share the handle share it. It lies apart from what finds read, and is stored
/// when it changes only.
class batch_hint {
 public:
    batch_hint() = default;
    batch_hint(const batch_hint& other) noexcept : mostly_there_(other.mostly_there()) {}
    batch_hint& operator=(const batch_hint& other) noexcept {
        say(other.mostly_there());
        return *this;
    }
    ~batch_hint() = default;

    // Relaxed, here and below: one word that orders nothing.
    [[nodiscard]] bool mostly_there() const noexcept { return mostly_there_.load(std::memory_order_relaxed); }
    void say(bool mostly_there) noexcept {
        if (mostly_there != this->mostly_there()) mostly_there_.store(mostly_there, std::memory_order_relaxed);
    }

 private:
    [[maybe_unused]] std::byte apart_[63]{};
    std::atomic<bool> mostly_there_{true};
};

template <class Node, tag_match Match = tag_match::best, std::uint32_t AttemptsMax = find_attempts_max>
class hash_table_finder {
 public:
    using view = table_view<const std::byte, Node>;

    hash_table_finder() = default;
    explicit hash_table_finder(const view& v) noexcept : view_(v) {}

    /// Copies the value of `key` to `value`, which may be nullptr. Returns: the entry's slot, or no_slot (value is then
    /// undefined).
    [[gnu::always_inline]] std::uint64_t find(const std::byte* key, std::byte* value) const noexcept {
        const kept_key<Node> kept(key);
        const hash_parts h = view_.hash(kept.data());
        std::uint64_t bucket = 0, place = 0;
        switch (see_home(h, kept.data(), value, bucket, place)) {
            case sight::hit: return bucket * layout::tags_per_line + place;
            case sight::miss: return no_slot;
            case sight::past: return past_home(h, kept, value);
            case sight::unsure: break;
        }
        return everywhere(h, kept, value);
    }

    /// The same for who does not ask for the slot: whether the key is there.
    [[gnu::always_inline]] bool get(const std::byte* key, std::byte* value) const noexcept {
        const kept_key<Node> kept(key);
        const hash_parts h = view_.hash(kept.data());
        std::uint64_t bucket = 0, place = 0;
        switch (see_home(h, kept.data(), value, bucket, place)) {
            case sight::hit: return true;
            case sight::miss: return false;
            case sight::past: return past_home(h, kept, value) != no_slot;
            case sight::unsure: break;
        }
        return everywhere(h, kept, value) != no_slot;
    }

    /// Asks for the lines in which a find of the key looks first.
    void prefetch(const std::byte* key) const noexcept {
        const hash_parts h = view_.hash(key);
        view_.prefetch_line(h.home(view_.buckets));
        view_.prefetch_preferred(h);
    }

    /// A key's home bucket.
    struct home_bucket {
        std::uint64_t number;
        const std::byte* line;
        const std::byte* nodes;
    };
    [[nodiscard, gnu::always_inline]] home_bucket bucket_at(std::uint64_t number) const noexcept {
        return {number, view_.line(number), view_.bucket_nodes(number)};
    }
    /// What a look at it showed: the places that carry the low bits of the key's hash, and the version before them.
    struct sighting {
        std::uint32_t places;
        std::uint32_t version;
    };
    [[nodiscard, gnu::always_inline]] sighting look(const home_bucket& home, hash_parts h) const noexcept {
        const std::uint32_t version = version_of(home.line);  // R2
        return {match_tags<Match>(home.line, h.low_bits(), view_.vectors), version};
    }
    /// Whether that look tells that the key is not there.
    [[nodiscard, gnu::always_inline]] bool is_absent(const home_bucket& home, sighting seen,
                                                     hash_parts h) const noexcept {
        return seen.places == 0 && h.has_plain_tag() && nothing_went_past(home.line, h.hash);
    }
    /// What a look at the home bucket tells; past: the key is not there, but entries of its class went past it.
    enum class sight : std::uint8_t { hit, miss, past, unsure };

    /// Nearly every key is the first of its tag in its home bucket, or nowhere; all other ways are out of line. hit:
    /// `place` is the entry's, and `value` a copy of its value.
    ///
    /// Looked for were the low bits of the hash, which are no tag for one key of 255. Those above the keys' tags are
    /// found nowhere, and 0 where a place is free, whose node may well be that of the key: it was erased.
    [[nodiscard, gnu::always_inline]] sight conclude(const home_bucket& home, sighting seen, hash_parts h,
                                                     const std::byte* key, std::byte* value,
                                                     std::uint64_t& place) const noexcept {
        return conclude(home.line, [&]() noexcept { return home.nodes; }, seen, h, key, value, place);
    }
    /// The same where nodes() -> the bucket's first one is worked out only once it is needed.
    template <class Nodes>
    [[nodiscard, gnu::always_inline]] sight conclude(const std::byte* line, Nodes nodes, sighting seen, hash_parts h,
                                                     const std::byte* key, std::byte* value,
                                                     std::uint64_t& place) const noexcept {
        if (seen.places == 0) {
            if (!h.has_plain_tag()) [[unlikely]]
                return sight::unsure;
            return nothing_went_past(line, h.hash) ? sight::miss : sight::past;
        }
        if (h.low() == layout::tag_free) [[unlikely]]
            return sight::unsure;
        place = static_cast<unsigned>(std::countr_zero(seen.places));
        return holds(nodes() + place * view_.node_bytes, line, seen.version, key, value) ? sight::hit : sight::unsure;
    }
    /// A look at the home bucket where nodes come from the second cache, so that nobody asks for them ahead: a miss has
    /// no use for their address.
    [[nodiscard, gnu::always_inline]] sight see_near(std::uint64_t bucket, hash_parts h, const std::byte* key,
                                                     std::byte* value, std::uint64_t& place) const noexcept {
        const std::byte* const line = view_.line(bucket);
        const std::uint32_t version = version_of(line);  // R2
        const sighting seen{match_tags_here<Match>(line, h.low_bits(), view_.vectors), version};
        return conclude(line, [&]() noexcept { return view_.bucket_nodes(bucket); }, seen, h, key, value, place);
    }
    /// Whether a node has the key, at rest since the look that showed a line this version; `value` is then a copy of
    /// its value.
    [[nodiscard, gnu::always_inline]] bool holds(const std::byte* node, const std::byte* line, std::uint32_t version,
                                                 const std::byte* key, std::byte* value) const noexcept {
        if (!equal_words(node, key, view_.node.key_bytes())) [[unlikely]]
            return false;
        if (value != nullptr) copy_from_words<by>(value, node, view_.value_at(), view_.node.value_bytes());
        // An odd version is never equal to itself without the lowest bit.
        return version_is_still(line, version & ~std::uint32_t{1});
    }
    /// The rest of a find after such a look, which told `past` or `unsure`. Returns: as find().
    [[nodiscard]] std::uint64_t go_on(sight told, hash_parts h, const std::byte* key, std::byte* value) const noexcept {
        return told == sight::past ? find_past_home(h, key, value) : find_everywhere(h, key, value);
    }
    /// Asks for the lines in which that rest looks first where the key may have gone past its home bucket, and if it
    /// probably is there for its likely nodes.
    void prefetch_past_home(hash_parts h, bool is_there) const noexcept {
        probe_pairs pair(h.home(view_.buckets), h, view_.buckets);
        pair.next();
        view_.prefetch_line(pair.first());
        view_.prefetch_line(pair.second());
        if (is_there) prefetch_in_pair(pair, h);
    }
    /// The rest of a search after a look, at any time.
    [[gnu::always_inline]] std::uint64_t find_from(sighting seen, hash_parts h, const home_bucket& home,
                                                   const std::byte* key, std::byte* value) const noexcept {
        std::uint64_t place = 0;
        const sight told = conclude(home, seen, h, key, value, place);
        if (told == sight::hit) return home.number * layout::tags_per_line + place;
        return told == sight::miss ? no_slot : go_on(told, h, key, value);
    }

    /// What can be told by the home bucket alone.
    enum class glance : std::uint8_t { hit, miss, unsure };

    /// A find as far as it needs no call: of nearly all keys at rest it tells all. For callers who have a longer way of
    /// their own behind it; without calls they need no stack, and `value` stays in registers. hit: `value` is the
    /// key's; unsure: find() tells.
    [[gnu::always_inline]] glance find_at_home(const std::byte* key, std::byte* value) const noexcept {
        const kept_key<Node> kept(key);
        const hash_parts h = view_.hash(kept.data());
        std::uint64_t bucket = 0, place = 0;
        switch (see_home(h, kept.data(), value, bucket, place)) {
            case sight::hit: return glance::hit;
            case sight::miss: return glance::miss;
            default: return glance::unsure;
        }
    }

    /// For values of one word that tell by themselves whose they are: that of the first entry with the key's tag in its
    /// home bucket, whatever its key. Returns: 0: the key is not there; unsure: find() tells. A value that is either of
    /// these is no guess. Requires: the key's preferred line was asked for.
    [[gnu::always_inline]] std::uint64_t guess(hash_parts h) const noexcept {
        const home_bucket home = bucket_at(h.home(view_.buckets));
        return guess_from(look(home, h), h, home);
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
    /// What batches of this handle are told of their keys (batch.hpp).
    [[nodiscard]] batch_hint& hint() const noexcept { return hint_; }
    [[nodiscard]] std::optional<errc> fault() const noexcept { return fault_.get(); }
    void latch(errc code) const noexcept { fault_.set(code); }
    bool clear_contended() const noexcept { return fault_.clear_contended(); }

 private:
    enum class copied { yes, again, corrupt };
    static constexpr copy_by by = Match == tag_match::best ? copy_by::best : copy_by::words;  // how values are copied

    /// A look at the home bucket by who has one key. Two ways, each straight: see_near().
    [[nodiscard, gnu::always_inline]] sight see_home(hash_parts h, const std::byte* key, std::byte* value,
                                                     std::uint64_t& bucket, std::uint64_t& place) const noexcept {
        const home_place at = view_.home_of(h);
        bucket = at.bucket;
        if (!view_.prefetches) return see_near(at.bucket, h, key, value, place);
        const home_bucket home = bucket_at(at.bucket);
        view_.prefetch_preferred(at, home.nodes);
        return conclude(home, look(home, h), h, key, value, place);
    }

    /// Whether the first place that a look at a bucket showed holds the key, at rest; `value` is then a copy of its
    /// value. Requires: there is such a place.
    [[nodiscard, gnu::always_inline]] bool is_first_of(const home_bucket& in, std::uint32_t version,
                                                       std::uint64_t place, const std::byte* key,
                                                       std::byte* value) const noexcept {
        return holds(in.nodes + place * view_.node_bytes, in.line, version, key, value);
    }

    // Calls, with a copy of the key: the one that was looked at stays in registers. They are given no more than they
    // cannot find out, so that a find in line keeps nothing for them.
    [[gnu::always_inline]] std::uint64_t past_home(hash_parts h, const kept_key<Node>& key,
                                                   std::byte* value) const noexcept {
        const kept_key<Node> again = key;
        return find_past_home(h, again.data(), value);
    }
    [[gnu::always_inline]] std::uint64_t everywhere(hash_parts h, const kept_key<Node>& key,
                                                    std::byte* value) const noexcept {
        const kept_key<Node> again = key;
        return find_everywhere(h, again.data(), value);
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

    [[gnu::always_inline]] std::uint64_t guess_from(sighting seen, hash_parts h,
                                                    const home_bucket& home) const noexcept {
        if (seen.places == 0) return is_absent(home, seen, h) ? 0 : unsure;
        if (h.low() == layout::tag_free) [[unlikely]]
            return unsure;
        const std::uint64_t slot =
            home.number * layout::tags_per_line + static_cast<unsigned>(std::countr_zero(seen.places));
        const auto word = load_acquire<std::uint64_t>(view_.nodes + slot * view_.node_bytes + view_.value_at());
        // An insert into the slot changes the version before the word, so the word is that of an entry whose tag was
        // published. An odd version is never equal to itself without the lowest bit.
        if (word == 0 || !version_is_still(home.line, seen.version & ~std::uint32_t{1})) [[unlikely]]
            return unsure;
        return word;
    }

    [[gnu::noinline]] std::uint64_t find_everywhere(hash_parts h, const std::byte* key,
                                                    std::byte* value) const noexcept {
        const std::uint64_t home = h.home(view_.buckets), slot = search_bucket(home, h.tag(), key, value);
        if (slot != no_slot) return slot;
        if (nothing_went_past(view_.line(home), h.hash)) return no_slot;
        return find_in_pairs(h, key, value);
    }

    /// What a look at both buckets of a pair showed: places and versions of the first below, of the second above.
    struct pair_sighting {
        std::uint64_t places;
        std::uint64_t versions;
        bool nothing_went_on;  // past the pair, of the key's class
    };
    [[nodiscard, gnu::always_inline]] pair_sighting look_at_pair(const probe_pairs& pair, hash_parts h,
                                                                 std::uint32_t tag) const noexcept {
        const std::byte* const first = view_.line(pair.first());
        const std::byte* const second = view_.line(pair.second());
        const std::uint64_t versions = version_of(first) | std::uint64_t{version_of(second)} << 32;  // R2
        const std::uint64_t places = match_tags_here<Match>(first, tag, view_.vectors) |
                                     std::uint64_t{match_tags_here<Match>(second, tag, view_.vectors)} << 32;
        return {places, versions, nothing_went_past(first, h.hash) || nothing_went_past(second, h.hash)};
    }
    /// Whether the first place of those holds the key, as is_first_of() says. Nobody can foretell which of two buckets
    /// has a key, so nothing here branches by it. Requires: there is such a place.
    [[nodiscard, gnu::always_inline]] bool is_first_of_pair(const probe_pairs& pair, const pair_sighting& seen,
                                                            const std::byte* key, std::byte* value,
                                                            std::uint64_t& slot) const noexcept {
        static_assert(layout::buckets_max >> 32 == 0);
        const unsigned at = static_cast<unsigned>(std::countr_zero(seen.places)), half = at & 32U;
        const auto number = static_cast<std::uint32_t>((pair.first() | pair.second() << 32) >> half);
        slot = std::uint64_t{number} * layout::tags_per_line + (at & 31U);
        return is_first_of(bucket_at(number), static_cast<std::uint32_t>(seen.versions >> half), at & 31U, key, value);
    }
    void prefetch_in_pair(const probe_pairs& pair, hash_parts h) const noexcept {
        if (!view_.prefetches) return;
        const home_place preferred = view_.home_of(h);
        view_.prefetch_in(pair.first(), preferred);
        view_.prefetch_in(pair.second(), preferred);
    }

    /// The rest of the way of a key that may have gone past its home bucket: nearly always the first pair tells. Calls
    /// nobody but in its last instruction.
    [[gnu::noinline]] std::uint64_t find_past_home(hash_parts h, const std::byte* key,
                                                   std::byte* value) const noexcept {
        probe_pairs pair(h.home(view_.buckets), h, view_.buckets);
        pair.next();
        prefetch_in_pair(pair, h);
        const pair_sighting seen = look_at_pair(pair, h, h.low_bits());
        std::uint64_t slot = no_slot;
        if (seen.places == 0 && seen.nothing_went_on && h.has_plain_tag()) return no_slot;
        if (seen.places != 0 && h.low() != layout::tag_free && is_first_of_pair(pair, seen, key, value, slot))
            return slot;
        return find_in_pairs(h, key, value);
    }
    /// The same for every key.
    [[gnu::noinline]] std::uint64_t find_in_pairs(hash_parts h, const std::byte* key, std::byte* value) const noexcept {
        const std::uint16_t tag = h.tag();
        probe_pairs pair(h.home(view_.buckets), h, view_.buckets);
        for (std::uint32_t i = 0; i < view_.pairs_max; ++i) {
            pair.next();
            prefetch_in_pair(pair, h);
            const pair_sighting seen = look_at_pair(pair, h, tag);
            if (seen.places != 0) {
                std::uint64_t slot = no_slot;
                if (is_first_of_pair(pair, seen, key, value, slot)) return slot;
                for (const std::uint64_t bucket : {pair.first(), pair.second()}) {
                    slot = search_bucket(bucket, tag, key, value);
                    if (slot != no_slot) return slot;
                }
            }
            if (seen.nothing_went_on) break;
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
                    copy_from_words<by>(value, journal + layout::journal_image_offset, view_.value_at(),
                                        view_.node.value_bytes());
                // Relaxed: the word loads above were acquire, so this stays behind them; a word of the next update
                // would bring along the sequence that disarmed this one. The version tells that the key read before is
                // still this slot's.
                const bool armed = load_relaxed<std::uint64_t>(journal + layout::journal_sequence_offset) == sequence;
                return armed && version_is_still(line, version) ? copied::yes : copied::again;
            }
        }
        if (value != nullptr)
            copy_from_words<by>(value, view_.node_at(bucket, static_cast<unsigned>(slot % layout::tags_per_line)),
                                view_.value_at(), view_.node.value_bytes());
        return version_is_still(line, version) ? copied::yes : copied::again;
    }

    view view_;
    mutable fault_latch fault_;
    mutable batch_hint hint_;
};

/// A handle goes on to another generation: what kept it from an answer before is told by its fault() still.
template <class Finder>
void inherit_fault(const Finder& from, const Finder& to) noexcept {
    if (const std::optional<errc> met = from.fault()) to.latch(*met);
}

}  // namespace holdfast::detail
