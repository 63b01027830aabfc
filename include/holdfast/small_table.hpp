// SPDX-License-Identifier: Apache-2.0
// small_table.hpp - a few hundred scalar keys that seldom change, and their values: one writer, any number of readers.
//
//     auto limits = holdfast::small_table<std::uint64_t, limit>::create("limits", {.capacity = 300});
//     limits.insert_or_assign(42, {.requests_per_s = 100});
//
//     // in any other process, with read permission only
//     auto view = holdfast::small_table_reader<std::uint64_t, limit>::attach("limits");
//     if (auto l = view.find(42)) use(l->requests_per_s);
//     for (const auto& [key, value] : view) ...
//
// Shape:   an array (array.hpp) of entries, small_table/entry.hpp; every reader hashes the keys perfectly for itself,
// so
//          a find is one multiplication and one entry. Keys of up to 8 bytes; the capacity is fixed at creation, up to
//          4,096, beyond which a hash_table is as fast. Values change at any time; after a change of the set of keys
//          each reader's next miss, or find of what was erased, takes some ten microseconds for 300 keys.
// Threads: one writer object, used by one thread at a time. Any number of readers on read-only mappings, one thread at
//          a time each: copy the reader for another one. Readers register nothing and never wait for the writer, be it
//          alive, stopped or dead.
// Crash:   the writer may be killed at any instruction. Each operation has then happened or not, and no reader sees a
//          torn value. A writer killed while it changed the set of keys leaves misses slow (all entries are looked at)
//          until the next one attaches.
// Errors:  working answers with outcomes; setting up throws `error`.
// The command line and the server show such a segment as the array that it is, entries by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "holdfast/array/attach.hpp"
#include "holdfast/detail/concat.hpp"
#include "holdfast/detail/random_seed.hpp"
#include "holdfast/small_table/find.hpp"
#include "holdfast/small_table/verify.hpp"
#include "holdfast/small_table/write.hpp"

namespace holdfast {

/// How a small table is made.
struct small_table_options {
    std::uint64_t capacity = 0;  ///< keys that it takes, 1 to small_table_capacity_max
    create_options segment{};    ///< mode, owner, pages
};
inline constexpr std::uint64_t small_table_capacity_max = 4096;

namespace detail {

/// The checked geometry of a segment that holds these entries. Throws: as array_reader::attach; geometry_mismatch.
template <record_key K, record V>
[[nodiscard]] layout::array_geometry small_table_geometry_of(const segment& from, access mode) {
    const layout::array_geometry g = array_geometry_of(from);
    require_element(from, g, schema_of<small_table_entry<K, V>>(), mode);
    if (g.size < 2 || g.size > small_table_capacity_max + 1)
        throw error(errc::geometry_mismatch, from.uri(),
                    concat("an array of ", g.size, " elements is no small table, which has 2 to ",
                           small_table_capacity_max + 1, "; attach to it as an array"));
    return g;
}

}  // namespace detail

/// Reads a small table. V may be an earlier version of the stored value: the same fields without the last ones.
/// Threads: a find may arrange the keys, so one thread at a time; copies are independent and share the mapping.
template <record_key K, record V>
class small_table_reader {
    static_assert(sizeof(K) <= 8, "holdfast: a small table has keys of up to 8 bytes; take a hash_table");
    static_assert(!std::is_array_v<K> && !std::is_array_v<V>, "wrap the array in a struct, or use std::array");

 public:
    using key_type = K;
    using mapped_type = V;

    /// Attaches by name, or by passed descriptors. Needs read permission only.
    /// Throws: what segment::attach throws, kind_mismatch, version_mismatch, geometry_mismatch, schema_mismatch.
    [[nodiscard]] static small_table_reader attach(std::string_view uri, const attach_options& options = {}) {
        return small_table_reader(segment::attach_read_only(uri, options));
    }
    [[nodiscard]] static small_table_reader attach(const segment_descriptors& descriptors,
                                                   const attach_options& options = {}) {
        return small_table_reader(segment::attach_read_only(descriptors, options));
    }
    /// Reads through a mapping that is there already, and keeps it.
    explicit small_table_reader(std::shared_ptr<const holdfast::segment> mapping)
        : segment_(std::move(mapping)),
          geometry_(detail::small_table_geometry_of<K, V>(*segment_, access::read_only)),
          finder_(loader(typename loader::view(segment_->bytes(), geometry_, {})),
                  detail::random_seed(segment_->uri())) {}

