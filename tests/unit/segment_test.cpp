// SPDX-License-Identifier: Apache-2.0
// Behaviour that only some kinds of memory have: rights, pages, sealing, passing, truncation.
#include "holdfast/segment.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/memory/passing.hpp"
#include "support/capability.hpp"
#include "support/memory_kinds.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/unique_name.hpp"

namespace {

using holdfast::access;
using holdfast::errc;
using holdfast::segment;
using holdfast::test::memory_place;

holdfast::segment_spec spec_of(std::uint64_t bytes) {
    holdfast::segment_spec spec;
    spec.body_bytes = bytes;
    return spec;
}

const auto leave_zero = [](std::span<std::byte>) {};

std::optional<errc> reason_of(const auto& action) {
    try {
        action();
    } catch (const holdfast::error& failure) {
        return failure.reason();
    }
    return std::nullopt;
}

mode_t mode_of(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

TEST(SegmentRights, DefaultIsOwnerOnlyWhateverTheUmask) {
    const mode_t before = ::umask(0);
    const memory_place place("posix");
    const segment made = segment::create(place.uri(), spec_of(1), {}, leave_zero);
    ::umask(before);
    const auto where = holdfast::detail::places_of(made.name());
    EXPECT_EQ(mode_of(where.data()), 0600U);
    EXPECT_EQ(mode_of(where.lease()), 0600U);
}

TEST(SegmentRights, ReadersOfTheGroupGetNoLeaseAndTheUmaskTakesNothing) {
    const mode_t before = ::umask(0077);
    const memory_place place("posix");
    holdfast::segment_spec spec = spec_of(1);
    spec.peer_slots = 1;
    holdfast::create_options options;
    options.mode = 0664;
    options.peers_mode = 0666;
    const segment made = segment::create(place.uri(), spec, options, leave_zero);
    ::umask(before);
    const auto where = holdfast::detail::places_of(made.name());
    EXPECT_EQ(mode_of(where.data()), 0664U);
    EXPECT_EQ(mode_of(where.lease()), 0660U);
    EXPECT_EQ(mode_of(where.peers()), 0666U);
}

TEST(SegmentPages, HugePagesOfPosixMemoryAreReportedAsObtained) {
    const memory_place place("posix");
    holdfast::create_options options;
    options.pages.huge = true;
    options.pages.prefault = true;
    const segment made =
        segment::create(place.uri(), spec_of((8U << 20) - holdfast::header_bytes), options, leave_zero);
    const auto report = made.pages();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made.bytes().data() - holdfast::header_bytes) %
                  holdfast::memory::huge_page_bytes,
              0U);
    EXPECT_EQ(report.resident_bytes, 8U << 20);
    if (report.huge_bytes == 0) GTEST_SKIP() << "needs MADV_COLLAPSE for shared memory (Linux 6.1)";
    EXPECT_EQ(report.huge_bytes % holdfast::memory::huge_page_bytes, 0U);
}

