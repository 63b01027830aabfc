// SPDX-License-Identifier: Apache-2.0
// lines.hpp - from an address in this program to the line that it was compiled from.
#pragma once

#include <map>
#include <set>
#include <string>

namespace holdfast::test {

/// For each return address the innermost line of a core header around the call in front of it that is not one of the
/// helpers which all containers use, as file:line without its folder; "?" where there is none. Asks addr2line once.
[[nodiscard]] std::map<const void*, std::string> lines_of(const std::set<const void*>& addresses);

}  // namespace holdfast::test
