// SPDX-License-Identifier: Apache-2.0
// pinned_reader.hpp - a registered reader that keeps the version it works on from being overwritten. See snapshot.hpp.
//
// Its hazard word is the first word of its slot in NAME.peers; the slot is its own as long as it holds the slot's lock,
// so the writer learns of its death from the kernel.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "holdfast/layout/snapshot_read.hpp"
#include "holdfast/layout/snapshot_write.hpp"
#include "holdfast/memory/fork_guard.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/snapshot/reader.hpp"

namespace holdfast {

namespace detail {

/// The hazard word in a peer's slot.
[[nodiscard]] inline std::atomic<std::uint64_t>& hazard_in(const peers& table, std::uint32_t slot) noexcept {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(table.slot(slot).data());
}

/// The hazards of a segment's registered readers, as its writer scans them.
class peer_hazards {
 public:
    explicit peer_hazards(const peers* table) noexcept : table_(table) {}
    [[nodiscard]] std::uint32_t size() const noexcept { return table_ != nullptr ? table_->size() : 0; }
    [[nodiscard]] std::atomic<std::uint64_t>& cell(std::uint32_t slot) const noexcept {
        return hazard_in(*table_, slot);
    }
    [[nodiscard]] bool alive(std::uint32_t slot) const noexcept { return table_->alive(slot); }

 private:
    const peers* table_;
};
static_assert(layout::snapshot_hazards<peer_hazards>);

/// What a pinned reader and its views share; at one address for as long as the reader lives.
struct pin_state {
    std::shared_ptr<const segment> from;
    peers table;
    std::uint32_t slot;
    memory::fork_guard guard;
    layout::snapshot_pin_core core;
    unsigned views = 0;
    bool corrupt = false;
};

}  // namespace detail

/// One version of the object, in place, kept whole while this lives. Move-only; must not outlive its reader.
class snapshot_view {
 public:
    snapshot_view() = default;
    snapshot_view(snapshot_view&& other) noexcept
        : state_(std::exchange(other.state_, nullptr)), found_(std::exchange(other.found_, {})) {}
    snapshot_view& operator=(snapshot_view&& other) noexcept {
        if (this == &other) return *this;
        std::destroy_at(this);  // what this held is let go of now
        std::construct_at(this, std::move(other));
        return *this;
    }
    ~snapshot_view() {
        if (state_ != nullptr) --state_->views;
    }

    /// ok; empty; contended; corrupt; read_only (moved from, or inherited by fork, the parent's: attach anew).
    [[nodiscard]] outcome status() const noexcept { return found_.status; }
    [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
    [[nodiscard]] std::uint64_t version() const noexcept { return state_ != nullptr ? found_.version() : 0; }
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
        if (state_ == nullptr) return {};
        return {state_->core.core().payload(found_.word), static_cast<std::size_t>(found_.bytes)};
    }

 private:
    friend class snapshot_pinned_reader;
    snapshot_view(detail::pin_state* state, const layout::snapshot_located& found) noexcept
        : state_(state), found_(found) {
        if (state_ != nullptr) ++state_->views;
    }

    detail::pin_state* state_ = nullptr;
    layout::snapshot_located found_{};
};

/// Reads objects in place. Holds one version at a time, also between reads; at most one old version is kept alive by
/// it. One that was moved from answers read_only to pin() and holds nothing; the rest requires one that was not.
///
/// Threads: one at a time. After a crash of the writer: as before, and what is pinned stays whole. After its own: the
/// next publish that needs the slot takes it back.
class snapshot_pinned_reader {
 public:
    /// Throws: as snapshot_reader::attach; not_found (made without pinned readers), no_permission (NAME.peers),
    /// no_space (as many readers are registered as the snapshot was made for).
    [[nodiscard]] static snapshot_pinned_reader attach(std::string_view uri, const attach_options& options = {}) {
        return snapshot_pinned_reader(segment::attach_read_only(uri, options), options.trust);
    }
    explicit snapshot_pinned_reader(std::shared_ptr<const holdfast::segment> from, const memory::trust& whom = {}) {
        const layout::snapshot_read_core core(from->bytes(), detail::snapshot_geometry_of(*from));
        peers table = peers::open(*from, whom);
        const std::optional<std::uint32_t> slot = table.claim();
        if (!slot)
            throw error(errc::no_space, from->uri(),
                        "all " + std::to_string(table.size()) +
                            " places for pinned readers are taken; end one, read without pinning, or recreate the "
                            "snapshot with more");
        auto guard = memory::fork_guard::make(from->uri());
        const layout::snapshot_pin_core pin(core, detail::hazard_in(table, *slot));
        state_ = std::make_unique<detail::pin_state>(
            detail::pin_state{std::move(from), std::move(table), *slot, std::move(guard), pin});
    }
    snapshot_pinned_reader(snapshot_pinned_reader&&) noexcept = default;
    snapshot_pinned_reader& operator=(snapshot_pinned_reader&& other) noexcept {
        if (this == &other) return *this;
        // The old place is given back now, not by whoever has it next.
        std::destroy_at(this);
        std::construct_at(this, std::move(other));
        return *this;
    }
    ~snapshot_pinned_reader() {
        // In a forked child the slot and its lock are the parent's.
        if (state_ == nullptr || !state_->guard.same_process()) return;
        state_->core.release();
        state_->table.release(state_->slot);
    }

    /// The newest version; while any view is alive, the version that view holds (one reader holds one version).
    /// Cost: one load and a compare while nothing new was published, else a store and a fence.
    [[nodiscard]] snapshot_view pin() noexcept {
        if (state_ == nullptr || !state_->guard.same_process()) return {nullptr, {outcome::read_only, 0, 0}};
        const layout::snapshot_located found = state_->views > 0 ? state_->core.held() : state_->core.pin();
        if (found.status == outcome::corrupt) state_->corrupt = true;
        return {found.status == outcome::ok ? state_.get() : nullptr, found};
    }
    /// Stops holding the version last pinned, for a reader that will be idle. Does nothing while a view is alive.
    void release() noexcept {
        if (state_ != nullptr && state_->views == 0 && state_->guard.same_process()) state_->core.release();
    }

    [[nodiscard]] std::optional<errc> fault() const noexcept {
        return state_->corrupt ? std::optional(errc::corrupt) : state_->from->fault();
    }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *state_->from; }
    /// The newest version published, whether held or not; 0 before the first. Cost: one load.
    [[nodiscard]] std::uint64_t version() const noexcept {
        return layout::snapshot_version_of(state_->core.core().current());
    }

 private:
    std::unique_ptr<detail::pin_state> state_;
};

}  // namespace holdfast
