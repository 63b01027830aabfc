// SPDX-License-Identifier: Apache-2.0
// The crash rigs, tested on a toy: a record that is overwritten in place (which must be found torn) and one that is
// published by a single word (which must never be). A rig that cannot fail proves nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/capability.hpp"
#include "support/image_corruption.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"
#include "support/system_call_faults.hpp"

namespace {

using namespace holdfast::test;

constexpr std::size_t words = 64;

// Two buffers and a switch. The flawed writer overwrites the current buffer; the sound one fills the other and
// switches.
struct toy_record {
    std::atomic<std::uint64_t> current;
    std::atomic<std::uint64_t> buffer[2][words];

    void fill(std::uint64_t which, std::uint64_t value) noexcept {
        for (auto& word : buffer[which]) word.store(value, std::memory_order_relaxed);  // ordered by the switch
    }
    void overwrite_in_place(std::uint64_t value) noexcept { fill(current.load(std::memory_order_relaxed) & 1, value); }
    void publish(std::uint64_t value) noexcept {
        const std::uint64_t next = (current.load(std::memory_order_relaxed) & 1) ^ 1;
        fill(next, value);
        current.store(next, std::memory_order_release);  // pairs with read()'s acquire: the words come first
    }
    // Returns: "torn" or the value in `value`.
    std::string read(std::uint64_t& value) const noexcept {
        const auto& from = buffer[current.load(std::memory_order_acquire) & 1];  // pairs with publish()
        value = from[0].load(std::memory_order_relaxed);
        for (const auto& word : from)
            if (word.load(std::memory_order_relaxed) != value) return "torn";
        return {};
    }
};

toy_record& toy_in(std::span<std::byte> bytes) { return *reinterpret_cast<toy_record*>(bytes.data()); }

std::string check_toy(std::span<std::byte> copy) {
    std::uint64_t value = 0;
    return toy_in(copy).read(value);
}

TEST(SingleStep, FindsTheTornOverwrite) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    shared_image image(sizeof(toy_record));
    auto& toy = toy_in(image.bytes());
    const step_report report = single_step(image, [&] { toy.overwrite_in_place(7); }, check_toy);
    EXPECT_NE(report.failure.find("torn"), std::string::npos) << report.failure;
}

TEST(SingleStep, PassesTheSoundPublicationAndCountsItsImages) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    shared_image image(sizeof(toy_record));
    auto& toy = toy_in(image.bytes());
    std::vector<std::uint64_t> seen;
    const step_report report = single_step(
        image, [&] { toy.publish(7); },
        [&](std::span<std::byte> copy) {
            std::uint64_t value = 0;
            std::string failure = toy_in(copy).read(value);
            if (seen.empty() || seen.back() != value) seen.push_back(value);
            return failure;
        });
    EXPECT_EQ(report.failure, "");
    EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 7}));
    EXPECT_GE(report.steps, words);
    EXPECT_EQ(report.images, words + 2) << "one per word, the switch, and the image before";
    std::uint64_t value = 0;
    EXPECT_EQ(toy.read(value), "");
    EXPECT_EQ(value, 7U) << "the operation ran to its end in the shared image";
}

TEST(SingleStep, ReportsAnOperationThatThrowsOrDies) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    shared_image image(4096);
    const auto fine = [](std::span<std::byte>) { return std::string(); };
    EXPECT_NE(
        single_step(image, [] { throw std::runtime_error("boom"); }, fine).failure.find("boom"), std::string::npos);
    EXPECT_NE(single_step(image, [] { ::_exit(3); }, fine).failure, "");
    EXPECT_NE(single_step(image, [] { ::raise(SIGKILL); }, fine).failure, "");
}

TEST(SingleStep, SpeedIsRecorded) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    shared_image image(sizeof(toy_record));
    auto& toy = toy_in(image.bytes());
    step_report total;
    for (std::uint64_t i = 0; i < scaled(50); ++i) total += single_step(image, [&] { toy.publish(i); }, check_toy);
    EXPECT_EQ(total.failure, "");
    RecordProperty("steps", std::to_string(total.steps));
    RecordProperty("images", std::to_string(total.images));
    std::printf("%llu steps, %llu images, %.3f s\n", static_cast<unsigned long long>(total.steps),
                static_cast<unsigned long long>(total.images), total.seconds);
}

