// SPDX-License-Identifier: Apache-2.0
// Who may do what: another user, a read-only file system, a missing directory. Reading needs read permission and
// nothing else; what is refused is refused with its own code and changes nothing.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/snapshot.hpp"
#include "support/capability.hpp"
#include "support/process.hpp"
#include "support/segment_tools.hpp"
#include "support/single_step.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

constexpr uid_t stranger = 65534;

class SegmentRightsOf : public segment_test {
 protected:
    static create_options with_mode(mode_t mode) {
        create_options options;
        options.mode = mode;
        return options;
    }
    static create_options given_to(uid_t user) {
        create_options options = with_mode(0600);
        options.owner = options.group = user;
        return options;
    }
    // With places for readers, so that it has both companions.
    static segment create_with_peers(const std::string& uri, const create_options& options,
                                     writers policy = writers::one) {
        segment_spec spec = pattern_spec(1);
        spec.policy = policy;
        spec.peer_slots = 2;
        return segment::create(uri, spec, options, [](std::span<std::byte> body) { fill_pattern(body, 1); });
    }
    // "" where each other owner's creator is refused and leaves the file alone, which is the stranger's.
    static std::string is_refused_to_others(const std::string& uri, const std::string& left) {
        for (const create_options& others : {given_to(stranger - 1), with_mode(0600)}) {
            std::string fault = expect_refusal(errc::unsafe_file, [&] { (void)create_with_peers(uri, others); });
            if (!fault.empty()) return fault;
            struct stat status{};
            if (::lstat(left.c_str(), &status) != 0 || status.st_uid != stranger) return left + " was touched";
        }
        return {};
    }
    // "" where the stranger gets the lease, and companions that are his.
    static std::string is_the_strangers(const std::string& uri) {
        const auto where = holdfast::detail::places_of(memory::uri::parse(uri));
        for (const std::string& companion : {where.lease(), where.peers()}) {
            struct stat status{};
            if (::lstat(companion.c_str(), &status) != 0 || status.st_uid != stranger) return companion;
        }
        const ended end = as_stranger([&]() -> std::string {
            const segment writer = segment::attach(uri, access::read_write);
            return pattern_fault(writer);
        });
        return end.success() ? "" : end.text();
    }
    // Runs `body` as another user who shares no group with us.
    template <class Body>
    static ended as_stranger(Body&& body) {
        return in_child([&]() -> std::string {
            if (::setgroups(0, nullptr) != 0 || ::setresgid(stranger, stranger, stranger) != 0 ||
                ::setresuid(stranger, stranger, stranger) != 0)
                return "cannot become another user";
            return body();
        });
    }
    unique_posix_name name_{"rights"};
};

TEST_F(SegmentRightsOf, AStrangerMayNotEvenReadTheDefault) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    const segment writer = create_pattern(name_.uri(), 1);
    const ended end = as_stranger([&] {
        std::string fault =
            expect_refusal(errc::no_permission, [&] { (void)segment::attach(name_.uri(), access::read_only); });
        if (fault.empty())
            fault =
                expect_refusal(errc::no_permission, [&] { (void)segment::attach(name_.uri(), access::read_write); });
        if (fault.empty()) fault = expect_refusal(errc::no_permission, [&] { segment::remove(name_.uri()); });
        return fault;
    });
    EXPECT_TRUE(end.success()) << end.text();
}

TEST_F(SegmentRightsOf, AReaderNeedsReadPermissionAndNothingElse) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    (void)create_pattern(name_.uri(), 1, with_mode(0644));
    const std::vector<std::string> entries = name_.entries();
    const ended end = as_stranger([&]() -> std::string {
        segment reader = segment::attach(name_.uri(), access::read_only);
        if (std::string fault = pattern_fault(reader); !fault.empty()) return fault;
        if (reader.writable() || !reader.body().empty()) return "a reader got bytes to write";
        return expect_refusal(errc::no_permission, [&] { (void)segment::attach(name_.uri(), access::read_write); });
    });
    EXPECT_TRUE(end.success()) << end.text();
    EXPECT_EQ(name_.entries(), entries);
    EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write); }), std::nullopt)
        << "the lease is free";
}

