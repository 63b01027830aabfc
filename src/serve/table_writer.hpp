// SPDX-License-Identifier: Apache-2.0
// table_writer.hpp - a hash table's entries changed by text: what PUT, DELETE and increment do.
//
// (I1) The comparison that a condition asks for and the change are one: under the lease of a table of one writer, under
//      the key's stripe in one of many.
// (I2) Who throws a failure has changed nothing.
// Commit points and what a kill leaves are the table's (hash_table/dynamic.hpp).
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/hash_table/dynamic.hpp"
#include "serve/conditions.hpp"
#include "serve/entry_text.hpp"

namespace holdfast::serve {

class table_writer {
 public:
    /// Becomes the table's writer, or one of its many. Throws: failure 409 that names who holds the lease, 503 where
    /// that is another worker or where all slots are taken; and what attaching throws.
    explicit table_writer(const std::string& uri);

    [[nodiscard]] const segment& memory() const noexcept { return table_.segment(); }
    /// Whether others may write beside this one; else it holds the lease of all.
    [[nodiscard]] bool is_one_of_many() const noexcept { return table_.geometry().writer_slots != 0; }
    [[nodiscard]] bool broken() const noexcept {
        const auto fault = table_.fault();
        return fault && *fault != errc::contended;
    }

    /// What was done. `value` is the entry's behind it, until the next call.
    struct written {
        entry_change what = entry_change::none;
        std::span<const std::byte> key, value;
    };
    /// Each throws: failure.
    written put(std::string_view key, std::string_view body, const conditions& asked);
    written erase(std::string_view key, const conditions& asked);
    /// `body` is {"field": NAME, "by": NUMBER}.
    written increment(std::string_view key, std::string_view body, const conditions& asked);
    [[nodiscard]] entity_tag tag_of(const written& entry) const noexcept { return text_.tags().of(entry.value); }
    /// Appends the entry as GET gives it, by the fields that it was changed by.
    void append_json(std::string& out, const written& entry) const { text_.append_json(out, entry.key, entry.value); }

 private:
    /// Throws: failure for whatever is no success; `denied` is why the change said no.
    void require(const hash_table_result& result, int denied = 412) const;
    /// Throws: failure 412 for an entry that is to match and is not there.
    void require_match(const hash_table_result& result, const conditions& asked) const;
    [[noreturn]] void refuse_contended() const;

    dynamic_hash_table table_;
    entry_text text_;
    std::vector<std::byte> value_;  // of the entry that is changed
};

}  // namespace holdfast::serve
