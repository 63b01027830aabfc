// SPDX-License-Identifier: Apache-2.0
// lines.hpp - from an address in this program to the line that it was compiled from, and what stands there.
#pragma once

#include <map>
#include <set>
#include <string>

namespace holdfast::test {

/// For each return address the innermost line of a core header around the call in front of it that is not one of the
/// helpers which all containers use, named by what stands there: "FILE FUNCTION | TEXT", the file without its folder,
/// the function around the line, and its text without white space and comment at its ends. A text that stands in one
/// function more than once has " (2)" and so on behind the function from the second on. "?" where there is none. Asks
/// addr2line once, and reads the sources.
[[nodiscard]] std::map<const void*, std::string> lines_of(const std::set<const void*>& addresses);

}  // namespace holdfast::test
