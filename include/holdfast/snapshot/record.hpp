// SPDX-License-Identifier: Apache-2.0
// record.hpp - a snapshot of one plain record: small state that is always read whole. See snapshot.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/record.hpp"
#include "holdfast/snapshot/reader.hpp"
#include "holdfast/snapshot/writer.hpp"

namespace holdfast {

namespace detail {

/// Refuses a segment whose record is not T, or T with more fields at its end. Throws: schema_mismatch.
template <class T>
void require_record(const segment& from, bool writes) {
    std::string why = "it has no schema: its objects are bytes, read them with snapshot_reader";
    if (!from.info().schema.empty()) {
        const container_schema stored = container_schema::parse(from.info().schema);
        if (!stored.key && stored.value) {
            const schema_relation relation = compare(*stored.value, schema_of<T>(), why);
            if (relation == schema_relation::same) return;
            if (relation == schema_relation::stored_has_more_fields_at_end && !writes) return;
        } else {
            why = "its objects are containers, not single records: " + from.info().schema;
        }
    }
    throw error(errc::schema_mismatch, from.uri(), why + "; use the program's version that fits, or recreate it");
}

}  // namespace detail

/// The writer of one record of type T. Its readers are snapshot<T>::reader.
template <record T>
class snapshot {
 public:
    class reader;

    struct options {
        std::uint32_t slots = 8;  ///< versions kept: a reader is overrun only by slots - 1 publishes during its copy
        create_options segment{};
    };

    /// Throws: as snapshot_writer::create.
    [[nodiscard]] static snapshot create(std::string_view uri, const options& wanted = {}) {
        snapshot_payload payload;
        payload.schema = container_schema{std::nullopt, schema_of<T>()}.text();
        return snapshot(snapshot_writer::create(
            uri, {.slot_bytes = sizeof(T), .pinned_readers = 0, .slots = wanted.slots, .segment = wanted.segment},
            payload));
    }
    /// Throws: as snapshot_writer::attach; schema_mismatch.
    [[nodiscard]] static snapshot attach(std::string_view uri, const attach_options& options = {}) {
        snapshot result(snapshot_writer::attach(uri, options));
        detail::require_record<T>(result.writer_.underlying(), true);
        return result;
    }

    publish_result publish(const T& value) {
        return writer_.publish({reinterpret_cast<const std::byte*>(&value), sizeof(T)});
    }
    [[nodiscard]] std::uint64_t version() const noexcept { return writer_.version(); }
    [[nodiscard]] reader make_reader() const { return reader(writer_.reader()); }
    [[nodiscard]] const segment& underlying() const noexcept { return writer_.underlying(); }

 private:
    explicit snapshot(snapshot_writer writer) : writer_(std::move(writer)) {}
    snapshot_writer writer_;
};

/// Reads the record.
template <record T>
class snapshot<T>::reader {
 public:
    struct result {
        outcome status = outcome::empty;
        std::uint64_t version = 0;
        T value{};
        [[nodiscard]] explicit operator bool() const noexcept { return status == outcome::ok; }
    };

    /// Throws: as snapshot_reader::attach; schema_mismatch.
    [[nodiscard]] static reader attach(std::string_view uri, const attach_options& options = {}) {
        return reader(snapshot_reader::attach(uri, options));
    }
    explicit reader(snapshot_reader from) : reader_(std::move(from)) {
        detail::require_record<T>(reader_.underlying(), false);
    }

    /// The newest value. Cost: a copy of T and three loads.
    [[nodiscard]] result read() noexcept {
        // Whole words: a slot's room is a multiple of a page, so the last word may reach beyond the record.
        std::uint64_t words[(sizeof(T) + 7) / 8];
        bool whole = true;
        const snapshot_read_result got = reader_.visit([&](std::span<const std::byte> object, std::uint64_t) noexcept {
            whole = object.size() >= sizeof(T);  // longer: the writer's record has more fields at its end
            if (!whole) return;
            for (std::size_t i = 0; i < std::size(words); ++i)
                words[i] = detail::shared_load<std::uint64_t>(object.data() + 8 * i);
        });
        result out{got.status, got.version, {}};
        if (got && !whole) out.status = outcome::corrupt;
        if (out) {
            std::array<std::byte, sizeof(T)> record;
            std::memcpy(record.data(), words, sizeof(T));
            out.value = detail::record_of<T>(record);
        }
        return out;
    }
    [[nodiscard]] std::uint64_t version() const noexcept { return reader_.version(); }
    [[nodiscard]] std::optional<errc> fault() const noexcept { return reader_.fault(); }

 private:
    snapshot_reader reader_;
};

}  // namespace holdfast
