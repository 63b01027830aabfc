// SPDX-License-Identifier: Apache-2.0
// many.hpp - a hash table that any number of processes write at once.
//
//     using counts = holdfast::hash_table<std::uint64_t, hits, holdfast::writers::many>;
//     auto mine = counts::create("hits", {.capacity = 1'000'000});   // in one process
//     auto ours = counts::attach("hits");                            // in any other
//     ours.fetch_add(42, &hits::seen, 1);
//
// Readers are those of every table: hash_table_reader<K, V>, lock-free, on read-only mappings.
// Threads: one writer object is used by one thread at a time; threads and processes have a handle each, which takes one
//          of the table's writer slots. Operations on one key follow each other; each happens at one instant.
// Growth:  any writer may move the table to a larger or smaller one while all go on: grow(). Each of its operations
//          moves a few entries, and the handles go over by themselves. growing_hash_table_reader follows, too. A handle
//          that cannot go over answers nothing, and says `contended`.
// Crash:   a writer may be killed at any instruction. Its operation has then happened or not. Whoever next needs what
//          it held finds that its lock is gone, finishes its operation and goes on; nothing waits for anything else.
// A writer that is stopped, not dead, keeps what it holds. Who needs that gets `contended` after its patience.
// Protocol: hash_table/many_mutate.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "holdfast/detail/spans.hpp"
#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/many_grow.hpp"
#include "holdfast/hash_table/place.hpp"