// The lease is closed to readers, who could lock the writer out otherwise. They learn all the same whether it is held.
TEST_F(SegmentRightsOf, AReaderOfAnotherUserLearnsWhetherAWriterLives) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    child_process writer([&](channel& parent) {
        const segment held = create_pattern(name_.uri(), 1, with_mode(0644));
        parent.signal();
        parent.wait();
    });
    ASSERT_TRUE(writer.talk().wait());
    const memory::uri name = memory::uri::parse(name_.uri());
    const auto told = [&](lease_state wanted) {
        return as_stranger([&]() -> std::string {
            if (::access((name_.path() + ".lease").c_str(), R_OK) == 0) return "a reader may open the lease";
            for (int i = 0; i < 20; ++i)
                if (lease_state_of(name) != wanted) return "state " + std::to_string(int(lease_state_of(name)));
            return {};
        });
    };
    EXPECT_TRUE(told(lease_state::held).success()) << told(lease_state::held).text();
    // Many locks of others: the kernel's list is longer than one reading of it.
    const rig::descriptor many(::memfd_create("locks", MFD_CLOEXEC));
    for (std::int64_t byte = 0; byte < 2000; byte += 2)
        ASSERT_TRUE(memory::try_lock(many.get(), memory::lock_mode::exclusive, byte));
    EXPECT_TRUE(told(lease_state::held).success()) << told(lease_state::held).text();
    writer.kill();
    EXPECT_TRUE(told(lease_state::free).success()) << told(lease_state::free).text();
    ASSERT_EQ(::unlink((name_.path() + ".lease").c_str()), 0);
    EXPECT_TRUE(told(lease_state::none).success()) << told(lease_state::none).text();
}

TEST_F(SegmentRightsOf, AnotherUserOfTheWritersModeMaySucceed) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    (void)create_pattern(name_.uri(), 1, with_mode(0666));
    const ended end = as_stranger([&]() -> std::string {
        const segment writer = segment::attach(name_.uri(), access::read_write);
        return writer.writable() ? "" : "not writable";
    });
    EXPECT_TRUE(end.success()) << end.text();
}

// The creator gave the data to a group, and was killed before it made the companions.
TEST_F(SegmentRightsOf, WhatAnOwnerMakesAnewBelongsToTheGroupOfTheData) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    constexpr gid_t group = 4242;
    create_options options = with_mode(0660);
    options.owner = stranger;
    options.group = group;
    segment_spec spec = pattern_spec(1, pattern_bytes);
    spec.peer_slots = 2;
    (void)segment::create(name_.uri(), spec, options, [](std::span<std::byte>) {});
    for (const char* const companion : {".lease", ".peers"}) ASSERT_EQ(::unlink((name_.path() + companion).c_str()), 0);
    const ended end = in_child([&]() -> std::string {
        if (::setgroups(1, &group) != 0 || ::setresgid(stranger, stranger, stranger) != 0 ||
            ::setresuid(stranger, stranger, stranger) != 0)
            return "cannot become another user";
        return segment::attach(name_.uri(), access::read_write).writable() ? "" : "not writable";
    });
    EXPECT_TRUE(end.success()) << end.text();
    for (const char* const companion : {".lease", ".peers"}) {
        struct stat status{};
        ASSERT_EQ(::stat((name_.path() + companion).c_str(), &status), 0) << companion;
        EXPECT_EQ(status.st_gid, group) << companion;
        EXPECT_EQ(status.st_mode & 0777, 0660U) << companion;
    }
}

