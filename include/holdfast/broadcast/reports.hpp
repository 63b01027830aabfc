// SPDX-License-Identifier: Apache-2.0
// reports.hpp - how far a ring's registered readers are and what they cost its writer, for people and for monitoring.
// See broadcast.hpp.
//
// Every number is the last that its owner wrote down; they are read one by one, so they may be of different moments.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "holdfast/broadcast/reader.hpp"
#include "holdfast/broadcast/reliable_reader.hpp"
#include "holdfast/detail/spans.hpp"
#include "holdfast/layout/broadcast_slots.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// What is known of one registered reader.
struct broadcast_reader_report {
    std::uint32_t slot = 0;
    bool alive = false;                      ///< its process holds the slot
    std::optional<broadcast_policy> policy;  ///< nothing: not registered, or evicted
    std::uint64_t registered_ns = 0;         ///< Unix time
    std::uint64_t sequence = 0;              ///< of its next message, as it last said
    std::uint64_t behind_bytes = 0;          ///< from its place to the tail: what it occupies of the ring
    std::uint64_t received = 0;              ///< messages, as it last said
    std::uint64_t lost = 0;                  ///< messages, as it last said
    std::chrono::nanoseconds blocked_for{};  ///< how long it held the writer up, in all
    std::uint64_t blocked = 0;               ///< how often
    bool evicted = false;                    ///< its patience ran out
};

/// What a ring's writers counted, all of them together.
struct broadcast_writer_report {
    std::uint64_t takeovers = 0;  ///< creation included
    std::uint64_t refused = 0;    ///< claims and publishes that a registered reader was in the way of
    std::uint64_t evicted = 0;    ///< readers whose patience ran out
    std::uint64_t reclaimed = 0;  ///< dead readers whose hold was taken back
};

namespace detail {

[[nodiscard]] inline std::optional<broadcast_reader_report> broadcast_report_on(const layout::broadcast_view& view,
                                                                                const peers& table, std::uint64_t tail,
                                                                                std::uint32_t index) {
    // Relaxed throughout: see above.
    constexpr auto relaxed = std::memory_order_relaxed;
    const layout::broadcast_slot& slot = broadcast_slot_in(table, index);
    const std::uint64_t held = slot.held.load(relaxed), policy = layout::broadcast_held_policy(held);
    broadcast_reader_report report;
    report.slot = index;
    report.alive = table.alive(index + 1);
    if (!report.alive && held == 0) return std::nullopt;
    if (policy >= 1 && policy <= 3) report.policy = static_cast<broadcast_policy>(policy);
    report.registered_ns = slot.registered_ns.load(relaxed);
    report.sequence = slot.sequence.load(relaxed);
    const std::uint64_t position = layout::broadcast_held_position(held);
    if (report.policy && position <= tail) report.behind_bytes = tail - position;
    report.received = slot.received.load(relaxed);
    report.lost = slot.lost.load(relaxed);
    const layout::broadcast_report& noted = view.report(index);
    if (noted.registered_ns.load(relaxed) != report.registered_ns) return report;
    report.blocked_for = span_of<std::chrono::nanoseconds>(noted.blocked_ns.load(relaxed));
    report.blocked = noted.blocked.load(relaxed);
    report.evicted = noted.evicted.load(relaxed) != 0;
    return report;
}

[[nodiscard]] inline std::vector<broadcast_reader_report> broadcast_reports(const layout::broadcast_view& view,
                                                                            const peers& table, std::uint64_t tail) {
    std::vector<broadcast_reader_report> all;
    // Both were checked to agree when they were opened; neither is read again.
    for (std::uint32_t i = 0; i < view.geometry().readers && i + 1 < table.size(); ++i)
        if (const auto report = broadcast_report_on(view, table, tail, i)) all.push_back(*report);
    return all;
}

}  // namespace detail

/// The registered readers of a ring, as anybody may ask who may read NAME.peers. Cost: a line and a system call for
/// each slot. Throws: kind_mismatch, version_mismatch, geometry_mismatch, corrupt; contended where the writer outran
/// every look at where it is; as peers::open_to_look, but for a ring without room for registered readers: none.
[[nodiscard]] inline std::vector<broadcast_reader_report> registered_readers_of(const segment& ring,
                                                                                const memory::trust& whom = {}) {
    const layout::broadcast_geometry geometry = detail::broadcast_geometry_of(ring);
    if (geometry.readers == 0) return {};
    layout::broadcast_read_core latest(ring.bytes(), geometry);
    const result joined = latest.join(broadcast_start::latest());
    if (joined.status == outcome::corrupt)
        throw error(errc::corrupt, ring.uri(), "the ring's index contradicts its records; holdfast verify says more");
    if (joined.status == outcome::lapped)
        throw error(errc::contended, ring.uri(), "its writer left no quiet moment; try again when it rests");
    return detail::broadcast_reports(latest.view(), peers::open_to_look(ring, whom), latest.position());
}

/// What the writers of a ring counted. Throws: kind_mismatch, version_mismatch, geometry_mismatch.
[[nodiscard]] inline broadcast_writer_report broadcast_writer_report_of(const segment& ring) {
    const layout::broadcast_view view(ring.bytes(), detail::broadcast_geometry_of(ring));
    // Relaxed: see above.
    constexpr auto relaxed = std::memory_order_relaxed;
    const layout::broadcast_control& control = view.control();
    return {control.epoch.load(relaxed), control.refused.load(relaxed), control.evicted.load(relaxed),
            control.reclaimed.load(relaxed)};
}

}  // namespace holdfast
