// SPDX-License-Identifier: Apache-2.0
// Segments where there is no room: a full tmpfs, no inodes, a full disk, process limits, a memory cgroup, an empty
// pool of huge pages. Each is an error at creation that names the cure, never a signal later, and leaves nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "golden/subjects.hpp"
#include "support/capability.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

constexpr std::size_t megabyte = std::size_t{1} << 20;

class SegmentSpace : public segment_test {
 protected:
    // Run in a child with mounts of its own: creation of 8 MiB is refused with no_space and leaves nothing; a small
    // segment still fits.
    [[nodiscard]] std::string refused_and_clean(const unique_directory& full) {
        if (std::string fault =
                expect_refusal(errc::no_space, [&] { (void)create_pattern(full.file_uri("s"), 1, {}, 8 * megabyte); });
            !fault.empty())
            return fault;
        for (const std::string& entry : full.entries())
            if (entry.find('s') == 0 || entry.ends_with(".making")) return "left behind: " + entry;
        const segment fits = create_pattern(full.file_uri("s"), 1, {}, 4096);
        return pattern_fault(fits);
    }
    unique_directory place_{"space"};
};

TEST_F(SegmentSpace, FullTmpfsIsNoSpace) {
    if (!can_mount_tmpfs()) GTEST_SKIP() << "needs: mounting a tmpfs in a private mount namespace";
    const ended end = in_child([&]() -> std::string {
        if (!enter_private_mounts() || !mount_tmpfs(place_.path(), "size=2m")) return "no tmpfs";
        return refused_and_clean(place_);
    });
    EXPECT_TRUE(end.success()) << end.text();
}

