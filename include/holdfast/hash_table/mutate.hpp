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
// (I5) A region's digest is the sum of its live nodes (digest.hpp), unless the intent names a slot of it. Then base is
//      the sum without what the operation replaces (all words of that slot, or for an update those of its value), and
//      the digest is the sum before the operation, or next, the sum after it. What an operation adds is made from the
//      caller's bytes, and nothing is summed anew from the table: so no digest ever covers up damage.
//
// Stores of each operation, in order
//   insert  D0 base | S0 intent | I1 counters + 1 | I2 version + 2 | I3 node words | D1 next | I4 tag = commit
//           | D2 digest | S1 size | S2 intent closed
//   erase   D0 base | S0 intent | D1 next | E1 tag 0 = commit | D2 digest | E2 counters - 1 | S1 size
//           | S2 intent closed
//   update  of a value inside one word: D0 base | S0 intent | D1 next | U0 that word = commit | D2 digest
//           | S2 intent closed
//   update  of a wider one: D0 base | S0 intent | J1 image | D1 next | J2 armed = commit | U1 version odd | U2 words
//           | U3 version even | D2 digest | J3 disarmed | S2 intent closed
//
// Synchronisation (store here -> load in find.hpp, or in verify.hpp for W4)
//   W1 tag (I4, E1)        -> R1 match_tags    an entry is seen whole, with the counters that lead to it
//   W2 version (I2, U1)    -> R2 version_of    changed bytes are never accepted under the old version
//   W3 counter (E2)        -> counter_of       lowered only behind the cleared tag
//   J2, J3 sequence, slot  -> R3 copy_value    an odd version leads to the journal of the update that made it odd
//   W4 intent (S0, S2)     -> R4 watch         whoever sees a store of an operation sees its intent, or a later one
//
// Killed after  state                                repaired by
//   D0          nothing happened                     nobody must: base means nothing while no intent is open
//   S0, D1      nothing happened                     intent closed at the next attach
//   I1          counters too high                    nobody must: extra probes for some misses; recount() is exact
//   I2, I3      free slot, new bytes and version     nobody: the slot is free
//   I4, E1      done; size off by one, digest old    both mended at the next attach, by intent, tag and next
//   D2          done; size off by one                the same
//   E2          as D2, some counters too high        as I1
//   U0          done, digest old                     digest = next at the next attach, as base + value gives next
//   J1          nothing happened                     nobody: the journal is not armed
//   J2 to U2    done for readers who meet the odd    replayed at the next attach; until then such a bucket is read
//               version, not yet for the others      through the journal
//   U3 to J3    done                                 replayed once more, same words, where still armed
//   S1          done                                 intent closed at the next attach
// The repairs store in the same manner and may be killed themselves (recover.hpp).
//
// Limit: the version counts changes of one bucket modulo 2^31. A reader stopped in the middle of a copy while exactly
// that many go by could accept a torn value; at ten million inserts a second into one bucket that is 200 seconds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "holdfast/detail/prefetch.hpp"
#include "holdfast/hash_table/digest.hpp"
#include "holdfast/hash_table/find.hpp"
#include "holdfast/hash_table/intent.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

namespace detail {

/// Copies the words that an update may change from an image of a node. A word shared with the key has the same key.
template <class Node>
inline void copy_value_words(const table_view<std::byte, Node>& view, std::byte* node,
                             const std::byte* image) noexcept {
    for (std::size_t i = view.value_word; i < view.value_end; ++i)
        store_release<std::uint64_t>(node + 8 * i, load_relaxed<std::uint64_t>(image + 8 * i));  // relaxed: our own
}

/// Whether a table has one writer, or the caller is one of many and holds the stripes of what it changes.
enum class sharing : std::uint8_t { none, by_stripes };

template <class Node, tag_match Match = tag_match::best, sharing Sharing = sharing::none>
class hash_table_mutator {
 public:
    using view = table_view<std::byte, Node>;
    struct result {
        outcome status = outcome::not_found;
        entry_change what = entry_change::none;
        std::uint64_t slot = no_slot;
    };

