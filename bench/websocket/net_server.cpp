// SPDX-License-Identifier: Apache-2.0
// net_server.cpp - WebSocket with holdfast::net as a program of one's own uses it: one loop, channels.
//
//   websocket_net_server epoll|io_uring
// /echo sends each message back, /publish to every connection of /subscribe. Prints "listening PORT"; SIGTERM ends it.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "holdfast/net/listener.hpp"
#include "holdfast/net/server.hpp"

namespace {

using namespace holdfast;

constexpr std::size_t connections_max = 100'000;
constexpr std::size_t queue_bytes_max = 4U << 20U;

class hub {
 public:
    void answer(const net::request& asked, net::response& to) {
        if (asked.path() == "/echo") return echo(asked, to);
        if (asked.path() == "/subscribe") return subscribe(asked, to);
        if (asked.path() == "/publish") return publish(asked, to);
        to.problem(404, "there are /echo, /subscribe and /publish");
    }

 private:
    static void echo(const net::request& asked, net::response& to) {
        (void)to.websocket(asked, {.queue_bytes_max = queue_bytes_max,
                                   .on_receive = [](const net::channel& from, net::received_message message) {
                                       (void)from.send(std::string(message.payload), message.kind);
                                   }});
    }

    void subscribe(const net::request& asked, net::response& to) {
        const std::uint64_t number = next_++;
        net::channel made =
            to.websocket(asked, {.queue_bytes_max = queue_bytes_max,
                                 .on_close = [this, number](net::channel_end) { subscribers_.erase(number); }});
        if (made.is_open()) subscribers_.emplace(number, std::move(made));
    }

    void publish(const net::request& asked, net::response& to) {
        (void)to.websocket(asked, {.on_receive = [this](const net::channel&, net::received_message message) {
                               const auto shared = std::make_shared<const std::string>(message.payload);
                               for (const auto& [number, each] : subscribers_) (void)each.send(shared, message.kind);
                           }});
    }

    std::unordered_map<std::uint64_t, net::channel> subscribers_;
    std::uint64_t next_ = 0;
};

}  // namespace

int main(int count, char** words) {
    if (count != 2) {
        std::fprintf(stderr, "usage: websocket_net_server epoll|io_uring\n");
        return 2;
    }
    try {
        net::server_options options;
        options.engine =
            std::string_view(words[1]) == "epoll" ? net::engine_choice::epoll : net::engine_choice::io_uring;
        options.limits.connections_max = connections_max;
        hub all;
        const int listener = net::listen_tcp("127.0.0.1:0");
        const int port = net::bound_port(listener);
        net::server server({listener}, options,
                           [&all](const net::request& asked, net::response& to) { all.answer(asked, to); });
        std::printf("listening %d\n", port);
        std::fflush(stdout);
        server.run();
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "websocket_net_server: %s\n", e.what());
        return 1;
    }
}
