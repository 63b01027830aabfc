// SPDX-License-Identifier: Apache-2.0
// writer.hpp - makes a snapshot and publishes to it. See snapshot.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/layout/snapshot_layout.hpp"
#include "holdfast/layout/snapshot_write.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"
#include "holdfast/snapshot/pinned_reader.hpp"
#include "holdfast/snapshot/reader.hpp"

namespace holdfast {

/// What the objects of a snapshot are, beyond bytes: written into the segment for those who know no C++ type.
struct snapshot_payload {
    std::uint64_t format = 0;  ///< layout::payload_format(kind, version); 0: bytes of the user's own
    std::string schema;        ///< canonical schema text, may be empty
    std::array<std::uint64_t, geometry_words - 4> words{};
};

struct snapshot_options {
    std::uint64_t slot_bytes = 0;      ///< size of the largest object; required
    std::uint32_t pinned_readers = 0;  ///< how many registered readers there may be at once
    std::uint32_t slots = 0;  ///< versions kept; 0 = pinned_readers + 3, at least 4: a publish then never lacks a slot
    create_options segment{};
};

/// Publishes whole objects. Holds the segment's lease: one writer at a time. Move-only.
///
/// Threads: one at a time. After a crash: the version before or the new one is current, whole; what was prepared is
/// gone.
class snapshot_writer {
 public:
    /// Throws: invalid_argument; as segment::create.
    [[nodiscard]] static snapshot_writer create(std::string_view uri, const snapshot_options& options,
                                                const snapshot_payload& payload = {}) {
        const std::uint32_t slots =
            options.slots != 0 ? options.slots : std::max<std::uint32_t>(4, options.pinned_readers + 3);
        const auto geometry =
            layout::snapshot_geometry::make(slots, options.slot_bytes, payload.format, std::string(uri));
        segment_spec spec;
        spec.kind = container_kind::snapshot;
        spec.container_version = snapshot_layout_version;
        spec.schema = payload.schema;
        std::ranges::copy(geometry.words(), spec.geometry.begin());
        std::ranges::copy(payload.words, spec.geometry.begin() + 4);
        spec.body_bytes = geometry.body_bytes();
        spec.peer_slots = options.pinned_readers;
        // A zeroed body is a snapshot with nothing published.
        return snapshot_writer(segment::create(uri, spec, options.segment, [](std::span<std::byte>) {}),
                               trust_of_creator(options.segment));
    }

    /// Takes over an existing snapshot. After a crash: bounded recovery, one pass over the slot headers.
    /// Throws: as segment::attach (writer_alive while another lives); kind_mismatch, version_mismatch,
    /// geometry_mismatch, corrupt.
    [[nodiscard]] static snapshot_writer attach(std::string_view uri, const attach_options& options = {}) {
        return snapshot_writer(segment::attach(uri, access::read_write, options), options.trust);
    }

    /// Copies `object` into a free slot and makes it current.
    /// Returns: ok with its version; full; too_large; read_only; corrupt. Nothing changes unless ok.
    publish_result publish(std::span<const std::byte> object) {
        if (!writable()) return {outcome::read_only, 0};
        auto hazards = table();
        return core_.publish(object, hazards, now_ns());
    }

    /// Opens a free slot to be filled in place with up to `bytes` bytes; drops an earlier prepare.
    /// Returns: ok with the room; full, too_large, read_only, corrupt. Nothing is visible before commit().
    ///
    /// Plain stores into it are fine: a reader without a pin may still be looking at the slot's former object and will
    /// find out by itself.
    [[nodiscard]] prepare_result prepare(std::uint64_t bytes) {
        if (!writable()) return {outcome::read_only, {}};
        auto hazards = table();
        return core_.prepare(bytes, hazards);
    }
    /// Makes the first `bytes` bytes of the prepared slot current. Returns: ok with the version; not_claimed when
    /// nothing is prepared, or less than that, which then stays prepared; read_only.
    publish_result commit(std::uint64_t bytes) noexcept {
        if (!writable()) return {outcome::read_only, 0};
        return core_.commit(bytes, now_ns());
    }
    /// Drops what was prepared.
    void discard() noexcept { core_.discard(); }

    /// The version last published; 0 before the first.
    [[nodiscard]] std::uint64_t version() const noexcept { return core_.version(); }
    [[nodiscard]] std::uint64_t slot_bytes() const noexcept { return core_.geometry().slot_bytes; }

    /// A reader of this very mapping, which it keeps alive.
    [[nodiscard]] snapshot_reader make_reader() const { return snapshot_reader(segment_); }
    /// A registered reader in this process, on this very mapping.
    [[nodiscard]] snapshot_pinned_reader make_pinned_reader() const { return snapshot_pinned_reader(segment_, whom_); }
    /// Whose companion files it believes, beside one's own and root's.
    [[nodiscard]] const memory::trust& trust() const noexcept { return whom_; }

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

    /// Takes over a segment attached read-write by other means (descriptors). Throws: as attach; read_only.
    explicit snapshot_writer(holdfast::segment from, const memory::trust& whom = {})
        : segment_(std::make_shared<holdfast::segment>(std::move(from))), whom_(whom) {
        if (!segment_->writable())
            throw error(errc::read_only, segment_->uri(), "a snapshot's writer needs the segment attached read-write");
        const auto geometry = detail::snapshot_geometry_of(*segment_);
        if (segment_->info().peer_slots > 0) peers_ = peers::open(*segment_, whom);
        core_ = layout::snapshot_write_core(segment_->body(), geometry, segment_->uri());
    }

 private:
    [[nodiscard]] bool writable() const noexcept { return segment_ != nullptr && segment_->writable(); }
    [[nodiscard]] detail::peer_hazards table() const noexcept {
        return detail::peer_hazards(peers_ ? &*peers_ : nullptr);
    }
    [[nodiscard]] static std::uint64_t now_ns() noexcept {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
    }

    std::shared_ptr<holdfast::segment> segment_;
    std::optional<peers> peers_;
    layout::snapshot_write_core core_;
    memory::trust whom_;  // of the readers that it makes
};

}  // namespace holdfast
