// SPDX-License-Identifier: Apache-2.0
// http_client.hpp - a blocking client for tests: raw bytes out, replies in, each wait with a deadline.
//
// It parses replies on its own, apart from the code under test. What is not a reply ends in an exception that says what
// was there instead, so that a test cannot mistake one answer for another.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace holdfast::test {

struct http_reply {
    int status = 0;
    std::string head;  // with the empty line
    std::string body;

    /// The value of the first field of that name, spelled as the server spells it.
    [[nodiscard]] std::string field(std::string_view name) const {
        const std::size_t at = head.find("\r\n" + std::string(name) + ": ");
        if (at == std::string::npos) return {};
        const std::size_t begin = at + 4 + name.size();
        return head.substr(begin, head.find("\r\n", begin) - begin);
    }
};

class http_client {
 public:
    /// Long enough for a loaded machine under a sanitizer; a test that passes never waits it out.
    static constexpr std::chrono::seconds deadline{20};

    struct options {
        int receive_buffer = 0;  // SO_RCVBUF; small values make a slow reader
    };

    explicit http_client(std::uint16_t port) : http_client(port, options{}) {}
    http_client(std::uint16_t port, options wanted) {
        fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd_ < 0) fail("socket");
        const int on = 1;
        ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (wanted.receive_buffer != 0)
            ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &wanted.receive_buffer, sizeof wanted.receive_buffer);
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return;
        if (errno != EINPROGRESS) fail("connect");
        await(POLLOUT, "connect");
        int code = 0;
        socklen_t size = sizeof code;
        ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &code, &size);
        if (code != 0) {
            errno = code;
            fail("connect");
        }
    }
    http_client(const http_client&) = delete;
    http_client& operator=(const http_client&) = delete;
    ~http_client() { close(); }

    /// Sends everything. Throws when the server closed or takes too long.
    void send(std::string_view bytes) {
        if (const std::size_t left = send_while_possible(bytes); left != 0)
            throw std::runtime_error("server closed with " + std::to_string(left) + " bytes unsent");
    }
    /// Sends until done or the connection breaks. Returns: bytes left over.
    std::size_t send_while_possible(std::string_view bytes) {
        while (!bytes.empty()) {
            const std::size_t n = send_now(bytes);
            if (broken_) return bytes.size();
            bytes.remove_prefix(n);
            if (n == 0) await(POLLOUT, "send");
        }
        return 0;
    }
    /// Sends what the socket takes without waiting. Returns: bytes taken.
    std::size_t send_now(std::string_view bytes) {
        const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n >= 0) return static_cast<std::size_t>(n);
        if (errno != EAGAIN && errno != EINTR) broken_ = true;
        return 0;
    }

    /// The next reply; nothing at an orderly end. A reset is an exception, so is anything malformed.
    std::optional<http_reply> receive(bool to_head = false) {
        http_reply reply;
        std::size_t end = 0;
        while ((end = input_.find("\r\n\r\n")) == std::string::npos) {
            if (fill()) continue;
            if (input_.empty()) return std::nullopt;
            throw std::runtime_error("connection ended inside a head: " + input_);
        }
        reply.head = input_.substr(0, end + 4);
        if (reply.head.size() < 15 || !reply.head.starts_with("HTTP/1.1 "))
            throw std::runtime_error("not a reply: " + reply.head);
        reply.status = std::atoi(reply.head.c_str() + 9);
        input_.erase(0, end + 4);
        const std::string length = reply.field("Content-Length");
        const bool bodiless = to_head || reply.status < 200 || reply.status == 204 || reply.status == 304;
        if (bodiless) return reply;
        if (length.empty()) throw std::runtime_error("no Content-Length: " + reply.head);
        const std::size_t bytes = std::strtoull(length.c_str(), nullptr, 10);
        while (input_.size() < bytes)
            if (!fill()) throw std::runtime_error("connection ended inside a body");
        reply.body = input_.substr(0, bytes);
        input_.erase(0, bytes);
        return reply;
    }
    /// receive() that must find a reply.
    http_reply reply(bool to_head = false) {
        auto found = receive(to_head);
        if (!found) throw std::runtime_error("connection closed instead of a reply");
        return *found;
    }
    http_reply ask(std::string_view request) {
        send(request);
        return reply();
    }
    /// What comes up to the end of the next `end`, for what receive() does not know. Throws when nothing ends so.
    std::string read_to(std::string_view end) {
        std::size_t at = 0;
        while ((at = input_.find(end)) == std::string::npos)
            if (!fill()) throw std::runtime_error("connection ended before what was waited for: " + input_);
        std::string taken = input_.substr(0, at + end.size());
        input_.erase(0, taken.size());
        return taken;
    }
    /// The next so many bytes, whatever they are. Throws when there are fewer.
    std::string take(std::size_t bytes) {
        while (input_.size() < bytes)
            if (!fill()) throw std::runtime_error("connection ended before what was waited for: " + input_);
        std::string taken = input_.substr(0, bytes);
        input_.erase(0, bytes);
        return taken;
    }
    /// The next chunk of a chunked body; empty for the last one.
    std::string chunk() {
        const std::size_t bytes = std::strtoull(read_to("\r\n").c_str(), nullptr, 16);
        while (input_.size() < bytes + 2)
            if (!fill()) throw std::runtime_error("connection ended inside a chunk");
        if (input_.compare(bytes, 2, "\r\n") != 0) throw std::runtime_error("not the end of a chunk");
        std::string taken = input_.substr(0, bytes);
        input_.erase(0, bytes + 2);
        return taken;
    }
    /// Whether the server ends the connection in order, with nothing more to say.
    bool ended() { return input_.empty() && !fill(); }
    /// Whether the server ends the connection in any way; what it still says is dropped.
    bool gone() {
        try {
            while (fill()) input_.clear();
        } catch (const std::system_error&) {
        }
        return true;
    }
    /// Whether something can be read within the time.
    bool readable(std::chrono::milliseconds within) const {
        pollfd p{fd_, POLLIN, 0};
        return !input_.empty() || ::poll(&p, 1, static_cast<int>(within.count())) > 0;
    }

    /// Whether the server has reset the connection; nothing is read.
    bool cut() const {
        pollfd p{fd_, 0, 0};
        return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)) != 0;
    }

    /// How many segments with data have come so far.
    [[nodiscard]] std::uint32_t data_segments() const {
        constexpr std::size_t at = 152;  // of tcpi_data_segs_in in tcp_info of linux/tcp.h; that of libc ends before it
        char info[at + sizeof(std::uint32_t)];
        socklen_t size = sizeof info;
        if (::getsockopt(fd_, IPPROTO_TCP, TCP_INFO, info, &size) != 0 || size != sizeof info) fail("TCP_INFO");
        std::uint32_t segments = 0;
        std::memcpy(&segments, info + at, sizeof segments);
        return segments;
    }

    void shutdown_send() { ::shutdown(fd_, SHUT_WR); }
    void close() {
        if (fd_ >= 0) ::close(fd_);
        fd_ = -1;
    }
    /// Closes with a reset instead of an orderly end.
    void reset() {
        const linger abort{1, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
        close();
    }

 private:
    [[noreturn]] static void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

    void await(short events, const char* what) const {
        pollfd p{fd_, events, 0};
        const int ready = ::poll(&p, 1, static_cast<int>(std::chrono::milliseconds(deadline).count()));
        if (ready == 0) throw std::runtime_error(std::string("deadline passed: ") + what);
        if (ready < 0) fail("poll");
    }

    // Returns false at the end of the stream.
    bool fill() {
        char bytes[16384];
        while (true) {
            const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
            if (n > 0) input_.append(bytes, static_cast<std::size_t>(n));
            if (n >= 0) return n > 0;
            if (errno == EAGAIN)
                await(POLLIN, "receive");
            else if (errno != EINTR)
                fail("recv");
        }
    }

    int fd_ = -1;
    bool broken_ = false;
    std::string input_;
};

}  // namespace holdfast::test
