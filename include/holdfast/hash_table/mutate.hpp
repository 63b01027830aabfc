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
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "holdfast/detail/prefetch.hpp"
#include "holdfast/hash_table/digest.hpp"
#include "holdfast/hash_table/find.hpp"
#include "holdfast/hash_table/intent.hpp"
#include "holdfast/outcome.hpp"

namespace holdfast {

namespace detail {

/// Copies word `i` of a node from an image of it.
inline void copy_word(std::byte* node, const std::byte* image, std::size_t i) noexcept {
    store_release<std::uint64_t>(node + 8 * i, load_relaxed<std::uint64_t>(image + 8 * i));  // relaxed: our own
}
/// Copies the words that an update may change. A word shared with the key has the same key.
template <class Node>
inline void copy_value_words(const table_view<std::byte, Node>& view, std::byte* node,
                             const std::byte* image) noexcept {
    for (std::size_t i = view.value_word; i < view.value_end; ++i) copy_word(node, image, i);
}

/// What is to be done with an entry.
enum class table_change : std::uint8_t { none, store, erase };

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
          // Relaxed: nobody else stores to it. Whatever the bytes say, only the count goes on.
          next_(hash_table_intent{load_relaxed<std::uint64_t>(v.journal + layout::journal_intent_offset)}.next(
              hash_table_intent::none, 0, size_)) {}

    /// Adds an entry unless the key is there.
    result try_insert(const std::byte* key, const std::byte* value) noexcept {
        const kept_key<Node> k(key);
        const kept_value<Node> v(value);
        const hash_parts h = view_.hash(k.data());
        location at;
        if (look_home(h, at) && at.places == 0 && is_new_at_home(h, at)) [[likely]]
            return insert_here<known_words>(at, h, k.data(), v.data());
        const kept_key<Node> same_key = k;
        const kept_value<Node> same_value = v;
        return try_insert_anywhere(h, same_key.data(), same_value.data());
    }

    /// Adds an entry, or gives the existing one a new value.
    result insert_or_assign(const std::byte* key, const std::byte* value) noexcept {
        const kept_key<Node> k(key);
        const kept_value<Node> v(value);
        const hash_parts h = view_.hash(k.data());
        location at;
        if (look_home(h, at)) [[likely]] {
            if (at.places == 0) {
                if (is_new_at_home(h, at)) [[likely]]
                    return insert_here<known_words>(at, h, k.data(), v.data());
            } else if (is_first_of<known_words>(k.data(), at)) {
                return assign<known_words>(at, k.data(), v.data());
            }
        }
        const kept_key<Node> same_key = k;
        const kept_value<Node> same_value = v;
        return insert_or_assign_anywhere(h, same_key.data(), same_value.data());
    }

    /// Gives an existing entry a new value.
    result update(const std::byte* key, const std::byte* value) noexcept {
        const kept_key<Node> k(key);
        const kept_value<Node> v(value);
        const hash_parts h = view_.hash(k.data());
        location at;
        if (look_home(h, at) && is_first_of<known_words>(k.data(), at)) [[likely]]
            return assign<known_words>(at, k.data(), v.data());
        const kept_key<Node> same_key = k;
        const kept_value<Node> same_value = v;
        return update_anywhere(h, same_key.data(), same_value.data());
    }

    /// Removes an entry.
    result erase(const std::byte* key) noexcept {
        const kept_key<Node> k(key);
        const hash_parts h = view_.hash(k.data());
        location at;
        if (look_home(h, at) && is_first_of<known_words>(k.data(), at)) [[likely]]
            return erase_at<known_words>(at, h);
        const kept_key<Node> same_key = k;
        return erase_anywhere(h, same_key.data());
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
        std::uint16_t tag = 0;          // of the key
        std::uint64_t fraction = 0;     // home_place's, if not found
        std::uint32_t places = 0;       // of the home bucket, that carry the tag
        std::byte* line = nullptr;      // of the bucket
        std::uint32_t version = 0;      // of the bucket, if not found
    };

