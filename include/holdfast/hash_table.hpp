// SPDX-License-Identifier: Apache-2.0
// hash_table.hpp - a map from fixed-size keys to fixed-size values in shared memory: one writer, any number of readers.
//
//     auto sessions = holdfast::hash_table<std::uint64_t, session>::create("sessions", {.capacity = 1'000'000});
//     sessions.insert_or_assign(42, {.user = 7});
//
//     // in any other process, with read permission only
//     auto view = holdfast::hash_table_reader<std::uint64_t, session>::attach("sessions");
//     if (auto s = view.find(42)) use(s->user);
//
// Shape:   the number of entries is fixed at creation (hash_table/growing.hpp changes it). Entries never move: a slot
//          is a handle for the life of its entry. 2.5 bytes beside each 16-byte slot; 99 % of the slots are usable,
//          also under endless insert and erase.
// Layout:  layout/hash_table_layout.hpp. Invariants, order of stores and crash table: hash_table/mutate.hpp.
// Threads: one writer object, used by one thread at a time; readers anywhere, at any time, on read-only mappings.
//          Readers register nothing and never wait for the writer, be it alive, stopped or dead.
// Crash:   the writer may be killed at any instruction. Each operation has then happened or not; no reader sees a torn
//          or lost value; the next attach finishes what was under way at the cost of one journal.
// Values:  up to 8 bytes are replaced by one store. Wider ones go through the journal and never show a mixture.
// Run-time types, for programs that know no C++ type: hash_table/dynamic.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "holdfast/hash_table/changes.hpp"
#include "holdfast/hash_table/queries.hpp"
#include "holdfast/hash_table/result.hpp"

namespace holdfast {

/// Reads a table. V may be an earlier version of the stored value: the same fields without the last ones.
template <record_key K, record V>
class hash_table_reader : public detail::hash_table_queries<hash_table_reader<K, V>, K, V> {
    static_assert(!std::is_array_v<K> && !std::is_array_v<V>, "wrap the array in a struct, or use std::array");

 public:
    /// Attaches to a table by name, or by passed descriptors. Needs read permission only.
    /// Throws: what segment::attach throws, kind_mismatch, version_mismatch, geometry_mismatch, schema_mismatch.
    [[nodiscard]] static hash_table_reader attach(std::string_view uri, const attach_options& options = {}) {
        return hash_table_reader(segment::attach_read_only(uri, options));
    }
    [[nodiscard]] static hash_table_reader attach(const segment_descriptors& descriptors,
                                                  const attach_options& options = {}) {
        return hash_table_reader(segment::attach_read_only(descriptors, options));
    }
    /// Reads through a mapping that is there already, and keeps it.
    explicit hash_table_reader(std::shared_ptr<const holdfast::segment> mapping)
        : segment_(std::move(mapping)), geometry_(detail::geometry_of(*segment_)) {
        detail::require_schema(*segment_, geometry_, detail::schema_of_types<K, V>("key", "value"), access::read_only);
        finder_ = finder(typename finder::view(segment_->bytes(), geometry_, {}));
    }

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }
    [[nodiscard]] const layout::hash_table_geometry& geometry() const noexcept { return geometry_; }

 private:
    using finder = detail::hash_table_finder<detail::fixed_node<K, V>>;
    friend detail::hash_table_queries<hash_table_reader, K, V>;
    friend growing_hash_table_reader<K, V>;
    [[nodiscard]] const finder& finder_for_queries() const noexcept { return finder_; }
    [[nodiscard]] std::shared_ptr<const void> mapping_for_queries() const noexcept { return segment_; }

    std::shared_ptr<const holdfast::segment> segment_;
    layout::hash_table_geometry geometry_;
    finder finder_;
};

