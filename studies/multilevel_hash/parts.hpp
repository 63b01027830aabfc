// SPDX-License-Identifier: Apache-2.0
// parts.hpp - the parts of the study of many-level tables, and what they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../command_line.hpp"
#include "../findings.hpp"
#include "level_table.hpp"
#include "workload/keys.hpp"

namespace study {

/// Keys of a trial: trials have none in common.
[[nodiscard]] inline std::vector<std::uint64_t> keys_of_trial(std::uint64_t trial, std::uint64_t count) {
    return holdfast::workload::make_keys(trial << 40U, count);
}

/// A table of integers on memory of its own.
class own_level_table {
 public:
    using table_type = level_table<std::uint64_t>;
    explicit own_level_table(std::span<const std::uint64_t> lengths)
        : words_(table_type::bytes_for(lengths) / 8),
          table_(table_type::format(std::as_writable_bytes(std::span(words_)), lengths)) {}
    own_level_table(const own_level_table&) = delete;  // the table is of this object's words
    own_level_table& operator=(const own_level_table&) = delete;
    [[nodiscard]] table_type& table() noexcept { return table_; }

 private:
    std::vector<std::uint64_t> words_;
    table_type table_;
};

/// A table when it refuses an insert for the first time.
struct filled {
    double entries = 0;
    double usage = 0;  ///< entries a place
    double depth = 0;  ///< places looked at by a hit, on average over the entries
};
/// The mean of so many trials.
[[nodiscard]] filled fill_until_refused(std::span<const std::uint64_t> lengths, std::uint64_t trials);

/// The five published figures, each with its claims.
void usage_over_rows(findings& out, const study_options& chosen);
void usage_of_one_row(findings& out, const study_options& chosen);
void usage_over_ratio(findings& out, const study_options& chosen);
void first_rows(findings& out, const study_options& chosen);
void effective_rows_fit(findings& out, const study_options& chosen);
/// What was published of a geometric table's places, rows and depth by its first row and ratio, beside what is found.
void laws(findings& out, const study_options& chosen);
/// What was not published: entries come and go.
void churn(findings& out, const study_options& chosen);
/// The published rates, side by side. Timed.
void speed(findings& out, const study_options& chosen);

}  // namespace study
