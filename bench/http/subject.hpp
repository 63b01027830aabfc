// SPDX-License-Identifier: Apache-2.0
// subject.hpp - a server that is measured: how it is found, started in its best settings, and asked for its version.
//
// One adapter file a subject (own_servers.cpp, peer_*.cpp). All get the same records, the same cores and the same
// limits; what each does to answer is a line of its own, printed with the results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "http/child_process.hpp"
#include "http/exchange.hpp"

namespace holdfast::bench::http {

/// What is asked of a server: always the same entry, whose JSON whoever can compute does compute for each request; or
/// any of all.
enum class answer_kind : std::uint8_t { computed, lookup };

/// As the servers of the suite take it on their command lines.
[[nodiscard]] inline const char* word_of(answer_kind kind) noexcept {
    return kind == answer_kind::computed ? "computed" : "lookup";
}

/// What a subject may use.
struct site {
    std::filesystem::path scratch;      ///< an empty folder, removed in the end
    std::filesystem::path program;      ///< holdfast
    std::filesystem::path own_servers;  ///< folder of http_net_server and http_floor_server
    std::filesystem::path
        peers;  ///< folder of the peers that are built from source; NAME.missing says why one is not there
    std::filesystem::path tools;         ///< unpacked packages, searched before PATH
    std::vector<unsigned> server_cores;  ///< one worker each
    std::string table;                   ///< name of the segment, and the last part but one of every path
    std::vector<record> records;         ///< the first is the one that is always asked for
    std::filesystem::path csv;           ///< the same as a file
    unsigned connections_max = 256;
};

/// A subject cannot run here; the text is the reason that the report gives.
struct unavailable : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct running_server {
    std::unique_ptr<child_process> process;
    std::uint16_t port = 0;
};

struct subject {
    std::string name;
    bool ours = false;       ///< only what this machine cannot do excuses it; a peer may be missing
    bool only_kept = false;  ///< it has no part in workloads of a connection a request
    std::map<answer_kind, std::string> how = {};      ///< what it does to answer
    std::string lack = {};                            ///< why it gives no answer of another kind
    std::function<std::string(const site&)> version;  ///< as the program itself says. Throws: unavailable, child_failed
    std::function<running_server(const site&, answer_kind)>
        start;  ///< ready or about to be. Throws: unavailable, child_failed
};

/// On either engine, as a user starts it and as a program of one's own. Those of io_uring throw unavailable where the
/// kernel gives none.
[[nodiscard]] subject holdfast_serve_epoll();
[[nodiscard]] subject holdfast_serve_io_uring();
[[nodiscard]] subject holdfast_net_epoll();
[[nodiscard]] subject holdfast_net_io_uring();
/// The system calls of an answer without a server (floor_server.cpp).
[[nodiscard]] subject bare_loop();
[[nodiscard]] subject nginx();
[[nodiscard]] subject h2o();
[[nodiscard]] subject boost_beast();
[[nodiscard]] subject restinio();
[[nodiscard]] subject go_net_http();
[[nodiscard]] subject hyper();
[[nodiscard]] subject may_minihttp();

/// Starts it and waits until it gives the right answer. A port taken by another in the meantime is tried anew.
/// Throws: unavailable, child_failed, wrong_answer, server_failed, interrupted.
[[nodiscard]] running_server start_and_check(const subject& which, const site& where, answer_kind kind);

/// Asks until the answer comes; how long that takes is the server's affair, so there is nothing to wait on but the
/// answer. Throws: child_failed, wrong_answer, interrupted.
void await_answer(running_server& server, const exchange& probe);

/// For adapters: the first that is executable of SITE.tools/usr/{bin,sbin}/NAME and PATH. Throws: unavailable.
[[nodiscard]] std::filesystem::path find_program(const site& where, const std::string& name);
/// SITE.peers/NAME, or the reason in NAME.missing. Throws: unavailable.
[[nodiscard]] std::filesystem::path find_built_peer(const site& where, const std::string& name);
/// Libraries of unpacked packages, as an environment entry; what is installed comes first.
[[nodiscard]] std::string library_path(const site& where);
/// A port of 127.0.0.1 nobody listens on now, for programs that cannot choose one themselves.
[[nodiscard]] std::uint16_t free_port();
void write_file(const std::filesystem::path& path, const std::string& text);
/// `holdfast serve` with these words behind it, once it says where it listens.
[[nodiscard]] running_server start_serving(const site& where, std::vector<std::string> words);
/// For servers of ours that print "listening PORT" first.
[[nodiscard]] running_server start_announcing(child_options options);

}  // namespace holdfast::bench::http
