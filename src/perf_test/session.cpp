// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/session.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <span>
#include <utility>

#include "perf_test/command_line.hpp"

namespace holdfast::perf_test {
namespace {

constexpr int status_usage = 2;

// Takes the values, or ends the process saying why not.
template <class Parse>
void configure_or_exit(Parse parse) {
    try {
        flag_values flags = parse();
        if (flags.help) {
            std::fputs(flag_help().c_str(), stdout);
            std::exit(EXIT_SUCCESS);
        }
        session::get().configure(std::move(flags));
    } catch (const std::exception& wrong) {
        std::fflush(stdout);
        std::fprintf(stderr, "perf_test: %s\n", wrong.what());
        std::exit(status_usage);
    }
}

bool colour_wanted() {
    const char* refused = std::getenv("NO_COLOR");
    return ::isatty(STDOUT_FILENO) == 1 && (refused == nullptr || *refused == '\0');
}

}  // namespace

session& session::get() {
    static session own;
    return own;
}

void session::configure(flag_values flags) {
    check_outputs(flags.output);
    sinks_ = make_sinks(flags, build_);
    flags_ = std::move(flags);
    configured_ = true;
}

void session::add(const result& found) {
    results_.push_back(found);
    result& kept = results_.back();
    kept.pass = pass_;
    std::fputs(to_text(found, {.colour = colour_wanted()}).c_str(), stdout);
    std::fflush(stdout);
    for (const auto& one : sinks_) one->add(kept);
}

void session::introduce() {
    if (introduced_) return;
    introduced_ = true;
    std::fputs(to_text(this_environment(build_), {.colour = colour_wanted()}).c_str(), stdout);
    std::fflush(stdout);
}

void session::end_suite() {
    const std::span<const result> suite = std::span(results_).subspan(suite_begin_);
    for (const test_growth& one : growth_of(suite)) std::fputs(to_text(one).c_str(), stdout);
    std::fflush(stdout);
    suite_begin_ = results_.size();
}

std::vector<std::string> session::finish() {
    std::vector<std::string> failures;
    end_suite();
    for (const auto& one : sinks_) {
        try {
            auto found = one->finish();
            failures.insert(failures.end(), std::make_move_iterator(found.begin()),
                            std::make_move_iterator(found.end()));
        } catch (const std::exception& wrong) {
            failures.emplace_back(wrong.what());
        }
    }
    ++pass_;
    return failures;
}

void init(int* argc, char** argv, unknown_arguments unknown) {
    configure_or_exit([&] { return parse_flags(*argc, argv, unknown); });
}

void init_from_process() {
    if (session::get().configured()) return;
    std::vector<std::string> arguments = command_line();
    configure_or_exit([&] { return parse_flags(arguments, unknown_arguments::keep); });
}

}  // namespace holdfast::perf_test
