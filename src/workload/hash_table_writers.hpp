// SPDX-License-Identifier: Apache-2.0
// hash_table_writers.hpp - two processes that change one table, beside one that does the same work alone.
#pragma once

#include <cstddef>
#include <string>

#include "workload/hash_table_subject.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// Runs "update, two writers, SIZE" and "erase one and insert another, two writers, SIZE" with entries of 16 or of 64
/// bytes, as far as they are wanted. Throws: what a subject throws.
void measure_two_writers(const table_request& of, std::size_t entry_bytes, const std::string& size_text, recorder& to);

}  // namespace holdfast::workload