    hash_table_mutator() = default;
    /// Requires: this is the only writer, and recover() has run.
    explicit hash_table_mutator(const view& v) noexcept
        : view_(v),
          finder_(v.as_const()),
          size_(counted(v)),
          // Relaxed: nobody else stores to it. Closed, whatever the bytes say: only the count goes on.
          closed_(hash_table_intent{load_relaxed<std::uint64_t>(v.journal + layout::journal_intent_offset)}.closed()) {}

    /// Adds an entry unless the key is there.
    result try_insert(const std::byte* key, const std::byte* value) noexcept {
        const hash_parts h = view_.hash(key);
        const location at = locate(h, key);
        if (at.found) return {outcome::exists, entry_change::none, at.slot};
        return insert_at(at, h, key, value);
    }

    /// Adds an entry, or gives the existing one a new value.
    result insert_or_assign(const std::byte* key, const std::byte* value) noexcept {
        const hash_parts h = view_.hash(key);
        const location at = locate(h, key);
        if (at.found) return assign(at, key, value);
        return insert_at(at, h, key, value);
    }

    /// Gives an existing entry a new value.
    result update(const std::byte* key, const std::byte* value) noexcept {
        const location at = locate(view_.hash(key), key);
        if (!at.found) return {outcome::not_found};
        return assign(at, key, value);
    }