namespace holdfast {

/// One of many writers of a table. Reads it, too. Move-only.
template <record_key K, record V>
class hash_table<K, V, writers::many> : public detail::hash_table_queries<hash_table<K, V, writers::many>, K, V>,
                                        public detail::hash_table_changes<hash_table<K, V, writers::many>, K, V> {
    static_assert(!std::is_array_v<K> && !std::is_array_v<V>, "wrap the array in a struct, or use std::array");

 public:
    using result = hash_table_result;

    /// Makes an empty table that up to options.writer_slots handles may write at once.
    /// Throws: invalid_argument, and what segment::create throws (already_exists, no_space, ...).
    [[nodiscard]] static hash_table create(std::string_view uri, const hash_table_options& options) {
        attach_options how;  // for the tables that grow out of this one
        how.trust = trust_of_creator(options.segment);
        how.pages = options.segment.pages;
        return hash_table(
            std::make_shared<holdfast::segment>(detail::create_hash_table(
                uri, options, detail::schema_of_types<K, V>(options.key_name, options.value_name), writers::many)),
            how);
    }
    /// Becomes a writer of an existing table, and finishes what dead ones left undone.
    /// Throws: writer_alive where all writer slots are taken (lease_timeout waits for one), geometry_mismatch if the
    /// table is one of a single writer, and what hash_table_reader::attach throws. Cost: a look at each writer slot.
    [[nodiscard]] static hash_table attach(std::string_view uri, const attach_options& options = {}) {
        return hash_table(std::make_shared<holdfast::segment>(segment::attach(uri, access::read_write, options)),
                          options);
    }
    [[nodiscard]] static hash_table attach(const segment_descriptors& descriptors, const attach_options& options = {}) {
        return hash_table(
            std::make_shared<holdfast::segment>(segment::attach(descriptors, access::read_write, options)), options);
    }
    hash_table(hash_table&&) noexcept = default;
    hash_table& operator=(hash_table&&) noexcept = default;
    hash_table(const hash_table&) = delete;
    hash_table& operator=(const hash_table&) = delete;
    ~hash_table() = default;

    /// A reader on this very mapping, for other threads. It keeps the mapping, and until the table grows the writer
    /// slot, until it goes; not the lead of a growth. It does not go over to another generation.
    [[nodiscard]] hash_table_reader<K, V> make_reader() const {
        return hash_table_reader<K, V>(table_.segment_pointer());
    }

    /// Adds an entry unless the key is there. Returns: ok, exists, full, contended, read_only or corrupt.
    /// `full` is what a search found from bucket to bucket, not at one instant.
    result try_insert(const K& key, const V& value) noexcept {
        return mutate(key, [&](mutator& to) { return to.try_insert(detail::bytes_of(key), detail::bytes_of(value)); });
    }
    /// Gives the key this value, new or not. Returns: ok (inserted or updated), full, contended, read_only or corrupt.
    result insert_or_assign(const K& key, const V& value) noexcept {
        return mutate(key,
                      [&](mutator& to) { return to.insert_or_assign(detail::bytes_of(key), detail::bytes_of(value)); });
    }
    /// Replaces the value of a key that is there. Returns: ok, not_found, contended, read_only or corrupt.
    result update(const K& key, const V& value) noexcept {
        return mutate(key, [&](mutator& to) { return to.update(detail::bytes_of(key), detail::bytes_of(value)); });
    }
    /// Adds to a value, or to a member of it: `fetch_add(key, &hits::seen, 1)`. Unsigned numbers wrap.
    /// Returns: the number before; nothing where the key is not there or the operation failed. `*done` says which.
    std::optional<V> fetch_add(const K& key, V amount, result* done = nullptr) noexcept
        requires(std::is_integral_v<V> && !std::is_same_v<V, bool>)
    {
        return add(key, [](V& value) -> V& { return value; }, amount, done);
    }
    template <class Number, class Class>
        requires(std::is_same_v<Class, V> && std::is_integral_v<Number> && !std::is_same_v<Number, bool>)
    std::optional<Number> fetch_add(const K& key, Number Class::* member, std::type_identity_t<Number> amount,
                                    result* done = nullptr) noexcept {
        return add(key, [member](V& value) -> Number& { return value.*member; }, amount, done);
    }
    /// Removes the key's entry. Returns: ok, not_found, contended, read_only or corrupt.
    result erase(const K& key) noexcept {
        return mutate(key, [&](mutator& to) { return to.erase(detail::bytes_of(key)); });
    }

    /// Returns: where the key's entry lies, good until it is erased or the table grows or shrinks, by whomever. A bare
    /// slot does not know of that: behind this handle's going over, which any question and any operation may be, it is
    /// another entry's.
    [[nodiscard]] std::optional<hash_table_place> place_of(const K& key) const noexcept {
        return detail::place_in(*this, this->slot_of(key));
    }
    using detail::hash_table_queries<hash_table<K, V, writers::many>, K, V>::entry_at;
    /// Copies the entry at a place. Returns: ok; not_found: the slot is free; stale: the place is of another
    /// generation, ask place_of() anew; contended or corrupt, as fault() says.
    [[nodiscard]] outcome entry_at(const hash_table_place& place, hash_table_entry<K, V>& entry) const noexcept {
        return detail::entry_at_place(*this, place, entry);
    }

    /// Makes all overflow counters exact; see hash_table<K, V>::recount(). Throws: writer_alive while there is another
    /// writer (later ones are kept out meanwhile), contended from within modify(), read_only, std::bad_alloc.
    std::uint64_t recount() {
        if (!segment().writable())
            throw error(errc::read_only, segment().uri(), "the handle was inherited by fork; attach in this process");
        mutator& writer = table_.current();
        return detail::recount_alone(segment(), writer);
    }

    /// Begins to move the entries to a table of another capacity, larger or smaller, under the same name. Each
    /// operation of this handle that may change the table does a step of it from now on, and so does advance(); the
    /// other writers do what they do in both tables, and go over when it is over. Then each operation and each question
    /// of a handle lets go of 512 KiB of the old table that it had mapped. If this process ends, another writer's
    /// operations go on with it. Throws: contended where a growth is under way, or a writer was stopped in a
    /// change; invalid_argument where more entries are there; unsupported for memory that is neither posix: nor file:;
    /// no_permission to others than the owner and root; no_space; read_only. Cost: some thirty system calls, and each
    /// stripe once.
    void grow(std::uint64_t capacity) { table_.grow(capacity); }
    /// Whether this handle knows of a growth: until the new table has the name, and the memory of the old one has been
    /// let go.
    [[nodiscard]] bool growing() const noexcept { return table_.growing(); }
    /// Does so many steps, and looks first whether there is a growth that nobody goes on with, or one that was given
    /// up. Returns: whether there is more for this handle to do; not while another leads. Who leads, and is to rest,
    /// calls it until it answers false: nobody else leads while this process lives. Cost: a step reserves 256 KiB, or
    /// asks 64 stripes, or sums 256 KiB of entries, or brings the entries of one bucket over, or is the commit, which
    /// closes each stripe while others wait, or lets go of 512 KiB of the old table.
    bool advance(std::uint64_t steps = 1) noexcept { return table_.advance(steps); }
    /// Why the last growth that this handle led was given up, with the table left as it was: no_space, corrupt,
    /// contended, ...
    [[nodiscard]] const std::optional<error>& growth_failure() const noexcept { return table_.growth_failure(); }
    /// Gives up a growth that this handle leads.
    void stop_growing() noexcept { table_.stop_growing(); }

    /// How long an operation waits for a stopped or slow writer before it answers `contended`. 1 s unless set. The step
    /// of a growth behind it waits 20 ms at most, and 64 operations later again. For one that is stopped in the next
    /// generation each writer waits half a second, once: then the growth is given up.
    ///
    /// A writer that was killed is known by the kernel's lock, which goes when its memory has been unmapped: some
    /// 20 ms for each 512 MiB of 4 KiB pages, and behind a core dump. Where that takes longer, more patience helps.
    void set_patience(std::chrono::nanoseconds patience) noexcept {
        table_.current().locks().set_patience(detail::ns_of(patience));
    }
    /// Whom the last `contended` waited for: a living process, or one forked from it and not executed since.
    [[nodiscard]] std::optional<writer_slot_holder> blocked_by() const noexcept {
        const mutator& writer = table_.current();
        const std::optional<std::uint32_t> slot = writer.blocked_by();
        if (!slot) return std::nullopt;
        return writer_slot_holder{*slot, detail::pid_of_writer(writer.bytes(), *slot)};
    }
    /// This handle's writer slot, the same in all generations.
    [[nodiscard]] std::uint32_t writer_slot() const noexcept { return table_.current().writer(); }
    /// How often this handle finished what it found undone by a dead writer on its way.
    [[nodiscard]] std::uint64_t takeovers() const noexcept { return table_.takeovers(); }

    /// What attach() found and finished.
    [[nodiscard]] const hash_table_recovery& recovery() const noexcept { return recovery_; }
    /// These are the newest generation's that the handle has come to.
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *table_.segment_pointer(); }
    [[nodiscard]] const layout::hash_table_geometry& geometry() const noexcept {
        (void)table_.current();
        return table_.geometry();
    }