// A toy in shared pages, and what a death at each image leaves of it.
template <class Operate>
image_kill_report kill_toy_at_every_image(Operate operate, std::vector<std::uint64_t>* seen = nullptr,
                                          on_the_way how = on_the_way::stepped) {
    shared_image image(sizeof(toy_record));
    auto& toy = toy_in(image.bytes());
    return kill_at_every_image([&] { std::memset(image.bytes().data(), 0, image.size()); },
                               [&] { return [&] { operate(toy); }; },
                               [&] { return std::vector<std::byte>(image.bytes().begin(), image.bytes().end()); },
                               [&](std::uint64_t) {
                                   std::uint64_t value = 0;
                                   std::string failure = toy.read(value);
                                   if (seen != nullptr && (seen->empty() || seen->back() != value))
                                       seen->push_back(value);
                                   return failure;
                               },
                               how);
}

TEST(KillAtEveryImage, KillsOnceAtEachImageOfTheSoundPublication) {
    if (!can_trace() || sanitized) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    std::vector<std::uint64_t> seen;
    const image_kill_report report = kill_toy_at_every_image([](toy_record& toy) { toy.publish(7); }, &seen);
    EXPECT_TRUE(report.passed()) << report.failure;
    EXPECT_EQ(report.images, words + 2) << "one per word, the switch, and the image before";
    EXPECT_EQ(report.kills, words + 2);
    EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 7}));
    EXPECT_GT(report.steps, words * words / 2) << "each child was stepped from the start";
}

// The same images, the same deaths, and hardly a step but those of the first child.
TEST(KillAtEveryImage, ChildrenThatRunComeToTheSameImages) {
    if (!can_trace() || sanitized) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    const auto publish = [](toy_record& toy) { toy.publish(7); };
    std::vector<std::uint64_t> seen;
    const image_kill_report stepped = kill_toy_at_every_image(publish);
    const image_kill_report run = kill_toy_at_every_image(publish, &seen, on_the_way::runs);
    EXPECT_TRUE(run.passed()) << run.failure;
    EXPECT_EQ(run.kills, stepped.kills);
    EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 7}));
#if defined(__x86_64__)
    EXPECT_LT(run.steps, stepped.steps / 4);
#endif
    const auto overwrite = [](toy_record& toy) { toy.overwrite_in_place(7); };
    EXPECT_EQ(kill_toy_at_every_image(overwrite, nullptr, on_the_way::runs).failure, "killed at image 1: torn");
    const auto differs = [](toy_record& toy) { toy.publish(static_cast<std::uint64_t>(::getpid())); };
    const image_kill_report other = kill_toy_at_every_image(differs, nullptr, on_the_way::runs);
    EXPECT_NE(other.failure.find("other bytes than before"), std::string::npos) << other.failure;
}

TEST(KillAtEveryImage, FindsTheTornOverwrite) {
    if (!can_trace() || sanitized) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    const image_kill_report report = kill_toy_at_every_image([](toy_record& toy) { toy.overwrite_in_place(7); });
    EXPECT_EQ(report.failure, "killed at image 1: torn");
    EXPECT_FALSE(report.passed());
}

TEST(KillAtEveryImage, FindsThatARunIsAnotherThanTheLast) {
    if (!can_trace() || sanitized) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    const image_kill_report other =
        kill_toy_at_every_image([](toy_record& toy) { toy.publish(static_cast<std::uint64_t>(::getpid())); });
    EXPECT_NE(other.failure.find("other bytes than before"), std::string::npos) << other.failure;
    shared_image life(4096);
    auto& lives = *new (life.bytes().data()) std::atomic<std::uint64_t>(0);
    const image_kill_report shorter = kill_toy_at_every_image([&](toy_record& toy) {
        if (lives.fetch_add(1) < 10) toy.publish(7);
    });
    EXPECT_NE(shorter.failure.find("ended earlier"), std::string::npos) << shorter.failure;
}

