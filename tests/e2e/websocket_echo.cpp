// SPDX-License-Identifier: Apache-2.0
// websocket_echo.cpp - a server that sends back each message of a WebSocket, for clients that others wrote.
//
//   websocket_echo epoll|io_uring [deflate]     says "listening PORT"; serves until its standard input ends
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "holdfast/net/channel.hpp"
#include "holdfast/net/listener.hpp"
#include "holdfast/net/server.hpp"

namespace {

using namespace holdfast;

constexpr std::size_t message_bytes_max = 32U << 20U;  // the largest that the Autobahn suite sends is 16 MiB

void echo(const net::request& asked, net::response& answer, bool deflate) {
    static_cast<void>(answer.websocket(
        asked,
        {.queue_bytes_max = 2 * message_bytes_max,
         .on_receive = [](const net::channel& from,
                          net::received_message message) { from.send(std::string(message.payload), message.kind); }},
        {.limits = {.frame_bytes_max = message_bytes_max, .message_bytes_max = message_bytes_max},
         .permessage_deflate = deflate}));
}

}  // namespace

int main(int count, char** words) {
    try {
        net::server_options options;
        options.engine = count > 1 && std::string_view(words[1]) == "io_uring" ? net::engine_choice::io_uring
                                                                               : net::engine_choice::epoll;
        const bool deflate = count > 2 && std::string_view(words[2]) == "deflate";
        const int listener = net::listen_tcp("127.0.0.1:0");
        const int port = net::bound_port(listener);
        net::server server({listener}, options, [deflate](const net::request& asked, net::response& answer) {
            echo(asked, answer, deflate);
        });
        server.watch(STDIN_FILENO, [&server] { server.stop(); });
        std::printf("listening %d\n", port);
        std::fflush(stdout);
        server.run();
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "websocket_echo: %s\n", e.what());
        return 1;
    }
}
