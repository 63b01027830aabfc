// SPDX-License-Identifier: Apache-2.0
// http_client.cpp - asks several servers at a time, on one loop, and says what came of each.
//
// usage: example_http_client [URL...]   without one: a server of its own, and a port where nobody listens
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/net/client.hpp"
#include "holdfast/net/listener.hpp"
#include "holdfast/net/server.hpp"

using namespace holdfast;
using namespace std::chrono_literals;

namespace {

void tell(const std::string& url, const net::client_result& got) {
    if (!got.ok()) {
        std::printf("%s: %s (%s)\n", url.c_str(), std::string(net::client_error_name(got.error)).c_str(),
                    got.detail.c_str());
        return;
    }
    std::printf("%s: %d, %zu bytes%s\n", url.c_str(), got.response.status(), got.response.body().size(),
                got.response.is_redirect() ? ", elsewhere" : "");
}

// Asks all at once. Returns: how many answered.
std::size_t ask(const std::vector<std::string>& urls) {
    net::client client({.limits = {.connections_per_origin_max = 4}});
    std::size_t answered = 0, left = urls.size();
    for (const std::string& url : urls) {
        net::client_request asked;
        asked.url = url;
        asked.timeouts.whole = 10s;
        client.start(std::move(asked), {.on_done = [&, url](net::client_result&& got) {
                         tell(url, got);
                         answered += got.ok() ? 1 : 0;
                         if (--left == 0) client.stop();
                     }});
    }
    client.run();
    return answered;
}

// A port that was free a moment ago.
std::uint16_t closed_port() {
    const int listener = net::listen_tcp("127.0.0.1:0");
    const std::uint16_t port = net::bound_port(listener);
    ::close(listener);
    return port;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1) return ask({argv + 1, argv + argc}) != 0 ? 0 : 1;

    const int listener = net::listen_tcp("127.0.0.1:0");
    const std::string here = "http://127.0.0.1:" + std::to_string(net::bound_port(listener));
    net::server server({listener}, {}, [](const net::request& asked, net::response& to) {
        if (asked.path() == "/moved")
            to.status(302).header("Location", "/");
        else
            to.body("you asked for " + std::string(asked.target()) + "\n");
    });
    std::thread loop([&] { server.run(); });
    const std::size_t answered = ask({here + "/", here + "/a?b", here + "/moved",
                                      "http://localhost:" + std::to_string(closed_port()) + "/", "http://127.1/"});
    server.stop();
    loop.join();
    return answered == 3 ? 0 : 1;
}
