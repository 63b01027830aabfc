// SPDX-License-Identifier: Apache-2.0
// program.hpp - the subcommands, each declared in a file of its own.
#pragma once

#include <string_view>

#include "cli/arguments.hpp"

namespace holdfast::cli {

void add_ls(command_line& line);
void add_stat(command_line& line);
void add_who(command_line& line);
void add_top(command_line& line);
void add_rm(command_line& line);
void add_get(command_line& line);
void add_put(command_line& line);
void add_del(command_line& line);
void add_scan(command_line& line);
void add_tail(command_line& line);
void add_load(command_line& line);
void add_dump(command_line& line);
void add_save(command_line& line);
void add_repair(command_line& line);
void add_restore(command_line& line);
void add_grow(command_line& line);
void add_verify(command_line& line);
#ifdef HOLDFAST_WITH_SERVE
void add_serve(command_line& line);
#endif
#ifdef HOLDFAST_WITH_BENCH
inline constexpr std::string_view bench_command = "bench";
/// For the list of subcommands: what follows `bench` is read by the program that it is.
void add_bench(command_line& line);
/// Goes on as the program behind `holdfast bench`. Returns: the exit code, where that program cannot be run.
[[nodiscard]] int become_bench(char** argv);
#endif
void add_version(command_line& line);

/// Runs the program. Returns: its exit code; nothing is thrown.
[[nodiscard]] int run_program(int argc, char** argv) noexcept;

}  // namespace holdfast::cli
