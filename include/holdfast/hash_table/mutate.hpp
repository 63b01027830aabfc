// SPDX-License-Identifier: Apache-2.0
// mutate.hpp - the one writer of a hash table: insert, update, erase, each in an order of stores that is right after
// any of them.
//
// Invariants
// (I1) An entry never moves. Its tag is stored last when it comes and cleared first when it goes.
// (I2) In its home bucket, and in both buckets of every pair it went past, the counter of its class counts it (15 =
//      that many or more). A counter may be too high, never too low.
// (I3) A bucket's version is even, except while the journal is armed for a slot of that bucket.
// (I4) Node bytes of a bucket change only after its version has changed.
//
// Stores of each operation, in order
//   insert  S0 intent | I1 counters + 1 | I2 version + 2 | I3 node words | I4 tag = commit | S1 size | S2 intent 0
//   erase   S0 intent | E1 tag 0 = commit | E2 counters - 1 | S1 size | S2 intent 0
//   update  of a value inside one word: that word = commit
//   update  of a wider one: J1 image | J2 armed = commit | U1 version odd | U2 words | U3 version even | J3 disarmed
//
// Synchronisation (store here -> load in find.hpp)
//   W1 tag (I4, E1)        -> R1 match_tags    an entry is seen whole, with the counters that lead to it
//   W2 version (I2, U1)    -> R2 version_of    changed bytes are never accepted under the old version
//   W3 counter (E2)        -> counter_of       lowered only behind the cleared tag
//   J2, J3 sequence, slot  -> R3 copy_value    an odd version leads to the journal of the update that made it odd
//
// Killed after  state                                repaired by
//   S0          nothing happened                     intent cleared at the next attach
//   I1          counters too high                    nobody must: extra probes for some misses; recount() is exact
//   I2, I3      free slot, new bytes and version     nobody: the slot is free
//   I4, E1      done; size off by one                size mended at the next attach, by intent and tag
//   E2          as E1, some counters too high        as I1
//   J1          nothing happened                     nobody: the journal is not armed
//   J2 to U3    done for readers who meet the odd    replayed at the next attach; until then such a bucket is read
//               version, not yet for the others      through the journal
//   U3, J3      done                                 replayed once more, same words
// The repairs store in the same manner and may be killed themselves (recover.hpp).
//
// Limit: the version counts changes of one bucket modulo 2^31. A reader stopped in the middle of a copy while exactly
// that many go by could accept a torn value; at ten million inserts a second into one bucket that is 200 seconds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "holdfast/hash_table/find.hpp"

namespace holdfast {

/// What a mutating operation of a hash table did. Each value is one answer; none is shared.
enum class hash_table_status : std::uint8_t {
    inserted,   ///< a new entry
    updated,    ///< an existing entry has the new value
    exists,     ///< try_insert found the key and changed nothing
    erased,     ///< the entry is gone
    not_found,  ///< no such key; nothing changed
    full,       ///< no free slot within the probe length; nothing changed
    read_only,  ///< this handle cannot write here: inherited by fork; nothing changed
    corrupt,    ///< the bytes break an invariant; nothing changed, fault() is set
};

namespace detail {

/// The intent word: which insert or erase is running, and whether the size counts it already.
struct hash_table_intent {
    enum operation : unsigned { none = 0, insert = 1, erase = 2 };

    [[nodiscard]] static constexpr std::uint64_t encode(operation op, std::uint64_t slot,
                                                        std::uint64_t size_before) noexcept {
        return slot << 3 | (size_before & 1) << 2 | op;
    }
    /// The right size, given the stored one: it has changed already if its lowest bit differs from the one before.
    [[nodiscard]] static constexpr std::uint64_t mend(std::uint64_t intent, std::uint64_t size,
                                                      bool slot_has_entry) noexcept {
        if ((size & 1) != (intent >> 2 & 1)) return size;
        if ((intent & 3) == insert && slot_has_entry) return size + 1;
        if ((intent & 3) == erase && !slot_has_entry && size != 0) return size - 1;
        return size;
    }
    [[nodiscard]] static constexpr std::uint64_t slot(std::uint64_t intent) noexcept { return intent >> 3; }
};

template <class Node, tag_match Match = tag_match::best>
class hash_table_mutator {
 public:
    using view = table_view<std::byte, Node>;
    struct result {
        hash_table_status status = hash_table_status::not_found;
        std::uint64_t slot = no_slot;
    };

    hash_table_mutator() = default;
    /// Requires: this is the only writer, and recover() has run.
    explicit hash_table_mutator(const view& v) noexcept : view_(v), finder_(v.as_const()), size_(finder_.size()) {}

    /// Adds an entry unless the key is there.
    result try_insert(const std::byte* key, const std::byte* value) noexcept {
        const hash_parts h = view_.hash(key);
        const location at = locate(h, key);
        if (at.found) return {hash_table_status::exists, at.slot};
        return insert_at(at, h, key, value);
    }

