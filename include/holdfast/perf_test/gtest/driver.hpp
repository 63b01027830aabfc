// SPDX-License-Identifier: Apache-2.0
// driver.hpp - what stands between GoogleTest and the measuring code: runs one test's body and tells GoogleTest.
//
// (I1) GoogleTest's documented interface only: listeners, RecordProperty, assertions.
// (I2) A failed assertion, GTEST_SKIP and PERF_ABORT raise the stop sign; the loop looks at nothing else.
// (I3) A result that was ended early has a failure, also where only a forked worker knows why.
// Threads: assertions may fail in any thread; the rest happens in the one that runs the tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/perf_test/complexity.hpp"
#include "holdfast/perf_test/engine.hpp"
#include "holdfast/perf_test/gtest/forked.hpp"
#include "holdfast/perf_test/judgement.hpp"
#include "holdfast/perf_test/options.hpp"
#include "holdfast/perf_test/output.hpp"
#include "holdfast/perf_test/session.hpp"

namespace holdfast::perf_test::detail {

/// What the running body did beside its work.
struct body_signals {
    inline static constinit std::atomic<bool> failed{false}, skipped{false}, aborted{false};
    // Relaxed orders: flags of their own, read after the loop ended and the threads that raised them were joined.
    static void clear() noexcept {
        failed.store(false, std::memory_order_relaxed);
        skipped.store(false, std::memory_order_relaxed);
        aborted.store(false, std::memory_order_relaxed);
        stop_sign::lower();
    }
};

/// PERF_ABORT: the loop ends after this operation. Returns: what the assertion's message shows.
inline const char* abort_loop() noexcept {
    body_signals::aborted.store(true, std::memory_order_relaxed);  // relaxed: see body_signals
    stop_sign::raise();
    return "(the loop of this performance test stops here)";
}

/// Sees every failed assertion where it happens. It must not fail itself, so it is apart from the one below.
class failure_listener : public testing::EmptyTestEventListener {
    void OnTestPartResult(const testing::TestPartResult& part) override {
        if (part.passed()) return;
        auto& signal = part.skipped() ? body_signals::skipped : body_signals::failed;
        signal.store(true, std::memory_order_relaxed);  // relaxed: see body_signals
        stop_sign::raise();
    }
};

/// How many verdicts (EXPECT_PERF_NOT_SLOWER) this pass over the tests has come to: they are one family.
inline int verdicts_of_this_pass = 0;

/// Prepares the session before the first test and closes it after the last.
class session_listener : public testing::EmptyTestEventListener {
    void OnTestProgramStart(const testing::UnitTest& /*unused*/) override {
        init_from_process();
        session::get().introduce();
    }

    void OnTestSuiteEnd(const testing::TestSuite& /*unused*/) override {
        const std::vector<test_growth> curves = session::get().end_suite();
        if (!session::get().flags().output.junit) return;
        for (const test_growth& one : curves)  // of the suite, whose attributes they become
            for (const auto& [name, value] : properties_of(one))
                testing::Test::RecordProperty("perf_growth_" + property_name(one.name + "_" + name), value);
    }

