// SPDX-License-Identifier: Apache-2.0
// Somebody planted something at a segment's name, or at its companions' names. Nothing of it is trusted, followed,
// waited for or overwritten: unsafe_file, and what was planted stays as it was.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/peers.hpp"
#include "support/capability.hpp"
#include "support/planted_traps.hpp"
#include "support/process.hpp"
#include "support/program.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/single_step.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

class NameAttack : public segment_test, public ::testing::WithParamInterface<planted> {
 protected:
    void SetUp() override {
        std::ofstream(victim_) << "precious";
        if (std::string(GetParam().name) == "device" && !is_root())
            GTEST_SKIP() << "needs: root, to make a device node";
    }
    void TearDown() override { EXPECT_EQ(content_of(victim_), "precious"); }
    [[nodiscard]] bool plant(const std::string& path) const { return GetParam().plant(path, victim_); }

    unique_directory place_{"attack"};
    unique_directory elsewhere_{"attack"};
    std::string victim_ = elsewhere_.file("victim");
    std::string uri_ = place_.file_uri("s");
};

TEST_P(NameAttack, AtTheNameIsRefusedByEveryVerbAndLeftAlone) {
    ASSERT_TRUE(plant(place_.file("s")));
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)create_pattern(uri_, 1); }), "");
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)segment::attach(uri_, access::read_only); }), "");
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)segment::attach(uri_, access::read_write); }), "");
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { segment::remove(uri_); }), "");
    EXPECT_EQ(place_.entries(), std::vector<std::string>{"s"}) << "no companion beside a trap, and the trap untouched";
    EXPECT_FALSE(entries_containing(elsewhere_.path(), ".none").size()) << "a dangling link was followed";
}

TEST_P(NameAttack, AtTheLeaseIsRefusedForWritersAndHarmlessForReaders) {
    ASSERT_TRUE(plant(place_.file("s.lease")));
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)create_pattern(uri_, 1); }), "");
    EXPECT_EQ(place_.entries(), std::vector<std::string>{"s.lease"});
    ::remove(place_.file("s.lease").c_str());
    {
        const segment made = create_pattern(uri_, 1);
    }
    ASSERT_EQ(::unlink(place_.file("s.lease").c_str()), 0);
    ASSERT_TRUE(plant(place_.file("s.lease")));
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)segment::attach(uri_, access::read_write); }), "");
    EXPECT_EQ(pattern_fault(segment::attach(uri_, access::read_only)), "");
}

TEST_P(NameAttack, AtThePeersFileIsRefused) {
    segment_spec spec = pattern_spec(1);
    spec.peer_slots = 4;
    const auto create = [&] {
        return segment::create(uri_, spec, {}, [](std::span<std::byte> body) { fill_pattern(body, 1); });
    };
    {
        const segment made = create();
    }
    ASSERT_EQ(::unlink(place_.file("s.peers").c_str()), 0);
    ASSERT_TRUE(plant(place_.file("s.peers")));
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)segment::attach(uri_, access::read_write); }), "");
    const segment reader = segment::attach(uri_, access::read_only);
    EXPECT_EQ(pattern_fault(reader), "");
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)peers::open(reader); }), "");
}

// The registry holds hints: whatever lies there, segments are made, found by their names, and removed.
TEST_P(NameAttack, InTheRegistryIsInNobodysWay) {
    const auto lives = [&]() -> std::string {
        {
            const segment made = create_pattern(uri_, 1);
        }
        std::string fault = pattern_fault(segment::attach(uri_, access::read_write));
        segment::remove(uri_);
        return fault;
    };
    ASSERT_TRUE(plant(registry_.file(registry::detail::encode(uri_))));
    EXPECT_EQ(lives(), "");
    EXPECT_TRUE(place_.entries().empty());
    const std::string folder = elsewhere_.file("registry");
    ASSERT_TRUE(plant(folder));
    const scoped_environment there("HOLDFAST_REGISTRY", folder);
    EXPECT_EQ(lives(), "");
    EXPECT_TRUE(place_.entries().empty());
    const auto refused = refusal_of([] { (void)registry::list(); });  // or it is empty
    if (refused) {
        EXPECT_EQ(refused->code, errc::io);
        EXPECT_NE(refused->text.find(folder), std::string::npos) << refused->text;
    }
}

