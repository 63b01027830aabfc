// SPDX-License-Identifier: Apache-2.0
// hash_table_writers.hpp - processes that change one table at once, beside one that does the same work alone.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "workload/hash_table_subject.hpp"
#include "workload/processors.hpp"
#include "workload/suite.hpp"

namespace holdfast::workload {

/// Runs "update, two writers, SIZE" and "erase one and insert another, two writers, SIZE" with entries of 16 or of 64
/// bytes, as far as they are wanted. Throws: what a subject throws.
void measure_two_writers(const table_request& of, std::size_t entry_bytes, const std::string& size_text, recorder& to);

/// Runs "update, several writers at once, SIZE" and the other one likewise, of 1, 2, 4, ... writers, up to one for each
/// of these that has a core of its own, in that order; nothing where there are fewer than three of them, which two
/// writers have already.
void measure_several_writers(const table_request& of, std::size_t entry_bytes, const std::string& size_text,
                             std::span<const processor> placed, recorder& to);

}  // namespace holdfast::workload
