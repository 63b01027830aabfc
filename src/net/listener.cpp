// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/listener.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "file_descriptor.hpp"
#include "holdfast/error.hpp"
#include "socket_address.hpp"

namespace holdfast::net {

namespace {

void set_option(int fd, int level, int option, const std::string& subject) {
    const int on = 1;
    if (setsockopt(fd, level, option, &on, sizeof on) != 0) fail_socket(errno, subject, "setsockopt");
}

/// Keeps everybody else who listens on `path` waiting, by a lock on PATH.lock. Who finds a dead socket may take it away
/// only under this lock: between finding and taking it away, a live one could have come in its place. A socket between
/// bind and listen looks dead, too. The file goes with its holder; one that a killed holder left is taken over.
class path_lock {
 public:
    explicit path_lock(const std::string& path) : name_(path + ".lock") {
        constexpr int tries_max = 200;  // of 5 ms: it is held for some system calls, unless its holder is stopped
        for (int tries = 0; tries < tries_max;) {
            file_ = file_descriptor(::open(name_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
            if (!file_) fail_socket(errno, name_, "open");
            if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) {
                if (still_named()) return;
                continue;  // its holder has just taken it away
            }
            if (errno != EWOULDBLOCK && errno != EINTR) fail_socket(errno, name_, "flock");
            const timespec pause{0, 5'000'000};
            ::nanosleep(&pause, nullptr);
            ++tries;
        }
        throw error(errc::already_exists, path,
                    "another process has been about to listen there for a second; end it, or remove " + name_);
    }
    ~path_lock() { ::unlink(name_.c_str()); }
    path_lock(const path_lock&) = delete;
    path_lock& operator=(const path_lock&) = delete;

 private:
    [[nodiscard]] bool still_named() const {
        struct stat held{};
        struct stat named{};
        return ::fstat(file_.get(), &held) == 0 && ::lstat(name_.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
               held.st_ino == named.st_ino;
    }

    std::string name_;
    file_descriptor file_;
};

}  // namespace

int listen_tcp(std::string_view address, const listen_options& options) {
    const std::string subject(address);
    const auto where = parse_address(address);
    if (!where)
        throw error(errc::invalid_argument, subject,
                    "not an address to listen on; write 127.0.0.1:8080 or [::1]:8080 (port 0 takes a free one)");
    file_descriptor fd(::socket(where->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) fail_socket(errno, subject, "socket");
    // Connections of a predecessor in TIME_WAIT must not keep its successor from the port.
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, subject);
    if (options.reuse_port) set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, subject);
    set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, subject);
    if (where->storage.ss_family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, subject);
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&where->storage), where->size) != 0)
        fail_socket(errno, subject, "bind");
    if (::listen(fd.get(), options.backlog) != 0) fail_socket(errno, subject, "listen");
    return fd.release();
}

int listen_unix(const std::string& path, unsigned mode, const listen_options& options) {
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    if (path.empty() || path.find('\0') != std::string::npos)
        throw error(errc::invalid_name, path, "not a path for a socket; give a plain file name");
    if (path.size() >= sizeof where.sun_path) fail_socket(ENAMETOOLONG, path, "bind");
    std::memcpy(where.sun_path, path.data(), path.size());
    const auto* const name = reinterpret_cast<const sockaddr*>(&where);

    const path_lock alone(path);
    file_descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) fail_socket(errno, path, "socket");
    // Set on the socket before bind, the mode is the file's from its first instant (subject to the umask, so it can
    // only be narrower); a chmod afterwards would leave a moment in which others may connect.
    if (::fchmod(fd.get(), static_cast<mode_t>(mode)) != 0) fail_socket(errno, path, "fchmod");
    if (::bind(fd.get(), name, sizeof where) != 0) {
        if (errno != EADDRINUSE) fail_socket(errno, path, "bind");
        struct stat status{};
        if (::lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode))
            throw error(errc::unsafe_file, path,
                        "something that is not a socket stands there; remove it or choose another path");
        const file_descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (!probe) fail_socket(errno, path, "socket");
        if (::connect(probe.get(), name, sizeof where) == 0 || errno != ECONNREFUSED)
            fail_socket(EADDRINUSE, path, "bind");
        if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail_socket(errno, path, "unlink");
        if (::bind(fd.get(), name, sizeof where) != 0) fail_socket(errno, path, "bind");
    }
    if (::listen(fd.get(), options.backlog) != 0) fail_socket(errno, path, "listen");
    return fd.release();
}

std::uint16_t bound_port(int socket) {
    sockaddr_storage where{};
    socklen_t size = sizeof where;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&where), &size) != 0)
        fail_socket(errno, "socket", "getsockname");
    if (where.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(where).sin6_port);
    return where.ss_family == AF_INET ? ntohs(reinterpret_cast<const sockaddr_in&>(where).sin_port) : std::uint16_t{0};
}

}  // namespace holdfast::net