TEST_F(SegmentRightsOf, WhatRootMakesAnewOfSystemVMemoryBelongsToItsOwner) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    const unique_system_v_name name;
    const auto where = holdfast::detail::places_of(memory::uri::parse(name.uri()));
    create_options options = with_mode(0600);
    options.owner = options.group = stranger;
    segment_spec spec = pattern_spec(1);
    spec.peer_slots = 2;
    (void)segment::create(name.uri(), spec, options, [](std::span<std::byte>) {});
    for (const std::string& companion : {where.lease(), where.peers()}) ASSERT_EQ(::unlink(companion.c_str()), 0);
    attach_options trusting;
    trusting.trust.owner = stranger;
    (void)segment::attach(name.uri(), access::read_write, trusting);
    for (const std::string& companion : {where.lease(), where.peers()}) {
        struct stat status{};
        ASSERT_EQ(::stat(companion.c_str(), &status), 0) << companion;
        EXPECT_EQ(status.st_uid, stranger) << companion;
        EXPECT_EQ(status.st_gid, stranger) << companion;
    }
    const ended end = as_stranger([&]() -> std::string {
        return segment::attach(name.uri(), access::read_write).writable() ? "" : "not writable";
    });
    EXPECT_TRUE(end.success()) << end.text();
}

// Lease or peers of a creator that was killed, or of a removal, when they were given away already.
TEST_F(SegmentRightsOf, WhatWasLeftOfASegmentIsTakenOverByACreatorForTheSameOwnerAlone) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    for (const char* const kept : {".lease", ".peers"}) {
        (void)create_with_peers(name_.uri(), given_to(stranger));
        for (const char* const suffix : {"", ".lease", ".peers"}) {
            if (std::string_view(suffix) == kept) continue;
            ASSERT_EQ(::unlink((name_.path() + suffix).c_str()), 0) << suffix;
        }
        EXPECT_EQ(is_refused_to_others(name_.uri(), name_.path() + kept), "") << kept;
        EXPECT_EQ(name_.entries(), std::vector<std::string>{name_.token() + kept});
        EXPECT_EQ(refusal_of([&] { (void)create_with_peers(name_.uri(), given_to(stranger)); }), std::nullopt) << kept;
        EXPECT_EQ(is_the_strangers(name_.uri()), "") << kept;
        name_.remove();
    }
}

TEST_F(SegmentRightsOf, WhatWasLeftOfSystemVMemoryIsTakenOverByACreatorForTheSameOwnerAlone) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    for (const bool lease_is_left : {true, false}) {
        const unique_system_v_name name;
        const auto where = holdfast::detail::places_of(memory::uri::parse(name.uri()));
        (void)create_with_peers(name.uri(), given_to(stranger));
        ASSERT_EQ(::shmctl(::shmget(name.key(), 0, 0), IPC_RMID, nullptr), 0);
        ASSERT_EQ(::unlink((lease_is_left ? where.peers() : where.lease()).c_str()), 0);
        if (lease_is_left) {  // and memory that was never published: the creator was killed amid its work
            ASSERT_GE(::shmget(name.key(), 3 * header_bytes, IPC_CREAT | IPC_EXCL | 0600), 0);
        }
        EXPECT_EQ(is_refused_to_others(name.uri(), lease_is_left ? where.lease() : where.peers()), "") << lease_is_left;
        EXPECT_EQ(refusal_of([&] { (void)create_with_peers(name.uri(), given_to(stranger)); }), std::nullopt)
            << lease_is_left;
        EXPECT_EQ(is_the_strangers(name.uri()), "") << lease_is_left;
    }
}