    // Nearly every operation is told all by its key's home bucket. These steps are in line, know the size of a node
    // where the compiler does, and call nobody but in their last instruction; whatever they cannot tell goes the long
    // way, which begins anew.

    /// Words of a node where the compiler knows them and they are few; else 0, which is said of any.
    static constexpr std::size_t known_words = [] {
        if constexpr (requires { Node::words; })
            return Node::words <= 8 ? Node::words : 0;
        else
            return 0;
    }();
    /// The geometry was checked, but a node may be longer than its key and value need.
    [[nodiscard]] bool has_known_words() const noexcept { return known_words == 0 || view_.node_words == known_words; }
    template <std::size_t Words>
    [[nodiscard]] std::uint64_t bytes_of_node() const noexcept {
        return Words == 0 ? view_.node_bytes : 8 * Words;
    }
    template <std::size_t Words>
    [[nodiscard]] std::byte* node_of(std::uint64_t slot) const noexcept {
        return view_.nodes + slot * bytes_of_node<Words>();
    }

    /// Looks at the home bucket. Returns: whether that can tell anything of this key.
    [[nodiscard, gnu::always_inline]] bool look_home(hash_parts h, location& at) const noexcept {
        if (!has_known_words() || !h.has_plain_tag()) [[unlikely]]
            return false;
        const home_place home = view_.home_of(h);
        view_.prefetch_preferred(home);
        at.bucket = home.bucket;
        at.fraction = home.fraction;
        at.line = view_.line(home.bucket);
        at.tag = h.low();
        at.places = match_tags<Match>(at.line, at.tag, view_.vectors);
        return true;
    }
    /// Whether the key lies in the first of the places seen.
    template <std::size_t Words>
    [[nodiscard, gnu::always_inline]] bool is_first_of(const std::byte* key, location& at) const noexcept {
        if (at.places == 0) return false;
        at.place = static_cast<unsigned>(std::countr_zero(at.places));
        at.slot = at.bucket * layout::tags_per_line + at.place;
        at.found = equal_words(node_of<Words>(at.slot), key, view_.node.key_bytes());
        return at.found;
    }
    /// Whether a key whose tag is not in its home bucket is nowhere, and has room there.
    [[nodiscard, gnu::always_inline]] bool is_new_at_home(hash_parts h, location& at) const noexcept {
        at.free_places = match_tags<Match>(at.line, layout::tag_free, view_.vectors);
        at.room = at.free_places != 0;
        at.version = version_to_change(at.line);
        return at.room && nothing_went_past(at.line, h.hash) && at.version % 2 == 0;
    }

    [[gnu::noinline]] result try_insert_anywhere(hash_parts h, const std::byte* key, const std::byte* value) noexcept {
        const location at = locate(h, key);
        if (at.found) return {outcome::exists, entry_change::none, at.slot};
        return insert_at(at, h, key, value);
    }
    [[gnu::noinline]] result insert_or_assign_anywhere(hash_parts h, const std::byte* key,
                                                       const std::byte* value) noexcept {
        const location at = locate(h, key);
        if (at.found) return assign_any(at, key, value);
        return insert_at(at, h, key, value);
    }
    [[gnu::noinline]] result update_anywhere(hash_parts h, const std::byte* key, const std::byte* value) noexcept {
        const location at = locate(h, key);
        if (!at.found) return {outcome::not_found};
        return assign_any(at, key, value);
    }
    [[gnu::noinline]] result erase_anywhere(hash_parts h, const std::byte* key) noexcept {
        const location at = locate(h, key);
        if (!at.found) return {outcome::not_found};
        return erase_at<0>(at, h);
    }

    [[nodiscard]] bool search(std::uint64_t bucket, std::uint16_t tag, const std::byte* key,
                              location& at) const noexcept {
        for (std::uint32_t places = match_tags<Match>(view_.line(bucket), tag, view_.vectors); places != 0;
             places &= places - 1) {
            const unsigned place = static_cast<unsigned>(std::countr_zero(places));
            if (!equal_words(view_.node_at(bucket, place), key, view_.node.key_bytes())) continue;
            at.found = true;
            at.bucket = bucket;
            at.line = view_.line(bucket);
            at.place = place;
            at.slot = bucket * layout::tags_per_line + place;
            return true;
        }
        return false;
    }

