// SPDX-License-Identifier: Apache-2.0
// peer_loops.hpp - main() of the peers written in C++ that have a loop and a listener a thread: PROGRAM computed|lookup
// CSV THREADS, or PROGRAM version.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "http/peer_answers.hpp"
#include "peer_main.hpp"

namespace holdfast::bench::http {

/// Server(answers, port), port 0 for any; port(); run(), for ever.
template <class Server>
void serve_by_loops(const peer_answers& answers, std::size_t threads) {
    std::vector<std::unique_ptr<Server>> all;
    for (std::size_t i = 0; i < threads; ++i)
        all.push_back(std::make_unique<Server>(answers, all.empty() ? 0 : all.front()->port()));
    announce(all.front()->port());
    std::vector<std::thread> loops;
    for (const auto& one : all) loops.emplace_back([&one] { one->run(); });
    for (std::thread& loop : loops) loop.join();
}

template <class Server>
int peer_main_by_loops(const char* program, const std::string& version, int count, char** words) {
    return peer_main(program, version, count, words, [&] {
        const long threads = count == 4 ? std::strtol(words[3], nullptr, 10) : 0;
        if (threads < 1 || threads > 1024) {
            std::fprintf(stderr, "usage: %s computed|lookup CSV THREADS, or %s version\n", program, program);
            return 2;
        }
        serve_by_loops<Server>(peer_answers(words[1], words[2]), static_cast<std::size_t>(threads));
        return 0;
    });
}

}  // namespace holdfast::bench::http
