// SPDX-License-Identifier: Apache-2.0
// peer_main.hpp - what the programs of peers written in C++ have in common, in C++17, as not all of them are C++20.
#pragma once

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

namespace holdfast::bench {

/// Says where it listens, to whom has started it (start_announcing of http/subject.hpp).
inline void announce(unsigned port) {
    std::printf("listening %u\n", port);
    std::fflush(stdout);
}

/// "Boost 1.81", of BOOST_VERSION.
inline std::string boost_text(int version) {
    return "Boost " + std::to_string(version / 100'000) + "." + std::to_string(version / 100 % 1000);
}

/// main(): `PROGRAM version` says `version`, all else is up to serve(), which returns the exit status.
template <class Serve>
int peer_main(const char* program, const std::string& version, int count, char** words, Serve&& serve) {
    if (count == 2 && std::string_view(words[1]) == "version") {
        std::printf("%s\n", version.c_str());
        return 0;
    }
    try {
        return serve();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s: %s\n", program, e.what());
        return 1;
    }
}

}  // namespace holdfast::bench
