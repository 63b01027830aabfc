// SPDX-License-Identifier: Apache-2.0
// command_line.hpp - the arguments of this process as the kernel knows them.
#pragma once

#include <fstream>
#include <string>
#include <vector>

namespace holdfast::perf_test {

/// All arguments, the program's name first; none where /proc is not there.
[[nodiscard]] inline std::vector<std::string> command_line() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> arguments;
    for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
    return arguments;
}

}  // namespace holdfast::perf_test
