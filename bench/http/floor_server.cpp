// SPDX-License-Identifier: Apache-2.0
// floor_server.cpp - what the system calls of an answer cost: epoll_wait, recv, send, and nothing between them.
//
//   http_floor_server BODY REQUEST_BYTES THREADS
// Looks at no byte it gets: each REQUEST_BYTES of a connection are a request, and BODY is the answer. That is no
// server, and what one costs beyond it is what it does of its own. Prints "listening PORT"; SIGTERM ends it.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "holdfast/net/listener.hpp"
#include "net/file_descriptor.hpp"

namespace {

using namespace holdfast;

constexpr std::size_t answers_max = 64;  // in one send

/// The fields that holdfast::net sends, with the date of the start.
std::string answer_of(const std::string& body) {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::array<char, 64> date{};
    (void)std::strftime(date.data(), date.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    return std::string("HTTP/1.1 200 OK\r\nDate: ") + date.data() +
           "\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
}

class bare_loop {
 public:
    bare_loop(int listener, const std::string& answer, std::size_t request_bytes)
        : listener_(listener),
          epoll_(::epoll_create1(EPOLL_CLOEXEC)),
          answer_bytes_(answer.size()),
          request_bytes_(request_bytes) {
        for (std::size_t i = 0; i < answers_max; ++i) answers_ += answer;
        watch(listener_.get());
    }

    [[noreturn]] void run() {
        while (true) {
            std::array<epoll_event, 256> events;
            const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
            for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(count, 0)))) {
                if (event.data.fd == listener_.get())
                    accept_all();
                else
                    answer(event.data.fd);
            }
        }
    }

 private:
    void watch(int fd) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.fd = fd;
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
            throw std::system_error(errno, std::generic_category(), "epoll_ctl");
    }

    void accept_all() {
        for (int fd = 0; (fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
            if (static_cast<std::size_t>(fd) >= received_.size()) received_.resize(static_cast<std::size_t>(fd) + 1);
            received_[static_cast<std::size_t>(fd)] = 0;
            watch(fd);
        }
    }

    void answer(int fd) {
        const ssize_t n = ::recv(fd, input_.data(), input_.size(), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) {
            ::close(fd);
            return;
        }
        std::size_t& received = received_[static_cast<std::size_t>(fd)];
        received += static_cast<std::size_t>(n);
        while (received >= request_bytes_) {
            const std::size_t count = std::min(received / request_bytes_, answers_max);
            received -= count * request_bytes_;
            // What a client here has under way is far smaller than any socket buffer; one that it is too much for ends.
            const std::size_t bytes = count * answer_bytes_;
            if (::send(fd, answers_.data(), bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes)) continue;
            ::close(fd);
            return;
        }
    }

    net::file_descriptor listener_, epoll_;
    std::string answers_;
    std::size_t answer_bytes_, request_bytes_;
    std::vector<std::size_t> received_;  // [descriptor], bytes that are not answered yet
    std::array<char, 65'536> input_;
};

void serve(const std::string& body, std::size_t request_bytes, std::size_t threads) {
    const std::string answer = answer_of(body);
    std::string address = "127.0.0.1:0";
    std::vector<std::thread> loops;
    for (std::size_t i = 0; i < threads; ++i) {
        const int listener = net::listen_tcp(address, {.reuse_port = true});
        address = "127.0.0.1:" + std::to_string(net::bound_port(listener));
        loops.emplace_back([&answer, listener, request_bytes] {
            const auto loop = std::make_unique<bare_loop>(listener, answer, request_bytes);
            loop->run();
        });
    }
    std::printf("listening %s\n", address.substr(address.find(':') + 1).c_str());
    std::fflush(stdout);
    for (std::thread& loop : loops) loop.join();
}

}  // namespace

int main(int count, char** words) {
    const long request_bytes = count == 4 ? std::strtol(words[2], nullptr, 10) : 0;
    const long threads = count == 4 ? std::strtol(words[3], nullptr, 10) : 0;
    if (request_bytes < 1 || threads < 1 || threads > 1024) {
        std::fprintf(stderr, "usage: http_floor_server BODY REQUEST_BYTES THREADS\n");
        return 2;
    }
    try {
        serve(words[1], static_cast<std::size_t>(request_bytes), static_cast<std::size_t>(threads));
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "http_floor_server: %s\n", e.what());
        return 1;
    }
}
