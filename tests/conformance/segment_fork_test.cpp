// SPDX-License-Identifier: Apache-2.0
// Handles and leases across fork, and descriptors passed to another process. A child's copy of a handle is dead, its
// end takes nothing from the parent, and it never has the parent's lease; but while it lives it keeps the parent's
// lock description open, which is documented and shown here. A program that is begun beside a writer, by posix_spawn()
// or vfork(), has nothing of it.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "holdfast/block_store/many.hpp"
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

// ---- a program begun beside a writer -----------------------------------------------------------------------------

// Runs `program` with these as its standard input and output. Returns: its pid, or -1.
using beginning = pid_t (*)(const char* program, int input, int output);

pid_t by_posix_spawn(const char* program, int input, int output) {
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    std::string name = program;
    char* const arguments[] = {name.data(), nullptr};
    pid_t child = -1;
    const int failed = ::posix_spawnp(&child, program, &files, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&files);
    return failed == 0 ? child : -1;
}

// The child has the parent's memory and a copy of its descriptors, and the parent stands still, until the child runs
// another program or ends. A function of its own: nothing here changes between the two returns.
[[gnu::noinline]] pid_t by_vfork(const char* program, int input, int output) {
    const pid_t child = ::vfork();
    if (child == 0) {
        ::dup2(input, STDIN_FILENO);
        ::dup2(output, STDOUT_FILENO);
        ::execlp(program, program, static_cast<char*>(nullptr));
        ::_exit(127);
    }
    return child;
}

struct way {
    const char* name;
    beginning begin;
};
constexpr way ways[] = {{"posix_spawn", by_posix_spawn}, {"vfork and exec", by_vfork}};

// `cat`, which runs by the time that this is made, until it ends.
class program_beside {
 public:
    explicit program_beside(beginning begin) {
        auto down = rig::pipe_pair::make(), up = rig::pipe_pair::make();
        pid_ = begin("cat", down.read_end.get(), up.write_end.get());
        input_ = std::move(down.write_end);
        up.write_end.close();
        // vfork()'s parent goes on when the child's memory is its own, and that may be before what is close-on-exec is
        // closed. Once the program answers, it is.
        char answer = 0;
        runs_ = pid_ > 0 && rig::write_all(input_.get(), "x", 1) && rig::read_all(up.read_end.get(), &answer, 1);
    }
    program_beside(const program_beside&) = delete;
    program_beside& operator=(const program_beside&) = delete;
    ~program_beside() {
        input_.close();
        if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    }
    [[nodiscard]] bool runs() const noexcept { return runs_ && ::kill(pid_, 0) == 0; }
    /// The descriptors of it that lead to files of such a name.
    [[nodiscard]] std::string open_files(const std::string& name) const {
        std::string found;
        for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/fd")) {
            std::error_code gone;
            const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
            if (target.find(name) != std::string::npos) found += target + "; ";
        }
        return found;
    }

 private:
    pid_t pid_ = -1;
    bool runs_ = false;
    rig::descriptor input_;
};

TEST_F(SegmentFork, AProgramBegunBesideAWriterTakesNothing) {
    for (const way& how : ways) {
        SCOPED_TRACE(how.name);
        const unique_posix_name name("spawn");
        segment_spec spec = pattern_spec(1);
        spec.peer_slots = 2;
        std::optional<segment> writer(
            segment::create(name.uri(), spec, {}, [](std::span<std::byte> body) { fill_pattern(body, 1); }));
        const std::uint64_t epoch = writer->epoch();
        const auto is_the_writer = [&] {
            const std::byte was = writer->body()[0];
            writer->body()[0] = std::byte{9};
            writer->body()[0] = was;
            const auto attach = [&] { (void)segment::attach(name.uri(), access::read_write); };
            return writer->writable() && writer->epoch() == epoch && refusal_of(attach) == errc::writer_alive &&
                   in_child([&] { return expect_refusal(errc::writer_alive, attach); }).success();
        };
        {
            const program_beside program(how.begin);
            ASSERT_TRUE(program.runs());
            EXPECT_EQ(program.open_files(name.token()), "");
            EXPECT_TRUE(is_the_writer());
        }
        EXPECT_TRUE(is_the_writer()) << "after its end";

        const segment reader = segment::attach(name.uri(), access::read_only);
        peers mine = peers::open(reader);
        const auto slot = mine.claim();
        ASSERT_TRUE(slot.has_value());
        {
            EXPECT_TRUE(program_beside(how.begin).runs());
        }
        EXPECT_TRUE(peers::open(*writer).alive(*slot)) << "a reader's slot";

        // It keeps nothing, either: the lease is free as soon as its owner lets it go.
        const program_beside program(how.begin);
        ASSERT_TRUE(program.runs());
        writer.reset();
        EXPECT_EQ(refusal_of([&] { (void)segment::attach(name.uri(), access::read_write); }), std::nullopt);
        EXPECT_TRUE(program.runs());
    }
}

TEST_F(SegmentFork, AProgramThatCannotBeRunTakesNothing) {
    const segment writer = create_pattern(name_.uri(), 1);
    const char* const nothing = "/nonexistent/program";
    EXPECT_EQ(by_posix_spawn(nothing, STDIN_FILENO, STDOUT_FILENO), -1);
    const pid_t child = by_vfork(nothing, STDIN_FILENO, STDOUT_FILENO);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 127);
    EXPECT_TRUE(writer.writable());
    EXPECT_EQ(pattern_fault(writer), "");
    EXPECT_EQ(refusal_of([&] { (void)segment::attach(name_.uri(), access::read_write); }), errc::writer_alive);
}

// One of many writers: its slot and what it has claimed stay its own, and the slot is free once it goes.
TEST_F(SegmentFork, AProgramBegunBesideOneOfManyWritersLeavesItsSlot) {
    using store = basic_block_store<writers::many>;
    for (const way& how : ways) {
        SCOPED_TRACE(how.name);
        const unique_posix_name name("spawn");
        std::optional<store> writer(store::create(name.uri(), {.bytes = 4096, .unit_bytes = 64, .writer_slots = 1}));
        const auto attach = [&] { (void)store::attach(name.uri()); };
        const program_beside program(how.begin);
        ASSERT_TRUE(program.runs());
        ASSERT_EQ(writer->prepare(100), outcome::ok);
        {
            EXPECT_TRUE(program_beside(how.begin).runs());
        }
        EXPECT_EQ(refusal_of(attach), errc::writer_alive) << "the only slot is taken";
        EXPECT_TRUE(writer->commit()) << "the claim was dropped";
        EXPECT_EQ(writer->usage().values, 1U);
        writer.reset();
        EXPECT_EQ(refusal_of(attach), std::nullopt);
        EXPECT_TRUE(program.runs());
    }
}

// ---- descriptors -------------------------------------------------------------------------------------------------

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
