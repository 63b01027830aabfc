// SPDX-License-Identifier: Apache-2.0
// many.hpp - a hash map that any number of processes write at once.
//
//     using sessions = holdfast::hash_map<std::string_view, holdfast::writers::many>;
//     auto mine = sessions::create("sessions", {.capacity = 1'000'000});   // in one process
//     auto ours = sessions::attach("sessions");                            // in any other
//     ours.set("user:7", "some bytes");
//     ours.fetch_add<std::uint64_t>("hits", 0, 1);
//
// Readers are those of every map: hash_map_reader<K>, lock-free, on read-only mappings.
// Threads: one writer object is used by one thread at a time; threads and processes have a handle each, which takes one
//          of the map's writer slots. Operations on one key follow each other; each happens at one instant.
// Crash:   a writer may be killed at any instruction. Its operation has then happened or not, and used + free =
// capacity
//          holds. Whoever needs what it held, lacks room, or attaches, finds that its lock is gone and finishes for it.
// A writer that is stopped, not dead, keeps what it holds. Who needs that gets `contended` after its patience.
// Not for maps of many writers: expiry, eviction, registered readers, a change feed. create() refuses what asks for
// them; docs/design/0025 says why.
// Protocol: hash_map/many_write.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "holdfast/detail/spans.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/many_write.hpp"
#include "holdfast/hash_table/many_attach.hpp"
#include "holdfast/segment/writer_slot.hpp"

namespace holdfast {

/// Who holds a writer slot, as it wrote itself down. For people and logs: nothing is decided by it.
struct hash_map_writer {
    std::uint32_t slot = 0;
    std::uint64_t pid = 0;  ///< in its own pid namespace
};

/// One of many writers of a map. Reads it, too. Move-only: one that was moved from answers read_only to what writes,
/// and must not be asked anything else.
template <hash_map_key K>
class hash_map<K, writers::many> : public detail::hash_map_queries<hash_map<K, writers::many>, K> {
 public:
    using bytes = std::span<const std::byte>;

    /// Makes an empty map that up to options.writer_slots handles may write at once. Throws: invalid_argument, also for
    /// one that is to evict or to have registered readers, and what segment::create throws.
    [[nodiscard]] static hash_map create(std::string_view uri, const hash_map_options& options) {
        return hash_map(
            detail::create_hash_map(uri, options, detail::map_schema_of<K>(options.key_name), writers::many), 0);
    }
    /// Becomes a writer of an existing map, and finishes what dead ones left undone.
    /// Throws: writer_alive where all writer slots are taken (lease_timeout waits for one), geometry_mismatch if the
    /// map is one of a single writer, std::bad_alloc (one bit a unit), and what hash_map_reader::attach throws. Cost: a
    /// look at each writer slot.
    [[nodiscard]] static hash_map attach(std::string_view uri, const attach_options& options = {}) {
        return hash_map(segment::attach(uri, access::read_write, options), detail::ns_of(options.lease_timeout));
    }
    [[nodiscard]] static hash_map attach(const segment_descriptors& descriptors, const attach_options& options = {}) {
        return hash_map(segment::attach(descriptors, access::read_write, options),
                        detail::ns_of(options.lease_timeout));
    }
    hash_map(hash_map&&) noexcept = default;
    hash_map& operator=(hash_map&&) noexcept = default;
    hash_map(const hash_map&) = delete;
    hash_map& operator=(const hash_map&) = delete;
    ~hash_map() = default;

    /// Gives the key this value, new or not; `flags` are kept beside it. The old value stays whole for who reads it
    /// until the new one is there. Returns: ok with the handle, inserted or updated; full (old and new value need room
    /// at once; found unit by unit, not at one instant); too_large, for the whole store; contended; no_memory;
    /// collision; read_only; corrupt. Unless ok the key stays as it was.
    /// Cost: the copy and its checksum, which others that need the same part of the table wait for.
    hash_map_result set(const K& key, bytes value, std::uint32_t flags = 0) noexcept {
        return store(key, value, flags, {});
    }
    /// Adds an entry unless the key is there. Returns: as set(); exists with the handle that is there.
    hash_map_result insert(const K& key, bytes value, std::uint32_t flags = 0) noexcept {
        return store(key, value, flags, {detail::map_condition::absent});
    }
    /// Replaces the value of a key that is there. Returns: as set(); not_found.
    hash_map_result update(const K& key, bytes value, std::uint32_t flags = 0) noexcept {
        return store(key, value, flags, {detail::map_condition::present});
    }
    /// Gives the key this value if it has the handle `expected` now; 0 means that it is not there. Of several who
    /// expect one handle, one succeeds. Returns: as update(), but stale with the handle that it has, 0 for none.
    hash_map_result compare_and_set(const K& key, std::uint64_t expected, bytes value,
                                    std::uint32_t flags = 0) noexcept {
        return store(key, value, flags, {detail::map_condition::same, expected});
    }
    /// The same with a text for a value.
    hash_map_result set(const K& key, std::string_view value, std::uint32_t flags = 0) noexcept {
        return set(key, bytes_of_text(value), flags);
    }
    hash_map_result insert(const K& key, std::string_view value, std::uint32_t flags = 0) noexcept {
        return insert(key, bytes_of_text(value), flags);
    }
    hash_map_result update(const K& key, std::string_view value, std::uint32_t flags = 0) noexcept {
        return update(key, bytes_of_text(value), flags);
    }
    hash_map_result compare_and_set(const K& key, std::uint64_t expected, std::string_view value,
                                    std::uint32_t flags = 0) noexcept {
        return compare_and_set(key, expected, bytes_of_text(value), flags);
    }