// A folder that all may write to, as /tmp is. Who plants is a stranger; who meets it is root, or a third user; and what
// the kernel itself keeps from being opened there (fs.protected_*) is on or off.
class StrangersTrap : public NameAttack {
 protected:
    void SetUp() override {
        NameAttack::SetUp();
        if (!is_root() || !can_change_user()) GTEST_SKIP() << "needs: root, to play three users";
        ASSERT_EQ(::chmod(place_.path().c_str(), 01777), 0);
        ASSERT_EQ(::chmod(elsewhere_.path().c_str(), 0755), 0);
        ASSERT_EQ(::chmod(registry_.path().c_str(), 01777), 0);
    }
    [[nodiscard]] std::string plant_as_stranger(const char* name) const {
        return as_user(stranger, [&] {
            ::umask(0);  // open to all
            return std::string(plant(place_.file(name)) ? "" : "it cannot be planted");
        });
    }
    // "" where each verb is refused as unsafe.
    [[nodiscard]] std::string refused_by_every_verb() const {
        const std::function<void()> verbs[] = {
            [&] { (void)create_pattern(uri_, 1); }, [&] { (void)segment::attach(uri_, access::read_only); },
            [&] { (void)segment::attach(uri_, access::read_write); }, [&] { segment::remove(uri_); }};
        for (const auto& verb : verbs)
            if (std::string wrong = expect_refusal(errc::unsafe_file, verb); !wrong.empty()) return wrong;
        return {};
    }
    [[nodiscard]] bool is_strangers(const char* name) const {
        struct stat status{};
        return ::lstat(place_.file(name).c_str(), &status) == 0 && status.st_uid == stranger;
    }
};

TEST_P(StrangersTrap, InAFolderOfAllIsRefusedByEveryVerbAndLeftAlone) {
    for (const char* const setting : {"0", "1"}) {
        const scoped_setting links("/proc/sys/fs/protected_symlinks", setting);
        const scoped_setting fifos("/proc/sys/fs/protected_fifos", setting);
        for (const uid_t user : {uid_t{0}, third_user}) {
            ASSERT_EQ(plant_as_stranger("s"), "");
            EXPECT_EQ(as_user(user, [&] { return refused_by_every_verb(); }), "") << "user " << user << ", " << setting;
            EXPECT_EQ(place_.entries(), std::vector<std::string>{"s"});
            EXPECT_TRUE(is_strangers("s"));
            ::remove(place_.file("s").c_str());

            ASSERT_EQ(plant_as_stranger("s.lease"), "");
            EXPECT_EQ(
                as_user(user,
                        [&] { return expect_refusal(errc::unsafe_file, [&] { (void)create_pattern(uri_, 1); }); }),
                "")
                << "user " << user << ", " << setting;
            EXPECT_EQ(place_.entries(), std::vector<std::string>{"s.lease"});
            EXPECT_TRUE(is_strangers("s.lease"));
            ::remove(place_.file("s.lease").c_str());
        }
    }
    EXPECT_FALSE(entries_containing(elsewhere_.path(), ".none").size()) << "a dangling link was followed";
}

// Not even from the user to whom the segment shall be given.
TEST_P(StrangersTrap, AtACompanionIsRefusedToWhoeverGivesTheSegmentAway) {
    segment_spec spec = pattern_spec(1);
    spec.peer_slots = 2;
    for (const char* const name : {"s.lease", "s.peers"}) {
        ASSERT_EQ(plant_as_stranger(name), "");
        for (const uid_t owner : {stranger, third_user}) {
            create_options given;
            given.owner = owner;
            EXPECT_EQ(expect_refusal(errc::unsafe_file,
                                     [&] { (void)segment::create(uri_, spec, given, [](std::span<std::byte>) {}); }),
                      "")
                << name << " for user " << owner;
            EXPECT_EQ(place_.entries(), std::vector<std::string>{name});
            EXPECT_TRUE(is_strangers(name));
        }
        ::remove(place_.file(name).c_str());
    }
    EXPECT_FALSE(entries_containing(elsewhere_.path(), ".none").size()) << "a dangling link was followed";
}

