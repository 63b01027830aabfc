// SPDX-License-Identifier: Apache-2.0
// Whatever ends a run of a suite, nothing of it stays in shared memory; and nothing of anybody else goes with it.
#include "workload/run_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/memory/uri.hpp"
#include "holdfast/segment/registry.hpp"
#include "support/unique_name.hpp"

namespace {

namespace fs = std::filesystem;
using holdfast::test::entries_containing;
using holdfast::workload::run_names;
using testing::ElementsAre;
using testing::IsEmpty;

/// A file, a folder with a file in it, and an entry of the registry.
void make_things(const run_names& names) {
    std::ofstream(names.folder() / (names.prefix() + "-1")) << "bytes";
    fs::create_directory(names.folder() / (names.prefix() + "-files"));
    std::ofstream(names.folder() / (names.prefix() + "-files") / "one") << "bytes";
    holdfast::registry::add(holdfast::memory::uri::parse("posix:/" + names.prefix() + "-1"));
}

/// Of that process's first thread; 0 if it has none.
[[nodiscard]] pid_t only_child_of(pid_t parent) {
    std::ifstream list("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
    pid_t child = 0;
    list >> child;
    return child;
}

class RunNames : public testing::Test {
 protected:
    [[nodiscard]] const std::string& folder() const { return folder_.path(); }
    [[nodiscard]] std::vector<std::string> left(const std::string& prefix) const {
        return entries_containing(folder(), prefix);
    }
    [[nodiscard]] bool soon_empty(const std::string& prefix) const {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!left(prefix).empty() && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return left(prefix).empty();
    }
    // Its own: in /dev/shm any other run that begins meanwhile removes what a killed one left, as it should.
    holdfast::test::unique_directory folder_;
    holdfast::test::unique_directory registry_;
    holdfast::test::scoped_environment place_{"HOLDFAST_REGISTRY", registry_.path()};
};

/// A run in another process, which made its things and then waits for ever.
class other_run {
 public:
    explicit other_run(const std::string& folder) {
        int ends[2];
        if (::pipe(ends) != 0) return;
        child_ = ::fork();
        if (child_ == 0) {
            const run_names names("test", folder);
            make_things(names);
            [[maybe_unused]] const ssize_t n = ::write(ends[1], names.prefix().data(), names.prefix().size());
            ::close(ends[1]);
            for (;;) ::pause();
        }
        ::close(ends[1]);
        char bytes[64];
        for (ssize_t n = 0; (n = ::read(ends[0], bytes, sizeof bytes)) != 0;) {
            if (n > 0) prefix_.append(bytes, static_cast<std::size_t>(n));
            if (prefix_.size() >= std::string("holdfast-test-XXXXXX").size()) break;
        }
        ::close(ends[0]);
    }
    other_run(const other_run&) = delete;
    other_run& operator=(const other_run&) = delete;
    ~other_run() { end(SIGKILL); }

    void end(int number) {
        if (child_ <= 0) return;
        ::kill(child_, number);
        while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
        }
        child_ = -1;
    }
    void kill_helper() const {
        const pid_t helper = only_child_of(child_);
        ASSERT_GT(helper, 0);
        ASSERT_EQ(::kill(helper, SIGKILL), 0);
    }
    [[nodiscard]] const std::string& prefix() const { return prefix_; }

 private:
    pid_t child_ = -1;
    std::string prefix_;
};

TEST_F(RunNames, AreDistinctAndRemovedInTheEnd) {
    std::optional<run_names> names(std::in_place, "test", folder());
    const std::string prefix = names->prefix();
    {
        const run_names another("test", folder());
        EXPECT_NE(another.prefix(), prefix);
    }
    make_things(*names);
    EXPECT_EQ(left(prefix).size(), 3U);
    EXPECT_EQ(registry_.entries().size(), 1U);
    names.reset();
    EXPECT_THAT(left(prefix), IsEmpty());
    EXPECT_THAT(registry_.entries(), IsEmpty());
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "the helper process is left";
}

TEST_F(RunNames, GoWithAProcessThatASignalEnds) {
    for (const int number : {SIGINT, SIGTERM, SIGKILL}) {
        other_run run(folder());
        ASSERT_EQ(left(run.prefix()).size(), 3U);
        run.end(number);
        EXPECT_TRUE(soon_empty(run.prefix())) << number;
        EXPECT_THAT(registry_.entries(), IsEmpty()) << number;
    }
}

// Else what kills the whole group of a run that has just begun, as Ctrl-C does, would kill the helper as well.
TEST_F(RunNames, AreThereOnceTheHelperIsOutOfReach) {
    for (int turn = 0; turn < 20; ++turn) {
        const run_names names("test", folder());
        const pid_t helper = only_child_of(::getpid());
        ASSERT_GT(helper, 0);
        ASSERT_EQ(::getsid(helper), helper) << turn;
    }
}

TEST_F(RunNames, OfARunKilledWithItsHelperGoWithTheNextRun) {
    other_run run(folder());
    run.kill_helper();
    run.end(SIGKILL);
    ASSERT_EQ(left(run.prefix()).size(), 3U);
    // A helper killed before it let go of its copy of the lock holds it until the kernel has torn it down.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!left(run.prefix()).empty() && std::chrono::steady_clock::now() < end)
        const run_names next("test", folder());
    EXPECT_THAT(left(run.prefix()), IsEmpty());
    EXPECT_THAT(registry_.entries(), IsEmpty());
}

TEST_F(RunNames, OfALivingRunStay) {
    const other_run run(folder());
    {
        const run_names next("test", folder());
    }
    EXPECT_EQ(left(run.prefix()).size(), 3U);
}

// A segment, or a file that only looks like a lock, is not ours to remove.
TEST_F(RunNames, FilesOfOthersStay) {
    const std::string token = std::to_string(100'000 + ::getpid() % 900'000);
    const fs::path there = folder(), lock = there / ("holdfast-a-" + token + ".bench-run"),
                   data = there / ("holdfast-a-" + token + "-data"), bare = there / "holdfast-.bench-run";
    std::ofstream(lock) << "not empty";
    std::ofstream(data) << "bytes";
    const std::ofstream empty(bare);
    {
        const run_names names("test", folder());
    }
    for (const fs::path& path : {lock, data, bare}) EXPECT_TRUE(fs::remove(path)) << path;
}

}  // namespace
