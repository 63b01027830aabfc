// SPDX-License-Identifier: Apache-2.0
#include "http/subject.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "http/load.hpp"

namespace holdfast::bench::http {

namespace {

constexpr std::chrono::seconds start_patience{20};
constexpr int port_attempts = 3;

}  // namespace

void await_answer(running_server& server, const exchange& probe) {
    const auto end = std::chrono::steady_clock::now() + start_patience;
    while (true) {
        check_interruption();
        try {
            return ask_once(loopback(server.port), probe, std::chrono::seconds(2));
        } catch (const server_failed& e) {
            if (server.process->ended()) throw child_failed("it ended at once: " + server.process->log_text());
            if (std::chrono::steady_clock::now() > end)
                throw child_failed(std::string("it does not answer: ") + e.what() +
                                   "; it said: " + server.process->log_text());
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    }
}

running_server start_and_check(const subject& which, const site& where, answer_kind kind) {
    const exchange probe = make_exchanges(where.table, {where.records.front()}, true).front();
    for (int attempt = 1;; ++attempt) {
        running_server server = which.start(where, kind);
        try {
            await_answer(server, probe);
        } catch (const child_failed&) {
            if (attempt == port_attempts) throw;
            continue;
        }
        server.process->note_processes();
        return server;
    }
}

std::filesystem::path find_program(const site& where, const std::string& name) {
    std::vector<std::filesystem::path> folders{where.tools / "usr/sbin", where.tools / "usr/bin"};
    const char* const path = std::getenv("PATH");
    std::istringstream list(path != nullptr ? path : "");
    for (std::string folder; std::getline(list, folder, ':');) folders.emplace_back(folder);
    folders.insert(folders.end(), {"/usr/sbin", "/usr/local/sbin"});
    for (const auto& folder : folders)
        if (::access((folder / name).c_str(), X_OK) == 0) return folder / name;
    throw unavailable(name + " is not installed (packages/bench_tools.txt)");
}

std::filesystem::path find_built_peer(const site& where, const std::string& name) {
    if (::access((where.peers / name).c_str(), X_OK) == 0) return where.peers / name;
    std::ifstream reason(where.peers / (name + ".missing"));
    std::string text;
    if (std::getline(reason, text) && !text.empty()) throw unavailable(text);
    throw unavailable("it is not built; bench/http/peers/build FOLDER does that");
}

std::string library_path(const site& where) {
    const auto unpacked = where.tools / "usr/lib" /
                          (std::string(
#if defined(__aarch64__)
                               "aarch64"
#else
                               "x86_64"
#endif
                               ) +
                           "-linux-gnu");
    const char* const now = std::getenv("LD_LIBRARY_PATH");
    return "LD_LIBRARY_PATH=" + (now != nullptr && *now != '\0' ? std::string(now) + ":" : "") + unpacked.string();
}

std::uint16_t free_port() {
    const net::file_descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw unavailable("there is no free port");
    return ntohs(address.sin_port);
}

void write_file(const std::filesystem::path& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    if (!file.flush()) throw std::runtime_error(path.string() + " cannot be written");
}

running_server start_announcing(child_options options) {
    running_server server;
    server.process = std::make_unique<child_process>(std::move(options));
    const std::string line = server.process->read_line(start_patience);
    const std::string_view digits = std::string_view(line).substr(line.find_last_not_of("0123456789") + 1);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), server.port);
    if (!line.starts_with("listening ") || code != std::errc{} || end != digits.data() + digits.size())
        throw child_failed("it should say where it listens, and said: " + line);
    return server;
}

}  // namespace holdfast::bench::http
