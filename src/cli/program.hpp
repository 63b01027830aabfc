// SPDX-License-Identifier: Apache-2.0
// program.hpp - the subcommands, each declared in a file of its own.
#pragma once

#include "cli/arguments.hpp"

namespace holdfast::cli {

void add_ls(command_line& line);
void add_stat(command_line& line);
void add_who(command_line& line);
void add_rm(command_line& line);
void add_version(command_line& line);

/// Runs the program. Returns: its exit code; nothing is thrown.
[[nodiscard]] int run_program(int argc, char** argv) noexcept;

}  // namespace holdfast::cli
