// SPDX-License-Identifier: Apache-2.0
// A made-up machine in a folder, the real one, nonsense in /proc, git's files, and a thread tied to a CPU.
#include "holdfast/perf_test/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "holdfast/error.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast::perf_test;
using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Not;

auto has(const std::string& code) { return Contains(Field(&warning::code, code)); }

class EnvironmentOf : public ::testing::Test {
 protected:
    EnvironmentOf() : root_(std::filesystem::temp_directory_path() / holdfast::test::unique_token("environment")) {}
    ~EnvironmentOf() override { std::filesystem::remove_all(root_); }

    void write(const std::string& path, const std::string& text) {
        std::filesystem::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << text;
    }
    environment read(const build_facts& build = {}) const {
        environment_options o;
        o.root = root_.string();
        return this_environment(build, o);
    }

    std::filesystem::path root_;
};

TEST_F(EnvironmentOf, AMachineInAFolder) {
    write(
        "proc/cpuinfo",
        "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: Example 9000\nflags\t\t: fpu hypervisor lm\n\n"
        "processor\t: 1\nmodel name : Other\n");
    write("proc/loadavg", "99.50 3.10 1.00 1/200 4242\n");
    write("proc/stat", "cpu  10 0 10 960 0 0 0 20 5 5\ncpu0 1 2 3\n");
    write("proc/sys/kernel/randomize_va_space", "2\n");
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    write("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    write("sys/devices/system/cpu/smt/active", "1\n");
    write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    const environment e = read();
    EXPECT_EQ(e.cpu, "Example 9000, family 25, model 17");
    EXPECT_EQ(e.governor, "powersave");
    EXPECT_EQ(e.boost, "on");
    EXPECT_EQ(e.smt, "on");
    EXPECT_EQ(e.huge_pages, "madvise");
    EXPECT_DOUBLE_EQ(e.load_average, 99.5);
    EXPECT_DOUBLE_EQ(e.steal_share, 0.02);
    EXPECT_EQ(e.virtualisation, "hypervisor");
    EXPECT_THAT(e.address_layout, ::testing::AnyOf("random", "fixed"));  // fixed if this very process runs so
    const auto w = warnings_of(e);
    for (const char* code : {"debug-build", "governor", "boost", "smt", "steal", "virtual", "load"})
        EXPECT_THAT(w, has(code));
    for (const warning& one : w) EXPECT_GT(one.text.size(), 30U);
}

TEST_F(EnvironmentOf, WhatIsNotToldIsEmpty) {
    const environment e = read();
    EXPECT_EQ(e.cpu, "");
    EXPECT_EQ(e.governor, "");
    EXPECT_EQ(e.huge_pages, "");
    EXPECT_LT(e.load_average, 0);
    EXPECT_LT(e.steal_share, 0);
    EXPECT_FALSE(e.kernel.empty()) << "uname needs no file";
    build_facts good;
    good.optimised = true;
    EXPECT_THAT(warnings_of(read(good)), IsEmpty());
}

TEST_F(EnvironmentOf, NonsenseIsNoFact) {
    write("proc/cpuinfo", std::string(3'000'000, 'x') + "\nmodel name : late");
    write("proc/loadavg", "many");
    write("proc/stat", "cpu  1 2 x\n");
    write("sys/kernel/mm/transparent_hugepage/enabled", "]always[");
    const environment e = read();
    EXPECT_EQ(e.cpu, "");
    EXPECT_LT(e.load_average, 0);
    EXPECT_LT(e.steal_share, 0);
    EXPECT_EQ(e.huge_pages, "");
}

TEST_F(EnvironmentOf, RevisionByGitsFiles) {
    const std::string commit(40, 'a'), other(40, 'b');
    EXPECT_EQ(git_revision(root_), "");
    write(".git/HEAD", "ref: refs/heads/trunk\n");
    EXPECT_EQ(git_revision(root_), "");
    write(".git/packed-refs",
          "# pack-refs with: peeled\n" + other + " refs/heads/trunk2\n" + commit + " refs/heads/trunk\n");
    EXPECT_EQ(git_revision(root_), commit);
    write(".git/refs/heads/trunk", other + "\n");
    EXPECT_EQ(git_revision(root_), other);
    write(".git/HEAD", commit + "\n");
    EXPECT_EQ(git_revision(root_), commit) << "a detached head";
    write(".git/worktrees/w/HEAD", "ref: refs/heads/trunk\n");
    write(".git/worktrees/w/commondir", "../..\n");
    write("linked/.git", "gitdir: " + (root_ / ".git/worktrees/w").string() + "\n");
    EXPECT_EQ(git_revision(root_ / "linked"), other);
    write(".git/HEAD", "ref: ../../secret\n");
    EXPECT_EQ(git_revision(root_), "");
    write(".git/HEAD", "not a commit\n");
    EXPECT_EQ(git_revision(root_), "");
}

TEST_F(EnvironmentOf, TheNearestWorkingTreeAboveAFolder) {
    write("tree/.git/HEAD", "x");
    write("tree/build/deep/program", "x");
    write("tree/other/.git", "gitdir: elsewhere");
    const std::string root = root_.string();
    EXPECT_EQ(repository_above(root + "/tree/build/deep/program"), root + "/tree");
    EXPECT_EQ(repository_above(root + "/tree"), root + "/tree");
    EXPECT_EQ(repository_above(root + "/tree/other"), root + "/tree/other") << "a linked working tree";
    EXPECT_EQ(repository_above(root + "/treehouse"), repository_above(root));
    EXPECT_EQ(repository_above("relative/path"), "");
    EXPECT_EQ(repository_above(""), "");
}

TEST(Environment, OfThisMachine) {
    const environment e = this_environment(this_build());
    EXPECT_GT(e.cpus_usable, 0U);
    EXPECT_GE(e.cpus_online, 1U);
    EXPECT_GT(e.memory_bytes, 0U);
    EXPECT_FALSE(e.build.compiler.empty());
    EXPECT_FALSE(e.clock.empty());
#if defined(__OPTIMIZE__)
    EXPECT_TRUE(e.build.optimised);
    EXPECT_THAT(warnings_of(e), Not(has("debug-build")));
#else
    EXPECT_THAT(warnings_of(e), has("debug-build"));
#endif
}

TEST(CpuPin, TiesAndReleases) {
    const std::vector<unsigned> before = usable_cpus();
    ASSERT_FALSE(before.empty());
    {
        const cpu_pin pin(before.back());
        EXPECT_EQ(usable_cpus(), std::vector<unsigned>{before.back()});
        EXPECT_EQ(sched_getcpu(), static_cast<int>(before.back()));
        if (before.size() > 1) {
            EXPECT_THROW(cpu_pin{before.front()}, holdfast::error) << "tied already";
        }
    }
    EXPECT_EQ(usable_cpus(), before);
    EXPECT_THROW(cpu_pin{100'000}, holdfast::error);
}

}  // namespace