    /// Finds the key, or else the best free place for it: home; then, in the first pair with room, the emptier bucket.
    [[nodiscard]] location locate(hash_parts h, const std::byte* key) const noexcept {
        location at;
        const home_place home = view_.home_of(h);
        view_.prefetch_preferred(home);
        at.tag = h.tag();
        at.fraction = home.fraction;
        if (search(home.bucket, at.tag, key, at)) return at;
        at.bucket = home.bucket;
        at.line = view_.line(home.bucket);
        at.free_places = match_tags<Match>(at.line, layout::tag_free, view_.vectors);
        at.room = at.free_places != 0;
        const bool may_follow = counter_of(at.line, h.group()) != 0;
        if (at.room && !may_follow) return at;
        return locate_in_pairs(h, key, home.bucket, may_follow, at);
    }

    template <std::size_t Words>
    [[gnu::always_inline]] result erase_at(const location& at, hash_parts h) noexcept {
        std::byte* digest = view_.digest_of(at.bucket);
        const std::byte* node = node_of<Words>(at.slot);
        const std::uint64_t terms = Words == 0 ? digest_node(view_, node) : digest_words(view_, node, node, 0, Words);
        const std::uint64_t base = stored(digest) - terms;
        const running now = begin(hash_table_intent::erase, at.slot, base);  // D0, S0
        promise(now, base);                                                  // D1
        set_tag(at.line, at.place, layout::tag_free);                        // E1, W1
        store_release<std::uint64_t>(digest, base);                          // D2
        if (at.pairs != 0) change_counters(h, at.pairs, false);              // E2
        if constexpr (Sharing == sharing::none)
            finish(now, now.size - (now.size != 0 ? 1 : 0), now.size != 0);  // S1, S2
        else
            finish(now, now.size - 1, true);  // modulo 2^64: another writer may have counted the entry in
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
            if (may_follow && (search(pair.first(), at.tag, key, at) || search(pair.second(), at.tag, key, at))) {
                at.pairs = i;
                return at;
            }
            if (!at.room) {
                const std::uint32_t free_first = match_tags<Match>(first, layout::tag_free, view_.vectors);
                const std::uint32_t free_second = match_tags<Match>(second, layout::tag_free, view_.vectors);
                const bool take_first = std::popcount(free_first) >= std::popcount(free_second);
                at.bucket = take_first ? pair.first() : pair.second();
                at.line = view_.line(at.bucket);
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
    template <std::size_t Words>
    [[nodiscard, gnu::always_inline]] unsigned choose_place(const location& at) const noexcept {
        constexpr std::uint64_t whole = Words != 0 && 8 % Words == 0 ? 8 / Words : 1;
        const std::uint64_t width = Words == 0 ? view_.slots_per_line : whole;
        const std::uint64_t first = at.bucket * layout::tags_per_line;
        // Turned so that the places from the beginning of a line on come first; it may lie in the bucket before.
        const std::uint64_t free = at.free_places;
        const auto turned = [&](std::uint64_t by) { return free >> (by & 63) | free << (-by & 63); };
        const std::uint64_t wanted = first + home_place{at.bucket, at.fraction}.preferred(),
                            line = wanted & (0 - width);
        // Without branches: at the fills of a table in use nobody can foretell them.
        const std::uint64_t here = turned(line - first) & ((std::uint64_t{1} << width) - 1);
        const std::uint64_t none_here = (here - 1) >> 63;
        const std::uint64_t from = (line & ~(none_here * width)) - first;
        return static_cast<unsigned>(from + static_cast<unsigned>(std::countr_zero(turned(from)))) % 64;
    }

    result insert_at(location at, hash_parts h, const std::byte* key, const std::byte* value) noexcept {
        if (!at.room) return {outcome::full};
        at.version = version_to_change(at.line);
        if (at.version % 2 != 0) return broken();  // I3: no update of ours is running
        return insert_here<0>(at, h, key, value);
    }

    [[nodiscard]] static std::uint32_t version_to_change(const std::byte* line) noexcept {
        return load_relaxed<std::uint32_t>(line + layout::line_version_offset);  // relaxed: nobody else stores to it
    }

    /// Requires: room; an even version.
    template <std::size_t Words>
    [[gnu::always_inline]] result insert_here(const location& at, hash_parts h, const std::byte* key,
                                              const std::byte* value) noexcept {
        const unsigned place = choose_place<Words>(at);
        const std::uint64_t slot = at.bucket * layout::tags_per_line + place;
        std::byte* node = node_of<Words>(slot);

        std::byte* digest = view_.digest_of(at.bucket);
        const std::uint64_t base = stored(digest);
        const running now = begin(hash_table_intent::insert, slot, base);  // D0, S0
        if (at.pairs != 0) change_counters(h, at.pairs, true);             // I1
        // I2, W2: whoever sees a word of the new node sees this version; whoever sees this version sees the tag cleared
        // before it.
        store_release<std::uint32_t>(at.line + layout::line_version_offset, at.version + 2);
        const std::uint64_t next = base + store_node<Words>(node, slot, key, value);  // I3
        promise(now, next);                                                           // D1
        set_tag(at.line, place, at.tag);                                              // I4, W1
        store_release<std::uint64_t>(digest, next);                                   // D2
        finish(now, now.size + 1, true);                                              // S1, S2
        return {outcome::ok, entry_change::inserted, slot};
    }

    /// Replaces the value of an entry whose key is `key`.
    template <std::size_t Words>
    [[nodiscard, gnu::always_inline]] result assign(const location& at, const std::byte* key,
                                                    const std::byte* value) noexcept {
        if (view_.value_at() % 8 + view_.node.value_bytes() > 8) return assign_wide<Words>(at, key, value);
        std::byte* digest = view_.digest_of(at.bucket);
        std::byte* word = node_of<Words>(at.slot) + view_.value_at() / 8 * 8;
        const std::uint64_t multiplier = digest_multiplier(static_cast<std::uint64_t>(word - view_.nodes));
        std::uint64_t changed = load_relaxed<std::uint64_t>(word);  // relaxed: nobody else stores to it
        const std::uint64_t base = stored(digest) - digest_term(changed, multiplier);
        std::memcpy(reinterpret_cast<std::byte*>(&changed) + view_.value_at() % 8, value, view_.node.value_bytes());
        const std::uint64_t next = base + digest_term(changed, multiplier);
        const running now = begin(hash_table_intent::update, at.slot, base);  // D0, S0
        promise(now, next);                                                   // D1
        store_release<std::uint64_t>(word, changed);                          // U0
        store_release<std::uint64_t>(digest, next);                           // D2
        finish(now);                                                          // S2
        return {outcome::ok, entry_change::updated, at.slot};
    }

    /// The same, whatever is known of the words.
    [[nodiscard]] result assign_any(const location& at, const std::byte* key, const std::byte* value) noexcept {
        return has_known_words() ? assign<known_words>(at, key, value) : assign<0>(at, key, value);
    }

    /// The same for a value of several words. Apart, so that its registers are not saved for the narrow ones.
    template <std::size_t Words>
    [[nodiscard, gnu::noinline]] result assign_wide(const location& at, const std::byte* key,
                                                    const std::byte* value) noexcept {
        const std::uint64_t slot = at.slot;
        std::byte* node = node_of<Words>(slot);
        std::byte* digest = view_.digest_of(at.bucket);
        std::byte* line = view_.line(at.bucket);
        std::byte* journal = view_.journal;
        std::byte* image = journal + layout::journal_image_offset;
        // Relaxed, both: nobody else stores to them.
        const std::uint32_t version = load_relaxed<std::uint32_t>(line + layout::line_version_offset);
        const std::uint64_t sequence = load_relaxed<std::uint64_t>(journal + layout::journal_sequence_offset);
        if (version % 2 != 0 || sequence % 2 != 0) return broken();
        const std::uint64_t base = stored(digest) - value_terms<Words>(node);
        const running now = begin(hash_table_intent::update, slot, base);           // D0, S0
        store_release<std::uint64_t>(journal + layout::journal_slot_offset, slot);  // J1
        const std::uint64_t next = base + store_image<Words>(image, node, key, value);
        promise(now, next);                                                                     // D1
        store_release<std::uint64_t>(journal + layout::journal_sequence_offset, sequence + 1);  // J2, pairs with R3
        store_release<std::uint32_t>(line + layout::line_version_offset, version + 1);          // U1, W2
        copy_value<Words>(node, image);                                                         // U2
        store_release<std::uint32_t>(line + layout::line_version_offset, version + 2);          // U3, W2
        store_release<std::uint64_t>(digest, next);                                             // D2
        store_release<std::uint64_t>(journal + layout::journal_sequence_offset, sequence + 2);  // J3, pairs with R3
        finish(now);                                                                            // S2
        return {outcome::ok, entry_change::updated, slot};
    }

    /// The words of a value in a node of known size: its last ones, behind the key's.
    template <std::size_t Words>
    static constexpr std::size_t first_of_value = [] {
        if constexpr (Words == 0)
            return std::size_t{0};
        else
            return Node::key_bytes() / 8;
    }();
    template <std::size_t Words>
    using value_words = std::make_index_sequence<Words - first_of_value<Words>>;

    /// The terms of a node's value as it is.
    template <std::size_t Words>
    [[nodiscard, gnu::always_inline]] std::uint64_t value_terms(const std::byte* node) const noexcept {
        if constexpr (Words == 0) {
            return digest_value(view_, node, node);
        } else {
            const std::uint64_t multiplier = digest_multiplier(static_cast<std::uint64_t>(node - view_.nodes));
            return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
                constexpr std::size_t first = first_of_value<Words>;
                return (digest_term(load_relaxed<std::uint64_t>(node + 8 * (first + Index)),  // relaxed: our own
                                    multiplier + 8 * (first + Index) * hash_multipliers[0]) +
                        ...);
            }(value_words<Words>());
        }
    }
    /// Stores the image of the node at `node` with this key and value. Returns: the terms of the value.
    template <std::size_t Words>
    [[gnu::always_inline]] std::uint64_t store_image(std::byte* image, const std::byte* node, const std::byte* key,
                                                     const std::byte* value) const noexcept {
        if constexpr (Words == 0) {
            (void)store_words(image, node, key, value, 0, view_.value_word);
            return store_words(image, node, key, value, view_.value_word, view_.value_end);
        } else {
            const std::uint64_t multiplier = digest_multiplier(static_cast<std::uint64_t>(node - view_.nodes));
            constexpr std::size_t first = first_of_value<Words>;
            (void)store_each<0>(image, multiplier, key, value, std::make_index_sequence<first>());
            return store_each<first>(image, multiplier, key, value, value_words<Words>());
        }
    }
    template <std::size_t Words>
    [[gnu::always_inline]] void copy_value(std::byte* node, const std::byte* image) const noexcept {
        if constexpr (Words == 0) {
            copy_value_words(view_, node, image);
        } else {
            [&]<std::size_t... Index>(std::index_sequence<Index...>) {
                (copy_word(node, image, first_of_value<Words> + Index), ...);
            }(value_words<Words>());
        }
    }

    /// Word `index` of a node with this key and value; bytes that belong to neither are zero.
    [[nodiscard, gnu::always_inline]] std::uint64_t word_of(const std::byte* key, const std::byte* value,
                                                            std::size_t index) const noexcept {
        const std::size_t at = 8 * index, key_end = view_.node.key_bytes();
        const std::size_t value_at = view_.value_at(), value_end = value_at + view_.node.value_bytes();
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

    /// Stores word `index` of such a node at `target`. Returns: its term, at a position with this multiplier.
    [[gnu::always_inline]] std::uint64_t store_word(std::byte* target, const std::byte* key, const std::byte* value,
                                                    std::size_t index, std::uint64_t multiplier) const noexcept {
        const std::uint64_t word = word_of(key, value, index);
        store_release<std::uint64_t>(target + 8 * index, word);
        return digest_term(word, multiplier);
    }
    /// Stores words [from, to) of such a node at `target`. Returns: their terms, as those of the node at `node`.
    [[gnu::noinline]] std::uint64_t store_words(std::byte* target, const std::byte* node, const std::byte* key,
                                                const std::byte* value, std::size_t from,
                                                std::size_t to) const noexcept {
        std::uint64_t multiplier = digest_multiplier(static_cast<std::uint64_t>(node - view_.nodes) + 8 * from);
        std::uint64_t sum = 0;
        for (std::size_t i = from; i < to; ++i, multiplier += 8 * hash_multipliers[0])
            sum += store_word(target, key, value, i, multiplier);
        return sum;
    }
    template <std::size_t Words>
    [[gnu::always_inline]] std::uint64_t store_node(std::byte* node, std::uint64_t slot, const std::byte* key,
                                                    const std::byte* value) const noexcept {
        if constexpr (Words == 0)
            return store_words(node, node, key, value, 0, view_.node_words);
        else
            return store_each<0>(node, digest_multiplier(slot * bytes_of_node<Words>()), key, value,
                                 std::make_index_sequence<Words>());
    }
    /// Words of a node of known size from `First` on, without a loop: which one comes from where is known.
    template <std::size_t First, std::size_t... Index>
    [[gnu::always_inline]] std::uint64_t store_each(std::byte* node, std::uint64_t multiplier, const std::byte* key,
                                                    const std::byte* value,
                                                    std::index_sequence<Index...>) const noexcept {
        return (store_word(node, key, value, First + Index, multiplier + 8 * (First + Index) * hash_multipliers[0]) +
                ... + std::uint64_t{0});
    }

    /// Counts an entry in, or out of, the buckets it went past: home and both of every pair before its own (I2).
    /// Requires: pairs > 0.
    [[gnu::noinline]] void change_counters(hash_parts h, std::uint32_t pairs, bool raise) noexcept {
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

    /// The operation under way: what its stores need of the handle, at hand. The handle itself would be asked again
    /// behind each store, which might have changed it as far as a compiler can tell.
    struct running {
        std::byte* journal;
        std::uint64_t size;  // before it
        hash_table_intent closed;
    };
    /// D0 and S0. Release: base is there when the intent is, and the intent (W4, pairs with R4) before the operation's
    /// own stores, for a process that dies at once after any of them and for readers that verify.
    [[gnu::always_inline]] running begin(hash_table_intent::operation op, std::uint64_t slot,
                                         std::uint64_t base) noexcept {
        const running now{view_.journal, size_, next_.on(slot)};
        store_release<std::uint64_t>(now.journal + layout::journal_base_offset, base);
        store_release<std::uint64_t>(now.journal + layout::journal_intent_offset, now.closed.opened(op).word);
        return now;
    }
    /// D1. Release: it is there when the operation is committed.
    void promise(const running& now, std::uint64_t next) noexcept {
        store_release<std::uint64_t>(now.journal + layout::journal_next_offset, next);
    }
    /// S1 and S2. Release: the size never runs ahead of the tag, nor the closed intent ahead of the size.
    [[gnu::always_inline]] void finish(const running& now, std::uint64_t size, bool changed) noexcept {
        size_ = size;
        next_ = next_.following(changed);
        store_release<std::uint64_t>(now.journal + layout::journal_size_offset, size);
        close(now);
    }
    /// The same where the size stays.
    [[gnu::always_inline]] void finish(const running& now) noexcept {
        next_ = next_.following(false);
        close(now);
    }
    /// S2, W4. Release: whoever sees it sees everything that the operation stored.
    void close(const running& now) noexcept {
        store_release<std::uint64_t>(now.journal + layout::journal_intent_offset, now.closed.word);
    }

    [[gnu::noinline]] result broken() const noexcept {
        finder_.latch(errc::corrupt);
        return {outcome::corrupt};
    }

    view view_;
    hash_table_finder<Node, Match> finder_;

 private:
    std::uint64_t size_ = 0;
    hash_table_intent next_{};  // of the next operation: closed, and without its slot
};

}  // namespace detail
}  // namespace holdfast
