// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/hand_over.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/listener.hpp"
#include "support/error_reason.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using test::get;
using test::http_client;
using test::reason_of;

std::size_t open_descriptors() {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

/// Two ends of a connection, as the two processes have them.
class both_ends {
 public:
    explicit both_ends(int type = SOCK_SEQPACKET) {
        if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends_) != 0) throw std::runtime_error("socketpair");
    }
    ~both_ends() {
        for (const int fd : ends_)
            if (fd >= 0) ::close(fd);
    }
    both_ends(const both_ends&) = delete;
    both_ends& operator=(const both_ends&) = delete;
    [[nodiscard]] int old() const { return ends_[0]; }
    [[nodiscard]] int fresh() const { return ends_[1]; }
    void close_old() { ::close(std::exchange(ends_[0], -1)); }

 private:
    int ends_[2] = {-1, -1};
};

class listeners {
 public:
    explicit listeners(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) fds_.push_back(net::listen_tcp("127.0.0.1:0"));
    }
    ~listeners() {
        for (const int fd : fds_) ::close(fd);
    }
    listeners(const listeners&) = delete;
    listeners& operator=(const listeners&) = delete;
    [[nodiscard]] const std::vector<int>& all() const { return fds_; }

 private:
    std::vector<int> fds_;
};

// --- the message

TEST(HandOver, BringsTheSameListenersInTheirOrderWithTheNote) {
    for (const std::size_t count : {0U, 1U, 128U, 129U, 300U}) {
        const both_ends ends;
        const listeners sent(count);
        const std::string note = count == 0 ? "" : std::string(count * 50, 'n');
        net::send_listeners(ends.old(), sent.all(), note);
        const net::listener_parcel got = net::receive_listeners(ends.fresh());
        EXPECT_EQ(got.note(), note);
        ASSERT_EQ(got.listeners().size(), count);
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(net::bound_port(got.listeners()[i]), net::bound_port(sent.all()[i])) << i;
            EXPECT_NE(::fcntl(got.listeners()[i], F_GETFD) & FD_CLOEXEC, 0);
        }
    }
}

TEST(HandOver, OfUnixSocketsAndOfPacketsWorksToo) {
    const both_ends ends;
    const std::string path = testing::TempDir() + "holdfast_hand_over_" + std::to_string(::getpid());
    const int plain = net::listen_unix(path);
    net::send_listeners(ends.old(), {{plain}});
    const net::listener_parcel got = net::receive_listeners(ends.fresh());
    ASSERT_EQ(got.listeners().size(), 1U);
    EXPECT_EQ(net::bound_address(got.listeners()[0]), path);
    ::close(plain);
    ::unlink(path.c_str());
}

TEST(HandOver, AParcelClosesWhatNobodyTook) {
    const both_ends ends;
    const listeners sent(3);
    const std::size_t before = open_descriptors();
    net::send_listeners(ends.old(), sent.all());
    net::send_listeners(ends.old(), sent.all());
    std::vector<int> taken;
    {
        net::listener_parcel first = net::receive_listeners(ends.fresh());
        net::listener_parcel second = net::receive_listeners(ends.fresh());
        EXPECT_EQ(open_descriptors(), before + 6);
        first = std::move(second);
        taken = first.take();
        EXPECT_TRUE(first.listeners().empty());
    }
    EXPECT_EQ(open_descriptors(), before + 3);
    for (const int fd : taken) ::close(fd);
}

