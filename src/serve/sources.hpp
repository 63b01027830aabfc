// SPDX-License-Identifier: Apache-2.0
// sources.hpp - attached segments as the routes see them: keys and records as bytes, meaning by the schema alone.
//
// A source belongs to one thread. What it hands out is valid only inside the call.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/memory/descriptor.hpp"
#include "holdfast/record.hpp"
#include "holdfast/segment.hpp"
#include "inspect/lookup.hpp"
#include "serve/entry_tags.hpp"

namespace holdfast::serve {

/// Takes an entry's key and value: anything that can be called so. It is not kept, and has to live through the call.
class visitor {
    using bytes = std::span<const std::byte>;

 public:
    template <class Take>
        requires(!std::same_as<std::remove_cvref_t<Take>, visitor> && std::invocable<Take&, bytes, bytes>)
    visitor(Take&& take) noexcept  // a temporary lives as long as the call that it is an argument of
        : what_(const_cast<void*>(static_cast<const void*>(std::addressof(take)))),
          call_([](void* what, bytes key, bytes value) {
              (*static_cast<std::remove_reference_t<Take>*>(what))(key, value);
          }) {}
    void operator()(bytes key, bytes value) const { call_(what_, key, value); }

 private:
    void* what_;
    void (*call_)(void*, bytes, bytes);
};

using inspect::lookup;

/// Eight hexadecimal digits that tell this segment from any other of the same name.
[[nodiscard]] std::string identity_text(const identity_array& identity);

class source {
 public:
    source() = default;
    source(const source&) = delete;
    source& operator=(const source&) = delete;
    virtual ~source() = default;

    [[nodiscard]] const container_schema& schema() const noexcept { return schema_; }
    /// Writes whole entries; made once, since most requests ask for all fields.
    [[nodiscard]] const json_writer& writer() {
        if (!writer_) writer_.emplace(schema_);
        return *writer_;
    }
    /// The segment this is attached to.
    [[nodiscard]] virtual const segment& memory() const = 0;
    /// Whether some read since the last call was kept from an answer by the writer: no damage, asking again helps.
    [[nodiscard]] virtual bool was_busy() { return false; }
    /// Whether damage was met: attaching anew is the only way on.
    [[nodiscard]] virtual bool broken() const = 0;
    /// Whether the file has lost its end. Ask after the bytes were copied, before they are believed. Cost: one fstat:
    /// in the page that a file now ends in, the kernel shows zeros and no guard is called.
    [[nodiscard]] bool cut_off() const noexcept;

    /// Of a snapshot's object, or of a record that a request describes: while it is copied or made, everybody waits.
    static constexpr std::uint64_t object_bytes_max = 16U << 20U;

 protected:
    /// Opens the file behind memory(), for cut_off(). Throws: not_found, io, ...
    void watch_size();
    /// Whether the first `end` bytes of the body still were the file's, as far as a load can tell: true is certain, for
    /// false ask cut_off(). Ask as that one.
    [[nodiscard]] bool was_there(std::uint64_t end) const noexcept;
    /// Requires: schema().value. Throws: geometry_mismatch where its records are longer than what the segment takes.
    void require_room(std::uint64_t bytes_max) const;
    /// Zeros for a record that a request describes. Requires: schema().value. Throws: failure 501 for one longer than
    /// object_bytes_max.
    [[nodiscard]] std::vector<std::byte> room_for_record() const;

    container_schema schema_;

 private:
    std::optional<json_writer> writer_;
    memory::descriptor file_;
    std::uint64_t before_last_page_ = 0;  // bytes of the body that can be sure without a system call
};

/// The outcome of a lookup in an index, and the entity tag of the state it came from: another one after every
/// publication and every re-creation.
struct index_answer {
    lookup status = lookup::absent;
    std::string tag;
};

class index_source : public source {
 public:
    /// The record whose key, or range, holds `key`; visited at most once. Requires: key.size() ==
    /// schema().key->bytes().
    [[nodiscard]] virtual index_answer find(std::span<const std::byte> key, const visitor& visit) = 0;

    /// Throws: what attaching throws; kind_mismatch where the segment holds no sorted index.
    [[nodiscard]] static std::unique_ptr<index_source> attach(const std::string& uri);
};

class table_source : public source {
 public:
    /// Requires: key.size() == schema().key->bytes().
    [[nodiscard]] virtual lookup find(std::span<const std::byte> key, const visitor& visit) = 0;
    /// Visits up to `limit` entries from position `cursor` on, fewer where entries are large or far between: the work
    /// of one call is bounded. Returns: where to go on; nothing at the end, which is the table's only where broken() is
    /// false afterwards.
    [[nodiscard]] virtual std::optional<std::uint64_t> scan(std::uint64_t cursor, std::size_t limit,
                                                            const visitor& visit) = 0;

    /// Of its entries; made once, as writer() is.
    [[nodiscard]] const entry_tags& tags() {
        if (!tags_) tags_.emplace(schema());
        return *tags_;
    }

    /// Throws: what attaching throws; kind_mismatch where the segment is no hash table.
    [[nodiscard]] static std::unique_ptr<table_source> attach(const std::string& uri);

 private:
    std::optional<entry_tags> tags_;
};

/// The current object of a snapshot.
class snapshot_source : public source {
 public:
    /// Copies it to `out` as clients see it: JSON and a line's end where it is a record, else its bytes.
    /// Returns: found with `version`; empty, contended, damaged, cut_off. Throws: failure 501 for one that is longer
    /// than object_bytes_max.
    [[nodiscard]] virtual lookup read(std::string& out, std::uint64_t& version) = 0;
    /// The bytes of the object that a body means. Throws: failure 400 for a record that is none, 501 as read().
    [[nodiscard]] virtual std::vector<std::byte> object_of(std::string_view body) = 0;
    [[nodiscard]] virtual bool of_records() const noexcept = 0;
    /// The tag of a version of this segment.
    [[nodiscard]] virtual std::string tag_of_version(std::uint64_t version) const = 0;

    /// Throws: what attaching throws; kind_mismatch where the segment is no snapshot, or holds an index;
    /// geometry_mismatch where it takes no record of its schema.
    [[nodiscard]] static std::unique_ptr<snapshot_source> attach(const std::string& uri);
};

}  // namespace holdfast::serve