    /// Removes the key's entry. Returns: ok; not_found; contended; collision; read_only; corrupt.
    hash_map_result erase(const K& key) noexcept {
        if (!writable()) return {outcome::read_only};
        return core_->erase(detail::map_key_bytes(key));
    }
    /// The same if it has the handle `expected` now. Returns: as erase(); stale with the handle that it has.
    hash_map_result compare_and_erase(const K& key, std::uint64_t expected) noexcept {
        if (!writable()) return {outcome::read_only};
        return core_->erase(detail::map_key_bytes(key), {detail::map_condition::same, expected});
    }
    /// Adds to the T that begins at byte `offset` of the key's value, exactly from any number of processes. The rest of
    /// it stays. Integers wrap. Returns: ok with what was there before, and the new handle; not_found; out_of_range;
    /// full, where there is no room for a copy (as update()); contended, also where others changed the entry's size
    /// each time; collision; read_only; corrupt. Cost: an update of a value of that size.
    template <class T>
    hash_map_added<T> fetch_add(const K& key, std::uint64_t offset, std::type_identity_t<T> addend) noexcept {
        if (!writable()) return {outcome::read_only, {}, 0};
        return core_->template fetch_add<T>(detail::map_key_bytes(key), offset, addend);
    }

    /// Makes all overflow counters of the table exact; see hash_map<K>::recount(). Throws: writer_alive while there is
    /// another writer (later ones are kept out meanwhile), read_only, std::bad_alloc.
    std::uint64_t recount() {
        if (segment_ == nullptr) throw error(errc::read_only, {}, "this map was moved from; ask the one it went to");
        if (!writable())
            throw error(errc::read_only, segment_->uri(), "the handle was inherited by fork; attach in this process");
        return detail::recount_alone(*segment_, core_->table());
    }

    /// How long an operation waits for a stopped or slow writer before it answers `contended`. 1 s unless set.
    void set_patience(std::chrono::nanoseconds patience) noexcept { core_->set_patience(detail::ns_of(patience)); }
    /// Whom the last `contended` waited for: a living process, or one forked from it and not executed since.
    [[nodiscard]] std::optional<hash_map_writer> blocked_by() const noexcept {
        const std::optional<std::uint32_t> slot = core_->blocked_by();
        if (!slot) return std::nullopt;
        return hash_map_writer{*slot, detail::pid_of_writer(core_->reader().bytes().table, *slot)};
    }
    /// This handle's writer slot.
    [[nodiscard]] std::uint32_t writer_slot() const noexcept { return core_->slot(); }
    /// How often this handle finished what it found undone by a dead writer on its way, in table, store and map.
    [[nodiscard]] std::uint64_t takeovers() const noexcept { return core_->takeovers(); }

    /// What attach() found and finished.
    [[nodiscard]] const hash_map_recovery& recovery() const noexcept { return core_->recovery(); }
    /// A reader on this very mapping, for other threads. It keeps the mapping, and with it the writer slot, until it
    /// goes.
    [[nodiscard]] hash_map_reader<K> make_reader() const { return hash_map_reader<K>(segment_); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

 private:
    using core = detail::map_many_core<detail::writer_slot_locks>;
    friend detail::hash_map_queries<hash_map, K>;
    [[nodiscard]] const detail::map_reader_core& core_for_queries() const noexcept { return core_->reader(); }
    [[nodiscard]] std::optional<errc> own_fault() const noexcept { return core_->fault(); }
    static void used(const hash_map_found&) noexcept {}
    [[nodiscard]] bool writable() const noexcept { return segment_ != nullptr && segment_->writable(); }
    [[nodiscard]] static bytes bytes_of_text(std::string_view text) noexcept {
        return std::as_bytes(std::span(text.data(), text.size()));
    }

    hash_map(holdfast::segment from, std::uint64_t timeout_ns)
        : segment_(std::make_shared<holdfast::segment>(std::move(from))) {
        constexpr std::uint64_t patience_ns = 1'000'000'000;
        const layout::hash_map_geometry g = detail::hash_map_geometry_of(*segment_);
        detail::require_map_policy(*segment_, writers::many);
        detail::require_map_keys<K>(*segment_);
        const detail::map_view<std::byte> view(segment_->body(), g);
        const std::uint32_t slot =
            detail::claim_writer_slot(*segment_, static_cast<std::uint32_t>(g.writer_slots()), timeout_ns);
        // Before the recovery: whoever waits for what the last holder left waits for this one.
        detail::name_holder(view.table, slot, detail::writer_slot_locks::pid());
        core_ =
            std::make_unique<core>(view, slot, detail::writer_slot_locks(segment_->lease_descriptor(), patience_ns));
    }
    hash_map_result store(const K& key, bytes value, std::uint32_t flags, const detail::map_condition& when) noexcept {
        if (!writable()) return {outcome::read_only};
        return core_->set(detail::map_key_bytes(key), value, flags, when);
    }

    std::shared_ptr<holdfast::segment> segment_;
    std::unique_ptr<core> core_;
};

}  // namespace holdfast
