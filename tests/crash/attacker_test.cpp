// SPDX-License-Identifier: Apache-2.0
// A process with write permission scribbles on a segment, header, body and peers, while others attach to it, read all
// of it, verify it and look at it with the program. Attacked: nobody crashes, hangs, reads outside or allocates more
// than the segment's size; whatever cannot be is told by an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "golden/image_file.hpp"
#include "golden/subjects.hpp"
#include "support/attacker.hpp"
#include "support/program.hpp"
#include "support/segment_tools.hpp"

// The sanitizers have their own, and need it.
#if defined(__SANITIZE_ADDRESS__)
#define HOLDFAST_TEST_KEEPS_NEW
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOLDFAST_TEST_KEEPS_NEW
#endif
#endif
#ifndef HOLDFAST_TEST_KEEPS_NEW
// Not inlined: g++ would take the call of free in one for a mistake where it does not see the malloc in the other.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    void* const at = std::malloc(bytes == 0 ? 1 : bytes);
    if (at == nullptr) throw std::bad_alloc();
    holdfast::test::allocations.took(at);
    return at;
}
[[gnu::noinline]] void operator delete(void* at) noexcept {
    holdfast::test::allocations.gave(at);
    std::free(at);
}
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept { ::operator delete(at); }
#endif

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

class Attacked : public segment_test, public ::testing::WithParamInterface<golden_subject> {
 protected:
    void SetUp() override {
        const still_world then(golden_moment_ns, golden_seed);
        GetParam().make(uri_);
        paths_.push_back(name_.path());
        if (const std::string peers = name_.path() + ".peers"; ::access(peers.c_str(), F_OK) == 0)
            paths_.push_back(peers);
        bytes_ = read_file(name_.path()).size();
    }
    // Of a reader's turn: the contents in pieces and as text, and what verifying needs.
    [[nodiscard]] u64 allocation_max() const { return 8 * bytes_ + (512 << 10); }

    unique_posix_name name_{"attacked"};
    std::string uri_ = name_.uri();
    std::vector<std::string> paths_;
    u64 bytes_ = 0;
};

TEST_P(Attacked, ReadersAndWritersStandIt) {
    const u64 seed = choose_seed(), milliseconds = 250;
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    for (u64 round = 0; round < scaled(1); ++round) {
        shared_image page(4096);
        auto* const told = new (page.bytes().data()) victim_state[3];
        child_process attacker([&] { scribble(paths_, header_bytes, random_at(seed, 2, round)); });
        std::vector<child_process> victims;
        for (int i = 0; i < 2; ++i)
            victims.emplace_back([&, i] {
                return stand(told[i], milliseconds, allocation_max(), [&] { (void)GetParam().describe(uri_); });
            });
        // A writer recovers what it finds, which may be anything.
        victims.emplace_back(
            [&] { return stand(told[2], milliseconds, allocation_max(), [&] { GetParam().go_on(uri_); }); });
        for (child_process& victim : victims) EXPECT_TRUE(victim.wait().success()) << victim.wait().text();
        attacker.kill();
        u64 turns = 0, refused = 0;
        for (int i = 0; i < 3; ++i) {
            EXPECT_GT(told[i].turns, 0U);
            turns += told[i].turns;
            refused += told[i].refused;
        }
        const u64 slowest = std::max({told[0].slowest_ns.load(), told[1].slowest_ns.load(), told[2].slowest_ns.load()});
        const u64 most =
            std::max({told[0].allocated_most.load(), told[1].allocated_most.load(), told[2].allocated_most.load()});
        std::printf("%s: %llu turns, %llu ended by an error, the slowest %.1f ms, at most %llu bytes allocated\n",
                    GetParam().name, static_cast<unsigned long long>(turns), static_cast<unsigned long long>(refused),
                    static_cast<double>(slowest) / 1e6, static_cast<unsigned long long>(most));
    }
}

TEST_P(Attacked, TheProgramAnswersOrRefuses) {
    if (program_path().empty()) GTEST_SKIP() << "needs: the program";
    const std::vector<std::vector<std::string>> commands = {
        {"stat", uri_},           {"verify", uri_}, {"dump", uri_},      {"scan", uri_},          {"get", uri_, "5"},
        {"stat", uri_, "--json"}, {"who", uri_},    {"save", uri_, "-"}, {"scan", uri_, "--json"}};
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    child_process attacker([&] { scribble(paths_, header_bytes, seed); });
    program_limits limits;
    limits.memory_bytes = u64{256} << 20;
    limits.seconds = 20;
    for (u64 round = 0; round < scaled(2); ++round)
        for (const std::vector<std::string>& words : commands) {
            const program_run run = run_program(words, limits);
            ASSERT_FALSE(run.timed_out) << words[0] << " does not end";
            ASSERT_TRUE(run.end.exited) << words[0] << ": " << run.end.text();
            ASSERT_LE(run.end.code, 8) << words[0] << ": " << run.end.text();
        }
    if (!run_program({"tail", "--help"}).end.success()) return;
    limits.seconds = 1;  // it follows a ring until it is killed
    const program_run tail = run_program({"tail", uri_}, limits);
    EXPECT_TRUE(tail.timed_out || (tail.end.exited && tail.end.code <= 8)) << "tail: " << tail.end.text();
}

INSTANTIATE_TEST_SUITE_P(Subjects, Attacked, ::testing::ValuesIn(golden_subjects),
                         [](const auto& s) { return std::string(s.param.name); });

// Whoever may write can change a header between its making and its checksum.
TEST(AttackedBuilder, WritesAnIndexWhoseHeaderChangesMeanwhile) {
    sorted_index_builder<u64, u64> builder;
    for (u64 n = 0; n < 20; ++n) builder.add(n, n);
    shared_image page((builder.image_bytes() + 4095) / 4096 * 4096);
    child_process attacker([&] {
        auto* const word = reinterpret_cast<u64*>(page.bytes().data());
        for (u64 n = 0;; ++n) std::atomic_ref(word[n % 16]).store(n, std::memory_order_relaxed);
    });
    const ended end = in_child([&] {
        for (u64 n = 0; n < scaled(500'000); ++n) builder.write(page.bytes());
    });
    EXPECT_TRUE(end.success()) << end.text();
}

// The rig's own teeth: who believes a length that it read is found out.
TEST(AttackerRig, FindsAReaderThatBelievesALength) {
    if (sanitized) GTEST_SKIP() << "needs: a build without sanitizers, which count their own way";
    shared_image page(4096);
    auto* const told = new (page.bytes().data()) victim_state;
    const ended end = in_child([&] {
        u64 length = 100;
        return stand(*told, 1000, 1 << 20, [&] {
            const std::string believed(length, 'x');
            length = 2 * believed.size();
        });
    });
    EXPECT_FALSE(end.success());
    EXPECT_NE(end.failure.find("allocated"), std::string::npos) << end.text();
}

}  // namespace
