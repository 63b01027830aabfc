// SPDX-License-Identifier: Apache-2.0
// owner_inbox.hpp - changing an entry of a table through the inbox of its living owner.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/write_access.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/inbox.hpp"
#include "inspect/entry_codec.hpp"

namespace holdfast::cli {

/// A table that somebody else writes, and the way to ask him.
class owner_inbox {
 public:
    /// Returns: nothing where no living owner has an inbox open. Throws: as dynamic_hash_table_reader::attach.
    [[nodiscard]] static std::optional<owner_inbox> of(const std::string& uri, const write_access& access);

    [[nodiscard]] const dynamic_hash_table_reader& table() const noexcept { return table_; }
    [[nodiscard]] const inspect::entry_codec& codec() const noexcept { return codec_; }

    /// Returns: done, exists, stale or not_found. Throws: contended (nothing was changed, try again), io (nobody can
    /// tell), no_space, corrupt.
    [[nodiscard]] inbox_answer ask(const inbox_command& what);

 private:
    owner_inbox(dynamic_hash_table_reader table, inbox_client client)
        : table_(std::move(table)), codec_(table_.schema()), client_(std::move(client)) {}

    dynamic_hash_table_reader table_;
    inspect::entry_codec codec_;
    inbox_client client_;
};

}  // namespace holdfast::cli
