// SPDX-License-Identifier: Apache-2.0
// hash_map.hpp - a map from text, bytes or records to values of any size in shared memory: one writer, any number of
// readers; with expiry, eviction, counters and compare-and-set.
//
//     auto cache = holdfast::hash_map<std::string_view>::create("cache", {.capacity = 1'000'000, .evict = true});
//     cache.set("user:7", "some bytes", {.ttl = 10min});
//
//     // in any other process, with read permission only
//     auto view = holdfast::hash_map_reader<std::string_view>::attach("cache");
//     if (auto got = view.find("user:7", buffer)) use(buffer.data(), got.count);
//
// Shape:   a slot for each entry, fixed at creation, and room in equal units of 64 bytes or more for keys and values of
//          any size, none included. Beside key and value: 30 bytes in the table at 90 %, 40 in the store, 8 a unit, and
//          half a unit at the end.
// Handles: each store gives the key another one, which is its version. compare_and_set() takes it.
// Expiry:  in seconds of a clock of the map's own, which goes on over reboots and knows no jumps (hash_map/clock.hpp).
//          After a reboot it is the next writer that lets it go on: until one attaches, readers of a file: map see it
//          stand where it stood, or until the machine is up for longer than it was at the last change.
// Feed:    each change as a message of a broadcast ring, once and in order, also across kills (hash_map/feed.hpp).
// Eviction, where the map is made with it: what was not used for long goes; no set is refused that fits the empty map.
//          Used is what the writer reads, and what a hash_map_registered_reader does; other readers are not seen.
// Layout:  layout/hash_map_layout.hpp. Invariants, order of stores and crash table: hash_map/write.hpp.
// Threads: one writer object, used by one thread at a time; readers anywhere, at any time, on read-only mappings.
//          Readers register nothing and never wait.
// Crash:   the writer may be killed at any instruction. Each operation has then happened or not; but a set that
//          evicts its key's old entry first is two, and may leave neither value. used + free = capacity holds at once;
//          the next attach frees the one entry that may have been left over.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "holdfast/hash_map/attach.hpp"
#include "holdfast/hash_map/feed.hpp"
#include "holdfast/hash_map/queries.hpp"
#include "holdfast/hash_map/registered_reader.hpp"  // IWYU pragma: export
#include "holdfast/hash_map/result.hpp"
#include "holdfast/hash_map/write.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// What a writer works with beside the map.
struct hash_map_services {
    hash_map_clock clock{};         ///< where time comes from
    hash_map_feed* feed = nullptr;  ///< is told each change; must outlive the writer (hash_map/feed.hpp)
};

/// Reads a map.
template <hash_map_key K>
class hash_map_reader : public detail::hash_map_queries<hash_map_reader<K>, K> {
 public:
    /// Attaches to a map by name, or by passed descriptors. Needs read permission only.
    /// Throws: what segment::attach throws, kind_mismatch, version_mismatch, geometry_mismatch, schema_mismatch.
    [[nodiscard]] static hash_map_reader attach(std::string_view uri, const attach_options& options = {},
                                                const hash_map_clock& clock = {}) {
        return hash_map_reader(segment::attach_read_only(uri, options), clock);
    }
    [[nodiscard]] static hash_map_reader attach(const segment_descriptors& descriptors,
                                                const attach_options& options = {}, const hash_map_clock& clock = {}) {
        return hash_map_reader(segment::attach_read_only(descriptors, options), clock);
    }
    /// Reads through a mapping that is there already, and keeps it.
    explicit hash_map_reader(std::shared_ptr<const holdfast::segment> mapping, const hash_map_clock& clock = {})
        : segment_(std::move(mapping)),
          core_(detail::map_reader_core::view(segment_->bytes(), detail::hash_map_geometry_of(*segment_)),
                detail::map_time(clock)) {
        detail::require_map_keys<K>(*segment_);
    }

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

 private:
    friend detail::hash_map_queries<hash_map_reader, K>;
    [[nodiscard]] const detail::map_reader_core& core_for_queries() const noexcept { return core_; }
    [[nodiscard]] std::optional<errc> own_fault() const noexcept { return core_.fault(); }
    static void used(const hash_map_found&) noexcept {}

    std::shared_ptr<const holdfast::segment> segment_;
    detail::map_reader_core core_;
};