// A writer of the owner's that finds the data without a lease makes one, while the creator is about to.
TEST_F(SegmentRightsOf, ALeaseThatAppearsUnderACreatorIsTakenFromTheOwnerThatItWorksForAlone) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    const std::string lease = name_.path() + ".lease";
    const auto create = [&](const create_options& options) {
        (void)segment::create(name_.uri(), pattern_spec(1), options, [&](std::span<std::byte> body) {
            fill_pattern(body, 1);
            ::close(::open(lease.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
            EXPECT_EQ(::chown(lease.c_str(), stranger, stranger), 0);
        });
    };
    EXPECT_EQ(refusal_of([&] { create(given_to(stranger)); }), std::nullopt);
    name_.remove();
    EXPECT_EQ(expect_refusal(errc::unsafe_file, [&] { create(with_mode(0600)); }), "");
    EXPECT_EQ(pattern_fault(segment::attach(name_.uri(), access::read_only)), "");
}

// Between the link of the data and the creator's look for the peers a writer of another user comes and makes them. The
// creator does not believe these and fails; the segment is the writer's then.
TEST_F(SegmentRightsOf, ASegmentOfManyStaysWhereItsCreatorFailsBehindAnotherWriter) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    if (sanitized || !can_trace()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    const auto create = [&] { (void)create_with_peers(name_.uri(), with_mode(0666), writers::many); };
    create();
    for (const char* const suffix : {"", ".peers"}) ASSERT_EQ(::unlink((name_.path() + suffix).c_str()), 0);
    shared_image control(4096);
    rig::traced_child creator(control, [&] { return refusal_of(create) == errc::unsafe_file ? 1 : 0; });
    while (::access(name_.path().c_str(), F_OK) != 0 && creator.resume(PTRACE_SYSCALL)) continue;
    child_process writer([&](channel& parent) -> std::string {
        if (::setgroups(0, nullptr) != 0 || ::setresgid(stranger, stranger, stranger) != 0 ||
            ::setresuid(stranger, stranger, stranger) != 0)
            return "cannot become another user";
        const segment held = segment::attach(name_.uri(), access::read_write);
        parent.signal();
        parent.wait();
        return held.replaced() ? "the segment was removed under its writer" : pattern_fault(held);
    });
    ASSERT_TRUE(writer.talk().wait()) << writer.wait().text();
    while (creator.alive() && creator.resume(PTRACE_CONT)) continue;
    EXPECT_EQ(creator.result(), 1) << creator.what();
    writer.talk().signal();
    EXPECT_TRUE(writer.wait().success()) << writer.wait().text();
}

// Each container with companions, made by root for another: it is made, and its maker reads it by them.
TEST_F(SegmentRightsOf, ContainersAreMadeForAnotherOwner) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    create_options given = with_mode(0600);
    given.owner = given.group = stranger;
    const auto is_theirs = [&](const unique_posix_name& name) {
        for (const char* const companion : {"", ".lease", ".peers"}) {
            struct stat status{};
            EXPECT_EQ(::stat((name.path() + companion).c_str(), &status), 0) << companion;
            EXPECT_EQ(status.st_uid, stranger) << name.uri() << companion;
        }
    };
    {
        const unique_posix_name name("given-map");
        auto made = hash_map<std::uint64_t>::create(
            name.uri(), {.capacity = 10, .evict = true, .registered_readers = 2, .segment = given});
        EXPECT_TRUE(made.set(1, std::as_bytes(std::span("x"))));
        is_theirs(name);
    }
    {
        const unique_posix_name name("given-snapshot");
        auto made = snapshot_writer::create(name.uri(), {.slot_bytes = 64, .pinned_readers = 2, .segment = given});
        EXPECT_TRUE(made.publish(std::as_bytes(std::span("x"))));
        EXPECT_EQ(made.make_pinned_reader().version(), 1U);
        is_theirs(name);
    }
    {
        const unique_posix_name name("given-ring");
        auto made = broadcast_writer::create(name.uri(), {.registered_readers = 2, .segment = given});
        EXPECT_TRUE(made.publish(std::as_bytes(std::span("x"))));
        std::vector<std::byte> out;
        EXPECT_TRUE(made.make_reliable_reader().read(out));
        is_theirs(name);
    }
    {
        const unique_posix_name name("given-queue");
        auto made = queue_producer::create(name.uri(), {.capacity_bytes = 4096, .segment = given});
        EXPECT_TRUE(made.try_push(std::as_bytes(std::span("x"))));
        std::vector<std::byte> out(64);
        EXPECT_TRUE(made.make_consumer().try_pop(std::span(out)));
        is_theirs(name);
    }
    {
        const unique_posix_name name("given-typed-queue");
        auto made = queue<std::uint64_t>::producer::create(name.uri(), {.capacity = 16, .segment = given});
        EXPECT_TRUE(made.try_push(7));
        EXPECT_EQ(made.make_consumer().try_pop().value, 7U);
        is_theirs(name);
    }
    {
        const unique_posix_name name("given-histogram");
        auto made = latency_histogram::create(name.uri(), {.shards = 2, .segment = given});
        made.make_recorder().record(7);
        attach_options trusting;
        trusting.trust.owner = stranger;
        latency_histogram::attach(name.uri(), trusting).make_recorder().record(7);
        EXPECT_EQ(made.merged().total(), 2U);
        is_theirs(name);
    }
}