    /// Adds an entry, or gives the existing one a new value.
    result insert_or_assign(const std::byte* key, const std::byte* value) noexcept {
        const hash_parts h = view_.hash(key);
        const location at = locate(h, key);
        if (at.found) return {assign(at.slot, key, value), at.slot};
        return insert_at(at, h, key, value);
    }

    /// Gives an existing entry a new value.
    result update(const std::byte* key, const std::byte* value) noexcept {
        const location at = locate(view_.hash(key), key);
        if (!at.found) return {hash_table_status::not_found, no_slot};
        return {assign(at.slot, key, value), at.slot};
    }

    /// Removes an entry.
    result erase(const std::byte* key) noexcept {
        const hash_parts h = view_.hash(key);
        const location at = locate(h, key);
        if (!at.found) return {hash_table_status::not_found, no_slot};
        begin(hash_table_intent::erase, at.slot);                                                   // S0
        set_tag(view_.line(at.slot / layout::tags_per_line), place_of(at.slot), layout::tag_free);  // E1, W1
        change_counters(h, at.pairs, false);                                                        // E2
        finish(size_ - (size_ != 0 ? 1 : 0));                                                       // S1, S2
        return {hash_table_status::erased, at.slot};
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    [[nodiscard]] const hash_table_finder<Node, Match>& finder() const noexcept { return finder_; }
    [[nodiscard]] const view& bytes() const noexcept { return view_; }

 private:
    struct location {
        bool found = false;
        bool room = false;
        std::uint32_t pairs = 0;        // of the slot's bucket: 0 = home, else the number of the pair it is in
        std::uint64_t slot = no_slot;   // of the entry, if found
        std::uint64_t bucket = 0;       // with room, if not found
        std::uint32_t free_places = 0;  // in it
    };

    [[nodiscard]] static unsigned place_of(std::uint64_t slot) noexcept {
        return static_cast<unsigned>(slot % layout::tags_per_line);
    }

    [[nodiscard]] bool search(std::uint64_t bucket, std::uint16_t tag, const std::byte* key,
                              location& at) const noexcept {
        for (std::uint32_t places = match_tags<Match>(view_.line(bucket), tag); places != 0; places &= places - 1) {
            const unsigned place = static_cast<unsigned>(std::countr_zero(places));
            if (!equal_words(view_.node_at(bucket, place), key, view_.node.key_bytes())) continue;
            at.found = true;
            at.slot = bucket * layout::tags_per_line + place;
            return true;
        }
        return false;
    }

    /// Finds the key, or else the best free place for it: home; then, in the first pair with room, the emptier bucket.
    [[nodiscard]] location locate(hash_parts h, const std::byte* key) const noexcept {
        location at;
        const std::uint64_t home = h.home(view_.buckets);
        view_.prefetch_preferred(home, h);
        if (search(home, h.tag(), key, at)) return at;
        at.bucket = home;
        at.free_places = match_tags<Match>(view_.line(home), layout::tag_free);
        at.room = at.free_places != 0;
        bool may_follow = counter_of(view_.line(home), h.group()) != 0;
        if (at.room && !may_follow) return at;
        return locate_in_pairs(h, key, home, may_follow, at);
    }

    [[nodiscard]] location locate_in_pairs(hash_parts h, const std::byte* key, std::uint64_t home, bool may_follow,
                                           location at) const noexcept {
        probe_pairs pair(home, h, view_.buckets);
        for (std::uint32_t i = 1; i <= view_.pairs_max && (may_follow || !at.room); ++i) {
            pair.next();
            const std::byte* first = view_.line(pair.first());
            const std::byte* second = view_.line(pair.second());
            __builtin_prefetch(second);
            if (may_follow && (search(pair.first(), h.tag(), key, at) || search(pair.second(), h.tag(), key, at))) {
                at.pairs = i;
                return at;
            }
            if (!at.room) {
                const std::uint32_t free_first = match_tags<Match>(first, layout::tag_free);
                const std::uint32_t free_second = match_tags<Match>(second, layout::tag_free);
                const bool take_first = std::popcount(free_first) >= std::popcount(free_second);
                at.bucket = take_first ? pair.first() : pair.second();
                at.free_places = take_first ? free_first : free_second;
                at.room = at.free_places != 0;
                at.pairs = i;
            }
            may_follow = may_follow && counter_of(first, h.group()) != 0 && counter_of(second, h.group()) != 0;
        }
        return at;
    }

    /// The free place next to the one the hash prefers, so that a reader's early guess at the cache line is often
    /// right.
    [[nodiscard]] unsigned choose_place(hash_parts h, std::uint64_t bucket, std::uint32_t free_places) const noexcept {
        const std::int64_t offset = view_.preferred_offset(bucket, h);
        const std::uint32_t stride = static_cast<std::uint32_t>(view_.node_bytes);
        const std::uint32_t start = offset <= 0 ? 0 : (static_cast<std::uint32_t>(offset) + stride - 1) / stride;
        const std::uint32_t behind = start < layout::tags_per_line ? free_places >> start << start : 0;
        return static_cast<unsigned>(std::countr_zero(behind != 0 ? behind : free_places));
    }

    result insert_at(const location& at, hash_parts h, const std::byte* key, const std::byte* value) noexcept {
        if (!at.room) return {hash_table_status::full, no_slot};
        std::byte* line = view_.line(at.bucket);
        // Relaxed: nobody else stores to it.
        const std::uint32_t version = load_relaxed<std::uint32_t>(line + layout::line_version_offset);
        if (version % 2 != 0) return broken();  // I3: no update of ours is running
        const unsigned place = choose_place(h, at.bucket, at.free_places);
        const std::uint64_t slot = at.bucket * layout::tags_per_line + place;
        std::byte* node = view_.node_at(at.bucket, place);

        begin(hash_table_intent::insert, slot);  // S0
        change_counters(h, at.pairs, true);      // I1
        // I2, W2: whoever sees a word of the new node sees this version; whoever sees this version sees the tag cleared
        // before it.
        store_release<std::uint32_t>(line + layout::line_version_offset, version + 2);
        copy_to_words(node, 0, key, view_.node.key_bytes());  // I3
        copy_to_words(node, view_.value_offset, value, view_.node.value_bytes());
        set_tag(line, place, h.tag());  // I4, W1
        finish(size_ + 1);              // S1, S2
        return {hash_table_status::inserted, slot};
    }

    /// Replaces the value in a slot that holds `key`.
    [[nodiscard]] hash_table_status assign(std::uint64_t slot, const std::byte* key, const std::byte* value) noexcept {
        const std::uint64_t bucket = slot / layout::tags_per_line;
        std::byte* node = view_.node_at(bucket, place_of(slot));
        const std::size_t bytes = view_.node.value_bytes();
        if (view_.value_offset % 8 + bytes <= 8) {
            copy_to_words(node, view_.value_offset, value, bytes);  // one word, one store
            return hash_table_status::updated;
        }
        std::byte* line = view_.line(bucket);
        std::byte* journal = view_.journal;
        // Relaxed, both: nobody else stores to them.
        const std::uint32_t version = load_relaxed<std::uint32_t>(line + layout::line_version_offset);
        const std::uint64_t sequence = load_relaxed<std::uint64_t>(journal + layout::journal_sequence_offset);
        if (version % 2 != 0 || sequence % 2 != 0) return broken().status;
        store_release<std::uint64_t>(journal + layout::journal_slot_offset, slot);  // J1
        copy_to_words(journal + layout::journal_image_offset, 0, key, view_.node.key_bytes());
        copy_to_words(journal + layout::journal_image_offset, view_.value_offset, value, bytes);
        store_release<std::uint64_t>(journal + layout::journal_sequence_offset, sequence + 1);  // J2, pairs with R3
        store_release<std::uint32_t>(line + layout::line_version_offset, version + 1);          // U1, W2
        copy_to_words(node, view_.value_offset, value, bytes);                                  // U2
        store_release<std::uint32_t>(line + layout::line_version_offset, version + 2);          // U3, W2
        store_release<std::uint64_t>(journal + layout::journal_sequence_offset, sequence + 2);  // J3, pairs with R3
        return hash_table_status::updated;
    }

    /// Counts an entry in, or out of, the buckets it went past: home and both of every pair before its own (I2).
    void change_counters(hash_parts h, std::uint32_t pairs, bool raise) noexcept {
        if (pairs == 0) return;
        const std::uint64_t home = h.home(view_.buckets);
        change_counter(home, h.group(), raise);
        probe_pairs pair(home, h, view_.buckets);
        for (std::uint32_t i = 1; i < pairs; ++i) {
            pair.next();
            change_counter(pair.first(), h.group(), raise);
            change_counter(pair.second(), h.group(), raise);
        }
    }

    void change_counter(std::uint64_t bucket, unsigned group, bool raise) noexcept {
        std::byte* line = view_.line(bucket);
        const std::uint8_t old = counter_of(line, group);
        if (old == layout::counter_max) return;  // sticky: how many there are is not known any more
        if (!raise && old == 0) {
            finder_.latch(errc::corrupt);  // I2 was broken before we came
            return;
        }
        set_counter(line, group, static_cast<std::uint8_t>(raise ? old + 1 : old - 1));
    }

    /// S0. Release orders it before the operation's own stores, for a process that dies at once after any of them.
    void begin(hash_table_intent::operation op, std::uint64_t slot) noexcept {
        store_release<std::uint64_t>(view_.journal + layout::journal_intent_offset,
                                     hash_table_intent::encode(op, slot, size_));
    }
    /// S1 and S2. Release: the size never runs ahead of the tag, nor the cleared intent ahead of the size.
    void finish(std::uint64_t size) noexcept {
        size_ = size;
        store_release<std::uint64_t>(view_.journal + layout::journal_size_offset, size);
        store_release<std::uint64_t>(view_.journal + layout::journal_intent_offset, 0);
    }

    result broken() const noexcept {
        finder_.latch(errc::corrupt);
        return {hash_table_status::corrupt, no_slot};
    }

    view view_;
    hash_table_finder<Node, Match> finder_;
    std::uint64_t size_ = 0;
};

}  // namespace detail
}  // namespace holdfast
