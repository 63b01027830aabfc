// SPDX-License-Identifier: Apache-2.0
// The tests' own tools, tested: a rig that cannot fail proves nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

#include "support/capability.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast::test;

TEST(UniqueName, NamesDifferAndCompanionsVanish) {
    std::string path, companion;
    {
        const unique_posix_name name, other;
        EXPECT_NE(name.token(), other.token());
        path = name.path();
        companion = path + ".lease";
        std::ofstream(path) << "x";
        std::ofstream(companion) << "x";
        EXPECT_EQ(name.entries().size(), 2U);
        EXPECT_TRUE(other.entries().empty());
    }
    EXPECT_NE(::access(path.c_str(), F_OK), 0);
    EXPECT_NE(::access(companion.c_str(), F_OK), 0);
}

TEST(UniqueName, AForkedCopyRemovesNothing) {
    const unique_directory directory;
    std::ofstream(directory.file("kept")) << "x";
    EXPECT_TRUE(in_child([&] { directory.~unique_directory(); }).success());
    EXPECT_EQ(directory.entries().size(), 1U);
}

TEST(UniqueName, WhatTheKilledLeftIsSweptAndNothingElse) {
    const unique_directory directory("sweep");
    pid_t dead = 0;
    {
        child_process child([] {});
        dead = child.pid();
        child.wait();
    }
    const std::string mine = unique_token("mine"), killed = "hf-two-words-" + std::to_string(dead) + "-0-1",
                      young = "hf-young-" + std::to_string(dead) + "-0-1", strange = "hf-strange",
                      other = "other-1-0-1";
    for (const std::string& name : {mine, killed, killed + ".lease", young, strange, other})
        std::ofstream(directory.file(name)) << "x";
    const struct timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    for (const std::string& name : {mine, killed, killed + ".lease", strange, other})
        ASSERT_EQ(::utimensat(AT_FDCWD, directory.file(name).c_str(), long_ago, 0), 0);
    sweep_leftovers(directory.path());
    for (const std::string& name : {mine, young, strange, other})
        EXPECT_EQ(::access(directory.file(name).c_str(), F_OK), 0) << name;
    EXPECT_NE(::access(directory.file(killed).c_str(), F_OK), 0);
    EXPECT_NE(::access(directory.file(killed + ".lease").c_str(), F_OK), 0);
}

TEST(UniqueName, EachProgramHasARegistryOfItsOwn) {
    const char* const registry = std::getenv("HOLDFAST_REGISTRY");
    ASSERT_NE(registry, nullptr);
    EXPECT_EQ(::access(registry, W_OK), 0);
}

TEST(ChildProcess, ReportsReturnedCodesTextsAndExceptions) {
    EXPECT_TRUE(in_child([] {}).success());
    EXPECT_EQ(in_child([] { return 7; }).code, 7);
    EXPECT_TRUE(in_child([] { return std::string(); }).success());
    const ended text = in_child([] { return std::string("torn"); });
    EXPECT_EQ(text.code, failed_exit_code);
    EXPECT_EQ(text.failure, "torn");
    EXPECT_EQ(in_child([] { throw std::runtime_error("boom"); }).failure, "exception: boom");
}

TEST(ChildProcess, TalksBothWaysAndDiesWhenAsked) {
    child_process child([](channel& parent) {
        while (const auto number = parent.receive<int>()) parent.send(*number + 1);
    });
    auto talk = child.talk();
    EXPECT_TRUE(talk.send(41));
    EXPECT_EQ(talk.receive<int>(), 42);
    const ended& end = child.kill();
    EXPECT_TRUE(end.signalled);
    EXPECT_EQ(end.signal, SIGKILL);
    EXPECT_EQ(talk.receive<int>(), std::nullopt);
}

TEST(Seed, TheSameSeedGivesTheSameNumbers) {
    seeded_random first(5), second(5);
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(first(), second());
        EXPECT_LT(first.below(10), 10U);
        second.below(10);
    }
    EXPECT_EQ(random_at(1, 2, 3), random_at(1, 2, 3));
    EXPECT_NE(random_at(1, 2, 3), random_at(1, 3, 2));
}

TEST(Seed, EnvironmentDecides) {
    const scoped_environment environment("HOLDFAST_TEST_SEED", "99");
    EXPECT_EQ(seeded_random().seed(), 99U);
}

TEST(Scale, EnvironmentMultipliesAndNonsenseDoesNot) {
    const scoped_environment off("HOLDFAST_TEST_SCALE", "3");
    EXPECT_DOUBLE_EQ(scale(), 3.0);
    const scoped_environment nonsense("HOLDFAST_TEST_SCALE", "-1");
    EXPECT_DOUBLE_EQ(scale(), 1.0);
    EXPECT_GE(scaled(1), 1U);
}

TEST(Capability, MemoryCgroupLimitsTheProcessInIt) {
    const memory_cgroup group(64ULL << 20);
    if (!group.ready()) GTEST_SKIP() << "needs: a writable memory cgroup";
    EXPECT_TRUE(in_child([&] { return group.enter() ? 0 : 1; }).success());
}

}  // namespace
