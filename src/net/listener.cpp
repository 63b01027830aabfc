// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/listener.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "file_descriptor.hpp"
#include "holdfast/error.hpp"
#include "socket_address.hpp"

namespace holdfast::net {

namespace {

void set_option(int fd, int level, int option, const std::string& subject, int value = 1) {
    if (setsockopt(fd, level, option, &value, sizeof value) != 0) fail_socket(errno, subject, "setsockopt");
}

// A client that is switched off, or whose network is, says nothing of it. Probes tell of one to whom nothing is sent,
// the time-out of one that acknowledges nothing of what is: tcp(7). Idle connections end before they are probed.
void notice_silence(int fd, int seconds, const std::string& subject) {
    if (seconds == 0) return;
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, subject);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, subject, seconds);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, subject, std::max(1, seconds / 3));
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, subject, seconds * 1000);
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

socket_address require_address(std::string_view text) {
    if (auto where = parse_address(text)) return *where;
    throw error(errc::invalid_argument, std::string(text),
                "not an address to listen on; write 127.0.0.1:8080 or [::1]:8080 (port 0 takes a free one)");
}

std::string text_of(const socket_address& where) {
    const auto* const any = reinterpret_cast<const sockaddr*>(&where.storage);
    if (any->sa_family == AF_UNIX) {
        const auto& file = reinterpret_cast<const sockaddr_un&>(where.storage);
        constexpr std::size_t before = offsetof(sockaddr_un, sun_path);
        const std::size_t bytes = where.size > before ? std::min<std::size_t>(where.size, sizeof file) - before : 0;
        return {file.sun_path, ::strnlen(file.sun_path, bytes)};
    }
    if (any->sa_family != AF_INET && any->sa_family != AF_INET6) return {};
    const bool v6 = any->sa_family == AF_INET6;
    const auto& four = reinterpret_cast<const sockaddr_in&>(where.storage);
    const auto& six = reinterpret_cast<const sockaddr_in6&>(where.storage);
    char text[INET6_ADDRSTRLEN] = "";
    const void* const bytes = v6 ? static_cast<const void*>(&six.sin6_addr) : &four.sin_addr;
    if (::inet_ntop(any->sa_family, bytes, text, sizeof text) == nullptr) return {};
    std::string result;
    result.append(v6 ? "[" : "").append(text).append(v6 ? "]:" : ":");
    return result.append(std::to_string(ntohs(v6 ? six.sin6_port : four.sin_port)));
}

}  // namespace

int listen_tcp(std::string_view address, const listen_options& options) {
    const std::string subject(address);
    constexpr int silence_most_s = 32767;  // what the kernel takes for TCP_KEEPIDLE
    if (options.silence_max_s < 0 || options.silence_max_s > silence_most_s)
        throw error(errc::invalid_argument, subject,
                    "silence_max_s is " + std::to_string(options.silence_max_s) + "; give 1 to 32767 seconds, or 0");
    const socket_address parsed = require_address(address);
    const socket_address* const where = &parsed;
    file_descriptor fd(::socket(where->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) fail_socket(errno, subject, "socket");
    // Connections of a predecessor in TIME_WAIT must not keep its successor from the port.
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, subject);
    if (options.reuse_port) set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, subject);
    set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, subject);
    notice_silence(fd.get(), options.silence_max_s, subject);
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

void steer_by_cpu(int listener, std::size_t listeners, std::span<const unsigned> cpus) {
    constexpr std::size_t listeners_max = 4096, cpus_max = 2000;  // two instructions each, of 4096
    const std::string subject = "descriptor " + std::to_string(listener);
    if (listeners == 0 || listeners > listeners_max || cpus.size() > cpus_max)
        throw error(errc::invalid_argument, subject,
                    std::to_string(listeners) + " listeners for " + std::to_string(cpus.size()) + " CPUs; give 1 to " +
                        std::to_string(listeners_max) + " for at most " + std::to_string(cpus_max));
    const auto count = static_cast<std::uint32_t>(listeners);
    std::vector<sock_filter> steps{
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_CPU)}};
    for (std::size_t i = 0; i < cpus.size(); ++i) {
        steps.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 1, cpus[i]});
        steps.push_back({BPF_RET | BPF_K, 0, 0, static_cast<std::uint32_t>(i) % count});
    }
    steps.push_back({BPF_ALU | BPF_MOD | BPF_K, 0, 0, count});
    steps.push_back({BPF_RET | BPF_A, 0, 0, 0});
    const sock_fprog program{.len = static_cast<unsigned short>(steps.size()), .filter = steps.data()};
    if (::setsockopt(listener, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0) return;
    if (errno == EINVAL)
        throw error(errc::invalid_argument, subject, "is of no group; listen with listen_options::reuse_port");
    fail_socket(errno, subject, "setsockopt(SO_ATTACH_REUSEPORT_CBPF)");
}

void steer_by_flow(int listener) {
    constexpr int detach = 68;  // SO_DETACH_REUSEPORT_BPF, which older headers lack
    const int unused = 0;
    if (::setsockopt(listener, SOL_SOCKET, detach, &unused, sizeof unused) == 0 || errno == ENOENT) return;
    const std::string subject = "descriptor " + std::to_string(listener);
    if (errno == ENOPROTOOPT)
        throw error(errc::unsupported, subject, "this kernel keeps how a group is steered; Linux 5.3 is needed");
    if (errno == EINVAL)
        throw error(errc::invalid_argument, subject, "is of no group; listen with listen_options::reuse_port");
    fail_socket(errno, subject, "setsockopt(SO_DETACH_REUSEPORT_BPF)");
}

std::uint16_t bound_port(int socket) {
    sockaddr_storage where{};
    socklen_t size = sizeof where;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&where), &size) != 0)
        fail_socket(errno, "socket", "getsockname");
    if (where.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(where).sin6_port);
    return where.ss_family == AF_INET ? ntohs(reinterpret_cast<const sockaddr_in&>(where).sin_port) : std::uint16_t{0};
}

std::string bound_address(int socket) {
    socket_address where;
    where.size = sizeof where.storage;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&where.storage), &where.size) != 0)
        fail_socket(errno, "socket", "getsockname");
    return text_of(where);
}

std::string plain_address(std::string_view address) { return text_of(require_address(address)); }

}  // namespace holdfast::net
