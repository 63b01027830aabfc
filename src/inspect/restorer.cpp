// SPDX-License-Identifier: Apache-2.0
// restorer.cpp - each kind out of a saved file. What the file says is input. Room is reserved as it says before its
// contents are read, as for any new segment, and given back if they are refused: segment::create publishes nothing
// before its fill function has come to its end.
#include "inspect/restorer.hpp"
#include "holdfast/detail/spans.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "holdfast/array/dynamic.hpp"
#include "holdfast/detail/concat.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/many.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/segment/identity.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index.hpp"
#include "inspect/kind_savers.hpp"
#include "inspect/saved_map_entry.hpp"
#include "inspect/saver_parts.hpp"
#include "inspect/small_table_places.hpp"

namespace holdfast::inspect {

namespace {

[[nodiscard]] container_schema schema_of(const saved_reader& file) {
    try {
        return container_schema::parse(file.schema());
    } catch (const error& failure) {
        throw error(errc::corrupt, file.name(), std::string("its schema cannot be read: ") + failure.what());
    }
}

/// Copies the rest of the file to the front of `into`, which must be of just that size.
void read_exactly(saved_reader& file, std::span<std::byte> into) {
    while (const auto section = file.next()) {
        if (section->size() > into.size()) refuse_contents(file, "it holds more bytes than it says");
        std::ranges::copy(*section, into.begin());
        into = into.subspan(section->size());
    }
    if (!into.empty()) refuse_contents(file, "it holds fewer bytes than it says");
}

/// Throws unless the bytes are a sound index of that shape, in the format that this program reads.
void require_index(const saved_reader& file, std::span<const std::byte> bytes, const index_shape& shape) {
    if (layout::sorted_index_header header; bytes.size() >= sizeof header) {
        std::memcpy(&header, bytes.data(), sizeof header);
        if (header.magic == layout::sorted_index_magic && header.format_version != layout::sorted_index_format_version)
            throw error(errc::version_mismatch, file.name(),
                        detail::concat("holds an index of format ", header.format_version, ", this program reads ",
                                       layout::sorted_index_format_version,
                                       "; restore it with the program that saved it, dump it, and load it here"));
    }
    layout::findings found;
    layout::verify_sorted_index(bytes, &shape.key, found);
    layout::sorted_index_image image;
    if (layout::sorted_index_image::parse(bytes, image) == nullptr)
        if (const char* wrong = shape.mismatch(image.header())) found.add(0, wrong);
    if (found.count() != 0) refuse_contents(file, detail::concat("its index is damaged: ", found.list()[0].what));
}

/// What no file of save brings about.
[[noreturn]] void refuse_to_go_on(std::string_view uri, outcome why) {
    throw error(why == outcome::no_memory ? errc::no_space : errc::corrupt, std::string(uri),
                detail::concat("an entry was refused (", outcome_name(why),
                               why == outcome::no_memory ? "): give this process more memory"
                                                         : "): the new segment's bytes are not what was written"));
}

[[nodiscard]] segment restore_table(saved_reader& file, std::string_view uri, const restore_options& options) {
    using mutator = detail::hash_table_mutator<detail::runtime_node>;
    hash_table_options wanted;
    wanted.capacity = options.capacity != 0 ? options.capacity : file.header().parameters[0];
    wanted.segment = options.create;
    const std::uint64_t slots = file.header().parameters[1];
    if (slots > layout::writer_slots_max) refuse_contents(file, "its number of writer slots is out of range");
    if (slots != 0) wanted.writer_slots = static_cast<std::uint32_t>(slots);
    return detail::create_hash_table(
        uri, wanted, schema_of(file),
        [&](std::span<std::byte> body, const layout::hash_table_geometry& g) {
            mutator table(mutator::view(body, g, detail::node_of(g)));
            const std::size_t record = g.key_bytes + g.value_bytes;
            while (const auto section = file.next()) {
                if (section->size() % record != 0) refuse_contents(file, "its records are not of its schema's size");
                for (std::size_t at = 0; at < section->size(); at += record) {
                    const std::byte* const key = section->data() + at;
                    // An entry that was taken out and put back while it was saved may stand there twice.
                    const outcome status = table.insert_or_assign(key, key + g.key_bytes).status;
                    if (status == outcome::full)
                        throw error(errc::no_space, std::string(uri),
                                    detail::concat("the table is full after ", table.size(),
                                                   " entries; give a greater --capacity"));
                    if (status != outcome::ok) refuse_to_go_on(uri, status);
                }
                if (options.progress) options.progress(file.items());
            }
        },
        slots != 0 ? writers::many : writers::one);
}

/// Puts what the file holds into an empty map; put(entry) as the set() of its policy.
template <class Put>
void fill_map(saved_reader& file, std::string_view uri, const restore_options& options,
              const layout::hash_map_geometry& g, const detail::map_reader_core& map, Put&& put) {
    saved_map_items items;
    while (const auto section = file.next()) {
        items.append(*section, file.contents_offset());
        std::uint64_t at = items.offset();
        for (auto item = items.next(); item; at = items.offset(), item = items.next()) {
            // An entry that was taken out and put back while it was saved may stand there twice.
            const outcome status = put(*item);
            if (status == outcome::full)
                throw error(errc::no_space, std::string(uri),
                            map.table().size() >= g.table.capacity
                                ? detail::concat("the map is full after ", map.table().size(),
                                                 " entries; give a greater --capacity")
                                : detail::concat("the store is full after ", map.table().size(),
                                                 " entries: what came and went while the map was saved is all there; ",
                                                 "give a greater --capacity, which makes a larger store, too"));
            if (status == outcome::too_large) refuse_contents(file, at, "an entry is larger than the map");
            if (status == outcome::collision)
                refuse_contents(file, at, "another entry has this key's hash, which no map holds side by side");
            if (status != outcome::ok) refuse_to_go_on(uri, status);
        }
        if (items.too_long(g.store.value_bytes_max()))
            refuse_contents(file, at, "an entry is longer than the map allows");
        if (options.progress) options.progress(file.items());
    }
    if (!items.empty()) refuse_contents(file, items.offset(), "its last entry is cut short");
}

void fill_map_of_one(saved_reader& file, std::string_view uri, const restore_options& options,
                     std::span<std::byte> body, const layout::hash_map_geometry& g) {
    layout::hash_map_geometry filling = g;
    // A smaller map would leave entries out and say nothing of it. One of the same size has room for all that
    // was there at one time; what was saved beside a writer may be more.
    filling.evicting = g.evicting && options.capacity == 0;
    detail::map_writer_core map(detail::map_view<std::byte>(body, filling), {}, nullptr);
    fill_map(file, uri, options, g, map.reader(), [&](const auto& item) {
        return map.set(item.key, item.value, {detail::span_of<std::chrono::seconds>(item.ttl_s), item.flags}).status;
    });
}

void fill_map_of_many(saved_reader& file, std::string_view uri, const restore_options& options,
                      std::span<std::byte> body, const layout::hash_map_geometry& g) {
    // Nobody else knows of it yet: no lock is asked for.
    detail::map_many_core<detail::writer_slot_locks> map(detail::map_view<std::byte>(body, g), 0, {});
    fill_map(file, uri, options, g, map.reader(), [&](const auto& item) {
        if (item.ttl_s != 0) refuse_contents(file, "entries of a map of many writers do not expire, and one does");
        return map.set(item.key, item.value, item.flags).status;
    });
}

/// Units of the store: as many to an entry as there were, should there be room for more entries.
[[nodiscard]] std::uint64_t units_wanted(const saved_header& header, std::uint64_t capacity) {
    const std::uint64_t units = header.parameters[1], entries = std::max<std::uint64_t>(header.parameters[0], 1);
    if (capacity <= entries) return units;
    const double wanted = static_cast<double>(units) / static_cast<double>(entries) * static_cast<double>(capacity);
    return wanted < static_cast<double>(layout::block_units_max) ? static_cast<std::uint64_t>(wanted) + 1
                                                                 : layout::block_units_max;
}

[[nodiscard]] segment restore_map(saved_reader& file, std::string_view uri, const restore_options& options) {
    const saved_header& header = file.header();
    const std::uint64_t slots = header.parameters[4];
    hash_map_options wanted;
    wanted.capacity = options.capacity != 0 ? options.capacity : header.parameters[0];
    if (header.parameters[1] == 0 || header.parameters[1] > layout::block_units_max || header.parameters[2] == 0 ||
        header.parameters[2] > layout::block_unit_bytes_max || header.parameters[3] > 1)
        refuse_contents(file, "the numbers of its store are out of range");
    if (slots > layout::writer_slots_max || (slots != 0 && (header.parameters[3] != 0 || header.peer_slots != 0)))
        refuse_contents(file, "its number of writer slots is out of range, or does not go with eviction");
    if (!file.schema().empty()) (void)schema_of(file);
    wanted.bytes = units_wanted(header, wanted.capacity) * header.parameters[2];
    wanted.unit_bytes = header.parameters[2];
    wanted.evict = header.parameters[3] != 0;
    wanted.registered_readers = header.peer_slots;
    wanted.segment = options.create;
    if (slots != 0) wanted.writer_slots = static_cast<std::uint32_t>(slots);
    return detail::create_hash_map(
        uri, wanted, file.schema(),
        [&](std::span<std::byte> body, const layout::hash_map_geometry& g) {
            (slots == 0 ? fill_map_of_one : fill_map_of_many)(file, uri, options, body, g);
        },
        slots == 0 ? writers::one : writers::many);
}

[[nodiscard]] segment restore_array(saved_reader& file, std::string_view uri, const restore_options& options) {
    using mutator = detail::array_mutator<detail::runtime_element>;
    array_options wanted;
    wanted.size = file.header().parameters[0];
    wanted.segment = options.create;
    const container_schema schema = schema_of(file);
    return detail::create_array(uri, wanted, schema, [&](std::span<std::byte> body, const layout::array_geometry& g) {
        mutator array(mutator::view(body, g, {g.element_bytes}));
        small_table_places places(*schema.value, g.size);  // create_array asks for a value
        std::uint64_t index = 0;
        while (const auto section = file.next()) {
            const std::uint64_t count = section->size() / g.element_bytes;
            if (section->size() % g.element_bytes != 0 || count > g.size - index)
                refuse_contents(file, "its elements are not of its schema's size, or more than it says");
            for (std::uint64_t done = 0; done < count; done += g.range_max)
                array.store(index + done, std::min(g.range_max, count - done), section->data() + done * g.element_bytes,
                            g.element_bytes);
            places.add(*section, static_cast<std::size_t>(g.element_bytes));
            index += count;
            if (options.progress) options.progress(file.items());
        }
        if (index != g.size) refuse_contents(file, "it holds fewer elements than it says");
        const std::vector<std::byte> free(static_cast<std::size_t>(g.element_bytes));
        for (const std::uint64_t place : places.outdated()) array.store(place, 1, free.data(), g.element_bytes);
    });
}

[[nodiscard]] segment restore_snapshot(saved_reader& file, std::string_view uri, const restore_options& options) {
    const saved_header& header = file.header();
    if (header.parameters[0] > layout::snapshot_slots_max) refuse_contents(file, "its number of slots is out of range");
    const auto geometry = layout::snapshot_geometry::make(static_cast<std::uint32_t>(header.parameters[0]),
                                                          header.parameters[1], header.parameters[2], file.name());
    segment_spec spec;
    spec.kind = container_kind::snapshot;
    spec.container_version = snapshot_layout_version;
    spec.schema = file.schema();
    std::ranges::copy(geometry.words(), spec.geometry.begin());
    std::copy(header.parameters.begin() + 4, header.parameters.end(), spec.geometry.begin() + 4);
    spec.body_bytes = geometry.body_bytes();
    spec.peer_slots = header.peer_slots;
    return segment::create(uri, spec, options.create, [&](std::span<std::byte> body) {
        layout::snapshot_write_core core(body, geometry, std::string(uri));
        layout::no_hazards none;
        if (header.parameters[3] == 0) return read_exactly(file, {});
        const prepare_result room = core.prepare(header.parameters[3] - 1, none);
        if (!room) refuse_contents(file, "its object is larger than its slots");
        read_exactly(file, room.bytes);
        if (geometry.format == sorted_index_payload_format)
            require_index(file, room.bytes,
                          index_shape::parse(std::span(header.parameters).subspan(4, 4), spec.schema, file.name()));
        if (!core.commit(room.bytes.size(), detail::now_ns())) refuse_contents(file, "its object cannot be published");
    });
}

[[nodiscard]] segment restore_index(saved_reader& file, std::string_view uri, const restore_options& options) {
    const saved_header& header = file.header();
    segment_spec spec;
    spec.kind = container_kind::sorted_index;
    spec.container_version = sorted_index_layout_version;
    spec.schema = file.schema();
    std::copy_n(header.parameters.begin(), 4, spec.geometry.begin());
    const index_shape shape = index_shape::parse(spec.geometry, spec.schema, file.name());
    spec.body_bytes = header.parameters[4];
    if (spec.body_bytes > file.file_bytes().value_or(spec.body_bytes))
        refuse_contents(file, "it says that its index is larger than the file");
    return segment::create(uri, spec, options.create, [&](std::span<std::byte> body) {
        read_exactly(file, body);
        require_index(file, body, shape);
    });
}

}  // namespace

segment restore_segment(saved_reader& file, std::string_view uri, const restore_options& options) {
    const auto kind = static_cast<container_kind>(file.header().kind);
    if (options.capacity != 0 && kind != container_kind::hash_table && kind != container_kind::hash_map &&
        kind != container_kind::counter_set)
        throw error(errc::invalid_argument, std::string(uri),
                    detail::concat("a capacity is for a hash table, a hash map or a counter set; the file holds a ",
                                   kind_name(kind), ", which gets the size it had: leave it out"));
    switch (kind) {
        case container_kind::raw: return restore_raw(file, uri, options);
        case container_kind::array: return restore_array(file, uri, options);
        case container_kind::hash_table: return restore_table(file, uri, options);
        case container_kind::hash_map: return restore_map(file, uri, options);
        case container_kind::snapshot: return restore_snapshot(file, uri, options);
        case container_kind::sorted_index: return restore_index(file, uri, options);
        case container_kind::queue: return restore_queue(file, uri, options);
        case container_kind::broadcast: return restore_broadcast(file, uri, options);
        case container_kind::block_store: return restore_blocks(file, uri, options);
        case container_kind::counter_set: return restore_counters(file, uri, options);
        case container_kind::latency_histogram: return restore_latencies(file, uri, options);
        default:
            throw error(errc::unsupported, file.name(),
                        detail::concat("holds a container of kind ", file.header().kind,
                                       ", which this program cannot restore; use the program that saved it"));
    }
}

}  // namespace holdfast::inspect
