// SPDX-License-Identifier: Apache-2.0
#include "websocket/websocket_subjects.hpp"

#include <unistd.h>

#include <utility>

#include "holdfast/net/server.hpp"
#include "holdfast/version.hpp"

namespace holdfast::bench::websocket {

namespace {

using http::answer_kind;
using http::site;

/// `program` with `words`, which prints where it listens.
http::running_server start(const site& where, const std::filesystem::path& program, std::vector<std::string> words,
                           std::vector<std::string> environment = {}) {
    words.insert(words.begin(), program);
    return http::start_announcing({.arguments = std::move(words),
                                   .environment = std::move(environment),
                                   .cores = where.server_cores,
                                   .log = where.scratch / (program.filename().string() + ".log")});
}

/// The first line of what it prints.
std::string told_by(const site& where, const std::filesystem::path& program, std::vector<std::string> words,
                    std::vector<std::string> environment = {}) {
    words.insert(words.begin(), program);
    std::string text = http::output_of({.arguments = std::move(words),
                                        .environment = std::move(environment),
                                        .cores = {},
                                        .log = where.scratch / (program.filename().string() + "_version.log")});
    return text.substr(0, text.find('\n'));
}

http::subject ours(std::string name, const char* engine) {
    return {
        .name = std::move(name),
        .ours = true,
        .how = {{answer_kind::computed,
                 "channels; a message to many is one text that all share; what waits leaves in one send"}},
        .version =
            [engine = std::string(engine)](const site&) {
                if (engine == "io_uring")
                    if (const std::string lack = net::io_uring_lack(); !lack.empty()) throw http::unavailable(lack);
                return "holdfast " + std::string(version_text);
            },
        .start = [engine](const site& where,
                          answer_kind) { return start(where, where.own_servers / "websocket_net_server", {engine}); }};
}

/// A program that CMake builds from the peer's library.
http::subject compiled(std::string name, const char* program, std::string how) {
    const auto path = [program](const site& where) {
        if (::access((where.own_servers / program).c_str(), X_OK) != 0)
            throw http::unavailable("it is not built; ./dev bench websocket does that where its library is there");
        return where.own_servers / program;
    };
    return {.name = std::move(name),
            .how = {{answer_kind::computed, std::move(how)}},
            .version = [path](const site& where) { return told_by(where, path(where), {"version"}); },
            .start = [path](const site& where, answer_kind) { return start(where, path(where), {}); }};
}

/// A program that peers/build makes; it begins with `words`, also when it is asked for its version.
http::subject of_registry(std::string name, const char* program, std::vector<std::string> words,
                          std::vector<std::string> environment, std::string how) {
    std::vector<std::string> asked = words;
    asked.emplace_back("version");
    return {
        .name = std::move(name),
        .how = {{answer_kind::computed, std::move(how)}},
        .version =
            [=](const site& where) {
                return told_by(where, http::find_built_peer(where, program), asked, environment);
            },
        .start = [=](const site& where,
                     answer_kind) { return start(where, http::find_built_peer(where, program), words, environment); }};
}

http::subject of_rust(const char* name, std::string how) {
    return of_registry(name, "websocket_peer", {name}, {}, std::move(how));
}

}  // namespace

std::vector<http::subject> all_subjects() {
    return {
        ours(net_epoll_name, "epoll"), ours(net_io_uring_name, "io_uring"),
        compiled("Boost.Beast", "websocket_beast_server",
                 "asio told that it has one thread, a message in one frame, a text that all share; what waits goes "
                 "behind a cork"),
        compiled("libwebsockets", "websocket_lws_server",
                 "one service thread with its own loop, receive buffers of a whole message, a frame that all share; "
                 "what waits goes behind a cork"),
        compiled("websocketpp", "websocket_websocketpp_server",
                 "the library and asio told that they have one thread, receive buffers of 64 KiB, the message itself "
                 "sent on with the header of a frame, which all share; it joins what waits in one write"),
        // The collector runs a quarter as often as by default, as in the http suite.
        of_registry("gorilla/websocket", "gorilla_websocket", {}, {"GOMAXPROCS=1", "GOGC=400"},
                    "a goroutine a connection and two a subscriber, messages read into a buffer that stays, a prepared "
                    "message that all share; what waits leaves in one write"),
        of_rust("fastwebsockets",
                "on the socket itself below hyper, tokio's runtime of one thread, bytes that all "
                "share by a broadcast channel of tokio; what waits leaves in one write"),
        of_rust(
            "tokio-tungstenite",
            "tokio's runtime of one thread, bytes that all share by a broadcast channel of tokio; what waits leaves "
            "in one write; a read buffer of 16 KiB, best for messages of a KiB and less: with its default of 128 KiB "
            "echoes of 64 KiB take a third less")};
}

}  // namespace holdfast::bench::websocket
