// SPDX-License-Identifier: Apache-2.0
// command.hpp - the command line of a program that runs suites; bench/ and `holdfast bench` are two of them.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "workload/suite.hpp"

namespace holdfast::workload {

/// `SUITE... [--quick] [--json FILE] [--html FILE] [--filter TEXT] [--only SUBJECT]... [--list] [-time MS]`.
struct bench_request {
    std::vector<std::string> suites;  ///< "all" stands for every one; none: the list
    run_options options;
    std::string json_file, html_file;  ///< "-": stdout, and no tables then; empty: not written
    bool list = false;
};

/// A command line or a wish that cannot be fulfilled; what() says what to do. The program ends with exit code 2.
class usage_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Throws: usage_error.
[[nodiscard]] bench_request parse_bench_request(const std::vector<std::string_view>& words);

/// Does what was asked for: lists, or runs with tables on stdout and progress on a terminal's stderr. Outputs are
/// proved to be writable before anything is timed. Throws: usage_error for unknown suites, a filter that matches
/// nothing, an output that cannot be written; std::runtime_error after a run in which a suite failed or nothing was
/// measured (what there is has been printed and written then).
void run_bench(const bench_request& request, const std::vector<suite>& suites);

/// main() of such a program: both of the above, with messages on stderr and help. Returns: the exit code (2: usage).
[[nodiscard]] int bench_main(int argc, char** argv, const std::vector<suite>& suites) noexcept;

}  // namespace holdfast::workload
