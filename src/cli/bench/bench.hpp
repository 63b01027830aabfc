// SPDX-License-Identifier: Apache-2.0
// bench.hpp - the subcommand of the program that measures.
#pragma once

#include "cli/arguments.hpp"

namespace holdfast::cli {

void add_bench(command_line& line);

}  // namespace holdfast::cli
