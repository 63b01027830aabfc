// SPDX-License-Identifier: Apache-2.0
// saver.cpp - what each kind puts into a saved file. The parameters of saved_header:
//   array         0 size
//   hash_table    0 capacity, 1 writer slots (0: of one writer)
//   hash_map      0 capacity, 1 units of the store, 2 bytes of a unit, 3 whether it evicts, 4 writer slots (0: of one
//                 writer); its items: saved_map_entry
//   snapshot      0 slots, 1 slot_bytes, 2 payload format, 3 bytes of the object + 1 (0: none), 4-15 payload's words
//   sorted_index  0-3 shape of the keys, 4 bytes of the image
// Queues and broadcasts: message_saver.cpp. Block stores: block_saver.cpp. Metrics: metrics_saver.cpp. What has no
// container: raw_saver.cpp.
#include "inspect/saver.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "holdfast/array/dynamic.hpp"
#include "holdfast/detail/concat.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index.hpp"
#include "inspect/attach.hpp"
#include "inspect/kind_savers.hpp"
#include "inspect/restorer.hpp"
#include "inspect/saved_map_entry.hpp"
#include "inspect/saver_parts.hpp"
#include "inspect/verification.hpp"

namespace holdfast::inspect {

namespace {

/// Throws unless a segment is free of damage. What is saved would be as damaged, with right checksums.
void require_sound(const std::shared_ptr<const segment>& s) {
    const verification found = verify(s);
    if (!found.intact())
        throw error(errc::corrupt, s->uri(),
                    detail::concat(found.damages,
                                   " damaged places; holdfast verify shows them, holdfast dump takes out "
                                   "what can be read"));
}

saved_writer save_table(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                        const save_progress& progress) {
    const dynamic_hash_table_reader table(s);
    saved_header header = header_of(*s);
    header.parameters[0] = std::max(table.capacity(), table.size());  // it may hold more than was asked for
    header.parameters[1] = table.geometry().writer_slots;
    saved_writer file(out, header, s->info().schema);
    std::vector<std::byte> record(table.key_bytes() + table.value_bytes());
    for (const dynamic_hash_table_entry& entry : table) {
        std::ranges::copy(entry.key, record.begin());
        std::ranges::copy(entry.value, record.begin() + static_cast<std::ptrdiff_t>(entry.key.size()));
        file.add(record, 1);
        if (progress && file.items() % items_between_reports == 0) progress(file.items());
    }
    require_no_fault(*s, table.fault());
    return file;
}

saved_writer save_map(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                      const save_progress& progress) {
    const hash_map_reader<std::span<const std::byte>> map(s);
    const layout::hash_map_geometry& g = map.geometry();
    saved_header header = header_of(*s);
    header.parameters = {std::max(map.capacity(), map.size()), g.store.units, g.store.unit_bytes, g.evicting ? 1U : 0U,
                         g.writer_slots()};
    saved_writer file(out, header, s->info().schema);
    std::vector<std::byte> item;
    for (const hash_map_entry& entry : map) {
        require_no_fault(*s, map.fault());
        append_saved(item, entry);
        file.add(item, 1);
        item.clear();
        if (progress && file.items() % items_between_reports == 0) progress(file.items());
    }
    require_no_fault(*s, map.fault());
    return file;
}

/// Asks again for a second, beside a writer that never rests or that the system stopped in the middle.
template <class Read>
[[nodiscard]] outcome ask_until_calm(Read&& read) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    outcome got = read();
    while (got == outcome::contended && std::chrono::steady_clock::now() < end) got = read();
    return got;
}

/// As many elements at a time as a store replaces at once.
saved_writer save_array(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                        const save_progress& progress) {
    const dynamic_array_reader array(s);
    saved_header header = header_of(*s);
    header.parameters[0] = array.size();
    saved_writer file(out, header, s->info().schema);
    std::vector<std::byte> room(array.range_max() * array.element_bytes());
    std::uint64_t reported = 0;
    for (std::uint64_t first = 0; first < array.size(); first += array.range_max()) {
        const std::uint64_t count = std::min(array.range_max(), array.size() - first);
        const std::span<std::byte> elements = std::span(room).first(count * array.element_bytes());
        if (ask_until_calm([&] { return array.load_range(first, count, elements); }) != outcome::ok)
            require_no_fault(*s, errc::contended);
        file.add(elements, count);
        if (!progress || file.items() - reported < items_between_reports) continue;
        reported = file.items();
        progress(reported);
    }
    return file;
}

saved_writer save_snapshot(const std::shared_ptr<const segment>& s, const saved_writer::sink& out) {
    const layout::snapshot_geometry g = detail::snapshot_geometry_of(*s);
    snapshot_reader reader(s);
    std::vector<std::byte> object;
    snapshot_read_result result;
    (void)ask_until_calm([&] { return (result = reader.read(object)).status; });
    if (result.status != outcome::ok && result.status != outcome::empty)
        require_no_fault(*s, result.status == outcome::contended ? errc::contended : errc::corrupt);
    saved_header header = header_of(*s);
    header.parameters = {g.slots, g.slot_bytes, g.format,
                         result.status == outcome::ok ? object.size() + 1 : std::uint64_t{0}};
    std::copy(s->info().geometry.begin() + 4, s->info().geometry.end(), header.parameters.begin() + 4);
    saved_writer file(out, header, s->info().schema);
    if (!object.empty()) file.add(object, 1);
    return file;
}

saved_writer save_index(const std::shared_ptr<const segment>& s, const saved_writer::sink& out) {
    layout::sorted_index_image image;
    s->require(container_kind::sorted_index, sorted_index_layout_version);
    if (const char* wrong = layout::sorted_index_image::parse(s->bytes(), image))
        throw error(errc::corrupt, s->uri(), std::string(wrong) + "; holdfast verify shows where");
    saved_header header = header_of(*s);
    std::copy_n(s->info().geometry.begin(), 4, header.parameters.begin());
    header.parameters[4] = image.bytes().size();
    saved_writer file(out, header, s->info().schema);
    file.add(image.bytes(), image.size());
    return file;
}

}  // namespace