    void OnTestIterationEnd(const testing::UnitTest& tests, int /*iteration*/) override {
        verdicts_of_this_pass = 0;
        if (tests.test_to_run_count() == 0 && tests.total_test_count() > 0 &&
            std::getenv("GTEST_TOTAL_SHARDS") == nullptr) {
            ADD_FAILURE() << "no test was selected of the " << tests.total_test_count()
                          << " there are: nothing was measured. --gtest_list_tests shows their names.";
        }
        for (const std::string& failure : session::get().finish()) ADD_FAILURE() << failure;
    }
};

/// The names of the measurements that the running test has made.
inline std::set<std::string> names_of_this_test;

/// A name that no other measurement of this test has: Test, Test/2 for the second one, Test/own, Test/own/2.
inline std::string name_of_run(const std::string& test, std::string_view own) {
    std::string wanted = test;
    if (!own.empty()) wanted.append("/").append(own);
    std::string name = wanted;
    for (int number = 2; !names_of_this_test.insert(name).second; ++number)
        name = std::string(wanted).append("/").append(std::to_string(number));
    return name;
}

/// Forgets them. GoogleTest calls it before the test's own code.
class name_keeper : public testing::EmptyTestEventListener {
    void OnTestStart(const testing::TestInfo& /*unused*/) override { names_of_this_test.clear(); }
};

inline bool listen() {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    listeners.Append(new failure_listener);
    listeners.Append(new session_listener);
    listeners.Append(new name_keeper);
    return true;
}
inline const bool listening = listen();

// Of each translation unit its own, not inline: they may be compiled differently.
[[maybe_unused]] static const bool described = (session::get().compiled_as(this_build()), true);

/// Why the numbers of a run that ended early are void; empty if they are good.
inline std::string why_void() {
    // Relaxed: see body_signals.
    if (body_signals::failed.load(std::memory_order_relaxed)) return "an assertion failed";
    if (body_signals::skipped.load(std::memory_order_relaxed)) return "the body skipped the test";
    if (body_signals::aborted.load(std::memory_order_relaxed)) return "the body asked to stop (PERF_ABORT)";
    return {};
}

/// The same of a result, with the place. The signals of a forked worker are its own: what failed or was skipped there
/// is in the result's failure, and of PERF_ABORT alone there is the flag.
inline std::string why_void(const result& found) {
    if (const std::string here = why_void(); !here.empty())
        return std::string(here).append(" in operation ").append(std::to_string(found.count));
    if (!found.good() || !found.aborted) return found.failure;
    return "the body asked to stop (PERF_ABORT) in a forked worker";
}

/// Gives a result to the session and, if it was asked for, to GoogleTest's own reports: as perf_median and so on, and
/// as perf_2_median or perf_NAME_median where the test has more than one.
inline void report(const result& found) {
    if (session::get().flags().output.junit) {
        const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
        const std::size_t own = test != nullptr ? std::string(test->name()).size() : found.name.size();
        const std::string run = found.name.size() > own ? found.name.substr(own + 1).append("_") : std::string();
        for (const auto& [name, value] : properties_of(found))
            testing::Test::RecordProperty(std::string("perf_").append(run).append(name), value);
    }
    session::get().add(found);
}

/// The same of a judgement, whose test is the running one: as perf_not_slower_1_verdict and so on, numbered through the
/// test for each kind.
inline void report(judgement made) {
    if (const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info()) {
        made.suite = test->test_suite_name();
        made.name = test->name();
    }
    const std::size_t number = session::get().add_judgement(made);
    if (number == 0 || !session::get().flags().output.junit) return;
    const std::string prefix =
        std::string("perf_").append(to_string(made.by)).append("_").append(std::to_string(number)).append("_");
    for (const auto& [name, value] : properties_of(made)) testing::Test::RecordProperty(prefix + name, value);
}

/// Measures, reports with the warnings that the caller has, and fails the test if the body did.
inline result measure_here(const test_options& options, body_runner& body, const std::vector<warning>& more = {}) {
    result found;
    found.suite = options.suite;
    found.name = options.name;
    found.parameter = options.parameter;
    const auto give_up = [&](const std::string& why) {
        found.failure = why;
        report(found);
    };
    body_signals::clear();
    try {
        const watchdog guard(options.suite + "." + options.name, options.timeout());
        found = measure_body(options, body);
    } catch (const std::exception& thrown) {
        give_up(std::string("the body threw an exception: ") + thrown.what());
        throw;
    } catch (...) {
        give_up("the body threw something that is no std::exception");
        throw;
    }
    found.failure = why_void(found);
    found.warnings.insert(found.warnings.end(), more.begin(), more.end());
    report(found);
    const bool told = body_signals::failed.load(std::memory_order_relaxed) ||  // relaxed: see body_signals
                      body_signals::skipped.load(std::memory_order_relaxed);
    if (!found.good() && !told) ADD_FAILURE() << found.failure;
    return found;
}

/// The options of the test that GoogleTest is running.
inline test_options options_here(double opt_hz, double opt_milliseconds) {
    init_from_process();
    test_options options = session::get().flags().for_test(opt_hz, opt_milliseconds);
    if (const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info()) {
        options.suite = test->test_suite_name();
        options.name = test->name();
        if (test->value_param() != nullptr) options.parameter = test->value_param();
        if (test->type_param() != nullptr) options.parameter = test->type_param();
    }
    return options;
}

/// The body of a test class made by the macros: a member function that is not virtual, inlined into the loop.
template <class Test>
class fixture_runner final : public body_runner {
 public:
    explicit fixture_runner(Test& test) noexcept : test_(test) {}

    std::uint64_t run_batch(std::uint64_t operations) override {
        Test& test = test_;
        auto body = [&test] { test.holdfast_perf_body(); };
        return run_loop(body, operations);
    }
    std::uint64_t run_floor(std::uint64_t operations) override {
        empty_body nothing;
        return run_loop(nothing, operations);
    }
    void prepare(std::uint64_t operations) override {
        if constexpr (requires(Test& test) { test.holdfast_perf_setup(operations); })
            test_.holdfast_perf_setup(operations);
    }
    void finish() override {
        if constexpr (requires(Test& test) { test.holdfast_perf_teardown(); }) test_.holdfast_perf_teardown();
    }
    [[nodiscard]] std::uint64_t batch() const override {
        if constexpr (requires { Test::holdfast_perf_batch(); }) return Test::holdfast_perf_batch();
        return 0;
    }

 private:
    Test& test_;
};

template <class Test>
void run_test(Test& test, double opt_hz, double opt_milliseconds) {
    fixture_runner<Test> body(test);
    try {
        measure_here(options_here(opt_hz, opt_milliseconds), body);
    } catch (const usage_error& wrong) {
        ADD_FAILURE() << wrong.what();
    }
}

template <class T>
inline constexpr bool never = false;
template <class T>
concept always = true;

}  // namespace holdfast::perf_test::detail