TEST(SegmentPages, LockedPagesAreReported) {
    if (holdfast::test::sanitized) GTEST_SKIP() << "needs: a build without sanitizers, which turn mlock into nothing";
    const memory_place place("heap");
    holdfast::create_options options;
    options.pages.lock = true;
    const segment made = segment::create(place.uri(), spec_of(60'000), options, leave_zero);
    EXPECT_GE(made.pages().locked_bytes, 60'000U);
}

TEST(SegmentMemfd, CannotBeTruncated) {
    const segment made = segment::create("memfd:", spec_of(60'000), {}, leave_zero);
    EXPECT_NE(::ftruncate(made.descriptors().data, 4096), 0);
    EXPECT_EQ(errno, EPERM);
}

TEST(SegmentMemfd, UnsealedMemoryIsRefused) {
    const segment made = segment::create("memfd:", spec_of(100), {}, leave_zero);
    std::vector<char> image(made.info().total_bytes);
    ASSERT_EQ(::pread(made.descriptors().data, image.data(), image.size(), 0), static_cast<ssize_t>(image.size()));
    const holdfast::memory::descriptor copy(::memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::write(copy.get(), image.data(), image.size()), static_cast<ssize_t>(image.size()));
    EXPECT_EQ(reason_of([&] { (void)segment::attach({copy.get(), -1, -1}, access::read_only); }), errc::unsafe_file);
}

TEST(SegmentMemfd, PassedOverASocketServesReaderAndLaterWriter) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const holdfast::memory::descriptor ours(ends[0]);
    const holdfast::memory::descriptor theirs(ends[1]);
    holdfast::test::child_process child([&](holdfast::test::channel& talk) -> std::string {
        const auto received = holdfast::memory::receive_descriptors(theirs.get());
        if (received.size() != 2) return "expected two descriptors";
        const holdfast::segment_descriptors given{received[0].get(), received[1].get(), -1};
        if (segment::attach(given, access::read_only).bytes()[5] != std::byte{9}) return "other bytes";
        if (reason_of([&] { (void)segment::attach(given, access::read_write); }) != errc::writer_alive)
            return "two writers";
        talk.signal();
        talk.wait();  // until the first writer has gone
        segment writer = segment::attach(given, access::read_write);
        if (writer.epoch() != 2) return "epoch was not raised";
        return "";
    });
    {
        const segment made =
            segment::create("memfd:", spec_of(100), {}, [](std::span<std::byte> body) { body[5] = std::byte{9}; });
        const auto own = made.descriptors();
        const std::vector<int> both{own.data, own.lease};
        holdfast::memory::send_descriptors(ours.get(), both);
        ASSERT_TRUE(child.talk().wait()) << child.wait().text();
    }
    child.talk().signal();
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
}

TEST(SegmentMemfd, WithoutALeaseDescriptorOnlyReadingIsPossible) {
    const segment made = segment::create("memfd:", spec_of(100), {}, leave_zero);
    EXPECT_EQ(reason_of([&] { (void)segment::attach({made.descriptors().data, -1, -1}, access::read_write); }),
              errc::no_permission);
    EXPECT_EQ(segment::attach("memfd:" + std::to_string(made.descriptors().data), access::read_only).info().identity,
              made.info().identity);
}

TEST(SegmentMemfd, WhatReadersGetCannotBeWritten) {
    const segment made = segment::create("memfd:", spec_of(100), {}, leave_zero);
    const holdfast::memory::descriptor read_only = made.read_only_descriptor();
    EXPECT_LT(::pwrite(read_only.get(), "x", 1, 5000), 0);
    EXPECT_EQ(errno, EBADF);
    EXPECT_EQ(segment::attach({read_only.get(), -1, -1}, access::read_only).info().identity, made.info().identity);
    const memory_place named("posix");
    const segment by_name = segment::create(named.uri(), spec_of(100), {}, leave_zero);
    EXPECT_EQ(reason_of([&] { (void)by_name.read_only_descriptor(); }), errc::unsupported);
}

TEST(SegmentFile, FallsBackToAHiddenNameAndSweepsAbandonedOnes) {
    // O_TMPFILE is there on every file system of this machine, so the fallback is driven by hand.
    const holdfast::test::unique_directory directory("hidden");
    const std::string abandoned = directory.file(".x.0badcafe.making");
    {
        const holdfast::memory::descriptor made =
            holdfast::memory::open_at(AT_FDCWD, abandoned.c_str(), O_CREAT | O_RDWR, 0600);
    }
    const std::string living = directory.file(".x.12345678.making");
    const holdfast::memory::descriptor held =
        holdfast::memory::open_at(AT_FDCWD, living.c_str(), O_CREAT | O_RDWR, 0600);
    ASSERT_TRUE(holdfast::memory::try_lock(held.get(), holdfast::memory::lock_mode::exclusive,
                                           holdfast::memory::detail::making_byte));
    holdfast::memory::detail::sweep_abandoned(directory.path());
    EXPECT_NE(::access(abandoned.c_str(), F_OK), 0);
    EXPECT_EQ(::access(living.c_str(), F_OK), 0);
}

TEST(SegmentLease, ALostLeaseFileIsMadeAnewByTheNextWriter) {
    const memory_place place("posix");
    {
        const segment made = segment::create(place.uri(), spec_of(1), {}, leave_zero);
    }
    const auto where = holdfast::detail::places_of(holdfast::memory::uri::parse(place.uri()));
    ASSERT_EQ(::unlink(where.lease().c_str()), 0);
    EXPECT_EQ(segment::attach(place.uri(), access::read_write).epoch(), 2U);
    EXPECT_EQ(mode_of(where.lease()), 0600U);
}

TEST(SegmentLease, AReaderCannotLockTheWriterOut) {
    const memory_place place("posix");
    {
        const segment made = segment::create(place.uri(), spec_of(1), {}, leave_zero);
    }
    const auto where = holdfast::detail::places_of(holdfast::memory::uri::parse(place.uri()));
    const holdfast::memory::descriptor data = holdfast::memory::open_at(AT_FDCWD, where.data().c_str(), O_RDONLY);
    ASSERT_TRUE(holdfast::memory::try_lock(data.get(), holdfast::memory::lock_mode::shared, 0));
    EXPECT_NO_THROW((void)segment::attach(place.uri(), access::read_write));
}

TEST(SegmentRemove, AFileThatIsNoSegmentIsLeftAlone) {
    const holdfast::test::unique_directory directory("rm");
    const std::string path = directory.file("notes");
    {
        const holdfast::memory::descriptor made =
            holdfast::memory::open_at(AT_FDCWD, path.c_str(), O_CREAT | O_RDWR, 0600);
    }
    EXPECT_EQ(reason_of([&] { segment::remove(directory.file_uri("notes")); }), errc::bad_magic);
    EXPECT_EQ(::access(path.c_str(), F_OK), 0);
    EXPECT_EQ(directory.entries().size(), 1U) << "no lease file was left";
}

TEST(SegmentRemove, DamagedMagicIsRemovedByItsLeaseFile) {
    const memory_place place("posix");
    {
        const segment made = segment::create(place.uri(), spec_of(100), {}, leave_zero);
    }
    const auto where = holdfast::detail::places_of(holdfast::memory::uri::parse(place.uri()));
    {
        const holdfast::memory::descriptor file = holdfast::memory::open_at(AT_FDCWD, where.data().c_str(), O_RDWR);
        const std::uint64_t zero = 0;
        ASSERT_EQ(::pwrite(file.get(), &zero, sizeof zero, 0), 8);
    }
    EXPECT_EQ(reason_of([&] { (void)segment::attach(place.uri(), access::read_only); }), errc::not_ready);
    segment::remove(place.uri());
    EXPECT_NE(::access(where.data().c_str(), F_OK), 0);
    EXPECT_NE(::access(where.lease().c_str(), F_OK), 0);
}

TEST(SegmentLease, ALeftOverLeaseGetsTheRightsOfTheNewSegment) {
    const memory_place place("posix");
    const auto where = holdfast::detail::places_of(holdfast::memory::uri::parse(place.uri()));
    {
        const segment made = segment::create(place.uri(), spec_of(100), {}, leave_zero);
    }
    ASSERT_EQ(::unlink(where.data().c_str()), 0);  // as rm would, leaving the lease
    holdfast::create_options options;
    options.mode = 0660;
    const segment made = segment::create(place.uri(), spec_of(100), options, leave_zero);
    EXPECT_EQ(mode_of(where.lease()), 0660U);
}

TEST(SegmentCreate, FailingBehindPublicationLeavesNothing) {
    const memory_place place("posix");
    const auto where = holdfast::detail::places_of(holdfast::memory::uri::parse(place.uri()));
    ASSERT_EQ(::symlink("/nowhere", where.peers().c_str()), 0);
    holdfast::segment_spec spec = spec_of(100);
    spec.peer_slots = 2;
    EXPECT_EQ(reason_of([&] { (void)segment::create(place.uri(), spec, {}, leave_zero); }), errc::unsafe_file);
    EXPECT_NE(::access(where.data().c_str(), F_OK), 0);
    ASSERT_EQ(::unlink(where.peers().c_str()), 0);
    EXPECT_NO_THROW((void)segment::create(place.uri(), spec, {}, leave_zero));
}

TEST(SegmentHandle, MoveAssignmentLetsGoOfTheFormerSegment) {
    const memory_place first("posix");
    const memory_place second("posix");
    segment held = segment::create(first.uri(), spec_of(100), {}, leave_zero);
    held = segment::create(second.uri(), spec_of(200), {}, leave_zero);
    EXPECT_EQ(held.body().size(), 200U);
    EXPECT_NO_THROW((void)segment::attach(first.uri(), access::read_write)) << "its lease is free again";
}

TEST(SegmentHeader, ManyWritersOfAContainerWithOneAreRefused) {
    const memory_place place("heap");
    holdfast::segment_spec spec = spec_of(100);
    spec.kind = holdfast::container_kind::array;
    spec.policy = holdfast::writers::many;
    const segment made = segment::create(place.uri(), spec, {}, leave_zero);
    EXPECT_EQ(reason_of([&] { made.require(holdfast::container_kind::array, 1); }), errc::geometry_mismatch);
}

TEST(TruncationGuard, ACutOffFileIsAnAnswerInsteadOfASignal) {
    holdfast::test::child_process child([]() -> std::string {  // the handler is for a whole process
        holdfast::memory::install_truncation_guard();
        const memory_place place("file");
        const segment made = segment::create(place.uri(), spec_of(1 << 20), {}, [](std::span<std::byte> body) {
            std::memset(body.data(), 1, body.size());
        });
        const segment reader = segment::attach(place.uri(), access::read_only);
        if (reader.fault()) return "a fault before any";
        if (::truncate(holdfast::detail::places_of(made.name()).data().c_str(), 8192) != 0) return "truncate failed";
        std::size_t sum = 0;
        for (const std::byte b : reader.bytes()) sum += static_cast<std::size_t>(b);
        if (sum > 8192) return "bytes behind the cut are still there";
        if (reader.fault() != errc::truncated) return "the cut was not noticed";
        return made.fault() ? "a handle that touched nothing reports a fault" : "";
    });
    EXPECT_TRUE(child.wait().success()) << child.wait().text();
}

TEST(TruncationGuard, FaultsElsewhereStillKill) {
    holdfast::test::child_process child([] {
        holdfast::memory::install_truncation_guard();
        const holdfast::memory::descriptor file(::memfd_create("cut", MFD_CLOEXEC));
        const auto map = holdfast::memory::mapping::of_file(file.get(), 4096, false, "cut");
        return static_cast<int>(map.data()[0]);
    });
    // The address sanitizer's own handler was there first: the fault is passed on to it, and it ends the process.
    EXPECT_TRUE(holdfast::test::sanitized || child.wait().signal == SIGBUS) << child.wait().text();
    EXPECT_FALSE(child.wait().success());
}

}  // namespace
