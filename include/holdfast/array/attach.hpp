// SPDX-License-Identifier: Apache-2.0
// attach.hpp - the thin glue between arrays and segments: what a new array asks for, and what an existing one must be
// before its bytes are looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/array/recover.hpp"
#include "holdfast/array/verify.hpp"
#include "holdfast/detail/concat.hpp"
#include "holdfast/error.hpp"
#include "holdfast/record/reflect.hpp"
#include "holdfast/record/schema.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// How an array is made.
struct array_options {
    std::uint64_t size = 0;            ///< elements; all bytes of them are zero at first
    create_options segment{};          ///< mode, owner, pages
    std::string value_name = "value";  ///< field name of a scalar element
};

namespace detail {

/// Makes the segment of a new array. fill(body, geometry) may store elements in the still unpublished body, whose zero
/// bytes are an array of zeros; what it throws leaves nothing behind.
/// Throws: invalid_argument, what fill throws, and what segment::create throws.
template <class Fill>
[[nodiscard]] segment create_array(std::string_view uri, const array_options& options, const container_schema& schema,
                                   Fill&& fill) {
    const std::string subject(uri);
    if (schema.key || !schema.value)
        throw error(errc::invalid_argument, subject, "an array needs the schema of its elements, and has no keys");
    if (const char* why = layout::check_array(options.size, schema.value->bytes()))
        throw error(errc::invalid_argument, subject, why);
    const layout::array_geometry g = layout::plan_array(options.size, schema.value->bytes());
    segment_spec spec;
    spec.kind = container_kind::array;
    spec.container_version = layout::array_version;
    spec.schema = schema.text();
    spec.geometry = layout::geometry_words_of(g);
    spec.body_bytes = g.body_bytes();
    return segment::create(uri, spec, options.segment, [&](std::span<std::byte> body) { fill(body, g); });
}

[[nodiscard]] inline segment create_array(std::string_view uri, const array_options& options,
                                          const container_schema& schema) {
    return create_array(uri, options, schema, [](std::span<std::byte>, const layout::array_geometry&) {});
}

/// The checked geometry of an attached array. Throws: kind_mismatch, version_mismatch, geometry_mismatch.
[[nodiscard]] inline layout::array_geometry array_geometry_of(const segment& s) {
    s.require(container_kind::array, layout::array_version);
    layout::array_geometry g;
    if (const char* why = layout::read_array_geometry(s.info().geometry, s.bytes().size(), g))
        throw error(errc::geometry_mismatch, s.uri(),
                    concat(why, "; the header is damaged: restore the segment or make it anew"));
    return g;
}

/// The schema of an attached array, which must agree with its geometry. Throws: schema_mismatch, geometry_mismatch.
[[nodiscard]] inline container_schema schema_of_array(const segment& s, const layout::array_geometry& g) {
    container_schema stored;
    try {
        stored = container_schema::parse(s.info().schema);
    } catch (const error& e) {
        throw error(errc::schema_mismatch, s.uri(), concat("the stored schema cannot be read: ", e.what()));
    }
    if (stored.key || !stored.value)
        throw error(errc::schema_mismatch, s.uri(), "the stored schema is none of elements; make the segment anew");
    if (stored.value->bytes() != g.element_bytes)
        throw error(errc::geometry_mismatch, s.uri(),
                    "schema and geometry disagree about the element's size; restore the segment or make it anew");
    return stored;
}

/// Throws schema_mismatch unless a program of that element may use the array. Readers may know only the first fields; a
/// writer would lose the others.
inline void require_element(const segment& s, const layout::array_geometry& g, const record_schema& wanted,
                            access mode) {
    std::string why;
    const schema_relation relation = compare(*schema_of_array(s, g).value, wanted, why);
    if (relation == schema_relation::same) return;
    if (relation == schema_relation::stored_has_more_fields_at_end && mode == access::read_only) return;
    why += relation == schema_relation::different
               ? "; use the program that fits, or make the array anew"
               : "; a writer must know all fields, a reader need not: attach as one, or update the program";
    throw error(errc::schema_mismatch, s.uri(), why);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_out_of_range(const segment& s, std::uint64_t first,
                                                                      std::uint64_t count, std::uint64_t size) {
    const std::string what =
        count == 1 ? concat("element ", first) : concat("of ", count, " elements from ", first, " on some");
    throw error(errc::invalid_argument, s.uri(),
                concat(what, count == 1 ? " does" : " do", " not exist: the array has ", size,
                       "; ask for indices below its size()"));
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_too_many(const segment& s, std::uint64_t count,
                                                                  std::uint64_t range_max) {
    throw error(errc::invalid_argument, s.uri(),
                concat(count, " elements are more than one record holds; take at most ", range_max,
                       " (range_max()) at a time"));
}
/// For an outcome other than ok of loading [first, first + count).
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_load(const segment& s, outcome what, std::uint64_t first,
                                                              std::uint64_t count, const layout::array_geometry& g) {
    if (what == outcome::out_of_range) throw_out_of_range(s, first, count, g.size);
    if (what == outcome::too_large) throw_too_many(s, count, g.range_max);
    throw error(errc::contended, s.uri(),
                concat("element ", first, " was changed whenever it was read; try again when its writer rests"));
}
/// Before a store. Throws: read_only, invalid_argument.
inline void require_store(const segment& s, std::uint64_t first, std::uint64_t count, const layout::array_geometry& g) {
    if (!s.writable()) [[unlikely]]
        throw error(errc::read_only, s.uri(), "the handle was inherited by fork; attach in this process");
    if (first > g.size || count > g.size - first) [[unlikely]]
        throw_out_of_range(s, first, count, g.size);
    if (count > g.range_max) [[unlikely]]
        throw_too_many(s, count, g.range_max);
}

}  // namespace detail
}  // namespace holdfast
