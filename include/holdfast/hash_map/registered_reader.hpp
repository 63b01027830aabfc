// SPDX-License-Identifier: Apache-2.0
// registered_reader.hpp - a reader of a hash map whose reading keeps entries from being evicted. See hash_map.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/hash_map/attach.hpp"
#include "holdfast/hash_map/queries.hpp"
#include "holdfast/hash_map/uses.hpp"
#include "holdfast/memory/fork_guard.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// Reads a map, and tells the writer by one of eight answers what is in use: what it reads often is evicted no sooner
/// than what the writer itself reads. Holds a place among the map's registered readers. Move-only; one that was moved
/// from must not be asked anything.
///
/// Threads: one at a time. After a crash: its place is free at once; a child that it has forked holds the place for as
/// long as it lives. In a forked child: reads on, without a place of its own. Cost: as hash_map_reader, and for one
/// answer of eight a store to a line that the writer looks at.
template <hash_map_key K>
class hash_map_registered_reader : public detail::hash_map_queries<hash_map_registered_reader<K>, K> {
 public:
    /// Needs read permission, and write permission on NAME.peers.
    /// Throws: what hash_map_reader::attach throws; not_found (made without registered readers), no_permission
    /// (NAME.peers), no_space (as many are registered as the map was made for).
    [[nodiscard]] static hash_map_registered_reader attach(std::string_view uri, const attach_options& options = {},
                                                           const hash_map_clock& clock = {}) {
        return hash_map_registered_reader(segment::attach_read_only(uri, options), clock, options.trust);
    }
    /// Reads through a mapping that is there already, and keeps it. Throws: as attach.
    explicit hash_map_registered_reader(std::shared_ptr<const holdfast::segment> mapping,
                                        const hash_map_clock& clock = {}, const memory::trust& whom = {}) {
        const detail::map_reader_core core(
            detail::map_reader_core::view(mapping->bytes(), detail::hash_map_geometry_of(*mapping)),
            detail::map_time(clock));
        detail::require_map_keys<K>(*mapping);
        peers table = peers::open(*mapping, whom);
        const std::optional<std::uint32_t> slot = table.claim();
        if (!slot)
            throw error(errc::no_space, mapping->uri(),
                        "all " + std::to_string(table.size()) +
                            " places for registered readers are taken; end one, read without registering, or make the "
                            "map anew with more");
        auto guard = memory::fork_guard::make(mapping->uri());
        const detail::map_use_notes notes(table.slot(*slot));
        place_ =
            std::make_unique<place>(place{std::move(mapping), std::move(table), *slot, std::move(guard), core, notes});
    }
    hash_map_registered_reader(hash_map_registered_reader&&) noexcept = default;
    hash_map_registered_reader& operator=(hash_map_registered_reader&& other) noexcept {
        if (this == &other) return *this;
        // The old place is given back now, not by whoever has it next.
        std::destroy_at(this);
        std::construct_at(this, std::move(other));
        return *this;
    }
    ~hash_map_registered_reader() {
        // In a forked child the slot and its lock are the parent's.
        if (place_ != nullptr && place_->guard.same_process()) place_->table.release(place_->slot);
    }

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *place_->from; }

 private:
    friend detail::hash_map_queries<hash_map_registered_reader, K>;
    [[nodiscard]] const detail::map_reader_core& core_for_queries() const noexcept { return place_->core; }
    [[nodiscard]] std::optional<errc> own_fault() const noexcept { return place_->core.fault(); }
    void used(const hash_map_found& got) const noexcept {
        if (got && place_->guard.same_process()) place_->notes.note(got.handle);
    }

    struct place {
        std::shared_ptr<const holdfast::segment> from;
        peers table;
        std::uint32_t slot;
        memory::fork_guard guard;
        detail::map_reader_core core;
        detail::map_use_notes notes;
    };
    std::unique_ptr<place> place_;
};

}  // namespace holdfast