// A mode that its owner could not use is refused before anything is made.
TEST_F(SegmentRightsOf, CompanionsThatTheirOwnerMayNotWriteAreRefused) {
    for (const mode_t mode : {mode_t{0060}, mode_t{0400}, mode_t{04600}}) {
        create_options options = with_mode(0600);
        options.peers_mode = mode;
        const auto refused = refusal_of(
            [&] { (void)broadcast_writer::create(name_.uri(), {.registered_readers = 2, .segment = options}); });
        ASSERT_TRUE(refused) << mode;
        EXPECT_EQ(refused->code, errc::invalid_argument) << mode;
        EXPECT_TRUE(name_.entries().empty());
    }
}

TEST_F(SegmentRightsOf, CreationWhereOneMayNotWriteIsNoPermission) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    const unique_directory ours("ours");
    ASSERT_EQ(::chmod(ours.path().c_str(), 0755), 0);
    const ended end = as_stranger(
        [&] { return expect_refusal(errc::no_permission, [&] { (void)create_pattern(ours.file_uri("s"), 1); }); });
    EXPECT_TRUE(end.success()) << end.text();
    EXPECT_TRUE(ours.entries().empty());
}

TEST_F(SegmentRightsOf, GivingAwayNeedsRoot) {
    if (!can_change_user()) GTEST_SKIP() << "needs: root, to play another user";
    const ended end = as_stranger([&] {
        create_options options;
        options.owner = 1;
        return expect_refusal(errc::no_permission, [&] { (void)create_pattern(name_.uri(), 1, options); });
    });
    EXPECT_TRUE(end.success()) << end.text();
    EXPECT_TRUE(name_.entries().empty());
}

TEST_F(SegmentRightsOf, OnAReadOnlyFileSystemOneReadsAndIsToldSo) {
    if (!can_mount_tmpfs()) GTEST_SKIP() << "needs: private mounts";
    const unique_directory place("readonly");
    (void)create_pattern(place.file_uri("s"), 1);
    const std::vector<std::string> entries = place.entries();
    const ended end = in_child([&]() -> std::string {
        const char* path = place.path().c_str();
        if (!enter_private_mounts() || ::mount(path, path, nullptr, MS_BIND, nullptr) != 0 ||
            ::mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0)
            return "cannot mount";
        if (std::string fault = pattern_fault(segment::attach(place.file_uri("s"), access::read_only)); !fault.empty())
            return fault;
        std::string fault =
            expect_refusal(errc::read_only, [&] { (void)segment::attach(place.file_uri("s"), access::read_write); });
        if (fault.empty())
            fault = expect_refusal(errc::read_only, [&] { (void)create_pattern(place.file_uri("t"), 1); });
        if (fault.empty()) fault = expect_refusal(errc::read_only, [&] { segment::remove(place.file_uri("s")); });
        if (fault.empty() && lease_state_of(memory::uri::parse(place.file_uri("s"))) != lease_state::free)
            return "whether a writer lives is not told";
        return fault;
    });
    EXPECT_TRUE(end.success()) << end.text();
    EXPECT_EQ(place.entries(), entries);
}

TEST_F(SegmentRightsOf, AMissingDirectoryIsNotFoundAndNamed) {
    const unique_directory place("missing");
    const auto refused = refusal_of([&] { (void)create_pattern(place.file_uri("none/s"), 1); });
    ASSERT_EQ(refused, errc::not_found);
    EXPECT_NE(refused->text.find("none"), std::string::npos) << refused->text;
    EXPECT_EQ(refusal_of([&] { (void)segment::attach(place.file_uri("none/s"), access::read_only); }), errc::not_found);
}

}  // namespace
