// SPDX-License-Identifier: Apache-2.0
// find.hpp - reading a small table beside its writer: by an arrangement of the keys that each reader makes for itself.
//
// A find asks the arrangement (private memory) where the key would lie, loads that entry (array/read.hpp) and compares.
//   The key is there:     the entry was the key's at that moment, whatever the arrangement is of. Nothing else is
//   asked. It is not:            the generation is loaded (G1). If it is the one that the arrangement is of, the key is
//   not in
//                         the table: had it come since, the generation would have been odd before its entry was stored
//                         (I1). If it is another, the keys are arranged anew. If it is odd, the writer is changing the
//                         set of keys, or was killed meanwhile: then every entry is looked at.
// So readers wait for nobody, and what lies in the segment leads nowhere: a place is one of the array's whatever the
// bytes say, and loops are bounded by its size.
//
// Threads: a finder is used by one thread at a time (a find may arrange); any number of finders beside the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "holdfast/array/read.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/record/untrusted.hpp"
#include "holdfast/small_table/arrangement.hpp"
#include "holdfast/small_table/entry.hpp"

namespace holdfast::detail {

template <record_key K, record V>
class small_table_finder {
 public:
    using entry = small_table_entry<K, V>;
    using loader = array_loader<fixed_element<entry>>;

    small_table_finder() = default;
    /// Throws: bad_alloc.
    small_table_finder(const loader& from, std::uint64_t seed)
        : elements_(from), arrangement_(from.bytes().size, seed), words_(from.bytes().size) {}

    /// A find as far as it needs no call: of a table at rest it tells all. For callers who have find() behind it, with
    /// another buffer: then `value` stays in registers. Returns: ok; not_found; contended: find() tells.
    [[nodiscard, gnu::always_inline]] outcome find_at_rest(const K& key, std::byte* value) const noexcept {
        const std::uint64_t word = word_of_key(key);
        bool hit = false;
        const bool whole = elements_.glance(arrangement_.place_of(word), [&](const std::byte* cells) {
            hit = equal_words(cells + offsetof(entry, key), reinterpret_cast<const std::byte*>(&word), sizeof(K)) &&
                  load_acquire<std::uint64_t>(cells + offsetof(entry, state)) == small_table_used;  // as all of R1
            if (hit && value != nullptr) copy_from_words(value, cells, offsetof(entry, value), sizeof(V));
        });
        if (!whole) [[unlikely]]
            return outcome::contended;
        if (hit) return outcome::ok;
        return generation() == arranged_ ? outcome::not_found : outcome::contended;
    }

    /// Copies the key's value to `value`, which may be nullptr. Returns: ok; not_found; contended.
    [[nodiscard, gnu::noinline]] outcome find(const K& key, std::byte* value) noexcept {
        const std::uint64_t word = word_of_key(key);
        for (int attempt = 0; attempt < attempts_max; ++attempt) {
            if (!arrange()) break;
            switch (look(arrangement_.place_of(word), word, value)) {
                case seen::hit: return outcome::ok;
                case seen::contended: return outcome::contended;
                case seen::another: break;
            }
            if (generation() == arranged_) return outcome::not_found;
        }
        return look_at_all(word, value);
    }

    /// The first entry at `place` or behind it, into `copy`: whole in itself; entries that come or go meanwhile may be
    /// met or not. Returns: its place, or the number of elements if there is none. One that cannot be read is passed
    /// over, and noted in `all`.
    [[nodiscard]] std::uint64_t next(std::uint64_t place, raw_record<entry>& copy, outcome& all) const noexcept {
        for (; place < elements_.bytes().size; ++place) {
            const outcome got = elements_.load(place, copy.data());
            if (got != outcome::ok)
                all = got;
            else if (state_in(copy) == small_table_used)
                break;
        }
        return place;
    }
    /// visit(place, entry) for every entry, as next() finds it. Returns: ok, or contended if some could not be read.
    /// Throws: what visit throws.
    template <class Visit>
    outcome visit(Visit&& visit) const {
        outcome all = outcome::ok;
        raw_record<entry> copy;
        for (std::uint64_t at = next(1, copy, all); at < elements_.bytes().size; at = next(at + 1, copy, all))
            visit(at, copy.get());
        return all;
    }