// ---- the program

constexpr std::uint64_t entries = 50;
void make_table(const std::string& uri) {
    auto table = hash_table<std::uint64_t, std::uint64_t>::create(uri, {.capacity = entries});
    for (std::uint64_t n = 0; n < entries; ++n) (void)table.try_insert(n, n * n);
}
[[nodiscard]] bool is_whole(const std::string& uri) {
    attach_options look;
    look.trust.any_owner = true;
    const auto table = hash_table_reader<std::uint64_t, std::uint64_t>::attach(uri, look);
    for (std::uint64_t n = 0; n < entries; ++n)
        if (table.find(n) != n * n) return false;
    return table.size() == entries;
}

using words = std::vector<std::string>;
std::vector<words> lookers(const std::string& uri, const std::string& out) {
    return {{"stat", uri}, {"get", uri, "7"}, {"scan", uri}, {"dump", uri}, {"verify", uri}, {"save", "-q", uri, out}};
}
std::vector<words> changers(const std::string& uri) {
    return {{"put", uri, "7", "8"},
            {"del", uri, "7"},
            {"grow", "-q", uri, "--capacity", "100"},
            {"repair", "-q", uri},
            {"rm", uri}};
}
/// The exit code; -1 where the program was killed, by itself or by us.
int code_of(const words& command) {
    program_limits limits;
    limits.seconds = 20;
    const program_run run = run_program(command, limits);
    return run.timed_out || !run.end.exited ? -1 : run.end.code;
}

TEST_P(NameAttack, AtTheNameIsRefusedByEveryCommandAndLeftAlone) {
    if (program_path().empty()) GTEST_SKIP() << "needs: the program";
    const unique_directory sound("attack");
    make_table(sound.file_uri("s"));
    ASSERT_EQ(code_of({"save", "-q", sound.file_uri("s"), sound.file("saved")}), 0);
    ASSERT_TRUE(plant(place_.file("s")));
    std::vector<words> all = lookers(uri_, sound.file("out"));
    for (words& each : changers(uri_)) all.push_back(std::move(each));
    all.push_back({"restore", "-q", sound.file("saved"), uri_});
    all.push_back({"repair", "-q", sound.file_uri("s"), "--to", uri_});
    for (const words& each : all) {
        const int code = code_of(each);
        // A sound segment needs no repair: nothing is made elsewhere then.
        EXPECT_TRUE((code >= 1 && code <= 8) || each.back() == uri_) << each[0] << " ended with " << code;
        EXPECT_EQ(place_.entries(), std::vector<std::string>{"s"}) << each[0];
        EXPECT_NE(::access(sound.file("out").c_str(), F_OK), 0) << each[0];
    }
}

// At the names that companions have, and what is on its way in or out.
TEST_P(NameAttack, BesideASegmentIsNeitherFollowedNorWaitedForByAnyCommand) {
    if (program_path().empty()) GTEST_SKIP() << "needs: the program";
    const unique_directory elsewhere("attack");
    for (const char* const name : {"s.lease", "s.peers", "s.repairing", "s.growing", "s.damaged"}) {
        std::vector<words> all = changers(uri_);
        all.push_back({"save", "-q", uri_, elsewhere.file("out")});
        for (const words& each : all) {
            std::filesystem::remove_all(place_.path());
            std::filesystem::create_directory(place_.path());
            make_table(uri_);
            const bool repair = each[0] == "repair";
            if (repair) {  // something to do: a word of an entry's, which its checksum puts right
                std::fstream file(place_.file("s"), std::ios::in | std::ios::out | std::ios::binary);
                const std::string bytes = content_of(place_.file("s"));
                const std::uint64_t entry[2] = {7, 49};
                const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(entry), sizeof entry));
                ASSERT_NE(at, std::string::npos);
                file.seekp(static_cast<std::streamoff>(at + 8)).put(static_cast<char>(49 ^ 0x11));
            }
            const std::string before = content_of(place_.file("s"));
            std::filesystem::remove(place_.file(name));
            ASSERT_TRUE(plant(place_.file(name)));
            const int code = code_of(each);
            EXPECT_TRUE(code >= 0 && code <= 8) << each[0] << " beside " << name << " ended with " << code;
            if (repair && code != 0) {
                EXPECT_EQ(content_of(place_.file("s")), before) << each[0] << " beside " << name;
            } else if (code != 0 || repair || each[0] == "grow" || each[0] == "save") {
                EXPECT_TRUE(is_whole(uri_)) << each[0] << " beside " << name;
            }
            EXPECT_EQ(content_of(victim_), "precious") << each[0] << " beside " << name;
        }
    }
}

