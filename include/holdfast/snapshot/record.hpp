// SPDX-License-Identifier: Apache-2.0
// record.hpp - a snapshot of one plain record: small state that is always read whole. See snapshot.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/record.hpp"
#include "holdfast/record/untrusted.hpp"
#include "holdfast/snapshot/pinned_reader.hpp"
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

/// The writer of one record of type T. Its readers are snapshot<T>::reader and, for records too large to be copied each
/// time, snapshot<T>::pinned_reader.
template <record T>
class snapshot {
 public:
    class reader;
    class pinned_reader;

    struct options {
        std::uint32_t pinned_readers = 0;  ///< how many registered readers there may be at once
        /// Versions kept: a reader is overrun only by slots - 1 publishes during its copy; 0 = pinned_readers + 8. With
        /// pinned_readers + 2 or more a publish never lacks a slot.
        std::uint32_t slots = 0;
        create_options segment{};
    };

    /// Throws: as snapshot_writer::create.
    [[nodiscard]] static snapshot create(std::string_view uri, const options& wanted = {}) {
        snapshot_payload payload;
        payload.schema = container_schema{std::nullopt, schema_of<T>()}.text();
        return snapshot(snapshot_writer::create(uri,
                                                {.slot_bytes = sizeof(T),
                                                 .pinned_readers = wanted.pinned_readers,
                                                 .slots = wanted.slots != 0 ? wanted.slots : wanted.pinned_readers + 8,
                                                 .segment = wanted.segment},
                                                payload));
    }
    /// Throws: as snapshot_writer::attach; schema_mismatch.
    [[nodiscard]] static snapshot attach(std::string_view uri, const attach_options& options = {}) {
        snapshot result(snapshot_writer::attach(uri, options));
        detail::require_record<T>(result.writer_.segment(), true);
        return result;
    }

    /// Makes `value` current. Returns: as snapshot_writer::publish.
    publish_result publish(const T& value) {
        return writer_.publish({reinterpret_cast<const std::byte*>(&value), sizeof(T)});
    }
    [[nodiscard]] std::uint64_t version() const noexcept { return writer_.version(); }
    [[nodiscard]] reader make_reader() const { return reader(writer_.make_reader()); }
    [[nodiscard]] pinned_reader make_pinned_reader() const { return pinned_reader(writer_.make_pinned_reader()); }
    [[nodiscard]] const holdfast::segment& segment() const noexcept { return writer_.segment(); }

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
        detail::require_record<T>(reader_.segment(), false);
    }

    /// The newest value. Cost: a copy of T and three loads; of at most 40 bytes, all from one cache line.
    [[nodiscard]] result read() noexcept {
        // Whole words: a slot's room is a multiple of a page, and that of the front one of words, so the last one may
        // reach beyond the record.
        union {
            detail::raw_record<T> record;
            std::byte words[(sizeof(T) + 7) / 8 * 8];
        } copied;
        if constexpr (sizeof copied.words <= layout::snapshot_front_bytes) {
            // Longer than T: the writer's record has more fields at its end.
            if (const auto version = reader_.core().template read_front<sizeof copied.words>(copied.words, sizeof(T));
                version != 0) [[likely]]
                return {outcome::ok, version, copied.record.get()};
        }
        bool whole = true;
        const snapshot_read_result got = reader_.visit([&](std::span<const std::byte> object, std::uint64_t) noexcept {
            whole = object.size() >= sizeof(T);  // longer: the writer's record has more fields at its end
            if (whole)
                detail::copy_from_shared<sizeof copied.words>(copied.words, std::assume_aligned<64>(object.data()));
        });
        result out{got.status, got.version, {}};
        if (got && !whole) out.status = outcome::corrupt;
        if (out) out.value = copied.record.get();
        return out;
    }
    [[nodiscard]] std::uint64_t version() const noexcept { return reader_.version(); }
    [[nodiscard]] std::optional<errc> fault() const noexcept { return reader_.fault(); }

 private:
    snapshot_reader reader_;
};

/// Reads the record in place, where it stays whole for as long as a view of it lives.
/// Requires: T holds no bool: in place nothing brings a byte that another process wrote to 0 or 1.
template <record T>
class snapshot<T>::pinned_reader {
    static_assert(!detail::has_boolean(detail::facts_for<T>()),
                  "a bool in a segment may be any byte, so it is never used in place: take snapshot<T>::reader, or a "
                  "std::uint8_t instead of the bool");
    static_assert(alignof(T) <= 64);  // slots begin with a page, of memory that is aligned at least so

 public:
    /// One version of the record. Move-only; must not outlive its reader.
    class view {
     public:
        view() = default;
        /// ok; else as snapshot_view::status().
        [[nodiscard]] outcome status() const noexcept {
            // Longer is right: the writer's record has more fields at its end.
            return held_ && held_.bytes().size() < sizeof(T) ? outcome::corrupt : held_.status();
        }
        [[nodiscard]] explicit operator bool() const noexcept { return held_.bytes().size() >= sizeof(T); }
        [[nodiscard]] std::uint64_t version() const noexcept { return held_.version(); }
        /// Requires: the view is ok.
        [[nodiscard]] const T& operator*() const noexcept { return *reinterpret_cast<const T*>(held_.bytes().data()); }
        [[nodiscard]] const T* operator->() const noexcept { return &**this; }

     private:
        friend class pinned_reader;
        explicit view(snapshot_view held) noexcept : held_(std::move(held)) {}
        snapshot_view held_;
    };

    /// Throws: as snapshot_pinned_reader::attach; schema_mismatch.
    [[nodiscard]] static pinned_reader attach(std::string_view uri, const attach_options& options = {}) {
        return pinned_reader(snapshot_pinned_reader::attach(uri, options));
    }
    explicit pinned_reader(snapshot_pinned_reader from) : reader_(std::move(from)) {
        detail::require_record<T>(reader_.segment(), false);
    }

    /// The newest version; while any view is alive, the version that view holds. Cost: as snapshot_pinned_reader::pin.
    [[nodiscard]] view pin() noexcept {
        view now(reader_.pin());
        if (now.status() == outcome::corrupt) corrupt_ = true;
        return now;
    }
    /// Stops holding the version last pinned, for a reader that will be idle. Does nothing while a view is alive.
    void release() noexcept { reader_.release(); }
    /// The newest version published, whether held or not; 0 before the first. Cost: one load.
    [[nodiscard]] std::uint64_t version() const noexcept { return reader_.version(); }
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        return corrupt_ ? std::optional(errc::corrupt) : reader_.fault();
    }

 private:
    snapshot_pinned_reader reader_;
    bool corrupt_ = false;
};

}  // namespace holdfast
