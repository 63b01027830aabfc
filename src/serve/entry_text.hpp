// SPDX-License-Identifier: Apache-2.0
// entry_text.hpp - what requests say about an entry of one table, as bytes: its key, its value, a count.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/record/schema.hpp"
#include "inspect/entry_codec.hpp"
#include "inspect/record_json.hpp"
#include "serve/entry_tags.hpp"

namespace holdfast::serve {

class entry_text {
 public:
    /// Throws: failure 404 for a table of keys alone.
    entry_text(const container_schema& schema, const std::string& uri);

    /// Throws: failure 400 for a text that is no key.
    void read_key(std::string_view text);
    /// Behind read_key(). Throws: failure 400 for a body that is no value, or another key's entry.
    void read_value(std::string_view body);
    /// `body` is {"field": NAME, "by": NUMBER}. Throws: failure 400.
    [[nodiscard]] const field& counted_field(std::string_view body, std::int64_t& by) const;

    /// What was read last.
    [[nodiscard]] std::span<const std::byte> key() const noexcept { return key_; }
    [[nodiscard]] std::span<const std::byte> value() const noexcept { return wanted_; }
    /// Appends an entry as GET gives it.
    void append_json(std::string& out, std::span<const std::byte> key, std::span<const std::byte> value) const {
        codec_.append_json(out, key, value);
    }
    [[nodiscard]] const entry_tags& tags() const noexcept { return tags_; }

 private:
    inspect::entry_codec codec_;
    inspect::record_json_reader values_;   // {"user": 7}
    inspect::record_json_reader entries_;  // {"id": 1, "user": 7}, as GET gives it
    std::vector<std::byte> key_, other_key_, wanted_;
    entry_tags tags_;
};

}  // namespace holdfast::serve