class RegistryRace : public segment_test {
 protected:
    // Registers in a child that is stopped at the n-th entry or exit of a system call, for the swap if the directory
    // stands by then, and goes on. Returns: false where there are fewer of them.
    [[nodiscard]] bool swap_at(std::uint64_t stop, bool link) {
        const scoped_environment there("HOLDFAST_REGISTRY", folder_);
        const memory::uri name = memory::uri::parse("posix:/some");
        shared_image control(4096);
        rig::traced_child child(control, [&] { return registry::add(name) ? 1 : 0; });
        std::uint64_t stops = 0;
        while (stops < stop && child.phase() <= rig::step_phase::inside && child.resume(PTRACE_SYSCALL))
            if (child.phase() == rig::step_phase::inside) ++stops;
        const bool reached = stops == stop && child.phase() == rig::step_phase::inside;
        if (reached && ::rename(folder_.c_str(), away_.c_str()) == 0) {
            const auto take_place = link ? ::symlink : ::rename;
            EXPECT_EQ(take_place(private_.c_str(), folder_.c_str()), 0);
        }
        while (child.alive() && child.resume(PTRACE_CONT)) continue;
        return reached;
    }
    unique_directory place_{"registry"};
    std::string folder_ = place_.file("registry"), away_ = place_.file("away"), private_ = place_.file("private");
};

// Somebody who may rename beside the registry puts another directory, or a link to one, in its place between any two
// system calls of the process that makes it: that one keeps its mode and gets no entry.
TEST_F(RegistryRace, ADirectoryThatTakesThePlaceOfTheRegistryKeepsItsMode) {
    if (sanitized || !can_trace()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    for (const bool link : {true, false}) {
        if (!link && !is_root()) continue;  // a directory of somebody else's
        std::uint64_t stops = 0;
        for (bool reached = true; reached; ++stops) {
            ASSERT_EQ(::mkdir(private_.c_str(), 0700), 0);
            if (!link) {
                ASSERT_EQ(::chown(private_.c_str(), stranger, stranger), 0);
            }
            reached = swap_at(stops + 1, link);
            const std::string& now = std::filesystem::exists(private_) ? private_ : folder_;
            struct stat status{};
            ASSERT_EQ(::stat(now.c_str(), &status), 0);
            EXPECT_EQ(status.st_mode & 07777U, 0700U) << (link ? "by a link" : "by a directory") << ", stop " << stops;
            EXPECT_TRUE(std::filesystem::is_empty(now)) << (link ? "by a link" : "by a directory");
            for (const std::string& path : {folder_, away_, private_}) std::filesystem::remove_all(path);
        }
        EXPECT_GT(stops, 6U);
    }
}

INSTANTIATE_TEST_SUITE_P(Traps, NameAttack, ::testing::ValuesIn(traps),
                         [](const auto& trap) { return std::string(trap.param.name); });

INSTANTIATE_TEST_SUITE_P(Traps, StrangersTrap, ::testing::ValuesIn(std::begin(traps), traps_of_anybody_end()),
                         [](const auto& trap) { return std::string(trap.param.name); });

class ForeignFile : public segment_test {
 protected:
    unique_directory place_{"foreign"};
    std::string path_ = place_.file("s"), uri_ = place_.file_uri("s");
};

TEST_F(ForeignFile, AHardLinkIsRefused) {
    {
        const segment made = create_pattern(uri_, 1);
    }
    ASSERT_EQ(::link(path_.c_str(), place_.file("second").c_str()), 0);
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)segment::attach(uri_, access::read_only); }), "");
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)segment::attach(uri_, access::read_write); }), "");
    ASSERT_EQ(::unlink(place_.file("second").c_str()), 0);
    EXPECT_EQ(pattern_fault(segment::attach(uri_, access::read_write)), "");
}

