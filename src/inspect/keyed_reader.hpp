// SPDX-License-Identifier: Apache-2.0
// keyed_reader.hpp - keys and values of any keyed segment (hash_table, sorted_index, snapshot of sorted indexes, and
// array by the indices of its elements) by text.
//
// Made once for a segment, used for many lookups. A segment that was removed and made anew under the same name is
// noticed by refresh(). Threads: one at a time. Whatever the bytes hold, answers stay within them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "inspect/entry_codec.hpp"
#include "inspect/lookup.hpp"
#include "inspect/table_schema.hpp"

namespace holdfast {
class segment;
}

namespace holdfast::inspect {

/// How a key is looked for in an index of ranges; elsewhere both mean the same.
enum class match : std::uint8_t {
    exact,     ///< the record that begins with the key
    covering,  ///< the record whose range holds the key
};

/// Takes an entry; false stops the scan.
using entry_sink = std::function<bool(std::span<const std::byte> key, std::span<const std::byte> value)>;

class keyed_reader {
 public:
    /// Throws: as segment::attach; kind_mismatch for segments without keys, version_, geometry_, schema_mismatch,
    /// corrupt.
    [[nodiscard]] static std::unique_ptr<keyed_reader> open(std::string_view uri);
    virtual ~keyed_reader() = default;
    keyed_reader(const keyed_reader&) = delete;
    keyed_reader& operator=(const keyed_reader&) = delete;

    [[nodiscard]] const table_schema& schema() const noexcept { return schema_; }
    [[nodiscard]] const entry_codec& codec() const noexcept { return codec_; }

    /// Looks a key up by its text (entry_codec.hpp) and appends the entry as a JSON object to `out` when found.
    /// Cost: the search and the text; no allocation but what `out` needs.
    [[nodiscard]] lookup_result get(std::string_view key, match how, std::string& out);
    /// Looks a key up by its bytes. After found, key() and value() hold the entry.
    [[nodiscard]] virtual lookup_result find(std::span<const std::byte> key, match how) = 0;
    [[nodiscard]] std::span<const std::byte> key() const noexcept { return found_key_; }
    [[nodiscard]] std::span<const std::byte> value() const noexcept { return found_value_; }

    /// Gives every entry to `sink`: of an index one whole version, in order; of a table what is there meanwhile
    /// (hash_table/scan.hpp); of an array every element in order, each as it is at that moment. Throws: corrupt where
    /// the bytes are no index; what sink throws.
    virtual void scan(const entry_sink& sink) = 0;

    /// Entries now.
    [[nodiscard]] virtual std::uint64_t size() = 0;
    /// The first damage met.
    [[nodiscard]] virtual std::optional<errc> fault() const noexcept = 0;
    [[nodiscard]] virtual const segment& memory() const noexcept = 0;
    /// Whether the name leads to another segment, or none, by now: open it anew. Cost: one system call.
    [[nodiscard]] bool replaced() const;

 protected:
    explicit keyed_reader(table_schema schema);
    [[nodiscard]] std::span<std::byte> key_room() noexcept { return found_key_; }
    [[nodiscard]] std::span<std::byte> value_room() noexcept { return found_value_; }

 private:
    table_schema schema_;
    entry_codec codec_;
    std::vector<std::byte> wanted_, found_key_, found_value_;
};

}  // namespace holdfast::inspect
