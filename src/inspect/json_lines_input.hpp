// SPDX-License-Identifier: Apache-2.0
// json_lines_input.hpp - records out of JSON lines: one object a line; see record_input.hpp.
#pragma once

#include <memory>

#include "inspect/record_source.hpp"

namespace holdfast::inspect {

[[nodiscard]] std::unique_ptr<record_input::source> make_json_lines_input(line_input& lines,
                                                                          const std::optional<table_schema>& given,
                                                                          const std::optional<table_schema>& otherwise);

}  // namespace holdfast::inspect
