// SPDX-License-Identifier: Apache-2.0
// A process with write permission scribbles on a segment, header, body and peers, puts lengths of 3 GB there, or cuts
// its file off, while others attach to it, read all of it, verify it and look at it with the program. Attacked: nobody
// crashes, hangs, reads outside or allocates more than the segment's size; whatever cannot be is told by an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "golden/image_file.hpp"
#include "golden/subjects.hpp"
#include "support/asked_server.hpp"
#include "support/attacker.hpp"
#include "support/held_readers.hpp"
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

constexpr int no_room = 6;  // the exit code

[[nodiscard]] bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }
[[nodiscard]] ino_t inode_of(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

class Attacked : public segment_test, public ::testing::WithParamInterface<golden_subject> {
 protected:
    void SetUp() override {
        const still_world then(golden_moment_ns, golden_seed);
        GetParam().make(uri_);
        paths_ = {name_.path()};
        if (const std::string peers = name_.path() + ".peers"; ::access(peers.c_str(), F_OK) == 0)
            paths_.push_back(peers);
        bytes_ = read_file(name_.path()).size();
    }
    // What the program needs for itself, with buffers of a MiB or two for what it reads and saves, and the segment.
    [[nodiscard]] program_limits limits_of_program() const {
        program_limits limits;
        limits.memory_bytes = (u64{16} << 20) + bytes_;
        limits.seconds = 20;
        return limits;
    }
    // Of a turn: one value or object at a time, and the text of what was read (report::text_bytes_max, thrice).
    [[nodiscard]] u64 allocation_max() const { return bytes_ + (64 << 10); }

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

// What looks at answers is no part of the server, and what it allocates does not count.
const auto uncounted = [](auto&& look) {
    const u64 most = allocations.most;
    look();
    allocations.most = most;
};
// Twice what every route together may say of a segment of some KiB, names of fields and digits included.
constexpr u64 answer_bytes_max = 256 << 10;

TEST_P(Attacked, TheServerAnswersOrRefuses) {
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    shared_image page(4096);
    auto* const told = new (page.bytes().data()) victim_state;
    const unique_posix_name counts("counts");
    const std::string_view kind = GetParam().name;
    child_process victim([&](channel& parent) -> std::string {
        memory::install_truncation_guard();
        const auto counted = serve::shared_counts::open_or_create(counts.uri(), 1);
        asked_server server(uri_, counted, answer_bytes_max);
        server.ask_everything(uncounted);  // where nobody attacks; what is kept from here on does not grow
        if (kind.starts_with("hash_table") && server.get("/v1/tables/" + name_.token() + "/5", uncounted).status != 200)
            return "a key that is there is not found";
        const u64 held = allocations.now;
        parent.signal();
        parent.wait();
        constexpr u64 milliseconds = sanitized ? 1000 : 250;  // they make a turn twenty times as long
        std::string wrong =
            stand(*told, milliseconds, bytes_ + answer_bytes_max, [&] { server.ask_everything(uncounted); });
        if (wrong.empty() && allocations.now > held + bytes_ + answer_bytes_max) wrong = "it keeps more and more";
        return wrong;
    });
    if (victim.talk().wait()) {
        std::vector<std::string> paths = paths_;
        if (kind == "counter_set") paths.push_back(counts.path());  // the server's own counts
        child_process attacker([&] { scribble(paths, header_bytes, seed); });
        victim.talk().signal();
        (void)victim.wait();
        attacker.kill();
    }
    EXPECT_TRUE(victim.wait().success()) << victim.wait().text();
    EXPECT_GT(told->turns, 0U);
    std::printf("%s: %llu turns, the slowest %.1f ms, at most %llu bytes allocated\n", GetParam().name,
                static_cast<unsigned long long>(told->turns), static_cast<double>(told->slowest_ns) / 1e6,
                static_cast<unsigned long long>(told->allocated_most));
}

TEST_P(Attacked, TheServerSaysThatAFileWasCutOff) {
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    const unique_posix_name counts("counts");
    for (u64 round = 0; round < 1 + scaled(3); ++round) {
        const image_bytes whole = read_file(paths_[0]);
        const u64 kept = round == 0 ? whole.size() - 1 : random_at(seed, 3, round) % whole.size();
        const ended end = in_child([&]() -> std::string {
            memory::install_truncation_guard();
            const auto counted = serve::shared_counts::open_or_create(counts.uri(), 1);
            asked_server server(uri_, counted, answer_bytes_max);
            const auto asked = server.targets();
            std::vector<served_answer> sound;
            for (const std::string& target : asked) sound.push_back(server.get(target, uncounted));
            if (::truncate(paths_[0].c_str(), static_cast<off_t>(kept)) != 0) return "no cut";
            for (std::size_t i = 0; i < asked.size(); ++i)
                if (const served_answer now = server.get(asked[i], uncounted);
                    now.status == 200 && now.body != sound[i].body)
                    return asked[i] + " answers of a file cut at " + std::to_string(kept) + ": " + now.body;
            if (server.get("/v1/segments", uncounted).body.find(R"("code":"truncated")") == std::string::npos)
                return "the list does not tell of a file cut at " + std::to_string(kept);
            return {};
        });
        EXPECT_TRUE(end.success()) << end.text();
        std::ofstream(paths_[0], std::ios::binary)
            .write(reinterpret_cast<const char*>(whole.data()), static_cast<std::streamsize>(whole.size()));
    }
}

// A record for a table of the subjects, as a file to be merged.
std::string write_record(const unique_directory& folder) {
    std::string path = folder.file("more.csv");
    std::ofstream(path) << "5,7007,0.875,7,1\n150,1,2,3,4\n";
    return path;
}

TEST_P(Attacked, TheProgramAnswersOrRefuses) {
    if (program_path().empty()) GTEST_SKIP() << "needs: the program";
    const unique_directory folder("attacked");
    const std::vector<std::vector<std::string>> readers = {{"stat", uri_},
                                                           {"verify", uri_},
                                                           {"dump", uri_},
                                                           {"scan", uri_},
                                                           {"get", uri_, "5"},
                                                           {"get", uri_, "key 25"},
                                                           {"stat", uri_, "--json"},
                                                           {"who", uri_},
                                                           {"save", uri_, "-"},
                                                           {"scan", uri_, "--json"},
                                                           {"ls"},
                                                           {"top", "--once", "--interval", "0.05"},
                                                           {"tail", uri_, "--now"}};
    const std::vector<std::vector<std::string>> writers = {{"put", uri_, "5", "7007,0.875,7,1"},
                                                           {"put", uri_, "key 25", "--ttl", "5", "text"},
                                                           {"del", uri_, "150"},
                                                           {"load", uri_, write_record(folder), "--merge"}};
    program_limits limits = limits_of_program();
    const auto ends = [&](const std::vector<std::string>& words) {
        const program_run run = run_program(words, limits);
        EXPECT_FALSE(run.timed_out) << words[0] << " does not end";
        EXPECT_TRUE(run.timed_out || (run.end.exited && run.end.code <= 8)) << words[0] << ": " << run.end.text();
        return run.end.code;
    };
    if (std::string(GetParam().name) == "hash_table") {  // these commands do their work where nobody attacks
        for (const auto& words : readers)
            if (words[0] != "tail" && words.back() != "key 25") {
                ASSERT_LE(ends(words), 1) << words[0];
            }
        for (const std::size_t n : {std::size_t{0}, std::size_t{3}}) ASSERT_EQ(ends(writers[n]), 0) << writers[n][0];
    }
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    child_process attacker([&] { scribble(paths_, header_bytes, seed); });
    for (u64 round = 0; round < scaled(2); ++round) {
        for (const auto& words : readers) EXPECT_NE(ends(words), no_room) << words[0] << " ran out of memory";
        for (const auto& words : writers) (void)ends(words);
    }
    if (HasFailure()) return;
    limits.seconds = 1;  // it follows a ring until it is killed
    const program_run tail = run_program({"tail", uri_}, limits);
    EXPECT_TRUE(tail.timed_out || (tail.end.exited && tail.end.code <= 8)) << "tail: " << tail.end.text();
}

// Commands that take the name, the messages or the damaged bytes away: each finds a segment of its own under attack.
TEST_P(Attacked, TheProgramRepairsMovesConsumesAndRemovesOrRefuses) {
    if (program_path().empty()) GTEST_SKIP() << "needs: the program";
    const unique_directory folder("attacked");
    const std::string sound = folder.file_uri("sound");
    const std::vector<std::vector<std::string>> commands = {{"repair", "-q", uri_},
                                                            {"repair", "-q", "--dry-run", uri_},
                                                            {"repair", "-q", "--keep-doubtful", "--to", sound, uri_},
                                                            {"grow", "-q", uri_, "--capacity", "70"},
                                                            {"tail", uri_, "--consume", "--now"},
                                                            {"rm", uri_}};
    const program_limits limits = limits_of_program();
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    u64 done = 0;
    for (u64 round = 0; round < scaled(2); ++round)
        for (std::size_t n = 0; n < commands.size(); ++n) {
            const auto& words = commands[n];
            name_.remove();
            SetUp();
            const ino_t attacked = inode_of(paths_[0]);
            child_process attacker([&](channel& parent) {
                scribble(paths_, header_bytes, random_at(seed, n, round), [&] { parent.signal(); });
            });
            ASSERT_TRUE(attacker.talk().wait());
            const program_run run = run_program(words, limits);
            attacker.kill();
            const std::string what = words[0] + " " + words[words.size() == 2 ? 1 : 2];
            ASSERT_FALSE(run.timed_out) << what << " does not end";
            ASSERT_TRUE(run.end.exited && run.end.code <= 8) << what << ": " << run.end.text();
            if (words[0] != "grow") {  // to whom a count of entries says that there is no room for them
                ASSERT_NE(run.end.code, no_room) << what << " ran out of memory";
            }
            done += run.end.success() ? 1 : 0;
            // What took the place, or was made, nobody has attacked.
            const bool made = exists(folder.file("sound"));
            const bool taken = words[0] == "repair" && inode_of(paths_[0]) != attacked;
            for (const auto& [is, where] : {std::pair(made, sound), std::pair(taken, uri_)})
                if (is) {
                    EXPECT_TRUE(run_program({"verify", where}, limits).end.success()) << what << " made no sound one";
                }
            EXPECT_TRUE(words[0] != "rm" || !run.end.success() || !exists(paths_[0])) << "removed, and still there";
            for (const std::string& entry : folder.entries()) ::unlink(folder.file(entry).c_str());
        }
    std::printf("%s: %llu done\n", GetParam().name, static_cast<unsigned long long>(done));
}

// A saved file that somebody writes to meanwhile.
TEST_P(Attacked, RestoringAnswersOrRefuses) {
    if (program_path().empty()) GTEST_SKIP() << "needs: the program";
    const unique_directory folder("attacked");
    const std::string saved = folder.file("saved"), restored = folder.file_uri("restored");
    const program_limits limits = limits_of_program();
    const program_run save = run_program({"save", "-q", uri_, saved}, limits);
    ASSERT_TRUE(save.end.success()) << save.end.text();
    const u64 seed = choose_seed();
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    child_process attacker([&] { scribble({saved}, 0, seed); });
    u64 made = 0;
    for (u64 round = 0; round < scaled(20); ++round) {
        const program_run run = run_program({"restore", "-q", saved, restored}, limits);
        ASSERT_FALSE(run.timed_out) << "restore does not end";
        ASSERT_TRUE(run.end.exited && run.end.code <= 8) << run.end.text();
        ASSERT_NE(run.end.code, no_room) << "ran out of memory";
        made += run.end.success() ? 1 : 0;
        ASSERT_EQ(run.end.success(), ::access(folder.file("restored").c_str(), F_OK) == 0);
        if (run.end.success()) {
            ASSERT_TRUE(run_program({"verify", restored}, limits).end.success()) << "a damaged segment was restored";
        }
        for (const std::string& entry : folder.entries())
            if (entry != "saved") ::unlink(folder.file(entry).c_str());
    }
    std::printf("%s: %llu restored\n", GetParam().name, static_cast<unsigned long long>(made));
}

// Where, in turn, a length may lie.
struct struck_word {
    std::size_t path = 0, at = 0, width = 0;
};

// Every word is 3 GB once, and with it every length. Beyond the segment's size there is the text of what was read,
// which is the test's own: some KiB, and its string doubles as it grows.
TEST_P(Attacked, ALengthOf3GBAllocatesNoMoreThanTheSegment) {
    constexpr u64 lie = u64{3} << 30;
    const u64 enough = bytes_ + (16 << 10);
    constexpr std::size_t struck_max = 6;
    child_process reader([&](channel& parent) -> std::string {
        std::vector<std::unique_ptr<open_wound>> files;
        for (const std::string& path : paths_) files.push_back(std::make_unique<open_wound>(path));
        const std::string sound = GetParam().describe(uri_);
        for (auto& file : files) file->heal();
        std::vector<struck_word> noticed;
        u64 most = 0;
        const std::size_t step = sanitized ? 7 : 1;
        for (std::size_t f = 0; f < files.size(); ++f)
            for (const std::size_t width : {std::size_t{4}, std::size_t{8}})
                for (std::size_t at = header_bytes; at + width <= files[f]->size(); at += width * step) {
                    files[f]->put(at, lie, width);
                    const u64 held = allocations.now;
                    allocations.most = held;
                    std::string text;
                    ::alarm(30);
                    try {
                        text = GetParam().describe(uri_);
                    } catch (const std::runtime_error&) {  // an answer
                    } catch (const std::bad_alloc&) {
                        return "ran out of memory by the word at " + std::to_string(at);
                    }
                    ::alarm(0);
                    const u64 took = allocations.most - held;
                    most = std::max(most, took);
                    if (!sanitized && took > enough)
                        return std::to_string(took) + " bytes were allocated for the word at " + std::to_string(at);
                    if (text != sound) noticed.push_back({f, at, width});
                    for (auto& file : files) file->heal();
                }
        if (noticed.empty()) return "no word of all made a difference";
        std::array<struck_word, struck_max> some{};
        for (std::size_t i = 0; i < struck_max; ++i) some[i] = noticed[i * noticed.size() / struck_max];
        parent.send(some);
        parent.send(most);
        return {};
    });
    const auto struck = reader.talk().receive<std::array<struck_word, struck_max>>();
    const auto most = reader.talk().receive<u64>();
    ASSERT_TRUE(reader.wait().success()) << reader.wait().text();
    std::printf("%s of %llu bytes: at most %llu bytes allocated\n", GetParam().name,
                static_cast<unsigned long long>(bytes_), static_cast<unsigned long long>(most.value_or(0)));
    if (program_path().empty() || !struck) return;
    const program_limits limits = limits_of_program();
    for (const struck_word& word : *struck) {
        open_wound file(paths_[word.path]);
        file.put(word.at, lie, word.width);
        for (const std::vector<std::string>& words : {std::vector<std::string>{"get", uri_, "5"},
                                                      {"get", uri_, "key 25"},
                                                      {"dump", uri_},
                                                      {"tail", uri_, "--now"}}) {
            const program_run run = run_program(words, limits);
            EXPECT_TRUE(run.end.exited && run.end.code <= 8 && run.end.code != no_room)
                << words[0] << " by the word at " << word.at << ": " << run.end.text();
        }
        file.heal();
    }
}

INSTANTIATE_TEST_SUITE_P(Subjects, Attacked, ::testing::ValuesIn(golden_subjects),
                         [](const auto& s) { return std::string(s.param.name); });

// ---- readers that are attached already, of containers of 1 MiB

class HeldReader : public segment_test, public ::testing::WithParamInterface<held_subject> {
 protected:
    void make() {
        GetParam().make(name_.uri());
        paths_ = {name_.path()};
        if (const std::string peers = name_.path() + ".peers"; ::access(peers.c_str(), F_OK) == 0)
            paths_.push_back(peers);
    }

    /// A process whose reader has looked once.
    struct round_of {
        u64 seed, number;
        held_reader& reader;
        std::uint64_t sound;     // what it was told
        std::size_t file_bytes;  // of the file that is cut
        [[nodiscard]] u64 pause() const { return random_at(seed, 2, number) % 3'000'000; }
    };
    // Each round is a process of its own, which finds the file at `path` whole. `rest` says what is wrong.
    template <class Rest>
    void in_rounds(const std::string& path, Rest&& rest) {
        const u64 seed = choose_seed();
        SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
        const image_bytes whole = read_file(path);
        for (u64 round = 0; round < 1 + scaled(7); ++round) {
            const ended end = in_child([&]() -> std::string {
                ::alarm(60);
                memory::install_truncation_guard();
                const std::unique_ptr<held_reader> reader = GetParam().open(name_.uri());
                const std::uint64_t sound = reader->look();
                return rest(round_of{seed, round, *reader, sound, whole.size()});
            });
            EXPECT_TRUE(end.success()) << end.text();
            std::ofstream(path, std::ios::binary)
                .write(reinterpret_cast<const char*>(whole.data()), static_cast<std::streamsize>(whole.size()));
        }
    }
    unique_posix_name name_{"held"};
    std::vector<std::string> paths_;
};

// What the next test holds through an attack does carry something from one turn to the next.
TEST_P(HeldReader, ReadsOnToTheEndOfWhatThereIs) {
    make();
    const std::unique_ptr<held_reader> reader = GetParam().open(name_.uri());
    const u64 enough = 100'000;
    u64 steps = 0;
    while (steps < enough && (GetParam().steps != 0 || steps < 2) && reader->read_on()) ++steps;
    EXPECT_EQ(steps, GetParam().steps != 0 ? GetParam().steps : 2);
    EXPECT_EQ(reader->fault(), std::nullopt);
}

// Two victims: one attaches anew in each turn and looks at all that there is; the other keeps its reader, with all that
// it carries from one damaged step to the next, until that throws, latches a fault or has come to the end. What a
// reader copies is new memory each time, so it never needs more than the one object that it reads.
TEST_P(HeldReader, NeedsNoMoreThanTheSegmentUnderAttack) {
    make();
    const u64 bytes = read_file(name_.path()).size(), room = 64 << 10;
    const u64 seed = choose_seed(), milliseconds = 200;
    SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
    shared_image page(4096);
    auto* const told = new (page.bytes().data()) victim_state[2];
    child_process attacker([&] { scribble(paths_, header_bytes, seed); });
    std::vector<child_process> victims;
    for (int i = 0; i < 2; ++i)
        victims.emplace_back([&, i] {
            std::unique_ptr<held_reader> held;
            return stand(told[i], milliseconds, bytes + room, [&] {
                std::unique_ptr<held_reader> reader = std::move(held);  // it goes with a turn that throws
                if (reader != nullptr) ++told[i].held;
                if (reader == nullptr) reader = GetParam().open(name_.uri());
                if (i == 0)
                    (void)reader->look();
                else if (reader->read_on() && !reader->fault())
                    held = std::move(reader);
            });
        });
    for (child_process& victim : victims) EXPECT_TRUE(victim.wait().success()) << victim.wait().text();
    attacker.kill();
    EXPECT_GT(told[0].turns + told[1].turns, 1U);
    if (!sanitized) {  // they make a turn twenty times as long
        EXPECT_GT(told[1].held, 0U) << "no reader was asked twice";
    }
    std::printf(
        "%s of %llu KiB: %llu turns, %llu of a reader held, %llu ended by an error, the slowest %.1f ms, at most %llu "
        "KiB allocated\n",
        GetParam().name, static_cast<unsigned long long>(bytes >> 10U),
        static_cast<unsigned long long>(told[0].turns + told[1].turns),
        static_cast<unsigned long long>(told[1].held.load()),
        static_cast<unsigned long long>(told[0].refused + told[1].refused),
        static_cast<double>(std::max(told[0].slowest_ns.load(), told[1].slowest_ns.load())) / 1e6,
        static_cast<unsigned long long>(std::max(told[0].allocated_most.load(), told[1].allocated_most.load()) >> 10U));
}

// The rest of a process in which a reader looks while its file is cut off behind `kept` bytes, `pause` spins after the
// first look. "" where each answer was right or fault() said that it is none.
std::string look_while_cut(held_reader& reader, std::uint64_t sound, const std::string& path, std::size_t kept,
                           u64 pause) {
    std::atomic<bool> cut{false};
    std::jthread cutter([&] {
        for (u64 spins = pause; spins > 0; --spins) std::atomic_signal_fence(std::memory_order_seq_cst);
        cut = ::truncate(path.c_str(), static_cast<off_t>(kept)) == 0;
    });
    for (bool last = false; !last;) {
        last = cut;  // one look more behind the cut
        const std::uint64_t told = reader.look();
        if (told != sound && !reader.fault()) return "something else was told, and fault() is silent";
    }
    return {};
}

TEST_P(HeldReader, OfAFileThatIsCutOffIsToldSo) {
    make();
    in_rounds(paths_[0], [&](const round_of& now) -> std::string {
        if (now.reader.fault()) return "a fault before the cut";
        const bool all = now.number % 2 == 0;
        const std::size_t pages = now.file_bytes / 4096;
        const std::size_t kept = all ? header_bytes : 4096 * (1 + random_at(now.seed, 1, now.number) % (pages - 1));
        if (std::string wrong = look_while_cut(now.reader, now.sound, paths_[0], kept, now.pause()); !wrong.empty())
            return wrong;
        if (all && !now.reader.fault()) return "nothing is left and fault() is silent";
        return expect_refusal(errc::truncated, [&] { (void)GetParam().open(name_.uri()); });
    });
}

// No signal is raised for a cut inside the last page, and fault() may be silent over zeros: cut_off() is not, and
// nobody attaches to such a file.
TEST_P(HeldReader, OfAFileCutInsideItsLastPageCanTell) {
    make();
    const image_bytes whole = read_file(paths_[0]);
    const std::size_t in_last_page = (whole.size() - 1) % 4096 + 1;
    u64 silent = 0;
    for (const std::size_t lost : {std::size_t{1}, std::size_t{8}, (in_last_page + 1) / 2, in_last_page - 1}) {
        if (lost == 0) continue;
        shared_image page(4096);
        auto* const told = new (page.bytes().data()) victim_state;
        const ended end = in_child([&]() -> std::string {
            memory::install_truncation_guard();
            const std::unique_ptr<held_reader> reader = GetParam().open(name_.uri());
            const std::uint64_t sound = reader->look();
            if (reader->cut_off()) return "told to be cut off before it was";
            if (::truncate(paths_[0].c_str(), static_cast<off_t>(whole.size() - lost)) != 0) return "no cut";
            if (reader->look() != sound && !reader->fault()) ++told->turns;
            if (!reader->cut_off()) return std::to_string(lost) + " bytes are lost, and cut_off() is silent";
            return expect_refusal(errc::truncated, [&] { (void)GetParam().open(name_.uri()); });
        });
        EXPECT_TRUE(end.success()) << end.text();
        silent += told->turns;
        std::ofstream(paths_[0], std::ios::binary)
            .write(reinterpret_cast<const char*>(whole.data()), static_cast<std::streamsize>(whole.size()));
    }
    std::printf("%s: other answers of which cut_off() alone told: %llu\n", GetParam().name,
                static_cast<unsigned long long>(silent));
}

// A peer may cut off the file that registered readers write: what they read lies elsewhere.
TEST_P(HeldReader, WhosePeersFileIsCutOffReadsOn) {
    make();
    if (paths_.size() < 2) return;  // nobody registers there
    in_rounds(paths_[1],
              [&](const round_of& now) { return look_while_cut(now.reader, now.sound, paths_[1], 0, now.pause()); });
}

INSTANTIATE_TEST_SUITE_P(Kinds, HeldReader, ::testing::ValuesIn(held_subjects),
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
