// SPDX-License-Identifier: Apache-2.0
#include "inspect/activity.hpp"
#include "holdfast/detail/spans.hpp"

#include <algorithm>

#include "holdfast/array/attach.hpp"
#include "holdfast/block_store/queries.hpp"
#include "holdfast/broadcast/reports.hpp"
#include "holdfast/hash_map/attach.hpp"
#include "holdfast/hash_map/many_view.hpp"
#include "holdfast/hash_table/attach.hpp"
#include "holdfast/hash_table/intent.hpp"
#include "holdfast/queue/observer.hpp"
#include "holdfast/snapshot.hpp"
#include "inspect/attach.hpp"
#include "inspect/listing.hpp"
#include "inspect/metrics_reader.hpp"

namespace holdfast::inspect {

namespace {

constexpr std::uint64_t table_count_modulus = std::uint64_t{1} << 24;  // hash_table/intent.hpp

[[nodiscard]] std::uint64_t operations_of_table(const segment& s) {
    const layout::hash_table_geometry g = detail::geometry_of(s);
    std::uint64_t sum = 0;  // of all writers
    for (std::uint64_t writer = 0; writer < g.journals(); ++writer) {
        const std::byte* const journal = s.bytes().data() + g.journal_offset + writer * g.journal_bytes();
        sum += detail::shared_load<std::uint64_t>(journal + layout::journal_intent_offset) >> 40;
    }
    return sum % table_count_modulus;
}

/// Nothing where the writer outran every look.
[[nodiscard]] std::optional<std::uint64_t> newest_message_of(const segment& s) {
    layout::broadcast_read_core latest(s.bytes(), detail::broadcast_geometry_of(s));
    const result joined = latest.join(broadcast_start::latest());
    if (joined.status == outcome::corrupt)
        throw error(errc::corrupt, s.uri(), "the ring's index contradicts its records; holdfast verify says more");
    if (joined.status == outcome::lapped) return std::nullopt;
    return latest.sequence() - 1;
}

[[nodiscard]] std::uint64_t version_of(const segment& s) {
    const layout::snapshot_read_core core(s.bytes(), detail::snapshot_geometry_of(s));
    return layout::snapshot_version_of(core.current());
}

[[nodiscard]] std::uint64_t sum_of_counters(const segment& s) {
    std::uint64_t sum = 0;
    for_each_counter(s, [&](std::string_view, std::string_view, std::uint64_t value) { sum += value; });
    return sum;
}

[[nodiscard]] std::optional<std::uint64_t> messages_of_queue(const segment& s) {
    s.require(container_kind::queue, queue_layout_version);
    const auto g = layout::queue_geometry::parse(s.info().geometry, s.bytes().size(), s.uri());
    const queue_side_stats put = detail::stats_of(
        *reinterpret_cast<const layout::queue_side*>(s.bytes().data() + layout::queue_producer_offset), g);
    return put.counted ? std::optional(put.messages) : std::nullopt;
}

[[nodiscard]] std::uint64_t operations_of_blocks(const segment& s) {
    const detail::block_view<const std::byte> view(s.bytes(), detail::block_store_geometry_of(s));
    if (view.geometry().writer_slots == 0) return view.selector() / 2;
    const detail::block_slots slots(view);
    std::uint64_t operations = 0;
    for (std::uint64_t slot = 0; slot < slots.slots(); ++slot) operations += slots.selector(slot) / 2;
    return operations;
}

[[nodiscard]] std::uint64_t operations_of_map(const segment& s) {
    const detail::map_view<const std::byte> view(s.bytes(), detail::hash_map_geometry_of(s));
    const detail::map_slots slots(view);
    if (slots.slots() == 0) return view.selector() / 2;
    std::uint64_t operations = 0;
    for (std::uint64_t slot = 0; slot < slots.slots(); ++slot) operations += slots.selector(slot) / 2;
    return operations;
}

/// Each store is a record; an odd sequence is that of a committed one (array/write.hpp, I1).
[[nodiscard]] std::uint64_t stores_of_array(const segment& s) {
    const std::byte* const journal = s.bytes().data() + detail::array_geometry_of(s).journal_offset;
    const auto sequence = detail::shared_load<std::uint64_t>(journal + layout::array_sequence_offset);
    return sequence / 2 + sequence % 2;
}

/// What a segment's writers did, as it counts them itself; a table modulo 2^24. Nothing where nobody counts.
[[nodiscard]] std::optional<std::uint64_t> operations_of(const segment& s) {
    switch (s.info().kind) {
        case container_kind::hash_table: return operations_of_table(s);
        case container_kind::broadcast: return newest_message_of(s);
        case container_kind::snapshot: return version_of(s);
        case container_kind::queue: return messages_of_queue(s);
        case container_kind::counter_set: return sum_of_counters(s);
        case container_kind::latency_histogram: return latencies_of(s).total();
        case container_kind::block_store: return operations_of_blocks(s);
        case container_kind::hash_map: return operations_of_map(s);
        case container_kind::array: return stores_of_array(s);
        default: return std::nullopt;
    }
}

[[nodiscard]] std::string_view policy_name(std::optional<broadcast_policy> policy) noexcept {
    if (!policy) return "none";
    switch (*policy) {
        case broadcast_policy::block: return "block";
        case broadcast_policy::drop: return "drop";
        case broadcast_policy::evict: return "evict";
    }
    return "none";
}

void add_ring_readers(activity& into, const segment& s) {
    const auto newest = newest_message_of(s);
    into.readers_known = newest.has_value();
    if (!newest) return;
    const std::uint64_t next = *newest + 1;
    for (const broadcast_reader_report& r : registered_readers_of(s, trust_anybody()))
        into.readers.push_back({.slot = r.slot,
                                .alive = r.alive,
                                .lag = next > r.sequence ? next - r.sequence : 0,
                                .bytes = r.behind_bytes,
                                .lost = r.lost,
                                .blocked_ns = detail::ns_of(r.blocked_for),
                                .policy = policy_name(r.policy)});
}

void add_pinned_readers(activity& into, const segment& s) {
    if (s.info().peer_slots == 0) return;
    const std::uint64_t current = version_of(s);
    const peers table = peers::open_to_look(s, trust_anybody());
    for (std::uint32_t slot = 0; slot < table.size(); ++slot) {
        if (!table.alive(slot)) continue;
        // Acquire is not needed: a number for people. Relaxed.
        const std::uint64_t held = detail::hazard_in(table, slot).load(std::memory_order_relaxed);
        const std::uint64_t version = layout::snapshot_version_of(held);
        into.readers.push_back(
            {.slot = slot, .alive = true, .lag = version != 0 && current > version ? current - version : 0});
    }
}

void add_consumer(activity& into, const std::shared_ptr<const segment>& s) {
    const queue_observer observer(s, trust_anybody());
    into.readers_known = !observer.refusal();
    if (const auto waiting = observer.size())
        into.readers.push_back({.slot = 0, .alive = observer.consumer_alive() == true, .lag = *waiting});
}

void add_readers(activity& into, const std::shared_ptr<const segment>& s) {
    switch (s->info().kind) {
        case container_kind::broadcast: return add_ring_readers(into, *s);
        case container_kind::snapshot: return add_pinned_readers(into, *s);
        case container_kind::queue: return add_consumer(into, s);
        default: return;
    }
}

void append_readers(json_out& out, const std::vector<reader_lag>& readers) {
    out.begin_array();
    for (const reader_lag& r : readers) {
        out.begin_object().member("slot", r.slot).member("alive", r.alive).member("lag", r.lag);
        if (!r.policy.empty())
            out.member("bytes", r.bytes)
                .member("lost", r.lost)
                .member("blocked_ns", r.blocked_ns)
                .member("policy", r.policy);
        out.end_object();
    }
    out.end_array();
}

}  // namespace

std::uint64_t activity::lag_max() const noexcept {
    std::uint64_t most = 0;
    for (const reader_lag& reader : readers) most = std::max(most, reader.lag);
    return most;
}

void activity_watch::count(watched_segment& of, std::uint64_t raw) noexcept {
    const bool wraps = of.at->info().kind == container_kind::hash_table;
    if (!of.raw)
        of.total = wraps ? 0 : raw;
    else if (wraps)
        of.total += (raw - *of.raw) % table_count_modulus;
    else
        of.total = raw;
    of.raw = raw;
}

void activity_watch::tick() {
    for (auto& [name, of] : segments_)
        if (of.at && of.at->info().kind == container_kind::hash_table) count(of, operations_of_table(*of.at));
}

void activity_watch::look_at(activity& into, const std::string& name) {
    watched_segment& of = segments_[name];
    if (of.at && of.at->replaced()) of = {};
    if (!of.at) of.at = attach_to_look(name);
    if (const auto raw = operations_of(*of.at)) {
        count(of, *raw);
        const std::uint64_t now = memory::deadline::now_ns();
        if (of.total_before && of.total >= *of.total_before && now > of.looked_ns)
            into.per_second =
                static_cast<double>(of.total - *of.total_before) * 1e9 / static_cast<double>(now - of.looked_ns);
        into.operations = of.total;
        of.total_before = of.total;
        of.looked_ns = now;
    }
    try {
        add_readers(into, of.at);
    } catch (const error&) {
        into.readers_known = false;
        into.readers.clear();
    }
    require_whole(*of.at);
}

std::vector<activity> activity_watch::look() { return look_at_all(list_segments()); }

std::vector<activity> activity_watch::look_at_all(const std::vector<std::string>& names) {
    std::erase_if(segments_, [&](const auto& entry) { return !std::ranges::binary_search(names, entry.first); });
    std::vector<activity> all;
    for (const std::string& name : names) {
        activity& seen = all.emplace_back();
        seen.what = describe(name);
        try {
            look_at(seen, name);
        } catch (const error& failure) {  // what was read so far may be zeros behind a cut
            if (!seen.what.problem) seen.what.problem = problem_of(failure);
            seen = {.what = std::move(seen.what),
                    .operations = {},
                    .per_second = {},
                    .readers = {},
                    .readers_known = false};
            segments_.erase(name);
        }
    }
    return all;
}

std::string memory_kind_of(std::string_view uri) {
    const std::size_t colon = uri.find(':');
    return std::string(colon == std::string_view::npos ? "posix" : uri.substr(0, colon));
}

void append_json(json_out& out, const activity& seen) {
    const description& d = seen.what;
    out.begin_object().member("uri", d.uri).member("memory", memory_kind_of(d.uri)).key("kind");
    if (d.info)
        out.string(kind_name(d.info->kind)).member("bytes", d.info->total_bytes);
    else
        out.null().key("bytes").null();
    out.key("allocated_bytes");
    if (d.backing)
        out.number(d.backing->allocated_bytes);
    else
        out.null();
    out.member("size", d.contents.size).member("capacity", d.contents.capacity);
    out.member("used_bytes", d.contents.used_bytes).member("room_bytes", d.contents.room_bytes);
    out.member("operations", seen.operations).member("per_second", seen.per_second);
    out.key("lease").begin_object().member("state", lease_name(d.lease)).member("pid", d.owner.pid);
    out.member("running", d.owner_alive).end_object().key("readers");
    if (seen.readers_known)
        append_readers(out, seen.readers);
    else
        out.null();
    out.key("problem");
    if (d.problem)
        out.string(code_name(d.problem->code));
    else
        out.null();
    out.end_object();
}

}  // namespace holdfast::inspect
