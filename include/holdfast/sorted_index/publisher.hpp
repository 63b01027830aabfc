// SPDX-License-Identifier: Apache-2.0
// publisher.hpp - puts built indexes where readers find them: into a snapshot, to be replaced at will, or into a
// segment of their own, for good. See sorted_index.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/record.hpp"
#include "holdfast/segment.hpp"
#include "holdfast/snapshot/writer.hpp"
#include "holdfast/sorted_index/builder.hpp"
#include "holdfast/sorted_index/keys.hpp"
#include "holdfast/sorted_index/reader.hpp"

namespace holdfast {

struct sorted_index_publisher_options {
    std::uint64_t records_max = 0;     ///< of the largest index to be published; required
    std::uint32_t pinned_readers = 0;  ///< as snapshot_options
    std::uint32_t slots = 0;           ///< as snapshot_options
    create_options segment{};
};

/// Publishes indexes known by their schema alone. Holds the lease; one writer at a time.
class dynamic_sorted_index_publisher {
 public:
    /// `range_end`: the value's field that ends a record's range; empty for single keys.
    /// Throws: invalid_argument; as snapshot_writer::create.
    [[nodiscard]] static dynamic_sorted_index_publisher create(std::string_view uri, const container_schema& schema,
                                                               std::string_view range_end,
                                                               const sorted_index_publisher_options& options) {
        return create(uri, schema, index_shape::of(schema, range_end), options);
    }
    /// Likewise with a shape that fits the schema: ranges of keys of several fields have no one field to name.
    [[nodiscard]] static dynamic_sorted_index_publisher create(std::string_view uri, const container_schema& schema,
                                                               const index_shape& shape,
                                                               const sorted_index_publisher_options& options) {
        if (options.records_max == 0 || options.records_max > layout::sorted_index_count_max)
            throw error(errc::invalid_argument, std::string(uri),
                        "records_max is 1 to 2^36; give the size of the largest index to publish");
        snapshot_options wanted;
        wanted.slot_bytes = dynamic_sorted_index_builder::image_bytes_of(shape, options.records_max);
        wanted.pinned_readers = options.pinned_readers;
        wanted.slots = options.slots;
        wanted.segment = options.segment;
        snapshot_payload payload{sorted_index_payload_format, schema.text(), {}};
        std::ranges::copy(shape.words(), payload.words.begin());
        return dynamic_sorted_index_publisher(snapshot_writer::create(uri, wanted, payload));
    }
    /// Throws: as snapshot_writer::attach; kind_, geometry_ or schema_mismatch.
    [[nodiscard]] static dynamic_sorted_index_publisher attach(std::string_view uri,
                                                               const attach_options& options = {}) {
        return dynamic_sorted_index_publisher(snapshot_writer::attach(uri, options));
    }
    explicit dynamic_sorted_index_publisher(snapshot_writer writer)
        : writer_(std::move(writer)), shape_(detail::index_shape_of(writer_.segment())) {
        if (!detail::is_published_index(writer_.segment()))
            throw error(errc::kind_mismatch, writer_.segment().uri(), "not a snapshot of sorted indexes");
    }

    [[nodiscard]] const index_shape& shape() const noexcept { return shape_; }
    [[nodiscard]] dynamic_sorted_index_builder make_builder() const { return dynamic_sorted_index_builder(shape_); }

    /// Checks the records, writes their image straight into a free slot and makes it current.
    /// Throws: sorted_index_error, before anything was touched; invalid_argument for a builder of another shape.
    publish_result publish(dynamic_sorted_index_builder& builder) {
        if (builder.shape_words() != shape_.words())
            throw error(errc::invalid_argument, writer_.segment().uri(),
                        "the builder's records are not of this index's schema; take one from make_builder()");
        builder.finish();
        const prepare_result room = writer_.prepare(builder.image_bytes());
        if (!room) return {room.status, 0};
        builder.write(room.bytes);
        return writer_.commit(room.bytes.size());
    }

