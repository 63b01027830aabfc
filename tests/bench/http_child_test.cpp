// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>

#include "http/child_process.hpp"
#include "http/load.hpp"
#include "http/scratch.hpp"

namespace {

using namespace holdfast::bench::http;
using namespace std::chrono_literals;

class ChildProcess : public testing::Test {
 protected:
    child_options shell(const std::string& text) {
        return {.arguments = {"/bin/sh", "-c", text},
                .environment = {"GREETING=hello"},
                .cores = {},
                .log = scratch_.folder() / "log"};
    }
    scratch scratch_;
};

TEST_F(ChildProcess, OutputAndEnvironmentComeThrough) {
    EXPECT_EQ(output_of(shell("echo $GREETING; echo more")), "hello\nmore\n");
    child_process child(shell("echo first; read nothing; echo second"));  // its input is empty
    EXPECT_EQ(child.read_line(5s), "first");
    EXPECT_EQ(child.read_line(5s), "second");
    EXPECT_THROW((void)child.read_line(5s), child_failed);
}

TEST_F(ChildProcess, FailuresNameTheProgramAndQuoteItsLog) {
    try {
        (void)output_of(shell("echo why >&2; exit 3"));
        FAIL();
    } catch (const child_failed& e) {
        EXPECT_NE(std::string(e.what()).find("sh: ended with 3"), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find("why"), std::string::npos) << e.what();
    }
    child_options missing = shell("");
    missing.arguments = {(scratch_.folder() / "missing").string()};
    EXPECT_THROW(child_process{missing}, child_failed);
    EXPECT_THROW((void)output_of(shell("exec sleep 1000"), 60ms), child_failed);
}

// Attacks I1: a leader that ends at once, and a worker that does not want to.
TEST_F(ChildProcess, NothingOfTheGroupIsLeft) {
    adopt_orphans();
    pid_t worker = 0;
    {
        child_process child(shell(
            "sh -c 'trap \"\" TERM; echo $$; exec >&-; while :; do sleep 1000; done' & trap 'exit 0' TERM; wait"));
        worker = static_cast<pid_t>(std::stol(child.read_line(5s)));
        ASSERT_EQ(::kill(worker, 0), 0);
    }
    EXPECT_EQ(::kill(worker, 0), -1);
    EXPECT_EQ(errno, ESRCH);
    // No child has ended and waits to be asked; one lives: the helper that removes the scratch folder after a kill.
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), 0);
}

TEST_F(ChildProcess, ItRunsOnTheCoresGivenToIt) {
    const std::vector<unsigned> usable = usable_cores();
    ASSERT_FALSE(usable.empty());
    child_options options = shell("grep Cpus_allowed_list /proc/self/status");
    options.cores = {usable.back()};
    EXPECT_EQ(output_of(options), "Cpus_allowed_list:\t" + std::to_string(usable.back()) + "\n");
    EXPECT_EQ(usable_cores(), usable);
}

TEST_F(ChildProcess, ProcessorTimeOfAllItsProcessesIsCounted) {
    const std::string work = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo worked; exec sleep 1000";
    child_process child(shell("(" + work + ") & trap \"kill $!\" TERM; wait"));
    EXPECT_EQ(child.read_line(60s), "worked");
    child.note_processes();
    EXPECT_GT(child.cpu_ns(), 1'000'000U);
}

TEST(Interruption, ASignalBecomesAnExceptionAndIsForgottenAfterwards) {
    {
        const interruption_watch watch;
        EXPECT_NO_THROW(check_interruption());
        ::raise(SIGTERM);
        try {
            check_interruption();
            FAIL();
        } catch (const interrupted& e) {
            EXPECT_EQ(e.signal, SIGTERM);
        }
    }
    const interruption_watch again;
    EXPECT_NO_THROW(check_interruption());
}

TEST(Scratch, NothingOfItIsLeft) {
    std::filesystem::path folder;
    {
        const scratch one;
        folder = one.folder();
        EXPECT_TRUE(std::filesystem::is_directory(folder));
        const std::string name = folder.filename().string();
        EXPECT_EQ(one.table().substr(0, one.table().rfind('-')), name.substr(0, name.rfind('-')));
    }
    EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
