// SPDX-License-Identifier: Apache-2.0
// verify_body.hpp - the check of a container's body, by kind. Used by verification.cpp only.
#pragma once

#include <memory>

#include "holdfast/segment.hpp"
#include "inspect/verification.hpp"

namespace holdfast::inspect {

/// Throws: version_, geometry_, schema_mismatch, corrupt when the body cannot be walked at all.
void verify_body(const std::shared_ptr<const segment>& s, verification& found);

}  // namespace holdfast::inspect
