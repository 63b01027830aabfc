// SPDX-License-Identifier: Apache-2.0
// session.hpp - one run of a test program: its flags, its results in order, and who gets to see them.
//
// A sink takes results (a file, a comparison). It is made before the first test, given each result as soon as there is
// one, and asked at the end what is wrong; so a program that dies in its tenth test has written nine.
// Threads: one, the one that runs the tests, but for judgements, which come from any.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/perf_test/complexity.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "holdfast/perf_test/judgement.hpp"
#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

class sink {
 public:
    virtual ~sink() = default;
    virtual void add(const result& found) = 0;
    /// Of an assertion or a comparison. A sink that has no place for them leaves it.
    virtual void add_judgement(const judgement& /*made*/) {}
    /// Returns: what makes the run a failure, one text each. Throws: holdfast::error if something cannot be written.
    virtual std::vector<std::string> finish() = 0;
    /// What the sink itself has judged in finish; the sinks behind it get it before they finish.
    virtual std::vector<judgement> judged() { return {}; }

 protected:
    sink() = default;
    sink(const sink&) = default;
    sink& operator=(const sink&) = default;
};

/// The sinks that the flags ask for, for tests that were compiled as `build` says. Throws: usage_error if one cannot be
/// made.
[[nodiscard]] std::vector<std::unique_ptr<sink>> make_sinks(const flag_values& flags, const build_facts& build);

class session {
 public:
    /// This process's own.
    [[nodiscard]] static session& get();

    /// How the tests were compiled, which the compiled part of perf_test cannot know: the header that defines them says
    /// so before main(), once in each file of them. Where they differ, one without optimisation counts.
    void compiled_as(build_facts facts) {
        if (build_.compiler.empty() || !facts.optimised) build_ = std::move(facts);
    }

    /// Takes the flags and makes the sinks. Throws: usage_error.
    void configure(flag_values flags);
    [[nodiscard]] bool configured() const noexcept { return configured_; }
    [[nodiscard]] const flag_values& flags() const noexcept { return flags_; }

    /// Tells once, on stdout, where the tests run and what makes that place doubtful: call it before the first.
    void introduce();

    /// Keeps a result with the number of the pass, prints it to stdout and gives it to the sinks.
    void add(const result& found);
    [[nodiscard]] const std::vector<result>& results() const noexcept { return results_; }

    /// Gives a judgement with the number of the pass to the sinks. Of one test the first judgements_max are kept, lest
    /// an assertion in a loop fill the files; the others are counted and told at the end of the pass.
    /// Nothing in a child that was forked: its assertions are told by its parent. Threads: any; assertions may stand in
    /// any.
    /// Returns: its number in its test among those of its kind, from 1 on; 0 if it was not kept.
    std::size_t add_judgement(judgement made);
    static constexpr std::size_t judgements_max = 100;

    /// The end of a suite: says how the times of its tests grow with their parameters. Returns: that.
    std::vector<test_growth> end_suite();

    /// The end of a pass over the tests. Returns: what makes it a failure, one text each.
    [[nodiscard]] std::vector<std::string> finish();

 private:
    session() = default;
    build_facts build_;
    flag_values flags_;
    std::vector<std::unique_ptr<sink>> sinks_;
    std::vector<result> results_;
    std::mutex judging_;                                               // guards the sinks and what follows
    std::map<std::pair<std::string, judged_by>, std::size_t> judged_;  // of a test and a kind, in this pass
    std::size_t judged_too_often_ = 0;
    std::uint64_t pass_ = 1;
    std::size_t suite_begin_ = 0;  // the first of the running suite in results_
    pid_t owner_ = -1;
    bool configured_ = false, introduced_ = false;
};

/// Reads our flags, removes them from argv and prepares the session. A command line that makes no sense is answered on
/// stderr and ends the process with status 2; --perf_help is answered on stdout and ends it with 0.
void init(int* argc, char** argv, unknown_arguments unknown = unknown_arguments::keep);

/// The same for a program that never called init: the kernel knows its command line. Nothing if init was called.
void init_from_process();

/// What a person sees of a result: the four lines count, time, HZ and 1/HZ first, then everything else that is known.
struct text_style {
    bool colour = false;
};
[[nodiscard]] std::string to_text(const result& found, const text_style& style = {});
/// Where it was measured, and what makes that place doubtful.
[[nodiscard]] std::string to_text(const environment& where, const text_style& style = {});
/// How the time of a test grows with its parameter.
[[nodiscard]] std::string to_text(const test_growth& growth);

/// Ends the process with status 3 and a message naming the test if it lives longer than the given seconds.
///
/// A timer of the kernel and a signal handler instead of a thread: a second thread would make allocators and reference
/// counts slower and so change what is measured. One at a time; not inherited by fork.
class watchdog {
 public:
    watchdog(const std::string& test, double seconds);
    ~watchdog();
    watchdog(const watchdog&) = delete;
    watchdog& operator=(const watchdog&) = delete;

 private:
    bool armed_ = false;
    void* timer_ = nullptr;
};

}  // namespace holdfast::perf_test
