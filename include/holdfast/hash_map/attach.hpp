// SPDX-License-Identifier: Apache-2.0
// attach.hpp - the thin glue between hash maps and segments: what keys there are, what a new map asks for, and what an
// existing one must be before its bytes are looked at.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/error.hpp"
#include "holdfast/hash_table/attach.hpp"
#include "holdfast/layout/hash_map_layout.hpp"
#include "holdfast/record/concepts.hpp"
#include "holdfast/record/reflect.hpp"
#include "holdfast/record/schema.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// What may be a key: text (std::string_view), any bytes (std::span<const std::byte>), or a record without padding,
/// scalars included, whose schema the segment keeps.
template <class K>
concept hash_map_key =
    std::same_as<K, std::string_view> || std::same_as<K, std::span<const std::byte>> || record_key<K>;

/// How a map is made.
struct hash_map_options {
    std::uint64_t capacity = 0;       ///< entries it must have slots for
    std::uint64_t bytes = 0;          ///< room for all entries, headers included; 0: `capacity` entries of entry_bytes
                                      ///< and 4 more, since an update needs the old and the new at once
    std::uint64_t entry_bytes = 120;  ///< key and value of a typical entry together; chooses the unit
    std::uint64_t unit_bytes = 0;     ///< 64 to 65536, a power of two; 0 = what wastes least for entry_bytes
    bool evict = false;               ///< where room is wanted, what was not used for long goes; no set() and no
                                      ///< insert() is refused that fits into the empty map
    std::uint32_t registered_readers = 0;  ///< how many hash_map_registered_reader there may be at once
    create_options segment{};              ///< mode, owner, pages
    std::string key_name = "key";          ///< field name of a scalar key
    std::optional<std::uint64_t> seed{};   ///< of the hashes; drawn at random unless a test wants it fixed
    /// Maps of writers::many: how many may be attached at once, 1 to 1024. Each takes some 640 bytes, and room for an
    /// entry more.
    std::uint32_t writer_slots = 16;
};

namespace detail {

template <hash_map_key K>
[[nodiscard]] std::span<const std::byte> map_key_bytes(const K& key) noexcept {
    if constexpr (std::same_as<K, std::string_view>)
        return std::as_bytes(std::span(key.data(), key.size()));
    else if constexpr (std::same_as<K, std::span<const std::byte>>)
        return key;
    else
        return std::as_bytes(std::span(&key, 1));
}

/// The schema that a map of such keys has; empty for keys of any size.
template <hash_map_key K>
[[nodiscard]] std::string map_schema_of(const std::string& key_name) {
    if constexpr (std::same_as<K, std::string_view> || std::same_as<K, std::span<const std::byte>>)
        return {};
    else
        return container_schema{.key = schema_of<K>(key_name), .value = std::nullopt}.text();
}

/// Throws schema_mismatch unless keys of type K are those of the segment. Bytes are any key's.
template <hash_map_key K>
void require_map_keys(const segment& s) {
    if constexpr (std::same_as<K, std::string_view>) {
        if (s.info().schema.empty()) return;
        throw error(errc::schema_mismatch, s.uri(), "its keys are no text but records; attach with their type");
    } else if constexpr (!std::same_as<K, std::span<const std::byte>>) {
        if (s.info().schema.empty())
            throw error(errc::schema_mismatch, s.uri(), "its keys are text; attach with std::string_view as the key");
        container_schema stored;
        try {
            stored = container_schema::parse(s.info().schema);
        } catch (const error& e) {
            throw error(errc::schema_mismatch, s.uri(),
                        std::string("the stored schema cannot be read: ").append(e.what()));
        }
        std::string why;
        const container_schema wanted{.key = schema_of<K>("key"), .value = std::nullopt};
        if (compare(stored, wanted, why) != schema_relation::same)
            throw error(errc::schema_mismatch, s.uri(), why + "; use the key's type that the map was made with");
    }
}

/// Makes the segment of a new map. fill(body, geometry) may put entries into the still unpublished body, whose zero
/// bytes are an empty map; what it throws leaves nothing behind.
/// Throws: invalid_argument, what fill throws, and what segment::create throws.
template <class Fill>
[[nodiscard]] segment create_hash_map(std::string_view uri, const hash_map_options& options, const std::string& schema,
                                      Fill&& fill, writers policy = writers::one) {
    const bool many = policy == writers::many;
    if (many && options.writer_slots == 0)
        throw error(errc::invalid_argument, std::string(uri), "a map of many writers needs a slot for one at least");
    if (many && options.registered_readers != 0)
        throw error(errc::invalid_argument, std::string(uri),
                    "registered readers keep entries from being evicted, and a map of many writers evicts nothing; "
                    "leave them out");
    const layout::hash_map_request request{.capacity = options.capacity,
                                           .bytes = options.bytes,
                                           .entry_bytes = options.entry_bytes,
                                           .unit_bytes = options.unit_bytes,
                                           .evicting = options.evict,
                                           .seed = options.seed ? *options.seed : random_seed(),
                                           .writer_slots = many ? options.writer_slots : 0};
    if (const char* why = layout::check(request)) throw error(errc::invalid_argument, std::string(uri), why);
    const layout::hash_map_geometry g = layout::plan_hash_map(request);
    segment_spec spec;
    spec.kind = container_kind::hash_map;
    spec.container_version = many ? layout::hash_map_many_version : layout::hash_map_version;
    spec.policy = policy;
    spec.schema = schema;
    spec.geometry = layout::geometry_words_of(g);
    spec.body_bytes = g.body_bytes();
    spec.peer_slots = options.registered_readers;
    return segment::create(uri, spec, options.segment, [&](std::span<std::byte> body) { fill(body, g); });
}

[[nodiscard]] inline segment create_hash_map(std::string_view uri, const hash_map_options& options,
                                             const std::string& schema, writers policy = writers::one) {
    return create_hash_map(uri, options, schema, [](std::span<std::byte>, const layout::hash_map_geometry&) {}, policy);
}

/// The checked geometry of an attached map. Throws: kind_mismatch, version_mismatch, geometry_mismatch.
[[nodiscard]] inline layout::hash_map_geometry hash_map_geometry_of(const segment& s) {
    const std::uint32_t stored = s.info().container_version;
    s.require(container_kind::hash_map, stored == layout::hash_map_many_version ? stored : layout::hash_map_version);
    layout::hash_map_geometry g;
    if (const char* why = layout::read_hash_map_geometry(s.info().geometry, s.bytes().size(), g))
        throw error(errc::geometry_mismatch, s.uri(),
                    std::string(why) + "; the header is damaged: restore the segment or make it anew");
    const bool many = g.writer_slots() != 0;
    if (many != (s.info().policy == writers::many) || many != (stored == layout::hash_map_many_version))
        throw error(
            errc::geometry_mismatch, s.uri(),
            "policy, version and writer slots contradict each other; the header is damaged: restore the segment "
            "or make it anew");
    return g;
}

/// Throws geometry_mismatch unless the map was made for that many writers: one relies on being alone.
inline void require_map_policy(const segment& s, writers wanted) {
    if (s.info().policy == wanted) return;
    throw error(errc::geometry_mismatch, s.uri(),
                wanted == writers::one
                    ? "the map was made for many writers and this handle would be its only one; attach with "
                      "hash_map<K, writers::many>, or read-only"
                    : "the map was made for one writer; attach with hash_map<K>, or make it anew for many");
}

}  // namespace detail
}  // namespace holdfast
