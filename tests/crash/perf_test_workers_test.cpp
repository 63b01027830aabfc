// SPDX-License-Identifier: Apache-2.0
// Forked workers that end in every way but the right one: each is a message that names it, no child is left, no number
// is told.
#include "holdfast/perf_test/workers.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>

#include "holdfast/memory/descriptor.hpp"
#include "holdfast/perf_test/engine.hpp"

namespace holdfast::perf_test {
namespace {

using testing::AssertionResult;

group_options processes(std::size_t workers, double seconds = 0.05) {
    group_options group;
    group.test = "Suite.Name";
    group.workers = workers;
    group.processes = true;
    group.seconds = seconds;
    return group;
}

void work_a_little() {
    std::uint64_t x = 1;
    for (int i = 0; i < 500; ++i) do_not_optimize(x = x * 6364136223846793005U + 1);
}

[[noreturn]] void hang() {
    for (;;) ::pause();
}

AssertionResult no_child_is_left() {
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, WNOHANG);
    if (child < 0 && errno == ECHILD) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "waitpid found " << child;
}

AssertionResult contains(const std::string& text, const std::string& part) {
    if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "not \"" << part << "\" in: " << text;
}

/// A word that forked workers and the test share.
class shared_word {
 public:
    shared_word()
        : word_(new(::mmap(nullptr, sizeof *word_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                    std::atomic<std::uint64_t>(0)) {}
    ~shared_word() { ::munmap(word_, sizeof *word_); }
    shared_word(const shared_word&) = delete;
    shared_word& operator=(const shared_word&) = delete;
    std::atomic<std::uint64_t>& operator*() const noexcept { return *word_; }
    std::atomic<std::uint64_t>* operator->() const noexcept { return word_; }

 private:
    std::atomic<std::uint64_t>* word_;
};

/// Runs a group in which worker 2 (index 1) does `last_act` once it has measured a while, or in its warm-up.
group_outcome with_a_bad_worker(group_options group, const std::function<void()>& last_act, bool in_warm_up = false) {
    std::uint64_t calls = 0;  // each process counts its own
    auto operation = [&] {
        work_a_little();
        if (current_worker().index == 1 && ++calls == (in_warm_up ? 1U : 5000U)) last_act();
    };
    looped_body body(operation);
    group.batch = in_warm_up ? 0 : 100;
    group.seconds = 30;  // none of them may take so long: a failure ends the group
    return run_group(group, body);
}

struct bad_end {
    const char* name;
    void (*act)();
    const char* message;
};

void die_by(int signal) {
    ::signal(signal, SIG_DFL);  // a sanitizer may have put its own handler there
    ::raise(signal);
}

const bad_end bad_ends[] = {
    {"Throws", [] { throw std::runtime_error("lost the database"); }, "threw: lost the database"},
    {"ThrowsSomethingElse", [] { throw 42; }, "threw something that is no std::exception"},
    {"UnderscoreExits", [] { ::_exit(7); }, "exited with code 7 before it was done"},
    {"ExitsWithSuccess", [] { std::quick_exit(0); }, "exited with code 0 before it was done"},
    {"IsKilled", [] { die_by(SIGKILL); }, "was killed by signal 9 (SIGKILL)"},
    {"Crashes", [] { die_by(SIGSEGV); }, "was killed by signal 11 (SIGSEGV)"},
    {"Aborts", [] { die_by(SIGABRT); }, "was killed by signal 6 (SIGABRT)"},
};

class BadWorker : public testing::TestWithParam<std::tuple<bad_end, bool>> {};

TEST_P(BadWorker, IsNamedAndVoidsTheGroup) {
    const auto& [end, in_warm_up] = GetParam();
    const group_outcome outcome = with_a_bad_worker(processes(3), end.act, in_warm_up);
    const std::string& failure = outcome.result.failure;
    EXPECT_EQ(failure.rfind("Suite.Name: worker 2 of 3 (process ", 0), 0U) << failure;
    EXPECT_TRUE(contains(failure, end.message));
    EXPECT_EQ(failure.find("worker 1 "), std::string::npos) << failure;  // the siblings that we ended are not accused
    EXPECT_EQ(outcome.result.count, 0U);
    EXPECT_EQ(outcome.result.wall_hz, 0);
    EXPECT_TRUE(outcome.result.worker_ns.empty());
    EXPECT_TRUE(outcome.samples.empty());
    EXPECT_TRUE(no_child_is_left());
}

INSTANTIATE_TEST_SUITE_P(AllEnds, BadWorker, testing::Combine(testing::ValuesIn(bad_ends), testing::Bool()),
                         [](const auto& it) {
                             return std::string(std::get<0>(it.param).name) +
                                    (std::get<1>(it.param) ? "InWarmUp" : "InMeasurement");
                         });

TEST(ForkedWorkers, AHangingWorkerIsKilledAndNamed) {
    group_options group = processes(2, 0.05);
    group.patience_seconds = 1.5;
    group.batch = 1;
    std::uint64_t calls = 0;
    auto operation = [&] {
        if (current_worker().index == 0 && ++calls == 3) hang();
    };
    looped_body body(operation);
    const group_outcome outcome = run_group(group, body);
    EXPECT_TRUE(contains(outcome.result.failure, "worker 1 of 2 (process "));
    EXPECT_TRUE(contains(outcome.result.failure, "had not come back 1.5 s after its time was up: killed"));
    EXPECT_EQ(outcome.result.count, 0U);
    EXPECT_TRUE(no_child_is_left());
}

TEST(ForkedWorkers, AWorkerThatHangsInItsWarmUpIsKilledAndNamed) {
    group_options group = processes(2, 0.05);
    group.patience_seconds = 1.5;
    auto operation = [] {
        if (current_worker().index == 1) hang();
        work_a_little();
    };
    looped_body body(operation);
    const group_outcome outcome = run_group(group, body);
    EXPECT_TRUE(contains(outcome.result.failure, "worker 2 of 2 (process "));
    EXPECT_TRUE(contains(outcome.result.failure, "was not ready 1.5 s after its start: killed"));
    EXPECT_TRUE(no_child_is_left());
}

TEST(ForkedWorkers, SeveralBadWorkersAreAllNamed) {
    auto operation = [] { ::_exit(static_cast<int>(current_worker().index) + 1); };
    looped_body body(operation);
    std::string failure;
    // One may be seen dead before the other has died: then it alone is named, and that is right too.
    for (int round = 0; round < 200 && failure.find("; worker 2 of 2") == std::string::npos; ++round) {
        failure = run_group(processes(2), body).result.failure;
        ASSERT_TRUE(contains(failure, "exited with code"));
    }
    EXPECT_TRUE(contains(failure, "worker 1 of 2"));
    EXPECT_TRUE(contains(failure, "worker 2 of 2"));
    EXPECT_TRUE(contains(failure, "exited with code 2"));
    EXPECT_TRUE(no_child_is_left());
}

TEST(ForkedWorkers, EachHasACopyOfTheBodyAndSharesWhatIsShared) {
    const shared_word together;
    std::uint64_t alone = 0;
    auto operation = [&] {
        work_a_little();
        ++alone;
        together->fetch_add(1);
    };
    looped_body body(operation);
    const group_outcome outcome = run_group(processes(2), body);
    EXPECT_EQ(outcome.result.failure, "");
    EXPECT_TRUE(outcome.result.processes);
    EXPECT_EQ(alone, 0U);
    EXPECT_GE(together->load(), outcome.result.count);
    EXPECT_GT(outcome.result.count, 2U);
    EXPECT_EQ(outcome.result.worker_ns.size(), 2U);
    EXPECT_GT(outcome.result.wall_hz, 0);
    EXPECT_GE(outcome.result.seconds, 0.05);
    EXPECT_TRUE(no_child_is_left());
}

TEST(ForkedWorkers, LatenciesAndRatesComeBackFromChildren) {
    auto operation = [] { work_a_little(); };
    looped_body body(operation);
    group_options group = processes(2);
    group.latency = true;
    const group_outcome latency = run_group(group, body);
    EXPECT_EQ(latency.result.failure, "");
    ASSERT_TRUE(latency.result.latency);
    EXPECT_EQ(latency.result.latency->count, latency.result.count);

    group.latency = false;
    group.rate = rate_options{.hz = 1000, .seconds = 0.05, .arrival = arrivals::fixed};
    const group_outcome rate = run_group(group, body);
    EXPECT_EQ(rate.result.failure, "");
    ASSERT_TRUE(rate.result.rate);
    EXPECT_EQ(rate.result.rate->response.count, 50U);
}

// PERF_ABORT raises the sign of its own process; the group learns of it, and that is no failure.
TEST(ForkedWorkers, OneThatAsksToStopEndsAll) {
    const group_outcome outcome = with_a_bad_worker(processes(2), [] { stop_sign::raise(); });
    EXPECT_EQ(outcome.result.failure, "");
    EXPECT_TRUE(outcome.aborted);
    EXPECT_LT(outcome.result.seconds, 25);
    EXPECT_FALSE(stop_sign::is_raised());
}

/// Sets hooks for one test.
class hooks_for_now {
 public:
    explicit hooks_for_now(worker_hooks hooks) { process_hooks() = std::move(hooks); }
    ~hooks_for_now() { process_hooks() = {}; }
};

TEST(ForkedWorkers, FailedChecksOfAChildReachTheCaller) {
    const shared_word begun;
    const hooks_for_now hooks(
        {[&] { begun->fetch_add(1); },
         [] { return current_worker().index == 1 ? std::string("file.cpp:12: sum is 3, not 4") : std::string(); }});
    auto operation = [] { work_a_little(); };
    looped_body body(operation);
    const group_outcome outcome = run_group(processes(2), body);
    EXPECT_EQ(begun->load(), 2U);
    EXPECT_TRUE(contains(outcome.result.failure, "worker 2 of 2 (process "));
    EXPECT_TRUE(contains(outcome.result.failure, "failed checks: file.cpp:12: sum is 3, not 4"));
    EXPECT_EQ(outcome.result.count, 0U);
}

TEST(ForkedWorkers, ATextTooLongForItsRoomIsCutOff) {
    const hooks_for_now hooks({{}, [] { return std::string(1'000'000, 'x'); }});
    auto operation = [] {};
    looped_body body(operation);
    const std::string failure = run_group(processes(1), body).result.failure;
    EXPECT_TRUE(contains(failure, "failed checks: xxx"));
    EXPECT_LT(failure.size(), 5000U);
}

TEST(ForkedWorkers, AHookThatThrowsIsAFailure) {
    const hooks_for_now hooks({[] { throw std::runtime_error("no printer"); }, {}});
    auto operation = [] {};
    looped_body body(operation);
    EXPECT_TRUE(contains(run_group(processes(2), body).result.failure, "threw in a hook: no printer"));
    EXPECT_TRUE(no_child_is_left());
}

// (I3) What waits in a stream's buffer is written once, and what a child prints is not lost.
TEST(ForkedWorkers, BufferedOutputIsNeitherDoubledNorLost) {
    std::FILE* const file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    std::fputs("before\n", file);
    std::uint64_t calls = 0;
    auto operation = [&] {
        if (++calls == 1) std::fputs(current_worker().index == 0 ? "first\n" : "second\n", file);
    };
    looped_body body(operation);
    EXPECT_EQ(run_group(processes(2, 0.01), body).result.failure, "");
    std::rewind(file);
    std::array<char, 200> text{};
    const std::string all(text.data(), std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    EXPECT_EQ(all.rfind("before\n", 0), 0U) << all;
    EXPECT_EQ(all.size(), std::string("before\nfirst\nsecond\n").size()) << all;
    EXPECT_TRUE(contains(all, "first\n"));
    EXPECT_TRUE(contains(all, "second\n"));
}

// A program that lets the kernel reap its children, and one that is interrupted all the time.
TEST(ForkedWorkers, SignalsOfTheCallerDoNotDisturb) {
    auto operation = [] { work_a_little(); };
    looped_body body(operation);
    const auto former = ::signal(SIGCHLD, SIG_IGN);
    const group_outcome ignoring = run_group(processes(2), body);
    EXPECT_EQ(ignoring.result.failure, "");
    EXPECT_GT(ignoring.result.count, 0U);
    ::signal(SIGCHLD, former);

    struct sigaction counting{};
    counting.sa_handler = [](int) {};
    struct sigaction before{};
    ASSERT_EQ(::sigaction(SIGALRM, &counting, &before), 0);  // without SA_RESTART
    const itimerval often{{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    const group_outcome interrupted = run_group(processes(2), body);
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before, nullptr);
    EXPECT_EQ(interrupted.result.failure, "");
    EXPECT_GT(interrupted.result.count, 0U);
    EXPECT_TRUE(no_child_is_left());
}

// (I2) The workers of a caller that is killed die with it: each holds the pipe open, so its end of file tells.
TEST(ForkedWorkers, DieWithTheirCaller) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    memory::descriptor read_end(ends[0]);
    memory::descriptor write_end(ends[1]);
    const pid_t caller = ::fork();
    ASSERT_GE(caller, 0);
    if (caller == 0) {
        auto operation = [&] {
            const char mark = 'x';
            if (::write(ends[1], &mark, 1) == 1) hang();
        };
        looped_body body(operation);
        (void)run_group(processes(2), body);
        ::_exit(0);
    }
    write_end.reset();
    char mark = 0;
    ASSERT_EQ(::read(read_end.get(), &mark, 1), 1);
    ASSERT_EQ(::read(read_end.get(), &mark, 1), 1);  // both workers live, and hang
    ::kill(caller, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(caller, &status, 0), caller);
    EXPECT_EQ(::read(read_end.get(), &mark, 1), 0);  // end of file: nobody holds the other end
}

}  // namespace
}  // namespace holdfast::perf_test