    /// Returns: a copy of the key's value, never torn; or nothing. Where the difference between "not there" and "could
    /// not be read" matters: the other find.
    /// Cost: one entry; more behind a change of the set of keys (see the top). After a crash of the writer: as before.
    [[nodiscard, gnu::always_inline]] std::optional<V> find(const K& key) noexcept {
        detail::raw_record<V> value;
        const outcome got = finder_.find_at_rest(key, value.data());
        if (got == outcome::ok) [[likely]]
            return value.get();
        if (got == outcome::not_found) return std::nullopt;
        return find_beside_the_writer(key);
    }
    /// The same into `value`. Returns: ok; not_found; or contended: the entry was changed at each of 65,536 attempts
    /// (`value` is unchanged then, as for not_found).
    [[nodiscard, gnu::always_inline]] outcome find(const K& key, V& value) noexcept {
        detail::raw_record<V> copy;
        outcome got = finder_.find_at_rest(key, copy.data());
        if (got == outcome::contended) [[unlikely]]
            return find_beside_the_writer(key, value);
        if (got == outcome::ok) value = copy.get();
        return got;
    }
    [[nodiscard]] bool contains(const K& key) noexcept {
        const outcome got = finder_.find_at_rest(key, nullptr);
        return (got == outcome::contended ? finder_.find(key, nullptr) : got) == outcome::ok;
    }

    /// visit(const K&, const V&) for every entry, each whole in itself and as it is then; what comes or goes meanwhile
    /// may be met or not. Returns: ok, or contended if some could not be read. Throws: what visit throws.
    template <class Visit>
    outcome visit(Visit&& visit) const {
        return finder_.visit([&](std::uint64_t, const small_table_entry<K, V>& e) { visit(e.key, e.value); });
    }
    /// An input range over copies of all entries, each a pair of key and value and as visit() has it, in no order of
    /// keys. begin() and ++ throw: contended, where visit() would return it. Requires: this reader outlives the
    /// iterators and is not moved from.
    class iterator;
    [[nodiscard]] iterator begin() const { return iterator(this); }
    [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }
    /// Entries. Cost: looks at all of them.
    [[nodiscard]] std::uint64_t size() const noexcept {
        std::uint64_t count = 0;
        (void)finder_.visit([&](std::uint64_t, const auto&) { ++count; });
        return count;
    }
    [[nodiscard]] std::uint64_t capacity() const noexcept { return geometry_.size - 1; }

    /// Checks every byte that has a meaning; on_finding(const small_table_finding&) -> bool, false stops. Beside a
    /// working writer it reports no false damage. Throws: bad_alloc. Cost: reads every entry some times.
    template <class OnFinding>
    small_table_verification verify(OnFinding&& on_finding) const {
        return detail::verify(finder_, std::forward<OnFinding>(on_finding));
    }
    /// errc::truncated where the truncation guard is on and the memory was cut off.
    [[nodiscard]] std::optional<errc> fault() const noexcept { return segment_->fault(); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }
    [[nodiscard]] const layout::array_geometry& geometry() const noexcept { return geometry_; }

 private:
    using finder = detail::small_table_finder<K, V>;
    using loader = typename finder::loader;

    [[gnu::noinline]] std::optional<V> find_beside_the_writer(const K& key) noexcept {
        detail::raw_record<V> value;
        return finder_.find(key, value.data()) == outcome::ok ? std::optional<V>(value.get()) : std::nullopt;
    }
    [[gnu::noinline]] outcome find_beside_the_writer(const K& key, V& value) noexcept {
        detail::raw_record<V> copy;
        const outcome got = finder_.find(key, copy.data());
        if (got == outcome::ok) value = copy.get();
        return got;
    }

    std::shared_ptr<const holdfast::segment> segment_;
    layout::array_geometry geometry_;
    finder finder_;
};

template <record_key K, record V>
class small_table_reader<K, V>::iterator {
 public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = std::pair<K, V>;
    using difference_type = std::ptrdiff_t;

    iterator() = default;
    explicit iterator(const small_table_reader* of) : of_(of) { ++*this; }

    [[nodiscard]] const value_type& operator*() const noexcept { return *entry_; }
    [[nodiscard]] const value_type* operator->() const noexcept { return &*entry_; }
    iterator& operator++() {
        outcome all = outcome::ok;
        detail::raw_record<small_table_entry<K, V>> copy;
        const std::uint64_t from = std::exchange(place_, of_->finder_.next(place_ + 1, copy, all));
        if (all != outcome::ok) [[unlikely]]
            detail::throw_load(*of_->segment_, all, from + 1, place_ - from, of_->geometry_);
        entry_.reset();
        if (place_ <= of_->capacity()) {
            const small_table_entry<K, V> found = copy.get();
            entry_.emplace(found.key, found.value);
        }
        return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& i, std::default_sentinel_t) noexcept { return !i.entry_.has_value(); }

 private:
    const small_table_reader* of_ = nullptr;
    std::uint64_t place_ = 0;  // of the head, in front of the first entry
    std::optional<value_type> entry_;
};

/// Writes a small table. Holds the segment's lease. Move-only. Its own finds are binary searches: who finds often takes
/// make_reader().
template <record_key K, record V>
class small_table {
    static_assert(sizeof(K) <= 8, "holdfast: a small table has keys of up to 8 bytes; take a hash_table");
    static_assert(!std::is_array_v<K> && !std::is_array_v<V>, "wrap the array in a struct, or use std::array");