    [[nodiscard]] std::uint64_t version() const noexcept { return writer_.version(); }
    /// A reader of this very mapping.
    [[nodiscard]] dynamic_sorted_index_reader make_reader(bool pinned = false) const {
        return dynamic_sorted_index_reader(writer_.make_reader().shared(),
                                           {.pinned = pinned, .attach = {.trust = writer_.trust()}});
    }
    [[nodiscard]] const snapshot_writer& writer() const noexcept { return writer_; }

 private:
    snapshot_writer writer_;
    index_shape shape_;
};

/// Publishes typed indexes.
template <class K, class V, auto RangeEnd = nullptr>
class sorted_index_publisher {
 public:
    using builder = sorted_index_builder<K, V, RangeEnd>;
    using reader_type = sorted_index_reader<K, V, RangeEnd>;

    /// Throws: invalid_argument; as snapshot_writer::create.
    [[nodiscard]] static sorted_index_publisher create(std::string_view uri,
                                                       const sorted_index_publisher_options& options) {
        const container_schema schema{schema_of<K>("key"), schema_of<V>("value")};
        return sorted_index_publisher(
            dynamic_sorted_index_publisher::create(uri, schema, detail::shape_of<K, V, RangeEnd>(), options));
    }
    /// Throws: as snapshot_writer::attach; kind_, geometry_ or schema_mismatch.
    [[nodiscard]] static sorted_index_publisher attach(std::string_view uri, const attach_options& options = {}) {
        sorted_index_publisher result(dynamic_sorted_index_publisher::attach(uri, options));
        const holdfast::segment& from = result.publisher_.writer().segment();
        std::string why;
        const container_schema wanted{schema_of<K>("key"), schema_of<V>("value")};
        if (compare(container_schema::parse(from.info().schema), wanted, why) != schema_relation::same)
            throw error(errc::schema_mismatch, from.uri(), why);
        if (result.publisher_.shape().words() != detail::shape_of<K, V, RangeEnd>().words())
            throw error(errc::schema_mismatch, from.uri(), "the ranges of the index end in another field");
        return result;
    }

    /// As dynamic_sorted_index_publisher::publish.
    publish_result publish(builder& records) { return publisher_.publish(records.untyped()); }
    [[nodiscard]] std::uint64_t version() const noexcept { return publisher_.version(); }
    [[nodiscard]] reader_type make_reader(bool pinned = false) const {
        return reader_type(publisher_.writer().make_reader().shared(),
                           {.pinned = pinned, .attach = {.trust = publisher_.writer().trust()}});
    }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return publisher_.writer().segment(); }

 private:
    explicit sorted_index_publisher(dynamic_sorted_index_publisher publisher) : publisher_(std::move(publisher)) {}
    dynamic_sorted_index_publisher publisher_;
};

/// Makes a segment that is one index, for good. Throws: sorted_index_error; invalid_argument; as segment::create.
/// Returns: the segment, attached read-write (drop it to let go of the lease; nobody needs to write again).
inline segment create_sorted_index(std::string_view uri, const container_schema& schema,
                                   dynamic_sorted_index_builder& builder, const create_options& options = {}) {
    builder.finish();
    segment_spec spec;
    spec.kind = container_kind::sorted_index;
    spec.container_version = sorted_index_layout_version;
    spec.schema = schema.text();
    std::ranges::copy(builder.shape_words(), spec.geometry.begin());
    static_cast<void>(index_shape::parse(spec.geometry, spec.schema, std::string(uri)));  // builder fits the schema
    spec.body_bytes = builder.image_bytes();
    return segment::create(uri, spec, options, [&](std::span<std::byte> body) { builder.write(body); });
}

template <class K, class V, auto RangeEnd>
segment create_sorted_index(std::string_view uri, sorted_index_builder<K, V, RangeEnd>& builder,
                            const create_options& options = {}) {
    const container_schema schema{schema_of<K>("key"), schema_of<V>("value")};
    return create_sorted_index(uri, schema, builder.untyped(), options);
}

}  // namespace holdfast
