// SPDX-License-Identifier: Apache-2.0
// grow.hpp - a table's entries move to a larger or smaller one while its writer and its readers go on.
//
// The old table is the truth until the commit: each operation is done there first. The new one, the next generation,
// has no name until then (segment/successor.hpp), so a kill before it leaves nothing. Why so:
// docs/design/0022-growth.md.
//
// (G1) The new table holds exactly those entries whose slot in the old one lies before the cursor. An operation on such
//      a slot is done in the new one, too.
// (G2) When the name leads to another segment, the old one is marked (segment/successor.hpp, I1).
// (G3) Before the commit nothing is stored into the new table that the old one lacks.
// Killed   before the commit: the next writer finds the old table, as if nothing had been begun. After it: the new one.
//          The old one has no name then, and its memory goes with its last mapping.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/hash_table/attach.hpp"
#include "holdfast/hash_table/mutate.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/segment/successor.hpp"

namespace holdfast::detail {

/// What the next generation of a table is made of. Throws: invalid_argument.
[[nodiscard]] inline segment_spec next_generation(const segment& old, const layout::hash_table_geometry& g,
                                                  std::uint64_t entries, std::uint64_t capacity) {
    const container_schema schema = schema_of_hash_table(old, g);
    const layout::hash_table_request request{.capacity = capacity,
                                             .key_bytes = g.key_bytes,
                                             .value_bytes = g.value_bytes,
                                             .value_alignment = schema.value->alignment(),
                                             .seed = g.seed,
                                             .writer_slots = g.writer_slots};
    if (const char* why = layout::check(request)) throw error(errc::invalid_argument, old.uri(), why);
    if (capacity < entries)
        throw error(errc::invalid_argument, old.uri(),
                    "the table holds " + std::to_string(entries) + " entries, more than the capacity of " +
                        std::to_string(capacity) + " that is asked for; ask for more");
    const layout::hash_table_geometry next = layout::plan_hash_table(request);
    segment_spec spec;
    spec.kind = container_kind::hash_table;
    spec.container_version = layout::hash_table_version;
    spec.policy = old.info().policy;
    spec.schema = old.info().schema;
    spec.geometry = layout::geometry_words_of(next);
    spec.body_bytes = next.body_bytes();
    return spec;
}

/// Takes a mapping that is not needed any more out of this process's memory in pieces, from its end, so that unmapping
/// it finds little to do. Others keep theirs: the pages are the file's.
class retired_mapping {
 public:
    static constexpr std::uint64_t bytes_a_step = std::uint64_t{512} << 10;

    retired_mapping() = default;
    retired_mapping(std::shared_ptr<const segment> mapping, bool locked) noexcept
        : mapping_(std::move(mapping)), left_(mapping_->bytes().size()), locked_(locked) {}
    [[nodiscard]] bool empty() const noexcept { return mapping_ == nullptr; }

    /// One step. Returns: whether nothing is left to do but to let go of this, or somebody here reads it still.
    bool release_some() noexcept {
        if (empty() || left_ <= bytes_a_step || mapping_.use_count() > 1) return true;
        const std::uint64_t from = (left_ - 1) / bytes_a_step * bytes_a_step;
        // Only this process's view of it goes: nothing is stored.
        std::byte* const at = const_cast<std::byte*>(mapping_->bytes().data()) + from;
        if (locked_) (void)::munlock(at, left_ - from);
        (void)::madvise(at, left_ - from, MADV_DONTNEED);
        left_ = from;
        return false;
    }

 private:
    std::shared_ptr<const segment> mapping_;
    std::uint64_t left_ = 0;  // of its body, from the front
    bool locked_ = false;
};

/// One move of a table's entries. Table: hash_table<K, V> or dynamic_hash_table; the caller passes the same one each
/// time, and tells of each change that it makes to it. Threads: the writer's.
template <class Table>
class table_growth {
 public:
    /// Steps are bounded by these and by region_sum::bytes_a_piece: what one takes is the longest that an operation is
    /// held up, but for the old mapping's last piece (retired_mapping). Only the checksum of a region that was changed
    /// while it was summed is summed once more in one step.
    static constexpr std::uint64_t reserved_bytes_a_step = std::uint64_t{256} << 10;
    static constexpr std::uint64_t copied_bytes_a_step = std::uint64_t{16} << 10;

    /// `pages` is asked of the new table's pages. Throws: invalid_argument, unsupported, no_permission, no_space and
    /// others; nothing has been begun then.
    table_growth(Table& old, std::uint64_t capacity, const memory::page_policy& pages = {})
        : next_(segment_successor::begin(*old.segment_,
                                         next_generation(*old.segment_, old.geometry_, old.size(), capacity), pages)),
          locked_(pages.lock),
          key_(old.geometry_.key_bytes),
          value_(old.geometry_.value_bytes) {}