/// Writes a map, and reads it. Holds the segment's lease. Move-only: one that was moved from answers read_only to what
/// writes, and must not be asked anything else. The policy is chosen when a map is made, and every writer must name it:
/// writers::many is hash_map/many.hpp.
template <hash_map_key K, writers Policy = writers::one>
class hash_map : public detail::hash_map_queries<hash_map<K>, K> {
    static_assert(Policy == writers::one, "include holdfast/hash_map/many.hpp for a map of many writers");

 public:
    using bytes = std::span<const std::byte>;

    /// Makes an empty map. Throws: invalid_argument, and what segment::create throws (already_exists, no_space, ...).
    [[nodiscard]] static hash_map create(std::string_view uri, const hash_map_options& options,
                                         const hash_map_services& services = {}) {
        return hash_map(detail::create_hash_map(uri, options, detail::map_schema_of<K>(options.key_name)), services,
                        trust_of_creator(options.segment));
    }
    /// Becomes the writer of an existing map: takes the lease and finishes what the last writer was killed in.
    /// Throws: writer_alive, std::bad_alloc (one bit a unit, two with eviction), and what hash_map_reader::attach
    /// throws. Cost: three records, whatever the capacity.
    [[nodiscard]] static hash_map attach(std::string_view uri, const attach_options& options = {},
                                         const hash_map_services& services = {}) {
        return hash_map(segment::attach(uri, access::read_write, options), services, options.trust);
    }
    [[nodiscard]] static hash_map attach(const segment_descriptors& descriptors, const attach_options& options = {},
                                         const hash_map_services& services = {}) {
        return hash_map(segment::attach(descriptors, access::read_write, options), services, options.trust);
    }
    hash_map(hash_map&&) noexcept = default;
    hash_map& operator=(hash_map&&) noexcept = default;
    hash_map(const hash_map&) = delete;
    hash_map& operator=(const hash_map&) = delete;
    ~hash_map() = default;

    /// Gives the key this value, new or not. The old value stays whole for who reads it until the new one is there, but
    /// for one case: a map with eviction in which the two do not fit at once evicts the old one first, and answers ok,
    /// inserted. Returns: ok with the handle, inserted or updated; full (old and new value need room at once, and
    /// nothing may be evicted); too_large, for the whole store; no_memory; collision; read_only; corrupt, also where a
    /// damaged table cannot tell whether the key is there. Unless ok the key stays as it was, but for
    /// no_memory and corrupt in that one case; others may be evicted. After a crash: the key is as it was, or has the
    /// new value, whole; in that one case perhaps neither.
    /// Cost: the copy and its checksum, two commits in the store, one in the table.
    hash_map_result set(const K& key, bytes value, const hash_map_entry_options& how = {}) noexcept {
        return store(key, value, how, {});
    }
    /// Adds an entry unless the key is there. Returns: as set(); exists with the handle that is there.
    hash_map_result insert(const K& key, bytes value, const hash_map_entry_options& how = {}) noexcept {
        return store(key, value, how, {detail::map_condition::absent});
    }
    /// Replaces the value of a key that is there, which is never evicted for it. Returns: as set(); not_found; full, at
    /// once and with nothing evicted, where old and new value do not fit together, whatever else went.
    hash_map_result update(const K& key, bytes value, const hash_map_entry_options& how = {}) noexcept {
        return store(key, value, how, {detail::map_condition::present});
    }
    /// Gives the key this value if it has the handle `expected` now; 0 means that it is not there. Returns: as
    /// update(), but stale with the handle that it has, 0 for none.
    hash_map_result compare_and_set(const K& key, std::uint64_t expected, bytes value,
                                    const hash_map_entry_options& how = {}) noexcept {
        return store(key, value, how, {detail::map_condition::same, expected});
    }
    /// The same with a text for a value.
    hash_map_result set(const K& key, std::string_view value, const hash_map_entry_options& how = {}) noexcept {
        return set(key, bytes_of_text(value), how);
    }
    hash_map_result insert(const K& key, std::string_view value, const hash_map_entry_options& how = {}) noexcept {
        return insert(key, bytes_of_text(value), how);
    }
    hash_map_result update(const K& key, std::string_view value, const hash_map_entry_options& how = {}) noexcept {
        return update(key, bytes_of_text(value), how);
    }
    hash_map_result compare_and_set(const K& key, std::uint64_t expected, std::string_view value,
                                    const hash_map_entry_options& how = {}) noexcept {
        return compare_and_set(key, expected, bytes_of_text(value), how);
    }

