// SPDX-License-Identifier: Apache-2.0
// hash_table_growth.hpp - how long a writer's operations take while its table grows and shrinks.
#pragma once

#include <cstdint>
#include <string>

#include "workload/memory_pool.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// Runs "update while the table grows, Q, SIZE" for some quantiles Q, and "the call that begins a growth, SIZE", with
/// entries of 16 bytes, as far as they are wanted. Throws: what a table throws; std::runtime_error if a growth is given
/// up or an update finds nothing.
void measure_growth(std::uint64_t entries, page_choice pages, const std::string& size_text, recorder& to);

}  // namespace holdfast::workload
