// SPDX-License-Identifier: Apache-2.0
// reader.hpp - reads a snapshot through a read-only mapping, unknown to everybody. See snapshot.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/layout/snapshot_layout.hpp"
#include "holdfast/layout/snapshot_read.hpp"
#include "holdfast/layout/snapshot_verify.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

inline constexpr std::uint32_t snapshot_layout_version = 1;

namespace detail {

/// The validated geometry of a segment that holds a snapshot. Throws: kind_mismatch, version_mismatch,
/// geometry_mismatch.
[[nodiscard]] inline layout::snapshot_geometry snapshot_geometry_of(const segment& from) {
    from.require(container_kind::snapshot, snapshot_layout_version);
    return layout::snapshot_geometry::parse(from.info().geometry, from.bytes().size(), from.uri());
}

}  // namespace detail

/// Reads the current object of a snapshot by copy or in place, checked afterwards. Registers nowhere.
class snapshot_reader {
 public:
    /// Throws: as segment::attach; kind_mismatch, version_mismatch, geometry_mismatch.
    [[nodiscard]] static snapshot_reader attach(std::string_view uri, const attach_options& options = {}) {
        return snapshot_reader(segment::attach_read_only(uri, options));
    }
    /// A reader of a mapping that somebody already has (heap: and anon: have no other way).
    explicit snapshot_reader(std::shared_ptr<const holdfast::segment> from)
        : segment_(std::move(from)), core_(segment_->bytes(), detail::snapshot_geometry_of(*segment_)) {}

    /// Copies the current object to the front of `out`.
    /// Returns: ok with version and bytes; empty; too_small with the bytes needed; contended; corrupt (see fault()).
    /// Cost: the copy, as memcpy; again for each time the writer lapped it. Up to 40 bytes lie in one cache line with
    /// the word that says which object is current.
    [[gnu::always_inline]] snapshot_read_result read(std::span<std::byte> out) noexcept {
        return keep(core_.read(out));
    }

    /// Copies the current object into `out`, whose size becomes the object's. Allocates at most the slot size.
    snapshot_read_result read(std::vector<std::byte>& out) {
        return visit([&](std::span<const std::byte> object, std::uint64_t) {
            out.resize(object.size());
            detail::copy_from_shared(out.data(), object.data(), object.size());
        });
    }

    /// Runs look(bytes, version) on the object in place until a run is known to have seen it whole.
    ///
    /// `look` may be run several times and may meet a mix of two objects before its last run: it must neither trust
    /// lengths or offsets it finds there nor act outside its own results, and those count only if the status is ok.
    template <class Look>
    snapshot_read_result visit(Look&& look) {
        return keep(core_.visit(std::forward<Look>(look)));
    }

    /// The version that a read would find now; 0 before the first publish. Cost: one load.
    [[nodiscard]] std::uint64_t version() const noexcept { return layout::snapshot_version_of(core_.current()); }
    /// Size of the largest object that can be published: a buffer of this size is never too small.
    [[nodiscard]] std::uint64_t slot_bytes() const noexcept { return core_.geometry().slot_bytes; }
    [[nodiscard]] std::uint64_t format() const noexcept { return core_.geometry().format; }
    /// errc::corrupt once a read met damage, errc::truncated if the file was cut under us.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        return corrupt_ ? std::optional(errc::corrupt) : segment_->fault();
    }
    /// What is damaged. Cost: one pass over every version held.
    [[nodiscard]] layout::findings verify() const {
        layout::findings found;
        layout::verify_snapshot(segment_->bytes(), core_.geometry(), found);
        return found;
    }

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }
    [[nodiscard]] const std::shared_ptr<const holdfast::segment>& shared() const noexcept { return segment_; }
    [[nodiscard]] const layout::snapshot_read_core& core() const noexcept { return core_; }

 private:
    [[gnu::always_inline]] snapshot_read_result keep(snapshot_read_result result) noexcept {
        if (result.status == outcome::corrupt) corrupt_ = true;
        return result;
    }

    std::shared_ptr<const holdfast::segment> segment_;
    layout::snapshot_read_core core_;
    bool corrupt_ = false;
};

}  // namespace holdfast