    /// Removes an entry.
    result erase(const std::byte* key) noexcept {
        const hash_parts h = view_.hash(key);
        const location at = locate(h, key);
        if (!at.found) return {outcome::not_found};
        return erase_at(at, h);
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    [[nodiscard]] const hash_table_finder<Node, Match>& finder() const noexcept { return finder_; }
    [[nodiscard]] const view& bytes() const noexcept { return view_; }

 protected:
    struct location {
        bool found = false;
        bool room = false;
        std::uint32_t pairs = 0;        // of the slot's bucket: 0 = home, else the number of the pair it is in
        std::uint64_t bucket = 0;       // of the entry, or with room for it
        unsigned place = 0;             // of the entry, if found
        std::uint64_t slot = no_slot;   // the same
        std::uint32_t free_places = 0;  // in the bucket, if not found
    };

    [[nodiscard]] bool search(std::uint64_t bucket, std::uint16_t tag, const std::byte* key,
                              location& at) const noexcept {
        for (std::uint32_t places = match_tags<Match>(view_.line(bucket), tag, view_.vectors); places != 0;
             places &= places - 1) {
            const unsigned place = static_cast<unsigned>(std::countr_zero(places));
            if (!equal_words(view_.node_at(bucket, place), key, view_.node.key_bytes())) continue;
            at.found = true;
            at.bucket = bucket;
            at.place = place;
            at.slot = bucket * layout::tags_per_line + place;
            return true;
        }
        return false;
    }

    /// Finds the key, or else the best free place for it: home; then, in the first pair with room, the emptier bucket.
    [[nodiscard]] location locate(hash_parts h, const std::byte* key) const noexcept {
        location at;
        const std::uint64_t home = h.home(view_.buckets);
        view_.prefetch_preferred(h);
        if (search(home, h.tag(), key, at)) return at;
        at.bucket = home;
        at.free_places = match_tags<Match>(view_.line(home), layout::tag_free, view_.vectors);
        at.room = at.free_places != 0;
        bool may_follow = counter_of(view_.line(home), h.group()) != 0;
        if (at.room && !may_follow) return at;
        return locate_in_pairs(h, key, home, may_follow, at);
    }

    [[gnu::always_inline]] result erase_at(const location& at, hash_parts h) noexcept {
        std::byte* digest = view_.digest_of(at.bucket);
        const std::byte* node = view_.node_at(at.bucket, at.place);
        const std::uint64_t base = stored(digest) - digest_node(view_, node);
        begin(hash_table_intent::erase, at.slot, base);              // D0, S0
        promise(base);                                               // D1
        set_tag(view_.line(at.bucket), at.place, layout::tag_free);  // E1, W1
        store_release<std::uint64_t>(digest, base);                  // D2
        change_counters(h, at.pairs, false);                         // E2
        if constexpr (Sharing == sharing::none)
            finish(size_ - (size_ != 0 ? 1 : 0));  // S1, S2
        else
            finish(size_ - 1);  // modulo 2^64: another writer may have counted the entry in
        return {outcome::ok, entry_change::erased, at.slot};
    }

    [[nodiscard]] location locate_in_pairs(hash_parts h, const std::byte* key, std::uint64_t home, bool may_follow,
                                           location at) const noexcept {
        probe_pairs pair(home, h, view_.buckets);
        for (std::uint32_t i = 1; i <= view_.pairs_max && (may_follow || !at.room); ++i) {
            pair.next();
            const std::byte* first = view_.line(pair.first());
            const std::byte* second = view_.line(pair.second());
            prefetch(second);
            if (may_follow && (search(pair.first(), h.tag(), key, at) || search(pair.second(), h.tag(), key, at))) {
                at.pairs = i;
                return at;
            }
            if (!at.room) {
                const std::uint32_t free_first = match_tags<Match>(first, layout::tag_free, view_.vectors);
                const std::uint32_t free_second = match_tags<Match>(second, layout::tag_free, view_.vectors);
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

    /// A free place in the cache line that a reader with this hash asks for early, or in the line beside it, which
    /// processors fetch along; else the first behind, or any.
    [[nodiscard]] unsigned choose_place(hash_parts h, std::uint64_t bucket, std::uint32_t free_places) const noexcept {
        const std::uint64_t first = bucket * layout::tags_per_line;
        const std::uint64_t preferred = view_.preferred_slot(h);
        const unsigned wanted = static_cast<unsigned>(preferred % layout::tags_per_line);
        for (const std::uint32_t width : {view_.slots_per_line, 2 * view_.slots_per_line}) {
            const std::uint64_t from = (first + wanted) & ~std::uint64_t{width - 1};  // may lie in the bucket before
            const std::uint32_t line = (std::uint32_t{1} << width) - 1;
            const std::uint32_t places = from < first ? line >> (first - from) : line << (from - first);
            if ((free_places & places) != 0) return static_cast<unsigned>(std::countr_zero(free_places & places));
        }
        const std::uint32_t behind = free_places >> wanted << wanted;
        return static_cast<unsigned>(std::countr_zero(behind != 0 ? behind : free_places));
    }

    result insert_at(const location& at, hash_parts h, const std::byte* key, const std::byte* value) noexcept {
        if (!at.room) return {outcome::full};
        std::byte* line = view_.line(at.bucket);
        // Relaxed: nobody else stores to it.
        const std::uint32_t version = load_relaxed<std::uint32_t>(line + layout::line_version_offset);
        if (version % 2 != 0) return broken();  // I3: no update of ours is running
        const unsigned place = choose_place(h, at.bucket, at.free_places);
        const std::uint64_t slot = at.bucket * layout::tags_per_line + place;
        std::byte* node = view_.node_at(at.bucket, place);

        std::byte* digest = view_.digest_of(at.bucket);
        const std::uint64_t base = stored(digest);
        begin(hash_table_intent::insert, slot, base);  // D0, S0
        change_counters(h, at.pairs, true);            // I1
        // I2, W2: whoever sees a word of the new node sees this version; whoever sees this version sees the tag cleared
        // before it.
        store_release<std::uint32_t>(line + layout::line_version_offset, version + 2);
        const std::uint64_t next = base + store_node(node, node, key, value);  // I3
        promise(next);                                                         // D1
        set_tag(line, place, h.tag());                                         // I4, W1
        store_release<std::uint64_t>(digest, next);                            // D2
        finish(size_ + 1);                                                     // S1, S2
        return {outcome::ok, entry_change::inserted, slot};
    }

    /// Replaces the value of an entry whose key is `key`.
    [[nodiscard]] result assign(const location& at, const std::byte* key, const std::byte* value) noexcept {
        if (view_.value_offset % 8 + view_.node.value_bytes() > 8) return assign_wide(at, key, value);
        std::byte* digest = view_.digest_of(at.bucket);
        std::byte* node = view_.node_at(at.bucket, at.place);
        std::byte* word = node + std::size_t{8} * view_.value_word;
        const std::uint64_t multiplier = digest_multiplier(static_cast<std::uint64_t>(word - view_.nodes));
        std::uint64_t changed = load_relaxed<std::uint64_t>(word);  // relaxed: nobody else stores to it
        const std::uint64_t base = stored(digest) - digest_term(changed, multiplier);
        std::memcpy(reinterpret_cast<std::byte*>(&changed) + view_.value_offset % 8, value, view_.node.value_bytes());
        const std::uint64_t next = base + digest_term(changed, multiplier);
        begin(hash_table_intent::update, at.slot, base);  // D0, S0
        promise(next);                                    // D1
        store_release<std::uint64_t>(word, changed);      // U0
        store_release<std::uint64_t>(digest, next);       // D2
        close();                                          // S2
        return {outcome::ok, entry_change::updated, at.slot};
    }

    /// The same for a value of several words. Apart, so that its registers are not saved for the narrow ones.
    [[nodiscard, gnu::noinline]] result assign_wide(const location& at, const std::byte* key,
                                                    const std::byte* value) noexcept {
        const std::uint64_t slot = at.slot;
        std::byte* node = view_.node_at(at.bucket, at.place);
        std::byte* digest = view_.digest_of(at.bucket);
        std::byte* line = view_.line(at.bucket);
        std::byte* journal = view_.journal;
        std::byte* image = journal + layout::journal_image_offset;
        // Relaxed, both: nobody else stores to them.
        const std::uint32_t version = load_relaxed<std::uint32_t>(line + layout::line_version_offset);
        const std::uint64_t sequence = load_relaxed<std::uint64_t>(journal + layout::journal_sequence_offset);
        if (version % 2 != 0 || sequence % 2 != 0) return broken();
        const std::uint64_t base = stored(digest) - digest_value(view_, node, node);
        begin(hash_table_intent::update, slot, base);                               // D0, S0
        store_release<std::uint64_t>(journal + layout::journal_slot_offset, slot);  // J1
        (void)store_words(image, node, key, value, 0, view_.value_word);
        const std::uint64_t next = base + store_words(image, node, key, value, view_.value_word, view_.value_end);
        promise(next);                                                                          // D1
        store_release<std::uint64_t>(journal + layout::journal_sequence_offset, sequence + 1);  // J2, pairs with R3
        store_release<std::uint32_t>(line + layout::line_version_offset, version + 1);          // U1, W2
        copy_value_words(view_, node, image);                                                   // U2
        store_release<std::uint32_t>(line + layout::line_version_offset, version + 2);          // U3, W2
        store_release<std::uint64_t>(digest, next);                                             // D2
        store_release<std::uint64_t>(journal + layout::journal_sequence_offset, sequence + 2);  // J3, pairs with R3
        close();                                                                                // S2
        return {outcome::ok, entry_change::updated, slot};
    }

    /// Word `index` of a node with this key and value; bytes that belong to neither are zero.
    [[nodiscard]] std::uint64_t word_of(const std::byte* key, const std::byte* value,
                                        std::size_t index) const noexcept {
        const std::size_t at = 8 * index, key_end = view_.node.key_bytes();
        const std::size_t value_at = view_.value_offset, value_end = value_at + view_.node.value_bytes();
        std::uint64_t word = 0;
        // The sizes come first: where they are constants, the compiler leaves impossible copies out and warns of none.
        if (key_end >= 8 && at + 8 <= key_end) {
            std::memcpy(&word, key + at, 8);
        } else if (view_.node.value_bytes() >= 8 && at >= value_at && at + 8 <= value_end) {
            std::memcpy(&word, value + (at - value_at), 8);
        } else {
            std::byte* const bytes = reinterpret_cast<std::byte*>(&word);
            if (at < key_end) std::memcpy(bytes, key + at, key_end - at);
            const std::size_t from = std::max(at, value_at), to = std::min(at + 8, value_end);
            if (from < to) std::memcpy(bytes + (from - at), value + (from - value_at), to - from);
        }
        return word;
    }

    /// Stores words [from, to) of such a node at `target`. Returns: their terms, as those of the node at `node`.
    std::uint64_t store_words(std::byte* target, const std::byte* node, const std::byte* key, const std::byte* value,
                              std::size_t from, std::size_t to) const noexcept {
        std::uint64_t multiplier = digest_multiplier(static_cast<std::uint64_t>(node - view_.nodes) + 8 * from);
        std::uint64_t sum = 0;
        for (std::size_t i = from; i < to; ++i, multiplier += 8 * hash_multipliers[0]) {
            const std::uint64_t word = word_of(key, value, i);
            store_release<std::uint64_t>(target + 8 * i, word);
            sum += digest_term(word, multiplier);
        }
        return sum;
    }
    std::uint64_t store_node(std::byte* target, const std::byte* node, const std::byte* key,
                             const std::byte* value) const noexcept {
        // The commonest size, without a loop.
        if (view_.node_words == 2) return store_words(target, node, key, value, 0, 2);
        return store_words(target, node, key, value, 0, view_.node_words);
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
        if constexpr (Sharing == sharing::by_stripes) {
            if (!change_shared_counter(line, group, raise)) finder_.latch(errc::corrupt);
            return;
        }
        const std::uint8_t old = counter_of(line, group);
        if (old == layout::counter_max) return;  // sticky: how many there are is not known any more
        if (!raise && old == 0) {
            finder_.latch(errc::corrupt);  // I2 was broken before we came
            return;
        }
        set_counter(line, group, static_cast<std::uint8_t>(raise ? old + 1 : old - 1));
    }

    /// The size as this writer counts it.
    [[nodiscard]] std::uint64_t counted(const view& v) const noexcept {
        // Relaxed: only this writer stores to it.
        if constexpr (Sharing == sharing::by_stripes)
            return load_relaxed<std::uint64_t>(v.journal + layout::journal_size_offset);
        else
            return finder_.size();
    }

    [[nodiscard]] static std::uint64_t stored(const std::byte* digest) noexcept {
        return load_relaxed<std::uint64_t>(digest);  // relaxed: nobody else stores to it
    }

    /// D0 and S0. Release: base is there when the intent is, and the intent (W4, pairs with R4) before the operation's
    /// own stores, for a process that dies at once after any of them and for readers that verify.
    void begin(hash_table_intent::operation op, std::uint64_t slot, std::uint64_t base) noexcept {
        const hash_table_intent opened = closed_.next(op, slot, size_);
        closed_ = opened.closed();
        store_release<std::uint64_t>(view_.journal + layout::journal_base_offset, base);
        store_release<std::uint64_t>(view_.journal + layout::journal_intent_offset, opened.word);
    }
    /// D1. Release: it is there when the operation is committed.
    void promise(std::uint64_t next) noexcept {
        store_release<std::uint64_t>(view_.journal + layout::journal_next_offset, next);
    }
    /// S1 and S2. Release: the size never runs ahead of the tag, nor the closed intent ahead of the size.
    void finish(std::uint64_t size) noexcept {
        size_ = size;
        store_release<std::uint64_t>(view_.journal + layout::journal_size_offset, size);
        close();
    }
    /// S2, W4. Release: whoever sees it sees everything that the operation stored.
    void close() noexcept { store_release<std::uint64_t>(view_.journal + layout::journal_intent_offset, closed_.word); }

    result broken() const noexcept {
        finder_.latch(errc::corrupt);
        return {outcome::corrupt};
    }

    view view_;
    hash_table_finder<Node, Match> finder_;

 private:
    std::uint64_t size_ = 0;
    hash_table_intent closed_;  // of the last operation
};

}  // namespace detail
}  // namespace holdfast
