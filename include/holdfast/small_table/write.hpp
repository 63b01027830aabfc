// SPDX-License-Identifier: Apache-2.0
// write.hpp - the one writer of a small table. All it stores are single elements of the array (array/write.hpp), each
// of which a kill leaves done or not done.
//
//   update             entry
//   insert, erase      head: generation odd | entry: the commit | head: generation even
//
// Killed after        readers see                                                        repaired by
//   generation odd    the state before; a key that is not there by looking at all        the next attach: one store
//   entry             the state after; the same                                          the same
//   generation even   the state after                                                    nobody must
// The stores come in this order for everybody: each of them releases (J2, U2 in array/write.hpp), and G1 in find.hpp
// acquires.
//
// The writer knows where its keys lie by a sorted list of its own: an insert into it costs less than to arrange.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "holdfast/array/recover.hpp"
#include "holdfast/array/write.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/record/untrusted.hpp"
#include "holdfast/small_table/arrangement.hpp"
#include "holdfast/small_table/entry.hpp"

namespace holdfast {

/// What the next writer found.
struct small_table_recovery {
    array_recovery array{};     ///< of the last store
    bool change_ended = false;  ///< the last writer was killed while it changed the set of keys
    std::uint64_t doubles = 0;  ///< entries whose key another one has, too: damage. An erase takes all of them
};

namespace detail {

template <record_key K, record V>
class small_table_mutator {
 public:
    using entry = small_table_entry<K, V>;
    using element = fixed_element<entry>;
    using view = array_view<std::byte, element>;

    small_table_mutator() = default;
    /// Requires: this is the only writer, and recover() of the array has run. Throws: bad_alloc.
    explicit small_table_mutator(const view& v) : array_(v), loader_(v.as_const()) {
        keys_.reserve(v.size);
        free_.reserve(v.size);
        // Backwards: the first free place is taken first.
        for (std::uint64_t place = v.size; place-- > 1;) {
            raw_record<entry> copy;
            // Nobody else stores, so an element that does not come to rest is damage; it is neither used nor free.
            if (loader_.load(place, copy.data()) != outcome::ok) continue;
            const entry now = copy.get();
            if (now.state == small_table_used)
                keys_.push_back({word_of_key(now.key), static_cast<std::uint16_t>(place)});
            else
                free_.push_back(static_cast<std::uint16_t>(place));
        }
        std::sort(keys_.begin(), keys_.end(), before);
        for (std::size_t i = 1; i < keys_.size(); ++i) done_.doubles += keys_[i].word == keys_[i - 1].word ? 1 : 0;
        raw_record<entry> head;
        if (loader_.load(0, head.data()) == outcome::ok) generation_ = head.get().state;
        if (is_changing(generation_)) {
            done_.change_ended = true;
            store_generation(generation_ + 1);
        }
    }

    /// Returns: ok, exists or full.
    outcome try_insert(const K& key, const V& value) noexcept {
        return holds(key) ? outcome::exists : insert(key, value);
    }
    /// Returns: ok or full.
    outcome insert_or_assign(const K& key, const V& value) noexcept {
        return holds(key) ? update(key, value) : insert(key, value);
    }
    /// Returns: ok or not_found.
    outcome update(const K& key, const V& value) noexcept {
        const auto at = find_key(key);
        if (at == keys_.end()) return outcome::not_found;
        store(at->place, &key, small_table_used, &value);
        return outcome::ok;
    }
    /// Returns: ok or not_found.
    outcome erase(const K& key) noexcept {
        auto at = find_key(key);
        if (at == keys_.end()) return outcome::not_found;
        store_generation(changing_after(generation_));
        const std::uint64_t word = at->word;
        while (at != keys_.end() && at->word == word) {
            store(at->place, nullptr, small_table_free, nullptr);
            free_.push_back(at->place);
            at = keys_.erase(at);
        }
        store_generation(generation_ + 1);
        return outcome::ok;
    }

    /// A copy of the value. Cost: a binary search.
    [[nodiscard]] std::optional<V> find(const K& key) const noexcept {
        const auto at = find_key(key);
        raw_record<entry> copy;
        if (at == keys_.end() || loader_.load(at->place, copy.data()) != outcome::ok) return std::nullopt;
        return copy.get().value;
    }
    [[nodiscard]] bool holds(const K& key) const noexcept { return find_key(key) != keys_.end(); }
    [[nodiscard]] std::uint64_t size() const noexcept { return keys_.size(); }
    [[nodiscard]] const small_table_recovery& done() const noexcept { return done_; }

 private:
    using list = std::vector<placed_word>;
    [[nodiscard]] static bool before(const placed_word& a, const placed_word& b) noexcept {
        return a.word != b.word ? a.word < b.word : a.place < b.place;
    }
    /// The first place that the key has: the one that readers find.
    [[nodiscard]] typename list::const_iterator find_key(const K& key) const noexcept {
        const placed_word wanted{word_of_key(key), 0};
        const auto at = std::lower_bound(keys_.begin(), keys_.end(), wanted, before);
        return at != keys_.end() && at->word == wanted.word ? at : keys_.end();
    }
    outcome insert(const K& key, const V& value) noexcept {
        if (free_.empty()) return outcome::full;
        const placed_word fresh{word_of_key(key), free_.back()};
        free_.pop_back();
        store_generation(changing_after(generation_));
        store(fresh.place, &key, small_table_used, &value);
        store_generation(generation_ + 1);
        keys_.insert(std::upper_bound(keys_.begin(), keys_.end(), fresh, before), fresh);  // there is room: reserved
        return outcome::ok;
    }
    void store_generation(std::uint64_t generation) noexcept {
        generation_ = generation;
        store(0, nullptr, generation, nullptr);
    }
    /// Zeros where there is no key or value, and between them: what a compiler leaves there is nobody's business.
    void store(std::uint64_t place, const K* key, std::uint64_t state, const V* value) noexcept {
        raw_record<entry> made{};
        if (key != nullptr) std::memcpy(made.data() + offsetof(entry, key), key, sizeof *key);
        std::memcpy(made.data() + offsetof(entry, state), &state, sizeof state);
        if (value != nullptr) std::memcpy(made.data() + offsetof(entry, value), value, sizeof *value);
        array_.store(place, 1, made.data(), sizeof(entry));
    }

    array_mutator<element> array_;
    array_loader<element> loader_;
    list keys_;                        // by word, then by place
    std::vector<std::uint16_t> free_;  // the next one to be used is the last
    std::uint64_t generation_ = 0;
    small_table_recovery done_;
};

}  // namespace detail
}  // namespace holdfast