TEST(KillAtEveryImage, FindsThatTheDeadLeaveOtherBytes) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    shared_image life(4096);
    auto& pid = *new (life.bytes().data()) std::atomic<pid_t>(0);
    const image_kill_report report =
        kill_at_every_image([] {},
                            [&] {
                                pid.store(::getpid());
                                return [] {};
                            },
                            // A byte that dies with the child, as what an exit handler or another process stored would.
                            [&] { return std::vector<std::byte>(1, std::byte{::kill(pid.load(), 0) == 0}); },
                            [](std::uint64_t) { return std::string(); });
    EXPECT_NE(report.failure.find("the dead left other bytes"), std::string::npos) << report.failure;
}

TEST(KillAtEveryImage, ReportsAStartThatFailsAndAnOperationThatThrows) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    const auto nothing = [] { return std::vector<std::byte>(); };
    const auto fine = [](std::uint64_t) { return std::string(); };
    struct refused {
        void operator()() const {}
    };
    EXPECT_THROW(
        (void)kill_at_every_image([] {}, []() -> refused { throw std::runtime_error("no such name"); }, nothing, fine),
        std::runtime_error);
    const image_kill_report report =
        kill_at_every_image([] {}, [] { return [] { throw std::runtime_error("boom"); }; }, nothing, fine);
    EXPECT_NE(report.failure.find("boom"), std::string::npos) << report.failure;
    EXPECT_FALSE(report.passed());
}

