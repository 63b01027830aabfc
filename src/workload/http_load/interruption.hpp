// SPDX-License-Identifier: Apache-2.0
// interruption.hpp - Ctrl-C and SIGTERM as an exception, so that every server is ended and every file removed on the
// way out.
//
// The handlers only set a flag; whatever waits here asks for it at least every 100 ms.
#pragma once

#include <signal.h>

#include <array>
#include <cstddef>
#include <stdexcept>

namespace holdfast::workload::http {

struct interrupted : std::runtime_error {
    explicit interrupted(int number) : std::runtime_error("interrupted"), signal(number) {}
    int signal;
};

/// While it lives, SIGINT, SIGTERM and SIGHUP set the flag, and SIGPIPE is ignored. Afterwards they do what they did
/// before.
class interruption_watch {
 public:
    interruption_watch();
    ~interruption_watch();
    interruption_watch(const interruption_watch&) = delete;
    interruption_watch& operator=(const interruption_watch&) = delete;

 private:
    static constexpr std::array numbers{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    std::array<struct sigaction, numbers.size()> before_{};
};

/// Throws interrupted once such a signal came.
void check_interruption();

}  // namespace holdfast::workload::http
