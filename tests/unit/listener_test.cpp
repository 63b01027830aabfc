// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/listener.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "holdfast/error.hpp"
#include "holdfast/net/server.hpp"
#include "support/http_server.hpp"

namespace {

using namespace holdfast;

errc reason_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const error& e) {
        EXPECT_NE(std::string(e.what()).find(';'), std::string::npos) << "no cure in: " << e.what();
        return e.reason();
    }
    ADD_FAILURE() << "nothing was thrown";
    return errc::io;
}

class socket_folder {
 public:
    socket_folder() {
        std::string pattern = testing::TempDir() + "holdfast_listener_XXXXXX";
        path_ = ::mkdtemp(pattern.data());
    }
    ~socket_folder() {
        for (const char* name : {"s", "f"}) ::unlink(file(name).c_str());
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

}  // namespace
