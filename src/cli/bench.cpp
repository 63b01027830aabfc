// SPDX-License-Identifier: Apache-2.0
// bench.cpp - `holdfast bench` is a program of its own, holdfast-bench, beside this one: bench/.
#ifdef HOLDFAST_WITH_BENCH

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"

namespace holdfast::cli {

namespace {

constexpr const char* own_path = "/proc/self/exe";

/// The folder of the program that runs, with its slash; empty where the system does not say.
std::string own_folder() {
    std::string path(4096, '\0');
    const ssize_t length = ::readlink(own_path, path.data(), path.size());
    path.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
    return path.substr(0, path.rfind('/') + 1);
}

}  // namespace

void add_bench(command_line& line) {
    (void)line.add(std::string(bench_command),
                   "Measure the containers on this machine, beside what the standard library has");
}

int become_bench(char** argv) {
    const std::string program = own_folder() + "holdfast-bench";
    ::execv(program.c_str(), argv);
    const int why = errno;
    say(program + ": " + std::generic_category().message(why) +
        "; holdfast bench is that program: ./dev build makes it, an installation has it beside holdfast");
    return why == ENOENT ? absent : failed;
}

}  // namespace holdfast::cli

#endif
