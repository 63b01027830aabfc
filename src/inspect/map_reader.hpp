// SPDX-License-Identifier: Apache-2.0
// map_reader.hpp - entries of a hash map by the text of their keys, as JSON objects and as lines.
//
// Keys are spelled as map_keys.hpp says. Keys and values that are no UTF-8 text are shown by their hexadecimal digits,
// as key_hex and value_hex.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/hash_map.hpp"
#include "inspect/lookup.hpp"
#include "inspect/map_keys.hpp"

namespace holdfast::inspect {

class map_reader {
 public:
    /// Throws: kind_, version_, geometry_, schema_mismatch.
    explicit map_reader(std::shared_ptr<const segment> from);

    /// Looks a key up by its text and appends the entry as a JSON object to `out` when found.
    [[nodiscard]] lookup_result get(std::string_view key, std::string& out) const;

    /// Gives every entry to `sink`, which stops the scan by false; what it promises beside a working writer:
    /// hash_map_reader::next_entry. Throws: corrupt, contended; what sink throws.
    void scan(const std::function<bool(const hash_map_entry&)>& sink) const;

    /// The key as text.
    [[nodiscard]] std::string key_text(const hash_map_entry& entry) const;
    /// The entry as one JSON object: key, value, bytes, ttl_s, flags, handle.
    void append_json(std::string& out, const hash_map_entry& entry) const;
    /// The same as a line for eyes: key, bytes, seconds left, the beginning of the value, separated by tabs.
    void append_line(std::string& out, const hash_map_entry& entry) const;

    [[nodiscard]] const segment& memory() const noexcept { return reader_.segment(); }

 private:
    hash_map_reader<std::span<const std::byte>> reader_;
    map_keys keys_;
};

}  // namespace holdfast::inspect