TEST(HandOver, RefusesMoreThanItsBounds) {
    const both_ends ends;
    const std::vector<int> many(net::handed_listeners_max + 1, 0);
    EXPECT_EQ(reason_of([&] { net::send_listeners(ends.old(), many); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { net::send_listeners(ends.old(), {}, std::string(net::handed_note_bytes_max + 1, 'n')); }),
              errc::invalid_argument);
}

TEST(HandOver, TellsAnAbsentSenderFromASilentOne) {
    both_ends ends;
    EXPECT_EQ(reason_of([&] { (void)net::receive_listeners(ends.fresh(), 1ms); }), errc::io);
    ends.close_old();
    EXPECT_EQ(reason_of([&] { (void)net::receive_listeners(ends.fresh()); }), errc::not_found);
}

TEST(HandOver, APatienceForEverLastsUntilSomethingComes) {
    const both_ends ends;
    const listeners sent(1);
    std::jthread receiver([&] {
        EXPECT_EQ(net::receive_listeners(ends.fresh(), std::chrono::milliseconds::max()).listeners().size(), 1U);
    });
    std::this_thread::sleep_for(20ms);  // it waits by now, or finds the message there: it gets it either way
    net::send_listeners(ends.old(), sent.all(), {}, std::chrono::milliseconds::max());
}

TEST(HandOver, ASenderThatNobodyReadsFromGivesUp) {
    const both_ends ends;
    const std::string note(net::handed_note_bytes_max, 'n');
    EXPECT_EQ(reason_of([&] {
                  for (;;) net::send_listeners(ends.old(), {}, note, 1ms);
              }),
              errc::io);
}

TEST(HandOver, WithoutRoomForDescriptorsSaysSoAndKeepsNone) {
    const both_ends ends;
    const listeners sent(8);
    net::send_listeners(ends.old(), sent.all());
    const int next = ::dup(0);  // the lowest free descriptor
    ::close(next);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(next) + 3;
    const std::size_t open_before = open_descriptors();
    // The sanitizer of vptrs opens a pipe to look at one that it has not met; then it has.
    EXPECT_EQ(reason_of([] { throw error(errc::no_space, "a", "full; make room"); }), errc::no_space);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const errc reason = reason_of([&] { (void)net::receive_listeners(ends.fresh()); });
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(reason, errc::no_space);
    EXPECT_EQ(open_descriptors(), open_before);
}

/// A message as it lies on the wire, to be spoilt.
struct raw_part {
    std::array<char, 8> magic{'H', 'F', 'L', 'I', 'S', 'T', 'E', 'N'};
    std::uint32_t version = 1, part = 0, parts = 1, listeners = 2, here = 2, note_bytes = 3;

    [[nodiscard]] std::string bytes(std::string_view note = "abc") const {
        std::string text(magic.begin(), magic.end());
        for (const std::uint32_t each : {version, part, parts, listeners, here, note_bytes})
            text.append(reinterpret_cast<const char*>(&each), sizeof each);
        return text.append(note);
    }
};

void send_raw(int socket, const std::string& bytes, const std::vector<int>& descriptors) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * 253)> control{};
    iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        const std::size_t size = descriptors.size() * sizeof(int);
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(size);
        cmsghdr* const rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(size);
        std::memcpy(CMSG_DATA(rights), descriptors.data(), size);
    }
    ASSERT_EQ(::sendmsg(socket, &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

/// What receiving these messages ends in; no descriptor may be left of them.
errc refusal_of(const std::vector<std::pair<std::string, std::vector<int>>>& messages) {
    both_ends ends;
    for (const auto& [bytes, descriptors] : messages) send_raw(ends.old(), bytes, descriptors);
    ends.close_old();
    const std::size_t before = open_descriptors();
    const errc reason = reason_of([&] { (void)net::receive_listeners(ends.fresh()); });
    EXPECT_EQ(open_descriptors(), before);
    return reason;
}

// (I2)
TEST(HandOver, RefusesWhatBreaksARule) {
    const listeners two(2);
    const std::vector<int>& pair = two.all();
    const std::string good = raw_part().bytes();
    for (std::size_t size = 1; size < good.size(); ++size)
        EXPECT_EQ(refusal_of({{good.substr(0, size), pair}}), errc::corrupt) << size;
    EXPECT_EQ(refusal_of({{"", pair}}), errc::not_found) << "as if there were none";
    EXPECT_EQ(refusal_of({{good + "d", pair}}), errc::corrupt);
    EXPECT_EQ(refusal_of({{raw_part{.version = 2}.bytes(), pair}}), errc::version_mismatch);
    EXPECT_EQ(refusal_of({{raw_part{.magic = {'G', 'E', 'T', ' ', '/'}}.bytes(), pair}}), errc::corrupt);
    constexpr std::uint32_t most = ~std::uint32_t{0};
    for (const raw_part& bad :
         {raw_part{.part = 1}, raw_part{.parts = 0}, raw_part{.parts = 2}, raw_part{.parts = most},
          raw_part{.listeners = 1}, raw_part{.listeners = 3}, raw_part{.listeners = most}, raw_part{.here = 1},
          raw_part{.here = most}, raw_part{.note_bytes = 2}, raw_part{.note_bytes = 4}, raw_part{.note_bytes = most}})
        EXPECT_EQ(refusal_of({{bad.bytes(), pair}}), errc::corrupt) << bad.bytes();
    EXPECT_EQ(refusal_of({{good, {}}}), errc::corrupt) << "descriptors are missing";
    EXPECT_EQ(refusal_of({{good, {pair[0]}}}), errc::corrupt);
    EXPECT_EQ(refusal_of({{good, {pair[0], pair[1], pair[0]}}}), errc::corrupt) << "one more than announced";
    const std::string too_long(net::handed_note_bytes_max + 1, 'n');
    EXPECT_EQ(refusal_of({{raw_part{.note_bytes = static_cast<std::uint32_t>(too_long.size())}.bytes(too_long), pair}}),
              errc::corrupt);
}

TEST(HandOver, RefusesALaterPartThatDoesNotBelong) {
    const listeners some(128);
    const raw_part first{.parts = 2, .listeners = 129, .here = 128, .note_bytes = 0};
    const std::vector<int> one{some.all()[0]};
    raw_part second{.part = 1, .parts = 2, .listeners = 129, .here = 1, .note_bytes = 0};
    EXPECT_EQ(refusal_of({{first.bytes(""), some.all()}}), errc::not_found) << "the sender went away between them";
    EXPECT_EQ(refusal_of({{first.bytes(""), some.all()}, {first.bytes(""), some.all()}}), errc::corrupt);
    EXPECT_EQ(refusal_of({{first.bytes(""), some.all()}, {second.bytes(""), {}}}), errc::corrupt);
    second.listeners = 130;
    second.here = 2;
    EXPECT_EQ(refusal_of({{first.bytes(""), some.all()}, {second.bytes(""), {one[0], one[0]}}}), errc::corrupt);
    second = {.part = 1, .parts = 2, .listeners = 129, .here = 1, .note_bytes = 1};
    EXPECT_EQ(refusal_of({{first.bytes(""), some.all()}, {second.bytes("n"), one}}), errc::corrupt);
}

TEST(HandOver, RefusesDescriptorsThatAreNoListeners) {
    const listeners one(1);
    int pipe_ends[2];
    ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
    const int unbound = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int datagrams = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const both_ends connected(SOCK_STREAM);
    for (const int bad : {pipe_ends[0], unbound, datagrams, connected.old()})
        EXPECT_EQ(refusal_of({{raw_part().bytes(), {one.all()[0], bad}}}), errc::corrupt);
    for (const int fd : {pipe_ends[0], pipe_ends[1], unbound, datagrams}) ::close(fd);
}

// --- the server

/// Two servers of one queue, each in a thread of its own once it is started.
class two_servers {
 public:
    explicit two_servers(net::server_options options = {})
        : queue_(net::listen_tcp("127.0.0.1:0")), port_(net::bound_port(queue_)) {
        options.engine = test::engine_of_tests::choice();
        for (int i = 0; i < 2; ++i)
            servers_[i] = std::make_unique<net::server>(
                std::vector<int>{i == 0 ? ::fcntl(queue_, F_DUPFD_CLOEXEC, 0) : queue_}, options, test::echo);
    }
    ~two_servers() {
        for (int i = 0; i < 2; ++i) stop(i);
    }
    two_servers(const two_servers&) = delete;
    two_servers& operator=(const two_servers&) = delete;

    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] net::server& first() { return *servers_[0]; }
    [[nodiscard]] net::server& second() { return *servers_[1]; }
    void start(int i) {
        threads_[i] = std::thread([this, i] { servers_[i]->run(); });
    }
    void join(int i) {
        if (threads_[i].joinable()) threads_[i].join();
    }
    void stop(int i) {
        servers_[i]->stop();
        join(i);
    }

 private:
    int queue_;  // the second one's
    std::uint16_t port_;
    std::unique_ptr<net::server> servers_[2];
    std::thread threads_[2];
};

TEST(ServerHandOver, LeavesNobodyInTheQueue) {
    two_servers both;
    http_client waiting(both.port());
    waiting.send(get("/"));
    both.first().hand_over();
    both.start(0);
    both.start(1);
    EXPECT_EQ(waiting.reply().status, 200);
    waiting.close();
    both.join(0);
    http_client later(both.port());
    EXPECT_EQ(later.ask(get("/")).status, 200);
    both.stop(1);
    if (both.first().engine() == "epoll") {
        EXPECT_EQ(both.first().counters().accepted, 0U);
    }
    EXPECT_EQ(both.first().counters().accepted + both.second().counters().accepted, 2U);
}

// An arrival wakes one ring of those that wait for the same queue: not one that is just leaving it.
TEST(ServerHandOver, LosesNoArrivalWhileOneOfTwoLeaves) {
    for (int i = 0; i < 200; ++i) {
        two_servers both;
        both.start(0);
        both.start(1);
        http_client early(both.port());
        EXPECT_EQ(early.ask(get("/")).status, 200);
        both.first().hand_over();
        http_client during(both.port());
        ASSERT_EQ(during.ask(get("/")).status, 200) << i;
        early.close();
        during.close();
        both.join(0);
    }
}

TEST(ServerHandOver, KeepsIdleConnectionsForOneMoreRequest) {
    net::server_options options;
    options.limits.drain_idle_ms = 1;
    options.limits.drain_timeout_ms = 600'000;  // however long this machine stands still
    two_servers both(options);
    both.start(0);
    http_client idle(both.port());
    EXPECT_EQ(idle.ask(get("/")).status, 200);
    both.first().hand_over();
    both.start(1);
    http_client next(both.port());
    EXPECT_EQ(next.ask(get("/")).status, 200);
    for (bool last = false; !last;) {  // the loop may answer one before it looks at what it was asked
        const auto reply = idle.ask(get("/"));
        EXPECT_EQ(reply.status, 200);
        last = reply.field("Connection") == "close";
    }
    EXPECT_TRUE(idle.ended());
    idle.close();
    next.close();  // either may have accepted it; the first one has none left now
    both.join(0);
}

TEST(ServerHandOver, EndsIdleConnectionsInTheEnd) {
    net::server_options options;
    options.limits.drain_timeout_ms = 40;
    two_servers both(options);
    both.start(0);
    http_client idle(both.port());
    EXPECT_EQ(idle.ask(get("/")).status, 200);
    both.first().hand_over();
    EXPECT_TRUE(idle.gone());
    both.join(0);
}

TEST(BoundAddress, IsWrittenAsItIsRead) {
    for (const char* const text : {"127.0.0.1:0", "localhost:0", "[::1]:0", "[0:0::1]:0"}) {
        int fd = -1;
        try {
            fd = net::listen_tcp(text);
        } catch (const error&) {
            continue;  // no IPv6 here
        }
        const std::string bound = net::bound_address(fd);
        EXPECT_EQ(net::plain_address(bound), bound);
        EXPECT_TRUE(bound.starts_with(text[0] == '[' ? "[::1]:" : "127.0.0.1:")) << bound;
        ::close(fd);
    }
    EXPECT_EQ(reason_of([] { (void)net::plain_address("host.example:80"); }), errc::invalid_argument);
}

}  // namespace