// A stranger's name for our file, in a folder that all may write to, where the kernel lets him
// (fs.protected_hardlinks).
TEST_F(ForeignFile, AStrangersHardLinkToOurSegmentIsRefusedUnderBothNames) {
    if (!is_root() || !can_change_user()) GTEST_SKIP() << "needs: root, to play two users";
    const scoped_setting unprotected("/proc/sys/fs/protected_hardlinks", "0");
    if (!unprotected.changed()) GTEST_SKIP() << "needs: setting fs.protected_hardlinks";
    const unique_directory shared("foreign");
    for (const std::string& folder : {place_.path(), shared.path()}) ASSERT_EQ(::chmod(folder.c_str(), 01777), 0);
    {
        const segment made = create_pattern(uri_, 1);
    }
    const std::string linked = as_user(stranger, [&]() -> std::string {
        return ::link(path_.c_str(), shared.file("s").c_str()) == 0 ? "" : "cannot link";
    });
    ASSERT_EQ(linked, "");
    for (const std::string& uri : {uri_, shared.file_uri("s")})
        for (const auto mode : {access::read_only, access::read_write})
            EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)segment::attach(uri, mode); }), "") << uri;
    ASSERT_EQ(::unlink(shared.file("s").c_str()), 0);
    EXPECT_EQ(pattern_fault(segment::attach(uri_, access::read_write)), "");
}

// Files that lie at the name already: neither attached to nor overwritten, however long they are.
TEST_F(ForeignFile, AFileThatIsNoSegmentIsNeitherAttachedNorOverwritten) {
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{100'000}}) {
        const std::string text(bytes, 'x');
        std::ofstream(path_, std::ios::binary) << text;
        const errc expected = bytes < header_bytes ? errc::truncated : errc::bad_magic;
        EXPECT_EQ(expect_refusal(expected, [&] { (void)segment::attach(uri_, access::read_only); }), "") << bytes;
        EXPECT_EQ(expect_refusal(expected, [&] { (void)segment::attach(uri_, access::read_write); }), "") << bytes;
        EXPECT_EQ(expect_refusal(errc::already_exists, [&] { (void)create_pattern(uri_, 1); }), "") << bytes;
        EXPECT_EQ(content_of(path_), text);
        EXPECT_EQ(place_.entries(), std::vector<std::string>{"s"}) << bytes;
    }
}

TEST_F(ForeignFile, AnotherOwnersSegmentNeedsTrust) {
    if (!is_root() || !can_change_user()) GTEST_SKIP() << "needs: root, to play two users";
    {
        const segment made =
            create_pattern(uri_, 1, {.mode = 0644, .owner = stranger, .group = {}, .peers_mode = {}, .pages = {}});
    }
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)segment::attach(uri_, access::read_only); }), "");
    attach_options trusting;
    trusting.trust.owner = stranger;
    EXPECT_EQ(pattern_fault(segment::attach(uri_, access::read_only, trusting)), "");
    trusting.trust = {.any_owner = true, .owner = {}};
    EXPECT_EQ(pattern_fault(segment::attach(uri_, access::read_only, trusting)), "");
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { segment::remove(uri_); }), "");
}