    /// Removes the key's entry. Returns: ok; not_found; collision; read_only; corrupt, where a damaged table cannot
    /// tell.
    hash_map_result erase(const K& key) noexcept {
        if (!writable()) return {outcome::read_only};
        return core_->erase(detail::map_key_bytes(key));
    }
    /// The same if it has the handle `expected` now. Returns: as erase(); stale with the handle that it has.
    hash_map_result compare_and_erase(const K& key, std::uint64_t expected) noexcept {
        if (!writable()) return {outcome::read_only};
        return core_->erase(detail::map_key_bytes(key), {detail::map_condition::same, expected});
    }
    /// Adds to the T that begins at byte `offset` of the key's value. The rest of it stays, and its time. Integers
    /// wrap. Returns: ok with what was there before, and the new handle; not_found; out_of_range; full, where there is
    /// no room for a copy (as update()); collision; read_only; corrupt. Cost: an update of a value of that size.
    template <class T>
    hash_map_added<T> fetch_add(const K& key, std::uint64_t offset, std::type_identity_t<T> addend) noexcept {
        if (!writable()) return {outcome::read_only, {}, 0};
        return core_->template fetch_add<T>(detail::map_key_bytes(key), offset, addend);
    }
    /// Gives the key's entry another `ttl` from now on, as hash_map_entry_options::ttl. Returns: as fetch_add(). Cost:
    /// the same.
    hash_map_result touch(const K& key, std::chrono::seconds ttl) noexcept {
        if (!writable()) return {outcome::read_only};
        return core_->touch(detail::map_key_bytes(key), ttl);
    }

    /// Makes all overflow counters of the table exact: after years of churn, or kills, it saves some misses their
    /// second probe. Returns: how many were off. Throws: read_only, std::bad_alloc. Cost: a scan over all entries'
    /// digests.
    std::uint64_t recount() {
        if (segment_ == nullptr) throw error(errc::read_only, {}, "this map was moved from; ask the one it went to");
        if (!writable())
            throw error(errc::read_only, segment_->uri(), "the handle was inherited by fork; attach in this process");
        return core_->recount();
    }

    /// What attach() found and finished.
    [[nodiscard]] const hash_map_recovery& recovery() const noexcept { return core_->recovery(); }
    /// How often an entry came, changed or went since the map was made.
    [[nodiscard]] std::uint64_t changes() const noexcept { return core_->changes(); }
    /// A reader on this very mapping, for other threads. It keeps the mapping, and with it the lease, until it goes.
    [[nodiscard]] hash_map_reader<K> make_reader() const { return hash_map_reader<K>(segment_, clock_); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

    /// Takes over a segment attached read-write by other means. Throws: as attach; read_only.
    explicit hash_map(holdfast::segment from, const hash_map_services& services = {}, const memory::trust& whom = {})
        : segment_(std::make_shared<holdfast::segment>(std::move(from))), clock_(services.clock) {
        if (!segment_->writable())
            throw error(errc::read_only, segment_->uri(), "a map's writer needs the segment attached read-write");
        const layout::hash_map_geometry g = detail::hash_map_geometry_of(*segment_);
        detail::require_map_policy(*segment_, writers::one);
        detail::require_map_keys<K>(*segment_);
        core_ = std::make_unique<detail::map_writer_core>(detail::map_view<std::byte>(segment_->body(), g),
                                                          services.clock, services.feed);
        if (segment_->info().peer_slots == 0) return;
        readers_.emplace(peers::open(*segment_, whom));
        core_->listen_to({readers_->slot(0).data(), readers_->size() * peers::slot_bytes});
    }

 private:
    friend detail::hash_map_queries<hash_map, K>;
    [[nodiscard]] const detail::map_reader_core& core_for_queries() const noexcept { return core_->reader(); }
    [[nodiscard]] std::optional<errc> own_fault() const noexcept { return core_->fault(); }
    void used(const hash_map_found& got) const noexcept {
        if (got) core_->note_use(got.handle);
    }
    [[nodiscard]] bool writable() const noexcept { return segment_ != nullptr && segment_->writable(); }
    [[nodiscard]] static bytes bytes_of_text(std::string_view text) noexcept {
        return std::as_bytes(std::span(text.data(), text.size()));
    }
    hash_map_result store(const K& key, bytes value, const hash_map_entry_options& how,
                          const detail::map_condition& when) noexcept {
        if (!writable()) return {outcome::read_only};
        return core_->set(detail::map_key_bytes(key), value, how, when);
    }

    std::shared_ptr<holdfast::segment> segment_;
    hash_map_clock clock_;
    std::optional<peers> readers_;  // outlives the core, which looks into its mapping
    std::unique_ptr<detail::map_writer_core> core_;
};

}  // namespace holdfast
