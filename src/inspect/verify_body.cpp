// SPDX-License-Identifier: Apache-2.0
#include "inspect/verify_body.hpp"

#include <algorithm>
#include <optional>

#include "holdfast/array/dynamic.hpp"
#include "holdfast/block_store/queries.hpp"
#include "holdfast/broadcast/reader.hpp"
#include "holdfast/detail/concat.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/queue/observer.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index.hpp"
#include "inspect/attach.hpp"
#include "inspect/contents.hpp"
#include "inspect/metrics_reader.hpp"

namespace holdfast::inspect {

namespace {

/// Where a finding shows: in the journal, a tag line, or the first node that it is about.
[[nodiscard]] std::uint64_t offset_of(const hash_table_finding& f, const layout::hash_table_geometry& g) {
    switch (f.what) {
        case hash_table_damage::journal_slot:
        case hash_table_damage::journal_value:
        case hash_table_damage::size_wrong: return g.journal_offset;
        case hash_table_damage::stripe_owner:
        case hash_table_damage::stripe_growth:
            return g.stripes_offset + (f.bucket / layout::buckets_per_region & (g.stripes - 1)) * layout::stripe_bytes;
        case hash_table_damage::counter_too_low:
        case hash_table_damage::version_odd: return g.lines_offset + f.bucket * layout::line_bytes;
        default: return g.nodes_offset + f.slot * g.node_bytes;
    }
}

[[nodiscard]] std::string place_of(const hash_table_finding& f) {
    switch (f.what) {
        case hash_table_damage::journal_slot:
        case hash_table_damage::journal_value:
        case hash_table_damage::size_wrong: return "journal";
        case hash_table_damage::stripe_owner:
        case hash_table_damage::stripe_growth: return "stripe";
        case hash_table_damage::counter_too_low:
        case hash_table_damage::version_odd: return detail::concat("bucket ", f.bucket);
        case hash_table_damage::checksum: return detail::concat("slots ", f.slot, "..", f.slot + f.slots - 1);
        default: return detail::concat("bucket ", f.bucket, ", slot ", f.slot);
    }
}

/// What could not be compared beside a working writer.
void warn_busy(const std::string& parts, verification& found) {
    found.add(
        {severity::warning,
         "body",
         std::nullopt,
         {},
         detail::concat("a working writer left no quiet moment to compare ", parts, "; look again when it rests")});
}
void warn_busy(std::uint64_t parts, verification& found) {
    if (parts != 0) warn_busy(detail::concat(parts, " parts"), found);
}

void verify_table(const std::shared_ptr<const segment>& s, verification& found) {
    const dynamic_hash_table_reader table(s);
    const layout::hash_table_geometry g = table.geometry();
    const auto add = [&](const hash_table_finding& f) {
        found.add(
            {severity::damage, "body", header_bytes + offset_of(f, g), place_of(f), std::string(describe(f.what))});
        return true;
    };
    const hash_table_verification result = table.verify(add);
    found.elements = result.entries;
    const auto note = [&](const std::string& what) {
        found.add({severity::note, "body", header_bytes + g.journal_offset, "journal", what});
    };
    if (result.update_armed)
        note("a value was being replaced; readers and the next writer take it from the journal");
    else if (result.operation_open)
        note("an operation was under way; the next writer settles it");
    warn_busy(result.busy, found);
    if (result.counters_too_high != 0)
        note(detail::concat(result.counters_too_high, " overflow counters are higher than need be: misses probe more"));
}

void verify_elements(const std::shared_ptr<const segment>& s, verification& found) {
    const dynamic_array_reader array(s);
    const layout::array_geometry& g = array.geometry();
    const array_verification result = array.verify([&](const array_finding& f) {
        const std::uint64_t offset = f.what == array_damage::checksum ? g.elements_offset + f.first * g.stride
                                     : f.what == array_damage::version_odd
                                         ? g.versions_offset + f.first / g.group_elements * 8
                                         : g.journal_offset;
        found.add({severity::damage, "body", header_bytes + offset,
                   f.count == 0 ? "journal" : detail::concat("elements ", f.first, "..", f.first + f.count - 1),
                   std::string(describe(f.what))});
        return true;
    });
    found.elements = result.elements;
    if (result.store_open)
        found.add({severity::note, "body", header_bytes + g.journal_offset, "journal",
                   "a store was under way; the next writer finishes it"});
    warn_busy(result.busy, found);
}

void add_findings(const layout::findings& from, verification& found) {
    for (const layout::finding& f : from.list())
        found.add({severity::damage, "body", header_bytes + f.offset, {}, f.what});
    // Those beyond the list count as well.
    found.damages += from.count() - from.list().size();
}

void verify_snapshot_body(const std::shared_ptr<const segment>& s, verification& found) {
    const layout::snapshot_geometry geometry = detail::snapshot_geometry_of(*s);
    if (geometry.format == sorted_index_payload_format) {
        found.elements = contents_of(*s).size.value_or(0);
        add_findings(verify_sorted_index(*s), found);
        return;
    }
    found.elements = layout::snapshot_read_core(s->bytes(), geometry).current() == 0 ? 0 : 1;
    add_findings(snapshot_reader(s).verify(), found);
}

void verify_broadcast_body(const std::shared_ptr<const segment>& s, verification& found) {
    layout::findings list;
    const layout::broadcast_checked checked =
        layout::verify_broadcast(s->bytes(), detail::broadcast_geometry_of(*s), list);
    found.elements = checked.messages;
    add_findings(list, found);
    if (!checked.quiet)
        found.add({severity::warning,
                   "body",
                   std::nullopt,
                   {},
                   "a working writer overran every look at the ring; look again when it rests"});
}

/// Where a finding about a block store shows: in the control, in a unit's word, or in a unit.
[[nodiscard]] std::uint64_t offset_of(const block_finding& f, const layout::block_store_geometry& g) {
    switch (f.what) {
        case block_damage::runs:
        case block_damage::overlap:
        case block_damage::checksum: return g.units_offset() + f.unit * g.unit_bytes;
        case block_damage::word:
        case block_damage::foreign_unit: return layout::block_words_offset + f.unit * 8;
        default: return g.writer_slots == 0 ? layout::block_selector_offset : g.journals_offset();
    }
}

void verify_blocks(const std::shared_ptr<const segment>& s, verification& found) {
    const layout::block_store_geometry g = detail::block_store_geometry_of(*s);
    const block_store_verification result = detail::verify_blocks({s->bytes(), g}, [&](const block_finding& f) {
        const std::uint64_t at = offset_of(f, g);
        const bool counts = at == layout::block_selector_offset || (g.writer_slots != 0 && at == g.journals_offset());
        std::string place = counts ? "counts" : detail::concat("unit ", f.unit);
        if (f.handle != 0) place += detail::concat(", handle ", f.handle);
        found.add({severity::damage, "body", header_bytes + at, std::move(place), std::string(describe(f.what))});
        return true;
    });
    found.elements = result.values;
    if (result.replacement_open)
        found.add({severity::note, "body", header_bytes + layout::block_selector_offset, "counts",
                   "a value was being replaced; the next writer takes the old one out"});
    if (result.busy) warn_busy("the counts", found);
}

/// Where a finding about a map shows: in its table, its control page, or its store.
[[nodiscard]] std::uint64_t offset_of(const hash_map_finding& f, const layout::hash_map_geometry& g) {
    switch (f.what) {
        case hash_map_damage::table: return offset_of(f.table, g.table);
        case hash_map_damage::store: return g.store_offset() + offset_of(f.store, g.store);
        case hash_map_damage::record:
            return g.writer_slots() == 0 ? g.control_offset()
                                         : g.journals_offset() + f.slot * layout::map_journal_bytes;
        case hash_map_damage::lost_entry:
        case hash_map_damage::foreign_entry: return g.table.nodes_offset + f.slot * g.table.node_bytes;
        case hash_map_damage::unreached: break;
    }
    const detail::block_view<const std::byte> store({}, g.store);
    return g.store_offset() + layout::block_words_offset + store.index_of(f.handle) * 8;
}

[[nodiscard]] std::string place_of(const hash_map_finding& f) {
    switch (f.what) {
        case hash_map_damage::table: return detail::concat("table, ", place_of(f.table));
        case hash_map_damage::store:
            return f.store.handle != 0 ? detail::concat("store, unit ", f.store.unit, ", handle ", f.store.handle)
                                       : detail::concat("store, unit ", f.store.unit);
        case hash_map_damage::record: return f.slot == 0 ? "record" : detail::concat("record of writer slot ", f.slot);
        case hash_map_damage::lost_entry:
        case hash_map_damage::foreign_entry: return detail::concat("slot ", f.slot, ", handle ", f.handle);
        case hash_map_damage::unreached: break;
    }
    return detail::concat("handle ", f.handle);
}

void verify_map(const std::shared_ptr<const segment>& s, verification& found) {
    const layout::hash_map_geometry g = detail::hash_map_geometry_of(*s);
    const hash_map_verification result = detail::verify_map({s->bytes(), g}, [&](const hash_map_finding& f) {
        const std::string_view what = f.what == hash_map_damage::table   ? describe(f.table.what)
                                      : f.what == hash_map_damage::store ? describe(f.store.what)
                                                                         : describe(f.what);
        found.add({severity::damage, "body", header_bytes + offset_of(f, g), place_of(f), std::string(what)});
        return true;
    });
    found.elements = result.entries;
    if (result.operation_open || result.table.operation_open)
        found.add({severity::note, "body", header_bytes + g.control_offset(), "record",
                   "an operation was under way; the next writer finishes it"});
    warn_busy(result.busy, found);
}

void verify_queue_body(const std::shared_ptr<const segment>& s, verification& found) {
    const queue_observer observer(s, trust_anybody());
    const layout::queue_verification seen = observer.verify();
    found.elements = seen.messages;
    const auto of_consumer = [](std::uint64_t offset) {
        return offset >= layout::queue_consumer_offset && offset < layout::queue_producer_here_offset;
    };
    for (const layout::finding& f : seen.found.list()) {
        if (of_consumer(f.offset))  // not in this file
            found.add({severity::damage, "peers", std::nullopt, "consumer's side", f.what});
        else
            found.add({severity::damage, "body", header_bytes + f.offset, {}, f.what});
    }
    found.damages += seen.found.count() - seen.found.list().size();
    const auto add = [&](severity how, const char* part, std::string what) {
        found.add({how, part, std::nullopt, {}, std::move(what)});
    };
    if (observer.refusal())
        add(severity::warning, "peers",
            detail::concat("the consumer's side cannot be seen, so the messages were not walked: ",
                           observer.refusal()->what()));
    if (seen.busy) add(severity::warning, "body", "both sides moved during every look; look again when they rest");
    if (seen.unsettled)
        add(severity::note, "body", "a transaction is published and not entered; the next producer does that");
}

void verify_index(const std::shared_ptr<const segment>& s, verification& found) {
    add_findings(verify_sorted_index(*s), found);
    layout::sorted_index_image image;
    if (layout::sorted_index_image::parse(s->bytes(), image) == nullptr) found.elements = image.size();
}

void verify_counters(const std::shared_ptr<const segment>& s, verification& found) {
    const counter_walk walk = for_each_counter(*s, [](auto, auto, auto) {});  // checks the geometry
    found.elements = walk.counters;
    const auto* const slots = reinterpret_cast<const layout::counter_slot*>(s->bytes().data());
    std::optional<std::uint64_t> free;  // the first place that was
    for (std::uint64_t i = 0; i < s->info().geometry[0]; ++i) {
        const layout::counter_name name(slots[i]);
        const auto add = [&](severity how, const char* what) {
            found.add(
                {how, "body", header_bytes + i * sizeof(layout::counter_slot), detail::concat("counter ", i), what});
        };
        const bool text = valid_metric_family(name.family()) && valid_metric_labels(name.labels());
        // Places are taken in order: one that is taken by now was free a moment ago, and so were those behind it.
        const bool taken = name.state() != layout::counter_slot_state::empty;
        if (taken && free && layout::counter_name(slots[*free]).state() != layout::counter_slot_state::empty)
            free = std::nullopt;
        if (!taken)
            free = free ? free : i;
        else if (free)
            add(severity::damage, "a counter behind the first free place is never found");
        else if (name.state() == layout::counter_slot_state::unfinished)
            add(severity::note,
                "its registration is under way or was cut short; whoever asks for the name next finishes it");
        else if (name.state() == layout::counter_slot_state::damaged || !text)
            add(severity::damage, "the bytes of its name are no name of a counter");
    }
}

template <class Shard>
void verify_shard(const Shard& shard, std::uint64_t offset, const std::string& name, verification& found) {
    const auto add = [&](severity how, const char* what) { found.add({how, "body", offset, name, what}); };
    // Relaxed: at rest, or one sample behind.
    constexpr auto relaxed = std::memory_order_relaxed;
    const auto counts_any = [&] {
        return std::ranges::any_of(shard.counts, [](const auto& count) { return count.load(relaxed) != 0; });
    };
    for (std::size_t b = log_linear::buckets; b < shard.counts.size(); ++b)
        if (shard.counts[b].load(relaxed) != 0) add(severity::damage, "a count stands behind the last bucket");
    if (shard.owner.load(relaxed) > 1) add(severity::damage, "its owner word is neither 0 nor 1");
    // Counted last: the first sample may come while this looks.
    if (shard.greatest.load(relaxed) != 0 && shard.sum.load(relaxed) != 0 && !counts_any())
        add(severity::note, "a sample is under way or was cut short by a kill; it is not counted");
}

void verify_histogram(const std::shared_ptr<const segment>& s, verification& found) {
    found.elements = latencies_of(*s).total();  // checks the geometry
    const std::uint64_t owned = s->info().geometry[0] - 1;
    const std::byte* const body = s->bytes().data();
    const std::uint64_t shared_at = owned * sizeof(layout::latency_shard);
    for (std::uint64_t i = 0; i < owned; ++i)
        verify_shard(reinterpret_cast<const layout::latency_shard*>(body)[i],
                     header_bytes + i * sizeof(layout::latency_shard), detail::concat("shard ", i), found);
    verify_shard(*reinterpret_cast<const layout::shared_latency_shard*>(body + shared_at), header_bytes + shared_at,
                 "the shared shard", found);
}

}  // namespace

void verify_body(const std::shared_ptr<const segment>& s, verification& found) {
    switch (s->info().kind) {
        case container_kind::array: return verify_elements(s, found);
        case container_kind::hash_table: return verify_table(s, found);
        case container_kind::snapshot: return verify_snapshot_body(s, found);
        case container_kind::broadcast: return verify_broadcast_body(s, found);
        case container_kind::block_store: return verify_blocks(s, found);
        case container_kind::hash_map: return verify_map(s, found);
        case container_kind::sorted_index: return verify_index(s, found);
        case container_kind::queue: return verify_queue_body(s, found);
        case container_kind::counter_set: return verify_counters(s, found);
        case container_kind::latency_histogram: return verify_histogram(s, found);
        default:
            found.add({severity::note,
                       "body",
                       std::nullopt,
                       {},
                       detail::concat("this program cannot look into a ", kind_name(s->info().kind))});
    }
}

}  // namespace holdfast::inspect