// With no page free, with one, with two, and so on until it is made: room for nothing, for a part of its body, for the
// body but not for what registers beside it.
TEST_F(SegmentSpace, EachContainerOnAFullTmpfsIsNoSpaceAndIsMadeOnceThereIsRoom) {
    if (!can_mount_tmpfs()) GTEST_SKIP() << "needs: mounting a tmpfs in a private mount namespace";
    const std::string uri = place_.file_uri("s");
    for (const golden_subject& subject : golden_subjects) {
        const auto make = [&] {
            const still_world then(golden_moment_ns, golden_seed);
            subject.make(uri);
        };
        const ended end = in_child([&]() -> std::string {
            make();
            const std::string sound = subject.describe(uri);
            segment::remove(uri);
            if (!enter_private_mounts() || !mount_tmpfs(place_.path(), "size=1m")) return "no tmpfs";
            const rig::descriptor fill(::open(place_.file("fill").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
            constexpr off_t page = 4096;
            off_t filled = 0;
            while (::posix_fallocate(fill.get(), filled, page) == 0) filled += page;
            const off_t full = filled;
            for (auto refused = refusal_of(make); refused; refused = refusal_of(make)) {
                if (refused->code != errc::no_space) return "refused with another code: " + refused->text;
                for (const std::string& entry : place_.entries())
                    if (entry != "fill") return "left behind: " + entry;
                for (const std::string& entry : registry_.entries()) return "left in the registry: " + entry;
                if (filled == 0) return "not even with all of the room: " + refused->text;
                filled -= page;
                if (::ftruncate(fill.get(), filled) != 0) return "ftruncate";
            }
            if (filled == full) return "made where there is no room";
            return subject.describe(uri) == sound ? "" : "it holds something else";
        });
        EXPECT_TRUE(end.success()) << subject.name << ": " << end.text();
    }
}

TEST_F(SegmentSpace, TmpfsWithoutInodesIsNoSpace) {
    if (!can_mount_tmpfs()) GTEST_SKIP() << "needs: mounting a tmpfs in a private mount namespace";
    const ended end = in_child([&]() -> std::string {
        if (!enter_private_mounts() || !mount_tmpfs(place_.path(), "size=2m,nr_inodes=2")) return "no tmpfs";
        return expect_refusal(errc::no_space, [&] { (void)create_pattern(place_.file_uri("s"), 1, {}, 4096); });
    });
    EXPECT_TRUE(end.success()) << end.text();
}

// Room for the body alone: what registered readers write lies in a second file.
TEST_F(SegmentSpace, ATmpfsWithRoomForTheBodyButNotForItsPeersIsNoSpace) {
    if (!can_mount_tmpfs()) GTEST_SKIP() << "needs: mounting a tmpfs in a private mount namespace";
    for (const char* options : {"size=100k", "size=2m,nr_inodes=3"}) {
        const ended end = in_child([&]() -> std::string {
            if (!enter_private_mounts() || !mount_tmpfs(place_.path(), options)) return "no tmpfs";
            const std::string uri = place_.file_uri("s");
            segment_spec spec = pattern_spec(1);
            spec.peer_slots = 1000;
            const auto create = [&] {
                return segment::create(uri, spec, {}, [](std::span<std::byte> body) { fill_pattern(body, 1); });
            };
            if (std::string fault = expect_refusal(errc::no_space, [&] { (void)create(); }); !fault.empty())
                return fault;
            for (const std::string& entry : place_.entries()) return "left behind: " + entry;
            spec.peer_slots = 0;
            return pattern_fault(create());
        });
        EXPECT_TRUE(end.success()) << options << ": " << end.text();
    }
}

// Its creator was killed before it came to the peers, and then the memory was used up.
TEST_F(SegmentSpace, AWriterWhoFindsNoRoomForThePeersLeavesTheSegmentToReaders) {
    if (!can_mount_tmpfs()) GTEST_SKIP() << "needs: mounting a tmpfs in a private mount namespace";
    const ended end = in_child([&]() -> std::string {
        if (!enter_private_mounts() || !mount_tmpfs(place_.path(), "size=1m")) return "no tmpfs";
        const std::string uri = place_.file_uri("s"), fill = place_.file("fill");
        segment_spec spec = pattern_spec(1);
        spec.peer_slots = 1000;
        (void)segment::create(uri, spec, {}, [](std::span<std::byte> body) { fill_pattern(body, 1); });
        if (::unlink(place_.file("s.peers").c_str()) != 0) return "no peers file";
        const rig::descriptor other(::open(fill.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        for (off_t at = 0; ::posix_fallocate(other.get(), at, 4096) == 0;) at += 4096;
        std::string fault = expect_refusal(errc::no_space, [&] { (void)segment::attach(uri, access::read_write); });
        if (fault.empty()) fault = pattern_fault(segment::attach(uri, access::read_only));
        if (!fault.empty()) return fault;
        ::unlink(fill.c_str());
        if (::ftruncate(other.get(), 0) != 0) return "ftruncate";
        const segment next = segment::attach(uri, access::read_write);
        return ::access(place_.file("s.peers").c_str(), F_OK) == 0 ? pattern_fault(next) : "the peers file is missing";
    });
    EXPECT_TRUE(end.success()) << end.text();
}

TEST_F(SegmentSpace, FullDiskIsNoSpace) {
    if (!can_mount_tmpfs()) GTEST_SKIP() << "needs: private mounts";
    const unique_directory images("image");
    const ended end = in_child([&]() -> std::string {
        const std::string image = images.file("disk");
        const std::string prepare = "truncate -s 4M " + image + " && mkfs.ext4 -q -O ^has_journal " + image +
                                    " >/dev/null 2>&1" + " && mount -o loop " + image + " " + place_.path() +
                                    " >/dev/null 2>&1";
        if (!enter_private_mounts() || std::system(prepare.c_str()) != 0) ::_exit(77);
        return refused_and_clean(place_);
    });
    if (end.code == 77) GTEST_SKIP() << "needs: mkfs.ext4 and a loop device";
    EXPECT_TRUE(end.success()) << end.text();
}

TEST_F(SegmentSpace, FileSizeLimitIsNoSpaceInsteadOfASignal) {
    for (const std::string& uri : {place_.file_uri("s"), std::string("memfd:")}) {
        const ended end = in_child([&]() -> std::string {
            const rlimit limit{.rlim_cur = megabyte, .rlim_max = megabyte};
            if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return "setrlimit";
            return expect_refusal(errc::no_space, [&] { (void)create_pattern(uri, 1, {}, 8 * megabyte); });
        });
        EXPECT_TRUE(end.success()) << uri << ": " << end.text();
    }
    EXPECT_TRUE(place_.entries().empty());
}

TEST_F(SegmentSpace, AddressSpaceLimitIsNoSpace) {
    if (sanitized) GTEST_SKIP() << "needs: an address space of normal size (sanitizers reserve terabytes)";
    for (const std::string& uri : {place_.file_uri("s"), std::string("heap:"), std::string("memfd:")}) {
        const ended end = in_child([&]() -> std::string {
            const rlimit limit{.rlim_cur = 256 * megabyte, .rlim_max = 256 * megabyte};
            if (::setrlimit(RLIMIT_AS, &limit) != 0) return "setrlimit";
            return expect_refusal(errc::no_space, [&] { (void)create_pattern(uri, 1, {}, 512 * megabyte); });
        });
        EXPECT_TRUE(end.success()) << uri << ": " << end.text();
    }
    EXPECT_TRUE(place_.entries().empty());
}

TEST_F(SegmentSpace, WithoutFreeDescriptorsCreationFailsCleanly) {
    if (holdfast::test::sanitized)
        GTEST_SKIP() << "needs: a build without sanitizers, which use descriptors of their own";
    const ended end = in_child([&]() -> std::string {
        const rlimit limit{.rlim_cur = 16, .rlim_max = 16};
        if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return "setrlimit";
        while (::dup(0) >= 0) {
        }
        for (int spare = 0; spare < 6; ++spare) {  // with 0, 1, 2 ... free descriptors
            const auto refused = refusal_of([&] { (void)create_pattern(place_.file_uri("s"), 1, {}, 4096); });
            ::close(15 - spare);
            bool there = false;
            if (!refused) return nothing_or_whole(place_.file_uri("s"), there);
            if (refused->text.find("oo many open files") == std::string::npos) return refused->text;
        }
        return "not even with six free descriptors";
    });
    EXPECT_TRUE(end.success()) << end.text();
}

TEST_F(SegmentSpace, MemoryCgroupLimitIsNoSpaceInsteadOfAKill) {
    const memory_cgroup group(64 * megabyte);
    if (!group.ready()) GTEST_SKIP() << "needs: a writable memory cgroup";
    const unique_posix_name name("cgroup");
    const unique_system_v_name system_v;
    for (const std::string& uri :
         {name.uri(), std::string("memfd:"), std::string("anon:"), std::string("heap:"), system_v.uri()}) {
        const ended end = in_child([&]() -> std::string {
            if (!group.enter()) return "cannot enter the group";
            std::string fault =
                expect_refusal(errc::no_space, [&] { (void)create_pattern(uri, 1, {}, 256 * megabyte); });
            if (!fault.empty()) return fault;
            const auto refused = refusal_of([&] { (void)create_pattern(uri, 1, {}, 256 * megabyte); });
            if (refused->text.find("cgroup") == std::string::npos) return "the cause is not named: " + refused->text;
            fault = pattern_fault(create_pattern(uri, 1, {}, megabyte));
            if (memory::uri::parse(uri).named()) segment::remove(uri);
            return fault;
        });
        EXPECT_TRUE(end.success()) << uri << ": " << end.text();
    }
}

TEST_F(SegmentSpace, AnEmptyPoolOfHugePagesNamesTheSetting) {
    const setting_lock others("/proc/sys/vm/nr_hugepages");
    if (read_setting("/proc/sys/vm/nr_hugepages") != "0") GTEST_SKIP() << "needs: an empty pool of huge pages";
    const unique_system_v_name name(true);
    const std::string& uri = name.uri();
    const auto refused = refusal_of([&] { (void)create_pattern(uri, 1, {}, 4 * megabyte); });
    ASSERT_EQ(refused, errc::no_huge_pages);
    EXPECT_NE(refused->text.find("vm.nr_hugepages"), std::string::npos) << refused->text;
}

TEST_F(SegmentSpace, HugePagesFromThePoolAreReallyHuge) {
    const scoped_setting pool("/proc/sys/vm/nr_hugepages", "4");
    if (!pool.changed()) GTEST_SKIP() << "needs: setting vm.nr_hugepages";
    const unique_system_v_name name(true);
    const std::string& uri = name.uri();
    {
        const segment made = create_pattern(uri, 1, {}, 4 * megabyte - header_bytes);
        EXPECT_EQ(pattern_fault(made), "");
        EXPECT_EQ(made.pages().page_bytes, 2 * megabyte);
        EXPECT_EQ(pattern_fault(segment::attach(uri, access::read_only)), "");
    }
    segment::remove(uri);
    EXPECT_EQ(refusal_of([&] { (void)segment::attach(uri, access::read_only); }), errc::not_found);
    const auto refused = refusal_of([&] { (void)create_pattern(uri, 1, {}, 16 * megabyte); });
    EXPECT_EQ(refused, errc::no_huge_pages) << "more than the pool has";
}

}  // namespace
