// SPDX-License-Identifier: Apache-2.0
// suites.hpp - the suites that ship in the program: our containers, and what the standard library has beside them.
#pragma once

#include <vector>

#include "workload/suite.hpp"

namespace holdfast::workload {

[[nodiscard]] const std::vector<suite>& suites();

}  // namespace holdfast::workload
