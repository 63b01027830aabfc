// SPDX-License-Identifier: Apache-2.0
// many_connections.hpp - what suites with thousands of connections at a time need: descriptors, and rest between turns.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "http/child_process.hpp"
#include "http/load.hpp"

namespace holdfast::bench::http {

/// As many descriptors as the hard limit allows, for this process and those it starts, while this lives.
class more_descriptors {
 public:
    more_descriptors() {
        if (::getrlimit(RLIMIT_NOFILE, &before_) != 0) return;
        rlimit more = before_;
        more.rlim_cur = more.rlim_max;
        (void)::setrlimit(RLIMIT_NOFILE, &more);
    }
    ~more_descriptors() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }
    more_descriptors(const more_descriptors&) = delete;
    more_descriptors& operator=(const more_descriptors&) = delete;
    [[nodiscard]] std::size_t most() const noexcept { return static_cast<std::size_t>(before_.rlim_max); }

 private:
    rlimit before_{};
};

/// Waits until a server has done what the end of many connections asks of it: the next one's turn begins on its core.
inline void await_rest(const child_process& server) {
    constexpr int looks_max = 200;
    constexpr std::uint64_t still_ns = 200'000;
    constexpr auto look = std::chrono::milliseconds(5);
    std::uint64_t last = server.cpu_ns();
    for (int i = 0, still = 0; i < looks_max && still < 2; ++i) {
        std::this_thread::sleep_for(look);
        check_interruption();
        const std::uint64_t now = server.cpu_ns();
        still = now - last < still_ns ? still + 1 : 0;
        last = now;
    }
}

/// 10000 as 10,000.
[[nodiscard]] inline std::string count_text(std::size_t count) {
    const std::string digits = std::to_string(count);
    std::string text;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i != 0 && (digits.size() - i) % 3 == 0) text += ',';
        text += digits[i];
    }
    return text;
}

}  // namespace holdfast::bench::http