 public:
    using key_type = K;
    using mapped_type = V;

    /// Makes an empty table. Throws: invalid_argument, and what segment::create throws (already_exists, no_space, ...).
    [[nodiscard]] static small_table create(std::string_view uri, const small_table_options& options) {
        if (options.capacity == 0 || options.capacity > small_table_capacity_max)
            throw error(errc::invalid_argument, std::string(uri),
                        detail::concat("a small table takes 1 to ", small_table_capacity_max,
                                       " keys; for more a hash_table is as fast"));
        return small_table(std::make_shared<holdfast::segment>(
            detail::create_array(uri, {.size = options.capacity + 1, .segment = options.segment},
                                 {std::nullopt, schema_of<small_table_entry<K, V>>()})));
    }
    /// Becomes the writer of an existing table: takes the lease and finishes what the last writer was killed in.
    /// Throws: writer_alive, and what small_table_reader::attach throws. Cost: looks at all entries.
    [[nodiscard]] static small_table attach(std::string_view uri, const attach_options& options = {}) {
        return small_table(std::make_shared<holdfast::segment>(segment::attach(uri, access::read_write, options)));
    }
    [[nodiscard]] static small_table attach(const segment_descriptors& descriptors,
                                            const attach_options& options = {}) {
        return small_table(
            std::make_shared<holdfast::segment>(segment::attach(descriptors, access::read_write, options)));
    }
    small_table(small_table&&) noexcept = default;
    small_table& operator=(small_table&&) noexcept = default;
    small_table(const small_table&) = delete;
    small_table& operator=(const small_table&) = delete;
    ~small_table() = default;

    /// A reader on this very mapping, for this or another thread. It keeps the mapping, and with it the lease, until it
    /// goes.
    [[nodiscard]] small_table_reader<K, V> make_reader() const { return small_table_reader<K, V>(segment_); }

    /// Adds an entry unless the key is there. Returns: ok, exists, full or read_only. Cost: three stores of the array.
    outcome try_insert(const K& key, const V& value) noexcept {
        return segment_->writable() ? mutator_.try_insert(key, value) : outcome::read_only;
    }
    /// Gives the key this value, new or not. Returns: ok, full or read_only.
    outcome insert_or_assign(const K& key, const V& value) noexcept {
        return segment_->writable() ? mutator_.insert_or_assign(key, value) : outcome::read_only;
    }
    /// Replaces the value of a key that is there: readers see the old or the new one. Returns: ok, not_found or
    /// read_only. Cost: one store of the array.
    outcome update(const K& key, const V& value) noexcept {
        return segment_->writable() ? mutator_.update(key, value) : outcome::read_only;
    }
    /// Changes the value of a key by change(V&). Returns: ok, not_found or read_only. Throws: what change throws;
    /// nothing has changed then.
    template <class Change>
    outcome modify(const K& key, Change&& change) {
        std::optional<V> value = find(key);
        if (!value) return outcome::not_found;
        std::forward<Change>(change)(*value);
        return update(key, *value);
    }
    /// Removes the key's entry. Returns: ok, not_found or read_only.
    outcome erase(const K& key) noexcept { return segment_->writable() ? mutator_.erase(key) : outcome::read_only; }

    /// A copy of the key's value, or nothing. Cost: a binary search.
    [[nodiscard]] std::optional<V> find(const K& key) const noexcept { return mutator_.find(key); }
    [[nodiscard]] bool contains(const K& key) const noexcept { return mutator_.holds(key); }
    [[nodiscard]] std::uint64_t size() const noexcept { return mutator_.size(); }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    [[nodiscard]] std::uint64_t capacity() const noexcept { return geometry_.size - 1; }

    /// What attach() found and finished.
    [[nodiscard]] const small_table_recovery& recovery() const noexcept { return recovery_; }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }
    [[nodiscard]] const layout::array_geometry& geometry() const noexcept { return geometry_; }

 private:
    using mutator = detail::small_table_mutator<K, V>;

    explicit small_table(std::shared_ptr<holdfast::segment> mapping)
        : segment_(std::move(mapping)),
          geometry_(detail::small_table_geometry_of<K, V>(*segment_, access::read_write)) {
        const typename mutator::view view(segment_->body(), geometry_, {});
        const array_recovery finished = detail::recover(view);
        mutator_ = mutator(view);
        recovery_ = mutator_.done();
        recovery_.array = finished;
    }

    std::shared_ptr<holdfast::segment> segment_;
    layout::array_geometry geometry_;
    mutator mutator_;
    small_table_recovery recovery_;
};

}  // namespace holdfast