TEST(KillAtEverySystemCall, FindsTheFileThatADeadMakerLeaves) {
    if (!can_trace()) GTEST_SKIP() << "needs: ptrace";
    const unique_directory directory;
    const auto make = [&] {
        const std::string temporary = directory.file("half"), name = directory.file("whole");
        const int fd = ::open(temporary.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        if (::write(fd, "x", 1) != 1 || ::rename(temporary.c_str(), name.c_str()) != 0) ::_exit(2);
    };
    const auto clean = [&] {
        for (const std::string& entry : directory.entries()) ::unlink(directory.file(entry).c_str());
    };
    const step_report report = kill_at_every_system_call(
        clean, make, [] { return std::string(); },
        [&] { return directory.entries() == std::vector<std::string>{"half"} ? "left" : ""; });
    EXPECT_NE(report.failure.find("left"), std::string::npos) << report.failure;
    const step_report whole =
        kill_at_every_system_call(clean, make, [] { return std::string(); }, [] { return std::string(); });
    EXPECT_EQ(whole.failure, "");
    EXPECT_GE(whole.steps, 6U) << "three system calls, each entered and left";
    EXPECT_EQ(directory.entries(), std::vector<std::string>{"whole"});
}

TEST(SystemCallFaults, EachCallFailsOnceAndNothingElse) {
    if (!can_trace() || !can_fail_system_calls) GTEST_SKIP() << "needs: ptrace on x86-64";
    const unique_directory directory;
    const std::string name = directory.file("x");
    const auto operate = [&]() -> int {  // three calls, each with its own answer when it fails
        const int fd = ::open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        if (fd < 0) return errno == EIO ? 1 : -1;
        if (::ftruncate(fd, 10) != 0) return errno == EIO ? 2 : -1;
        if (::unlink(name.c_str()) != 0) return errno == EIO ? 3 : -1;
        return 4;
    };
    std::vector<int> results;
    const step_report report = fail_each_system_call(
        EIO, fault_span::once, [] {}, operate, [](long) { return true; },
        [&](const faulted_run& run) {
            results.push_back(run.result);
            EXPECT_EQ(run.left_open.empty(), run.result == 1) << run.left_open;
            return run.uncaught;
        });
    EXPECT_EQ(report.failure, "");
    EXPECT_EQ(report.steps, 3U);
    EXPECT_EQ(results, (std::vector<int>{1, 2, 3, 4})) << "the last run has no fault";
}

TEST(SystemCallFaults, ForGoodAllThatComeBehindFailTooAndWhoTriesForEverIsFound) {
    if (!can_trace() || !can_fail_system_calls) GTEST_SKIP() << "needs: ptrace on x86-64";
    const auto failures_of_three = []() -> int {
        int failures = 0;
        for (int i = 0; i < 3; ++i) failures += ::access("/", F_OK) != 0 ? 1 : 0;
        return failures;
    };
    std::vector<int> results;
    const step_report report = fail_each_system_call(
        EIO, fault_span::for_good, [] {}, failures_of_three, [](long) { return true; },
        [&](const faulted_run& run) {
            results.push_back(run.result);
            return run.uncaught;
        });
    EXPECT_EQ(report.failure, "");
    EXPECT_EQ(results, (std::vector<int>{3, 2, 1, 0}));
    const step_report endless = fail_each_system_call(
        EIO, fault_span::for_good, [] {},
        []() -> int {
            while (::access("/", F_OK) != 0) continue;
            return 0;
        },
        [](long) { return true; }, [](const faulted_run& run) { return run.uncaught; });
    EXPECT_NE(endless.failure.find("for ever"), std::string::npos) << endless.failure;
}

TEST(SystemCallFaults, UnnamedFilesCanBeRefused) {
    const unique_directory directory;
    const ended end = in_child([&]() -> int {
        if (!refuse_unnamed_files()) return 1;
        if (::open(directory.path().c_str(), O_TMPFILE | O_RDWR, 0600) >= 0 || errno != EOPNOTSUPP) return 2;
        return ::open(directory.path().c_str(), O_DIRECTORY | O_RDONLY) >= 0 ? 0 : 3;
    });
    if (end.code == 1) GTEST_SKIP() << "needs: seccomp";
    EXPECT_TRUE(end.success()) << end.text();
}

template <class Operate>
kill_report kill_toy(std::uint64_t rounds, Operate operate) {
    shared_image image(sizeof(toy_record));
    auto& toy = toy_in(image.bytes());
    const kill_plan plan{.rounds = rounds, .delay_ns_max = 50'000, .seed = choose_seed()};
    std::uint64_t before = 0;
    return run_kill_rounds(
        plan,
        [&](kill_progress& progress, std::uint64_t round) {
            progress.ready();
            for (std::uint64_t i = 0;; ++i) {
                progress.begin();
                operate(toy, random_at(plan.seed, round, i));
                progress.end();
            }
        },
        [&](const kill_progress& progress, std::uint64_t round) -> std::string {
            std::uint64_t value = 0;
            if (std::string failure = toy.read(value); !failure.empty()) return failure;
            const std::uint64_t done = progress.completed();
            const std::uint64_t last = done == 0 ? before : random_at(plan.seed, round, done - 1);
            if (value != last && !(progress.in_flight() && value == random_at(plan.seed, round, done)))
                return "neither the state before nor the state after the operation under way";
            before = value;
            return {};
        });
}

TEST(KillRig, FindsTheTornOverwrite) {
    const kill_report report =
        kill_toy(5000, [](toy_record& toy, std::uint64_t value) { toy.overwrite_in_place(value); });
    EXPECT_NE(report.failure.find("torn"), std::string::npos) << report.text();
    std::printf("found after %s\n", report.text().c_str());
}

TEST(KillRig, PassesTheSoundPublication) {
    const kill_report report = kill_toy(scaled(1000), [](toy_record& toy, std::uint64_t value) { toy.publish(value); });
    EXPECT_EQ(report.failure, "");
    EXPECT_EQ(report.kills, scaled(1000));
    EXPECT_GT(report.in_flight, 0U);
    RecordProperty("kills", std::to_string(report.kills));
    std::printf("%s\n", report.text().c_str());
}

TEST(KillRig, GoesOnUntilTheKillsHaveMetWhatTheyMustForTenTimesTheRounds) {
    std::uint64_t killed = 0;
    const auto kills = [&](std::uint64_t until) {
        killed = 0;
        const auto worker = [](kill_progress& progress, std::uint64_t) {
            for (progress.ready();;) progress.begin(), progress.end();
        };
        const auto verify = [&](const kill_progress&, std::uint64_t) {
            ++killed;
            return std::string();
        };
        return run_kill_rounds({.rounds = 3, .delay_ns_max = 1000, .seed = 1, .met = [&] { return killed >= until; }},
                               worker, verify)
            .kills;
    };
    EXPECT_EQ(kills(1), 3U);
    EXPECT_EQ(kills(7), 7U);
    EXPECT_EQ(kills(100), 30U);
}

TEST(KillRig, DoesNotPassWorkersThatDoNothing) {
    const kill_plan plan{.rounds = 20, .delay_ns_max = 50'000, .seed = 1};
    const auto sound = [](const kill_progress&, std::uint64_t) { return std::string(); };
    const kill_report idle = run_kill_rounds(
        plan,
        [](kill_progress& progress, std::uint64_t) {
            progress.ready();
            for (;;) ::pause();
        },
        sound);
    EXPECT_EQ(idle.failure, "");
    EXPECT_FALSE(idle.passed()) << idle.text();
    const kill_report never_done = run_kill_rounds(
        plan,
        [](kill_progress& progress, std::uint64_t) {
            progress.begin();
            progress.ready();
            for (;;) ::pause();
        },
        sound);
    EXPECT_EQ(never_done.in_flight, 20U);
    EXPECT_FALSE(never_done.passed()) << never_done.text();
}

TEST(KillRig, ReportsAWorkerThatEndsByItself) {
    const kill_report report = run_kill_rounds(
        kill_plan{.rounds = 1, .delay_ns_max = 1, .seed = 1},
        [](kill_progress&, std::uint64_t) { throw std::runtime_error("cannot attach"); },
        [](const kill_progress&, std::uint64_t) { return std::string(); });
    EXPECT_NE(report.failure.find("cannot attach"), std::string::npos) << report.failure;
}

TEST(ImageCorruption, ShowsEveryBitOnceAndStartsFresh) {
    std::vector<std::byte> sound(16, std::byte{5});
    std::uint64_t seen = 0;
    EXPECT_EQ(for_each_bit_flip(sound, {"field", 4, 2},
                                [&](const damage& what, std::span<std::byte> image) {
                                    int different = 0;
                                    for (std::size_t i = 0; i < sound.size(); ++i)
                                        different += image[i] != sound[i] ? 1 : 0;
                                    EXPECT_EQ(different, 1) << what.text();
                                    std::memset(image.data(), 0, image.size());  // the next visit must not see this
                                    ++seen;
                                }),
              16U);
    EXPECT_EQ(seen, 16U);
}

TEST(ImageCorruption, WordsSwapsCutsAndSplicesDiffer) {
    std::vector<std::byte> sound(32);
    for (std::size_t i = 0; i < sound.size(); ++i) sound[i] = static_cast<std::byte>(i * 7 + 1);
    const auto differs = [&](const damage& what, std::span<std::byte> image) {
        EXPECT_FALSE(std::equal(image.begin(), image.end(), sound.begin(), sound.end())) << what.text();
    };
    EXPECT_GE(for_each_word_damage(sound, {"field", 8, 8}, differs), 8U * 8U);
    EXPECT_EQ(for_each_swap(sound, {"all", 0, 32}, 8, differs), 3U);
    EXPECT_EQ(for_each_truncation(sound, {0, 16, 32}, differs), 2U + 3U + 1U);
    seeded_random random;
    EXPECT_EQ(random_damage(sound, {"all", 0, 32}, random, 100, [](const damage&, std::span<std::byte>) {}), 100U);
    const std::vector<std::byte> zero(32);
    const auto spliced = splice(sound, zero, 10);
    EXPECT_EQ(spliced.size(), 32U);
    EXPECT_EQ(spliced[9], sound[9]);
    EXPECT_EQ(spliced[10], std::byte{0});
}

}  // namespace
