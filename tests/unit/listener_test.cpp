// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/listener.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/peer.hpp"
#include "holdfast/net/server.hpp"
#include "net/file_descriptor.hpp"
#include "support/error_reason.hpp"
#include "support/http_server.hpp"

namespace {

using namespace holdfast;
using test::reason_of;

class socket_folder {
 public:
    socket_folder() {
        std::string pattern = testing::TempDir() + "holdfast_listener_XXXXXX";
        path_ = ::mkdtemp(pattern.data());
    }
    ~socket_folder() {
        for (const char* name : {"s", "f", "s.lock"}) ::unlink(file(name).c_str());
        ::rmdir(path_.c_str());
    }
    [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
    std::string path_;
};

int connect_unix(const std::string& path) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path.data(), path.size());
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return fd;
    ::close(fd);
    return -1;
}

/// Keeps the calling thread on one CPU for a while.
class on_cpu {
 public:
    explicit on_cpu(unsigned cpu) {
        ::sched_getaffinity(0, sizeof before_, &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    }
    on_cpu(const on_cpu&) = delete;
    on_cpu& operator=(const on_cpu&) = delete;
    ~on_cpu() { ::sched_setaffinity(0, sizeof before_, &before_); }

 private:
    cpu_set_t before_{};
};

std::vector<unsigned> usable_cpus() {
    cpu_set_t usable;
    ::sched_getaffinity(0, sizeof usable, &usable);
    std::vector<unsigned> found;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &usable)) found.push_back(cpu);
    return found;
}

