// SPDX-License-Identifier: Apache-2.0
#include "inspect/contents.hpp"

#include "holdfast/array/attach.hpp"
#include "holdfast/block_store/queries.hpp"
#include "holdfast/broadcast/reader.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_table/attach.hpp"
#include "holdfast/queue/observer.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index.hpp"
#include "inspect/attach.hpp"
#include "inspect/metrics_reader.hpp"

namespace holdfast::inspect {

namespace {

[[nodiscard]] contents contents_of_table(const segment& s) {
    const layout::hash_table_geometry g = detail::geometry_of(s);
    const detail::table_view<const std::byte, detail::runtime_node> view(s.bytes(), g, {g.key_bytes, g.value_bytes});
    contents c;
    c.size = detail::hash_table_finder(view).size();
    c.capacity = g.capacity;
    if (g.writer_slots != 0) c.writer_slots = g.writer_slots;
    return c;
}

[[nodiscard]] contents contents_of_array(const segment& s) {
    contents c;
    c.size = c.capacity = detail::array_geometry_of(s).size;
    return c;
}

[[nodiscard]] contents contents_of_image(std::span<const std::byte> bytes, const segment& s, const index_shape& shape) {
    contents c;
    layout::sorted_index_image image;
    if (const char* wrong = layout::sorted_index_image::parse(bytes, image))
        throw error(errc::corrupt, s.uri(), std::string(wrong) + "; holdfast verify says where");
    c.size = image.size();
    const std::string end = shape.range_end(container_schema::parse(s.info().schema));
    if (!end.empty()) c.range_end = end;
    return c;
}

[[nodiscard]] contents contents_of_snapshot(const segment& s) {
    const layout::snapshot_geometry geometry = detail::snapshot_geometry_of(s);
    const layout::snapshot_read_core core(s.bytes(), geometry);
    contents c;
    const bool index = geometry.format == sorted_index_payload_format;
    snapshot_read_result got;
    if (index) {
        const index_shape shape = detail::index_shape_of(s);
        std::optional<error> wrong;
        got = core.visit([&](std::span<const std::byte> bytes, std::uint64_t) {
            wrong.reset();
            try {
                c = contents_of_image(bytes, s, shape);
            } catch (const error& failure) {
                wrong = failure;
            }
        });
        if (got && wrong) throw *wrong;
    } else {
        got = core.visit([&](std::span<const std::byte> bytes, std::uint64_t) { c.size = bytes.size(); });
    }
    if (got.status == outcome::corrupt)
        throw error(errc::corrupt, s.uri(),
                    "the word that names the current version is damaged; holdfast verify says more");
    c.payload = index ? container_kind::sorted_index : container_kind::raw;
    c.version = got ? got.version : layout::snapshot_version_of(core.current());
    if (!index) c.capacity = geometry.slot_bytes;
    return c;
}

[[nodiscard]] contents contents_of_broadcast(const segment& s) {
    const layout::broadcast_geometry geometry = detail::broadcast_geometry_of(s);
    layout::broadcast_read_core oldest(s.bytes(), geometry), latest(s.bytes(), geometry);
    contents c;
    c.payload = container_kind::raw;
    constexpr unsigned looks_max = 8;  // beside a writer that goes round the ring meanwhile
    for (unsigned look = 0; look < looks_max && !c.size; ++look) {
        const result first = oldest.join(broadcast_start::oldest()), last = latest.join(broadcast_start::latest());
        if (first.status == outcome::corrupt || last.status == outcome::corrupt)
            throw error(errc::corrupt, s.uri(), "the ring's index contradicts its records; holdfast verify says more");
        if (last.status == outcome::lapped) continue;
        c.version = latest.sequence() - 1;
        const bool both_there = first.status != outcome::lapped && !oldest.view().overrun(oldest.position());
        if (both_there) c.size = latest.sequence() - oldest.sequence();
    }
    return c;
}

[[nodiscard]] contents contents_of_blocks(const segment& s) {
    const layout::block_store_geometry geometry = detail::block_store_geometry_of(s);
    const block_store_usage usage = detail::block_reader_core({s.bytes(), geometry}).usage();
    if (usage.status == outcome::corrupt)
        throw error(errc::corrupt, s.uri(), "the record of the last operation is damaged; holdfast verify says more");
    contents c;
    c.room_bytes = geometry.units * geometry.unit_bytes;
    if (geometry.writer_slots != 0) c.writer_slots = geometry.writer_slots;
    if (!usage) return c;  // a writer at work each time it was looked at
    c.size = usage.values;
    c.used_bytes = usage.units_used * geometry.unit_bytes;
    return c;
}

[[nodiscard]] contents contents_of_map(const segment& s) {
    const layout::hash_map_geometry geometry = detail::hash_map_geometry_of(s);
    const hash_map_usage usage = detail::map_reader_core({s.bytes(), geometry}, detail::map_time()).usage();
    if (usage.status == outcome::corrupt)
        throw error(errc::corrupt, s.uri(), "the record of the last operation is damaged; holdfast verify says more");
    contents c;
    c.size = usage.entries;
    c.capacity = usage.capacity;
    if (geometry.writer_slots() != 0) c.writer_slots = geometry.writer_slots();
    c.room_bytes = geometry.store.units * geometry.store.unit_bytes;
    if (usage) c.used_bytes = usage.units_used * geometry.store.unit_bytes;  // else: a writer at work at each look
    return c;
}

[[nodiscard]] contents contents_of_queue(const segment& s) {
    const queue_observer observer(std::shared_ptr<const segment>(std::shared_ptr<void>(), &s), trust_anybody());
    const layout::queue_geometry& g = observer.geometry();
    contents c;
    c.size = observer.size();
    // A record has 8 bytes at least; more of them than the ring can hold is nothing to report as a size.
    if (c.size && *c.size > (g.form == layout::queue_form::elements ? g.capacity : g.capacity / 8))
        throw error(errc::corrupt, s.uri(),
                    "the counts of the queue's two sides contradict; holdfast verify says more");
    if (g.form == layout::queue_form::elements) {
        c.capacity = g.capacity;
        return c;
    }
    c.payload = container_kind::raw;
    c.room_bytes = g.capacity;
    const std::uint64_t tail = observer.producer().position;  // before the head, as in size()
    if (const auto taken = observer.consumer()) c.used_bytes = tail > taken->position ? tail - taken->position : 0;
    return c;
}

[[nodiscard]] contents contents_of_counters(const segment& s) {
    contents c;
    c.size = for_each_counter(s, [](auto, auto, auto) {}).counters;
    c.capacity = s.info().geometry[0];
    return c;
}

}  // namespace

contents contents_of(const segment& s) {
    switch (s.info().kind) {
        case container_kind::array: return contents_of_array(s);
        case container_kind::hash_table: return contents_of_table(s);
        case container_kind::hash_map: return contents_of_map(s);
        case container_kind::snapshot: return contents_of_snapshot(s);
        case container_kind::broadcast: return contents_of_broadcast(s);
        case container_kind::block_store: return contents_of_blocks(s);
        case container_kind::sorted_index: return contents_of_image(s.bytes(), s, detail::index_shape_of(s));
        case container_kind::queue: return contents_of_queue(s);
        case container_kind::counter_set: return contents_of_counters(s);
        case container_kind::latency_histogram: {
            contents c;
            c.size = latencies_of(s).total();
            return c;
        }
        default: return {};
    }
}

}  // namespace holdfast::inspect
