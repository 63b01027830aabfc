// SPDX-License-Identifier: Apache-2.0
// answer_check.hpp - whether an answer is the one that was asked for; whatever else came is shown in one line.
#pragma once

#include <string>
#include <string_view>

#include "workload/http_load/answer_scanner.hpp"
#include "workload/http_load/load_generator.hpp"

namespace holdfast::workload::http {

/// The first of these bytes, in quotation marks, those that are no printable ASCII as blanks and question
/// marks.
[[nodiscard]] std::string shown(std::string_view bytes);

/// Throws: wrong_answer unless `got` has status 200 and the body of `wanted`.
void check_answer(const exchange& wanted, const answer& got);

}  // namespace holdfast::workload::http
