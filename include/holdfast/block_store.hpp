// SPDX-License-Identifier: Apache-2.0
// block_store.hpp - values of any size behind 64-bit handles in shared memory: one writer, any number of readers.
//
//     auto texts = holdfast::block_store::create("texts", {.bytes = 1 << 30, .value_bytes = 200});
//     const auto kept = texts.allocate(std::as_bytes(std::span(text)));       // kept.handle, a plain number
//
//     // in any other process, with read permission only
//     auto view = holdfast::block_store_reader::attach("texts");
//     if (auto got = view.read(handle, buffer)) use(buffer.data(), got.count);
//
// Shape:   equal units of 64 bytes or more. A value takes neighbouring ones where it can and scattered ones where it
//          must, so whatever fits into the free units is never refused for fragmentation. Beside the value: 24 bytes,
//          8 bytes a unit, and half a unit on average.
// Handles: never 0; a value under a handle never changes. Freed, replaced and foreign ones are `stale`, to readers and
//          to free(). Serials go round after 2^30 - 1 allocations in the largest stores, 2^44 - 1 in one of 2^18 units:
//          no handle is given out again before that (docs/design/0017).
// Layout:  layout/block_store_layout.hpp. Invariants, order of stores and crash table: block_store/write.hpp.
// Threads: one writer object, used by one thread at a time; readers anywhere, at any time, on read-only mappings.
//          Readers register nothing and never wait.
// Crash:   the writer may be killed at any instruction. A value is then there or not; what was prepared and not
//          committed is free; used + free = capacity holds at once, without a repair.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/block_store/queries.hpp"
#include "holdfast/block_store/result.hpp"
#include "holdfast/block_store/write.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// How a block store is made.
struct block_store_options {
    std::uint64_t bytes = 0;          ///< room for all values with their headers; rounded up to whole units
    std::uint64_t value_bytes = 200;  ///< size of a typical value; chooses the unit
    std::uint64_t unit_bytes = 0;     ///< 64 to 65536, a power of two; 0 = what wastes least for value_bytes
    create_options segment{};         ///< mode, owner, pages
};

/// Reads a store.
class block_store_reader : public detail::block_store_queries<block_store_reader> {
 public:
    /// Attaches to a store by name, or by passed descriptors. Needs read permission only.
    /// Throws: what segment::attach throws, kind_mismatch, version_mismatch, geometry_mismatch.
    [[nodiscard]] static block_store_reader attach(std::string_view uri, const attach_options& options = {}) {
        return block_store_reader(
            std::make_shared<const holdfast::segment>(segment::attach(uri, access::read_only, options)));
    }
    [[nodiscard]] static block_store_reader attach(const segment_descriptors& descriptors,
                                                   const attach_options& options = {}) {
        return block_store_reader(
            std::make_shared<const holdfast::segment>(segment::attach(descriptors, access::read_only, options)));
    }
    /// Reads through a mapping that is there already, and keeps it.
    explicit block_store_reader(std::shared_ptr<const holdfast::segment> mapping)
        : segment_(std::move(mapping)),
          core_(detail::block_reader_core::view(segment_->bytes(), detail::block_store_geometry_of(*segment_))) {}

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

 private:
    friend detail::block_store_queries<block_store_reader>;
    [[nodiscard]] const detail::block_reader_core& core_for_queries() const noexcept { return core_; }

    std::shared_ptr<const holdfast::segment> segment_;
    detail::block_reader_core core_;
};

/// Writes a store, and reads it. Holds the segment's lease. Move-only: one that was moved from answers read_only to
/// what writes, and must not be asked anything else.
class block_store : public detail::block_store_queries<block_store> {
 public:
    /// Makes an empty store. Throws: invalid_argument, and what segment::create throws (already_exists, no_space, ...).
    [[nodiscard]] static block_store create(std::string_view uri, const block_store_options& options) {
        const layout::block_store_request request{options.bytes, options.value_bytes, options.unit_bytes};
        if (const char* why = layout::check(request)) throw error(errc::invalid_argument, std::string(uri), why);
        const layout::block_store_geometry g = layout::plan_block_store(request);
        segment_spec spec;
        spec.kind = container_kind::block_store;
        spec.container_version = layout::block_store_version;
        spec.geometry = layout::geometry_words_of(g);
        spec.body_bytes = g.body_bytes();
        // A zeroed body is an empty store.
        return block_store(segment::create(uri, spec, options.segment, [](std::span<std::byte>) {}));
    }
    /// Becomes the writer of an existing store: takes the lease and finishes what the last writer was killed in.
    /// Throws: writer_alive, std::bad_alloc (one bit a unit), and what block_store_reader::attach throws.
    /// Cost: one record; units are learned 4096 at a time as allocations come by.
    [[nodiscard]] static block_store attach(std::string_view uri, const attach_options& options = {}) {
        return block_store(segment::attach(uri, access::read_write, options));
    }
    [[nodiscard]] static block_store attach(const segment_descriptors& descriptors,
                                            const attach_options& options = {}) {
        return block_store(segment::attach(descriptors, access::read_write, options));
    }
    block_store(block_store&&) noexcept = default;
    block_store& operator=(block_store&&) noexcept = default;
    block_store(const block_store&) = delete;
    block_store& operator=(const block_store&) = delete;
    ~block_store() = default;

