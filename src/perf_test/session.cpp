// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/session.hpp"

#include <unistd.h>

#include <algorithm>
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
    owner_ = ::getpid();
    configured_ = true;
}

void session::add(const result& found) {
    results_.push_back(found);
    result& kept = results_.back();
    kept.pass = pass_;
    std::fputs(to_text(found, {.colour = colour_wanted()}).c_str(), stdout);
    std::fflush(stdout);
    const std::lock_guard guard(judging_);
    for (const auto& one : sinks_) one->add(kept);
}

std::size_t session::add_judgement(judgement made) {
    if (::getpid() != owner_) return 0;  // in a forked worker: the files are its parent's
    const std::lock_guard guard(judging_);
    std::size_t& number = judged_[{made.full_name(), made.by}];
    if (number >= judgements_max) {
        ++judged_too_often_;
        return 0;
    }
    made.pass = pass_;
    for (const auto& one : sinks_) one->add_judgement(made);
    return ++number;
}

void session::introduce() {
    if (introduced_) return;
    introduced_ = true;
    std::fputs(to_text(this_environment(build_), {.colour = colour_wanted()}).c_str(), stdout);
    std::fflush(stdout);
}

std::vector<test_growth> session::end_suite() {
    std::vector<test_growth> curves = growth_of(std::span(results_).subspan(suite_begin_));
    for (const test_growth& one : curves) std::fputs(to_text(one).c_str(), stdout);
    std::fflush(stdout);
    suite_begin_ = results_.size();
    return curves;
}

std::vector<std::string> session::finish() {
    std::vector<std::string> failures;
    (void)end_suite();
    const std::lock_guard guard(judging_);
    if (judged_too_often_ > 0)
        std::printf("perf_test: %zu assertions are in no report: of one test and kind the first %zu are\n",
                    judged_too_often_, judgements_max);
    judged_.clear();
    judged_too_often_ = 0;
    for (auto at = sinks_.begin(); at != sinks_.end(); ++at) {
        try {
            auto found = (*at)->finish();
            failures.insert(failures.end(), std::make_move_iterator(found.begin()),
                            std::make_move_iterator(found.end()));
            for (judgement& made : (*at)->judged()) {
                made.pass = pass_;
                std::for_each(std::next(at), sinks_.end(),
                              [&made](const auto& behind) { behind->add_judgement(made); });
            }
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
