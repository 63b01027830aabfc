// SPDX-License-Identifier: Apache-2.0
// Handles and leases across fork, and descriptors passed to another process. A child's copy of a handle is dead, its
// end takes nothing from the parent, and it never has the parent's lease; but while it lives it keeps the parent's
// lock description open, which is documented and shown here.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <string>

#include "holdfast/peers.hpp"
#include "support/process.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

class SegmentFork : public segment_test {
 protected:
    unique_posix_name name_{"fork"};
};

TEST_F(SegmentFork, TheChildsCopyIsDeadAndItsEndTakesNothing) {
    segment writer = create_pattern(name_.uri(), 1);
    const std::uint64_t epoch = writer.epoch();
    for (int round = 0; round < 20; ++round) {
        const ended end = in_child([&]() -> std::string {
            if (writer.writable() || !writer.body().empty()) return "the inherited handle can write";
            if (std::string fault = pattern_fault(writer); !fault.empty())
                return "reading by the inherited handle: " + fault;
            std::string fault =
                expect_refusal(errc::writer_alive, [&] { (void)segment::attach(name_.uri(), access::read_write); });
            {
                const segment taken = std::move(writer);
            }  // the destructor runs in the child
            if (fault.empty())
                fault =
                    expect_refusal(errc::writer_alive, [&] { (void)segment::attach(name_.uri(), access::read_write); });
            return fault;
        });
        ASSERT_TRUE(end.success()) << end.text();
        ASSERT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write); }), errc::writer_alive);
    }
    EXPECT_TRUE(writer.writable());
    EXPECT_EQ(writer.epoch(), epoch);
    writer.body()[0] = std::byte{9};
}

// Fork without exec: the lock belongs to the open file description, which the child shares. The lease is held until the
// last of them is gone, and then it is free.
TEST_F(SegmentFork, ALeaseInheritedByALivingChildStaysHeldUntilItEnds) {
    std::optional<segment> writer(create_pattern(name_.uri(), 1));
    child_process child([&](channel& parent) {
        parent.signal();
        parent.wait();
    });
    ASSERT_TRUE(child.talk().wait());
    writer.reset();
    EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write); }), errc::writer_alive);
    child.kill();
    attach_options patient;
    patient.lease_timeout = std::chrono::seconds(5);
    EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write, patient); }), std::nullopt);
}

TEST_F(SegmentFork, AfterExecNothingIsInherited) {
    std::optional<segment> writer(create_pattern(name_.uri(), 1));
    // The child holds no lock once it runs another program: every descriptor is close-on-exec.
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(ends[0], 0);
        ::close(ends[0]);
        ::close(ends[1]);
        ::execlp("cat", "cat", static_cast<char*>(nullptr));
        ::_exit(127);
    }
    ::close(ends[0]);
    writer.reset();
    attach_options patient;  // fork and exec take their time
    patient.lease_timeout = std::chrono::seconds(5);
    EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write, patient); }), std::nullopt);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, WNOHANG), 0) << "the other program should still be running";
    ::close(ends[1]);
    ::waitpid(child, &status, 0);
}

TEST_F(SegmentFork, AReaderInheritedByForkGoesOnReading) {
    (void)create_pattern(name_.uri(), 1);
    const segment reader = segment::attach(name_.uri(), access::read_only);
    const ended end = in_child([&] { return pattern_fault(reader); });
    EXPECT_TRUE(end.success()) << end.text();
}

// A slot of the peers file belongs to a process, not to what it forks.
TEST_F(SegmentFork, APeerSlotIsNotFreedByAChildThatEnds) {
    segment_spec spec = pattern_spec(1);
    spec.peer_slots = 2;
    const segment writer =
        segment::create(name_.uri(), spec, {}, [](std::span<std::byte> body) { fill_pattern(body, 1); });
    const segment reader = segment::attach(name_.uri(), access::read_only);
    peers mine = peers::open(reader);
    const auto slot = mine.claim();
    ASSERT_TRUE(slot.has_value());
    EXPECT_TRUE(in_child([&] { const peers taken = std::move(mine); }).success());
    const peers others = peers::open(writer);
    EXPECT_TRUE(others.alive(*slot));
}

// Sends two descriptors over a unix socket, as a supervisor does.
bool send_descriptors(int socket, const int (&descriptors)[2]) {
    char byte = 'd';
    iovec part{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptors);
    std::memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
    return ::sendmsg(socket, &message, 0) == 1;
}

bool receive_descriptors(int socket, int (&descriptors)[2]) {
    char byte = 0;
    iovec part{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return false;
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof descriptors)) return false;
    std::memcpy(descriptors, CMSG_DATA(header), sizeof descriptors);
    return true;
}

// The successor received its descriptors before it was forked from anything that holds the lease, and takes the lease
// when the first writer is killed: a passed descriptor is opened anew, so the lock is not shared.
TEST_F(SegmentFork, ASuccessorByPassedDescriptorsTakesOverFromAKilledWriter) {
    int sockets[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    child_process successor([&](channel& parent) -> std::string {
        int received[2] = {-1, -1};
        if (!receive_descriptors(sockets[1], received)) return "no descriptors came";
        const segment_descriptors given{.data = received[0], .lease = received[1], .peers = -1};
        if (std::string fault = pattern_fault(segment::attach(given, access::read_only)); !fault.empty()) return fault;
        std::string fault =
            expect_refusal(errc::writer_alive, [&] { (void)segment::attach(given, access::read_write); });
        if (!fault.empty()) return fault;
        parent.signal();
        if (!parent.wait()) return "the parent is gone";
        attach_options patient;
        patient.lease_timeout = std::chrono::seconds(5);
        const segment writer = segment::attach(given, access::read_write, patient);
        return writer.writable() && writer.epoch() == 2 ? "" : "epoch " + std::to_string(writer.epoch());
    });
    child_process first([&](channel& parent) {
        const segment made = create_pattern("memfd:", 5);
        if (!send_descriptors(sockets[0], {made.descriptors().data, made.descriptors().lease})) ::_exit(2);
        parent.wait();
    });
    ASSERT_TRUE(successor.talk().wait()) << successor.wait().text();
    first.kill();
    ASSERT_TRUE(successor.talk().signal());
    EXPECT_TRUE(successor.wait().success()) << successor.wait().text();
    ::close(sockets[0]);
    ::close(sockets[1]);
}

}  // namespace