// Looking at it is open to all, since nothing of it is trusted; storing to it is not. A second name is as bad.
TEST_F(ForeignFile, AnotherOwnersSegmentAndASecondNameAreLeftAloneByEveryCommandThatStores) {
    if (program_path().empty()) GTEST_SKIP() << "needs: the program";
    const unique_directory elsewhere("foreign");
    struct attack {
        const char* what;
        bool needs_root;
        std::function<bool()> begin;
        bool visible;  // to who looks
    };
    const auto give_away = [&](const char* suffix) {
        return ::chown((path_ + suffix).c_str(), stranger, stranger) == 0 &&
               ::chmod((path_ + suffix).c_str(), 0666) == 0;
    };
    const attack attacks[] = {
        {"the data is a stranger's", true, [&] { return give_away(""); }, true},
        {"the lease is a stranger's", true, [&] { return give_away(".lease"); }, true},
        {"the data has a second name", false,
         [&] { return ::link(path_.c_str(), elsewhere.file("second").c_str()) == 0; }, false},
        {"the lease has a second name", false,
         [&] { return ::link((path_ + ".lease").c_str(), elsewhere.file("second").c_str()) == 0; }, true},
    };
    for (const attack& one : attacks) {
        if (one.needs_root && (!is_root() || !can_change_user())) continue;
        make_table(uri_);
        ASSERT_TRUE(one.begin()) << one.what;
        const std::string before = content_of(path_);
        for (const words& each : lookers(uri_, elsewhere.file("out")))
            EXPECT_EQ(code_of(each) == 0, one.visible) << each[0] << ": " << one.what;
        for (const words& each : changers(uri_)) {
            if (each[0] == "repair") continue;  // it is sound: nothing to store
            const int code = code_of(each);
            EXPECT_TRUE(code >= 1 && code <= 8) << each[0] << " ended with " << code << ": " << one.what;
            EXPECT_EQ(content_of(path_), before) << each[0] << ": " << one.what;
        }
        for (const std::string& path : {place_.path(), elsewhere.path()}) {
            std::filesystem::remove_all(path);
            std::filesystem::create_directory(path);
        }
    }
}

// fs.protected_regular decides whether O_CREAT may open another user's file in a sticky directory. Both ways the name
// is taken and attaching works for whoever may.
TEST_F(ForeignFile, BothSettingsOfProtectedRegularGiveTheSameAnswers) {
    if (!is_root() || !can_change_user()) GTEST_SKIP() << "needs: root, to play two users";
    for (const char* setting : {"0", "2"}) {
        const scoped_setting protection("/proc/sys/fs/protected_regular", setting);
        if (!protection.changed()) GTEST_SKIP() << "needs: setting fs.protected_regular";
        const unique_posix_name name("sticky");
        const std::string made = as_user(stranger, [&]() -> std::string {
            (void)create_pattern(name.uri(), 1,
                                 {.mode = 0666, .owner = {}, .group = {}, .peers_mode = {}, .pages = {}});
            return {};
        });
        ASSERT_EQ(made, "");
        attach_options trusting;
        trusting.trust.owner = stranger;
        EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { (void)segment::attach(name.uri(), access::read_write); }), "")
            << setting;
        EXPECT_EQ(pattern_fault(segment::attach(name.uri(), access::read_write, trusting)), "") << setting;
        EXPECT_EQ(expect_refusal(errc::already_exists, [&] { (void)create_pattern(name.uri(), 2); }), "") << setting;
        segment::remove(name.uri(), trusting);
        EXPECT_TRUE(name.entries().empty()) << setting;
    }
}

