// SPDX-License-Identifier: Apache-2.0
// survivors.hpp - survivors.txt, the list of relaxed orders that no execution shows, each with the reason why, and what
// contradicts it. docs/memory-orders.md explains the reasons.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace holdfast::test {

/// "FILE FUNCTION | TEXT | ORDER" (weak_interleaving.hpp: orders_of) -> a letter.
using order_reasons = std::map<std::string, std::string>;

/// The list, as it lies in the source tree. Throws: std::runtime_error when it is not there.
[[nodiscard]] std::string survivors_list();

/// What a list says about one container. A line is "CONTAINER | LETTER | FILE FUNCTION | TEXT | ORDER"; what begins
/// with # is a remark. Throws: std::runtime_error for any other line.
[[nodiscard]] order_reasons reasons_in(const std::string& list, const std::string& container);

/// What contradicts the reasons, and what to do about it: a survivor without one, a reason of what is caught, a reason
/// of what there is not.
[[nodiscard]] std::vector<std::string> contradictions(const std::string& container, const order_reasons& reasons,
                                                      const std::set<std::string>& survived,
                                                      const std::set<std::string>& caught);

/// A line of the table in docs/memory-orders.md.
[[nodiscard]] std::string order_row(const std::string& container, const std::string& order, const std::string& became,
                                    unsigned long long executions);

}  // namespace holdfast::test