/// Where one more connection waits: the place in the group.
std::size_t arrives_at(const std::vector<net::file_descriptor>& group) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(net::bound_port(group.front().get()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const net::file_descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    std::vector<pollfd> each;
    for (const auto& one : group) each.push_back({one.get(), POLLIN, 0});
    EXPECT_EQ(::poll(each.data(), each.size(), 20'000), 1);
    for (std::size_t i = 0; i < each.size(); ++i)
        if (each[i].revents != 0) {
            const net::file_descriptor taken(::accept4(each[i].fd, nullptr, nullptr, SOCK_CLOEXEC));
            EXPECT_TRUE(taken);
            return i;
        }
    return group.size();
}

TEST(ListenerGroup, GivesConnectionsToTheListenerOfTheirCpu) {
    const std::vector<unsigned> cpus = usable_cpus();
    if (cpus.size() < 2) GTEST_SKIP() << "needs: two processors";
    std::ifstream file("/sys/class/net/lo/queues/rx-0/rps_cpus");
    std::string moved;
    if (std::getline(file, moved) && moved.find_first_not_of("0,") != std::string::npos)
        GTEST_SKIP() << "needs: packets of loopback handled by their sender's processor (rps_cpus of lo)";
    std::vector<net::file_descriptor> group;
    group.emplace_back(net::listen_tcp("127.0.0.1:0", {.reuse_port = true}));
    const std::string address = net::bound_address(group.front().get());
    for (int i = 0; i < 2; ++i) group.emplace_back(net::listen_tcp(address, {.reuse_port = true}));
    const auto arrives_from = [&](unsigned cpu) {
        const on_cpu here(cpu);  // loopback delivers on the sender's processor
        return arrives_at(group);
    };

    // Any of the group steers all of it, and the newest word counts.
    for (const auto& order : {std::vector<unsigned>{cpus[0], cpus[1]}, std::vector<unsigned>{cpus[1], cpus[0]}}) {
        net::steer_by_cpu(group[1].get(), group.size(), order);
        for (int connection = 0; connection < 10; ++connection)
            for (std::size_t place = 0; place < 2; ++place) EXPECT_EQ(arrives_from(order[place]), place);
    }
    net::steer_by_cpu(group[2].get(), group.size(), {});  // none is named
    for (const unsigned cpu : {cpus[0], cpus[1]}) EXPECT_EQ(arrives_from(cpu), cpu % group.size());
    const std::vector<unsigned> many(5, cpus[1]);  // the first word about a CPU counts
    net::steer_by_cpu(group[0].get(), group.size(), many);
    EXPECT_EQ(arrives_from(cpus[1]), 0U);

    net::steer_by_flow(group[0].get());
    std::vector<int> arrived(group.size());
    for (int connection = 0; connection < 200; ++connection) ++arrived[arrives_from(cpus[0])];
    for (const int some : arrived) EXPECT_GT(some, 0) << "a hash leaves none of three out";
    net::steer_by_flow(group[0].get());
}

TEST(ListenerGroup, SaysWhatCannotBeSteered) {
    const net::file_descriptor alone(net::listen_tcp("127.0.0.1:0"));
    const net::file_descriptor one(net::listen_tcp("127.0.0.1:0", {.reuse_port = true}));
    EXPECT_EQ(reason_of([&] { net::steer_by_cpu(alone.get(), 1, {}); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { net::steer_by_flow(alone.get()); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { net::steer_by_cpu(one.get(), 0, {}); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { net::steer_by_cpu(one.get(), 4097, {}); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { net::steer_by_cpu(one.get(), 2, std::vector<unsigned>(2001)); }), errc::invalid_argument);
    EXPECT_NO_THROW(net::steer_by_cpu(one.get(), 2, std::vector<unsigned>(2000, 4095)));
}

TEST(ListenTcp, RefusesWhatIsNotAnAddress) {
    for (const char* bad :
         {"", "8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "::1:80",
          "[::1]80", "[::1", "example.org:80", "127.0.0.1:80 ", "256.0.0.1:80"})
        EXPECT_EQ(reason_of([&] { (void)net::listen_tcp(bad); }), errc::invalid_argument) << bad;
}

TEST(ListenTcp, RefusesASilenceThatTheKernelCannotCount) {
    for (const int seconds : {-1, 32768})
        EXPECT_EQ(reason_of([&] { (void)net::listen_tcp("127.0.0.1:0", {.silence_max_s = seconds}); }),
                  errc::invalid_argument);
    ::close(net::listen_tcp("127.0.0.1:0", {.silence_max_s = 0}));
    ::close(net::listen_tcp("127.0.0.1:0", {.silence_max_s = 32767}));
}

TEST(ListenTcp, SaysWhenThePortIsTaken) {
    const int first = net::listen_tcp("127.0.0.1:0");
    const std::string same = "127.0.0.1:" + std::to_string(net::bound_port(first));
    EXPECT_EQ(reason_of([&] { (void)net::listen_tcp(same); }), errc::already_exists);
    EXPECT_EQ(reason_of([&] { (void)net::listen_tcp(same, {.reuse_port = true}); }), errc::already_exists)
        << "both have to agree to share";
    ::close(first);
    const int shared = net::listen_tcp(same, {.reuse_port = true});
    const int other = net::listen_tcp(same, {.reuse_port = true});
    EXPECT_EQ(net::bound_port(other), net::bound_port(shared));
    ::close(shared);
    ::close(other);
}

TEST(ListenTcp, SaysWhenTheAddressIsNotOurs) {
    EXPECT_EQ(reason_of([] { (void)net::listen_tcp("192.0.2.1:0"); }), errc::not_found);
}

TEST(ListenUnix, ServesWithTheModeAskedFor) {
    const socket_folder folder;
    const int listener = net::listen_unix(folder.file("s"), 0600);
    struct stat status{};
    ASSERT_EQ(::stat(folder.file("s").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    net::server server({listener}, {}, test::echo);
    std::thread loop([&] { server.run(); });
    const int client = connect_unix(folder.file("s"));
    ASSERT_GE(client, 0);
    const std::string request = test::get("/unix", "Connection: close\r\n");
    ASSERT_EQ(::send(client, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    std::string reply;
    char bytes[4096];
    for (ssize_t n; (n = ::recv(client, bytes, sizeof bytes, 0)) > 0;) reply.append(bytes, static_cast<std::size_t>(n));
    EXPECT_NE(reply.find("GET /unix "), std::string::npos) << reply;
    ::close(client);
    server.stop();
    loop.join();
}

/// What a server answers to `client`, which it closes.
std::string exchange(int client, const std::string& request) {
    EXPECT_EQ(::send(client, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    std::string reply;
    char bytes[4096];
    for (ssize_t n; (n = ::recv(client, bytes, sizeof bytes, 0)) > 0;) reply.append(bytes, static_cast<std::size_t>(n));
    ::close(client);
    return reply;
}

int connect_tcp(std::uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return fd;
}

std::string described(const net::peer* who) {
    if (who == nullptr) return "nobody asked";
    if (who->way == net::peer_way::tcp) return "tcp " + who->address;
    if (who->way == net::peer_way::unknown) return "unknown";
    std::string text = "user " + std::to_string(who->user) + " group " + std::to_string(who->group) + " of";
    for (const gid_t group : who->groups) text += " " + std::to_string(group);
    return text + " process " + std::to_string(who->process);
}

std::string described_self() {
    net::peer self;
    self.way = net::peer_way::unix_socket;
    self.user = ::geteuid();
    self.group = ::getegid();
    self.process = ::getpid();
    self.groups.resize(static_cast<std::size_t>(::getgroups(0, nullptr)));
    self.groups.resize(static_cast<std::size_t>(::getgroups(static_cast<int>(self.groups.size()), self.groups.data())));
    return described(&self);
}

// The second of two pipelined requests comes from the buffer of the connection, and asks for the same peer.
TEST(ServerPeers, EachRequestTellsWhoSentIt) {
    const std::string both = test::get("/") + test::get("/", "Connection: close\r\n");
    for (const net::engine_choice engine : {net::engine_choice::epoll, net::engine_choice::automatic}) {
        for (const bool identify : {true, false}) {
            const socket_folder folder;
            const int at_path = net::listen_unix(folder.file("s")), at_port = net::listen_tcp("127.0.0.1:0");
            const std::uint16_t port = net::bound_port(at_port);
            net::server_options options;
            options.engine = engine;
            options.identify_peers = identify;
            net::server server({at_path, at_port}, options,
                               [](const net::request& from, net::response& to) { to.body(described(from.peer())); });
            std::thread loop([&] { server.run(); });
            for (int turn = 0; turn < 2; ++turn) {  // the other way's connection comes to the place of one that is gone
                const std::string by_path = exchange(connect_unix(folder.file("s")), both);
                const std::string by_port = exchange(connect_tcp(port), both);
                const std::string self = identify ? described_self() : "nobody asked";
                const std::string address = identify ? "tcp 127.0.0.1" : "nobody asked";
                EXPECT_NE(by_path.find(self), by_path.rfind(self)) << server.engine() << ": " << by_path;
                EXPECT_NE(by_port.find(address), by_port.rfind(address)) << server.engine() << ": " << by_port;
            }
            server.stop();
            loop.join();
        }
    }
}

TEST(ListenUnix, ReplacesADeadSocketAndNothingElse) {
    const socket_folder folder;
    const int first = net::listen_unix(folder.file("s"));
    EXPECT_EQ(reason_of([&] { (void)net::listen_unix(folder.file("s")); }), errc::already_exists);
    ::close(first);  // as a kill leaves it: the file stays
    const int second = net::listen_unix(folder.file("s"));
    const int client = connect_unix(folder.file("s"));
    EXPECT_GE(client, 0);
    ::close(client);
    ::close(second);
    std::ofstream(folder.file("f")) << "data";
    EXPECT_EQ(reason_of([&] { (void)net::listen_unix(folder.file("f")); }), errc::unsafe_file);
    EXPECT_EQ(reason_of([&] { (void)net::listen_unix(std::string(200, 'x')); }), errc::invalid_name);
    EXPECT_EQ(reason_of([&] { (void)net::listen_unix(""); }), errc::invalid_name);
}

// Both find the same dead socket. Whoever comes second must see the first one living, and leave its socket alone.
TEST(ListenUnix, OfSeveralThatTakeADeadSocketOverOneListens) {
    const socket_folder folder;
    const std::string path = folder.file("s");
    for (int round = 0; round < 200; ++round) {
        ::close(net::listen_unix(path));
        std::array<int, 3> listeners{-1, -1, -1};
        std::atomic<int> waiting{static_cast<int>(listeners.size())};
        std::vector<std::thread> starters;
        for (int& listener : listeners)
            starters.emplace_back([&] {
                for (--waiting; waiting > 0;) std::this_thread::yield();
                try {
                    listener = net::listen_unix(path);
                } catch (const error& e) {
                    EXPECT_EQ(e.reason(), errc::already_exists) << e.what();
                }
            });
        for (std::thread& each : starters) each.join();
        const auto listens = [](int fd) { return fd >= 0; };
        ASSERT_EQ(std::ranges::count_if(listeners, listens), 1) << "round " << round;
        const int client = connect_unix(path);
        EXPECT_GE(client, 0) << "its socket was taken from the one that listens, round " << round;
        for (const int fd : listeners)
            if (listens(fd)) ::close(fd);
        if (client >= 0) ::close(client);
    }
    EXPECT_NE(::access((path + ".lock").c_str(), F_OK), 0) << "the lock is left behind";
}

// Who holds the lock may have found the socket dead and be about to take it away, or be between bind and listen.
TEST(ListenUnix, LeavesEverythingAloneWhileAnotherBegins) {
    const socket_folder folder;
    const std::string path = folder.file("s");
    ::close(net::listen_unix(path));
    struct stat before{};
    ASSERT_EQ(::stat(path.c_str(), &before), 0);
    const int other = ::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(::flock(other, LOCK_EX), 0);
    EXPECT_EQ(reason_of([&] { (void)net::listen_unix(path); }), errc::already_exists);
    struct stat after{};
    ASSERT_EQ(::stat(path.c_str(), &after), 0);
    EXPECT_EQ(after.st_ino, before.st_ino);
    EXPECT_EQ(::access((path + ".lock").c_str(), F_OK), 0) << "a lock that another holds is not ours to remove";
    ::close(other);
    ::close(net::listen_unix(path));
}

TEST(ListenUnix, TakesOverALockThatAKilledStarterLeft) {
    const socket_folder folder;
    std::ofstream(folder.file("s.lock")) << "";
    const int listener = net::listen_unix(folder.file("s"));
    EXPECT_GE(listener, 0);
    EXPECT_NE(::access(folder.file("s.lock").c_str(), F_OK), 0);
    ::close(listener);
}

}  // namespace
