// SPDX-License-Identifier: Apache-2.0
// observer.hpp - looks at a queue without taking part: occupancy, counts, damage. See queue.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "holdfast/layout/queue_layout.hpp"
#include "holdfast/layout/queue_verify.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/queue/place.hpp"
#include "holdfast/record.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// Looks at a queue of either form. Takes no role and stores nothing. Threads: one at a time.
class queue_observer {
 public:
    /// Throws: as segment::attach; kind_mismatch, version_mismatch, geometry_mismatch.
    [[nodiscard]] static queue_observer attach(std::string_view uri, const attach_options& options = {}) {
        return queue_observer(segment::attach_read_only(uri, options), options.trust);
    }
    explicit queue_observer(std::shared_ptr<const holdfast::segment> from, const memory::trust& whom = {})
        : segment_(std::move(from)) {
        segment_->require(container_kind::queue, queue_layout_version);
        geometry_ = layout::queue_geometry::parse(segment_->info().geometry, segment_->bytes().size(), segment_->uri());
        element_bytes_ = element_bytes_of(*segment_, geometry_);
        if (segment_->name().kind == memory::kind::heap) {
            consumer_ =
                reinterpret_cast<const layout::queue_side*>(segment_->bytes().data() + layout::queue_consumer_offset);
            return;
        }
        try {
            if (segment_->info().peer_slots != layout::queue_peer_slots) return;
            table_.emplace(peers::open_to_look(*segment_, whom));
            consumer_ = reinterpret_cast<const layout::queue_side*>(table_->slot(layout::queue_consumer_slot).data());
        } catch (const error& refusal) {
            blind_ = refusal;  // not ours to read, or not there: the producer's side is still worth a look
        }
    }

    [[nodiscard]] const layout::queue_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] queue_side_stats producer() const noexcept {
        return detail::stats_of(
            *reinterpret_cast<const layout::queue_side*>(segment_->bytes().data() + layout::queue_producer_offset),
            geometry_, element_bytes_);
    }
    /// Nothing when the consumer's side cannot be seen: refusal() says why.
    [[nodiscard]] std::optional<queue_side_stats> consumer() const noexcept {
        if (consumer_ == nullptr) return std::nullopt;
        return detail::stats_of(*consumer_, geometry_, element_bytes_);
    }
    [[nodiscard]] const std::optional<error>& refusal() const noexcept { return blind_; }
    /// The words behind consumer(), which change meanwhile; null when they cannot be seen.
    [[nodiscard]] const layout::queue_side* consumer_side() const noexcept { return consumer_; }
    /// Messages waiting; nothing when the consumer's side cannot be seen. A snapshot of two moving numbers.
    [[nodiscard]] std::optional<std::uint64_t> size() const noexcept {
        // The producer first: what was taken meanwhile makes the difference smaller, never more than the ring holds.
        const queue_side_stats put = producer();
        const auto taken = consumer();
        if (!taken || !taken->counted || !put.counted) return std::nullopt;
        return put.messages > taken->messages ? put.messages - taken->messages : 0;
    }
    [[nodiscard]] std::optional<bool> producer_alive() const noexcept {
        if (!table_) return std::nullopt;
        return detail::writer_lives(*segment_, *table_, layout::queue_producer_slot);
    }
    [[nodiscard]] std::optional<bool> consumer_alive() const noexcept {
        return table_ ? std::optional(table_->alive(layout::queue_consumer_slot)) : std::nullopt;
    }
    /// What is damaged. Cost: one load a message.
    [[nodiscard]] layout::queue_verification verify() const {
        return layout::verify_queue(segment_->bytes(), geometry_, consumer_);
    }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return *segment_; }

 private:
    /// By the schema; where that is damaged, a slot's.
    [[nodiscard]] static std::uint64_t element_bytes_of(const holdfast::segment& of, const layout::queue_geometry& g) {
        try {
            const container_schema stored = container_schema::parse(of.info().schema);
            if (!stored.key && stored.value && stored.value->bytes() <= g.stride) return stored.value->bytes();
        } catch (const error&) {  // not a schema
        }
        return g.stride;
    }

    std::shared_ptr<const holdfast::segment> segment_;
    layout::queue_geometry geometry_;
    std::uint64_t element_bytes_ = 0;
    std::optional<peers> table_;
    const layout::queue_side* consumer_ = nullptr;
    std::optional<error> blind_;
};

}  // namespace holdfast
