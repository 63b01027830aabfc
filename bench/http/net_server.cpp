// SPDX-License-Identifier: Apache-2.0
// net_server.cpp - holdfast::net as a program of one's own uses it: a handler, a thread a core, no counting.
//
//   http_net_server epoll|io_uring computed|lookup TABLE THREADS
// The last part of the path is an id. computed: what is answered follows from it by arithmetic (computed.hpp). lookup:
// it is a key of TABLE, a hash table in shared memory.
// Prints "listening PORT"; SIGTERM ends it.
#include <signal.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/net/listener.hpp"
#include "holdfast/net/server.hpp"
#include "http/computed.hpp"

namespace {

using namespace holdfast;

struct user_record {
    std::uint64_t user;
    char name[8];
};

using table_reader = hash_table_reader<std::uint64_t, user_record>;

/// Text and numbers one behind the other, in a place that has room for them: a body takes them at once.
class short_text {
 public:
    short_text& put(std::string_view piece) noexcept {
        end_ += piece.copy(end_, piece.size());
        return *this;
    }
    short_text& put(std::uint64_t number) noexcept {
        end_ = std::to_chars(end_, text_ + sizeof text_, number).ptr;
        return *this;
    }
    [[nodiscard]] std::string_view view() const noexcept { return {text_, static_cast<std::size_t>(end_ - text_)}; }

 private:
    char text_[64];  // two numbers of 20 digits at most, and 22 characters between them
    char* end_ = text_;
};

void answer(net::response& to, std::uint64_t id, std::uint64_t user, std::string_view name) {
    static const net::prepared_header type("Content-Type", "application/json"), control("Cache-Control", "no-store");
    to.header(type).header(control);
    std::string& body = to.body_buffer();
    body.append(short_text().put("{\"id\":").put(id).put(",\"user\":").put(user).put(",\"name\":").view());
    net::append_json_string(body, name);
    body += '}';
}

/// The number that is the last part of the path.
std::optional<std::uint64_t> id_in(const net::request& from) {
    const std::string_view path = from.path(), key = path.substr(path.rfind('/') + 1);
    std::uint64_t id = 0;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    return code == std::errc{} && end == key.data() + key.size() ? std::optional(id) : std::nullopt;
}

void compute(const net::request& from, net::response& to) {
    const std::optional<std::uint64_t> id = id_in(from);
    if (!id) return void(to.problem(404, "no such entry"));
    const bench::http::computed_entry made = bench::http::computed_from(*id);
    answer(to, *id, made.user, made.name());
}

void look_up(const table_reader& table, const net::request& from, net::response& to) {
    const std::optional<std::uint64_t> id = id_in(from);
    const auto found = id ? table.find(*id) : std::nullopt;
    if (!found) return void(to.problem(404, "no such entry"));
    answer(to, *id, found->user, std::string_view(found->name, ::strnlen(found->name, sizeof found->name)));
}

net::handler handler_of(bool lookup, const char* table) {
    if (!lookup) return compute;
    const auto reader = std::make_shared<const table_reader>(table_reader::attach(table));
    return [reader](const net::request& from, net::response& to) { look_up(*reader, from, to); };
}

void serve(net::engine_choice engine, bool lookup, const char* table, std::size_t threads) {
    sigset_t wanted;
    ::sigemptyset(&wanted);
    ::sigaddset(&wanted, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr);  // inherited by the loops: it is taken by sigwait below
    net::server_options options;
    options.engine = engine;
    std::string address = "127.0.0.1:0";
    std::vector<std::unique_ptr<net::server>> servers;
    for (std::size_t i = 0; i < threads; ++i) {
        const int listener = net::listen_tcp(address, {.reuse_port = true});
        address = "127.0.0.1:" + std::to_string(net::bound_port(listener));
        servers.push_back(
            std::make_unique<net::server>(std::vector<int>{listener}, options, handler_of(lookup, table)));
    }
    std::vector<std::thread> loops;
    for (const auto& server : servers) loops.emplace_back([&server] { server->run(); });
    std::printf("listening %s\n", address.substr(address.find(':') + 1).c_str());
    std::fflush(stdout);
    int number = 0;
    ::sigwait(&wanted, &number);
    for (const auto& server : servers) server->stop();
    for (std::thread& loop : loops) loop.join();
}

}  // namespace

int main(int count, char** words) {
    const long threads = count == 5 ? std::strtol(words[4], nullptr, 10) : 0;
    if (threads < 1 || threads > 1024) {
        std::fprintf(stderr, "usage: http_net_server epoll|io_uring computed|lookup TABLE THREADS\n");
        return 2;
    }
    try {
        const bool epoll = std::string_view(words[1]) == "epoll", lookup = std::string_view(words[2]) == "lookup";
        serve(epoll ? net::engine_choice::epoll : net::engine_choice::io_uring, lookup, words[3],
              static_cast<std::size_t>(threads));
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "http_net_server: %s\n", e.what());
        return 1;
    }
}
