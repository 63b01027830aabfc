// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/listener.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/peer.hpp"
#include "holdfast/net/server.hpp"
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

TEST(ListenTcp, RefusesWhatIsNotAnAddress) {
    for (const char* bad :
         {"", "8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "::1:80",
          "[::1]80", "[::1", "example.org:80", "127.0.0.1:80 ", "256.0.0.1:80"})
        EXPECT_EQ(reason_of([&] { (void)net::listen_tcp(bad); }), errc::invalid_argument) << bad;
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