    /// Stores a copy of `value`. Returns: ok and its handle; full, too_large, read_only, no_memory, corrupt.
    /// Drops what was prepared. Cost: the copy and its checksum, 8 bytes stored a unit, and the search for free units.
    block_result allocate(std::span<const std::byte> value) noexcept { return replace_or_allocate(0, value); }

    /// Stores a copy of `value` and frees the one under `handle`, which answers `stale` from then on. Both need room at
    /// once. A reader may meet both for a moment, never neither; so may those who look after a kill, until the next
    /// attach. Returns: ok and the new handle; stale, and as allocate().
    block_result replace(std::uint64_t handle, std::span<const std::byte> value) noexcept {
        if (!writable()) return {outcome::read_only, 0};
        if (!this->contains(handle)) return {outcome::stale, 0};
        return replace_or_allocate(handle, value);
    }

    /// Frees a value. Returns: ok; stale for a handle that names none (freed twice, for instance); read_only; corrupt,
    /// where its units cannot be told for damage: it then stays. Cost: a look at its units' words.
    outcome free(std::uint64_t handle) noexcept { return writable() ? core_->free(handle) : outcome::read_only; }

    /// Claims room for a value of `bytes`, to be filled in place; drops an earlier claim. A claim that is never
    /// committed is free again when it is discarded, when the next is made, and when the writer is gone.
    outcome prepare(std::uint64_t bytes) noexcept { return writable() ? core_->prepare(bytes) : outcome::read_only; }
    /// Copies `from` to byte `at` of the prepared ones. Returns: ok, not_claimed (also beyond them), read_only.
    outcome write(std::uint64_t at, std::span<const std::byte> from) noexcept {
        return writable() ? core_->write(at, from) : outcome::read_only;
    }
    /// Runs fill(std::span<std::byte> piece, std::uint64_t offset) over the prepared bytes, in order; a claim in one
    /// run is one piece. Plain stores into them are fine.
    template <class Fill>
    outcome fill(Fill&& fill) {
        return writable() ? core_->fill(std::forward<Fill>(fill)) : outcome::read_only;
    }
    /// The handle that commit() will give to what is prepared, whatever is freed before that; 0 without a claim. It
    /// names nothing until then: who keeps handles elsewhere can note it before the value is there, and tells after a
    /// kill by contains() whether it came. The next claim may get the number of one that was discarded or dropped: the
    /// note must go with the claim.
    [[nodiscard]] std::uint64_t pending() const noexcept { return core_->pending(); }
    /// Makes what was prepared a value; with `replaced`, in the place of that one, as replace(). Bytes that nobody
    /// wrote hold whatever lay there. Returns: ok and the handle; not_claimed, stale (the claim stays), read_only,
    /// corrupt.
    block_result commit(std::uint64_t replaced = 0) noexcept {
        return writable() ? core_->commit(replaced) : block_result{outcome::read_only, 0};
    }
    /// Drops what was prepared.
    void discard() noexcept {
        if (writable()) core_->discard();
    }

    /// What attach() found and finished.
    [[nodiscard]] const block_store_recovery& recovery() const noexcept { return core_->recovery(); }
    /// A reader on this very mapping, for other threads. It keeps the mapping, and with it the lease, until it goes.
    [[nodiscard]] block_store_reader make_reader() const { return block_store_reader(segment_); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

    /// Takes over a segment attached read-write by other means. Throws: as attach; read_only.
    explicit block_store(holdfast::segment from) : segment_(std::make_shared<holdfast::segment>(std::move(from))) {
        if (!segment_->writable())
            throw error(errc::read_only, segment_->uri(), "a store's writer needs the segment attached read-write");
        const layout::block_store_geometry g = detail::block_store_geometry_of(*segment_);
        core_ = std::make_unique<detail::block_writer_core>(detail::block_view<std::byte>(segment_->body(), g));
    }

 private:
    friend detail::block_store_queries<block_store>;
    [[nodiscard]] const detail::block_reader_core& core_for_queries() const noexcept { return core_->reader(); }
    [[nodiscard]] bool writable() const noexcept { return segment_ != nullptr && segment_->writable(); }

    block_result replace_or_allocate(std::uint64_t replaced, std::span<const std::byte> value) noexcept {
        if (!writable()) return {outcome::read_only, 0};
        const outcome status = core_->prepare(value.size());
        if (status != outcome::ok) return {status, 0};
        (void)core_->write(0, value);
        const block_result result = core_->commit(replaced);
        if (!result) core_->discard();
        return result;
    }

    std::shared_ptr<holdfast::segment> segment_;
    std::unique_ptr<detail::block_writer_core> core_;
};

}  // namespace holdfast
