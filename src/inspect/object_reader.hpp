// SPDX-License-Identifier: Apache-2.0
// object_reader.hpp - the current object of a snapshot that publishes records or bytes.
#pragma once

#include <memory>
#include <string>

#include "holdfast/segment.hpp"
#include "inspect/lookup.hpp"

namespace holdfast::inspect {

/// Whether a snapshot publishes sorted indexes. Throws: kind_, version_, geometry_mismatch.
[[nodiscard]] bool publishes_index(const segment& from);

/// Appends the current object: a record as a line of JSON, bytes without a schema as they are.
/// Throws: kind_, version_, geometry_, schema_mismatch.
[[nodiscard]] lookup_result read_object(const std::shared_ptr<const segment>& from, std::string& out);

}  // namespace holdfast::inspect