    /// As it is in the head. Acquire: G1, pairs with the store of the head's cell: who sees a store of a change of the
    /// keys sees the generation in front of it, or a later one. One word: it is read without the version of its group,
    /// which only tells whether it may change soon.
    [[nodiscard]] std::uint64_t generation() const noexcept {
        return load_acquire<std::uint64_t>(elements_.bytes().elements + offsetof(entry, state));
    }
    [[nodiscard]] const loader& elements() const noexcept { return elements_; }

 private:
    enum class seen : std::uint8_t { hit, another, contended };
    // Between two attempts the set of keys has changed.
    static constexpr int attempts_max = 8;
    static constexpr std::uint64_t none = ~std::uint64_t{0};  // no generation of a writer's

    [[nodiscard]] static std::uint64_t state_in(const raw_record<entry>& copy) noexcept {
        std::uint64_t state;
        std::memcpy(&state, copy.bytes.data() + offsetof(entry, state), 8);
        return state;
    }
    [[nodiscard]] static std::uint64_t word_in(const raw_record<entry>& copy) noexcept {
        std::uint64_t word = 0;
        std::memcpy(&word, copy.bytes.data() + offsetof(entry, key), sizeof(K));
        return word;
    }

    [[nodiscard]] seen look(std::uint64_t place, std::uint64_t word, std::byte* value) const noexcept {
        raw_record<entry> copy;
        if (elements_.load(place, copy.data()) != outcome::ok) [[unlikely]]
            return seen::contended;
        if (word_in(copy) != word || state_in(copy) != small_table_used) return seen::another;
        if (value != nullptr) std::memcpy(value, copy.bytes.data() + offsetof(entry, value), sizeof(V));
        return seen::hit;
    }

    /// Arranges the keys as they are. Returns: false if there is no use in it: the set of keys is being changed, they
    /// cannot be arranged, or an entry cannot be read.
    [[nodiscard]] bool arrange() noexcept {
        const std::uint64_t now = generation();
        if (now == arranged_) return true;
        if (now == tried_) return false;
        std::size_t count = 0;
        raw_record<entry> copy;
        arranged_ = none;
        for (std::uint64_t place = 1; place < elements_.bytes().size; ++place) {
            if (elements_.load(place, copy.data()) != outcome::ok) return false;
            if (state_in(copy) == small_table_used)
                words_[count++] = {word_in(copy), static_cast<std::uint16_t>(place)};
        }
        // Also of an odd generation: it finds what is there. That a key is not is then said by look_at_all() alone.
        const bool arranged = arrangement_.arrange(std::span(words_).first(count));
        tried_ = now;
        if (!arranged || is_changing(now)) return false;
        // The entries, loaded behind the generation, are of it or of later ones. If any is, the generation is never
        // again the one that the arrangement is said to be of, and no miss goes by it.
        arranged_ = now;
        return true;
    }

    [[nodiscard]] outcome look_at_all(std::uint64_t word, std::byte* value) const noexcept {
        outcome answer = outcome::not_found;
        for (std::uint64_t place = 1; place < elements_.bytes().size; ++place) {
            switch (look(place, word, value)) {
                case seen::hit: return outcome::ok;
                case seen::contended: answer = outcome::contended; break;
                case seen::another: break;
            }
        }
        return answer;
    }

    loader elements_;
    key_arrangement arrangement_;
    std::uint64_t arranged_ = none;  // while this is the generation, all keys are in the arrangement
    std::uint64_t tried_ = none;     // one that was odd, or whose keys cannot be arranged
    std::vector<placed_word> words_;
};

}  // namespace holdfast::detail