 private:
    using node = detail::fixed_node<K, V>;
    using mutator = typename detail::many_table<node>::mutator;
    friend detail::hash_table_queries<hash_table, K, V>;
    friend detail::hash_table_changes<hash_table, K, V>;
    [[nodiscard]] const auto& finder_for_queries() const noexcept { return table_.finder_for_queries(); }
    [[nodiscard]] std::shared_ptr<const void> mapping_for_queries() const noexcept { return table_.segment_pointer(); }

    hash_table(std::shared_ptr<holdfast::segment> mapping, const attach_options& options) {
        const layout::hash_table_geometry g = detail::geometry_of(*mapping);
        detail::require_schema(*mapping, g, detail::schema_of_types<K, V>("key", "value"), access::read_write);
        detail::require_policy(*mapping, writers::many);
        recovery_ = table_.join(std::move(mapping), options.trust, options.pages, detail::ns_of(options.lease_timeout));
    }

    template <class Operation>
    result mutate(const K& key, Operation&& operation) {
        if (!segment().writable()) return {outcome::read_only};
        return detail::result_of(table_.run(detail::bytes_of(key), operation));
    }
    template <class Decide>
    result change_by(const K& key, Decide&& decide) noexcept(noexcept(decide(std::declval<V&>()))) {
        return mutate(key, [&](mutator& to) {
            detail::raw_record<V> bytes;
            return to.decide(detail::bytes_of(key), bytes.data(), false, [&](bool) {
                V value = bytes.get();
                const detail::table_change what = decide(value);
                if (what == detail::table_change::store) std::memcpy(bytes.data(), &value, sizeof(V));
                return what;
            });
        });
    }
    template <class Choose, class Number>
    std::optional<Number> add(const K& key, Choose&& choose, Number amount, result* done) noexcept {
        std::optional<Number> before;
        const result r = change_by(key, [&](V& value) noexcept {
            Number& number = choose(value);
            before = number;
            using wrapping = std::make_unsigned_t<Number>;
            number = static_cast<Number>(
                static_cast<wrapping>(static_cast<wrapping>(number) + static_cast<wrapping>(amount)));
            return detail::table_change::store;
        });
        if (done != nullptr) *done = r;
        return r ? before : std::nullopt;
    }

    mutable detail::many_table<node> table_;  // a look may lead to the newest generation
    hash_table_recovery recovery_;
};

}  // namespace holdfast
