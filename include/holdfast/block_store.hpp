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

#include "holdfast/block_store/mutations.hpp"
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
    /// Stores of writers::many: how many may be attached at once, 1 to 1024. Each takes 256 bytes. The more of them,
    /// the fewer units are possible: 2^28 for 16, 2^25 for 1024; larger units hold more.
    std::uint32_t writer_slots = 16;
};

namespace detail {

/// Makes the segment of a new store. A zeroed body is an empty one. Throws: invalid_argument, and what segment::create
/// throws.
[[nodiscard]] inline segment create_block_store(std::string_view uri, const block_store_options& options,
                                                writers policy) {
    const bool many = policy == writers::many;
    if (many && options.writer_slots == 0)
        throw error(errc::invalid_argument, std::string(uri), "a store of many writers needs a slot for one at least");
    const layout::block_store_request request{options.bytes, options.value_bytes, options.unit_bytes,
                                              many ? options.writer_slots : 0};
    if (const char* why = layout::check(request)) throw error(errc::invalid_argument, std::string(uri), why);
    const layout::block_store_geometry g = layout::plan_block_store(request);
    segment_spec spec;
    spec.kind = container_kind::block_store;
    spec.container_version = many ? layout::block_store_many_version : layout::block_store_version;
    spec.policy = policy;
    spec.geometry = layout::geometry_words_of(g);
    spec.body_bytes = g.body_bytes();
    return segment::create(uri, spec, options.segment, [](std::span<std::byte>) {});
}

/// Throws geometry_mismatch unless the store was made for that many writers: one relies on being alone.
inline void require_block_policy(const segment& s, writers wanted) {
    if (s.info().policy == wanted) return;
    throw error(errc::geometry_mismatch, s.uri(),
                wanted == writers::one
                    ? "the store was made for many writers and this handle would be its only one; attach with "
                      "basic_block_store<writers::many>, or read-only"
                    : "the store was made for one writer; attach with block_store, or make it anew for many");
}

}  // namespace detail

/// Reads a store.
class block_store_reader : public detail::block_store_queries<block_store_reader> {
 public:
    /// Attaches to a store by name, or by passed descriptors. Needs read permission only.
    /// Throws: what segment::attach throws, kind_mismatch, version_mismatch, geometry_mismatch.
    [[nodiscard]] static block_store_reader attach(std::string_view uri, const attach_options& options = {}) {
        return block_store_reader(segment::attach_read_only(uri, options));
    }
    [[nodiscard]] static block_store_reader attach(const segment_descriptors& descriptors,
                                                   const attach_options& options = {}) {
        return block_store_reader(segment::attach_read_only(descriptors, options));
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

/// A writer of a store. The policy is the store's own, and each handle must name it: writers::many is
/// block_store/many.hpp.
template <writers Policy = writers::one>
class basic_block_store {
    static_assert(Policy == writers::one, "include holdfast/block_store/many.hpp for a store of many writers");
};
using block_store = basic_block_store<writers::one>;

/// Writes a store, and reads it. Holds the segment's lease. Move-only: one that was moved from answers read_only to
/// what writes, and must not be asked anything else.
template <>
class basic_block_store<writers::one> : public detail::block_store_queries<block_store>,
                                        public detail::block_store_mutations<block_store> {
 public:
    /// Makes an empty store. Throws: invalid_argument, and what segment::create throws (already_exists, no_space, ...).
    [[nodiscard]] static block_store create(std::string_view uri, const block_store_options& options) {
        return block_store(detail::create_block_store(uri, options, writers::one));
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
    basic_block_store(basic_block_store&&) noexcept = default;
    basic_block_store& operator=(basic_block_store&&) noexcept = default;
    basic_block_store(const basic_block_store&) = delete;
    basic_block_store& operator=(const basic_block_store&) = delete;
    ~basic_block_store() = default;

    /// What attach() found and finished.
    [[nodiscard]] const block_store_recovery& recovery() const noexcept { return core_->recovery(); }
    /// A reader on this very mapping, for other threads. It keeps the mapping, and with it the lease, until it goes.
    [[nodiscard]] block_store_reader make_reader() const { return block_store_reader(segment_); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

    /// Takes over a segment attached read-write by other means. Throws: as attach; read_only.
    explicit basic_block_store(holdfast::segment from)
        : segment_(std::make_shared<holdfast::segment>(std::move(from))) {
        if (!segment_->writable())
            throw error(errc::read_only, segment_->uri(), "a store's writer needs the segment attached read-write");
        const layout::block_store_geometry g = detail::block_store_geometry_of(*segment_);
        detail::require_block_policy(*segment_, writers::one);
        core_ = std::make_unique<detail::block_writer_core>(detail::block_view<std::byte>(segment_->body(), g));
    }

 private:
    friend detail::block_store_queries<block_store>;
    friend detail::block_store_mutations<block_store>;
    [[nodiscard]] const detail::block_reader_core& core_for_queries() const noexcept { return core_->reader(); }
    [[nodiscard]] bool writable() const noexcept { return segment_ != nullptr && segment_->writable(); }
    [[nodiscard]] detail::block_writer_core& core_for_mutations() noexcept { return *core_; }
    [[nodiscard]] const detail::block_writer_core& core_for_mutations() const noexcept { return *core_; }

    std::shared_ptr<holdfast::segment> segment_;
    std::unique_ptr<detail::block_writer_core> core_;
};

}  // namespace holdfast