save_report save(std::string_view uri, const saved_writer::sink& out, const save_progress& progress) {
    return save(attach_to_look(uri), out, progress);
}

save_report save(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                 const save_progress& progress) {
    require_sound(s);
    bool still = true;
    const auto contents = [&]() -> saved_writer {
        switch (s->info().kind) {
            case container_kind::raw: return save_raw(s, out, progress, still);
            case container_kind::array: return save_array(s, out, progress);
            case container_kind::hash_table: return save_table(s, out, progress);
            case container_kind::hash_map: return save_map(s, out, progress);
            case container_kind::snapshot: return save_snapshot(s, out);
            case container_kind::sorted_index: return save_index(s, out);
            case container_kind::queue: return save_queue(s, out, progress);
            case container_kind::broadcast: return save_broadcast(s, out, progress);
            case container_kind::block_store: return save_blocks(s, out, progress);
            case container_kind::counter_set: return save_counters(s, out);
            case container_kind::latency_histogram: return save_latencies(s, out);
            default:
                throw error(
                    errc::unsupported, s->uri(),
                    detail::concat("a container of kind ", static_cast<std::uint32_t>(s->info().kind),
                                   ", which this program does not know; save it with the program that made it"));
        }
    };
    saved_writer file = contents();
    require_whole(*s);
    file.finish();
    return {.uri = s->uri(), .kind = s->info().kind, .items = file.items(), .bytes = file.bytes(), .still = still};
}

save_report restore(const std::string& path, std::string_view uri, const restore_options& options) {
    saved_reader file(path);
    const segment made = restore_segment(file, uri, options);
    return {.uri = std::string(uri), .kind = made.info().kind, .items = file.items(), .bytes = made.info().total_bytes};
}

void append_json(json_out& out, const save_report& report) {
    out.begin_object()
        .member("uri", report.uri)
        .member("kind", kind_name(report.kind))
        .member("items", report.items)
        .member("bytes", report.bytes);
    if (report.kind == container_kind::raw) out.member("still", report.still);
    out.end_object();
}

}  // namespace holdfast::inspect
