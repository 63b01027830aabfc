// SPDX-License-Identifier: Apache-2.0
// scripted_server.hpp - a server that does as a test tells it: each connection runs a script of sends, cuts and waits.
//
// A script runs in a thread of its own. What it waits for comes within a deadline or ends the script; ended scripts
// close their connection. finished() waits for all of them.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "holdfast/net/listener.hpp"

namespace holdfast::test {

class scripted_peer {
 public:
    /// Long enough for a loaded machine under a sanitizer; a test that passes never waits it out.
    static constexpr int deadline_ms = 20000;

    explicit scripted_peer(int fd) : fd_(fd) {}
    scripted_peer(const scripted_peer&) = delete;
    scripted_peer& operator=(const scripted_peer&) = delete;
    ~scripted_peer() { close(); }

    /// What comes up to the end of the next `end`. Throws when nothing ends so.
    std::string read_to(std::string_view end) {
        std::size_t at = 0;
        while ((at = input_.find(end)) == std::string::npos)
            if (!fill()) throw std::runtime_error("the client ended first: " + input_);
        std::string taken = input_.substr(0, at + end.size());
        input_.erase(0, taken.size());
        return taken;
    }
    /// The head of a request.
    std::string request() { return read_to("\r\n\r\n"); }
    /// The next so many bytes.
    std::string take(std::size_t bytes) {
        while (input_.size() < bytes)
            if (!fill()) throw std::runtime_error("the client ended first");
        std::string taken = input_.substr(0, bytes);
        input_.erase(0, bytes);
        return taken;
    }
    /// What has come, or comes next; empty at the end.
    std::string some() {
        if (input_.empty()) fill();
        return std::exchange(input_, {});
    }
    /// Sends what the client takes; false once it has gone.
    bool send(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (n > 0) {
                bytes.remove_prefix(static_cast<std::size_t>(n));
            } else {
                pollfd p{fd_, POLLOUT, 0};
                if (errno != EAGAIN || ::poll(&p, 1, deadline_ms) <= 0) return false;
            }
        }
        return true;
    }
    /// Whether the client ends the connection, in any way.
    bool gone() {
        try {
            while (fill()) input_.clear();
        } catch (const std::runtime_error&) {
            return false;
        }
        return true;
    }
    void close() {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }
    void shutdown_send() { ::shutdown(fd_, SHUT_WR); }
    /// Closes with a reset instead of an orderly end.
    void reset() {
        const linger abort{1, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
        close();
    }

 private:
    // Returns false at the end.
    bool fill() {
        char bytes[16384];
        while (true) {
            const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
            if (n > 0) input_.append(bytes, static_cast<std::size_t>(n));
            if (n > 0) return true;
            if (n == 0 || errno == ECONNRESET || errno == EPIPE) return false;
            pollfd p{fd_, POLLIN, 0};
            if (::poll(&p, 1, deadline_ms) == 0) throw std::runtime_error("nothing came");
        }
    }

    int fd_;
    std::string input_;
};

class scripted_server {
 public:
    /// `number` counts connections from 0.
    using script = std::function<void(scripted_peer& peer, int number)>;

    explicit scripted_server(script each)
        : listener_(net::listen_tcp("127.0.0.1:0")), port_(net::bound_port(listener_)), each_(std::move(each)) {
        acceptor_ = std::thread([this] { accept(); });
    }
    ~scripted_server() {
        ending_ = true;
        ::shutdown(listener_, SHUT_RDWR);  // ends the wait of the acceptor
        acceptor_.join();
        scripts_.clear();
        ::close(listener_);
    }
    scripted_server(const scripted_server&) = delete;
    scripted_server& operator=(const scripted_server&) = delete;

    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    [[nodiscard]] std::string url(std::string_view target = "/",
                                  std::string_view before_port = "http://127.0.0.1:") const {
        std::string made(before_port);
        made.append(std::to_string(port_)).append(target);
        return made;
    }
    [[nodiscard]] int connections() const noexcept { return connections_; }

 private:
    void accept() {
        while (!ending_) {
            pollfd p{listener_, POLLIN, 0};
            if (::poll(&p, 1, -1) < 0) continue;
            const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (fd < 0) continue;
            scripts_.emplace_back([this, fd, number = connections_++] {
                scripted_peer peer(fd);
                try {
                    each_(peer, number);
                } catch (const std::exception&) {
                    // The client went first: what it got tells the test.
                }
            });
        }
    }

    int listener_;
    std::uint16_t port_;
    script each_;
    std::atomic<bool> ending_{false};
    std::atomic<int> connections_{0};
    std::list<std::jthread> scripts_;  // the acceptor's until it has ended
    std::thread acceptor_;
};

}  // namespace holdfast::test