/// Writes a table, and reads it. Holds the segment's lease. Move-only. The policy is chosen when a table is made, and
/// every handle must name it: writers::many is hash_table/many.hpp.
template <record_key K, record V, writers Policy = writers::one>
class hash_table : public detail::hash_table_queries<hash_table<K, V>, K, V>,
                   public detail::hash_table_changes<hash_table<K, V>, K, V> {
    static_assert(Policy == writers::one, "include holdfast/hash_table/many.hpp for a table of many writers");
    static_assert(!std::is_array_v<K> && !std::is_array_v<V>, "wrap the array in a struct, or use std::array");

 public:
    using result = hash_table_result;

    /// Makes an empty table. Throws: invalid_argument, and what segment::create throws (already_exists, no_space, ...).
    [[nodiscard]] static hash_table create(std::string_view uri, const hash_table_options& options) {
        return hash_table(std::make_shared<holdfast::segment>(detail::create_hash_table(
            uri, options, detail::schema_of_types<K, V>(options.key_name, options.value_name))));
    }
    /// Becomes the writer of an existing table: takes the lease and finishes what the last writer was killed in.
    /// Throws: writer_alive, and what hash_table_reader::attach throws; geometry_mismatch if the table is one of many
    /// writers. Cost: one journal, whatever the capacity.
    [[nodiscard]] static hash_table attach(std::string_view uri, const attach_options& options = {}) {
        return hash_table(std::make_shared<holdfast::segment>(segment::attach(uri, access::read_write, options)));
    }
    [[nodiscard]] static hash_table attach(const segment_descriptors& descriptors, const attach_options& options = {}) {
        return hash_table(
            std::make_shared<holdfast::segment>(segment::attach(descriptors, access::read_write, options)));
    }
    hash_table(hash_table&&) noexcept = default;
    hash_table& operator=(hash_table&&) noexcept = default;
    hash_table(const hash_table&) = delete;
    hash_table& operator=(const hash_table&) = delete;
    ~hash_table() = default;

    /// A reader on this very mapping, for other threads. It keeps the mapping, and with it the lease, until it goes.
    [[nodiscard]] hash_table_reader<K, V> make_reader() const { return hash_table_reader<K, V>(segment_); }

    /// Adds an entry unless the key is there. Returns: ok, exists, full, read_only or corrupt.
    result try_insert(const K& key, const V& value) noexcept {
        return mutate([&] { return mutator_.try_insert(detail::bytes_of(key), detail::bytes_of(value)); });
    }
    /// Gives the key this value, new or not. Returns: ok (inserted or updated), full, read_only or corrupt.
    result insert_or_assign(const K& key, const V& value) noexcept {
        return mutate([&] { return mutator_.insert_or_assign(detail::bytes_of(key), detail::bytes_of(value)); });
    }
    /// Replaces the value of a key that is there. Returns: ok, not_found, read_only or corrupt.
    result update(const K& key, const V& value) noexcept {
        return mutate([&] { return mutator_.update(detail::bytes_of(key), detail::bytes_of(value)); });
    }
    /// Removes the key's entry. Returns: ok, not_found, read_only or corrupt.
    result erase(const K& key) noexcept {
        return mutate([&] { return mutator_.erase(detail::bytes_of(key)); });
    }
    /// Makes all overflow counters exact: after years of churn, or kills, it saves some misses their second probe.
    /// Returns: how many were off. Throws: read_only, std::bad_alloc. Cost: a scan over all entries.
    std::uint64_t recount() {
        if (!segment_->writable())
            throw error(errc::read_only, segment_->uri(), "the handle was inherited by fork; attach in this process");
        return detail::recount(mutator_.bytes());
    }

    /// What attach() found and finished.
    [[nodiscard]] const hash_table_recovery& recovery() const noexcept { return recovery_; }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }
    [[nodiscard]] const layout::hash_table_geometry& geometry() const noexcept { return geometry_; }

 private:
    using node = detail::fixed_node<K, V>;
    using mutator = detail::hash_table_mutator<node>;
    friend detail::hash_table_queries<hash_table, K, V>;
    friend detail::hash_table_changes<hash_table, K, V>;
    friend detail::table_growth<hash_table>;
    [[nodiscard]] const auto& finder_for_queries() const noexcept { return mutator_.finder(); }
    [[nodiscard]] std::shared_ptr<const void> mapping_for_queries() const noexcept { return segment_; }

    explicit hash_table(std::shared_ptr<holdfast::segment> mapping)
        : segment_(std::move(mapping)), geometry_(detail::geometry_of(*segment_)) {
        detail::require_schema(*segment_, geometry_, detail::schema_of_types<K, V>("key", "value"), access::read_write);
        detail::require_policy(*segment_, writers::one);
        const typename mutator::view view(segment_->body(), geometry_, {});
        recovery_ = detail::recover(view);
        mutator_ = mutator(view);
    }

    template <class Operation>
    result mutate(Operation&& operation) noexcept {
        if (!segment_->writable()) return {outcome::read_only};
        return detail::result_of(operation());
    }
    template <class Decide>
    result change_by(const K& key, Decide&& decide) noexcept(noexcept(decide(std::declval<V&>()))) {
        return detail::change_entry(*this, finder_for_queries(), key, std::forward<Decide>(decide));
    }

    std::shared_ptr<holdfast::segment> segment_;
    layout::hash_table_geometry geometry_;
    hash_table_recovery recovery_;
    mutator mutator_;
};

}  // namespace holdfast
