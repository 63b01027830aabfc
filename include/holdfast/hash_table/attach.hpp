// SPDX-License-Identifier: Apache-2.0
// attach.hpp - the thin glue between hash tables and segments: what a new table asks for, and what an existing one must
// be before its bytes are looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/detail/random_seed.hpp"
#include "holdfast/error.hpp"
#include "holdfast/hash_table/core.hpp"
#include "holdfast/layout/hash_table_layout.hpp"
#include "holdfast/record/reflect.hpp"
#include "holdfast/record/schema.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// How a hash table is made.
struct hash_table_options {
    /// Entries it must hold. Up to this number no insert fails; the first failure comes above 99 % of the slots.
    std::uint64_t capacity = 0;
    create_options segment{};             ///< mode, owner, pages
    std::string key_name = "key";         ///< field name of a scalar key
    std::string value_name = "value";     ///< field name of a scalar value
    std::optional<std::uint64_t> seed{};  ///< of the hash; drawn at random unless a test wants it fixed
    /// Tables of writers::many: how many may be attached at once, 1 to 1024. Each takes 64 bytes and an entry's image.
    std::uint32_t writer_slots = 64;
};

template <record_key K, record V>
class growing_hash_table_reader;  // hash_table/growing.hpp

namespace detail {

template <class Table>
class table_growth;  // hash_table/grow.hpp

/// Makes the segment of a new table. fill(body, geometry) may put entries into the still unpublished body, whose zero
/// bytes are an empty table; what it throws leaves nothing behind.
/// Throws: invalid_argument, what fill throws, and what segment::create throws.
template <class Fill>
[[nodiscard]] segment create_hash_table(std::string_view uri, const hash_table_options& options,
                                        const container_schema& schema, Fill&& fill, writers policy = writers::one) {
    const std::string subject(uri);
    if (!schema.key || !schema.value)
        throw error(errc::invalid_argument, subject, "a hash table needs the schema of its keys and of its values");
    const layout::hash_table_request request{.capacity = options.capacity,
                                             .key_bytes = schema.key->bytes(),
                                             .value_bytes = schema.value->bytes(),
                                             .value_alignment = schema.value->alignment(),
                                             .seed = options.seed ? *options.seed : random_seed(subject),
                                             .writer_slots = policy == writers::many ? options.writer_slots : 0};
    if (policy == writers::many && options.writer_slots == 0)
        throw error(errc::invalid_argument, subject, "a table of many writers needs a slot for one at least");
    if (const char* why = layout::check(request)) throw error(errc::invalid_argument, subject, why);
    const layout::hash_table_geometry g = layout::plan_hash_table(request);
    segment_spec spec;
    spec.kind = container_kind::hash_table;
    spec.container_version = layout::hash_table_version;
    spec.policy = policy;
    spec.schema = schema.text();
    spec.geometry = layout::geometry_words_of(g);
    spec.body_bytes = g.body_bytes();
    return segment::create(uri, spec, options.segment, [&](std::span<std::byte> body) { fill(body, g); });
}

[[nodiscard]] inline segment create_hash_table(std::string_view uri, const hash_table_options& options,
                                               const container_schema& schema, writers policy = writers::one) {
    return create_hash_table(
        uri, options, schema, [](std::span<std::byte>, const layout::hash_table_geometry&) {}, policy);
}

/// The checked geometry of an attached table. Throws: kind_mismatch, version_mismatch, geometry_mismatch.
[[nodiscard]] inline layout::hash_table_geometry geometry_of(const segment& s) {
    s.require(container_kind::hash_table, layout::hash_table_version);
    layout::hash_table_geometry g;
    if (const char* why = layout::read_hash_table_geometry(s.info().geometry, s.bytes().size(), g))
        throw error(errc::geometry_mismatch, s.uri(),
                    std::string(why) + "; the header is damaged: restore the segment or make it anew");
    if ((s.info().policy == writers::many) != (g.writer_slots != 0))
        throw error(errc::geometry_mismatch, s.uri(),
                    "policy and writer slots contradict each other; the header is damaged: restore the segment or make "
                    "it anew");
    return g;
}

/// Throws geometry_mismatch unless the table was made for that many writers: one relies on being alone.
inline void require_policy(const segment& s, writers wanted) {
    if (s.info().policy == wanted) return;
    throw error(errc::geometry_mismatch, s.uri(),
                wanted == writers::one
                    ? "the table was made for many writers and this handle would be its only one; attach with "
                      "hash_table<K, V, writers::many>, or read-only"
                    : "the table was made for one writer; attach with hash_table<K, V>, or make it anew for many");
}

/// The schema of an attached table, which must agree with its geometry. Throws: schema_mismatch, geometry_mismatch.
[[nodiscard]] inline container_schema schema_of_hash_table(const segment& s, const layout::hash_table_geometry& g) {
    container_schema stored;
    try {
        stored = container_schema::parse(s.info().schema);
    } catch (const error& e) {
        throw error(errc::schema_mismatch, s.uri(), std::string("the stored schema cannot be read: ") + e.what());
    }
    if (!stored.key || !stored.value)
        throw error(errc::schema_mismatch, s.uri(), "the stored schema lacks keys or values; make the segment anew");
    if (stored.key->bytes() != g.key_bytes || stored.value->bytes() != g.value_bytes)
        throw error(errc::geometry_mismatch, s.uri(),
                    "schema and geometry disagree about sizes; restore the segment or make it anew");
    return stored;
}

/// Throws schema_mismatch unless a program of that schema may use the table. Readers may know only the first fields of
/// the value; a writer would lose the others.
inline void require_schema(const segment& s, const layout::hash_table_geometry& g, const container_schema& wanted,
                           access mode) {
    std::string why;
    const schema_relation relation = compare(schema_of_hash_table(s, g), wanted, why);
    if (relation == schema_relation::same) return;
    if (relation == schema_relation::stored_has_more_fields_at_end && mode == access::read_only) return;
    throw error(
        errc::schema_mismatch, s.uri(),
        why + (relation == schema_relation::different
                   ? "; use the program that fits, or load the data anew"
                   : "; a writer must know all fields, a reader need not: attach as one, or update the program"));
}

template <class K, class V>
[[nodiscard]] container_schema schema_of_types(const std::string& key_name, const std::string& value_name) {
    return {.key = schema_of<K>(key_name), .value = schema_of<V>(value_name)};
}

}  // namespace detail
}  // namespace holdfast
