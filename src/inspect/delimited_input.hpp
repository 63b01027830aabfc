// SPDX-License-Identifier: Apache-2.0
// delimited_input.hpp - records out of CSV and TSV; see record_input.hpp.
#pragma once

#include <memory>

#include "inspect/record_source.hpp"

namespace holdfast::inspect {

[[nodiscard]] std::unique_ptr<record_input::source> make_delimited_input(line_input& lines, file_format format,
                                                                         const std::optional<table_schema>& given,
                                                                         const std::optional<table_schema>& otherwise);

}  // namespace holdfast::inspect
