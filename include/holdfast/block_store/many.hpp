// SPDX-License-Identifier: Apache-2.0
// many.hpp - a block store that any number of processes write at once.
//
//     using texts = holdfast::basic_block_store<holdfast::writers::many>;
//     auto mine = texts::create("texts", {.bytes = 1 << 30, .value_bytes = 200});   // in one process
//     auto ours = texts::attach("texts");                                           // in any other
//     const auto kept = ours.allocate(bytes);                                       // anybody may free kept.handle
//
// Readers are those of every store: block_store_reader, lock-free, on read-only mappings.
// Threads: one writer object is used by one thread at a time; threads and processes have a handle each, which takes one
//          of the store's writer slots. Of several who free or replace one value, one succeeds, the others get `stale`.
// Crash:   a writer may be killed at any instruction. Its operation has then happened or not; what it had claimed is
//          free, and counted so at once. Whoever needs that room, or attaches, finds that its lock is gone and drops
//          the claim; nothing waits for anything else.
// Handles: as those of one writer, but each writer slot counts serials of its own: none is given out again before the
//          slot has claimed or freed 2^38 times in a store of 2^20 units and 16 slots, 2^27 times at least.
// Protocol: block_store/many_write.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "holdfast/block_store.hpp"
#include "holdfast/block_store/many_write.hpp"
#include "holdfast/detail/spans.hpp"
#include "holdfast/segment/writer_slot.hpp"

namespace holdfast {

/// One of many writers of a store. Reads it, too. Move-only: one that was moved from answers read_only to what writes,
/// and must not be asked anything else.
template <>
class basic_block_store<writers::many> : public detail::block_store_queries<basic_block_store<writers::many>>,
                                         public detail::block_store_mutations<basic_block_store<writers::many>> {
 public:
    /// Makes an empty store that up to options.writer_slots handles may write at once.
    /// Throws: invalid_argument, and what segment::create throws (already_exists, no_space, ...).
    [[nodiscard]] static basic_block_store create(std::string_view uri, const block_store_options& options) {
        return basic_block_store(detail::create_block_store(uri, options, writers::many), 0);
    }
    /// Becomes a writer of an existing store, and finishes what dead ones left undone.
    /// Throws: writer_alive where all writer slots are taken (lease_timeout waits for one), geometry_mismatch if the
    /// store is one of a single writer, std::bad_alloc (one bit a unit), and what block_store_reader::attach throws.
    /// Cost: a look at each writer slot; units are learned 4096 at a time as allocations come by.
    [[nodiscard]] static basic_block_store attach(std::string_view uri, const attach_options& options = {}) {
        return basic_block_store(segment::attach(uri, access::read_write, options),
                                 detail::ns_of(options.lease_timeout));
    }
    [[nodiscard]] static basic_block_store attach(const segment_descriptors& descriptors,
                                                  const attach_options& options = {}) {
        return basic_block_store(segment::attach(descriptors, access::read_write, options),
                                 detail::ns_of(options.lease_timeout));
    }
    basic_block_store(basic_block_store&&) noexcept = default;
    basic_block_store& operator=(basic_block_store&&) noexcept = default;
    basic_block_store(const basic_block_store&) = delete;
    basic_block_store& operator=(const basic_block_store&) = delete;
    ~basic_block_store() = default;

    /// How long free(), replace() and commit() wait for a stopped or slow writer before they answer `contended`. 1 s
    /// unless set.
    void set_patience(std::chrono::nanoseconds patience) noexcept {
        core_->locks().set_patience(detail::ns_of(patience));
    }
    /// Whom the last `contended` waited for: a living process, or one forked from it and not executed since.
    [[nodiscard]] std::optional<writer_slot_holder> blocked_by() const noexcept {
        const std::optional<std::uint32_t> slot = core_->blocked_by();
        if (!slot) return std::nullopt;
        return writer_slot_holder{*slot, core_->slots().pid(*slot)};
    }
    /// This handle's writer slot.
    [[nodiscard]] std::uint32_t writer_slot() const noexcept { return core_->slot(); }
    /// How often this handle finished what it found undone by a dead writer on its way.
    [[nodiscard]] std::uint64_t takeovers() const noexcept { return core_->takeovers(); }

    /// What attach() found and finished.
    [[nodiscard]] const block_store_recovery& recovery() const noexcept { return core_->recovery(); }
    /// A reader on this very mapping, for other threads. It keeps the mapping, and with it the writer slot, until it
    /// goes.
    [[nodiscard]] block_store_reader make_reader() const { return block_store_reader(segment_); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

 private:
    using core = detail::block_many_core<detail::writer_slot_locks>;
    friend detail::block_store_queries<basic_block_store>;
    friend detail::block_store_mutations<basic_block_store>;
    [[nodiscard]] const detail::block_reader_core& core_for_queries() const noexcept { return core_->reader(); }
    [[nodiscard]] core& core_for_mutations() noexcept { return *core_; }
    [[nodiscard]] const core& core_for_mutations() const noexcept { return *core_; }
    [[nodiscard]] bool writable() const noexcept { return segment_ != nullptr && segment_->writable(); }

    basic_block_store(holdfast::segment from, std::uint64_t timeout_ns)
        : segment_(std::make_shared<holdfast::segment>(std::move(from))) {
        constexpr std::uint64_t patience_ns = 1'000'000'000;
        const layout::block_store_geometry g = detail::block_store_geometry_of(*segment_);
        detail::require_block_policy(*segment_, writers::many);
        const auto slots = static_cast<std::uint32_t>(g.writer_slots);
        const std::uint32_t slot = detail::claim_writer_slot(*segment_, slots, timeout_ns);
        const detail::block_view<std::byte> view(segment_->body(), g);
        // Before the recovery: whoever waits for what the last holder left waits for this one.
        detail::name_holder(detail::block_slots<std::byte>(view), slot, detail::writer_slot_locks::pid());
        core_ =
            std::make_unique<core>(view, slot, detail::writer_slot_locks(segment_->lease_descriptor(), patience_ns));
    }

    std::shared_ptr<holdfast::segment> segment_;
    std::unique_ptr<core> core_;
};

}  // namespace holdfast
