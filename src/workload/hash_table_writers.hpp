// SPDX-License-Identifier: Apache-2.0
// hash_table_writers.hpp - two processes that change one table, beside one that does the same work alone.
#pragma once

#include <cstdint>
#include <string>

#include "workload/memory_pool.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// Runs "update, two writers, SIZE" and "erase one and insert another, two writers, SIZE" with entries of 16 bytes, as
/// far as they are wanted. Throws: what a subject throws.
void measure_two_writers(std::uint64_t entries, page_choice pages, const std::string& size_text, recorder& to);

}  // namespace holdfast::workload