// Somebody takes the files away and makes others of the same names, again and again. Whoever attaches meanwhile gets
// one segment, whole, with its own peers, or is told that there is none.
TEST_F(ForeignFile, NamesThatAreUnlinkedAndMadeAnewUnderAnAttachGiveOneSegmentOrNone) {
    const unique_posix_name name("churn");  // in memory: on a disk making takes longer than looking
    const auto create = [&](std::uint64_t seed) {
        segment_spec spec = pattern_spec(seed, 8192);
        spec.peer_slots = 1 + static_cast<std::uint32_t>(seed % 3);
        return segment::create(name.uri(), spec, {}, [&](std::span<std::byte> body) { fill_pattern(body, seed); });
    };
    child_process attacker([&] {
        for (std::uint64_t seed = 1;; ++seed) {
            for (const char* suffix : {"", ".lease", ".peers"}) ::unlink((name.path() + suffix).c_str());
            (void)refusal_of([&] { (void)create(seed); });
            for (std::uint64_t spins = random_at(seed, 0, 0) % 1'000'000; spins > 0; --spins)
                std::atomic_signal_fence(std::memory_order_seq_cst);
        }
    });
    std::uint64_t attached = 0, refused = 0;
    const auto allowed = [](errc code) {
        return code == errc::not_found || code == errc::writer_alive || code == errc::geometry_mismatch;
    };
    for (std::uint64_t round = 0; round < scaled(3000) || (attached < 100 && round < 1'000'000); ++round) {
        const auto mode = round % 3 == 0 ? access::read_write : access::read_only;
        const auto got = refusal_of([&] {
            const segment s = segment::attach(name.uri(), mode);
            ++attached;
            EXPECT_EQ(pattern_fault(s), "");
            const peers table = peers::open(s);
            EXPECT_EQ(table.size(), 1 + s.info().geometry[0] % 3);
        });
        refused += got ? 1 : 0;
        ASSERT_TRUE(!got || allowed(got->code)) << got->text;
    }
    attacker.kill();
    EXPECT_GE(attached, 100U);
    std::printf("attached %llu times, %llu refusals\n", static_cast<unsigned long long>(attached),
                static_cast<unsigned long long>(refused));
    for (const char* suffix : {"", ".lease", ".peers"}) ::unlink((name.path() + suffix).c_str());
    EXPECT_EQ(pattern_fault(create(1)), "");
}

// A creator that fails behind the link of the data takes it back, unless another of many writers shares the lease.
TEST_F(ForeignFile, ATrapAtThePeersTakesASegmentOfManyBackOnlyWhileNobodySharesItsLease) {
    segment_spec spec = pattern_spec(1);
    spec.policy = writers::many;
    spec.peer_slots = 2;
    const auto create = [&] {
        (void)segment::create(uri_, spec, {}, [](std::span<std::byte> body) { fill_pattern(body, 1); });
    };
    ASSERT_EQ(::mkdir(place_.file("s.peers").c_str(), 0700), 0);
    EXPECT_EQ(expect_refusal(errc::unsafe_file, create), "");
    EXPECT_EQ(place_.entries(), std::vector<std::string>{"s.peers"});
    {
        const rig::descriptor other(::open(place_.file("s.lease").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        ASSERT_TRUE(memory::try_lock(other.get(), memory::lock_mode::shared, holdfast::detail::lease_byte));
        EXPECT_EQ(expect_refusal(errc::unsafe_file, create), "");
        EXPECT_EQ(pattern_fault(segment::attach(uri_, access::read_only)), "");
        EXPECT_EQ(::access(place_.file("s.lease").c_str(), F_OK), 0);
    }
    ASSERT_EQ(::unlink(path_.c_str()), 0);
    EXPECT_EQ(expect_refusal(errc::unsafe_file, create), "");
    EXPECT_NE(::access(path_.c_str(), F_OK), 0);
}

// Another program's System V memory may have our key by chance, zeroed or not.
TEST_F(ForeignFile, SystemVMemoryOfAnotherProgramIsLeftAlone) {
    for (const std::uint64_t first_word : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
        const unique_system_v_name name;
        const std::string& uri = name.uri();
        const int id = ::shmget(name.key(), 3 * header_bytes, IPC_CREAT | IPC_EXCL | 0600);
        ASSERT_GE(id, 0);
        auto* const word = static_cast<std::uint64_t*>(::shmat(id, nullptr, 0));
        *word = first_word;
        word[1] = 42;
        EXPECT_EQ(expect_refusal(errc::already_exists, [&] { (void)create_pattern(uri, 1); }), "") << first_word;
        EXPECT_EQ(expect_refusal(errc::bad_magic, [&] { segment::remove(uri); }), first_word == 0 ? "" : "")
            << first_word;
        EXPECT_EQ(expect_refusal(first_word == 0 ? errc::not_ready : errc::bad_magic,
                                 [&] { (void)segment::attach(uri, access::read_write); }),
                  "");
        shmid_ds status{};
        EXPECT_EQ(::shmctl(id, IPC_STAT, &status), 0) << "it was removed";
        EXPECT_EQ(word[1], 42U);
        ::shmdt(word);
    }
}

}  // namespace