    /// One step. Returns: whether that was the last. Throws: no_space, corrupt and others; then the growth is to be
    /// given up, and `old` is what it was. Once committed() `old` is the new table, and what is left is to let go of
    /// the old one's memory.
    bool advance(Table& old) {
        if (committed()) return retired_.release_some();
        if (!table_) {
            if (next_.reserve(reserved_bytes_a_step)) table_.emplace(Table(next_.get()));
            return false;
        }
        if (cursor_ < old.geometry_.slots()) {
            copy_some(old);
            return false;
        }
        next_.take_place(*old.segment_);
        retired_ = retired_mapping(old.segment_, locked_);
        inherit_fault(finder_of(old), finder_of(*table_));
        old = std::move(*table_);
        return retired_.release_some();
    }
    [[nodiscard]] bool committed() const noexcept { return !retired_.empty(); }

    /// Does in the new table what was done in a slot of the old one, if the entry was copied already (G1).
    /// Throws: no_space, corrupt; as advance().
    void inserted_or_updated(std::uint64_t slot, const std::byte* key, const std::byte* value) {
        if (slot < cursor_ && !committed()) require_stored(table_->mutator_.insert_or_assign(key, value).status);
    }
    void erased(std::uint64_t slot, const std::byte* key) {
        if (slot < cursor_ && !committed() && table_->mutator_.erase(key).status != outcome::ok)
            require_stored(outcome::corrupt);
    }

    [[nodiscard]] static const auto& finder_of(const Table& table) noexcept { return table.mutator_.finder(); }
    [[nodiscard]] static std::shared_ptr<const segment> mapping_of(const Table& table) noexcept {
        return table.segment_;
    }
    /// What is done, of what: reserved bytes and copied slots, for whoever shows progress.
    [[nodiscard]] std::uint64_t reserved_bytes() const noexcept { return next_.reserved(); }
    [[nodiscard]] std::uint64_t copied_slots() const noexcept { return cursor_; }
    [[nodiscard]] const segment& next_segment() const noexcept { return *next_.get(); }

 private:
    /// The entries of one bucket, or fewer when they are large.
    void copy_some(const Table& old) {
        const auto& finder = finder_of(old);
        const auto& view = finder.bytes();
        const std::uint64_t bucket = cursor_ / layout::tags_per_line;
        if (const std::uint64_t region = bucket / layout::buckets_per_region; region == checked_regions_) {
            if (sum_.add_some(view, region)) {
                ++checked_regions_;
                require_sound(view, region);
            }
            return;
        }
        const std::uint32_t occupied = finder.occupied(bucket);
        std::uint64_t copied = 0;
        do {
            if ((occupied >> cursor_ % layout::tags_per_line & 1U) != 0) {
                copy_entry(view, bucket, static_cast<unsigned>(cursor_ % layout::tags_per_line));
                copied += view.node_bytes;
            }
            ++cursor_;
        } while (cursor_ % layout::tags_per_line != 0 && copied < copied_bytes_a_step);
    }

    /// Entries get a new checksum in the new table. So what is damaged must not come that far.
    template <class View>
    void require_sound(const View& view, std::uint64_t region) {
        const std::uint64_t digest =
            load_relaxed<std::uint64_t>(view.digest_of(region * layout::buckets_per_region));  // relaxed: our own
        if (sum_.take() != digest && digest_region(view, region, hash_table_intent{}) != digest) throw_damaged(region);
    }

    template <class View>
    void copy_entry(const View& view, std::uint64_t bucket, unsigned place) {
        const std::byte* node = view.node_at(bucket, place);
        copy_from_words(key_.data(), node, 0, key_.size());
        copy_from_words(value_.data(), node, view.value_offset, value_.size());
        // Another key's tag, or the same key twice: nobody stored that.
        if (tag_at(view.line(bucket), place) != view.hash(key_.data()).tag())
            throw_damaged(bucket / layout::buckets_per_region);
        const outcome status = table_->mutator_.try_insert(key_.data(), value_.data()).status;
        if (status == outcome::exists) throw_damaged(bucket / layout::buckets_per_region);
        require_stored(status);
    }

    [[noreturn]] void throw_damaged(std::uint64_t region) const {
        const std::uint64_t first = region * layout::buckets_per_region * layout::tags_per_line;
        throw error(errc::corrupt, next_.get()->uri(),
                    "an entry in slot " + std::to_string(first) +
                        " or one of the 415 behind it is damaged, so the table was left as it is; repair it first "
                        "(holdfast verify, holdfast repair)");
    }
    void require_stored(outcome status) const {
        if (status == outcome::ok) return;
        if (status == outcome::full)
            throw error(errc::no_space, next_.get()->uri(),
                        "the entries that came meanwhile do not fit into the new capacity; grow to a larger one");
        throw error(errc::corrupt, next_.get()->uri(),
                    "the new table's bytes were changed by somebody else; find out who may write the segment");
    }

    segment_successor next_;
    std::optional<Table> table_;  // over next_, once all its pages are reserved
    bool locked_;
    retired_mapping retired_;  // the old table's, behind the commit
    std::uint64_t cursor_ = 0;
    std::uint64_t checked_regions_ = 0;
    region_sum sum_;  // of the next one
    std::vector<std::byte> key_;
    std::vector<std::byte> value_;
};

}  // namespace holdfast::detail
